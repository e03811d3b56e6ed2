// cvt between integers and floats against the host's conversions, with PTX's saturation.
#include "instruction.h"

namespace tilewright::sim {
namespace {

template <typename I>
uint64_t saturated(long double x, uint64_t nan) {
  if (std::isnan(x)) return nan;
  if (x <= static_cast<long double>(std::numeric_limits<I>::min()))
    return static_cast<uint64_t>(std::numeric_limits<I>::min());
  if (x >= static_cast<long double>(std::numeric_limits<I>::max()))
    return static_cast<uint64_t>(std::numeric_limits<I>::max());
  return static_cast<uint64_t>(static_cast<I>(x));
}

long double rounded(const std::string& mode, long double x) {
  return mode == "rni"   ? std::nearbyint(x)
         : mode == "rzi" ? std::trunc(x)
         : mode == "rmi" ? std::floor(x)
                         : std::ceil(x);
}

std::vector<uint64_t> floats() {
  std::vector<uint64_t> v = kFloats32;
  for (float x :
       {0.5f,           -0.5f,         1.5f,          2.5f,          -2.5f,        0.49999997f,   254.5f,
        255.5f,         -129.0f,       32767.5f,      65535.5f,      -1.0f,        2147483520.0f, 2147483648.0f,
        -2147483648.0f, 4294967040.0f, 4294967296.0f, 9.2233715e18f, 9.223372e18f, 1.8446743e19f, 1e20f})
    v.push_back(bits(x));
  return v;
}

TEST(Convert, FloatToInteger) {
  std::vector<uint64_t> doubles = kFloats64;
  for (uint64_t x : floats()) doubles.push_back(bits(static_cast<double>(f32(x)) + 0.25));
  for (const std::string mode : {"rni", "rzi", "rmi", "rpi"}) {
    const auto from_f32 = [&](const std::string& t, uint64_t nan, auto type) {
      using I = decltype(type);
      expect_instruction("cvt." + mode + "." + t + ".f32", t, {"f32"}, {floats()},
                         [=](uint64_t a, uint64_t, uint64_t) { return saturated<I>(rounded(mode, f32(a)), nan); });
    };
    const auto from_f64 = [&](const std::string& t, uint64_t nan, auto type) {
      using I = decltype(type);
      expect_instruction("cvt." + mode + "." + t + ".f64", t, {"f64"}, {doubles},
                         [=](uint64_t a, uint64_t, uint64_t) { return saturated<I>(rounded(mode, f64(a)), nan); });
    };
    from_f32("s16", 0, int16_t{});
    from_f32("u16", 0, uint16_t{});
    from_f32("s32", 0, int32_t{});
    from_f32("u32", 0, uint32_t{});
    from_f32("s64", uint64_t{1} << 63, int64_t{});
    from_f32("u64", uint64_t{1} << 63, uint64_t{});
    from_f64("s32", uint64_t{1} << 31, int32_t{});
    from_f64("u32", uint64_t{1} << 31, uint32_t{});
    from_f64("s64", uint64_t{1} << 63, int64_t{});
    from_f64("u64", uint64_t{1} << 63, uint64_t{});
  }
}

TEST(Convert, IntegerToFloat) {
  std::vector<uint64_t> longs = kInts64;
  for (int i = 20; i < 63; ++i)
    for (uint64_t d : {uint64_t{1}, uint64_t{3} << (i - 20), (uint64_t{1} << (i - 12)) + 1})
      longs.push_back((uint64_t{1} << i) + d);
  expect_instruction("cvt.rn.f32.s32", "f32", {"s32"}, {kInts32},
                     [](uint64_t a, uint64_t, uint64_t) { return bits(static_cast<float>(static_cast<int32_t>(a))); });
  expect_instruction("cvt.rn.f32.u32", "f32", {"u32"}, {kInts32},
                     [](uint64_t a, uint64_t, uint64_t) { return bits(static_cast<float>(static_cast<uint32_t>(a))); });
  expect_instruction("cvt.rn.f32.s64", "f32", {"s64"}, {longs},
                     [](uint64_t a, uint64_t, uint64_t) { return bits(static_cast<float>(static_cast<int64_t>(a))); });
  expect_instruction("cvt.rn.f32.u64", "f32", {"u64"}, {longs},
                     [](uint64_t a, uint64_t, uint64_t) { return bits(static_cast<float>(a)); });
  expect_instruction("cvt.rn.f64.s64", "f64", {"s64"}, {longs},
                     [](uint64_t a, uint64_t, uint64_t) { return bits(static_cast<double>(static_cast<int64_t>(a))); });
  expect_instruction("cvt.rn.f64.u32", "f64", {"u32"}, {kInts32}, [](uint64_t a, uint64_t, uint64_t) {
    return bits(static_cast<double>(static_cast<uint32_t>(a)));
  });
  expect_instruction("cvt.rn.f32.u16", "f32", {"u16"}, {kInts16},
                     [](uint64_t a, uint64_t, uint64_t) { return bits(static_cast<float>(a)); });
  // Toward zero: the magnitude cut to 24 bits.
  expect_instruction(
      "cvt.rz.f32.s64", "f32", {"s64"}, {longs},
      [](uint64_t a, uint64_t, uint64_t) {
        const bool negative = a >> 63;
        uint64_t m = negative ? 0 - a : a;
        const int extra = std::max(0, 40 - std::countl_zero(m));
        m = m >> extra << extra;
        return bits((negative ? -1.0f : 1.0f) * static_cast<float>(m));
      },
      [](uint64_t got, uint64_t expected) { return (got & 0x7fffffff) == (expected & 0x7fffffff); });
  // To 16 bits: small integers are exact, the tie of 2^60 + 2^52 is broken by its last bit.
  expect_instruction(
      "cvt.rn.bf16.s64", "bf16", {"s64"},
      {{1, 100, (uint64_t{1} << 60) + (uint64_t{1} << 52), (uint64_t{1} << 60) + (uint64_t{1} << 52) + 1}},
      [](uint64_t a, uint64_t, uint64_t) -> uint64_t {
        return a == 1 ? 0x3f80 : a == 100 ? 0x42c8 : a & 1 ? 0x5d81 : 0x5d80;
      });
  expect_instruction("cvt.rn.f16.s32", "f16", {"s32"}, {{0, 1, 2049, 2051, 65504, 65520, 0xffffffff}},
                     [](uint64_t a, uint64_t, uint64_t) -> uint64_t {
                       return a == 0       ? 0
                              : a == 1     ? 0x3c00
                              : a == 2049  ? 0x6800
                              : a == 2051  ? 0x6802
                              : a == 65504 ? 0x7bff
                              : a == 65520 ? 0x7c00
                                           : 0xbc00;
                     });
}

TEST(Convert, IntegerWidths) {
  expect_instruction("cvt.s64.s32", "s64", {"s32"}, {kInts32}, [](uint64_t a, uint64_t, uint64_t) {
    return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(a)));
  });
  expect_instruction("cvt.u64.u32", "u64", {"u32"}, {kInts32}, [](uint64_t a, uint64_t, uint64_t) { return a; });
  expect_instruction("cvt.s32.s16", "s32", {"s16"}, {kInts16},
                     [](uint64_t a, uint64_t, uint64_t) { return static_cast<uint64_t>(static_cast<int16_t>(a)); });
  expect_instruction("cvt.u16.u32", "u16", {"u32"}, {kInts32}, [](uint64_t a, uint64_t, uint64_t) { return a; });
  // 8-bit types live in wider registers: the low byte is read, the result extended.
  expect_instruction("cvt.s32.s8", "s32", {"b32"}, {kInts32},
                     [](uint64_t a, uint64_t, uint64_t) { return static_cast<uint64_t>(static_cast<int8_t>(a)); });
  expect_instruction("cvt.u32.u8", "u32", {"b32"}, {kInts32}, [](uint64_t a, uint64_t, uint64_t) { return a & 255; });
  expect_instruction("cvt.s16.s8", "s16", {"b16"}, {kInts16},
                     [](uint64_t a, uint64_t, uint64_t) { return static_cast<uint64_t>(static_cast<int8_t>(a)); });
  expect_instruction("cvt.s8.s32", "b32", {"s32"}, {kInts32},
                     [](uint64_t a, uint64_t, uint64_t) { return static_cast<uint64_t>(static_cast<int8_t>(a)); });
  expect_instruction("cvt.u8.u32", "b16", {"u32"}, {kInts32}, [](uint64_t a, uint64_t, uint64_t) { return a & 255; });
  expect_instruction("cvt.sat.s16.s32", "s16", {"s32"}, {kInts32}, [](uint64_t a, uint64_t, uint64_t) {
    return static_cast<uint64_t>(std::clamp<int32_t>(static_cast<int32_t>(a), -32768, 32767));
  });
  expect_instruction("cvt.sat.u8.s32", "b32", {"s32"}, {kInts32}, [](uint64_t a, uint64_t, uint64_t) {
    return static_cast<uint64_t>(std::clamp<int32_t>(static_cast<int32_t>(a), 0, 255));
  });
  expect_instruction("cvt.sat.u32.s64", "u32", {"s64"}, {kInts64}, [](uint64_t a, uint64_t, uint64_t) {
    return static_cast<uint64_t>(std::clamp<int64_t>(static_cast<int64_t>(a), 0, 0xffffffffll));
  });
}

TEST(Convert, FloatToFloat) {
  expect_instruction(
      "cvt.f64.f32", "f64", {"f32"}, {kFloats32},
      [](uint64_t a, uint64_t, uint64_t) { return bits(static_cast<double>(f32(a))); }, same_f64);
  std::vector<uint64_t> doubles = kFloats64;
  for (double d : {1e-40, 1e-46, 3.4028235677973366e38, 1e39, 1 + 0x1p-24, 1 + 0x1p-24 + 0x1p-50})
    doubles.push_back(bits(d));
  expect_instruction(
      "cvt.rn.f32.f64", "f32", {"f64"}, {doubles},
      [](uint64_t a, uint64_t, uint64_t) { return bits(static_cast<float>(f64(a))); }, same_f32);
  for (const std::string mode : {"rni", "rzi", "rmi", "rpi"}) {
    expect_instruction(
        "cvt." + mode + ".f32.f32", "f32", {"f32"}, {floats()},
        [=](uint64_t a, uint64_t, uint64_t) { return bits(static_cast<float>(rounded(mode, f32(a)))); }, same_f32);
    expect_instruction(
        "cvt." + mode + ".f64.f64", "f64", {"f64"}, {kFloats64},
        [=](uint64_t a, uint64_t, uint64_t) { return bits(static_cast<double>(rounded(mode, f64(a)))); }, same_f64);
  }
  expect_instruction("cvt.sat.f32.f32", "f32", {"f32"}, {kFloats32},
                     [](uint64_t a, uint64_t, uint64_t) { return bits(f32(a) > 0 ? std::min(f32(a), 1.0f) : 0.0f); });
  expect_instruction("cvt.rna.tf32.f32", "b32", {"f32"},
                     {{0x3f800000, 0x3f801000, 0x3f800fff, 0x3f801001, 0xbf803000, 0x7f800000, 0x00000001}},
                     [](uint64_t a, uint64_t, uint64_t) {
                       return (a & 0x7f800000u) == 0x7f800000u ? a : (a + 0x1000) & ~uint64_t{0x1fff};
                     });
}

// e4m3 and e5m2, the first source in the upper byte; values from the formats' definition.
TEST(Convert, EightBitFloats) {
  const std::vector<uint64_t> in = {bits(0.0f),       bits(-0.0f),   bits(1.0f),    bits(-2.5f),
                                    bits(448.0f),     bits(1000.0f), bits(0x1p-9f), bits(0x1p-10f),
                                    bits(0x1.8p-10f), bits(17.0f),   bits(19.0f)};
  const std::vector<uint64_t> e4m3 = {0x00, 0x80, 0x38, 0xc2, 0x7e, 0x7e, 0x01, 0x00, 0x01, 0x58, 0x5a};
  const std::vector<uint64_t> e5m2 = {0x00, 0x80, 0x3c, 0xc1, 0x5f, 0x64, 0x18, 0x14, 0x16, 0x4c, 0x4d};
  const auto find = [](const std::vector<uint64_t>& keys, const std::vector<uint64_t>& values, uint64_t key) {
    return values[static_cast<size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin())];
  };
  expect_instruction("cvt.rn.satfinite.e4m3x2.f32", "b16", {"f32", "f32"}, {in},
                     [=](uint64_t a, uint64_t b, uint64_t) { return find(in, e4m3, a) << 8 | find(in, e4m3, b); });
  expect_instruction("cvt.rn.satfinite.e5m2x2.f32", "b16", {"f32", "f32"}, {in},
                     [=](uint64_t a, uint64_t b, uint64_t) { return find(in, e5m2, a) << 8 | find(in, e5m2, b); });
  const std::vector<uint64_t> bytes = {0x38c2, 0x7e01, 0x0080, 0x0158};
  const std::vector<uint64_t> halves = {0x3c00c100, 0x5f001800, 0x00008000, 0x18004c00};
  expect_instruction("cvt.rn.f16x2.e4m3x2", "b32", {"b16"}, {bytes},
                     [=](uint64_t a, uint64_t, uint64_t) { return find(bytes, halves, a); });
  const std::vector<uint64_t> bytes2 = {0x3cc1, 0x7b14, 0x0080};
  const std::vector<uint64_t> halves2 = {0x3c00c100, 0x7b001400, 0x00008000};
  expect_instruction("cvt.rn.f16x2.e5m2x2", "b32", {"b16"}, {bytes2},
                     [=](uint64_t a, uint64_t, uint64_t) { return find(bytes2, halves2, a); });
}

}  // namespace
}  // namespace tilewright::sim
