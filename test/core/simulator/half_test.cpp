// 16-bit floats. The expected value is the exact result in extended precision rounded once by a rounding written here
// from the definition: the nearest of the format's values, ties to even.
#include "instruction.h"

namespace tilewright::sim {
namespace {

struct HalfFormat {
  const char* name;
  int exponent_bits, mantissa_bits;
  const std::vector<uint64_t>* values;
};
const HalfFormat kF16 = {"f16", 5, 10, &kF16s};
const HalfFormat kBF16 = {"bf16", 8, 7, &kBF16s};

long double value_of(const HalfFormat& f, uint64_t h) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1, all = (1 << f.exponent_bits) - 1;
  const int e = h >> f.mantissa_bits & all, m = h & ((1 << f.mantissa_bits) - 1);
  const long double sign = h >> 15 & 1 ? -1.0L : 1.0L;
  if (e == all) return m ? static_cast<long double>(NAN) : sign * static_cast<long double>(HUGE_VAL);
  return sign * (e ? std::ldexp(1.0L * ((1 << f.mantissa_bits) + m), e - bias - f.mantissa_bits)
                   : std::ldexp(1.0L * m, 1 - bias - f.mantissa_bits));
}

uint64_t nearest(const HalfFormat& f, long double x) {
  if (std::isnan(x)) return 0x7fff;
  const uint64_t sign = std::signbit(x) ? 0x8000 : 0;
  const uint64_t infinity = ((uint64_t{1} << f.exponent_bits) - 1) << f.mantissa_bits;
  const long double a = std::fabs(x);
  // Magnitudes are ordered like their encodings: search the first at least as large.
  uint64_t low = 0, high = infinity;
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (value_of(f, middle) < a)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0 || value_of(f, low) == a) return sign | low;
  // Infinity stands for the next power of two when rounding.
  const long double below = value_of(f, low - 1);
  const long double above =
      low == infinity ? 2 * value_of(f, ((uint64_t{1} << f.exponent_bits) - 2) << f.mantissa_bits) : value_of(f, low);
  const long double middle = (below + above) / 2;
  return sign | (a < middle || (a == middle && low % 2 == 1) ? low - 1 : low);
}

bool same_16(uint64_t a, uint64_t b) { return a == b; }

class Halves : public testing::TestWithParam<HalfFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, Halves, testing::Values(kF16, kBF16),
                         [](const auto& info) { return info.param.name; });

TEST_P(Halves, Arithmetic) {
  const HalfFormat f = GetParam();
  const std::string t = f.name;
  const auto v = [=](uint64_t h) { return value_of(f, h); };
  expect_instruction(
      "add.rn." + t, t, {t, t}, {*f.values}, [=](uint64_t a, uint64_t b, uint64_t) { return nearest(f, v(a) + v(b)); },
      same_16);
  expect_instruction(
      "sub.rn." + t, t, {t, t}, {*f.values}, [=](uint64_t a, uint64_t b, uint64_t) { return nearest(f, v(a) - v(b)); },
      same_16);
  expect_instruction(
      "mul.rn." + t, t, {t, t}, {*f.values}, [=](uint64_t a, uint64_t b, uint64_t) { return nearest(f, v(a) * v(b)); },
      same_16);
}

// a * b + c can need more bits than any host type has: compare by the exact difference to the candidates instead.
TEST_P(Halves, FusedMultiplyAdd) {
  const HalfFormat f = GetParam();
  const std::string t = f.name;
  const auto v = [=](uint64_t h) { return value_of(f, h); };
  expect_instruction(
      "fma.rn." + t, t, {t, t, t}, {*f.values},
      [=](uint64_t a, uint64_t b, uint64_t c) {
        const long double p = v(a) * v(b), s = p + v(c);
        if (std::isnan(s) || std::isinf(s)) return nearest(f, s);
        // What the sum lost, by the two-sum algorithm; it breaks a tie.
        const long double t1 = s - p, lost = (p - (s - t1)) + (v(c) - t1);
        if (lost == 0) return nearest(f, s);
        return nearest(
            f, std::nextafter(s, lost > 0 ? static_cast<long double>(HUGE_VAL) : -static_cast<long double>(HUGE_VAL)));
      },
      same_16);
}

TEST_P(Halves, PackedArithmeticActsOnEachHalf) {
  const HalfFormat f = GetParam();
  const std::string t = std::string(f.name) + "x2";
  std::vector<uint64_t> pairs;
  pairs.reserve(f.values->size());
  for (size_t i = 0; i < f.values->size(); ++i)
    pairs.push_back((*f.values)[i] << 16 | (*f.values)[(i * 5 + 3) % f.values->size()]);
  const auto v = [=](uint64_t h) { return value_of(f, h & 0xffff); };
  expect_instruction("add.rn." + t, t, {t, t}, {pairs}, [=](uint64_t a, uint64_t b, uint64_t) {
    return nearest(f, v(a >> 16) + v(b >> 16)) << 16 | nearest(f, v(a) + v(b));
  });
  expect_instruction("mul.rn." + t, t, {t, t}, {pairs}, [=](uint64_t a, uint64_t b, uint64_t) {
    return nearest(f, v(a >> 16) * v(b >> 16)) << 16 | nearest(f, v(a) * v(b));
  });
  expect_instruction("neg." + t, t, {t}, {pairs}, [=](uint64_t a, uint64_t, uint64_t) {
    const auto negated = [=](uint64_t h) { return std::isnan(v(h)) ? uint64_t{0x7fff} : (h ^ 0x8000) & 0xffff; };
    return negated(a >> 16) << 16 | negated(a);
  });
}

TEST_P(Halves, MinMax) {
  const HalfFormat f = GetParam();
  const std::string t = f.name;
  for (const bool max : {false, true})
    for (const bool nan : {false, true})
      expect_instruction(std::string(max ? "max" : "min") + (nan ? ".NaN." : ".") + t, t, {t, t}, {*f.values},
                         [=](uint64_t a, uint64_t b, uint64_t) -> uint64_t {
                           const long double x = value_of(f, a), y = value_of(f, b);
                           if (std::isnan(x) || std::isnan(y)) {
                             if (nan || (std::isnan(x) && std::isnan(y))) return 0x7fff;
                             return std::isnan(x) ? b : a;
                           }
                           if (x == y) return std::signbit(x) != max ? a : b;
                           return (x < y) != max ? a : b;
                         });
}

TEST_P(Halves, ComparisonsOfPairs) {
  const HalfFormat f = GetParam();
  const std::string ptx = cell_kernel(R"(
  .reg .b32 %x, %y;
  .reg .pred %p, %q;
  .reg .b64 %s;
  cvt.u32.u64 %x, %a;
  cvt.u32.u64 %y, %b;
  setp.lt.)" + std::string(f.name) + R"(x2 %p|%q, %x, %y;
  selp.u64 %d, 1, 0, %p;
  selp.u64 %s, 2, 0, %q;
  or.b64 %d, %d, %s;
)");
  Cells in;
  std::vector<uint64_t> expected;
  for (uint64_t a : *f.values)
    for (uint64_t b : *f.values) {
      in.insert(in.end(), {a << 16 | b, b << 16 | a, 0, 0});
      const long double x = value_of(f, a), y = value_of(f, b);
      expected.push_back((y < x ? 1 : 0) | (x < y ? 2 : 0));
    }
  EXPECT_EQ(run_cells(ptx, in), expected);
}

TEST_P(Halves, ConversionsFromFloat) {
  const HalfFormat f = GetParam();
  const std::string t = f.name;
  std::vector<uint64_t> floats = kFloats32;
  // The neighbourhood of every value of the format's table and of the midpoints above them.
  for (uint64_t h : *f.values) {
    if (!std::isfinite(value_of(f, h))) continue;
    const float x = static_cast<float>(value_of(f, h)), next = static_cast<float>(value_of(f, h + 1));
    const float middle = x + (next - x) / 2;
    for (float y : {x, middle, std::nextafter(middle, 1e30f), std::nextafter(middle, -1e30f)})
      floats.push_back(bits(y));
  }
  expect_instruction("cvt.rn." + t + ".f32", t, {"f32"}, {floats},
                     [=](uint64_t a, uint64_t, uint64_t) { return nearest(f, f32(a)); });
  expect_instruction("cvt.rn." + t + "x2.f32", "b32", {"f32", "f32"}, {kFloats32},
                     [=](uint64_t a, uint64_t b, uint64_t) { return nearest(f, f32(a)) << 16 | nearest(f, f32(b)); });
  expect_instruction(
      "cvt.rn.relu." + t + ".f32", t, {"f32"}, {floats},
      [=](uint64_t a, uint64_t, uint64_t) {
        return std::isnan(f32(a))     ? 0x7fff
               : std::signbit(f32(a)) ? (f32(a) < 0 && nearest(f, f32(a)) != 0x8000 ? 0 : nearest(f, f32(a)) & 0x8000)
                                      : nearest(f, f32(a));
      },
      [](uint64_t got, uint64_t expected) { return (got & 0x7fff) == (expected & 0x7fff); });
  std::vector<uint64_t> doubles = kFloats64;
  for (uint64_t x : floats) doubles.push_back(bits(static_cast<double>(f32(x)) * (1 + 0x1p-50)));
  if (t == "f16")
    expect_instruction("cvt.rn.f16.f64", t, {"f64"}, {doubles}, [=](uint64_t a, uint64_t, uint64_t) {
      // Of a NaN sign and upper bits are kept.
      return std::isnan(f64(a)) ? (a >> 48 & 0x8000) | 0x7e00 | (a >> 42 & 0x3ff) : nearest(f, f64(a));
    });
}

TEST_P(Halves, ConversionsToFloatAreExact) {
  const HalfFormat f = GetParam();
  std::vector<uint64_t> all;
  for (uint64_t h = 0; h < 65536; h += 7) all.push_back(h);
  const auto same = [](uint64_t got, uint64_t expected) { return same_f32(got, expected); };
  expect_instruction(
      "cvt.f32." + std::string(f.name), "f32", {f.name}, {all},
      [=](uint64_t a, uint64_t, uint64_t) { return bits(static_cast<float>(value_of(f, a))); }, same);
}

TEST(HalfFunctions, Exponential) {
  const HalfFormat f = kF16;
  expect_instruction(
      "ex2.approx.f16", "f16", {"f16"}, {kF16s},
      [=](uint64_t a, uint64_t, uint64_t) { return nearest(f, std::exp2(value_of(f, a))); },
      [](uint64_t got, uint64_t expected) { return got + 1 >= expected && got <= expected + 1; });
  expect_instruction(
      "tanh.approx.bf16", "bf16", {"bf16"}, {kBF16s},
      [=](uint64_t a, uint64_t, uint64_t) { return nearest(kBF16, std::tanh(value_of(kBF16, a))); },
      [](uint64_t got, uint64_t expected) { return got + 1 >= expected && got <= expected + 1; });
}

}  // namespace
}  // namespace tilewright::sim
