#include "simulator/watch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "simulator/machine.h"

namespace tilewright::sim {
namespace {

constexpr uint64_t kNoMbarrier = 0;

class PageLock {
 public:
  PageLock(Page& page, bool needed) : page_(needed ? &page : nullptr) {
    if (page_)
      while (page_->busy.test_and_set(std::memory_order_acquire)) {
      }
  }
  ~PageLock() {
    if (page_) page_->busy.clear(std::memory_order_release);
  }
  PageLock(const PageLock&) = delete;
  PageLock& operator=(const PageLock&) = delete;

 private:
  Page* page_;
};

// The statement of a kernel-wide instruction number.
std::string site_text(const Kernel& kernel, uint32_t site) {
  for (const auto& code : kernel.codes) {
    if (site < code->count_base || site - code->count_base >= code->instrs.size()) continue;
    const Statement& s = code->syntax->statements[code->instrs[site - code->count_base].statement];
    std::string text = "line " + std::to_string(s.at.line) + ": " + std::string(s.text);
    std::replace_if(text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
    return text;
  }
  return "?";
}

uint32_t site_of(const Instr& in, const Warp& w) {
  return w.now.code->count_base + static_cast<uint32_t>(&in - w.code_begin);
}

}  // namespace

// One access, on its way through the cells.
struct Watch::Touch {
  const Warp* warp = nullptr;
  const WarpState* state = nullptr;
  uint16_t warp_agent = 0;
  Mark mark;  // what it leaves
  Access access = Access::kRead;
  Space space = Space::kGlobal;
  bool proxy = false;            // through the asynchronous proxy
  bool needs_value = false;      // reads what somebody must have written
  int lane = 0;                  // that performs it
  const Instr* store = nullptr;  // an ordinary store of registers, to `begin`
  uint64_t begin = 0;
  bool writes() const { return access != Access::kRead; }
  bool leaves_as_it_is(uint64_t address, uint32_t bytes) const;
};

// Whether a store writes the bytes that are there already.
bool Watch::Touch::leaves_as_it_is(uint64_t address, uint32_t bytes) const {
  if (!store) return false;
  std::array<std::byte, 16> image{};
  for (uint32_t e = 0; e < store->vector; ++e) {
    const uint32_t slot = store->vector == 1 ? store->d : warp->now.code->lists[store->list + e];
    std::memcpy(image.data() + e * store->bytes, warp->regs + slot + static_cast<size_t>(lane) * store->reg_bytes,
                store->bytes);
  }
  return std::memcmp(image.data() + (address - begin), reinterpret_cast<const void*>(address), bytes) == 0;
}

void Watch::Knowledge::join(const Knowledge& other) {
  known.join(other.known);
  pending.join(other.pending);
  fenced.join(other.fenced);
  fenced_block.join(other.fenced_block);
  proxied.join(other.proxied);
}

void Watch::Knowledge::clear() {
  known.clear();
  pending.clear();
  fenced.clear();
  fenced_block.clear();
  proxied.clear();
}

Watch::Watch(Launch& launch, uint32_t blocks, uint32_t warps)
    : launch_(launch),
      shared_(*launch.watch),
      races_(launch.config.check_races),
      uninitialized_(launch.config.check_uninitialized),
      blocks_(blocks),
      warps_a_block_(warps),
      memory_(blocks) {}

void Watch::start(uint32_t cluster, const std::vector<Block*>& blocks) {
  blocks_of_ = blocks;
  cluster_ = cluster;
  warps_.assign(size_t{blocks_} * warps_a_block_, WarpState());
  agents_.assign(warps_.size(), Agent());
  for (size_t a = 0; a < warps_.size(); ++a) {
    warps_[a].agent = static_cast<uint16_t>(a);
    warps_[a].knows.known.clock.raise(a, 1);
  }
  barriers_.assign(blocks_, {});
  cluster_arriving_.clear();
  cluster_complete_.clear();
  for (SharedShadow& m : memory_) m.forget();
  locations_.clear();
  mbarriers_.clear();
}

uint16_t Watch::agent_of(const Warp& w) const {
  return static_cast<uint16_t>(w.block->rank * warps_a_block_ + w.index);
}

uint16_t Watch::new_agent(const Warp& w, const char* what, bool of_mbarrier) {
  if (agents_.size() >= Mark::kNobody) fault("the checks know no more than 65535 mbarriers and warps of a cluster");
  agents_.push_back({agent_of(w), what, of_mbarrier});
  return static_cast<uint16_t>(agents_.size() - 1);
}

void Watch::tick(WarpState& s) { s.knows.known.clock.raise(s.agent, ++s.time); }

// What happened before `from` was said has now happened before what the warp does next.
void Watch::learn(WarpState& s, const Knowledge& from) {
  s.knows.join(from);
  s.synced = std::max(s.synced, from.known.clock.at(s.agent) + 1);
}

// ---- accesses ------------------------------------------------------------------------------------------------------

void Watch::access(const Instr& in, Warp& w, Space space, const uint64_t* at, uint32_t mask, uint32_t bytes,
                   bool store) {
  WarpState& s = state(w);
  const bool read_modify_write = in.kind == Kind::kAtomic, atomic = read_modify_write || in.flag;
  if (races_ && atomic) synchronise(in, w, space, at, mask, store, !store || (read_modify_write && in.d != kNone));
  Touch t;
  t.warp = &w;
  t.state = &s;
  t.warp_agent = s.agent;
  t.space = space;
  t.access = atomic && store ? Access::kAtomic : store ? Access::kWrite : Access::kRead;
  t.mark = {s.time, site_of(in, w), cluster_, s.agent, 0, static_cast<uint8_t>(atomic ? Mark::kAtomic : 0)};
  static const Handler plain_store = find_handler("st");
  if (in.fn == plain_store && !atomic) t.store = &in;
  const bool needs_value = uninitialized_ && (!store || read_modify_write) && space == Space::kShared;
  const bool look_up =
      uninitialized_ && (!store || read_modify_write) && space == Space::kGlobal && shared_.any_uninitialized;
  for (uint32_t m = mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    t.lane = lane;
    t.mark.lane = static_cast<int8_t>(lane);
    t.needs_value = needs_value;
    if (look_up) {
      const Region* r = find_region(launch_, at[lane], bytes);
      t.needs_value = r && !r->initialized;
    }
    t.begin = at[lane];
    touch(t, space, at[lane], bytes);
  }
}

void Watch::touch(const Touch& t, Space space, uint64_t address, uint64_t bytes) {
  while (bytes > 0) {
    uint32_t offset, left;
    if (space == Space::kShared) {
      Page& page = shared_page(address, offset, left);
      left = static_cast<uint32_t>(std::min<uint64_t>(left, bytes));
      touch_page(t, page, address, offset, left);
    } else {
      offset = static_cast<uint32_t>(address & (Page::kBytes - 1));
      left = static_cast<uint32_t>(std::min<uint64_t>(Page::kBytes - offset, bytes));
      Page& page = global_page(address >> Page::kShift);
      const PageLock lock(page, shared_.several_engines);
      touch_page(t, page, address, offset, left);
    }
    address += left;
    bytes -= left;
  }
}

Page& Watch::shared_page(uint64_t address, uint32_t& offset, uint32_t& left) {
  for (uint32_t b = 0; b < blocks_; ++b) {
    const Block& block = *blocks_of_[b];
    const uint64_t from = address - reinterpret_cast<uint64_t>(block.smem.data());
    if (from >= block.smem_bytes) continue;
    offset = static_cast<uint32_t>(from & (Page::kBytes - 1));
    left = Page::kBytes - offset;
    return memory_[b].page(static_cast<uint32_t>(from));
  }
  throw InternalError("the simulator's checks met an address outside the cluster's shared memory");
}

Page& Watch::global_page(uint64_t number) {
  auto& [key, page] = recent_[number % recent_.size()];
  if (!page || key != number) {
    page = &shared_.memory.page(number);
    key = number;
  }
  return *page;
}

bool Watch::unordered(const Touch& t, const Mark& earlier) const {
  if (!earlier.is_set()) return false;
  const Knowledge& knows = t.state->knows;
  // A strong load sees what a relaxed load before it has learned, also without the fence that weak loads need.
  const bool strong = t.access == Access::kRead && (t.mark.flags & Mark::kAtomic);
  if (earlier.cluster != cluster_) {
    const std::lock_guard<std::mutex> lock(shared_.location_mutex);
    const auto told = [&](const Seen& seen) {
      const auto tells = [&](const auto& entry) {
        return entry.first->tells(entry.second, earlier.cluster, earlier.agent, earlier.time);
      };
      return std::any_of(seen.entries().begin(), seen.entries().end(), tells);
    };
    return !told(knows.known.seen) && !(strong && told(knows.pending.seen));
  }
  if (earlier.agent == t.warp_agent) return earlier.time >= t.state->synced && earlier.lane != t.lane;
  return earlier.time > knows.known.clock.at(earlier.agent) &&
         !(strong && earlier.time <= knows.pending.clock.at(earlier.agent));
}

void Watch::add_read(const Touch& t, Page& page, Cell& cell) const {
  const auto takes_place = [&](Mark& m) {
    const bool same = m.is_set() && m.agent == t.mark.agent && m.cluster == t.mark.cluster;
    if (m.is_set() && !same && (m.cluster != cluster_ || m.time > t.state->knows.known.clock.at(m.agent))) return false;
    const bool several = same && m.lane != t.mark.lane && m.time >= t.state->synced;
    m = t.mark;
    if (several) m.lane = -1;
    return true;
  };
  if (takes_place(cell.reads[0]) || takes_place(cell.reads[1])) return;
  // Of global memory, which all blocks may read, two readers are kept.
  if (t.space == Space::kGlobal) {
    cell.reads[1] = std::exchange(cell.reads[0], t.mark);
    return;
  }
  for (uint32_t id = cell.more; id; id = page.more[id - 1].next)
    for (Mark& m : page.more[id - 1].marks)
      if (takes_place(m)) return;
  const uint32_t id = page.new_more();
  page.more[id - 1].marks[0] = t.mark;
  page.more[id - 1].next = cell.more;
  cell.more = id;
}

void Watch::touch_page(const Touch& t, Page& page, uint64_t address, uint32_t offset, uint32_t bytes) {
  const uint32_t fine = std::min(2, std::countr_zero(offset | bytes));
  if (fine < page.shift) page.refine(fine);
  const bool atomic = t.mark.flags & Mark::kAtomic, writes = t.writes();
  const uint32_t first = offset >> page.shift, last = (offset + bytes) >> page.shift;
  for (uint32_t i = first; i < last; ++i) {
    Cell& cell = page.cells[i];
    const uint64_t here = address + ((i - first) << page.shift);
    if (t.needs_value && !cell.write.is_set() && !cell.atomic.is_set()) {
      fault(Check::kUninitialized,
            std::string("uninitialised ") + space_name(t.space) + " memory: a load of byte " + place_of(t.space, here) +
                (t.space == Space::kShared ? ", which no thread of the block has written"
                                           : ", which neither the host nor an earlier thread has written"),
            "it is to be written first", t.lane, seen_address(t.space, here));
    }
    if (races_) {
      const Mark& w = cell.write;
      if ((w.flags & Mark::kMbarrier) && !(t.mark.flags & Mark::kMbarrier) && w.cluster == cluster_)
        report(t, w, true, here);
      // Lanes of one store instruction may write one place: one of them wins.
      const bool same_store = writes && w.site == t.mark.site && w.agent == t.warp_agent && w.cluster == cluster_ &&
                              t.mark.agent == t.warp_agent;
      // Nor is it one when warps or blocks store what is there already, by one instruction: work done twice.
      if (!same_store && unordered(t, w) && !(w.site == t.mark.site && t.leaves_as_it_is(here, 1u << page.shift)))
        report(t, w, true, here);
      if (!atomic && unordered(t, cell.atomic)) report(t, cell.atomic, true, here);
      if (t.proxy && w.is_set() && w.cluster == cluster_ && w.agent < warps_.size() &&
          w.time > t.state->knows.proxied.at(w.agent))
        report(t, w, true, here);
      if (writes) {
        const auto check_read = [&](const Mark& r) {
          if (!(atomic && (r.flags & Mark::kAtomic)) && unordered(t, r)) report(t, r, false, here);
        };
        check_read(cell.reads[0]);
        check_read(cell.reads[1]);
        for (uint32_t id = cell.more; id; id = page.more[id - 1].next)
          for (const Mark& r : page.more[id - 1].marks) check_read(r);
      }
    }
    if (!writes) {
      if (races_) add_read(t, page, cell);
      continue;
    }
    if (atomic) {
      cell.atomic = t.mark;
    } else {
      cell.write = t.mark;
      cell.atomic = Mark();
    }
    if (cell.reads[0].is_set()) page.free_reads(cell);
  }
}

std::string Watch::who(const Mark& mark, bool with_block) const {
  const uint32_t warp = mark.cluster == cluster_ && mark.agent < agents_.size() && mark.agent >= warps_.size()
                            ? agents_[mark.agent].warp
                            : mark.agent;
  const uint32_t rank = warp / warps_a_block_, index = warp % warps_a_block_;
  std::string out = mark.lane < 0 ? "several threads of warp " + std::to_string(index)
                                  : "thread " + std::to_string(index * kLanes + static_cast<uint32_t>(mark.lane));
  if (with_block || blocks_ > 1) out += " of block " + std::to_string(uint64_t{mark.cluster} * blocks_ + rank);
  return out;
}

uint64_t Watch::seen_address(Space space, uint64_t address) const {
  if (space != Space::kShared) return address;
  for (const Block* block : blocks_of_) {
    const uint64_t offset = address - reinterpret_cast<uint64_t>(block->smem.data());
    if (offset < block->smem_bytes) return offset;
  }
  return address;
}

std::string Watch::place_of(Space space, uint64_t address) const {
  if (space == Space::kShared) return std::to_string(seen_address(space, address));
  const Region* r = find_region(launch_, address, 1);
  return r ? std::to_string(address - r->base) + " of '" + r->name + "'" : std::to_string(address);
}

void Watch::report(const Touch& t, const Mark& earlier, bool earlier_writes, uint64_t at) {
  const Kernel& kernel = *launch_.kernel;
  const std::string space = space_name(t.space), place = site_text(kernel, earlier.site),
                    byte = " at byte " + place_of(t.space, at);
  const uint64_t address = seen_address(t.space, at);
  const bool now_async = t.mark.flags & Mark::kAsync, was_async = earlier.flags & Mark::kAsync;
  const std::string now = t.mark.flags & Mark::kMbarrier ? "an mbarrier operation"
                          : now_async                  ? (t.writes() ? "an asynchronous write" : "an asynchronous read")
                          : t.access == Access::kRead  ? "a load"
                          : t.access == Access::kWrite ? "a store"
                                                       : "an atomic";
  const std::string then = earlier.flags & Mark::kMbarrier ? "mbarrier operation"
                           : was_async ? (earlier_writes ? "asynchronous write" : "asynchronous read")
                           : earlier.flags & Mark::kAtomic ? "atomic"
                           : earlier_writes                ? "store"
                                                           : "load";
  if ((earlier.flags & Mark::kMbarrier) && !(t.mark.flags & Mark::kMbarrier))
    fault(Check::kMbarrier, now + byte + " of shared memory, which holds an mbarrier, " + place,
          "an mbarrier is used by mbarrier instructions alone, until mbarrier.inval", t.lane, address);
  if (!unordered(t, earlier))
    fault(Check::kMissingFence,
          "missing proxy fence: " + now + byte + " of " + space + " memory that a generic " + then + " by " +
              who(earlier, false) + " has written, " + place,
          "after it, and before the barrier, each writing thread executes fence.proxy.async", t.lane, address);
  std::string how;
  if (was_async) {
    // Threads that have not issued the copies of a group need a barrier behind the wait of those that have.
    const Agent& agent = agents_[earlier.agent];
    how = std::string("; it is waited for by ") + agent.what;
    if (agent.of_mbarrier || agent.warp == t.warp_agent)
      fault(Check::kMissingWait,
            "missing wait: " + now + byte + " of " + space + " memory that the asynchronous copy by " +
                who(earlier, false) + ", " + place + ", may still " + (earlier_writes ? "write" : "read"),
            std::string("wait for it by ") + agent.what + " before", t.lane, address);
  }
  const bool same_warp = earlier.cluster == cluster_ && earlier.agent == t.warp_agent;
  const bool other_cluster = earlier.cluster != cluster_;
  fault(t.space == Space::kShared ? Check::kSharedRace : Check::kGlobalRace,
        space + "-memory race: " + now + byte + " by " + who(t.mark, other_cluster) + " is unordered with the " + then +
            " by " + who(earlier, other_cluster) + ", " + place + how,
        same_warp       ? "lanes of one warp need a bar.warp.sync between"
        : other_cluster ? "blocks are ordered by a fence and an atomic on either side, or by the end of the kernel"
                        : "a barrier is missing between",
        t.lane, address);
}

// ---- asynchronous copies -------------------------------------------------------------------------------------------

void Watch::copy(const Instr& in, Warp& w, int lane, Group group, const std::byte* to, const std::byte* from,
                 uint64_t bytes, uint64_t mbarrier) {
  if (bytes == 0) return;
  WarpState& s = state(w);
  Touch t;
  t.warp = &w;
  t.state = &s;
  t.warp_agent = s.agent;
  t.lane = lane;
  t.proxy = races_ && (mbarrier != kNoMbarrier || group == Group::kBulk);
  t.mark = {0, site_of(in, w), cluster_, 0, static_cast<int8_t>(lane), Mark::kAsync};
  uint16_t source_agent;
  if (mbarrier != kNoMbarrier) {
    Mbarrier& b = mbarriers_[mbarrier];
    if (b.agent == Mark::kNobody) b.agent = new_agent(w, "a wait on its mbarrier", true);
    agents_[b.agent].warp = s.agent;
    t.mark.time = b.copies_until = b.phase + 1;
    t.mark.agent = source_agent = b.agent;
    b.site = t.mark.site;
    ++b.under_way;
  } else {
    Copies& c = s.copies[static_cast<size_t>(group)];
    if (c.agent == Mark::kNobody) {
      const bool bulk = group == Group::kBulk;
      c.agent = new_agent(w,
                          bulk ? "cp.async.bulk.commit_group and cp.async.bulk.wait_group"
                               : "cp.async.commit_group and cp.async.wait_group, or cp.async.wait_all",
                          false);
      c.source_agent =
          bulk ? new_agent(w, "cp.async.bulk.commit_group and cp.async.bulk.wait_group.read", false) : c.agent;
    }
    if (c.site != t.mark.site || lane <= c.lane || group == Group::kBulk) ++c.issued;
    c.site = t.mark.site;
    c.lane = lane;
    t.mark.time = c.issued;
    t.mark.agent = c.agent;
    source_agent = c.source_agent;
  }
  const auto space_of = [&](const std::byte* p) {
    for (uint32_t b = 0; b < blocks_; ++b) {
      const Block& block = *blocks_of_[b];
      if (p >= block.smem.data() && p < block.smem.data() + block.smem_bytes) return Space::kShared;
    }
    return Space::kGlobal;
  };
  if (from) {
    Touch source = t;
    source.access = Access::kRead;
    source.space = space_of(from);
    source.needs_value = uninitialized_ && source.space == Space::kShared;
    source.mark.agent = source_agent;
    touch(source, source.space, reinterpret_cast<uint64_t>(from), bytes);
  }
  t.proxy = false;
  // Of the copies, those that combine with what is there have elements of a register's size.
  const bool reduces = in.target != 0 && in.reg_bytes != 0;
  t.access = reduces ? Access::kAtomic : Access::kWrite;
  if (reduces) t.mark.flags |= Mark::kAtomic;
  t.space = space_of(to);
  touch(t, t.space, reinterpret_cast<uint64_t>(to), bytes);
}

void Watch::commit(Warp& w, Group group, uint32_t mask) {
  Copies& c = state(w).copies[static_cast<size_t>(group)];
  for (uint32_t m = mask; m; m &= m - 1) c.groups[std::countr_zero(m)].push_back(c.issued);
}

void Watch::wait(Warp& w, Group group, uint32_t mask, uint32_t pending, bool reads_only) {
  WarpState& s = state(w);
  Copies& c = s.copies[static_cast<size_t>(group)];
  if (c.agent == Mark::kNobody) return;
  uint32_t done = 0;
  for (uint32_t m = mask; m; m &= m - 1) {
    const std::vector<uint32_t>& groups = c.groups[std::countr_zero(m)];
    if (groups.size() > pending) done = std::max(done, groups[groups.size() - 1 - pending]);
  }
  c.sources_waited = std::max(c.sources_waited, done);
  s.knows.known.clock.raise(c.source_agent, done);
  if (reads_only) return;
  c.waited = std::max(c.waited, done);
  s.knows.known.clock.raise(c.agent, done);
}

void Watch::wait_all(Warp& w, Group group) {
  WarpState& s = state(w);
  Copies& c = s.copies[static_cast<size_t>(group)];
  if (c.agent == Mark::kNobody) return;
  c.waited = c.sources_waited = c.issued;
  s.knows.known.clock.raise(c.agent, c.issued);
  s.knows.known.clock.raise(c.source_agent, c.issued);
}

// ---- synchronisation -----------------------------------------------------------------------------------------------

void Watch::synchronise(const Instr& in, Warp& w, Space space, const uint64_t* at, uint32_t mask, bool store,
                        bool load) {
  WarpState& s = state(w);
  const bool global = space == Space::kGlobal, whole_gpu = global && !(in.sync & kBlockScope);
  auto& locations = global ? shared_.locations : locations_;
  const bool releases = in.sync & kRelease;
  const Clock& to_block = releases ? s.knows.known.clock : s.knows.fenced_block;
  const View& to_gpu = releases ? s.knows.known : s.knows.fenced;
  const std::lock_guard<std::mutex> lock(shared_.location_mutex);
  bool published = false;
  uint64_t last = 0;
  for (uint32_t m = mask; m; m &= m - 1) {
    const uint64_t address = at[std::countr_zero(m)];
    if (address == last) continue;
    last = address;
    auto it = locations.find(address);
    if (load && it != locations.end()) {
      Knowledge news;
      View& into = in.sync & kAcquire ? news.known : news.pending;
      if (const Clock* local = it->second.find_local(cluster_)) into.clock.join(*local);
      if (whole_gpu) it->second.acquire(into.seen);
      learn(s, news);
    }
    if (!store || (to_block.empty() && to_gpu.empty())) continue;
    if (it == locations.end()) it = locations.try_emplace(address).first;
    it->second.local(cluster_).join(to_block);
    if (whole_gpu && !to_gpu.empty()) it->second.release(cluster_, to_gpu);
    published = true;
  }
  if (published) tick(s);
}

void Watch::fence(Warp& w, uint8_t flags) {
  WarpState& s = state(w);
  Knowledge& k = s.knows;
  if (flags & (kFenceBlock | kFenceGpu)) {
    Knowledge news;
    news.known.clock = k.pending.clock;
    if (flags & kFenceGpu) news.known.seen = k.pending.seen;
    learn(s, news);
    k.pending.clock.clear();
    k.fenced_block = k.known.clock;
    if (flags & kFenceGpu) {
      k.pending.seen.clear();
      k.fenced = k.known;
    }
  }
  if (flags & kFenceProxy) k.proxied.join(k.known.clock);
  tick(s);
}

void Watch::warp_sync(Warp& w) {
  WarpState& s = state(w);
  tick(s);
  s.synced = s.time;
}

void Watch::barrier_arrive(Warp& w, uint32_t id, bool waits) {
  WarpState& s = state(w);
  BarrierState& b = barriers_[w.block->rank][id];
  b.arrived.join(s.knows);
  if (waits) b.waiting |= uint64_t{1} << w.index;
  warp_sync(w);
}

void Watch::barrier_release(Block& block, uint32_t id) {
  BarrierState& b = barriers_[block.rank][id];
  for (uint64_t m = b.waiting; m; m &= m - 1)
    learn(warps_[size_t{block.rank} * warps_a_block_ + static_cast<size_t>(std::countr_zero(m))], b.arrived);
  b.arrived.clear();
  b.waiting = 0;
}

void Watch::cluster_arrive(Warp& w, bool relaxed) {
  if (!relaxed) cluster_arriving_.join(state(w).knows);
  warp_sync(w);
}

void Watch::cluster_complete() {
  cluster_complete_.join(cluster_arriving_);
  cluster_arriving_.clear();
}

void Watch::cluster_wait(Warp& w) { learn(state(w), cluster_complete_); }

// ---- mbarriers -----------------------------------------------------------------------------------------------------

// An mbarrier is made, or its memory is given back: a store to all of it.
void Watch::write_mbarrier(const Instr& in, Warp& w, int lane, uint64_t at) {
  WarpState& s = state(w);
  Touch t{&w,
          &s,
          s.agent,
          {s.time, site_of(in, w), cluster_, s.agent, static_cast<int8_t>(lane), Mark::kMbarrier},
          Access::kWrite,
          Space::kShared,
          false,
          false,
          lane};
  touch(t, Space::kShared, at, 8);
}

void Watch::mbarrier_init(const Instr& in, Warp& w, int lane, uint64_t at) {
  if (races_ && mbarriers_.count(at))
    fault(Check::kMbarrier, "mbarrier.init of an mbarrier that is in use",
          "an mbarrier is made once; mbarrier.inval comes before another use of its memory", lane,
          seen_address(Space::kShared, at));
  mbarriers_[at] = Mbarrier();
  write_mbarrier(in, w, lane, at);
}

void Watch::mbarrier_forget(const Instr& in, Warp& w, int lane, uint64_t at) {
  write_mbarrier(in, w, lane, at);
  // What follows is ordinary memory.
  uint32_t offset, left;
  Page& page = shared_page(at, offset, left);
  for (uint32_t i = 0; i < 8u >> page.shift; ++i) page.cells[(offset >> page.shift) + i].write.flags = 0;
  mbarriers_.erase(at);
}

void Watch::mbarrier_use(const Instr& in, Warp& w, int lane, uint64_t at) {
  WarpState& s = state(w);
  Touch t{&w,
          &s,
          s.agent,
          {s.time, site_of(in, w), cluster_, s.agent, static_cast<int8_t>(lane), Mark::kMbarrier | Mark::kAtomic},
          Access::kAtomic,
          Space::kShared,
          false,
          false,
          lane};
  touch(t, Space::kShared, at, 8);
}

void Watch::mbarrier_arrive(Warp& w, int lane, uint64_t at) {
  WarpState& s = state(w);
  Mbarrier& b = mbarriers_[at];
  if (races_ && b.phase > 0 && b.observed < b.phase)
    fault(Check::kMbarrier,
          "an arrival at an mbarrier in phase " + std::to_string(b.phase) + ", and nobody has waited for phase " +
              std::to_string(b.phase - 1),
          "a thread waits for each phase before anybody arrives for the next", lane, seen_address(Space::kShared, at));
  b.arriving.join(s.knows);
  tick(s);
}

void Watch::mbarrier_copies_arrive(Warp& w, uint64_t at) {
  const Copies& c = state(w).copies[static_cast<size_t>(Group::kCopy)];
  if (c.agent != Mark::kNobody) mbarriers_[at].arriving.known.clock.raise(c.agent, c.issued);
}

void Watch::mbarrier_deliver(uint64_t at) {
  Mbarrier& b = mbarriers_[at];
  b.under_way -= b.under_way > 0;
}

void Watch::mbarrier_complete(int lane, uint64_t at) {
  Mbarrier& b = mbarriers_[at];
  if (races_ && b.under_way > 0)
    fault(Check::kMbarrier,
          "an mbarrier ends a phase while bytes of it are still to come, " + site_text(*launch_.kernel, b.site),
          "all bytes are expected, by expect_tx, before the last arrival", lane, seen_address(Space::kShared, at));
  ++b.phase;
  b.completed.join(b.arriving);
  b.arriving.clear();
  if (b.agent != Mark::kNobody) b.completed.known.clock.raise(b.agent, b.phase);
}

void Watch::mbarrier_observe(Warp& w, uint64_t at) {
  WarpState& s = state(w);
  Mbarrier& b = mbarriers_[at];
  b.observed = b.phase;
  if (b.phase > 0) learn(s, b.completed);
}

void Watch::warp_exit(Warp& w) {
  if (!races_) return;
  WarpState& s = state(w);
  const Copies& bulk = s.copies[static_cast<size_t>(Group::kBulk)];
  if (bulk.sources_waited < bulk.issued)
    fault(Check::kMissingWait,
          "missing wait: a warp ends while a bulk copy from its shared memory may not have read its source, " +
              site_text(*launch_.kernel, bulk.site),
          "wait for it by cp.async.bulk.commit_group and cp.async.bulk.wait_group.read before", bulk.lane);
  if (w.block->live_warps > 1) return;
  for (const auto& [at, b] : mbarriers_) {
    const uint64_t base = reinterpret_cast<uint64_t>(w.block->smem.data());
    if (at < base || at >= base + w.block->smem_bytes || b.copies_until <= b.observed) continue;
    fault(Check::kMissingWait,
          "missing wait: the block ends while a bulk copy into its shared memory may be under way, " +
              site_text(*launch_.kernel, b.site),
          "wait on its mbarrier before", -1, at - base);
  }
}

}  // namespace tilewright::sim
