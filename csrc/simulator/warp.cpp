#include <algorithm>
#include <bit>

#include "simulator/machine.h"

namespace tilewright::sim {
namespace {

constexpr uint32_t kMaxCallDepth = 1024;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 28;
constexpr uint32_t kFrameAlign = 64, kLocalAlign = 16;

uint32_t round_up(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }

// Makes `split` the running one.
void resume(Warp& w, const Split& split) {
  w.now = split;
  w.now.state = SplitState::kReady;
  w.running = true;
  w.regs = w.file.data() + split.frame;
  w.code_begin = split.code->instrs.data();
  w.counts = w.worker->counts.data() + split.code->count_base;
}

bool pick(Warp& w) {
  for (size_t i = w.splits.size(); i-- > 0;) {
    if (w.splits[i].state != SplitState::kReady) continue;
    const Split split = w.splits[i];
    w.splits.erase(w.splits.begin() + static_cast<std::ptrdiff_t>(i));
    resume(w, split);
    return true;
  }
  return false;
}

uint32_t new_meeting(Warp& w) {
  if (w.free_meetings.empty()) {
    w.meetings.emplace_back();
    return static_cast<uint32_t>(w.meetings.size() - 1);
  }
  const uint32_t id = w.free_meetings.back();
  w.free_meetings.pop_back();
  w.meetings[id] = Meeting();
  return id;
}

// Lets lanes go on whose meeting is complete; one that no lane will reach any more passes the question to its parent.
void settle(Warp& w, uint32_t id) {
  while (id != kNone) {
    const Meeting m = w.meetings[id];
    if (m.expected != m.arrived) return;
    if (id == 0) return;
    w.free_meetings.push_back(id);
    if (m.expected != 0) {
      Split split = m.resume;
      split.mask = m.arrived;
      split.pc += m.is_frame ? 0 : 1;  // past the instruction at which lanes meet
      split.meeting = m.parent;
      w.splits.push_back(split);
      return;
    }
    id = m.parent;
  }
}

void leave(Warp& w) {
  w.running = false;
  w.stop = true;
}

void copy_lanes(Warp& w, uint32_t mask, uint32_t to, uint32_t from, uint32_t bytes) {
  for (uint32_t m = mask; m; m &= m - 1) {
    std::byte* lane = w.local.data() + static_cast<size_t>(std::countr_zero(m)) * w.local_stride;
    std::memmove(lane + to, lane + from, bytes);
  }
}

template <typename T>
void fill(T* slot, uint32_t lanes, T value) {
  for (uint32_t i = 0; i < kLanes; ++i)
    if (lanes >> i & 1) slot[i] = value;
}

void fill_constant(Warp& w, uint32_t frame, const ConstantSlot& c, uint32_t lanes) {
  std::byte* slot = w.file.data() + frame + c.slot;
  switch (c.bytes) {
    case 0: {
      auto* p = reinterpret_cast<uint32_t*>(slot);
      *p = (*p & ~lanes) | (c.bits ? lanes : 0);
      break;
    }
    case 2:
      fill(reinterpret_cast<uint16_t*>(slot), lanes, static_cast<uint16_t>(c.bits));
      break;
    case 4:
      fill(reinterpret_cast<uint32_t*>(slot), lanes, static_cast<uint32_t>(c.bits));
      break;
    case 16:
      fill<unsigned __int128>(reinterpret_cast<unsigned __int128*>(slot), lanes, c.bits);
      break;
    default:
      fill(reinterpret_cast<uint64_t*>(slot), lanes, c.bits);
      break;
  }
}

uint64_t special_value(const Warp& w, Special which, uint32_t lane) {
  const Block& b = *w.block;
  const LaunchConfig& c = w.worker->launch->config;
  const uint32_t thread = w.index * kLanes + lane;
  const auto cluster_rank = [&](int d) { return b.index[d] % c.cluster[d]; };
  switch (which) {
    case Special::kTidX:
      return thread % c.block[0];
    case Special::kTidY:
      return thread / c.block[0] % c.block[1];
    case Special::kTidZ:
      return thread / c.block[0] / c.block[1];
    case Special::kNtidX:
      return c.block[0];
    case Special::kNtidY:
      return c.block[1];
    case Special::kNtidZ:
      return c.block[2];
    case Special::kCtaidX:
      return b.index[0];
    case Special::kCtaidY:
      return b.index[1];
    case Special::kCtaidZ:
      return b.index[2];
    case Special::kNctaidX:
      return c.grid[0];
    case Special::kNctaidY:
      return c.grid[1];
    case Special::kNctaidZ:
      return c.grid[2];
    case Special::kLaneid:
      return lane;
    case Special::kWarpid:
      return w.index;
    case Special::kNwarpid:
      return 64;
    case Special::kSmid:
      return 0;
    case Special::kNsmid:
      return 1;
    case Special::kGridid:
      return 1;
    case Special::kLanemaskEq:
      return 1u << lane;
    case Special::kLanemaskLe:
      return (2u << lane) - 1;
    case Special::kLanemaskLt:
      return (1u << lane) - 1;
    case Special::kLanemaskGe:
      return ~((1u << lane) - 1);
    case Special::kLanemaskGt:
      return ~((2u << lane) - 1);
    case Special::kDynamicSmem:
      return c.dynamic_smem_bytes;
    case Special::kTotalSmem:
      return b.smem_bytes;
    case Special::kAggrSmem:
      return b.smem_bytes;
    case Special::kClusteridX:
      return b.index[0] / c.cluster[0];
    case Special::kClusteridY:
      return b.index[1] / c.cluster[1];
    case Special::kClusteridZ:
      return b.index[2] / c.cluster[2];
    case Special::kNclusteridX:
      return c.grid[0] / c.cluster[0];
    case Special::kNclusteridY:
      return c.grid[1] / c.cluster[1];
    case Special::kNclusteridZ:
      return c.grid[2] / c.cluster[2];
    case Special::kClusterCtaidX:
      return cluster_rank(0);
    case Special::kClusterCtaidY:
      return cluster_rank(1);
    case Special::kClusterCtaidZ:
      return cluster_rank(2);
    case Special::kClusterNctaidX:
      return c.cluster[0];
    case Special::kClusterNctaidY:
      return c.cluster[1];
    case Special::kClusterNctaidZ:
      return c.cluster[2];
    case Special::kClusterCtarank:
      return b.rank;
    case Special::kClusterNctarank:
      return uint64_t{c.cluster[0]} * c.cluster[1] * c.cluster[2];
    case Special::kIsExplicitCluster:
      return c.cluster[0] * c.cluster[1] * c.cluster[2] > 1;
    case Special::kReservedSmemBegin:
      return 0;
    case Special::kEnvreg1:
      return reinterpret_cast<uint64_t>(w.worker->launch->grid_workspace.data()) >> 32;
    case Special::kEnvreg2:
      return reinterpret_cast<uint64_t>(w.worker->launch->grid_workspace.data()) & 0xffffffffu;
  }
  return 0;
}

void fill_special(Warp& w, uint32_t frame, const SpecialSlot& s, uint32_t lanes) {
  std::byte* slot = w.file.data() + frame + s.slot;
  for (uint32_t i = 0; i < kLanes; ++i) {
    if (!(lanes >> i & 1)) continue;
    const uint64_t value = special_value(w, s.which, i);
    if (s.bytes == 0) {
      auto* p = reinterpret_cast<uint32_t*>(slot);
      *p = (*p & ~(1u << i)) | (value ? 1u << i : 0);
    } else if (s.bytes == 2) {
      reinterpret_cast<uint16_t*>(slot)[i] = static_cast<uint16_t>(value);
    } else if (s.bytes == 4) {
      reinterpret_cast<uint32_t*>(slot)[i] = static_cast<uint32_t>(value);
    } else {
      reinterpret_cast<uint64_t*>(slot)[i] = value;
    }
  }
}

void fill_specials(Warp& w, const Code& code, uint32_t frame, uint32_t lanes) {
  for (const SpecialSlot& s : code.specials) fill_special(w, frame, s, lanes);
}

// A loop that waits for what lanes at its exit have yet to do, such as to release a lock, would never end if those
// lanes waited for it: they go on alone.
void loosen(Warp& w) {
  Meeting& m = w.meetings[w.now.meeting];
  if (w.now.meeting == 0 || m.is_frame || m.arrived == 0) return;
  Split split = m.resume;
  split.mask = m.arrived;
  split.meeting = m.parent;
  ++split.pc;
  m.expected &= ~m.arrived;
  m.arrived = 0;
  w.splits.push_back(split);
  w.loosened = true;
}

// Waiting lanes look again: the set of lanes that they wait for has shrunk.
void retry_warp_syncs(Warp& w) {
  for (Split& s : w.splits) {
    if (s.state != SplitState::kAtWarpSync) continue;
    s.state = SplitState::kReady;
    --s.pc;
  }
}

// The first byte of the register file that no activation uses. Diverged lanes may be in functions of their own.
uint32_t free_frame(const Warp& w) {
  const auto end = [](const Split& s) { return s.frame + round_up(s.code->frame_bytes, kFrameAlign); };
  uint32_t top = end(w.now);
  for (const Split& s : w.splits) top = std::max(top, end(s));
  return top;
}

}  // namespace

void fill_frame(Warp& w, const Code& code, uint32_t frame, uint32_t lanes) {
  for (const ConstantSlot& c : code.constants) fill_constant(w, frame, c, lanes);
  fill_specials(w, code, frame, lanes);
}

void start_warp(Warp& w, const Code& entry, uint32_t lanes) {
  w.file.grow(entry.frame_bytes);
  if (w.prepared != &entry) {
    for (const ConstantSlot& c : entry.constants) fill_constant(w, 0, c, kAllLanes);
    w.prepared = &entry;
  }
  w.local_stride = w.worker->kernel->local_stack_bytes;
  w.local.grow(size_t{w.local_stride} * kLanes);
  if (w.worker->launch->config.check_registers) forget_registers(w, entry, 0, kAllLanes);
  fill_specials(w, entry, 0, kAllLanes);
  w.live = lanes;
  w.steps = 0;
  w.carry = 0;
  w.polled = w.loosened = w.blocked = false;
  w.cluster_waiting = w.cluster_phase = 0;
  w.splits.clear();
  w.meetings.assign(1, Meeting());
  w.meetings[0].expected = lanes;
  w.free_meetings.clear();
  Split split;
  split.code = &entry;
  split.mask = lanes;
  resume(w, split);
}

bool warp_done(const Warp& w) { return w.live == 0; }

bool warp_ready(const Warp& w) {
  if (w.running) return true;
  for (const Split& s : w.splits)
    if (s.state == SplitState::kReady) return true;
  return false;
}

namespace {

// run_warp, with the check of registers or without.
template <bool Checked>
void run(Warp& w, uint32_t slice) {
  const uint32_t whole = slice;
  w.polled = false;
  while (slice > 0 && (w.running || pick(w))) {
    w.stop = false;
    while (slice > 0) {
      const Instr& in = w.code_begin[w.now.pc];
      InstrCount& count = w.counts[w.now.pc];
      ++w.now.pc;
      --slice;
      ++count.warps;
      uint32_t mask = w.now.mask;
      if (in.guard != kNone) {
        if constexpr (Checked) check_guard(w, in);
        const uint32_t p = *w.slot<uint32_t>(in.guard);
        mask &= in.guard_negated ? ~p : p;
        if (mask == 0) continue;
      }
      count.lanes += static_cast<uint32_t>(std::popcount(mask));
      if constexpr (Checked) check_registers(w, in, mask);
      in.fn(in, w, mask);
      if (w.stop) break;
    }
    if (w.yielding) break;
  }
  w.steps += whole - slice;
  if (slice == 0 && w.running && w.polled) loosen(w);
  // Lanes that wait for other lanes of the warp in a loop let those run.
  if ((slice == 0 || w.yielding) && w.running && !w.splits.empty()) {
    w.splits.insert(w.splits.begin(), w.now);
    w.running = false;
  }
  w.yielding = false;
}

}  // namespace

void run_warp(Warp& w, uint32_t slice) {
  if (w.worker->launch->config.check_registers)
    run</*Checked=*/true>(w, slice);
  else
    run</*Checked=*/false>(w, slice);
}

void diverge(Warp& w, uint32_t taken, uint32_t target, uint32_t meeting_pc) {
  ++w.worker->divergent_branches;
  uint32_t id = w.now.meeting;
  const bool same = !w.meetings[id].is_frame && id != 0 && w.meetings[id].resume.pc == meeting_pc;
  if (meeting_pc != kNone && !same) {
    const uint32_t parent = id;
    id = new_meeting(w);
    Meeting& m = w.meetings[id];
    m.parent = parent;
    m.expected = w.now.mask;
    m.resume = w.now;
    m.resume.pc = meeting_pc;
  }
  Split other = w.now;
  other.mask = taken;
  other.pc = target;
  other.meeting = id;
  w.splits.push_back(other);
  w.now.mask &= ~taken;
  w.now.meeting = id;
}

void arrive(Warp& w) {
  w.meetings[w.now.meeting].arrived |= w.now.mask;
  leave(w);
  settle(w, w.now.meeting);
}

void exit_lanes(Warp& w, uint32_t mask) {
  w.live &= ~mask;
  for (uint32_t id = w.now.meeting; id != kNone; id = w.meetings[id].parent) w.meetings[id].expected &= ~mask;
  w.now.mask &= ~mask;
  retry_warp_syncs(w);
  if (w.now.mask == 0) {
    leave(w);
    settle(w, w.now.meeting);
  }
  if (w.live == 0) warp_exited(w);
}

void return_lanes(Warp& w, uint32_t mask) {
  uint32_t id = w.now.meeting;
  while (id != kNone && !w.meetings[id].is_frame) id = w.meetings[id].parent;
  if (id == kNone) return exit_lanes(w, mask);
  for (uint32_t inner = w.now.meeting; inner != id; inner = w.meetings[inner].parent)
    w.meetings[inner].expected &= ~mask;
  Meeting& frame = w.meetings[id];
  const uint32_t* to = frame.resume.code->lists.data() + frame.results;
  for (size_t k = 0; k < w.now.code->results.size(); ++k) {
    const PlacedParam& result = w.now.code->results[k];
    copy_lanes(w, mask, frame.resume.local + to[k], w.now.local + result.offset, result.bytes);
  }
  frame.arrived |= mask;
  w.now.mask &= ~mask;
  if (w.now.mask == 0) {
    leave(w);
    settle(w, w.now.meeting);
  }
}

// The list holds, in the caller's local memory, where arguments lie and then where results go.
void call_functions(Warp& w, const std::vector<Callee>& callees, uint32_t list) {
  if (w.now.depth >= kMaxCallDepth) fault("call stack overflow: more than 1024 calls deep");
  const Code& caller = *w.now.code;
  const uint32_t local = w.now.local + round_up(caller.local_bytes, kLocalAlign);
  const uint32_t* from = caller.lists.data() + list;
  const uint32_t id = new_meeting(w);
  Meeting& m = w.meetings[id];
  m.parent = w.now.meeting;
  m.is_frame = true;
  m.expected = m.arrived = w.now.mask;
  m.resume = w.now;
  m.results = list + static_cast<uint32_t>(callees[0].code->params.size());
  uint32_t frame = free_frame(w);
  for (const auto& [callee, mask] : callees) {
    if (local + callee->local_bytes > w.local_stride)
      fault("stack overflow: a call needs " + std::to_string(local + callee->local_bytes) +
            " bytes of local memory a thread, of " + std::to_string(w.local_stride));
    if (uint64_t{frame} + callee->frame_bytes > kMaxFileBytes)
      fault("calls need more than 256 MiB of registers a warp");
    w.file.grow(size_t{frame} + callee->frame_bytes);
    for (size_t k = 0; k < callee->params.size(); ++k)
      copy_lanes(w, mask, local + callee->params[k].offset, w.now.local + from[k], callee->params[k].bytes);
    if (w.worker->launch->config.check_registers) forget_registers(w, *callee, frame, mask);
    fill_frame(w, *callee, frame, mask);
    m.arrived &= ~mask;
    Split split;
    split.code = callee;
    split.mask = mask;
    split.meeting = id;
    split.frame = frame;
    split.local = local;
    split.depth = w.now.depth + 1;
    w.splits.push_back(split);
    frame += round_up(callee->frame_bytes, kFrameAlign);
  }
  const Split first = w.splits.back();
  w.splits.pop_back();
  resume(w, first);
}

void park(Warp& w, SplitState state) {
  w.now.state = state;
  w.splits.push_back(w.now);
  leave(w);
}

bool gather_lanes(Warp& w, uint32_t members, uint32_t mask, uint32_t& lanes, uint32_t member_slot) {
  lanes = mask;
  if ((members & w.live & ~mask) == 0) return true;
  const auto same_place = [&](const Split& s) {
    return s.state == SplitState::kAtWarpSync && s.pc == w.now.pc && s.code == w.now.code && s.frame == w.now.frame;
  };
  for (const Split& s : w.splits)
    if (same_place(s)) lanes |= s.wait_mask;
  if (member_slot != kNone)
    for (uint32_t m = lanes; m; m &= m - 1) members |= w.slot<uint32_t>(member_slot)[std::countr_zero(m)];
  if (members & w.live & ~lanes) {
    w.now.wait_mask = mask;
    park(w, SplitState::kAtWarpSync);
    return false;
  }
  for (Split& s : w.splits)
    if (same_place(s)) s.state = SplitState::kReady;
  return true;
}

void merge_gathered(Warp& w, uint32_t barrier) {
  // gather_lanes has just made those that waited ready: all splits of this warp stand here.
  for (size_t i = w.splits.size(); i-- > 0;) {
    Split& s = w.splits[i];
    if (s.meeting == w.now.meeting) {
      w.now.mask |= s.mask;
      w.splits.erase(w.splits.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      s.state = SplitState::kAtBarrier;
      s.barrier = barrier;
    }
  }
}

}  // namespace tilewright::sim
