// libdevice's functions as nvcc 13 inlines them, against the C library in double precision. Tolerances in ulp are those
// of the CUDA programming guide's table of maximum errors, with one ulp for the approximations underneath.
#include <cmath>
#include <limits>

#include "run.h"

namespace tilewright::sim {
namespace {

const Module& libdevice() {
  static const std::shared_ptr<const Module> module = parse(read_data("libdevice_sm90a.ptx"));
  return *module;
}

template <typename T>
std::vector<T> run(const std::string& name, std::vector<T> x, std::vector<T> z = {}) {
  const int n = static_cast<int>(x.size());
  std::vector<T> y(x.size(), T(-1));
  std::vector<Allocation> memory{allocation(x, "x"), allocation(y, "y")};
  std::vector<std::vector<std::byte>> args{pointer(x)};
  if (!z.empty()) {
    memory.push_back(allocation(z, "z"));
    args.push_back(pointer(z));
  }
  args.push_back(pointer(y));
  args.push_back(arg(n));
  launch(libdevice(), name, config_1d(static_cast<uint32_t>(n + 127) / 128, 128), args, memory);
  return y;
}

// The distance between a result and the exact value, in units of the result type's spacing at that value.
template <typename T>
double ulps(T got, long double exact) {
  const T rounded = static_cast<T>(exact);
  if (std::isnan(rounded) || std::isnan(got)) return std::isnan(rounded) && std::isnan(got) ? 0 : 1e9;
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got ? 0 : 1e9;
  int e = 0;
  std::frexp(rounded, &e);
  const int digits = std::numeric_limits<T>::digits;
  const long double spacing = std::ldexp(1.0L, std::max(e, std::numeric_limits<T>::min_exponent) - digits);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) / spacing);
}

template <typename T>
std::vector<T> points(double low, double high, int n = 2000) {
  std::vector<T> v;
  for (int i = 0; i <= n; ++i) v.push_back(static_cast<T>(low + (high - low) * i / n));
  return v;
}

template <typename T>
void with_specials(std::vector<T>& v) {
  const T inf = std::numeric_limits<T>::infinity();
  for (T s : {T(0), -T(0), inf, -inf, std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::min(),
              std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::max(), -std::numeric_limits<T>::max()})
    v.push_back(s);
}

template <typename T, typename F>
void expect_unary(const std::string& name, double low, double high, double limit, F exact) {
  std::vector<T> x = points<T>(low, high);
  with_specials(x);
  const std::vector<T> y = run(name, x);

  for (size_t i = 0; i < x.size(); ++i) {
    const long double e = exact(static_cast<long double>(x[i]));
    const double u = ulps(y[i], e);
    ASSERT_LE(u, limit) << name << "(" << x[i] << ") = " << y[i] << ", exactly " << static_cast<double>(e);
  }
}

using L = long double;

TEST(Libdevice, Float32) {
  expect_unary<float>("exp_f32", -110, 95, 3, [](L a) { return std::exp(a); });
  expect_unary<float>("exp2_f32", -155, 130, 3, [](L a) { return std::exp2(a); });
  expect_unary<float>("expm1_f32", -20, 90, 2, [](L a) { return std::expm1(a); });
  expect_unary<float>("log_f32", 1e-3, 50, 2, [](L a) { return std::log(a); });
  expect_unary<float>("log2_f32", 1e-3, 50, 2, [](L a) { return std::log2(a); });
  expect_unary<float>("log10_f32", 1e-3, 50, 3, [](L a) { return std::log10(a); });
  expect_unary<float>("log1p_f32", -0.9, 20, 2, [](L a) { return std::log1p(a); });
  expect_unary<float>("sin_f32", -300, 300, 2.5, [](L a) { return std::sin(a); });
  expect_unary<float>("cos_f32", -300, 300, 2.5, [](L a) { return std::cos(a); });
  expect_unary<float>("tan_f32", -300, 300, 4.5, [](L a) { return std::tan(a); });
  expect_unary<float>("tanh_f32", -12, 12, 3, [](L a) { return std::tanh(a); });
  expect_unary<float>("sinh_f32", -92, 92, 4, [](L a) { return std::sinh(a); });
  expect_unary<float>("cosh_f32", -92, 92, 3, [](L a) { return std::cosh(a); });
  expect_unary<float>("erf_f32", -5, 5, 2.5, [](L a) { return std::erf(a); });
  expect_unary<float>("erfc_f32", -4, 11, 5, [](L a) { return std::erfc(a); });
  expect_unary<float>("atan_f32", -30, 30, 2.5, [](L a) { return std::atan(a); });
  expect_unary<float>("asin_f32", -1.1, 1.1, 3, [](L a) { return std::asin(a); });
  expect_unary<float>("acos_f32", -1.1, 1.1, 3, [](L a) { return std::acos(a); });
  expect_unary<float>("asinh_f32", -40, 40, 4, [](L a) { return std::asinh(a); });
  expect_unary<float>("acosh_f32", 0.5, 40, 5, [](L a) { return std::acosh(a); });
  expect_unary<float>("atanh_f32", -1.1, 1.1, 4, [](L a) { return std::atanh(a); });
  expect_unary<float>("cbrt_f32", -30, 30, 2, [](L a) { return std::cbrt(a); });
  expect_unary<float>("rsqrt_f32", 1e-3, 30, 3, [](L a) { return 1 / std::sqrt(a); });
  expect_unary<float>("lgamma_f32", 0.1, 30, 10, [](L a) { return std::lgamma(a); });
  expect_unary<float>("tgamma_f32", 0.1, 30, 6, [](L a) { return std::tgamma(a); });
}

TEST(Libdevice, Float32Exact) {
  expect_unary<float>("sqrt_f32", -1, 30, 0.5, [](L a) { return std::sqrt(a); });
  expect_unary<float>("round_f32", -30, 30, 0, [](L a) { return std::round(a); });
  expect_unary<float>("rint_f32", -30, 30, 0, [](L a) { return std::rint(a); });
}

// Large arguments take the Payne-Hanek path with its constant table and local memory.
TEST(Libdevice, SineOfLargeArguments) {
  expect_unary<float>("sin_f32", 1e5, 1e30, 2.5, [](L a) { return std::sin(a); });
  expect_unary<double>("sin_f64", 1e9, 1e17, 3, [](L a) { return std::sin(a); });
  expect_unary<double>("cos_f64", -1e17, -1e9, 3, [](L a) { return std::cos(a); });
}

TEST(Libdevice, Float64) {
  expect_unary<double>("exp_f64", -750, 710, 2, [](L a) { return std::exp(a); });
  expect_unary<double>("expm1_f64", -40, 700, 2, [](L a) { return std::expm1(a); });
  expect_unary<double>("log_f64", 1e-5, 50, 2, [](L a) { return std::log(a); });
  expect_unary<double>("log1p_f64", -0.9, 20, 2, [](L a) { return std::log1p(a); });
  expect_unary<double>("sin_f64", -300, 300, 3, [](L a) { return std::sin(a); });
  expect_unary<double>("cos_f64", -300, 300, 3, [](L a) { return std::cos(a); });
  expect_unary<double>("tan_f64", -300, 300, 3, [](L a) { return std::tan(a); });
  expect_unary<double>("tanh_f64", -25, 25, 3, [](L a) { return std::tanh(a); });
  expect_unary<double>("erf_f64", -7, 7, 3, [](L a) { return std::erf(a); });
  expect_unary<double>("atan_f64", -30, 30, 3, [](L a) { return std::atan(a); });
  expect_unary<double>("cbrt_f64", -30, 30, 2, [](L a) { return std::cbrt(a); });
  expect_unary<double>("rsqrt_f64", 1e-3, 30, 2, [](L a) { return 1 / std::sqrt(a); });
  expect_unary<double>("sqrt_f64", -1, 30, 0.5, [](L a) { return std::sqrt(a); });
  expect_unary<double>("recip_f64", -30, 30, 0.5, [](L a) { return 1 / a; });
  expect_unary<double>("lgamma_f64", 0.1, 100, 8, [](L a) { return std::lgamma(a); });
}

template <typename T, typename F>
void expect_binary(const std::string& name, double limit, F exact) {
  std::vector<T> some = points<T>(-20, 20, 24), x, z;
  with_specials(some);
  for (T a : some)
    for (T b : some) {
      x.push_back(a);
      z.push_back(b);
    }
  const std::vector<T> y = run(name, x, z);
  for (size_t i = 0; i < x.size(); ++i) {
    const L e = exact(static_cast<L>(x[i]), static_cast<L>(z[i]));
    ASSERT_LE(ulps(y[i], e), limit) << name << "(" << x[i] << ", " << z[i] << ") = " << y[i] << ", exactly "
                                    << static_cast<double>(e);
  }
}

TEST(Libdevice, TwoArguments) {
  expect_binary<float>("pow_f32", 5, [](L a, L b) { return std::pow(a, b); });
  expect_binary<float>("atan2_f32", 4, [](L a, L b) { return std::atan2(a, b); });
  expect_binary<float>("fmod_f32", 0, [](L a, L b) { return std::fmod(a, b); });
  expect_binary<float>("div_f32", 0.5, [](L a, L b) { return a / b; });
  expect_binary<float>("hypot_f32", 3.5, [](L a, L b) { return std::hypot(a, b); });
  expect_binary<float>("remainder_f32", 0, [](L a, L b) { return std::remainder(a, b); });
  expect_binary<double>("pow_f64", 2.5, [](L a, L b) { return std::pow(a, b); });
  expect_binary<double>("atan2_f64", 3, [](L a, L b) { return std::atan2(a, b); });
  expect_binary<double>("fmod_f64", 0, [](L a, L b) { return std::fmod(a, b); });
  expect_binary<double>("div_f64", 0.5001, [](L a, L b) { return a / b; });
}

}  // namespace
}  // namespace tilewright::sim
