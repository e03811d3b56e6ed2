// Loads, stores, atomics, address spaces, parameters and calls.
#include <numeric>

#include "run.h"

namespace tilewright::sim {
namespace {

TEST(Memory, SubWordLoadsExtend) {
  const std::string ptx = cell_kernel(R"(
  .reg .b16 %h;
  .reg .b32 %w;
  .reg .b64 %x;
  ld.global.s8 %h, [%src+1];
  cvt.s64.s16 %d, %h;
  ld.global.u8 %w, [%src+1];
  cvt.u64.u32 %x, %w;
  add.s64 %d, %d, %x;
  ld.global.s16 %x, [%src+2];
  add.s64 %d, %d, %x;
  ld.global.s32 %x, [%src+4];
  add.s64 %d, %d, %x;
  ld.global.b8 %h, [%src];
  cvt.u64.u16 %x, %h;
  add.s64 %d, %d, %x;
)");
  const uint64_t cell = 0xfffffff0'8001'90'7full;
  const int64_t expected =
      static_cast<int8_t>(0x90) + 0x90 + static_cast<int16_t>(0x8001) + static_cast<int32_t>(0xfffffff0) + 0x7f;
  std::vector<uint64_t> cells;
  for (int i = 0; i < 40; ++i) cells.insert(cells.end(), {cell, 0, 0, 0});
  for (uint64_t got : run_cells(ptx, cells)) EXPECT_EQ(static_cast<int64_t>(got), expected);
}

TEST(Memory, SubWordStoresTruncate) {
  const std::string ptx = cell_kernel(R"(
  .reg .b16 %h;
  .reg .b32 %w;
  st.global.u64 [%dst], %b;
  cvt.u16.u64 %h, %a;
  cvt.u32.u64 %w, %a;
  st.global.u8 [%dst+1], %h;
  st.global.b8 [%dst+2], %w;
  st.global.u16 [%dst+6], %a;
  ld.global.u64 %d, [%dst];
)");
  EXPECT_EQ(run_cells(ptx, {0xaabbccdd11223344, 0x0101010101010101, 0, 0}),
            (std::vector<uint64_t>{0x3344'0101'0144'4401}));
}

TEST(Memory, VectorsOfAllWidths) {
  const std::string ptx = cell_kernel(R"(
  .reg .b64 %x, %y;
  .reg .b32 %w0, %w1, %w2, %w3;
  .reg .f32 %f0, %f1;
  .reg .b16 %h0, %h1, %h2, %h3;
  ld.global.v2.u64 {%x, %y}, [%src];
  st.global.v2.u64 [%src+16], {%y, %x};
  ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%src+16];
  st.global.v4.b32 [%src+16], {%w3, %w2, %w1, %w0};
  ld.global.v4.b16 {%h0, %h1, %h2, %h3}, [%src+16];
  st.global.v4.b16 [%src+16], {%h3, %h2, %h1, %h0};
  ld.global.nc.v2.f32 {%f0, _}, [%src+16];
  ld.volatile.global.v2.f32 {_, %f1}, [%src+16];
  mov.b64 %d, {%f1, %f0};
)");
  // Cells {A, B}: after the swap {B, A}; after the words' reversal the first cell is A with its words exchanged.
  std::vector<uint64_t> cells, expected;
  for (uint64_t i = 0; i < 70; ++i) {
    const uint64_t a = 0x4444333322221111 + i * 0x0001000100010001;
    cells.insert(cells.end(), {a, ~a, 0, 0});
    const uint64_t words = a << 32 | a >> 32;
    uint64_t halves = 0;
    for (int k = 0; k < 4; ++k) halves |= (words >> (16 * k) & 0xffff) << (48 - 16 * k);
    expected.push_back(halves << 32 | halves >> 32);
  }
  EXPECT_EQ(run_cells(ptx, cells), expected);
}

// A kernel over shared memory that is addressed directly, by a generic pointer and from a cvta both ways.
TEST(Memory, GenericAddressesOfAllSpaces) {
  const std::string ptx = module_header() + R"(
.global .align 8 .u64 g[2] = {7, 8};
.const .align 8 .u64 c[2] = {100, 200};
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .shared .align 8 .b8 s[1024];
  .local .align 8 .b8 depot[16];
  .reg .b64 %r<20>;
  .reg .b32 %t, %w;
  .reg .pred %p;
  ld.param.u64 %r1, [out];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %r2, %t, 8;
  add.s64 %r1, %r1, %r2;
  mov.u64 %r3, s;
  cvta.shared.u64 %r4, %r3;
  add.s64 %r5, %r4, %r2;
  st.u64 [%r5], %r2;
  bar.sync 0;
  shl.b32 %w, %t, 3;
  xor.b32 %w, %w, 8;
  mov.u32 %t, s;
  add.u32 %t, %t, %w;
  ld.shared.u64 %r6, [%t];
  mov.u64 %r7, depot;
  cvta.local.u64 %r7, %r7;
  st.u64 [%r7+8], %r6;
  ld.local.u64 %r8, [depot+8];
  ld.global.u64 %r9, [g+8];
  cvta.global.u64 %r10, g;
  ld.u64 %r11, [%r10];
  ld.const.u64 %r12, [c+8];
  mov.u64 %r13, c;
  cvta.const.u64 %r13, %r13;
  ld.u64 %r14, [%r13];
  add.u64 %r8, %r8, %r9;
  add.u64 %r8, %r8, %r11;
  add.u64 %r8, %r8, %r12;
  add.u64 %r8, %r8, %r14;
  isspacep.shared %p, %r5;
  @%p add.u64 %r8, %r8, 1000;
  isspacep.local %p, %r7;
  @%p add.u64 %r8, %r8, 2000;
  isspacep.global %p, %r10;
  @%p add.u64 %r8, %r8, 4000;
  isspacep.global %p, %r5;
  @%p add.u64 %r8, %r8, 8000;
  mov.b64 %r15, in;
  cvta.param.u64 %r15, %r15;
  ld.u64 %r16, [%r15+8];
  ld.param.u64 %r17, [in+8];
  setp.eq.u64 %p, %r16, %r17;
  @%p add.u64 %r8, %r8, 16000;
  st.global.u64 [%r1], %r8;
  ret;
})";
  std::vector<uint64_t> in(1), out(128);
  const std::vector<Allocation> memory{allocation(in, "in"), allocation(out, "out")};
  const std::vector<std::vector<std::byte>> args{pointer(in), pointer(out)};
  launch(*parse(ptx), "k", config_1d(1, 128), args, memory);
  for (uint64_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], (i ^ 1) * 8 + 8 + 7 + 200 + 100 + 7000 + 16000) << i;
}

TEST(Memory, LanesOfOneLoadInDifferentSpaces) {
  const std::string ptx = module_header() + R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .shared .align 4 .u32 s;
  .local .align 4 .u32 l;
  .reg .b64 %r<9>;
  .reg .b32 %t, %m, %v;
  .reg .pred %p;
  ld.param.u64 %r1, [in];
  ld.param.u64 %r2, [out];
  mov.u32 %t, %tid.x;
  st.shared.u32 [s], 11;
  st.local.u32 [l], %t;
  bar.sync 0;
  mov.u64 %r3, s;
  cvta.shared.u64 %r3, %r3;
  mov.u64 %r4, l;
  cvta.local.u64 %r4, %r4;
  and.b32 %m, %t, 3;
  setp.eq.u32 %p, %m, 1;
  selp.b64 %r5, %r3, %r1, %p;
  setp.eq.u32 %p, %m, 2;
  selp.b64 %r5, %r4, %r5, %p;
  ld.u32 %v, [%r5];
  mul.wide.u32 %r6, %t, 4;
  add.s64 %r2, %r2, %r6;
  st.global.u32 [%r2], %v;
  ret;
})";
  std::vector<uint32_t> in{99}, out(64);
  const std::vector<Allocation> memory{allocation(in, "in"), allocation(out, "out")};
  const std::vector<std::vector<std::byte>> args{pointer(in), pointer(out)};
  launch(*parse(ptx), "k", config_1d(1, 64), args, memory);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i % 4 == 1 ? 11 : i % 4 == 2 ? i : 99u) << i;
}

TEST(Memory, ParametersOfAllTypes) {
  const std::string ptx = module_header() + R"(
.visible .entry k(.param .u8 p0, .param .f64 p1, .param .align 16 .b8 p2[24], .param .u16 p3, .param .u64 out)
{
  .reg .b64 %r<9>;
  .reg .f64 %f;
  .reg .b32 %w0, %w1, %w2, %w3;
  .reg .b16 %h;
  ld.param.u8 %w0, [p0];
  cvt.u64.u32 %r1, %w0;
  ld.param.f64 %f, [p1];
  cvt.rzi.u64.f64 %r2, %f;
  ld.param.v4.u32 {%w0, %w1, %w2, %w3}, [p2];
  cvt.u64.u32 %r3, %w3;
  ld.param.u64 %r4, [p2+16];
  ld.param.u16 %h, [p3];
  cvt.u64.u16 %r5, %h;
  add.u64 %r1, %r1, %r2;
  add.u64 %r1, %r1, %r3;
  add.u64 %r1, %r1, %r4;
  add.u64 %r1, %r1, %r5;
  ld.param.u64 %r6, [out];
  st.global.u64 [%r6], %r1;
  ret;
})";
  struct alignas(16) Struct {
    uint32_t v[4];
    uint64_t last;
  };
  const Struct s{{1, 2, 3, 40}, 500};
  std::vector<std::byte> blob = arg(s);
  blob.resize(24);
  std::vector<uint64_t> out(1);
  const std::vector<Allocation> memory{allocation(out, "out")};
  const std::vector<std::vector<std::byte>> args{arg(uint8_t{200}), arg(6000.5), blob, arg(uint16_t{7}), pointer(out)};
  launch(*parse(ptx), "k", config_1d(1, 1), args, memory);
  EXPECT_EQ(out[0], 200u + 6000 + 40 + 500 + 7);
}

TEST(Memory, GlobalVariablesKeepTheirValueBetweenLaunches) {
  const auto module = parse(module_header() + R"(
.visible .global .align 4 .u32 counter = 5;
.visible .entry k(.param .u64 out) {
  .reg .b64 %r;
  .reg .b32 %w;
  ld.param.u64 %r, [out];
  atom.global.add.u32 %w, [counter], 1;
  st.global.u32 [%r], %w;
  ret;
})");
  std::vector<uint32_t> out(1);
  const std::vector<Allocation> memory{allocation(out, "out")};
  const std::vector<std::vector<std::byte>> args{pointer(out)};
  for (uint32_t i = 0; i < 3; ++i) {
    launch(*module, "k", config_1d(1, 1), args, memory);
    EXPECT_EQ(out[0], 5 + i);
  }
}

TEST(Memory, InitializersWithAddresses) {
  const auto module = parse(module_header() + R"(
.const .align 4 .b8 text[6] = {72, 105, 33, 0, 255, 1};
.global .align 8 .u64 table[3] = {text+1, generic(text), 42};
.global .align 4 .f32 floats[3] = {0f3F800000, -2.5, 1e3};
.visible .entry k(.param .u64 out) {
  .reg .b64 %r<6>;
  .reg .b32 %w;
  .reg .f32 %f;
  ld.param.u64 %r0, [out];
  ld.global.u64 %r1, [table];
  ld.u8 %w, [%r1];
  st.global.u32 [%r0], %w;
  ld.global.u64 %r1, [table+8];
  ld.u8 %w, [%r1+4];
  st.global.u32 [%r0+4], %w;
  ld.global.f32 %f, [floats+4];
  st.global.f32 [%r0+8], %f;
  ld.global.f32 %f, [floats+8];
  st.global.f32 [%r0+12], %f;
  ret;
})");
  std::vector<uint32_t> out(4);
  const std::vector<Allocation> memory{allocation(out, "out")};
  const std::vector<std::vector<std::byte>> args{pointer(out)};
  launch(*module, "k", config_1d(1, 1), args, memory);
  EXPECT_EQ(out, (std::vector<uint32_t>{105, 255, std::bit_cast<uint32_t>(-2.5f), std::bit_cast<uint32_t>(1000.0f)}));
}

// Every integer atomic, on global and on shared memory, against a fold in any order.
std::string atomic_kernel(const std::string& op, const std::string& space) {
  const bool shared = space == "shared";
  return module_header() + R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .shared .align 8 .b64 cell;
  .reg .b64 %r<9>;
  .reg .b32 %t, %v, %old;
  .reg .pred %p;
  ld.param.u64 %r1, [in];
  ld.param.u64 %r2, [out];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %r3, %t, 4;
  add.s64 %r1, %r1, %r3;
  ld.global.u32 %v, [%r1];
  setp.eq.u32 %p, %t, 0;
  ld.global.u32 %old, [%r2];
  @%p st.shared.u32 [cell], %old;
  bar.sync 0;
)" + (shared ? "  atom.shared." + op + " %old, [cell], %v;\n" : "  atom.global." + op + " %old, [%r2], %v;\n") +
         R"(
  bar.sync 0;
  @!%p ret;
)" + (shared ? "  ld.shared.u32 %old, [cell];\n  st.global.u32 [%r2], %old;\n" : "") +
         R"(
  ret;
})";
}

TEST(Atomics, ReductionsOf32Bits) {
  std::vector<uint32_t> in(96);
  for (uint32_t i = 0; i < 96; ++i) in[i] = i * 2654435761u;
  const auto fold = [&](uint32_t start, auto f) { return std::accumulate(in.begin(), in.end(), start, f); };
  const auto as_signed = [](uint32_t x) { return static_cast<int32_t>(x); };
  const std::pair<const char*, uint32_t> rows[] = {
      {"add.u32", fold(3, std::plus<uint32_t>())},
      {"and.b32", fold(~0u, std::bit_and<uint32_t>())},
      {"or.b32", fold(0, std::bit_or<uint32_t>())},
      {"xor.b32", fold(5, std::bit_xor<uint32_t>())},
      {"min.u32", fold(~0u, [](uint32_t a, uint32_t b) { return std::min(a, b); })},
      {"max.u32", fold(0, [](uint32_t a, uint32_t b) { return std::max(a, b); })},
      {"min.s32", fold(0, [=](uint32_t a, uint32_t b) { return as_signed(a) < as_signed(b) ? a : b; })},
      {"max.s32", fold(0, [=](uint32_t a, uint32_t b) { return as_signed(a) < as_signed(b) ? b : a; })},
      {"inc.u32", 96u},
      {"dec.u32", 1000u - 96},
  };
  const uint32_t starts[] = {3, ~0u, 0, 5, ~0u, 0, 0, 0, 0, 1000};
  for (const char* space : {"global", "shared"}) {
    for (size_t i = 0; i < std::size(rows); ++i) {
      std::vector<uint32_t> values = in, out{starts[i], 0};
      if (i >= 8) values.assign(96, 5000);  // the bound of inc and dec
      const std::vector<Allocation> memory{allocation(values, "in"), allocation(out, "out")};
      const std::vector<std::vector<std::byte>> args{pointer(values), pointer(out)};
      launch(*parse(atomic_kernel(rows[i].first, space)), "k", config_1d(1, 96), args, memory);
      EXPECT_EQ(out[0], rows[i].second) << space << " " << rows[i].first;
    }
  }
}

TEST(Atomics, BlocksOnSeveralThreadsLoseNothing) {
  const auto module = parse(module_header() + R"(
.visible .entry k(.param .u64 out) {
  .reg .b64 %r<4>;
  .reg .b32 %w, %got;
  .reg .f32 %f;
  .reg .f64 %e;
  ld.param.u64 %r1, [out];
  red.global.add.u64 [%r1], 1;
  mov.f32 %f, 0f3F800000;
  red.global.add.f32 [%r1+8], %f;
  mov.f64 %e, 0d3FE0000000000000;
  atom.global.add.f64 _, [%r1+16], %e;
LOOP:
  ld.relaxed.gpu.global.u32 %w, [%r1+24];
  add.u32 %got, %w, 3;
  .reg .b32 %seen;
  atom.global.cas.b32 %seen, [%r1+24], %w, %got;
  .reg .pred %p;
  setp.ne.u32 %p, %seen, %w;
  @%p bra LOOP;
  ret;
})");
  struct {
    uint64_t count = 0;
    float single = 0;
    uint32_t pad = 0;
    double wide = 0;
    uint32_t cas = 0;
  } out;
  LaunchConfig config = config_1d(200, 64);
  config.threads = 4;
  const std::vector<Allocation> memory{{reinterpret_cast<uint64_t>(&out), sizeof out, "out", true}};
  const std::vector<std::vector<std::byte>> args{arg(reinterpret_cast<uint64_t>(&out))};
  launch(*module, "k", config, args, memory);
  EXPECT_EQ(out.count, 12800u);
  EXPECT_EQ(out.single, 12800.0f);
  EXPECT_EQ(out.wide, 6400.0);
  EXPECT_EQ(out.cas, 3 * 12800u);
}

TEST(Atomics, PackedHalvesAndVectors) {
  const auto module = parse(module_header() + R"(
.visible .entry k(.param .u64 out) {
  .reg .b64 %r;
  .reg .b32 %w;
  .reg .b16 %h;
  .reg .f32 %a, %b, %c, %e;
  ld.param.u64 %r, [out];
  mov.b32 %w, 0x3C004000;
  red.global.add.noftz.f16x2 [%r], %w;
  mov.b32 %w, 0x3F804000;
  red.global.add.noftz.bf16x2 [%r+4], %w;
  mov.b16 %h, 0x3C00;
  atom.global.add.noftz.f16 _, [%r+8], %h;
  mov.f32 %a, 0f3F800000;
  mov.f32 %b, 0f40000000;
  red.global.add.v4.f32 [%r+16], {%a, %b, %a, %b};
  ret;
})");
  alignas(16) uint32_t out[8] = {};
  const std::vector<Allocation> memory{{reinterpret_cast<uint64_t>(out), sizeof out, "out", true}};
  const std::vector<std::vector<std::byte>> args{arg(reinterpret_cast<uint64_t>(out))};
  launch(*module, "k", config_1d(1, 32), args, memory);
  EXPECT_EQ(out[0], 0x50005400u);  // 32 and 64 in f16
  EXPECT_EQ(out[1], 0x42004280u);  // 32 and 64 in bf16
  EXPECT_EQ(out[2], 0x5000u);
  EXPECT_EQ(out[4], std::bit_cast<uint32_t>(32.0f));
  EXPECT_EQ(out[7], std::bit_cast<uint32_t>(64.0f));
}

TEST(Memory, CopyAsyncZeroFills) {
  const auto module = parse(module_header() + R"(
.visible .entry k(.param .u64 in, .param .u64 out) {
  .shared .align 16 .b8 s[512];
  .reg .b64 %r<6>;
  .reg .b32 %t, %a, %n, %w0, %w1, %w2, %w3;
  ld.param.u64 %r1, [in];
  ld.param.u64 %r2, [out];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %r3, %t, 16;
  add.s64 %r1, %r1, %r3;
  add.s64 %r2, %r2, %r3;
  shl.b32 %a, %t, 4;
  mov.u32 %n, s;
  add.u32 %a, %a, %n;
  and.b32 %n, %t, 16;
  cp.async.cg.shared.global [%a], [%r1], 16, %n;
  cp.async.commit_group;
  cp.async.wait_group 0;
  bar.sync 0;
  ld.shared.v4.u32 {%w0, %w1, %w2, %w3}, [%a];
  st.global.v4.u32 [%r2], {%w0, %w1, %w2, %w3};
  ret;
})");
  std::vector<uint32_t> in(128), out(128);
  std::iota(in.begin(), in.end(), 1);
  // Lanes that read nothing may point past the end: only half the input is an allocation.
  const std::vector<Allocation> memory{{reinterpret_cast<uint64_t>(in.data() + 64), 256, "in", false},
                                       allocation(out, "out")};
  const std::vector<std::vector<std::byte>> args{pointer(in), pointer(out)};
  launch(*module, "k", config_1d(1, 32), args, memory);
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(out[i], i >= 64 ? i + 1 : 0) << i;
}

TEST(Calls, ParametersResultsAndRecursion) {
  const auto module = parse(module_header() + R"(
.func (.param .b64 result) factorial(.param .b64 n)
{
  .reg .b64 %r<6>;
  .reg .pred %p;
  ld.param.b64 %r1, [n];
  setp.gt.u64 %p, %r1, 1;
  @%p bra MORE;
  mov.u64 %r2, 1;
  st.param.b64 [result], %r2;
  ret;
MORE:
  sub.u64 %r3, %r1, 1;
  {
  .param .b64 a;
  .param .b64 b;
  st.param.b64 [a], %r3;
  call.uni (b), factorial, (a);
  ld.param.b64 %r4, [b];
  }
  mul.lo.u64 %r2, %r4, %r1;
  st.param.b64 [result], %r2;
  ret;
}
.func (.param .align 8 .b8 result[16]) both(.param .align 8 .b8 s[16], .param .b32 add)
{
  .local .align 8 .b8 depot[8];
  .reg .b64 %r<6>;
  .reg .b32 %w;
  ld.param.b64 %r1, [s];
  ld.param.b64 %r2, [s+8];
  ld.param.b32 %w, [add];
  cvt.u64.u32 %r3, %w;
  st.local.b64 [depot], %r3;
  ld.local.b64 %r4, [depot];
  add.u64 %r1, %r1, %r4;
  add.u64 %r2, %r2, %r4;
  st.param.b64 [result+8], %r1;
  st.param.b64 [result], %r2;
  ret;
}
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .local .align 8 .b8 depot[8];
  .reg .b64 %r<12>;
  .reg .b32 %t, %w;
  .reg .pred %p;
proto: .callprototype (.param .align 8 .b8 _[16]) _ (.param .align 8 .b8 _[16], .param .b32 _);
  ld.param.u64 %r1, [in];
  ld.param.u64 %r2, [out];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %r3, %t, 8;
  add.s64 %r2, %r2, %r3;
  cvt.u64.u32 %r4, %t;
  and.b64 %r4, %r4, 15;
  st.local.b64 [depot], %r4;
  {
  .param .b64 p;
  .param .b64 q;
  st.param.b64 [p], %r4;
  call (q), factorial, (p);
  ld.param.b64 %r5, [q];
  }
  mov.u64 %r10, both;
  {
  .param .align 8 .b8 p0[16];
  .param .b32 p1;
  .param .align 8 .b8 q[16];
  st.param.b64 [p0], %r5;
  st.param.v2.b32 [p0+8], {1, 0};
  st.param.b32 [p1], 10;
  call (q), %r10, (p0, p1), proto;
  ld.param.b64 %r6, [q];
  ld.param.b64 %r7, [q+8];
  }
  ld.local.b64 %r8, [depot];
  setp.eq.u64 %p, %r8, %r4;
  add.u64 %r7, %r7, %r6;
  @%p st.global.u64 [%r2], %r7;
  ret;
})");
  std::vector<uint64_t> out(64);
  const std::vector<Allocation> memory{allocation(out, "out")};
  const std::vector<std::vector<std::byte>> args{pointer(out), pointer(out)};
  launch(*module, "k", config_1d(1, 64), args, memory);
  for (uint64_t i = 0; i < 64; ++i) {
    uint64_t f = 1;
    for (uint64_t k = 2; k <= i % 16; ++k) f *= k;
    EXPECT_EQ(out[i], f + 10 + 1 + 10) << i;
  }
}

}  // namespace
}  // namespace tilewright::sim
