// Divergence, loops, barriers, and collectives of a warp.
#include <numeric>

#include "run.h"

namespace tilewright::sim {
namespace {

// Each thread runs `body`, which leaves a 32-bit result in %v; %t is its thread number.
std::vector<uint32_t> run_threads(const std::string& body, uint32_t threads, const std::string& declarations = "",
                                  uint32_t blocks = 1) {
  const std::string ptx = module_header() + R"(
.visible .entry k(.param .u64 out)
{
)" + declarations + R"(
  .reg .b64 %o, %x;
  .reg .b32 %t, %v, %b;
  .reg .b32 %r<30>;
  .reg .pred %p, %q;
  ld.param.u64 %o, [out];
  mov.u32 %t, %tid.x;
  mov.u32 %v, 0;
)" + body + R"(
  mov.u32 %b, %ctaid.x;
  mov.u32 %r29, %ntid.x;
  mad.lo.u32 %b, %b, %r29, %t;
  mul.wide.u32 %x, %b, 4;
  add.s64 %o, %o, %x;
  st.global.u32 [%o], %v;
  ret;
})";
  std::vector<uint32_t> out(threads * blocks, 0xdddddddd);
  const std::vector<Allocation> memory{allocation(out, "out")};
  const std::vector<std::vector<std::byte>> args{pointer(out)};
  launch(*parse(ptx), "k", config_1d(blocks, threads), args, memory);
  return out;
}

TEST(Divergence, BranchesMeetAgain) {
  // After an if-else that splits a warp all lanes take part in the vote.
  const auto out = run_threads(R"(
  and.b32 %r0, %t, 1;
  setp.eq.u32 %p, %r0, 0;
  @%p bra EVEN;
  mov.u32 %r1, 100;
  bra.uni MEET;
EVEN:
  mov.u32 %r1, 200;
MEET:
  activemask.b32 %v;
  popc.b32 %v, %v;
  add.u32 %v, %v, %r1;
)",
                               40);
  for (uint32_t i = 0; i < 40; ++i) EXPECT_EQ(out[i], (i % 2 ? 100u : 200u) + (i < 32 ? 32 : 8)) << i;
}

TEST(Divergence, NestedLoopsOfDifferentLength) {
  // v = sum over a <= t of (number of steps of b from a down to zero).
  const auto out = run_threads(R"(
  mov.u32 %r0, 0;
OUTER:
  mov.u32 %r1, %r0;
INNER:
  setp.eq.u32 %p, %r1, 0;
  @%p bra DONE;
  add.u32 %v, %v, 1;
  sub.u32 %r1, %r1, 1;
  bra INNER;
DONE:
  add.u32 %r0, %r0, 1;
  setp.le.u32 %q, %r0, %t;
  @%q bra OUTER;
  activemask.b32 %r2;
  popc.b32 %r2, %r2;
  mad.lo.u32 %v, %r2, 1000, %v;
)",
                               32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 32000 + i * (i + 1) / 2) << i;
}

TEST(Divergence, BreakContinueAndEarlyReturn) {
  const auto out = run_threads(R"(
  setp.gt.u32 %p, %t, 50;
  @%p bra EXIT;
  mov.u32 %r0, 0;
LOOP:
  add.u32 %r0, %r0, 1;
  setp.gt.u32 %p, %r0, 10;
  @%p bra END;
  rem.u32 %r1, %r0, 3;
  setp.eq.u32 %q, %r1, 0;
  @%q bra LOOP;
  setp.gt.u32 %q, %r0, %t;
  @%q bra END;
  add.u32 %v, %v, %r0;
  bra LOOP;
EXIT:
  ret;
END:
  bar.warp.sync 0xffffffff;
)",
                               51);
  for (uint32_t i = 0; i < 51; ++i) {
    uint32_t v = 0;
    for (uint32_t k = 1; k <= 10; ++k) {
      if (k % 3 == 0) continue;
      if (k > i) break;
      v += k;
    }
    EXPECT_EQ(out[i], v) << i;
  }
}

TEST(Divergence, IndexedBranch) {
  const auto out = run_threads(R"(
  and.b32 %r0, %t, 3;
TABLE: .branchtargets L0, L1, L2, L1;
  brx.idx %r0, TABLE;
L0:
  add.u32 %v, %v, 1;
L1:
  add.u32 %v, %v, 10;
  bra MEET;
L2:
  add.u32 %v, %v, 100;
MEET:
  activemask.b32 %r1;
  popc.b32 %r1, %r1;
  mad.lo.u32 %v, %r1, 1000, %v;
)",
                               32);
  const uint32_t expected[] = {11, 10, 100, 10};
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 32000 + expected[i % 4]) << i;
}

// A lock that lanes of one warp take in turn: lanes that wait must let the holder go on.
TEST(Divergence, SpinLockWithinAWarp) {
  const auto out = run_threads(R"(
  mov.u32 %r0, 0;
  setp.ne.u32 %p, %t, 0;
  @!%p st.shared.u32 [lock], 0;
  @!%p st.shared.u32 [sum], 0;
  bar.sync 0;
AGAIN:
  atom.shared.cas.b32 %r1, [lock], 0, 1;
  setp.ne.u32 %p, %r1, 0;
  @%p bra AGAIN;
  ld.volatile.shared.u32 %r2, [sum];
  add.u32 %r2, %r2, %t;
  st.volatile.shared.u32 [sum], %r2;
  membar.cta;
  atom.shared.exch.b32 %r3, [lock], 0;
  bar.sync 0;
  ld.shared.u32 %v, [sum];
)",
                               64, "  .shared .align 4 .u32 lock, sum;\n");
  for (uint32_t v : out) EXPECT_EQ(v, 63u * 64 / 2);
}

// Blocks that wait for others which have not started: all blocks count, then wait for the last.
TEST(Divergence, GridWideBarrierThroughAtomics) {
  const std::string ptx = module_header() + R"(
.global .u32 arrived;
.visible .entry k(.param .u64 out) {
  .reg .b64 %o, %x;
  .reg .b32 %t, %b, %v;
  .reg .pred %p;
  ld.param.u64 %o, [out];
  mov.u32 %b, %ctaid.x;
  mul.wide.u32 %x, %b, 4;
  add.s64 %o, %o, %x;
  red.release.gpu.global.add.u32 [arrived], 1;
WAIT:
  ld.acquire.gpu.global.u32 %v, [arrived];
  setp.lt.u32 %p, %v, 12;
  @%p bra WAIT;
  st.global.u32 [%o], %v;
  ret;
})";
  std::vector<uint32_t> out(12);
  const std::vector<Allocation> memory{allocation(out, "out")};
  const std::vector<std::vector<std::byte>> args{pointer(out)};
  for (int threads : {1, 3}) {
    LaunchConfig config = config_1d(12, 1);
    config.threads = threads;
    launch(*parse(ptx), "k", config, args, memory);
    EXPECT_EQ(out, std::vector<uint32_t>(12, 12));
  }
}

TEST(Barrier, OrdersSharedMemoryBetweenWarps) {
  const auto out = run_threads(R"(
  mov.u32 %r1, s;
  shl.b32 %r2, %t, 2;
  add.u32 %r2, %r2, %r1;
  st.shared.u32 [%r2], %t;
  barrier.sync.aligned 3;
  mov.u32 %r3, %ntid.x;
  sub.u32 %r3, %r3, 1;
  sub.u32 %r3, %r3, %t;
  shl.b32 %r3, %r3, 2;
  add.u32 %r3, %r3, %r1;
  ld.shared.u32 %v, [%r3];
)",
                               1000, "  .shared .align 4 .b8 s[4096];\n", 3);
  for (uint32_t i = 0; i < 3000; ++i) EXPECT_EQ(out[i], 999 - i % 1000);
}

TEST(Barrier, NamedBarriersWithCountsAndArrive) {
  // Warp 0 consumes what warp 1 produced; warps 2 and 3 meet at a barrier of their own.
  const auto out = run_threads(R"(
  shr.u32 %r0, %t, 5;
  setp.eq.u32 %p, %r0, 0;
  @%p bra CONSUME;
  setp.eq.u32 %p, %r0, 1;
  @%p bra PRODUCE;
  bar.sync 2, 64;
  mov.u32 %v, 7;
  bra END;
PRODUCE:
  and.b32 %r1, %t, 31;
  setp.eq.u32 %q, %r1, 0;
  @%q st.shared.u32 [s], 42;
  bar.arrive 1, 64;
  mov.u32 %v, 1;
  bra END;
CONSUME:
  bar.sync 1, 64;
  ld.shared.u32 %v, [s];
END:
)",
                               128, "  .shared .align 4 .u32 s;\n");
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(out[i], i < 32 ? 42u : i < 64 ? 1 : 7);
}

TEST(Barrier, Reductions) {
  const auto out = run_threads(R"(
  and.b32 %r0, %t, 3;
  setp.eq.u32 %p, %r0, 0;
  bar.red.popc.u32 %r1, 0, %p;
  setp.lt.u32 %p, %t, 100;
  bar.red.and.pred %q, 0, %p;
  selp.u32 %r2, 1000, 0, %q;
  bar.red.or.pred %q, 1, !%p;
  selp.u32 %r3, 5000, 0, %q;
  add.u32 %v, %r1, %r2;
  add.u32 %v, %v, %r3;
)",
                               96);
  for (uint32_t v : out) EXPECT_EQ(v, 24u + 1000 + 0);
}

TEST(Barrier, ExitedWarpsAreNotAwaited) {
  const auto out = run_threads(R"(
  setp.ge.u32 %p, %t, 64;
  @%p exit;
  bar.sync 0;
  mov.u32 %v, 3;
)",
                               128);
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(out[i], i < 64 ? 3u : 0xdddddddd);
}

// shfl by the PTX ISA's pseudo code.
uint32_t shuffled(const std::string& mode, uint32_t lane, uint32_t b, uint32_t c, bool& ok) {
  const uint32_t bval = b & 31, cval = c & 31, mask = c >> 8 & 31;
  const uint32_t max_lane = (lane & mask) | (cval & ~mask), min_lane = lane & mask;
  int j = 0;
  if (mode == "up") j = static_cast<int>(lane) - static_cast<int>(bval), ok = j >= static_cast<int>(max_lane);
  if (mode == "down") j = static_cast<int>(lane + bval), ok = j <= static_cast<int>(max_lane);
  if (mode == "bfly") j = static_cast<int>(lane ^ bval), ok = j <= static_cast<int>(max_lane);
  if (mode == "idx") j = static_cast<int>(min_lane | (bval & ~mask)), ok = j <= static_cast<int>(max_lane);
  return ok ? static_cast<uint32_t>(j) : lane;
}

TEST(Collective, ShuffleAllModes) {
  for (const std::string mode : {"up", "down", "bfly", "idx"}) {
    for (const uint32_t width : {32u, 16u, 8u, 2u}) {
      for (const uint32_t b : {0u, 1u, 3u, 5u, 16u, 31u}) {
        const uint32_t c = (32 - width) << 8 | (mode == "up" ? 0 : 31);
        const auto out =
            run_threads("  mul.lo.u32 %r0, %t, 7;\n  shfl.sync." + mode + ".b32 %r1|%p, %r0, " + std::to_string(b) +
                            ", " + std::to_string(c) + ", -1;\n  selp.u32 %v, 1000, 0, %p;\n  add.u32 %v, %v, %r1;\n",
                        32);
        for (uint32_t i = 0; i < 32; ++i) {
          bool ok = false;
          const uint32_t from = shuffled(mode, i, b, c, ok);
          ASSERT_EQ(out[i], from * 7 + (ok ? 1000 : 0)) << mode << " width " << width << " by " << b << " lane " << i;
        }
      }
    }
  }
}

TEST(Collective, Votes) {
  const auto out = run_threads(R"(
  setp.lt.u32 %p, %t, 5;
  vote.sync.ballot.b32 %r0, %p, 0xffffffff;
  vote.sync.any.pred %q, %p, -1;
  selp.u32 %r1, 1, 0, %q;
  vote.sync.all.pred %q, %p, -1;
  selp.u32 %r2, 2, 0, %q;
  vote.sync.uni.pred %q, !%p, -1;
  selp.u32 %r3, 4, 0, %q;
  mul.lo.u32 %v, %r0, 8;
  add.u32 %v, %v, %r1;
  add.u32 %v, %v, %r2;
  add.u32 %v, %v, %r3;
)",
                               64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i < 32 ? 31u * 8 + 1 : 4) << i;
}

TEST(Collective, ReductionsMatchesAndElection) {
  const auto out = run_threads(R"(
  sub.u32 %r9, %t, 10;
  redux.sync.add.u32 %r0, %t, -1;
  redux.sync.min.s32 %r1, %r9, -1;
  redux.sync.max.u32 %r2, %r9, -1;
  redux.sync.xor.b32 %r3, %t, -1;
  shr.u32 %r8, %t, 3;
  match.any.sync.b32 %r4, %r8, -1;
  match.all.sync.b32 %r5|%p, %r8, -1;
  elect.sync %r6|%q, -1;
  add.u32 %v, %r0, %r1;
  add.u32 %v, %v, %r2;
  add.u32 %v, %v, %r3;
  add.u32 %v, %v, %r4;
  add.u32 %v, %v, %r5;
  @%p add.u32 %v, %v, 1;
  @%q add.u32 %v, %v, %r6;
  @%q add.u32 %v, %v, 77;
)",
                               32);
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t same = 0xffu << (i / 8 * 8);
    EXPECT_EQ(out[i], 496 + static_cast<uint32_t>(-10) + 0xffffffffu + 0 + same + 0 + (i == 0 ? 77 : 0)) << i;
  }
}

// Lanes that come to one shuffle by different ways wait for each other.
TEST(Collective, DivergedLanesGatherAtAShuffle) {
  const auto out = run_threads(R"(
  setp.lt.u32 %p, %t, 16;
  mov.u32 %r0, %t;
  @%p bra FIRST;
  add.u32 %r0, %r0, 100;
FIRST:
  shfl.sync.bfly.b32 %v, %r0, 16, 31, -1;
)",
                               32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i < 16 ? i + 116 : i - 16);
}

TEST(Special, Registers) {
  const std::string ptx = module_header() + R"(
.visible .entry k(.param .u64 out)
{
  .reg .b64 %o, %x;
  .reg .b32 %v, %w, %n, %m;
  ld.param.u64 %o, [out];
  mov.u32 %v, %ctaid.z;
  mov.u32 %w, %nctaid.y;
  mov.u32 %n, %ctaid.y;
  mad.lo.u32 %v, %v, %w, %n;
  mov.u32 %w, %nctaid.x;
  mov.u32 %n, %ctaid.x;
  mad.lo.u32 %v, %v, %w, %n;
  mov.u32 %n, %ntid.x;
  mov.u32 %w, %ntid.y;
  mul.lo.u32 %n, %n, %w;
  mov.u32 %w, %ntid.z;
  mul.lo.u32 %n, %n, %w;
  mul.lo.u32 %v, %v, %n;
  mov.u32 %w, %tid.z;
  mov.u32 %n, %ntid.y;
  mov.u32 %m, %tid.y;
  mad.lo.u32 %w, %w, %n, %m;
  mov.u32 %n, %ntid.x;
  mov.u32 %m, %tid.x;
  mad.lo.u32 %w, %w, %n, %m;
  add.u32 %v, %v, %w;
  mul.wide.u32 %x, %v, 4;
  add.s64 %o, %o, %x;
  mov.u32 %w, %warpid;
  shl.b32 %w, %w, 5;
  mov.u32 %n, %laneid;
  add.u32 %w, %w, %n;
  st.global.u32 [%o], %w;
  ret;
})";
  std::vector<uint32_t> out(2 * 3 * 2 * 60);
  LaunchConfig config;
  config.grid = {2, 3, 2};
  config.block = {5, 4, 3};
  const std::vector<Allocation> memory{allocation(out, "out")};
  const std::vector<std::vector<std::byte>> args{pointer(out)};
  launch(*parse(ptx), "k", config, args, memory);
  for (uint32_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], i % 60);
}

TEST(Special, LaneMasks) {
  const auto out = run_threads(R"(
  mov.u32 %r0, %lanemask_lt;
  mov.u32 %r1, %lanemask_ge;
  mov.u32 %r2, %lanemask_eq;
  add.u32 %v, %r0, %r1;
  add.u32 %v, %v, %r2;
)",
                               32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 0xffffffffu + (1u << i));
}

TEST(Special, ClocksAdvance) {
  const auto out = run_threads(R"(
  .reg .b64 %c0, %c1;
  mov.u64 %c0, %clock64;
  nanosleep.u32 100;
  mov.u64 %c1, %clock64;
  setp.ge.u64 %p, %c1, %c0;
  selp.u32 %v, 1, 0, %p;
)",
                               32);
  for (uint32_t v : out) EXPECT_EQ(v, 1u);
}

}  // namespace
}  // namespace tilewright::sim
