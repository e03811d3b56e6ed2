// Barriers of a block, and collectives of a warp (PTX ISA 9.7.13).
#include <algorithm>
#include <bit>

#include "simulator/async.h"

namespace tilewright::sim {
namespace {

enum BarrierMode : uint8_t { kSync, kArrive, kRedPopc, kRedAnd, kRedOr };

uint32_t first_value(const Warp& w, uint32_t slot, uint32_t mask) {
  return w.slot<uint32_t>(slot)[std::countr_zero(mask)];
}

std::string lanes_text(uint32_t mask) {
  std::string out;
  for (uint32_t i = 0; i < kLanes; ++i) {
    if (!(mask >> i & 1)) continue;
    uint32_t j = i;
    while (j + 1 < kLanes && (mask >> (j + 1) & 1)) ++j;
    if (!out.empty()) out += ", ";
    out += std::to_string(i) + (j > i ? "-" + std::to_string(j) : "");
    i = j;
  }
  return out;
}

void write_lanes(std::byte* frame, uint32_t slot, uint32_t mask, uint32_t value) {
  auto* d = reinterpret_cast<uint32_t*>(frame + slot);
  for (uint32_t m = mask; m; m &= m - 1) d[std::countr_zero(m)] = value;
}

// The result of bar.red for the lanes that `in` was executed by.
void write_reduction(const Instr& in, const Barrier& b, std::byte* frame, uint32_t mask) {
  if (in.mode == kRedPopc) {
    write_lanes(frame, in.d, mask, b.count_true);
  } else if (in.mode == kRedAnd || in.mode == kRedOr) {
    auto* p = reinterpret_cast<uint32_t*>(frame + in.d);
    const bool value = in.mode == kRedAnd ? b.all_true : b.any_true;
    *p = (*p & ~mask) | (value ? mask : 0);
  }
}

void release(Block& block, uint32_t id) {
  Barrier& b = block.barriers[id];
  if (block.watch) block.watch->barrier_release(block, id);
  for (auto& w : block.warps) {
    for (Split& s : w->splits) {
      if (s.state != SplitState::kAtBarrier || s.barrier != id) continue;
      s.state = SplitState::kReady;
      write_reduction(s.code->instrs[s.pc - 1], b, w->file.data() + s.frame, s.mask);
    }
  }
  b = Barrier();
}

uint32_t threads_awaited(const Block& block, const Barrier& b) {
  return b.expected ? b.expected : block.live_warps * kLanes;
}

// a: barrier, b: thread count, c: predicate to reduce; flag: aligned.
void barrier(const Instr& in, Warp& w, uint32_t mask) {
  bool gathered = false;
  if (w.loosened && mask != w.live && mask == w.now.mask) {
    if (!gather_lanes(w, w.live, mask, mask)) return;
    gathered = true;
  }
  if (in.flag && mask != w.live)
    fault(Check::kDivergence,
          "barrier in divergent code: lanes " + lanes_text(w.live & ~mask) + " of warp " + std::to_string(w.index) +
              " do not execute it",
          "use barrier.sync without .aligned, or move it out of the branch", std::countr_zero(mask));
  const uint32_t id = first_value(w, in.a, mask);
  if (id >= 16) fault(Check::kBarrier, "barrier " + std::to_string(id) + " does not exist", "there are 16, from 0");
  const uint32_t count = in.b == kNone ? 0 : first_value(w, in.b, mask);
  if (in.b != kNone && (count == 0 || count % kLanes != 0))
    fault(Check::kBarrier, "barrier for " + std::to_string(count) + " threads", "a multiple of 32 is expected");
  Block& block = *w.block;
  Barrier& b = block.barriers[id];
  if (b.in_use && b.expected != count)
    fault(Check::kBarrier,
          "barrier " + std::to_string(id) + " for " + std::to_string(count) + " threads, while others wait there for " +
              std::to_string(b.expected),
          "all that meet at a barrier give the same count");
  b.in_use = true;
  if (block.watch) block.watch->barrier_arrive(w, id, in.mode != kArrive);
  w.acted = true;
  b.expected = count;
  b.arrived += mask == w.live ? kLanes : static_cast<uint32_t>(std::popcount(mask));
  if (in.c != kNone) {
    const uint32_t p = *w.slot<uint32_t>(in.c) & mask;
    b.count_true += static_cast<uint32_t>(std::popcount(p));
    b.all_true &= p == mask;
    b.any_true |= p != 0;
  }
  if (gathered) merge_gathered(w, id);
  const uint32_t awaited = threads_awaited(block, b);
  if (b.arrived > awaited)
    fault(Check::kBarrier,
          "barrier " + std::to_string(id) + " reached by " + std::to_string(b.arrived) + " threads, expected " +
              std::to_string(awaited),
          "count each warp that arrives or waits once");
  if (b.arrived == awaited) {
    if (in.mode != kArrive) write_reduction(in, b, w.regs, mask);
    release(block, id);
  } else if (in.mode != kArrive) {
    w.now.barrier = id;
    park(w, SplitState::kAtBarrier);
  }
}

// A collective, once its members are here (e: each lane's member mask): Body for each set of lanes that name the same
// members, such as the tiles of a partitioned warp.
template <auto Body>
void collective(const Instr& in, Warp& w, uint32_t mask) {
  const uint32_t* members = w.slot<uint32_t>(in.e);
  uint32_t all = 0, common = kAllLanes, foreign = 0;
  for (uint32_t m = mask; m; m &= m - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(m));
    all |= members[lane];
    common &= members[lane];
    foreign |= members[lane] >> lane & 1 ? 0 : 1u << lane;
  }
  if (foreign)
    fault(Check::kDivergence,
          "lanes " + lanes_text(foreign) + " execute a warp collective whose member mask leaves them out",
          "the mask names all lanes that come here", std::countr_zero(foreign));
  uint32_t lanes = 0;
  if (!gather_lanes(w, all, mask, lanes, in.e)) return;
  if (w.block->watch) w.block->watch->warp_sync(w);
  if (all == common && lanes == mask) return Body(in, w, lanes);
  for (uint32_t left = lanes; left;) {
    uint32_t same = 0;
    for (uint32_t m = left; m; m &= m - 1)
      if (members[std::countr_zero(m)] == members[std::countr_zero(left)]) same |= m & -m;
    Body(in, w, same);
    left &= ~same;
  }
}

// mode: up, down, bfly, idx. target: slot of the predicate result.
void shuffle(const Instr& in, Warp& w, uint32_t lanes) {
  const uint32_t *a = w.slot<uint32_t>(in.a), *b = w.slot<uint32_t>(in.b), *c = w.slot<uint32_t>(in.c);
  uint32_t out[kLanes], valid = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t clamp = c[lane] & 31, segment = (c[lane] >> 8) & 31, offset = b[lane] & 31;
    const uint32_t low = lane & segment, high = low | (clamp & ~segment);
    uint32_t from = lane;
    bool ok = false;
    switch (in.mode) {
      case 0:
        from = lane - offset;
        ok = static_cast<int32_t>(from) >= static_cast<int32_t>(high);
        break;
      case 1:
        from = lane + offset;
        ok = from <= high;
        break;
      case 2:
        from = lane ^ offset;
        ok = from <= high;
        break;
      default:
        from = low | (offset & ~segment);
        ok = from <= high;
        break;
    }
    if (!ok) from = lane;
    valid |= static_cast<uint32_t>(ok) << lane;
    out[lane] = a[lanes >> from & 1 ? from : lane];
  }
  uint32_t* d = w.slot<uint32_t>(in.d);
  for (uint32_t i = 0; i < kLanes; ++i) d[i] = lanes >> i & 1 ? out[i] : d[i];
  if (in.target != kNone) {
    uint32_t* p = w.slot<uint32_t>(in.target);
    *p = (*p & ~lanes) | (valid & lanes);
  }
}

// mode: all, any, uni, ballot. flag: the predicate is negated.
void vote(const Instr& in, Warp& w, uint32_t lanes) {
  const uint32_t p = (in.flag ? ~*w.slot<uint32_t>(in.a) : *w.slot<uint32_t>(in.a)) & lanes;
  if (in.mode == 3) return write_lanes(w.regs, in.d, lanes, p);
  const bool result = in.mode == 0 ? p == lanes : in.mode == 1 ? p != 0 : p == 0 || p == lanes;
  uint32_t* d = w.slot<uint32_t>(in.d);
  *d = (*d & ~lanes) | (result ? lanes : 0);
}

template <typename T, bool All>
void match(const Instr& in, Warp& w, uint32_t lanes) {
  T a[kLanes];
  std::copy_n(w.slot<T>(in.a), kLanes, a);
  uint32_t agree = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    if (!(lanes >> i & 1)) continue;
    uint32_t same = 0;
    for (uint32_t j = 0; j < kLanes; ++j)
      if ((lanes >> j & 1) && a[j] == a[i]) same |= 1u << j;
    if (same == lanes) agree |= 1u << i;
    if (in.d != kNone) w.slot<uint32_t>(in.d)[i] = All ? (same == lanes ? lanes : 0) : same;
  }
  if (All && in.target != kNone) {
    uint32_t* p = w.slot<uint32_t>(in.target);
    *p = (*p & ~lanes) | agree;
  }
}

template <typename T, auto F>
void reduce(const Instr& in, Warp& w, uint32_t lanes) {
  const T* a = w.slot<T>(in.a);
  T r = a[std::countr_zero(lanes)];
  for (uint32_t m = lanes & (lanes - 1); m; m &= m - 1) r = F(r, a[std::countr_zero(m)]);
  write_lanes(w.regs, in.d, lanes, static_cast<uint32_t>(r));
}

// elect.sync: the lowest member.
void elect(const Instr& in, Warp& w, uint32_t lanes) {
  const uint32_t leader = static_cast<uint32_t>(std::countr_zero(lanes));
  if (in.d != kNone) write_lanes(w.regs, in.d, lanes, leader);
  if (in.target != kNone) {
    uint32_t* p = w.slot<uint32_t>(in.target);
    *p = (*p & ~lanes) | 1u << leader;
  }
}

void warp_sync(const Instr&, Warp&, uint32_t) {}

}  // namespace

void warp_exited(Warp& w) {
  Block& block = *w.block;
  w.acted = true;
  if (block.watch) block.watch->warp_exit(w);
  --block.live_warps;
  if (block.live_warps == 0) block.copies->finish_all(block);
  if (block.cluster.size() > 1) cluster_check(block);
  if (block.live_warps == 0) return;
  for (uint32_t id = 0; id < block.barriers.size(); ++id) {
    const Barrier& b = block.barriers[id];
    if (b.in_use && b.expected == 0 && b.arrived >= threads_awaited(block, b)) release(block, id);
  }
}

std::string barrier_text(const Block& block) {
  std::string out;
  for (uint32_t id = 0; id < block.barriers.size(); ++id) {
    const Barrier& b = block.barriers[id];
    if (b.in_use)
      out += "\n  barrier " + std::to_string(id) + ": " + std::to_string(b.arrived) + " of " +
             std::to_string(threads_awaited(block, b)) + " threads have arrived";
  }
  return out;
}

void collective_rows(HandlerRows& rows) {
  using U = uint32_t;
  using S = int32_t;
  rows.emplace_back("barrier", &barrier);
  rows.emplace_back("shfl.sync", &collective<shuffle>);
  rows.emplace_back("vote.sync", &collective<vote>);
  rows.emplace_back("match.any.sync.b32", &collective<match<U, false>>);
  rows.emplace_back("match.any.sync.b64", &collective<match<uint64_t, false>>);
  rows.emplace_back("match.all.sync.b32", &collective<match<U, true>>);
  rows.emplace_back("match.all.sync.b64", &collective<match<uint64_t, true>>);
  rows.emplace_back("redux.sync.add.b32", &collective<reduce<U, [](U a, U b) { return a + b; }>>);
  rows.emplace_back("redux.sync.min.u32", &collective<reduce<U, [](U a, U b) { return std::min(a, b); }>>);
  rows.emplace_back("redux.sync.max.u32", &collective<reduce<U, [](U a, U b) { return std::max(a, b); }>>);
  rows.emplace_back("redux.sync.min.s32", &collective<reduce<S, [](S a, S b) { return std::min(a, b); }>>);
  rows.emplace_back("redux.sync.max.s32", &collective<reduce<S, [](S a, S b) { return std::max(a, b); }>>);
  rows.emplace_back("redux.sync.and.b32", &collective<reduce<U, [](U a, U b) { return a & b; }>>);
  rows.emplace_back("redux.sync.or.b32", &collective<reduce<U, [](U a, U b) { return a | b; }>>);
  rows.emplace_back("redux.sync.xor.b32", &collective<reduce<U, [](U a, U b) { return a ^ b; }>>);
  rows.emplace_back("elect.sync", &collective<elect>);
  rows.emplace_back("bar.warp.sync", &collective<warp_sync>);
}

}  // namespace tilewright::sim
