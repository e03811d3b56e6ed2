#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

// What the checks remember of memory: for each place the last writes, and the reads since.
namespace tilewright::sim {

// One access to one place.
struct Mark {
  static constexpr uint16_t kNobody = 0xffff;
  enum Flags : uint8_t {
    kAtomic = 1,
    kAsync = 2,     // by an asynchronous copy: its time is that of its agent
    kMbarrier = 4,  // the place holds an mbarrier
  };
  uint32_t time = 0;
  uint32_t site = 0;  // the instruction's number in the kernel
  uint32_t cluster = 0;
  uint16_t agent = kNobody;
  int8_t lane = -1;  // -1: several lanes
  uint8_t flags = 0;
  bool is_set() const { return agent != kNobody; }
};

struct Cell {
  Mark write;   // not atomic
  Mark atomic;  // since then, the last atomic one
  Mark reads[2];
  uint32_t more = 0;  // further readers: Page::more, from 1
};

struct MoreReads {
  std::array<Mark, 3> marks;
  uint32_t next = 0;
};

// The cells of 1 KiB: one a word, or a half or byte where accesses are that small.
struct Page {
  static constexpr uint32_t kShift = 10;
  static constexpr uint32_t kBytes = 1u << kShift;
  uint32_t shift = 2;  // log2 of the bytes of a cell
  uint32_t generation = 0;
  std::vector<Cell> cells;
  std::vector<MoreReads> more;
  uint32_t free_more = 0;
  std::atomic_flag busy = ATOMIC_FLAG_INIT;

  Page() : cells(kBytes >> 2) {}
  void refine(uint32_t to);  // smaller cells, each with what the larger one holds
  void forget();
  uint32_t new_more();
  uint32_t copy_more(uint32_t from);
  void free_reads(Cell& cell);
};

// Shared memory of one block.
class SharedShadow {
 public:
  Page& page(uint32_t offset);
  void forget() { ++generation_; }  // all pages, when next used

 private:
  uint32_t generation_ = 1;
  std::vector<std::unique_ptr<Page>> pages_;
};

// Global memory of a launch, by address. Pages are made when first touched; engines share them.
class GlobalShadow {
 public:
  Page& page(uint64_t number);

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;
  };
  std::array<Shard, 64> shards_;
};

}  // namespace tilewright::sim
