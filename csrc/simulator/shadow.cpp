#include "simulator/shadow.h"

#include <utility>

namespace tilewright::sim {

void Page::refine(uint32_t to) {
  const uint32_t parts = 1u << (shift - to);
  std::vector<Cell> fine;
  fine.reserve(cells.size() * parts);
  for (const Cell& cell : cells) {
    for (uint32_t i = 0; i < parts; ++i) {
      fine.push_back(cell);
      if (i > 0) fine.back().more = copy_more(cell.more);
    }
  }
  cells = std::move(fine);
  shift = to;
}

uint32_t Page::copy_more(uint32_t from) {
  if (from == 0) return 0;
  const uint32_t next = copy_more(more[from - 1].next), id = new_more();
  more[id - 1].marks = more[from - 1].marks;
  more[id - 1].next = next;
  return id;
}

void Page::forget() {
  cells.assign(kBytes >> 2, Cell());
  shift = 2;
  more.clear();
  free_more = 0;
}

uint32_t Page::new_more() {
  if (free_more) {
    const uint32_t id = free_more;
    free_more = more[id - 1].next;
    more[id - 1] = MoreReads();
    return id;
  }
  more.emplace_back();
  return static_cast<uint32_t>(more.size());
}

void Page::free_reads(Cell& cell) {
  cell.reads[0] = cell.reads[1] = Mark();
  while (cell.more) {
    const uint32_t id = cell.more;
    cell.more = more[id - 1].next;
    more[id - 1].next = free_more;
    free_more = id;
  }
}

Page& SharedShadow::page(uint32_t offset) {
  const uint32_t number = offset >> Page::kShift;
  if (number >= pages_.size()) pages_.resize(number + 1);
  std::unique_ptr<Page>& page = pages_[number];
  if (!page) page = std::make_unique<Page>();
  if (page->generation != generation_) {
    if (page->generation) page->forget();
    page->generation = generation_;
  }
  return *page;
}

Page& GlobalShadow::page(uint64_t number) {
  Shard& shard = shards_[number % shards_.size()];
  const std::lock_guard<std::mutex> lock(shard.mutex);
  std::unique_ptr<Page>& page = shard.pages[number];
  if (!page) page = std::make_unique<Page>();
  return *page;
}

}  // namespace tilewright::sim
