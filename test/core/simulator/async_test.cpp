// mbarriers, bulk copies and clusters.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>

#include "run.h"

namespace tilewright::sim {
namespace {

std::string kernel(const std::string& body) {
  return module_header() + R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .shared .align 128 .b8 s[4096];
  .shared .align 8 .b64 full, empty;
  .reg .b64 %i, %o, %x, %tok;
  .reg .b32 %t, %a, %v, %w, %n, %r<8>;
  .reg .pred %p, %q, %lead;
  ld.param.u64 %i, [in];
  ld.param.u64 %o, [out];
  mov.u32 %t, %tid.x;
  setp.eq.u32 %lead, %t, 0;
  mov.u32 %a, s;
)" + body +
         "  ret;\n}\n";
}

LaunchConfig checked(uint32_t blocks, uint32_t threads) {
  LaunchConfig config = config_1d(blocks, threads);
  config.check_races = config.check_uninitialized = true;
  config.step_budget = 10'000'000;
  return config;
}

std::vector<uint32_t> run(const std::string& body, std::vector<uint32_t>& in, size_t out_size,
                          const LaunchConfig& config) {
  std::vector<uint32_t> out(out_size, 0xdddddddd);
  const std::vector<Allocation> memory{allocation(in, "in"), allocation(out, "out")};
  const std::vector<std::vector<std::byte>> args{pointer(in), pointer(out)};
  launch(*parse(kernel(body)), "k", config, args, memory);
  return out;
}

// One thread copies a chunk at a time; 64 threads wait for its bytes, use them, and hand the buffer back.
TEST(Async, BulkCopiesThroughFullAndEmptyBarriers) {
  std::vector<uint32_t> in(256);
  std::iota(in.begin(), in.end(), 1);
  const auto out = run(R"(
  @%lead mbarrier.init.shared::cta.b64 [full], 1;
  @%lead mbarrier.init.shared::cta.b64 [empty], 64;
  fence.mbarrier_init.release.cluster;
  bar.sync 0;
  mov.u32 %n, 0;
  mov.u32 %v, 0;
CHUNK:
  and.b32 %r1, %n, 1;
  @!%lead bra CONSUME;
  xor.b32 %r2, %r1, 1;
EMPTY:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [empty], %r2;
  @!%p bra EMPTY;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s+128], [%i], 256, [full];
  add.s64 %i, %i, 256;
CONSUME:
FULL:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [full], %r1;
  @!%p bra FULL;
  mad.lo.u32 %r3, %t, 4, %a;
  ld.shared.u32 %w, [%r3+128];
  mad.lo.u32 %v, %v, 3, %w;
  mbarrier.arrive.shared::cta.b64 %tok, [empty];
  add.u32 %n, %n, 1;
  setp.lt.u32 %q, %n, 4;
  @%q bra CHUNK;
  mul.wide.u32 %x, %t, 4;
  add.s64 %o, %o, %x;
  st.global.u32 [%o], %v;
)",
                       in, 64, checked(1, 64));
  for (uint32_t t = 0; t < 64; ++t) {
    uint32_t v = 0;
    for (uint32_t n = 0; n < 4; ++n) v = 3 * v + in[64 * n + t];
    EXPECT_EQ(out[t], v) << t;
  }
}

TEST(Async, TokensAndCounts) {
  std::vector<uint32_t> in(1);
  const auto out = run(R"(
  @%lead mbarrier.init.shared.b64 [full], 32;
  bar.sync 0;
  @%lead st.shared.u32 [s], 5;
  mbarrier.arrive.shared.b64 %tok, [full];
WAIT:
  mbarrier.test_wait.shared.b64 %p, [full], %tok;
  @!%p bra WAIT;
  ld.shared.u32 %v, [s];
  mul.wide.u32 %x, %t, 4;
  add.s64 %o, %o, %x;
  st.global.u32 [%o], %v;
)",
                       in, 32, checked(1, 32));
  EXPECT_EQ(out, std::vector<uint32_t>(32, 5));
}

TEST(Async, BulkStore) {
  std::vector<uint32_t> in(1);
  std::vector<uint32_t> out(64 + 4);
  uint64_t base = (reinterpret_cast<uint64_t>(out.data()) + 15) / 16 * 16;
  const std::vector<Allocation> memory{allocation(in, "in"), {base, 256, "out", true}};
  const std::vector<std::vector<std::byte>> args{pointer(in), arg(base)};
  launch(*parse(kernel(R"(
  mad.lo.u32 %r3, %t, 4, %a;
  mul.lo.u32 %v, %t, 7;
  st.shared.u32 [%r3], %v;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @%lead cp.async.bulk.global.shared::cta.bulk_group [%o], [%a], 256;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 0;
)")),
         "k", checked(1, 64), args, memory);
  const auto* got = reinterpret_cast<const uint32_t*>(base);
  for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(got[t], 7 * t);
}

// Each block of a cluster reads what its neighbour wrote.
TEST(Async, DistributedSharedMemory) {
  std::vector<uint32_t> in(1);
  LaunchConfig config = config_1d(8, 32);
  config.cluster = {4, 1, 1};
  const auto out = run(R"(
  mov.u32 %r1, %cluster_ctarank;
  mov.u32 %r2, %ctaid.x;
  mad.lo.u32 %v, %r2, 100, %t;
  mad.lo.u32 %r3, %t, 4, %a;
  st.shared.u32 [%r3], %v;
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  add.u32 %r4, %r1, 1;
  and.b32 %r4, %r4, 3;
  mapa.shared::cluster.u32 %r5, %r3, %r4;
  ld.shared::cluster.u32 %w, [%r5];
  getctarank.shared::cluster.u32 %r6, %r5;
  setp.ne.u32 %p, %r6, %r4;
  @%p trap;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mad.lo.u32 %n, %r2, 32, %t;
  mul.wide.u32 %x, %n, 4;
  add.s64 %o, %o, %x;
  st.global.u32 [%o], %w;
)",
                       in, 256, config);
  for (uint32_t b = 0; b < 8; ++b)
    for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(out[32 * b + t], (b / 4 * 4 + (b + 1) % 4) * 100 + t);
}

std::string report(const std::string& body, uint32_t threads = 32) {
  std::vector<uint32_t> in(64);
  LaunchConfig config = checked(1, threads);
  config.step_budget = 100'000;
  return thrown<DeviceError>([&] { run(body, in, 64, config); });
}

TEST(Async, Misuse) {
  const auto expect = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(report("  st.shared.u64 [full], 0;\n  mbarrier.arrive.shared.b64 _, [full];\n"),
         "an mbarrier that is not initialised");
  expect(report("  @%lead mbarrier.init.shared.b64 [full], 0;\n"), "mbarrier.init for 0 arrivals");
  expect(report("  @%lead mbarrier.init.shared.b64 [full], 2;\n  bar.sync 0;\n  @%lead mbarrier.arrive.shared.b64 _, "
                "[full], 3;\n"),
         "more arrivals than it expects");
  expect(report("  @%lead mbarrier.init.shared.b64 [full], 1;\n  bar.sync 0;\n  @%lead "
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%i], 24, [full];\n"),
         "a bulk copy of 24 bytes; the size is a multiple of 16");
  expect(report("  @%lead mbarrier.init.shared.b64 [full], 1;\n  bar.sync 0;\nW:\n  "
                "mbarrier.try_wait.parity.shared.b64 %p, [full], 0;\n  @!%p bra W;\n"),
         "deadlock");
  expect(report("  barrier.cluster.wait;\n"), "barrier.cluster.wait without an arrive");
}

// Two blocks; each sends its numbers to the other's shared memory, which counts the bytes.
TEST(Async, StoresAndReductionsToAPeer) {
  struct Form {
    const char* send;
    uint32_t bytes;  // a thread
    uint32_t (*result)(uint32_t own, uint32_t sent);
  };
  static const Form forms[] = {
      {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r3], %v, [%r4]", 4,
       [](uint32_t, uint32_t sent) { return sent; }},
      {"st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r3], {%v, %v}, [%r4]", 8,
       [](uint32_t, uint32_t sent) { return sent; }},
      {"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r3], %v, [%r4]", 4,
       [](uint32_t own, uint32_t sent) { return own + sent; }},
      {"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.min.s32 [%r3], %v, [%r4]", 4,
       [](uint32_t own, uint32_t sent) {
         return static_cast<uint32_t>(std::min(static_cast<int32_t>(own), static_cast<int32_t>(sent)));
       }},
      {"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.inc.u32 [%r3], %v, [%r4]", 4,
       [](uint32_t own, uint32_t sent) { return own >= sent ? 0 : own + 1; }},
      {"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.xor.b32 [%r3], %v, [%r4]", 4,
       [](uint32_t own, uint32_t sent) { return own ^ sent; }},
  };
  for (const Form& f : forms) {
    for (const Completion completion : {Completion::kEager, Completion::kLazy, Completion::kRandom}) {
      std::vector<uint32_t> in(64);
      for (uint32_t i = 0; i < 64; ++i) in[i] = i * 2654435761u;
      LaunchConfig config = config_1d(2, 32);
      config.cluster = {2, 1, 1};
      config.completion = completion;
      const auto out = run(R"(
  @%lead mbarrier.init.shared::cta.b64 [full], 1;
  mov.u32 %r5, %cluster_ctarank;
  mad.lo.u32 %w, %t, 8, %a;
  xor.b32 %v, %t, 5;
  st.shared.u32 [%w], %v;
  @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], )" +
                               std::to_string(32 * f.bytes) + R"(;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  mad.lo.u32 %r1, %r5, 32, %t;
  mul.wide.u32 %x, %r1, 4;
  add.s64 %i, %i, %x;
  add.s64 %o, %o, %x;
  ld.global.u32 %v, [%i];
  xor.b32 %r2, %r5, 1;
  mapa.shared::cluster.u32 %r3, %w, %r2;
  mov.u32 %r4, full;
  mapa.shared::cluster.u32 %r4, %r4, %r2;
  )" + f.send + R"(;
W:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [full], 0;
  @!%p bra W;
  ld.shared.u32 %v, [%w];
  st.global.u32 [%o], %v;
  barrier.cluster.arrive;
  barrier.cluster.wait;
)",
                           in, 64, config);
      for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(out[i], f.result((i % 32) ^ 5, in[(i + 32) % 64])) << f.send;
    }
  }
}

// Bulk reductions into global memory: element-wise, from shared memory that holds 1, 2, 3, ...
TEST(Async, BulkReductions) {
  struct Form {
    const char* op;
    uint64_t (*result)(uint64_t old, uint64_t value);
    bool wide;
  };
  static const Form forms[] = {
      {"add.u32", [](uint64_t o, uint64_t v) { return (o + v) & 0xffffffff; }, false},
      {"max.s32", [](uint64_t o, uint64_t v) { return static_cast<int32_t>(o) > static_cast<int32_t>(v) ? o : v; },
       false},
      {"and.b32", [](uint64_t o, uint64_t v) { return o & v; }, false},
      {"or.b64", [](uint64_t o, uint64_t v) { return o | v; }, true},
      {"min.u64", [](uint64_t o, uint64_t v) { return std::min(o, v); }, true},
      {"dec.u32", [](uint64_t o, uint64_t v) { return o == 0 || o > v ? v : o - 1; }, false},
  };
  for (const Form& f : forms) {
    const uint32_t bytes = f.wide ? 8 : 4, n = 64 / bytes;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(16, 64));
    const std::unique_ptr<std::byte, decltype(&std::free)> owner(memory, &std::free);
    const auto old = [](uint32_t i) { return uint64_t{i} * i * 7; };
    for (uint32_t i = 0; i < n; ++i) {
      const uint64_t v = old(i);
      std::memcpy(memory + i * bytes, &v, bytes);
    }
    const auto base = reinterpret_cast<uint64_t>(memory);
    const std::string store =
        f.wide ? "  cvt.u64.u32 %x, %v;\n  st.shared.u64 [%w], %x;\n" : "  st.shared.u32 [%w], %v;\n";
    const std::string ptx =
        kernel("  add.u32 %v, %t, 1;\n  mad.lo.u32 %w, %t, " + std::to_string(bytes) + ", %a;\n" + store +
               "  fence.proxy.async.shared::cta;\n  bar.sync 0;\n  @%lead "
               "cp.reduce.async.bulk.global.shared::cta.bulk_group." +
               f.op + " [%o], [%a], 64;\n  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\n");
    launch(*parse(ptx), "k", checked(1, n), std::vector<std::vector<std::byte>>{arg(base), arg(base)},
           std::vector<Allocation>{{base, 64, "io", true}});
    for (uint32_t i = 0; i < n; ++i) {
      uint64_t got = 0;
      std::memcpy(&got, memory + i * bytes, bytes);
      EXPECT_EQ(got, f.result(old(i), i + 1)) << f.op << " " << i;
    }
  }
}

// Block 0 copies to blocks 1 and 2 of four; the bytes are counted there, and nowhere else.
TEST(Async, Multicast) {
  auto* memory = static_cast<uint32_t*>(std::aligned_alloc(16, 64));
  const std::unique_ptr<uint32_t, decltype(&std::free)> owner(memory, &std::free);
  std::iota(memory, memory + 16, 100);
  std::vector<uint32_t> out(64, 0);
  LaunchConfig config = config_1d(4, 16);
  config.cluster = {4, 1, 1};
  const std::string ptx = kernel(R"(
  .reg .b16 %mask;
  mad.lo.u32 %w, %t, 4, %a;
  st.shared.u32 [%w], 7;
  @%lead mbarrier.init.shared::cta.b64 [full], 1;
  @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 64;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  mov.u32 %r1, %cluster_ctarank;
  setp.eq.and.u32 %q, %r1, 0, %lead;
  mov.u16 %mask, 6;
  @%q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%a], [%i], 64, [full], %mask;
  sub.u32 %r2, %r1, 1;
  setp.gt.u32 %q, %r2, 1;
  @%q bra DONE;
W:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 0;
  @!%p bra W;
DONE:
  ld.shared.u32 %v, [%w];
  mad.lo.u32 %r1, %r1, 16, %t;
  mul.wide.u32 %x, %r1, 4;
  add.s64 %o, %o, %x;
  st.global.u32 [%o], %v;
  barrier.cluster.arrive;
  barrier.cluster.wait;
)");
  const auto base = reinterpret_cast<uint64_t>(memory);
  launch(*parse(ptx), "k", config, std::vector<std::vector<std::byte>>{arg(base), pointer(out)},
         std::vector<Allocation>{{base, 64, "in", true}, allocation(out, "out")});
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i / 16 == 1 || i / 16 == 2 ? 100 + i % 16 : 7) << i;
}

TEST(Async, CountsOfAToken) {
  std::vector<uint32_t> in(1);
  const auto out = run(R"(
  mbarrier.init.shared.b64 [full], 9;
  mbarrier.arrive.shared.b64 %tok, [full], 4;
  mbarrier.pending_count.b64 %r1, %tok;
  mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 32;
  mbarrier.arrive.shared.b64 %tok, [full], 5;
  mbarrier.test_wait.shared.b64 %p, [full], %tok;
  selp.u32 %r2, 100, 0, %p;
  mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [full], 32;
  mbarrier.test_wait.shared.b64 %p, [full], %tok;
  selp.u32 %r3, 1000, 0, %p;
  add.u32 %v, %r1, %r2;
  add.u32 %v, %v, %r3;
  st.global.u32 [%o], %v;
)",
                       in, 1, config_1d(1, 1));
  EXPECT_EQ(out[0], 9u + 0 + 1000);
}

// A true predicate has cp.async ignore its source.
TEST(Async, CopyThatIgnoresItsSource) {
  std::vector<uint32_t> in(32);
  std::iota(in.begin(), in.end(), 1);
  const auto out = run(R"(
  mad.lo.u32 %w, %t, 4, %a;
  and.b32 %r1, %t, 1;
  setp.eq.u32 %p, %r1, 1;
  mul.wide.u32 %x, %t, 4;
  add.s64 %i, %i, %x;
  add.s64 %o, %o, %x;
  cp.async.ca.shared.global [%w], [%i], 4, %p;
  cp.async.wait_all;
  ld.shared.u32 %v, [%w];
  st.global.u32 [%o], %v;
)",
                       in, 32, checked(1, 32));
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i % 2 ? 0 : i + 1);
}

}  // namespace
}  // namespace tilewright::sim
