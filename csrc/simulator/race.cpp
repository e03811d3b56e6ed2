#include "simulator/race.h"

#include <algorithm>
#include <bit>

#include "simulator/machine.h"

namespace tilewright::sim {
namespace {

std::string thread_number(uint32_t warp, int lane) {
  if (lane < 0) return "threads of warp " + std::to_string(warp);
  return "thread " + std::to_string(warp * kLanes + static_cast<uint32_t>(lane));
}

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

}  // namespace

RaceState::RaceState(uint32_t warps, uint32_t smem_bytes, bool races, bool uninitialized)
    : warps_(warps),
      races_(races),
      uninitialized_(uninitialized),
      clocks_(size_t{warps} * warps, 0),
      cells_(smem_bytes) {
  for (uint32_t w = 0; w < warps; ++w) clock(w, w) = 1;
}

bool RaceState::unordered(const Mark& m, uint32_t warp, int lane) {
  if (m.warp == kNobody) return false;
  if (m.warp != warp) return m.time > clock(warp, m.warp);
  return m.time == clock(warp, warp) && m.lane != lane;
}

void RaceState::report(const Warp& w, const Mark& earlier, bool earlier_writes, int lane, uint32_t offset,
                       Access access) {
  const bool same_warp = earlier.warp == w.index;
  fault(std::string("shared-memory race: ") +
            (access == Access::kRead    ? "a load"
             : access == Access::kWrite ? "a store"
                                        : "an atomic") +
            " at offset " + std::to_string(offset) + " by " + thread_number(w.index, lane) + " is unordered with the " +
            (earlier.atomic   ? "atomic"
             : earlier_writes ? "store"
                              : "load") +
            " by " + thread_number(earlier.warp, earlier.lane) + ", " + site_text(*w.worker->kernel, earlier.site) +
            "; " + (same_warp ? "lanes of one warp need a bar.warp.sync between" : "a barrier is missing between"),
        lane);
}

void RaceState::access(const Warp& w, uint32_t site, int lane, uint32_t offset, uint32_t bytes, Access access) {
  const uint32_t warp = w.index;
  const uint32_t now = clock(warp, warp);
  for (uint32_t i = offset; i < offset + bytes && i < cells_.size(); ++i) {
    Cell& cell = cells_[i];
    if (uninitialized_ && access != Access::kWrite && cell.write.warp == kNobody)
      fault("uninitialised shared memory: a load of byte " + std::to_string(i) +
                ", which no thread of the block has written",
            lane);
    const bool writes = access != Access::kRead, atomic = access == Access::kAtomic;
    if (races_) {
      // Lanes of one store instruction may write one place: one of them wins.
      const bool same_store = writes && cell.write.site == site && cell.write.warp == warp;
      if (!(atomic && cell.write.atomic) && !same_store && unordered(cell.write, warp, lane))
        report(w, cell.write, true, lane, i, access);
      if (writes)
        for (const Mark& r : cell.reads)
          if (!(atomic && r.atomic) && unordered(r, warp, lane)) report(w, r, false, lane, i, access);
    }
    if (writes) {
      cell.write = {now, site, static_cast<uint16_t>(warp), static_cast<int8_t>(lane), atomic};
    } else {
      Mark& last = cell.reads[0];
      if (last.warp != warp) {
        cell.reads[1] = last;
        last = {now, site, static_cast<uint16_t>(warp), static_cast<int8_t>(lane), atomic};
      } else {
        const bool several = last.time == now && last.lane != lane;
        last = {now, site, static_cast<uint16_t>(warp), static_cast<int8_t>(several ? -1 : lane), atomic};
      }
    }
  }
}

void RaceState::learn(uint32_t warp, const std::vector<uint32_t>& other) {
  for (uint32_t v = 0; v < warps_ && v < other.size(); ++v)
    clock(warp, v) = std::max(clock(warp, v), v == warp ? clock(warp, v) : other[v]);
}

void RaceState::barrier_arrive(uint32_t warp, uint32_t barrier, bool waits) {
  std::vector<uint32_t>& shared = barrier_clocks_[barrier];
  shared.resize(warps_, 0);
  for (uint32_t v = 0; v < warps_; ++v) shared[v] = std::max(shared[v], clock(warp, v));
  ++clock(warp, warp);
  if (waits) barrier_waits_[barrier] |= uint64_t{1} << warp;
}

void RaceState::barrier_release(uint32_t barrier) {
  for (uint64_t m = barrier_waits_[barrier]; m; m &= m - 1)
    learn(static_cast<uint32_t>(std::countr_zero(m)), barrier_clocks_[barrier]);
  barrier_waits_[barrier] = 0;
  barrier_clocks_[barrier].clear();
}

void RaceState::warp_sync(uint32_t warp) { ++clock(warp, warp); }

void RaceState::location_sync(uint32_t warp, uint64_t address) {
  std::vector<uint32_t>& known = locations_[address];
  known.resize(warps_, 0);
  learn(warp, known);
  for (uint32_t v = 0; v < warps_; ++v) known[v] = std::max(known[v], clock(warp, v));
  ++clock(warp, warp);
}

void watch_shared(const Instr& in, Warp& w, const uint64_t* at, uint32_t mask, uint32_t bytes, bool store) {
  const uint32_t site = w.now.code->count_base + static_cast<uint32_t>(&in - w.code_begin);
  const bool atomic = in.kind == Kind::kAtomic || in.flag;
  const auto kind = atomic && store ? RaceState::Access::kAtomic
                    : store         ? RaceState::Access::kWrite
                                    : RaceState::Access::kRead;
  for (uint32_t m = mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    for (Block* block : w.block->cluster) {
      const uint64_t base = reinterpret_cast<uint64_t>(block->smem.data());
      if (at[lane] < base || at[lane] >= base + block->smem_bytes || !block->races) continue;
      // Clocks are those of one block: accesses from its peers are not ordered by them.
      if (block != w.block) continue;
      if (atomic) block->races->location_sync(w.index, at[lane]);
      block->races->access(w, site, lane, static_cast<uint32_t>(at[lane] - base), bytes, kind);
    }
  }
}

}  // namespace tilewright::sim
