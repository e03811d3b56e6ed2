// Faults of kernels, launches that do not fit, and PTX that cannot be read.
#include <random>

#include "run.h"

namespace tilewright::sim {
namespace {

using testing::Test;

std::string simple_kernel(const std::string& body) {
  return module_header() +
         ".file 1 \"group.tw\"\n.visible .entry faulty(.param .u64 in)\n{\n  .reg .b64 %r<8>;\n  .reg .b32 %t, %v;\n  "
         ".reg .f32 %f<4>;\n"
         "  .reg .pred %p;\n  .shared .align 16 .b8 s[256];\n  ld.param.u64 %r1, [in];\n  mov.u32 %t, %tid.x;\n  "
         "mul.wide.u32 %r2, %t, 4;\n"
         "  add.s64 %r2, %r1, %r2;\n" +
         body + "  ret;\n}\n";
}

// The report of a launch over `elements` words named "x".
std::string report(const std::string& body, uint32_t threads = 64, size_t elements = 64, LaunchConfig config = {},
                   bool writable = true) {
  std::vector<uint32_t> x(elements);
  config.block = {threads, 1, 1};
  const std::vector<Allocation> memory{allocation(x, "x", writable)};
  const std::vector<std::vector<std::byte>> args{pointer(x)};
  const auto module = parse(simple_kernel(body));
  return thrown<DeviceError>([&] { launch(*module, "faulty", config, args, memory); });
}

void expect_contains(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* p : parts) EXPECT_NE(text.find(p), std::string::npos) << "no \"" << p << "\" in:\n" << text;
}

TEST(Faults, OutOfBoundsLoad) {
  const std::string text = report("  .loc 1 7 2\n  ld.global.u32 %v, [%r2];\n", 70);
  expect_contains(text, {"out-of-bounds global load of 4 bytes", "0 bytes past the end of 'x'", "256 bytes)",
                         "at offset 256", "kernel faulty", "line 17: ld.global.u32 %v, [%r2]", "(group.tw:7)",
                         "block (0, 0, 0)", "thread (64, 0, 0)"});
}

TEST(Faults, OutOfBoundsStoreBefore) {
  expect_contains(report("  st.global.u32 [%r2+-8], %v;\n"),
                  {"out-of-bounds global store", "8 bytes before 'x'", "thread (0, 0, 0)"});
}

TEST(Faults, AccessThatPassesTheEnd) {
  expect_contains(report("  ld.global.v2.f32 {%f0, %f1}, [%r1+256];\n", 1, 65),
                  {"out-of-bounds global load of 8 bytes", "the last 4 of its bytes pass"});
}

TEST(Faults, NullPointer) {
  expect_contains(report("  mov.u64 %r2, 0;\n  ld.u32 %v, [%r2];\n"), {"out-of-bounds global load", "at 0x0"});
}

TEST(Faults, Misaligned) {
  expect_contains(report("  ld.global.v2.f32 {%f0, %f1}, [%r1+4];\n"),
                  {"misaligned global access of 8 bytes", "a multiple of 8"});
  expect_contains(report("  ld.shared.u32 %v, [s+2];\n"), {"misaligned shared access of 4 bytes"});
}

TEST(Faults, ReadOnlyAllocation) {
  expect_contains(report("  st.global.u32 [%r2], %v;\n", 64, 64, {}, false), {"store to read-only memory", "'x'"});
}

TEST(Faults, SharedMemory) {
  expect_contains(report("  shl.b32 %t, %t, 2;\n  add.u32 %t, %t, 4;\n  ld.shared.u32 %v, [%t];\n"),
                  {"out-of-bounds shared load of 4 bytes at offset 256", "256 bytes", "thread (63, 0, 0)"});
}

TEST(Faults, OnlyActiveLanesAreChecked) {
  EXPECT_EQ(report("  setp.lt.u32 %p, %t, 64;\n  @%p ld.global.u32 %v, [%r2];\n", 100), "(nothing thrown)");
}

TEST(Faults, BarrierInDivergentCode) {
  expect_contains(report("  setp.lt.u32 %p, %t, 10;\n  @%p bra A;\n  bra B;\nA:\n  bar.sync 0;\nB:\n"),
                  {"barrier in divergent code", "lanes 10-31", "bar.sync 0"});
}

TEST(Faults, DeadlockNamesEachWarp) {
  const std::string text =
      report("  setp.lt.u32 %p, %t, 32;\n  @%p bra A;\n  bar.sync 1;\n  bra B;\nA:\n  bar.sync 2;\nB:\n");
  expect_contains(
      text, {"deadlock", "barrier 1: 32 of 64 threads", "barrier 2: 32 of 64", "warp 0, lanes 0xffffffff at barrier 2",
             "warp 1, lanes 0xffffffff at barrier 1", "bar.sync 2"});
}

TEST(Faults, CollectiveThatLanesNeverReach) {
  expect_contains(report("  setp.lt.u32 %p, %t, 10;\n  @%p bra B;\n  shfl.sync.idx.b32 %v, %t, 0, 31, -1;\n  bra "
                         "B;\nB:\n  bar.warp.sync -1;\n",
                         32),
                  {"deadlock", "waiting for lanes of its warp", "shfl.sync"});
  expect_contains(report("  vote.sync.ballot.b32 %v, 1, 0xff;\n", 32), {"member mask leaves them out", "lanes 8-31"});
}

TEST(Faults, StepBudget) {
  LaunchConfig config;
  config.step_budget = 100000;
  expect_contains(report("LOOP:\n  add.u32 %v, %v, 1;\n  bra LOOP;\n", 32, 64, config),
                  {"step budget of 100000", "kernel faulty"});
}

TEST(Faults, Trap) { expect_contains(report("  setp.eq.u32 %p, %t, 5;\n  @%p trap;\n"), {"trap", "thread (5, 0, 0)"}); }

TEST(Faults, BarrierCounts) {
  expect_contains(report("  bar.sync 0, 33;\n"), {"barrier for 33 threads", "multiple of 32"});
  expect_contains(report("  bar.sync 16;\n"), {"barrier 16 does not exist"});
}

TEST(Launch, MustFitTheKernel) {
  const auto module = parse(module_header() + ".visible .entry k(.param .u32 n)\n.maxntid 64, 1, 1\n{ ret; }");
  const auto error = [&](const LaunchConfig& c, std::vector<std::vector<std::byte>> args, const char* name = "k") {
    return thrown<UserError>([&] { launch(*module, name, c, args, {}); });
  };
  expect_contains(error(config_1d(1, 65), {arg(1)}), {"65 threads", ".maxntid allows 64"});
  expect_contains(error(config_1d(1, 32), {}), {"found 0 arguments, expected 1"});
  expect_contains(error(config_1d(1, 32), {arg(1.0)}), {"argument 0 has 8 bytes, expected 4"});
  expect_contains(error(config_1d(1, 32), {arg(1)}, "missing"), {"no entry 'missing'"});
  expect_contains(error(config_1d(0, 32), {arg(1)}), {"grid (0, 1, 1) is empty"});
  LaunchConfig big = config_1d(1, 32);
  big.dynamic_smem_bytes = 300000;
  expect_contains(error(big, {arg(1)}), {"300000 bytes of shared memory"});
}

std::string parse_error(const std::string& ptx) {
  return thrown<UserError>([&] { parse(ptx); });
}

TEST(Parse, ErrorsCarryLineAndColumn) {
  const auto body_error = [](const std::string& statement) {
    return parse_error(module_header() +
                       ".visible .entry k()\n{\n  .reg .b32 %r<4>;\n  .reg .b64 %d;\n  .reg .pred %p;\n" + statement +
                       "\n}\n");
  };
  EXPECT_EQ(body_error("  frobnicate.u32 %r1, %r2;"), "9:3: the simulator has no instruction 'frobnicate.u32'");
  EXPECT_EQ(body_error("  add.u32.wild %r1, %r2, %r3;"), "9:3: the simulator has no instruction 'add.u32.wild'");
  EXPECT_EQ(body_error("  add.u32 %r1, %r2;"), "9:3: add.u32: found 2 operands, expected 3");
  EXPECT_EQ(body_error("  add.u32 %r1, %r2, %r4;"), "9:21: register '%r4' is beyond the 4 declared");
  EXPECT_EQ(body_error("  add.u32 %r1, %r2, %nothing;"), "9:21: unknown register '%nothing'");
  EXPECT_EQ(body_error("  add.u32 %r1, %r2, %d;"), "9:21: register '%d' is .b64, expected one for .u32");
  EXPECT_EQ(body_error("  add.u32 %d, %r2, %r2;"), "9:11: register '%d' is .b64, expected one of 32 bits");
  EXPECT_EQ(body_error("  bra NOWHERE;"), "9:7: unknown label 'NOWHERE'");
  EXPECT_EQ(body_error("  mov.u32 %r1, nowhere;"), "9:16: unknown name 'nowhere'");
  EXPECT_EQ(body_error("  mov.u32 %r1, 0f3F80;"), "9:16: malformed number '0f3F80', expected 0f and 8 hex digits");
  EXPECT_EQ(body_error("  mov.u32 %r1 %r2;"), "9:15: found '%r2', expected ';'");
  EXPECT_EQ(body_error("  @%r1 bra L;"), "9:4: '%r1' is not a predicate");
  EXPECT_EQ(body_error("  call nothing;"), "9:8: function 'nothing' has no body in this module");
  EXPECT_EQ(body_error("  tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [x, {%r0, %r1}];"),
            "9:3: tex.2d.v4.f32.f32: textures and surfaces cannot be simulated");
  EXPECT_EQ(parse_error(""), "1:1: found no .version, which a PTX module begins with");
  EXPECT_EQ(parse_error(".version 8.5\n.target sm_90a\n.address_size 32\n"),
            "3:15: only .address_size 64 can be simulated");
  EXPECT_EQ(parse_error(module_header() + ".entry k() {\n  ret;\n"), "4:12: '{' without '}'");
  EXPECT_EQ(parse_error(module_header() + "/* open"), "4:1: comment without end");
}

// Truncated and damaged text is refused, or read, but never crashes.
TEST(Parse, DamagedTextIsNeverFatal) {
  const std::string whole = read_data("kernels_sm90a.ptx");
  std::mt19937 random(12345);
  const auto try_parse = [](const std::string& text) {
    try {
      parse(text);
    } catch (const UserError&) {
    }
  };
  for (size_t n = 0; n < whole.size(); n += 97) try_parse(whole.substr(0, n));
  static const std::string kBytes = "{}[]()<>,;:@!|+-~*.%$\"0123456789abcdefrx_ \n";
  for (int i = 0; i < 300; ++i) {
    std::string text = whole;
    for (int k = 0; k < 5; ++k) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = kBytes[random() % kBytes.size()];
          break;
        case 1:
          text.erase(at, random() % 20);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 30));
          break;
      }
    }
    try_parse(text);
  }
}

TEST(Parse, HugeDeclarationsNeedNoMemory) {
  EXPECT_NE(parse_error(module_header() + ".global .b8 x[99999999999];"), "(nothing thrown)");
  EXPECT_NE(parse_error(module_header() + ".entry k() { .local .b8 x[4000000]; ret; }"), "(nothing thrown)");
  EXPECT_NE(parse_error(module_header() + ".entry k() { .shared .b8 x[400000000]; ret; }"), "(nothing thrown)");
  EXPECT_NE(parse_error(module_header() + ".entry k() { .reg .b32 %r<4000000000>; ret; }"), "(nothing thrown)");
  EXPECT_EQ(parse_error(module_header() + ".entry k() { .reg .b32 %r<4000000>; ret; }"), "(nothing thrown)");
  EXPECT_NE(parse_error(module_header() + ".global .u32 x = " + std::string(5000, '{') + ";"), "(nothing thrown)");
}

}  // namespace
}  // namespace tilewright::sim
