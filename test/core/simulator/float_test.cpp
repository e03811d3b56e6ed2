// f32 and f64 instructions against the host's arithmetic, with PTX's rules for NaN, signed zero and flushing.
#include <cfenv>

#include "instruction.h"

namespace tilewright::sim {
namespace {

constexpr uint64_t kCanonical = 0x7fffffff;

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
uint64_t canonical(float r) { return std::isnan(r) ? kCanonical : bits(r); }

TEST(Float, Arithmetic32) {
  const auto expect = [](const std::string& op, size_t n, auto f) {
    expect_instruction(op + ".f32", "f32", std::vector<std::string>(n, "f32"), {kFloats32},
                       [=](uint64_t a, uint64_t b, uint64_t c) { return canonical(f(f32(a), f32(b), f32(c))); });
    const size_t rn = op.find(".rn");
    const std::string ftz = (rn == std::string::npos ? op : op.substr(0, rn + 3)) + ".ftz.f32";
    expect_instruction(ftz, "f32", std::vector<std::string>(n, "f32"), {kFloats32},
                       [=](uint64_t a, uint64_t b, uint64_t c) {
                         return canonical(flushed(f(flushed(f32(a)), flushed(f32(b)), flushed(f32(c)))));
                       });
  };
  expect("add", 2, [](float a, float b, float) { return a + b; });
  expect("add.rn", 2, [](float a, float b, float) { return a + b; });
  expect("sub.rn", 2, [](float a, float b, float) { return a - b; });
  expect("mul", 2, [](float a, float b, float) { return a * b; });
  expect("mul.rn", 2, [](float a, float b, float) { return a * b; });
  expect("fma.rn", 3, [](float a, float b, float c) { return std::fma(a, b, c); });
  expect("div.rn", 2, [](float a, float b, float) { return a / b; });
  expect("sqrt.rn", 1, [](float a, float, float) { return std::sqrt(a); });
  expect("rcp.rn", 1, [](float a, float, float) { return 1.0f / a; });
}

TEST(Float, Saturated) {
  const auto clamp = [](float r) { return bits(r > 0 ? std::min(r, 1.0f) : 0.0f); };
  expect_instruction("add.sat.f32", "f32", {"f32", "f32"}, {kFloats32},
                     [=](uint64_t a, uint64_t b, uint64_t) { return clamp(f32(a) + f32(b)); });
  expect_instruction("fma.rn.sat.f32", "f32", {"f32", "f32", "f32"}, {kFloats32},
                     [=](uint64_t a, uint64_t b, uint64_t c) { return clamp(std::fma(f32(a), f32(b), f32(c))); });
}

TEST(Float, Arithmetic64) {
  const auto expect = [](const std::string& op, size_t n, auto f) {
    expect_instruction(
        op + ".f64", "f64", std::vector<std::string>(n, "f64"), {kFloats64},
        [=](uint64_t a, uint64_t b, uint64_t c) { return bits(f(f64(a), f64(b), f64(c))); }, same_f64);
  };
  expect("add.rn", 2, [](double a, double b, double) { return a + b; });
  expect("sub", 2, [](double a, double b, double) { return a - b; });
  expect("mul.rn", 2, [](double a, double b, double) { return a * b; });
  expect("fma.rn", 3, [](double a, double b, double c) { return std::fma(a, b, c); });
  expect("div.rn", 2, [](double a, double b, double) { return a / b; });
  expect("sqrt.rn", 1, [](double a, double, double) { return std::sqrt(a); });
  expect("rcp.rn", 1, [](double a, double, double) { return 1.0 / a; });
}

// The exact sum or product in extended precision, rounded by the host in the mode asked for.
template <typename F>
float rounded_to(int mode, F f) {
  const int before = std::fegetround();
  std::fesetround(mode);
  volatile long double exact = f();
  volatile float r = static_cast<float>(exact);
  std::fesetround(before);
  return r;
}

TEST(Float, DirectedRounding) {
  const std::pair<const char*, int> modes[] = {{"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};
  const std::vector<uint64_t> some = {0x3f800000, 0xbf800000, 0x40490fdb, 0x3eaaaaab, 0xc2c80000,
                                      0x4b7fffff, 0x33800000, 0x3f000001, 0xbf000003};
  for (const auto& [name, mode] : modes) {
    const int m = mode;
    expect_instruction(std::string("mul.") + name + ".f32", "f32", {"f32", "f32"}, {some},
                       [=](uint64_t a, uint64_t b, uint64_t) {
                         return bits(rounded_to(m, [&] { return static_cast<long double>(f32(a)) * f32(b); }));
                       });
    expect_instruction(std::string("add.") + name + ".f32", "f32", {"f32", "f32"}, {some},
                       [=](uint64_t a, uint64_t b, uint64_t) {
                         return bits(rounded_to(m, [&] { return static_cast<long double>(f32(a)) + f32(b); }));
                       });
    expect_instruction(std::string("fma.") + name + ".f32", "f32", {"f32", "f32", "f32"}, {some},
                       [=](uint64_t a, uint64_t b, uint64_t c) {
                         return bits(rounded_to(m, [&] { return static_cast<long double>(f32(a)) * f32(b) + f32(c); }));
                       });
    expect_instruction(std::string("div.") + name + ".f64", "f64", {"f64", "f64"},
                       {{bits(1.0), bits(-7.0)}, {bits(3.0), bits(10.0)}}, [=](uint64_t a, uint64_t b, uint64_t) {
                         const long double q = static_cast<long double>(f64(a)) / f64(b);
                         double r = static_cast<double>(q);
                         const bool too_large = r > q, too_small = r < q;
                         const double inf = HUGE_VAL;
                         if (m == FE_UPWARD && too_small) r = std::nextafter(r, inf);
                         if (m == FE_DOWNWARD && too_large) r = std::nextafter(r, -inf);
                         if (m == FE_TOWARDZERO && std::fabs(r) > std::fabs(q)) r = std::nextafter(r, 0.0);
                         return bits(r);
                       });
  }
}

TEST(Float, MinMax) {
  const auto pick = [](float a, float b, bool max, bool nan) -> uint64_t {
    if (std::isnan(a) || std::isnan(b)) {
      if (nan || (std::isnan(a) && std::isnan(b))) return kCanonical;
      return bits(std::isnan(a) ? b : a);
    }
    if (a == b) return bits((std::signbit(a) != max) ? a : b);  // -0 < +0
    return bits((a < b) != max ? a : b);
  };
  for (const bool max : {false, true}) {
    const std::string op = max ? "max" : "min";
    expect_instruction(op + ".f32", "f32", {"f32", "f32"}, {kFloats32},
                       [=](uint64_t a, uint64_t b, uint64_t) { return pick(f32(a), f32(b), max, false); });
    expect_instruction(op + ".NaN.f32", "f32", {"f32", "f32"}, {kFloats32},
                       [=](uint64_t a, uint64_t b, uint64_t) { return pick(f32(a), f32(b), max, true); });
    expect_instruction(op + ".ftz.f32", "f32", {"f32", "f32"}, {kFloats32}, [=](uint64_t a, uint64_t b, uint64_t) {
      return pick(flushed(f32(a)), flushed(f32(b)), max, false);
    });
    expect_instruction(op + ".xorsign.abs.f32", "f32", {"f32", "f32"}, {kFloats32},
                       [=](uint64_t a, uint64_t b, uint64_t) {
                         const uint64_t r = pick(std::fabs(f32(a)), std::fabs(f32(b)), max, false);
                         return r == kCanonical ? r : r ^ ((a ^ b) & 0x80000000u);
                       });
    expect_instruction(
        op + ".f64", "f64", {"f64", "f64"}, {kFloats64},
        [=](uint64_t x, uint64_t y, uint64_t) {
          const double a = f64(x), b = f64(y);
          if (std::isnan(a)) return y;
          if (std::isnan(b)) return x;
          if (a == b) return std::signbit(a) != max ? x : y;
          return (a < b) != max ? x : y;
        },
        same_f64);
  }
}

// Of a NaN the sign does not change: f32 gives the canonical one, f64 its operand.
TEST(Float, SignOperations) {
  const auto of = [](uint64_t a, uint64_t result) { return std::isnan(f32(a)) ? uint64_t{0x7fffffff} : result; };
  expect_instruction("neg.f32", "f32", {"f32"}, {kFloats32},
                     [=](uint64_t a, uint64_t, uint64_t) { return of(a, a ^ 0x80000000u); });
  expect_instruction("abs.f32", "f32", {"f32"}, {kFloats32},
                     [=](uint64_t a, uint64_t, uint64_t) { return of(a, a & 0x7fffffffu); });
  expect_instruction("neg.f64", "f64", {"f64"}, {kFloats64}, [](uint64_t a, uint64_t, uint64_t) {
    return std::isnan(f64(a)) ? a | 0x8000000000000u : a ^ 0x8000000000000000u;
  });
  expect_instruction("abs.ftz.f32", "f32", {"f32"}, {kFloats32},
                     [=](uint64_t a, uint64_t, uint64_t) { return of(a, bits(std::fabs(flushed(f32(a))))); });
  expect_instruction("copysign.f32", "f32", {"f32", "f32"}, {kFloats32},
                     [](uint64_t a, uint64_t b, uint64_t) { return (a & 0x80000000u) | (b & 0x7fffffffu); });
}

template <typename T>
bool compares(const std::string& op, T a, T b) {
  const bool nan = std::isnan(a) || std::isnan(b);
  if (op == "num") return !nan;
  if (op == "nan") return nan;
  if (op.size() == 3) return nan || compares<T>(op.substr(0, 2), a, b);
  if (nan) return false;
  return op == "eq"   ? a == b
         : op == "ne" ? a != b
         : op == "lt" ? a < b
         : op == "le" ? a <= b
         : op == "gt" ? a > b
                      : a >= b;
}

TEST(Float, Comparisons) {
  for (const std::string op :
       {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}) {
    expect_instruction("setp." + op + ".f32", "pred", {"f32", "f32"}, {kFloats32},
                       [=](uint64_t a, uint64_t b, uint64_t) { return uint64_t{compares(op, f32(a), f32(b))}; });
    expect_instruction(
        "setp." + op + ".ftz.f32", "pred", {"f32", "f32"}, {kFloats32},
        [=](uint64_t a, uint64_t b, uint64_t) { return uint64_t{compares(op, flushed(f32(a)), flushed(f32(b)))}; });
    expect_instruction("setp." + op + ".f64", "pred", {"f64", "f64"}, {kFloats64},
                       [=](uint64_t a, uint64_t b, uint64_t) { return uint64_t{compares(op, f64(a), f64(b))}; });
    expect_instruction(
        "set." + op + ".u32.f32", "u32", {"f32", "f32"}, {kFloats32},
        [=](uint64_t a, uint64_t b, uint64_t) { return compares(op, f32(a), f32(b)) ? 0xffffffffu : 0u; });
  }
}

TEST(Float, TestProperty) {
  const auto expect = [](const std::string& property, auto f) {
    expect_instruction("testp." + property + ".f32", "pred", {"f32"}, {kFloats32},
                       [=](uint64_t a, uint64_t, uint64_t) { return uint64_t{f(f32(a))}; });
  };
  expect("finite", [](float a) { return std::isfinite(a); });
  expect("infinite", [](float a) { return std::isinf(a); });
  expect("number", [](float a) { return !std::isnan(a); });
  expect("notanumber", [](float a) { return std::isnan(a); });
  expect("normal", [](float a) { return std::isnormal(a); });
  expect("subnormal", [](float a) { return std::fpclassify(a) == FP_SUBNORMAL; });
}

// The documented error of each approximation (PTX ISA 9.7.3.13 to 9.7.3.22), relative or absolute.
void expect_approximation(const std::string& op, double relative, double absolute, double (*exact)(double),
                          const std::vector<uint64_t>& inputs) {
  expect_instruction(
      op, "f32", {"f32"}, {inputs},
      [=](uint64_t a, uint64_t, uint64_t) { return bits(static_cast<float>(exact(f32(a)))); },
      [=](uint64_t got, uint64_t expected) {
        const double g = f32(got), e = f32(expected);
        if (std::isnan(e)) return got == kCanonical;
        if (std::isinf(e) || e == 0) return got == expected;
        return std::fabs(g - e) <= std::max(relative * std::fabs(e), absolute) ||
               (std::fabs(e) < 1.2e-38 && std::fabs(g) <= std::fabs(e));
      });
}

TEST(Float, Approximations) {
  std::vector<uint64_t> wide = kFloats32, angles;
  for (int i = -40; i <= 40; ++i) {
    wide.push_back(bits(std::ldexp(1.37f, 3 * i)));
    angles.push_back(bits(0.07f * static_cast<float>(i)));
  }
  const double ulp = 0x1p-23;
  expect_approximation("ex2.approx.f32", 2 * ulp, 0, [](double x) { return std::exp2(x); }, wide);
  expect_approximation("ex2.approx.f32", 2 * ulp, 0, [](double x) { return std::exp2(x); }, angles);
  expect_approximation("lg2.approx.f32", 2 * ulp, 0x1p-22, [](double x) { return std::log2(x); }, wide);
  expect_approximation("rcp.approx.f32", ulp, 0, [](double x) { return 1 / x; }, wide);
  expect_approximation("sqrt.approx.f32", ulp, 0, [](double x) { return std::sqrt(x); }, wide);
  expect_approximation("rsqrt.approx.f32", 0x1p-22, 0, [](double x) { return 1 / std::sqrt(x); }, wide);
  expect_approximation("tanh.approx.f32", 0x1p-11, 0, [](double x) { return std::tanh(x); }, wide);
  expect_approximation("sin.approx.f32", 0, 0x1p-20, [](double x) { return std::sin(x); }, angles);
  expect_approximation("cos.approx.f32", 0, 0x1p-20, [](double x) { return std::cos(x); }, angles);
}

TEST(Float, FlushedExponential) {
  // ex2.approx.ftz: subnormal inputs count as zero, subnormal results become zero.
  expect_instruction("ex2.approx.ftz.f32", "f32", {"f32"}, {{bits(1e-40f), bits(-130.0f), bits(-126.0f), bits(3.0f)}},
                     [](uint64_t a, uint64_t, uint64_t) {
                       const float x = f32(a);
                       return bits(x == -130.0f ? 0.0f : x == 3.0f ? 8.0f : x == -126.0f ? 0x1p-126f : 1.0f);
                     });
}

TEST(Float, ReciprocalSeedOf64) {
  // The upper half of an f64 only: a relative error of about 2^-20, the lower half zero.
  expect_instruction(
      "rcp.approx.ftz.f64", "f64", {"f64"}, {kFloats64},
      [](uint64_t a, uint64_t, uint64_t) {
        const double x = f64(a & ~uint64_t{0xffffffff});
        return bits(1 / (std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0, x) : x));
      },
      [](uint64_t got, uint64_t expected) {
        const double g = f64(got), e = f64(expected);
        if (std::isnan(e)) return std::isnan(g);
        if (std::fabs(e) < 3e-308) return g == 0;
        if (std::isinf(e)) return std::isinf(g);
        return (got & 0xffffffff) == 0 && std::fabs(g - e) <= 0x1p-19 * std::fabs(e);
      });
}

}  // namespace
}  // namespace tilewright::sim
