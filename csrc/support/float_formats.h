#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tilewright {

// The small floating-point formats, as values: rounding (to nearest, ties to even) and bits.
struct FloatFormat {
  int mantissa_bits;
  int exponent_bits;
  double max;  // greatest finite value
  // Without infinities an overflow gives NaN, and only the bits with all ones are NaN (f8e4m3).
  bool has_infinity;

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr int min_exponent() const { return 1 - bias(); }
  constexpr int width() const { return 1 + exponent_bits + mantissa_bits; }
};

inline constexpr FloatFormat kHalf{10, 5, 65504.0, true};
inline constexpr FloatFormat kBFloat16{7, 8, 3.3895313892515355e38, true};
inline constexpr FloatFormat kFloat8E4M3{3, 4, 448.0, false};
inline constexpr FloatFormat kFloat8E5M2{2, 5, 57344.0, true};

// The nearest value of the format.
inline double rounded(double value, const FloatFormat& format) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
  if (exponent == 1024) {  // infinity or NaN
    return std::isinf(value) && !format.has_infinity ? std::numeric_limits<double>::quiet_NaN() : value;
  }
  const int unit = (exponent < format.min_exponent() ? format.min_exponent() : exponent) - format.mantissa_bits;
  // Adding 1.5 * 2^(unit + 52) leaves no bits below 2^unit; the addition rounds them away, ties to even.
  const double magic = std::bit_cast<double>((static_cast<uint64_t>(unit + 52 + 1023) << 52) | (uint64_t{1} << 51));
  const double result = std::copysign((value + magic) - magic, value);
  if (std::fabs(result) <= format.max) return result;
  return format.has_infinity ? std::copysign(std::numeric_limits<double>::infinity(), value)
                             : std::numeric_limits<double>::quiet_NaN();
}

// The bits of a value that the format has exactly.
inline uint16_t encode(double value, const FloatFormat& format) {
  const int sign_shift = format.exponent_bits + format.mantissa_bits;
  const auto sign = static_cast<uint16_t>((std::signbit(value) ? 1U : 0U) << sign_shift);
  const unsigned ones = (1U << sign_shift) - 1;
  if (std::isnan(value)) {
    return static_cast<uint16_t>(format.has_infinity ? ones & ~((1U << (format.mantissa_bits - 1)) - 1) : ones) | sign;
  }
  if (std::isinf(value)) return static_cast<uint16_t>(ones & ~((1U << format.mantissa_bits) - 1)) | sign;
  if (value == 0) return sign;
  const int exponent = std::ilogb(value);
  if (exponent < format.min_exponent()) {
    const double fraction = std::ldexp(std::fabs(value), format.mantissa_bits - format.min_exponent());
    return static_cast<uint16_t>(static_cast<unsigned>(fraction)) | sign;
  }
  const double fraction = std::ldexp(std::fabs(value), format.mantissa_bits - exponent);
  const unsigned mantissa = static_cast<unsigned>(fraction) & ((1U << format.mantissa_bits) - 1);
  const auto biased = static_cast<unsigned>(exponent + format.bias());
  return static_cast<uint16_t>(biased << format.mantissa_bits | mantissa) | sign;
}

inline double decode(uint16_t bits, const FloatFormat& format) {
  const int sign_shift = format.exponent_bits + format.mantissa_bits;
  const bool negative = (bits >> sign_shift) & 1;
  const unsigned mantissa = bits & ((1U << format.mantissa_bits) - 1);
  const unsigned biased = (bits >> format.mantissa_bits) & ((1U << format.exponent_bits) - 1);
  const unsigned top = (1U << format.exponent_bits) - 1;
  double value = 0;
  if (biased == top && format.has_infinity) {
    value = mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (biased == top && mantissa == (1U << format.mantissa_bits) - 1) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (biased == 0) {
    value = std::ldexp(mantissa, format.min_exponent() - format.mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1U << format.mantissa_bits),
                       static_cast<int>(biased) - format.bias() - format.mantissa_bits);
  }
  return negative ? -value : value;
}

}  // namespace tilewright
