// ldmatrix and its like against the definition of an 8x8 matrix held by a warp, and mma.sync against a product of
// matrices whose fragments are laid out as the PTX ISA's figures have them.
#include <cmath>
#include <functional>
#include <numeric>

#include "run.h"

namespace tilewright::sim {
namespace {

// Shared memory holds four matrices of 8 rows of 16 bytes; element (m, row, column) has the value 64m + 8 row + column.
std::vector<uint32_t> run_shared(const std::string& body) {
  const std::string ptx = module_header() + R"(
.visible .entry k(.param .u64 out)
{
  .shared .align 16 .b8 s[512];
  .reg .b64 %o, %x;
  .reg .b32 %t, %a, %b, %v, %w, %r<8>;
  ld.param.u64 %o, [out];
  mov.u32 %t, %tid.x;
  mov.u32 %a, s;
  mad.lo.u32 %b, %t, 16, %a;
  mul.lo.u32 %v, %t, 8;
  add.u32 %w, %v, 1;
  shl.b32 %w, %w, 16;
  or.b32 %v, %v, %w;
  st.shared.b32 [%b], %v;
  add.u32 %v, %v, 0x20002;
  st.shared.b32 [%b+4], %v;
  add.u32 %v, %v, 0x20002;
  st.shared.b32 [%b+8], %v;
  add.u32 %v, %v, 0x20002;
  st.shared.b32 [%b+12], %v;
  bar.warp.sync -1;
  mul.wide.u32 %x, %t, 16;
  add.s64 %o, %o, %x;
)" + body + R"(
  st.global.v4.b32 [%o], {%r0, %r1, %r2, %r3};
  ret;
})";
  std::vector<uint32_t> out(128);
  const std::vector<Allocation> memory{allocation(out, "out")};
  const std::vector<std::vector<std::byte>> args{pointer(out)};
  launch(*parse(ptx), "k", config_1d(1, 32), args, memory);
  return out;
}

uint32_t pair(uint32_t low, uint32_t high) { return high << 16 | low; }

TEST(Matrix, Load) {
  const auto plain = run_shared("  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%b];\n");
  const auto transposed = run_shared("  ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r0, %r1, %r2, %r3}, [%b];\n");
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t m = 0; m < 4; ++m) {
      const uint32_t g = lane / 4, t = lane % 4;
      EXPECT_EQ(plain[4 * lane + m], pair(64 * m + 8 * g + 2 * t, 64 * m + 8 * g + 2 * t + 1));
      EXPECT_EQ(transposed[4 * lane + m], pair(64 * m + 8 * (2 * t) + g, 64 * m + 8 * (2 * t + 1) + g));
    }
}

TEST(Matrix, LoadOfOneAndTwoIgnoresOtherAddresses) {
  const auto out = run_shared(R"(
  .reg .pred %p;
  setp.ge.u32 %p, %t, 16;
  @%p mov.u32 %b, 0xffffff;
  ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r2, %r3}, [%b];
  setp.ge.u32 %p, %t, 8;
  @%p mov.u32 %b, 0xffffff;
  ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%b];
  mov.u32 %r1, 0;
)");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[4 * lane], pair(8 * (lane / 4) + 2 * (lane % 4), 8 * (lane / 4) + 2 * (lane % 4) + 1));
    EXPECT_EQ(out[4 * lane + 3], out[4 * lane] + pair(64, 64));
  }
}

TEST(Matrix, StoreIsTheInverseOfLoad) {
  const auto out = run_shared(R"(
  ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r0, %r1, %r2, %r3}, [%b];
  bar.warp.sync -1;
  stmatrix.sync.aligned.m8n8.x4.shared.b16 [%b], {%r3, %r2, %r1, %r0};
  bar.warp.sync -1;
  ld.shared.v4.b32 {%r0, %r1, %r2, %r3}, [%b];
)");
  // Matrix m is now the transpose of matrix 3 - m; thread 8m + i reads its row i.
  for (uint32_t m = 0; m < 4; ++m)
    for (uint32_t i = 0; i < 8; ++i)
      for (uint32_t k = 0; k < 4; ++k)
        EXPECT_EQ(out[4 * (8 * m + i) + k], pair(64 * (3 - m) + 8 * (2 * k) + i, 64 * (3 - m) + 8 * (2 * k + 1) + i));
}

TEST(Matrix, TransposeInRegisters) {
  const auto out = run_shared(R"(
  ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%b];
  ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r1}, [%b];
  movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r0;
  mov.u32 %r3, 0;
)");
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(out[4 * lane + 2], out[4 * lane + 1]);
}

TEST(Matrix, LoadCountsRowsAsQuarterWarps) {
  const auto passes = [](uint32_t row_bytes) {
    const std::string ptx = module_header() + R"(
.visible .entry k()
{
  .shared .align 16 .b8 s[8192];
  .reg .b32 %t, %a, %r<4>;
  mov.u32 %t, %tid.x;
  mov.u32 %a, s;
  mad.lo.u32 %a, %t, )" + std::to_string(row_bytes) +
                            R"(, %a;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%a];
  ret;
})";
    return launch(*parse(ptx), "k", config_1d(1, 32), {}, {}).accesses.at(0).passes;
  };
  EXPECT_EQ(passes(16), 4u);
  EXPECT_EQ(passes(128), 32u);  // all rows in the same four banks
  EXPECT_EQ(passes(144), 4u);   // padded by 16 bytes
}

TEST(Matrix, DivergentCodeIsReported) {
  const std::string ptx = module_header() + R"(
.visible .entry k()
{
  .shared .align 16 .b8 s[512];
  .reg .b32 %t, %a, %r<4>;
  .reg .pred %p;
  mov.u32 %t, %tid.x;
  setp.lt.u32 %p, %t, 16;
  mov.u32 %a, s;
  @%p ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%a];
  ret;
})";
  const std::string text = thrown<DeviceError>([&] { launch(*parse(ptx), "k", config_1d(1, 32), {}, {}); });
  EXPECT_NE(text.find("ldmatrix in divergent code: 16 of the warp's 32 lanes"), std::string::npos) << text;
}

struct Shape {
  std::string name;  // of the instruction, with types
  uint32_t k, a_regs, b_regs, d_regs, per_register;
  std::function<std::pair<uint32_t, uint32_t>(uint32_t g, uint32_t t, uint32_t i)> a, b;  // (row, k), (k, column)
  std::function<uint32_t(int)> encode;                                                    // a small integer
  std::function<uint32_t(int)> encode_b = {};                                             // of b; empty: the same
};

uint32_t f16_of(int v) {  // exact for |v| < 32
  if (v == 0) return 0;
  const uint32_t m = static_cast<uint32_t>(std::abs(v)), e = 31 - static_cast<uint32_t>(std::countl_zero(m));
  return (v < 0 ? 0x8000u : 0u) | (15 + e) << 10 | (m << (10 - e) & 0x3ff);
}

std::vector<Shape> shapes() {
  using P = std::pair<uint32_t, uint32_t>;
  const auto bf16_of = [](int v) { return std::bit_cast<uint32_t>(static_cast<float>(v)) >> 16; };
  const auto a16 = [](uint32_t g, uint32_t t, uint32_t i) {
    return P(g + 8 * ((i >> 1) & 1), 2 * t + (i & 1) + 8 * (i >> 2));
  };
  const auto b16 = [](uint32_t g, uint32_t t, uint32_t i) { return P(2 * t + (i & 1) + 8 * (i >> 1), g); };
  const auto a32 = [](uint32_t g, uint32_t t, uint32_t i) { return P(g + 8 * (i & 1), t + 4 * (i >> 1)); };
  const auto b32 = [](uint32_t g, uint32_t t, uint32_t i) { return P(t + 4 * i, g); };
  const auto a8 = [](uint32_t g, uint32_t t, uint32_t i) {
    return P(g + 8 * ((i >> 2) & 1), 4 * t + (i & 3) + 16 * (i >> 3));
  };
  const auto b8 = [](uint32_t g, uint32_t t, uint32_t i) { return P(4 * t + (i & 3) + 16 * (i >> 2), g); };
  const auto tf32_of = [](int v) {
    return std::bit_cast<uint32_t>(static_cast<float>(v)) | 0x1fffu;
  };  // low bits are ignored
  const auto s8_of = [](int v) { return static_cast<uint32_t>(v) & 255; };
  // Both fp8 formats are f16 with fewer bits: e5m2 its upper half, e4m3 with an exponent biased by 7 instead of 15.
  const auto e5m2_of = [](int v) { return f16_of(v) >> 8; };
  const auto e4m3_of = [](int v) {
    const uint32_t h = f16_of(v);
    return v == 0 ? 0u : (h >> 8 & 0x80) | ((h >> 10 & 31) - 8) << 3 | (h >> 7 & 7);
  };
  return {{"m16n8k16.row.col.f32.bf16.bf16.f32", 16, 4, 2, 4, 2, a16, b16, bf16_of},
          {"m16n8k8.row.col.f32.bf16.bf16.f32", 8, 2, 1, 4, 2, a16, b16, bf16_of},
          {"m16n8k16.row.col.f32.f16.f16.f32", 16, 4, 2, 4, 2, a16, b16, f16_of},
          {"m16n8k8.row.col.f32.f16.f16.f32", 8, 2, 1, 4, 2, a16, b16, f16_of},
          {"m16n8k16.row.col.f16.f16.f16.f16", 16, 4, 2, 2, 2, a16, b16, f16_of},
          {"m16n8k8.row.col.f32.tf32.tf32.f32", 8, 4, 2, 4, 1, a32, b32, tf32_of},
          {"m16n8k4.row.col.f32.tf32.tf32.f32", 4, 2, 1, 4, 1, a32, b32, tf32_of},
          {"m16n8k32.row.col.s32.s8.s8.s32", 32, 4, 2, 4, 4, a8, b8, s8_of},
          {"m16n8k32.row.col.satfinite.s32.s8.s8.s32", 32, 4, 2, 4, 4, a8, b8, s8_of},
          {"m16n8k16.row.col.s32.s8.s8.s32", 16, 2, 1, 4, 4, a8, b8, s8_of},
          {"m16n8k32.row.col.f32.e4m3.e4m3.f32", 32, 4, 2, 4, 4, a8, b8, e4m3_of},
          {"m16n8k32.row.col.f32.e5m2.e5m2.f32", 32, 4, 2, 4, 4, a8, b8, e5m2_of},
          {"m16n8k32.row.col.f32.e4m3.e5m2.f32", 32, 4, 2, 4, 4, a8, b8, e4m3_of, e5m2_of},
          {"m16n8k32.row.col.f32.e5m2.e4m3.f32", 32, 4, 2, 4, 4, a8, b8, e5m2_of, e4m3_of},
          {"m16n8k32.row.col.f16.e4m3.e4m3.f16", 32, 4, 2, 2, 4, a8, b8, e4m3_of}};
}

std::string list(const char* prefix, uint32_t n) {
  std::string out = "{";
  for (uint32_t i = 0; i < n; ++i) out += (i ? ", %" : "%") + std::string(prefix) + std::to_string(i);
  return out + "}";
}

TEST(Matrix, MultiplyAccumulate) {
  for (const Shape& s : shapes()) {
    const bool packed = s.d_regs == 2, integer = s.name.find("s32") != std::string::npos;
    const std::string type = packed || integer ? "b32" : "f32";
    std::string body;
    const auto loads = [&](const char* prefix, uint32_t n, uint32_t at) {
      for (uint32_t i = 0; i < n; ++i)
        body += "  ld.global.b32 %" + std::string(prefix) + std::to_string(i) + ", [%src+" +
                std::to_string(4 * (at + i)) + "];\n";
    };
    loads("a", s.a_regs, 0);
    loads("b", s.b_regs, 4);
    loads("c", s.d_regs, 8);
    body += "  mma.sync.aligned." + s.name + " " + list("c", s.d_regs) + ", " + list("a", s.a_regs) + ", " +
            list("b", s.b_regs) + ", " + list("c", s.d_regs) + ";\n";
    for (uint32_t i = 0; i < s.d_regs; ++i)
      body += "  st.global.b32 [%src+" + std::to_string(4 * (8 + i)) + "], %c" + std::to_string(i) + ";\n";
    const std::string ptx =
        module_header() +
        ".visible .entry k(.param .u64 io)\n{\n  .reg .b64 %src, %x;\n  .reg .b32 %t, %a<4>, %b<2>;\n  .reg ." + type +
        " %c<4>;\n  ld.param.u64 %src, [io];\n  mov.u32 %t, %tid.x;\n  mul.wide.u32 %x, %t, 48;\n  add.s64 %src, %src, "
        "%x;\n" +
        body + "  ret;\n}\n";
    const auto value_a = [](uint32_t row, uint32_t k) { return static_cast<int>((row * 5 + k * 3) % 7) - 3; };
    const auto value_b = [](uint32_t k, uint32_t n) { return static_cast<int>((k * 2 + n * 3) % 5) - 2; };
    const auto value_c = [](uint32_t row, uint32_t n) { return static_cast<int>((row + n) % 9) - 4; };
    std::vector<uint32_t> io(32 * 12, 0);
    const auto place = [&](uint32_t lane, uint32_t at, uint32_t i, uint32_t bits) {
      io[lane * 12 + at + i / s.per_register] |= bits << (32 / s.per_register * (i % s.per_register));
    };
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t g = lane / 4, t = lane % 4;
      for (uint32_t i = 0; i < s.a_regs * s.per_register; ++i)
        place(lane, 0, i, s.encode(value_a(s.a(g, t, i).first, s.a(g, t, i).second)));
      for (uint32_t i = 0; i < s.b_regs * s.per_register; ++i)
        place(lane, 4, i, (s.encode_b ? s.encode_b : s.encode)(value_b(s.b(g, t, i).first, s.b(g, t, i).second)));
      for (uint32_t i = 0; i < 4; ++i) {
        const int c = value_c(g + 8 * (i >> 1), 2 * t + (i & 1));
        if (packed)
          io[lane * 12 + 8 + i / 2] |= f16_of(c) << (16 * (i & 1));
        else
          io[lane * 12 + 8 + i] = integer ? static_cast<uint32_t>(c) : std::bit_cast<uint32_t>(static_cast<float>(c));
      }
    }
    const std::vector<Allocation> memory{allocation(io, "io")};
    const std::vector<std::vector<std::byte>> args{pointer(io)};
    const LaunchResult r = launch(*parse(ptx), "k", config_1d(1, 32), args, memory);
    EXPECT_EQ(r.total.matrix, 1u);
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t row = lane / 4 + 8 * (i >> 1), n = 2 * (lane % 4) + (i & 1);
        int expected = value_c(row, n);
        for (uint32_t k = 0; k < s.k; ++k) expected += value_a(row, k) * value_b(k, n);
        const uint32_t bits = io[lane * 12 + 8 + (packed ? i / 2 : i)];
        if (packed) {
          ASSERT_LT(std::abs(expected), 32);
          ASSERT_EQ(bits >> (16 * (i & 1)) & 0xffff, f16_of(expected)) << s.name;
        } else {
          ASSERT_EQ(bits,
                    integer ? static_cast<uint32_t>(expected) : std::bit_cast<uint32_t>(static_cast<float>(expected)))
              << s.name << " row " << row << " column " << n;
        }
      }
  }
}

TEST(Matrix, MultiplyInDoublePrecision) {
  const std::string ptx = module_header() + R"(
.visible .entry k(.param .u64 io)
{
  .reg .b64 %src, %x;
  .reg .b32 %t;
  .reg .f64 %a, %b, %c, %d;
  ld.param.u64 %src, [io];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %x, %t, 32;
  add.s64 %src, %src, %x;
  ld.global.f64 %a, [%src];
  ld.global.f64 %b, [%src+8];
  ld.global.f64 %c, [%src+16];
  ld.global.f64 %d, [%src+24];
  mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%c, %d}, {%a}, {%b}, {%c, %d};
  st.global.f64 [%src+16], %c;
  st.global.f64 [%src+24], %d;
  ret;
})";
  const auto a = [](uint32_t row, uint32_t k) { return row + 0.5 * k; };
  const auto b = [](uint32_t k, uint32_t n) { return 2.0 * k - n; };
  std::vector<double> io;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t g = lane / 4, t = lane % 4;
    for (double v : {a(g, t), b(t, g), 1.0 * g, 1.0 * g}) io.push_back(v);
  }
  const std::vector<Allocation> memory{allocation(io, "io")};
  const std::vector<std::vector<std::byte>> args{pointer(io)};
  launch(*parse(ptx), "k", config_1d(1, 32), args, memory);
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t row = lane / 4;
      double expected = row;
      for (uint32_t k = 0; k < 4; ++k) expected += a(lane / 4, k) * b(k, 2 * (lane % 4) + i);
      EXPECT_EQ(io[4 * lane + 2 + i], expected);
    }
}

// Elements of a lane in the larger shapes of f64 (sm_90), and of 8x8 products of bytes.
TEST(Matrix, MultiplyOtherShapes) {
  for (const uint32_t k : {4u, 8u, 16u}) {
    const uint32_t na = k / 2, nb = k / 4;
    const std::string name = "m16n8k" + std::to_string(k);
    std::string body;
    for (uint32_t i = 0; i < na + nb + 4; ++i)
      body += "  ld.global.f64 %f" + std::to_string(i) + ", [%src+" + std::to_string(8 * i) + "];\n";
    const auto vector = [](uint32_t first, uint32_t n) {
      std::string out = "{";
      for (uint32_t i = 0; i < n; ++i) out += (i ? ", %f" : "%f") + std::to_string(first + i);
      return out + "}";
    };
    body += "  mma.sync.aligned." + name + ".row.col.f64.f64.f64.f64 " + vector(na + nb, 4) + ", " + vector(0, na) +
            ", " + vector(na, nb) + ", " + vector(na + nb, 4) + ";\n";
    for (uint32_t i = 0; i < 4; ++i)
      body +=
          "  st.global.f64 [%src+" + std::to_string(8 * (na + nb + i)) + "], %f" + std::to_string(na + nb + i) + ";\n";
    const std::string ptx = module_header() +
                            ".visible .entry k(.param .u64 io)\n{\n  .reg .b64 %src;\n  .reg .b32 %t;\n"
                            "  .reg .f64 %f<16>;\n  ld.param.u64 %src, [io];\n  mov.u32 %t, %tid.x;\n"
                            "  mad.wide.u32 %src, %t, 128, %src;\n" +
                            body + "  ret;\n}\n";
    const auto a = [](uint32_t row, uint32_t kk) { return row + 0.25 * kk; };
    const auto b = [](uint32_t kk, uint32_t n) { return 2.0 * kk - n; };
    std::vector<double> io(32 * 16);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t g = lane / 4, t = lane % 4;
      for (uint32_t i = 0; i < na; ++i) io[lane * 16 + i] = a(i % 2 ? g + 8 : g, i / 2 * 4 + t);
      for (uint32_t i = 0; i < nb; ++i) io[lane * 16 + na + i] = b(4 * i + t, g);
      for (uint32_t i = 0; i < 4; ++i) io[lane * 16 + na + nb + i] = g + 100.0 * i;
    }
    const std::vector<Allocation> memory{allocation(io, "io")};
    launch(*parse(ptx), "k", config_1d(1, 32), std::vector<std::vector<std::byte>>{pointer(io)}, memory);
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t row = lane / 4;
        double expected = row + 100.0 * i;
        for (uint32_t kk = 0; kk < k; ++kk)
          expected += a(lane / 4 + (i < 2 ? 0 : 8), kk) * b(kk, 2 * (lane % 4) + i % 2);
        EXPECT_EQ(io[lane * 16 + na + nb + i], expected) << name;
      }
  }
  const std::string bytes = module_header() + R"(
.visible .entry k(.param .u64 io)
{
  .reg .b64 %src;
  .reg .b32 %t, %a, %b, %c, %d;
  ld.param.u64 %src, [io];
  mov.u32 %t, %tid.x;
  mad.wide.u32 %src, %t, 16, %src;
  ld.global.v4.b32 {%a, %b, %c, %d}, [%src];
  mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32 {%c, %d}, {%a}, {%b}, {%c, %d};
  st.global.v2.b32 [%src+8], {%c, %d};
  ret;
})";
  std::vector<uint32_t> io(32 * 4 + 4);
  const size_t skip = (16 - reinterpret_cast<uint64_t>(io.data()) % 16) % 16 / 4;
  uint32_t* cells = io.data() + skip;
  const auto byte = [](uint32_t x, uint32_t y) { return (x * 37 + y * 101) & 255; };
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t i = 0; i < 4; ++i) {
      cells[lane * 4] |= byte(lane / 4, 4 * (lane % 4) + i) << (8 * i);
      cells[lane * 4 + 1] |= byte(4 * (lane % 4) + i, lane / 4 + 50) << (8 * i);
    }
    cells[lane * 4 + 2] = lane;
    cells[lane * 4 + 3] = 1000;
  }
  const std::vector<Allocation> memory{allocation(io, "io")};
  launch(*parse(bytes), "k", config_1d(1, 32),
         std::vector<std::vector<std::byte>>{arg(reinterpret_cast<uint64_t>(cells))}, memory);
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t i = 0; i < 2; ++i) {
      int expected = i ? 1000 : static_cast<int>(lane);
      for (uint32_t k = 0; k < 16; ++k)
        expected += static_cast<int8_t>(byte(lane / 4, k)) * static_cast<int>(byte(k, 2 * (lane % 4) + i + 50));
      EXPECT_EQ(static_cast<int>(cells[lane * 4 + 2 + i]), expected);
    }
}

}  // namespace
}  // namespace tilewright::sim
