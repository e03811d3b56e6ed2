// mbarriers, asynchronous copies and clusters (PTX ISA 9.7.9.25, 9.7.13.15).
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "simulator/async.h"

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
  if (!(word & kValid) || word >> 63)
    fault(Check::kMbarrier, "an mbarrier that is not initialised", "mbarrier.init comes first", lane);
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

uint64_t host_address(const std::byte* at) { return reinterpret_cast<uint64_t>(at); }

State load_state(const std::byte* at, int lane) {
  uint64_t word;
  std::memcpy(&word, at, 8);
  return decode(word, lane);
}

bool complete_phase(State& s, int lane) {
  if (s.pending < 0)
    fault(Check::kMbarrier, "an mbarrier with more arrivals than it expects in a phase",
          "mbarrier.init gives the number of arrivals of a phase", lane);
  if (s.pending != 0 || s.tx != 0) return false;
  s.phase ^= 1;
  s.pending = s.expected;
  return true;
}

template <typename Change>
uint64_t update(Warp& w, std::byte* at, int lane, Change change) {
  uint64_t word;
  std::memcpy(&word, at, 8);
  State s = decode(word, lane);
  const uint64_t before = word;
  change(s);
  if (s.tx > kMaxCount || s.tx < -kMaxCount)
    fault(Check::kMbarrier, "an mbarrier's transaction count passes 2^20 - 1 bytes",
          "bytes are expected once for each copy", lane);
  const bool completed = complete_phase(s, lane);
  word = encode(s);
  std::memcpy(at, &word, 8);
  w.acted = true;
  if (completed && w.block->watch) w.block->watch->mbarrier_complete(lane, host_address(at));
  return before;
}

void complete_tx(Warp& w, std::byte* at, int32_t bytes, int lane) {
  if (w.block->watch) w.block->watch->mbarrier_deliver(host_address(at));
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
      fault(Check::kMbarrier, "mbarrier.init for " + std::to_string(count) + " arrivals", "1 to 1048575 are possible",
            lane);
    State s;
    s.expected = s.pending = static_cast<int32_t>(count);
    const uint64_t word = encode(s);
    std::byte* at = shared_at(w, lane_address(in, w, lane), 8, 8, lane);
    if (w.block->watch) w.block->watch->mbarrier_init(in, w, lane, host_address(at));
    std::memcpy(at, &word, 8);
  });
}

void invalidate(const Instr& in, Warp& w, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    std::byte* at = shared_at(w, lane_address(in, w, lane), 8, 8, lane);
    load_state(at, lane);
    if (w.block->watch) w.block->watch->mbarrier_forget(in, w, lane, host_address(at));
    std::memset(at, 0, 8);
  });
}

// b: count of arrivals, c: bytes to expect; flag: the count is dropped from later phases too.
void arrive_at(const Instr& in, Warp& w, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    const int32_t count = in.b == kNone ? 1 : static_cast<int32_t>(w.slot<uint32_t>(in.b)[lane]);
    const int32_t bytes = in.c == kNone ? 0 : static_cast<int32_t>(w.slot<uint32_t>(in.c)[lane]);
    std::byte* at = shared_at(w, lane_address(in, w, lane), 8, 8, lane);
    load_state(at, lane);
    if (Watch* watch = w.block->watch) {
      watch->mbarrier_use(in, w, lane, host_address(at));
      watch->mbarrier_arrive(w, lane, host_address(at));
    }
    const uint64_t token = update(w, at, lane, [&](State& s) {
      s.tx += bytes;
      s.pending -= count;
      if (in.flag) s.expected -= count;
    });
    if (in.d != kNone) w.slot<uint64_t>(in.d)[lane] = token;
  });
}

// cp.async.mbarrier.arrive. flag: the arrival is among those expected; else pending is raised for it at once.
void arrive_after_copies(const Instr& in, Warp& w, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    std::byte* at = shared_at(w, lane_address(in, w, lane), 8, 8, lane);
    load_state(at, lane);
    if (w.block->watch) {
      w.block->watch->mbarrier_use(in, w, lane, host_address(at));
      w.block->watch->mbarrier_copies_arrive(w, host_address(at));
    }
    if (!in.flag) update(w, at, lane, [](State& s) { ++s.pending; });
    w.block->copies->issue_after_copies(w, lane, at, [=, &w] { update(w, at, lane, [](State& s) { --s.pending; }); });
  });
}

// mode: +1 expects bytes, -1 completes them.
void change_tx(const Instr& in, Warp& w, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    const auto bytes = static_cast<int32_t>(w.slot<uint32_t>(in.b)[lane]);
    std::byte* at = shared_at(w, lane_address(in, w, lane), 8, 8, lane);
    load_state(at, lane);
    if (w.block->watch) w.block->watch->mbarrier_use(in, w, lane, host_address(at));
    update(w, at, lane, [&](State& s) { s.tx += in.mode == 0 ? bytes : -bytes; });
  });
}

// The pending count of a token.
void pending_count(const Instr& in, Warp& w, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    w.slot<uint32_t>(in.d)[lane] = static_cast<uint32_t>(decode(w.slot<uint64_t>(in.a)[lane], lane).pending);
  });
}

// flag: b is a parity, else a token. A wait that fails gives others a turn.
void test_wait(const Instr& in, Warp& w, uint32_t mask) {
  uint32_t done = 0;
  each_lane(mask, [&](int lane) {
    const uint64_t address = lane_address(in, w, lane);
    std::byte* at = shared_at(w, address, 8, 8, lane);
    if (at < w.block->smem.data() || at >= w.block->smem.data() + w.block->smem_bytes)
      fault(Check::kMbarrier, "a wait on an mbarrier of another block", "threads wait on mbarriers of their own block",
            lane, address);
    load_state(at, lane);
    if (w.block->watch) w.block->watch->mbarrier_use(in, w, lane, host_address(at));
    const uint32_t phase =
        in.flag ? w.slot<uint32_t>(in.b)[lane] & 1 : static_cast<uint32_t>(w.slot<uint64_t>(in.b)[lane] >> 1 & 1);
    const auto is_over = [&] { return load_state(at, lane).phase != phase; };
    // A copy that is as late as can be has happened before a wait for it fails.
    if (is_over() || (w.block->copies->finish_for(at) && is_over())) {
      done |= 1u << lane;
      if (w.block->watch) w.block->watch->mbarrier_observe(w, host_address(at));
    } else {
      w.awaited = host_address(at);
    }
  });
  uint32_t* p = w.slot<uint32_t>(in.d);
  *p = (*p & ~mask) | done;
  w.blocked = done != mask;
  if (!w.blocked) return;
  w.polled = true;
  w.yielding = true;
  w.stop = true;
}

void commit_group(const Instr& in, Warp& w, uint32_t mask) {
  const auto group = static_cast<Watch::Group>(in.mode);
  w.block->copies->commit(w, group, mask);
  if (w.block->watch) w.block->watch->commit(w, group, mask);
}

// imm: groups that may be pending; flag: only the sources of bulk copies are waited for.
void wait_group(const Instr& in, Warp& w, uint32_t mask) {
  const auto group = static_cast<Watch::Group>(in.mode);
  w.block->copies->wait(w, group, mask, static_cast<uint32_t>(in.imm));
  if (w.block->watch) w.block->watch->wait(w, group, mask, static_cast<uint32_t>(in.imm), in.flag);
}

void wait_all_groups(const Instr& in, Warp& w, uint32_t mask) {
  const auto group = static_cast<Watch::Group>(in.mode);
  w.block->copies->wait_all(w, group, mask);
  if (w.block->watch) w.block->watch->wait_all(w, group);
}

uint64_t checked_global(Warp& w, uint64_t address, uint64_t bytes, bool store, int lane) {
  const Region* r = find_region(*w.worker->launch, address, bytes);
  if (!r || (store && !r->writable)) fault_global(w, address, static_cast<uint32_t>(bytes), store, lane);
  return address;
}

uint64_t bulk_size(const Instr& in, const Warp& w, int lane) {
  const uint64_t bytes = w.slot<uint32_t>(in.c)[lane];
  if (bytes % 16)
    fault(Check::kMisaligned, "a bulk copy of " + std::to_string(bytes) + " bytes", "the size is a multiple of 16",
          lane);
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

// target: how a reduction combines elements of reg_bytes; 0: a copy.
void transfer(const Instr& in, std::byte* to, const std::byte* from, uint64_t bytes, bool global) {
  if (in.target == 0) {
    std::memmove(to, from, bytes);
    return;
  }
  const CombineElement combine = combine_at(in.target);
  for (uint64_t at = 0; at < bytes; at += in.reg_bytes) combine(to + at, from + at, global);
}

// The same place in another block of the cluster.
uint64_t in_block(uint64_t address, uint32_t rank) {
  return (address & ((1u << kSharedRankShift) - 1)) | uint64_t{rank + 1} << kSharedRankShift;
}

// a: shared destination, b: source, c: size, e: mbarrier. Bits 1 and 2 of mode: e and b are 32-bit addresses; flag: the
// source is shared; d: mask of the blocks that a multicast writes to.
void bulk_to_shared(const Instr& in, Warp& w, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    const uint64_t bytes = bulk_size(in, w, lane);
    const std::byte* from;
    if (in.flag) {
      from = shared_at(w, lane_value(w, in.b, in.mode & 4, lane), bytes, 16, lane);
    } else {
      const uint64_t address = checked_global(w, w.slot<uint64_t>(in.b)[lane], bytes, false, lane);
      if (address % 16) fault_misaligned("global", address, 16, lane);
      count_bulk(in, w, address, bytes);
      from = reinterpret_cast<const std::byte*>(address);
    }
    const uint64_t place = lane_address(in, w, lane), at = lane_value(w, in.e, in.mode & 2, lane);
    const auto send = [&](uint64_t to_address, uint64_t barrier_address) {
      std::byte* to = shared_at(w, to_address, bytes, 16, lane);
      std::byte* barrier = shared_at(w, barrier_address, 8, 8, lane);
      load_state(barrier, lane);
      if (Watch* watch = w.block->watch)
        watch->copy(in, w, lane, Watch::Group::kBulk, to, from, bytes, host_address(barrier));
      w.block->copies->issue(w, lane, Watch::Group::kBulk, barrier, [=, &w] {
        transfer(in, to, from, bytes, /*global=*/false);
        complete_tx(w, barrier, static_cast<int32_t>(bytes), lane);
      });
    };
    if (in.d == kNone) return send(place, at);
    for (uint32_t ranks = w.slot<uint16_t>(in.d)[lane]; ranks; ranks &= ranks - 1) {
      const auto rank = static_cast<uint32_t>(std::countr_zero(ranks));
      send(in_block(place, rank), in_block(at, rank));
    }
  });
}

// st.async and red.async. a: shared destination, list: values of `bytes` each, e: mbarrier; bit 1 of mode: its address
// has 32 bits.
void store_async(const Instr& in, Warp& w, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    const uint32_t bytes = uint32_t{in.bytes} * in.vector;
    std::array<std::byte, 16> values{};
    for (uint32_t e = 0; e < in.vector; ++e) {
      const uint32_t slot = w.now.code->lists[in.list + e];
      std::memcpy(values.data() + e * in.bytes, w.regs + slot + static_cast<size_t>(lane) * in.bytes, in.bytes);
    }
    std::byte* to = shared_at(w, lane_address(in, w, lane), bytes, bytes, lane);
    std::byte* barrier = shared_at(w, lane_value(w, in.e, in.mode & 2, lane), 8, 8, lane);
    load_state(barrier, lane);
    if (Watch* watch = w.block->watch)
      watch->copy(in, w, lane, Watch::Group::kBulk, to, nullptr, bytes, host_address(barrier));
    w.block->copies->issue(w, lane, Watch::Group::kBulk, barrier, [=, &w] {
      transfer(in, to, values.data(), bytes, /*global=*/false);
      complete_tx(w, barrier, static_cast<int32_t>(bytes), lane);
    });
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
    auto* target = reinterpret_cast<std::byte*>(to);
    if (w.block->watch) w.block->watch->copy(in, w, lane, Watch::Group::kBulk, target, from, bytes, 0);
    w.block->copies->issue(w, lane, Watch::Group::kBulk, nullptr,
                           [=] { transfer(in, target, from, bytes, /*global=*/true); });
  });
}

// Addresses of a peer's shared memory. reg_bytes: width of the addresses.
void map_address(const Instr& in, Warp& w, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    const uint32_t rank = w.slot<uint32_t>(in.b)[lane];
    if (rank >= w.block->cluster.size())
      fault(Check::kOutOfBounds,
            "mapa to block " + std::to_string(rank) + " of a cluster of " + std::to_string(w.block->cluster.size()),
            "ranks begin at 0", lane);
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

// mode: aligned; flag: relaxed.
void check_aligned(const Instr& in, const Warp& w, uint32_t mask) {
  if (in.mode && mask != w.live)
    fault(Check::kDivergence, "an aligned barrier of the cluster in divergent code",
          "use the form without .aligned, or move it out of the branch", std::countr_zero(mask));
}

void cluster_arrive(const Instr& in, Warp& w, uint32_t mask) {
  check_aligned(in, w, mask);
  if (w.cluster_waiting & mask)
    fault(Check::kBarrier, "barrier.cluster.arrive again without a wait between", "arrivals and waits come in turn",
          std::countr_zero(w.cluster_waiting & mask));
  Block& first = *w.block->cluster[0];
  w.cluster_waiting |= mask;
  w.cluster_phase = first.cluster_phase;
  first.cluster_arrived += static_cast<uint32_t>(std::popcount(mask));
  w.acted = true;
  if (w.block->watch) w.block->watch->cluster_arrive(w, in.flag);
  cluster_check(*w.block);
}

void cluster_wait(const Instr& in, Warp& w, uint32_t mask) {
  check_aligned(in, w, mask);
  if (mask & ~w.cluster_waiting)
    fault(Check::kBarrier, "barrier.cluster.wait without an arrive before it", "arrivals and waits come in turn",
          std::countr_zero(mask & ~w.cluster_waiting));
  w.cluster_waiting &= ~mask;
  if (w.block->cluster[0]->cluster_phase == w.cluster_phase)
    park(w, SplitState::kAtCluster);
  else if (w.block->watch)
    w.block->watch->cluster_wait(w);
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
  if (block.watch) block.watch->cluster_complete();
  for (Block* b : block.cluster) {
    for (auto& w : b->warps) {
      for (Split& s : w->splits) {
        if (s.state != SplitState::kAtCluster) continue;
        s.state = SplitState::kReady;
        if (block.watch) block.watch->cluster_wait(*w);
      }
    }
  }
}

void copy_async_lane(const Instr& in, Warp& w, int lane, std::byte* to, const std::byte* from, uint32_t bytes) {
  const uint32_t whole = in.bytes;
  if (w.block->watch) w.block->watch->copy(in, w, lane, Watch::Group::kCopy, to, bytes ? from : nullptr, whole, 0);
  w.block->copies->issue(w, lane, Watch::Group::kCopy, nullptr, [=] {
    if (bytes) std::memcpy(to, from, bytes);
    std::memset(to + bytes, 0, whole - bytes);
  });
}

std::string mbarrier_text(const Warp& w) {
  if (w.awaited == 0) return "for registers that other warpgroups have";
  const State s = load_state(reinterpret_cast<const std::byte*>(w.awaited), -1);
  return "on the mbarrier at offset " + std::to_string(w.awaited - host_address(w.block->smem.data())) +
         ", whose phase " + "lacks " + std::to_string(s.pending) + " of " + std::to_string(s.expected) +
         " arrivals and " + std::to_string(s.tx) + " bytes";
}

void mbarrier_rows(HandlerRows& rows) {
  rows.emplace_back("mbarrier.init", &init);
  rows.emplace_back("mbarrier.inval", &invalidate);
  rows.emplace_back("mbarrier.arrive", &arrive_at);
  rows.emplace_back("mbarrier.arrive.copies", &arrive_after_copies);
  rows.emplace_back("mbarrier.tx", &change_tx);
  rows.emplace_back("mbarrier.wait", &test_wait);
  rows.emplace_back("mbarrier.pending_count", &pending_count);
  rows.emplace_back("async.commit_group", &commit_group);
  rows.emplace_back("async.wait_group", &wait_group);
  rows.emplace_back("async.wait_all", &wait_all_groups);
  rows.emplace_back("cp.async.bulk.shared", &bulk_to_shared);
  rows.emplace_back("cp.async.bulk.global", &bulk_to_global);
  rows.emplace_back("st.async", &store_async);
  rows.emplace_back("mapa", &map_address);
  rows.emplace_back("getctarank", &rank_of_address);
  rows.emplace_back("barrier.cluster.arrive", &cluster_arrive);
  rows.emplace_back("barrier.cluster.wait", &cluster_wait);
}

}  // namespace tilewright::sim
