// mbarriers, bulk copies and clusters (PTX ISA 9.7.9.25, 9.7.13.15). Copies complete when they are issued.
#include <algorithm>
#include <bit>

#include "simulator/machine.h"

namespace tilewright::sim {
namespace {

// The opaque word: phase, expected arrivals, pending arrivals, transaction bytes.
struct State {
  uint32_t phase = 0;
  int32_t expected = 0, pending = 0, tx = 0;
};
constexpr int32_t kMaxCount = (1 << 20) - 1;
constexpr uint64_t kValid = 1;  // marks a word that init has written

uint64_t encode(const State& s) {
  return kValid | static_cast<uint64_t>(s.phase & 1) << 1 | static_cast<uint64_t>(s.expected & kMaxCount) << 2 |
         static_cast<uint64_t>(s.pending & kMaxCount) << 22 | static_cast<uint64_t>(s.tx & 0x1fffff) << 42;
}

State decode(uint64_t word, int lane) {
  if (!(word & kValid) || word >> 63) fault("an mbarrier that is not initialised", lane);
  State s;
  s.phase = word >> 1 & 1;
  s.expected = static_cast<int32_t>(word >> 2 & kMaxCount);
  s.pending = static_cast<int32_t>(word >> 22 & kMaxCount);
  s.tx = static_cast<int32_t>(static_cast<uint32_t>(word >> 42 & 0x1fffff) << 11) >> 11;
  return s;
}

uint64_t lane_value(const Warp& w, uint32_t slot, bool is_32, int lane) {
  return is_32 ? w.slot<uint32_t>(slot)[lane] : w.slot<uint64_t>(slot)[lane];
}

uint64_t lane_address(const Instr& in, const Warp& w, int lane) {
  const uint64_t base = in.a == kNone ? 0 : lane_value(w, in.a, in.address_32, lane);
  return base + static_cast<uint64_t>(in.imm);
}

// Shared memory of this block or, by the rank in the address, of another of the cluster.
std::byte* shared_at(Warp& w, uint64_t address, uint64_t bytes, uint32_t align, int lane) {
  if ((address & kWindowMask) == kSharedWindow) address -= kSharedWindow;
  const uint64_t rank = address >> kSharedRankShift, offset = address & ((1u << kSharedRankShift) - 1);
  Block& own = *w.block;
  if (rank > own.cluster.size())
    fault_window(w, "shared", address, own.smem_bytes, static_cast<uint32_t>(bytes), true, lane);
  Block& target = rank == 0 ? own : *own.cluster[rank - 1];
  if (offset + bytes > target.smem_bytes)
    fault_window(w, "shared", offset, target.smem_bytes, static_cast<uint32_t>(bytes), true, lane);
  if (offset % align) fault_misaligned("shared", offset, align, lane);
  return target.smem.data() + offset;
}

void complete_phase(State& s, int lane) {
  if (s.pending < 0) fault("an mbarrier with more arrivals than it expects in a phase", lane);
  if (s.pending != 0 || s.tx != 0) return;
  s.phase ^= 1;
  s.pending = s.expected;
}

template <typename Change>
uint64_t update(Warp& w, std::byte* at, int lane, Change change) {
  uint64_t word;
  std::memcpy(&word, at, 8);
  State s = decode(word, lane);
  const uint64_t before = word;
  change(s);
  if (s.tx > kMaxCount || s.tx < -kMaxCount) fault("an mbarrier's transaction count passes 2^20 - 1 bytes", lane);
  complete_phase(s, lane);
  word = encode(s);
  std::memcpy(at, &word, 8);
  if (w.block->races) w.block->races->location_sync(w.index, reinterpret_cast<uint64_t>(at));
  return before;
}

void complete_tx(Warp& w, std::byte* at, int32_t bytes, int lane) {
  update(w, at, lane, [&](State& s) { s.tx -= bytes; });
}

template <typename Body>
void each_lane(uint32_t mask, Body body) {
  for (uint32_t m = mask; m; m &= m - 1) body(std::countr_zero(m));
}

void init(const Instr& in, Warp& w, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    const int64_t count = w.slot<uint32_t>(in.b)[lane];
    if (count < 1 || count > kMaxCount)
      fault("mbarrier.init for " + std::to_string(count) + " arrivals, expected 1 to 1048575", lane);
    State s;
    s.expected = s.pending = static_cast<int32_t>(count);
    const uint64_t word = encode(s);
    std::memcpy(shared_at(w, lane_address(in, w, lane), 8, 8, lane), &word, 8);
  });
}

void invalidate(const Instr& in, Warp& w, uint32_t mask) {
  each_lane(mask, [&](int lane) { std::memset(shared_at(w, lane_address(in, w, lane), 8, 8, lane), 0, 8); });
}

// b: count of arrivals, c: bytes to expect; flag: the count is dropped from later phases too.
void arrive_at(const Instr& in, Warp& w, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    const int32_t count = in.b == kNone ? 1 : static_cast<int32_t>(w.slot<uint32_t>(in.b)[lane]);
    const int32_t bytes = in.c == kNone ? 0 : static_cast<int32_t>(w.slot<uint32_t>(in.c)[lane]);
    const uint64_t token = update(w, shared_at(w, lane_address(in, w, lane), 8, 8, lane), lane, [&](State& s) {
      s.tx += bytes;
      s.pending -= count;
      if (in.flag) s.expected -= count;
    });
    if (in.d != kNone) w.slot<uint64_t>(in.d)[lane] = token;
  });
}

// mode: +1 expects bytes, -1 completes them.
void change_tx(const Instr& in, Warp& w, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    const auto bytes = static_cast<int32_t>(w.slot<uint32_t>(in.b)[lane]);
    update(w, shared_at(w, lane_address(in, w, lane), 8, 8, lane), lane,
           [&](State& s) { s.tx += in.mode == 0 ? bytes : -bytes; });
  });
}

// flag: b is a parity, else a token. A wait that fails gives others a turn.
void test_wait(const Instr& in, Warp& w, uint32_t mask) {
  uint32_t done = 0;
  each_lane(mask, [&](int lane) {
    std::byte* at = shared_at(w, lane_address(in, w, lane), 8, 8, lane);
    uint64_t word;
    std::memcpy(&word, at, 8);
    const State s = decode(word, lane);
    const uint32_t phase =
        in.flag ? w.slot<uint32_t>(in.b)[lane] & 1 : static_cast<uint32_t>(w.slot<uint64_t>(in.b)[lane] >> 1 & 1);
    if (s.phase != phase) {
      done |= 1u << lane;
      if (w.block->races) w.block->races->location_sync(w.index, reinterpret_cast<uint64_t>(at));
    }
  });
  uint32_t* p = w.slot<uint32_t>(in.d);
  *p = (*p & ~mask) | done;
  if (done == mask) return;
  w.polled = true;
  w.yielding = true;
  w.stop = true;
}

uint64_t checked_global(Warp& w, uint64_t address, uint64_t bytes, bool store, int lane) {
  const Region* r = find_region(*w.worker->launch, address, bytes);
  if (!r || (store && !r->writable)) fault_global(w, address, static_cast<uint32_t>(bytes), store, lane);
  return address;
}

uint64_t bulk_size(const Instr& in, const Warp& w, int lane) {
  const uint64_t bytes = w.slot<uint32_t>(in.c)[lane];
  if (bytes % 16) fault("a bulk copy of " + std::to_string(bytes) + " bytes, expected a multiple of 16", lane);
  return bytes;
}

void count_bulk(const Instr& in, Warp& w, uint64_t address, uint64_t bytes) {
  MemoryCounters& c = w.worker->accesses[in.access].global;
  ++c.requests;
  c.bytes += bytes;
  c.ideal_sectors += (bytes + 31) / 32;
  c.sectors += bytes ? ((address + bytes - 1) >> 5) - (address >> 5) + 1 : 0;
  c.lines += bytes ? ((address + bytes - 1) >> 7) - (address >> 7) + 1 : 0;
}

// a: shared destination, b: source, c: size, e: mbarrier. Bits 1 and 2 of mode: e and b are 32-bit addresses; flag: the
// source is shared.
void bulk_to_shared(const Instr& in, Warp& w, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    const uint64_t bytes = bulk_size(in, w, lane);
    std::byte* to = shared_at(w, lane_address(in, w, lane), bytes, 16, lane);
    const std::byte* from;
    if (in.flag) {
      from = shared_at(w, lane_value(w, in.b, in.mode & 4, lane), bytes, 16, lane);
    } else {
      const uint64_t address = checked_global(w, w.slot<uint64_t>(in.b)[lane], bytes, false, lane);
      if (address % 16) fault_misaligned("global", address, 16, lane);
      count_bulk(in, w, address, bytes);
      from = reinterpret_cast<const std::byte*>(address);
    }
    std::memmove(to, from, bytes);
    if (w.block->races && to >= w.block->smem.data() && to < w.block->smem.data() + w.block->smem_bytes)
      w.block->races->access(w, w.now.code->count_base + static_cast<uint32_t>(&in - w.code_begin), lane,
                             static_cast<uint32_t>(to - w.block->smem.data()), static_cast<uint32_t>(bytes),
                             RaceState::Access::kWrite);
    complete_tx(w, shared_at(w, lane_value(w, in.e, in.mode & 2, lane), 8, 8, lane), static_cast<int32_t>(bytes), lane);
  });
}

// a: global destination, b: shared source, c: size. Bit 0 of mode: b is a 32-bit address.
void bulk_to_global(const Instr& in, Warp& w, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    const uint64_t bytes = bulk_size(in, w, lane);
    const uint64_t to = checked_global(w, lane_address(in, w, lane), bytes, true, lane);
    if (to % 16) fault_misaligned("global", to, 16, lane);
    const std::byte* from = shared_at(w, lane_value(w, in.b, in.mode & 1, lane), bytes, 16, lane);
    count_bulk(in, w, to, bytes);
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  });
}

// Addresses of a peer's shared memory. reg_bytes: width of the addresses.
void map_address(const Instr& in, Warp& w, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    const uint32_t rank = w.slot<uint32_t>(in.b)[lane];
    if (rank >= w.block->cluster.size())
      fault("mapa to block " + std::to_string(rank) + " of a cluster of " + std::to_string(w.block->cluster.size()),
            lane);
    const uint64_t a = lane_value(w, in.a, in.reg_bytes == 4, lane);
    const uint64_t offset = (a & ~kWindowMask) & ((1u << kSharedRankShift) - 1);
    const uint64_t mapped = (a & kWindowMask) | offset | uint64_t{rank + 1} << kSharedRankShift;
    if (in.reg_bytes == 4)
      w.slot<uint32_t>(in.d)[lane] = static_cast<uint32_t>(mapped);
    else
      w.slot<uint64_t>(in.d)[lane] = mapped;
  });
}

void rank_of_address(const Instr& in, Warp& w, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    const uint64_t rank = (lane_value(w, in.a, in.reg_bytes == 4, lane) & ~kWindowMask) >> kSharedRankShift;
    w.slot<uint32_t>(in.d)[lane] = rank == 0 ? w.block->rank : static_cast<uint32_t>(rank - 1);
  });
}

void cluster_arrive(const Instr&, Warp& w, uint32_t mask) {
  if (w.cluster_waiting & mask)
    fault("barrier.cluster.arrive again without a wait between", std::countr_zero(w.cluster_waiting & mask));
  Block& first = *w.block->cluster[0];
  w.cluster_waiting |= mask;
  w.cluster_phase = first.cluster_phase;
  first.cluster_arrived += static_cast<uint32_t>(std::popcount(mask));
  cluster_check(*w.block);
}

void cluster_wait(const Instr&, Warp& w, uint32_t mask) {
  if (mask & ~w.cluster_waiting)
    fault("barrier.cluster.wait without an arrive before it", std::countr_zero(mask & ~w.cluster_waiting));
  w.cluster_waiting &= ~mask;
  if (w.block->cluster[0]->cluster_phase == w.cluster_phase) park(w, SplitState::kAtCluster);
}

}  // namespace

// Completes the barrier of a cluster when all threads that live have arrived.
void cluster_check(Block& block) {
  Block& first = *block.cluster[0];
  uint32_t alive = 0;
  for (const Block* b : block.cluster)
    for (uint32_t i = 0; i < (b->threads + kLanes - 1) / kLanes; ++i)
      alive += static_cast<uint32_t>(std::popcount(b->warps[i]->live));
  if (first.cluster_arrived == 0 || first.cluster_arrived < alive) return;
  first.cluster_arrived = 0;
  ++first.cluster_phase;
  for (Block* b : block.cluster)
    for (auto& w : b->warps)
      for (Split& s : w->splits)
        if (s.state == SplitState::kAtCluster) s.state = SplitState::kReady;
}

void mbarrier_rows(HandlerRows& rows) {
  rows.emplace_back("mbarrier.init", &init);
  rows.emplace_back("mbarrier.inval", &invalidate);
  rows.emplace_back("mbarrier.arrive", &arrive_at);
  rows.emplace_back("mbarrier.tx", &change_tx);
  rows.emplace_back("mbarrier.wait", &test_wait);
  rows.emplace_back("cp.async.bulk.shared", &bulk_to_shared);
  rows.emplace_back("cp.async.bulk.global", &bulk_to_global);
  rows.emplace_back("mapa", &map_address);
  rows.emplace_back("getctarank", &rank_of_address);
  rows.emplace_back("barrier.cluster.arrive", &cluster_arrive);
  rows.emplace_back("barrier.cluster.wait", &cluster_wait);
}

}  // namespace tilewright::sim
