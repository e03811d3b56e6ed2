// Pointwise operators. T is the compute type: double for exact and for f64, float for the narrower floats in eager
// mode.
#include <cmath>
#include <limits>
#include <type_traits>

#include "ir/interp_ops.h"
#include "support/float_formats.h"

namespace tilewright {
namespace {

template <typename T>
using Unary = T (*)(T);
template <typename T>
using Binary = T (*)(T, T);
using IntUnary = int64_t (*)(int64_t);
using IntBinary = int64_t (*)(int64_t, int64_t, DType);

// Winitzki's approximation of the inverse error function, then Halley's steps in double.
double erfinv(double y) {
  const double magnitude = std::fabs(y);
  if (std::isnan(y) || magnitude > 1) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == 1) return std::copysign(HUGE_VAL, y);
  if (y == 0) return y;
  constexpr double kA = 0.147;
  const double log = std::log1p(-y * y);
  const double term = 2 / (M_PI * kA) + log / 2;
  double x = std::sqrt(std::sqrt(term * term - log / kA) - term);
  for (int i = 0; i < 8; ++i) {
    const double error = magnitude > 0.5 ? (1 - magnitude) - std::erfc(x) : std::erf(x) - magnitude;
    const double step = error / (2 / std::sqrt(M_PI) * std::exp(-x * x));
    x -= step / (1 + x * step);
  }
  return std::copysign(x, y);
}

template <typename T>
T lgamma_of(T x) {
  return std::lgamma(x);
}

template <typename T>
T max_of(T a, T b) {  // NaN wins, +0 is above -0
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  if (a == 0 && b == 0) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

template <typename T>
T min_of(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

template <typename T>
T mod_of(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

// Python's floor division of floats, as PyTorch computes it: exact multiples first, so that rounding of a / b cannot
// lift a quotient over an integer.
template <typename T>
T floor_div_of(T a, T b) {
  if (b == 0) return a / b;
  const T rest = std::fmod(a, b);
  T quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(T(0), a / b);
  const T floor = std::floor(quotient);
  return quotient - floor > T(0.5) ? floor + 1 : floor;
}

template <typename T>
Unary<T> float_unary(Op op) {
  switch (op) {
    case Op::kCopy:
      return [](T x) { return x; };
    case Op::kNeg:
      return [](T x) { return -x; };
    case Op::kAbs:
      return [](T x) { return std::fabs(x); };
    case Op::kSign:
      return [](T x) { return static_cast<T>((T(0) < x) - (x < T(0))); };
    case Op::kCeil:
      return [](T x) { return std::ceil(x); };
    case Op::kFloor:
      return [](T x) { return std::floor(x); };
    case Op::kRound:
      return [](T x) { return std::nearbyint(x); };
    case Op::kTrunc:
      return [](T x) { return std::trunc(x); };
    case Op::kReciprocal:
      return [](T x) { return T(1) / x; };
    case Op::kSqrt:
      return [](T x) { return std::sqrt(x); };
    case Op::kRsqrt:
      return [](T x) { return T(1) / std::sqrt(x); };
    case Op::kExp:
      return [](T x) { return std::exp(x); };
    case Op::kExp2:
      return [](T x) { return std::exp2(x); };
    case Op::kExpm1:
      return [](T x) { return std::expm1(x); };
    case Op::kLog:
      return [](T x) { return std::log(x); };
    case Op::kLog2:
      return [](T x) { return std::log2(x); };
    case Op::kLog10:
      return [](T x) { return std::log10(x); };
    case Op::kLog1p:
      return [](T x) { return std::log1p(x); };
    case Op::kSin:
      return [](T x) { return std::sin(x); };
    case Op::kCos:
      return [](T x) { return std::cos(x); };
    case Op::kTan:
      return [](T x) { return std::tan(x); };
    case Op::kAsin:
      return [](T x) { return std::asin(x); };
    case Op::kAcos:
      return [](T x) { return std::acos(x); };
    case Op::kAtan:
      return [](T x) { return std::atan(x); };
    case Op::kSinh:
      return [](T x) { return std::sinh(x); };
    case Op::kCosh:
      return [](T x) { return std::cosh(x); };
    case Op::kTanh:
      return [](T x) { return std::tanh(x); };
    case Op::kAsinh:
      return [](T x) { return std::asinh(x); };
    case Op::kAcosh:
      return [](T x) { return std::acosh(x); };
    case Op::kAtanh:
      return [](T x) { return std::atanh(x); };
    case Op::kErf:
      return [](T x) { return std::erf(x); };
    case Op::kErfc:
      return [](T x) { return std::erfc(x); };
    case Op::kErfinv:
      return [](T x) { return static_cast<T>(erfinv(x)); };
    case Op::kLgamma:
      return [](T x) { return lgamma_of(x); };
    case Op::kSigmoid:
      return [](T x) { return T(1) / (T(1) + std::exp(-x)); };
    default:
      return nullptr;
  }
}

template <typename T>
Binary<T> float_binary(Op op) {
  switch (op) {
    case Op::kAdd:
      return [](T a, T b) { return a + b; };
    case Op::kSub:
      return [](T a, T b) { return a - b; };
    case Op::kMul:
      return [](T a, T b) { return a * b; };
    case Op::kDiv:
      return [](T a, T b) { return a / b; };
    case Op::kFloorDiv:
      return [](T a, T b) { return floor_div_of(a, b); };
    case Op::kMod:
      return [](T a, T b) { return mod_of(a, b); };
    case Op::kFmod:
      return [](T a, T b) { return std::fmod(a, b); };
    case Op::kPow:
      return [](T a, T b) { return std::pow(a, b); };
    case Op::kAtan2:
      return [](T a, T b) { return std::atan2(a, b); };
    case Op::kHypot:
      return [](T a, T b) { return std::hypot(a, b); };
    case Op::kCopysign:
      return [](T a, T b) { return std::copysign(a, b); };
    case Op::kMaximum:
      return [](T a, T b) { return max_of(a, b); };
    case Op::kMinimum:
      return [](T a, T b) { return min_of(a, b); };
    case Op::kFmax:
      return [](T a, T b) { return std::isnan(a) ? b : std::isnan(b) ? a : max_of(a, b); };
    case Op::kFmin:
      return [](T a, T b) { return std::isnan(a) ? b : std::isnan(b) ? a : min_of(a, b); };
    default:
      return nullptr;
  }
}

int64_t wrap(uint64_t x) { return static_cast<int64_t>(x); }

IntUnary int_unary(Op op) {
  switch (op) {
    case Op::kCopy:
      return [](int64_t x) { return x; };
    case Op::kNeg:
      return [](int64_t x) { return wrap(0 - static_cast<uint64_t>(x)); };
    case Op::kAbs:
      return [](int64_t x) { return x < 0 ? wrap(0 - static_cast<uint64_t>(x)) : x; };
    case Op::kSign:
      return [](int64_t x) { return static_cast<int64_t>((x > 0) - (x < 0)); };
    case Op::kNot:
      return [](int64_t x) { return ~x; };
    default:
      return nullptr;
  }
}

int64_t quotient_of(int64_t a, int64_t b) {
  if (b == 0) return -1;
  return b == -1 ? wrap(0 - static_cast<uint64_t>(a)) : a / b;
}

int64_t remainder_of(int64_t a, int64_t b) {
  if (b == 0) return a;
  return b == -1 ? 0 : a % b;
}

int64_t floor_quotient_of(int64_t a, int64_t b) {
  const bool inexact = (a < 0) != (b < 0) && remainder_of(a, b) != 0;
  return quotient_of(a, b) - (inexact ? 1 : 0);
}

int64_t floor_remainder_of(int64_t a, int64_t b) {
  const int64_t rest = remainder_of(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

int64_t int_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1;
  for (auto square = static_cast<uint64_t>(base); exponent > 0; exponent >>= 1, square *= square) {
    if (exponent & 1) result *= square;
  }
  return wrap(result);
}

int64_t shift_left(int64_t a, int64_t by, DType dtype) {
  return by < 0 || by >= 8 * bytes(dtype) ? 0 : wrap(static_cast<uint64_t>(a) << by);
}

int64_t shift_right(int64_t a, int64_t by, DType dtype) {
  return by < 0 || by >= 8 * bytes(dtype) ? (a < 0 ? -1 : 0) : a >> by;
}

// On elements widened to 64 bits; the caller wraps the result to its type. For bool add is `or`, mul is `and`.
IntBinary int_binary(Op op, DType dtype) {
  if (dtype == DType::kBool && op == Op::kAdd) op = Op::kOr;
  switch (op) {
    case Op::kAdd:
      return [](int64_t a, int64_t b, DType) { return wrap(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); };
    case Op::kSub:
      return [](int64_t a, int64_t b, DType) { return wrap(static_cast<uint64_t>(a) - static_cast<uint64_t>(b)); };
    case Op::kMul:
      return [](int64_t a, int64_t b, DType) { return wrap(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); };
    case Op::kDiv:
      return [](int64_t a, int64_t b, DType) { return quotient_of(a, b); };
    case Op::kFloorDiv:
      return [](int64_t a, int64_t b, DType) { return floor_quotient_of(a, b); };
    case Op::kMod:
      return [](int64_t a, int64_t b, DType) { return floor_remainder_of(a, b); };
    case Op::kFmod:
      return [](int64_t a, int64_t b, DType) { return remainder_of(a, b); };
    case Op::kPow:
      return [](int64_t a, int64_t b, DType) { return int_power(a, b); };
    case Op::kMaximum:
    case Op::kFmax:
      return [](int64_t a, int64_t b, DType) { return a > b ? a : b; };
    case Op::kMinimum:
    case Op::kFmin:
      return [](int64_t a, int64_t b, DType) { return a < b ? a : b; };
    case Op::kAnd:
      return [](int64_t a, int64_t b, DType) { return a & b; };
    case Op::kOr:
      return [](int64_t a, int64_t b, DType) { return a | b; };
    case Op::kXor:
      return [](int64_t a, int64_t b, DType) { return a ^ b; };
    case Op::kShl:
      return shift_left;
    case Op::kShr:
      return shift_right;
    default:
      return nullptr;
  }
}

template <typename T>
bool compares(Op op, T a, T b) {
  switch (op) {
    case Op::kEq:
      return a == b;
    case Op::kNe:
      return a != b;
    case Op::kLt:
      return a < b;
    case Op::kLe:
      return a <= b;
    case Op::kGt:
      return a > b;
    default:
      return a >= b;
  }
}

bool float_test(Op op, double x) {
  return op == Op::kIsNan ? std::isnan(x) : op == Op::kIsInf ? std::isinf(x) : std::signbit(x);
}

// The neighbour of a towards b among the values of the type.
double neighbour(DType dtype, double a, double b) {
  if (dtype == DType::kF64) return std::nextafter(a, b);
  if (dtype == DType::kF32) return std::nextafter(static_cast<float>(a), static_cast<float>(b));
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return b;
  if (a == 0) return std::copysign(float_of_bits(dtype, 1), b);
  const bool grows = (a < b) == (a > 0);
  return float_of_bits(dtype, element_bits(dtype, a) + (grows ? 1 : -1));
}

// An operand read at every element; rank 0 is the same element each time.
template <typename Element>
struct Operand {
  const Element* data;
  size_t step;
  const Element& operator[](size_t i) const { return data[i * step]; }
};

class Pointwise {
 public:
  Pointwise(const Node& node, const std::vector<const HostTensor*>& operands, const Sizes& shape, InterpMode mode)
      : op_(node.op), operands_(operands), mode_(mode), out_(node.type().dtype, shape) {}

  HostTensor run() {
    const DType dtype = operands_.back()->dtype;
    const bool of_floats = operands_.back()->is_float();
    if (op_ == Op::kWhere) {
      where();
    } else if (!of_floats) {
      integers(dtype);
    } else if (!out_.is_float()) {
      tests();
    } else if (op_ == Op::kNextafter) {
      fill([&, a = floats(0), b = floats(1)](size_t i) { return neighbour(dtype, a[i], b[i]); });
    } else if (mode_ == InterpMode::kExact || dtype == DType::kF64) {
      arithmetic<double>();
    } else {
      arithmetic<float>();
      if (dtype != DType::kF32) {
        for (double& x : out_.floats) x = round_to(dtype, x);
      }
    }
    return std::move(out_);
  }

 private:
  Operand<double> floats(size_t i) const {
    return {operands_[i]->floats.data(), operands_[i]->shape.empty() ? size_t{0} : size_t{1}};
  }
  Operand<int64_t> ints(size_t i) const {
    return {operands_[i]->ints.data(), operands_[i]->shape.empty() ? size_t{0} : size_t{1}};
  }

  template <typename F>
  void fill(const F& f) {
    for (size_t i = 0; i < out_.floats.size(); ++i) out_.floats[i] = f(i);
  }
  template <typename F>
  void fill_ints(const F& f) {
    for (size_t i = 0; i < out_.ints.size(); ++i) out_.ints[i] = f(i);
  }

  // A computed NaN is positive, as the GPU's; the host's is not. Operators that only move or change a sign keep it.
  template <typename F>
  void fill_computed(const F& f) {
    const bool keeps = op_ == Op::kCopy || op_ == Op::kNeg || op_ == Op::kAbs || op_ == Op::kCopysign;
    fill([&](size_t i) -> double {
      const double x = f(i);
      return std::isnan(x) && !keeps ? std::numeric_limits<double>::quiet_NaN() : x;
    });
  }

  template <typename T>
  void arithmetic() {
    const auto a = floats(0);
    if (operands_.size() == 1) {
      const Unary<T> f = float_unary<T>(op_);
      TW_CHECK(f) << "interpreter: " << info(op_).text << " of floats";
      return fill_computed([&](size_t i) { return f(static_cast<T>(a[i])); });
    }
    const auto b = floats(1);
    if (op_ == Op::kFma) {
      const auto c = floats(2);
      return fill_computed(
          [&](size_t i) { return std::fma(static_cast<T>(a[i]), static_cast<T>(b[i]), static_cast<T>(c[i])); });
    }
    const Binary<T> f = float_binary<T>(op_);
    TW_CHECK(f) << "interpreter: " << info(op_).text << " of floats";
    fill_computed([&](size_t i) { return f(static_cast<T>(a[i]), static_cast<T>(b[i])); });
  }

  void tests() {
    const auto a = floats(0);
    if (operands_.size() == 1) return fill_ints([&](size_t i) { return float_test(op_, a[i]); });
    fill_ints([&, b = floats(1)](size_t i) { return compares(op_, a[i], b[i]); });
  }

  void integers(DType dtype) {
    const auto a = ints(0);
    const Rule rule = info(op_).rule;
    if (rule == Rule::kCompare) return fill_ints([&, b = ints(1)](size_t i) { return compares(op_, a[i], b[i]); });
    if (operands_.size() == 1) {
      if (op_ == Op::kNot && dtype == DType::kBool) return fill_ints([&](size_t i) { return a[i] == 0; });
      const IntUnary f = int_unary(op_);
      TW_CHECK(f) << "interpreter: " << info(op_).text << " of " << dtype;
      return fill_ints([&](size_t i) { return wrapped(dtype, f(a[i])); });
    }
    if (op_ == Op::kFma) {
      return fill_ints([&, b = ints(1), c = ints(2)](size_t i) {
        const uint64_t product = static_cast<uint64_t>(a[i]) * static_cast<uint64_t>(b[i]);
        return wrapped(dtype, wrap(product + static_cast<uint64_t>(c[i])));
      });
    }
    const IntBinary f = int_binary(op_, dtype);
    TW_CHECK(f) << "interpreter: " << info(op_).text << " of " << dtype;
    fill_ints([&, b = ints(1)](size_t i) { return wrapped(dtype, f(a[i], b[i], dtype)); });
  }

  void where() {
    const auto condition = ints(0);
    if (out_.is_float())
      fill([&, a = floats(1), b = floats(2)](size_t i) { return condition[i] ? a[i] : b[i]; });
    else
      fill_ints([&, a = ints(1), b = ints(2)](size_t i) { return condition[i] ? a[i] : b[i]; });
  }

  Op op_;
  const std::vector<const HostTensor*>& operands_;
  InterpMode mode_;
  HostTensor out_;
};

// Towards zero; beyond the range the nearest limit. NaN gives 0 from float32 to int32, else the lowest value: what the
// hardware's conversions do.
int64_t saturated(double x, bool wide, bool from_double) {
  if (std::isnan(x)) return wide ? INT64_MIN : from_double ? INT32_MIN : 0;
  if (wide) {
    if (x >= 0x1p63) return INT64_MAX;
    return x < -0x1p63 ? INT64_MIN : static_cast<int64_t>(x);
  }
  if (x >= 0x1p31) return INT32_MAX;
  return x < -0x1p31 ? INT32_MIN : static_cast<int64_t>(x);
}

}  // namespace

HostTensor interp_pointwise(const Node& node, const std::vector<const HostTensor*>& operands, const Sizes& shape,
                            InterpMode mode) {
  if (node.op == Op::kCast) return interp_cast(*operands[0], node.attr_dtype("to"), mode);
  if (node.op != Op::kBitcast) return Pointwise(node, operands, shape, mode).run();
  const HostTensor& from = *operands[0];
  HostTensor out(node.attr_dtype("to"), shape);
  for (size_t i = 0; i < static_cast<size_t>(out.numel()); ++i) {
    const uint64_t bits =
        from.is_float() ? element_bits(from.dtype, from.floats[i]) : element_bits(from.dtype, from.ints[i]);
    if (out.is_float())
      out.floats[i] = float_of_bits(out.dtype, bits);
    else
      out.ints[i] = int_of_bits(out.dtype, bits);
  }
  return out;
}

HostTensor interp_cast(const HostTensor& from, DType to, InterpMode mode) {
  HostTensor out(to, from.shape);
  const auto count = static_cast<size_t>(out.numel());
  if (from.is_float() && out.is_float()) {
    out.floats = from.floats;
  } else if (out.is_float()) {
    for (size_t i = 0; i < count; ++i) out.floats[i] = static_cast<double>(from.ints[i]);
  } else if (!from.is_float()) {
    for (size_t i = 0; i < count; ++i) out.ints[i] = wrapped(to, from.ints[i]);
  } else if (to == DType::kBool) {
    for (size_t i = 0; i < count; ++i) out.ints[i] = from.floats[i] != 0;
  } else {
    // Narrow integers come out of a conversion to 32 bits, u8 out of one to 64 bits, as PyTorch's kernels convert.
    const bool wide = to == DType::kI64 || to == DType::kU8;
    for (size_t i = 0; i < count; ++i) {
      out.ints[i] = wrapped(to, saturated(from.floats[i], wide, from.dtype == DType::kF64));
    }
  }
  if (out.is_float() && mode == InterpMode::kEager && to != DType::kF64) {
    // Narrow floats come out of float32.
    for (double& x : out.floats) x = round_to(to, static_cast<float>(x));
  }
  return out;
}

}  // namespace tilewright
