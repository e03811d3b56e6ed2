// Planted races and uninitialised reads of shared memory, each with a faultless twin.
#include "run.h"

namespace tilewright::sim {
namespace {

// What a block of `threads` reports; %t is the thread, %a the address of its word, %n that of thread t ^ `partner`.
std::string report(const std::string& body, uint32_t partner, uint32_t threads = 64) {
  const std::string ptx = module_header() + R"(
.visible .entry k()
{
  .shared .align 16 .b8 s[1024];
  .reg .b32 %t, %a, %n, %v, %w, %i;
  .reg .b16 %h;
  .reg .pred %p;
  mov.u32 %t, %tid.x;
  mov.u32 %a, s;
  xor.b32 %n, %t, )" + std::to_string(partner) +
                          R"(;
  mad.lo.u32 %n, %n, 4, %a;
  mad.lo.u32 %a, %t, 4, %a;
)" + body + "  ret;\n}\n";
  LaunchConfig config = config_1d(1, threads);
  config.check_races = config.check_uninitialized = true;
  const auto module = parse(ptx);
  return thrown<DeviceError>([&] { launch(*module, "k", config, {}, {}); });
}

constexpr const char* kNone = "(nothing thrown)";

void expect_report(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* p : parts) EXPECT_NE(text.find(p), std::string::npos) << "no \"" << p << "\" in:\n" << text;
}

TEST(Races, MissingBarrierBetweenWarps) {
  expect_report(report("  st.shared.u32 [%a], %t;\n  ld.shared.u32 %v, [%n];\n", 32), {"uninitialised shared memory"});
  expect_report(
      report("  st.shared.u32 [%a], %t;\n  bar.sync 0;\n  st.shared.u32 [%a], %t;\n  ld.shared.u32 %v, [%n];\n", 32),
      {"shared-memory race: a ", "unordered with the ", "st.shared.u32 [%a], %t", "ld.shared.u32 %v, [%n]",
       "a barrier is missing between"});
  EXPECT_EQ(report("  st.shared.u32 [%a], %t;\n  bar.sync 0;\n  ld.shared.u32 %v, [%n];\n", 32), kNone);
}

TEST(Races, MissingWarpSyncBetweenLanes) {
  expect_report(report("  st.shared.u32 [%a], %t;\n  ld.shared.u32 %v, [%n];\n", 1),
                {"shared-memory race: a load", "lanes of one warp need a bar.warp.sync"});
  EXPECT_EQ(report("  st.shared.u32 [%a], %t;\n  bar.warp.sync -1;\n  ld.shared.u32 %v, [%n];\n", 1), kNone);
  EXPECT_EQ(
      report("  st.shared.u32 [%a], %t;\n  shfl.sync.bfly.b32 %w, %t, 1, 31, -1;\n  ld.shared.u32 %v, [%n];\n", 1),
      kNone);
  EXPECT_EQ(report("  st.shared.u32 [%a], %t;\n  ld.shared.u32 %v, [%a];\n", 1), kNone);
}

// A buffer that is filled again before all have read it.
TEST(Races, BufferReusedTooEarly) {
  const auto loop = [](const std::string& last) {
    return "  mov.u32 %i, 0;\nLOOP:\n  st.shared.u32 [%a], %i;\n  bar.sync 0;\n  ld.shared.u32 %v, [%n];\n" + last +
           "  add.u32 %i, %i, 1;\n  setp.lt.u32 %p, %i, 3;\n  @%p bra LOOP;\n";
  };
  expect_report(report(loop(""), 32), {"shared-memory race: a ", "st.shared.u32 [%a], %i", "ld.shared.u32 %v, [%n]",
                                       "a barrier is missing between"});
  EXPECT_EQ(report(loop("  bar.sync 0;\n"), 32), kNone);
}

TEST(Races, StoresToOnePlace) {
  expect_report(report("  st.shared.u32 [s], %t;\n", 1), {"shared-memory race: a store", "unordered with the store"});
  EXPECT_EQ(report("  setp.eq.u32 %p, %t, 0;\n  @%p st.shared.u32 [s], %t;\n", 1), kNone);
}

TEST(Races, ProducerAndConsumerByNamedBarriers) {
  const auto kernel = [](const char* consume) {
    return std::string(
               "  setp.lt.u32 %p, %t, 32;\n  @%p bra CONSUME;\n  st.shared.u32 [%n], %t;\n  bar.arrive 1, 64;\n  bra "
               "END;\nCONSUME:\n") +
           consume + "  ld.shared.u32 %v, [%a];\nEND:\n";
  };
  EXPECT_EQ(report(kernel("  bar.sync 1, 64;\n"), 32), kNone);
  // What the producer writes after arriving is not covered.
  const std::string late =
      "  setp.lt.u32 %p, %t, 32;\n  st.shared.u32 [%a], 0;\n  @%p bra CONSUME;\n  bar.arrive 1, 64;\n  st.shared.u32 "
      "[%n], %t;\n  bra END;\nCONSUME:\n"
      "  bar.sync 1, 64;\n  ld.shared.u32 %v, [%a];\nEND:\n";
  expect_report(report(late, 32), {"shared-memory race"});
}

TEST(Races, AtomicsAreOrderedAmongThemselvesOnly) {
  const std::string start =
      "  setp.eq.u32 %p, %t, 0;\n  @%p st.shared.u32 [s], 0;\n  bar.sync 0;\n  atom.shared.add.u32 %v, [s], 1;\n";
  EXPECT_EQ(report(start, 1), kNone);
  EXPECT_EQ(report(start + "  bar.sync 0;\n  ld.shared.u32 %v, [s];\n", 1), kNone);
  expect_report(report(start + "  ld.shared.u32 %v, [s];\n", 1), {"shared-memory race", "atomic"});
}

TEST(Races, NeighbouringBytesAreApart) {
  EXPECT_EQ(report("  mov.u32 %a, s;\n  mad.lo.u32 %a, %t, 2, %a;\n  cvt.u16.u32 %h, %t;\n  st.shared.u16 [%a], %h;\n  "
                   "ld.shared.u16 %h, [%a];\n",
                   1),
            kNone);
}

TEST(Races, UninitializedRead) {
  expect_report(report("  ld.shared.u32 %v, [%a+512];\n", 1),
                {"uninitialised shared memory", "byte 512", "ld.shared.u32 %v, [%a+512]"});
  EXPECT_EQ(report("  st.shared.u32 [%a+512], %t;\n  ld.shared.u32 %v, [%a+512];\n", 1), kNone);
}

TEST(Races, NoneInWholeKernels) {
  const auto module = parse(read_data("kernels_sm90a.ptx"));
  LaunchConfig config;
  config.check_races = config.check_uninitialized = true;
  {
    std::vector<float> in(64 * 64), out(64 * 64);
    config.grid = {2, 2, 1};
    config.block = {32, 8, 1};
    const std::vector<Allocation> memory{allocation(in, "in"), allocation(out, "out")};
    const std::vector<std::vector<std::byte>> args{pointer(in), pointer(out), arg(64), arg(64)};
    launch(*module, "transpose_tiled", config, args, memory);
  }
  {
    std::vector<float> in(5000), out(1);
    config.grid = {3, 1, 1};
    config.block = {256, 1, 1};
    const std::vector<Allocation> memory{allocation(in, "in"), allocation(out, "out")};
    const std::vector<std::vector<std::byte>> args{pointer(in), pointer(out), arg(5000)};
    launch(*module, "block_reduce", config, args, memory);
  }
  {
    std::vector<uint16_t> in(2 * 300), out(2 * 300);
    config.grid = {2, 1, 1};
    config.block = {96, 1, 1};
    config.dynamic_smem_bytes = 1200;
    const std::vector<Allocation> memory{allocation(in, "in"), allocation(out, "out")};
    const std::vector<std::vector<std::byte>> args{pointer(in), pointer(out), arg(300)};
    launch(*module, "softmax_rows", config, args, memory);
  }
}

}  // namespace
}  // namespace tilewright::sim
