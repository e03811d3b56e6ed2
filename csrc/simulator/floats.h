#pragma once

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>

// Number formats and roundings, written so that loops over them vectorise.
namespace tilewright::sim {

#define TW_SIM_INLINE inline __attribute__((always_inline))

// Results that are NaN are canonical in PTX.
inline constexpr uint32_t kNaN32 = 0x7fffffffu;
inline constexpr uint16_t kNaN16 = 0x7fffu;

TW_SIM_INLINE float canonical(float r) { return r != r ? std::bit_cast<float>(kNaN32) : r; }
// f64 operations keep NaN payloads, in hardware as on the host.
TW_SIM_INLINE double canonical(double r) { return r; }

TW_SIM_INLINE float flush(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}

TW_SIM_INLINE float f16_to_float(uint16_t h) {
  const uint32_t magnitude = static_cast<uint32_t>(h & 0x7fff) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;  // also right for subnormals
  const uint32_t special = magnitude | 0x7f800000u;
  const uint32_t bits = (h & 0x7c00) == 0x7c00 ? special : std::bit_cast<uint32_t>(scaled);
  return std::bit_cast<float>(bits | static_cast<uint32_t>(h & 0x8000) << 16);
}

TW_SIM_INLINE uint16_t float_to_f16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffffu;
  // Below 2^-14 adding 0.5 leaves the rounded subnormal in the low bits.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1)) >> 13;
  const uint32_t finite = magnitude < 0x38800000u ? small : normal;
  const uint32_t large = magnitude >= 0x47800000u ? 0x7c00u : finite;
  return static_cast<uint16_t>(magnitude > 0x7f800000u ? kNaN16 : large | sign);
}

TW_SIM_INLINE float bf16_to_float(uint16_t h) { return std::bit_cast<float>(static_cast<uint32_t>(h) << 16); }

TW_SIM_INLINE uint16_t float_to_bf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? kNaN16 : rounded);
}

// p + c rounded to odd in double: rounding it again to a much narrower format is then correct.
TW_SIM_INLINE double add_to_odd(double p, double c) {
  const double s = p + c;
  const double t = s - p;
  const double error = (p - (s - t)) + (c - t);
  const uint64_t bits = std::bit_cast<uint64_t>(s);
  const bool up = (error > 0) == (s > 0);  // away from zero
  const uint64_t odd = (bits & 1) ? bits : up ? bits + 1 : bits - 1;
  const bool inexact = error != 0 && std::fabs(s) <= DBL_MAX;
  return std::bit_cast<double>(inexact ? odd : bits);
}

// A double rounded to odd in float, for a further rounding to 16 bits.
TW_SIM_INLINE float double_to_odd_float(double s) {
  const float f = static_cast<float>(s);
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const bool below = std::fabs(static_cast<double>(f)) < std::fabs(s);
  const uint32_t odd = (bits & 1) ? bits : below ? bits + 1 : bits - 1;
  const bool inexact = static_cast<double>(f) != s && (bits & 0x7fffffffu) < 0x7f800000u && s == s;
  return std::bit_cast<float>(inexact ? odd : bits);
}

// A binary format for encode(): exponent and mantissa bits; finite formats have no infinity (e4m3).
struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity = true;
};
inline constexpr Format kF16Format{5, 10}, kBF16Format{8, 7}, kF32Format{8, 23}, kF64Format{11, 52}, kE5M2Format{5, 2},
    kE4M3Format{4, 3, false}, kTF32Format{8, 10};

// mantissa * 2^exponent with a sign, rounded to a format (mode: Rounding). `sticky` tells of further bits below.
uint64_t encode(bool negative, uint64_t mantissa, int exponent, bool sticky, Format format, int mode, bool saturate);
uint64_t encode_double(double x, Format format, int mode, bool saturate = false);
double decode_small(uint32_t bits, Format format);  // of e4m3, e5m2

// 2^x for |x| <= 400 with a relative error of about 1e-15.
TW_SIM_INLINE double exp2_double(double x) {
  constexpr double kMagic = 0x1.8p52;
  const double shifted = x + kMagic;
  const double t = (x - (shifted - kMagic)) * 0.693147180559945309417;
  double p = 1.0 / 6227020800.0;
  p = p * t + 1.0 / 479001600.0;
  p = p * t + 1.0 / 39916800.0;
  p = p * t + 1.0 / 3628800.0;
  p = p * t + 1.0 / 362880.0;
  p = p * t + 1.0 / 40320.0;
  p = p * t + 1.0 / 5040.0;
  p = p * t + 1.0 / 720.0;
  p = p * t + 1.0 / 120.0;
  p = p * t + 1.0 / 24.0;
  p = p * t + 1.0 / 6.0;
  p = p * t + 0.5;
  p = p * t + 1.0;
  p = p * t + 1.0;
  const uint64_t scale = (std::bit_cast<uint64_t>(shifted) << 52) + std::bit_cast<uint64_t>(1.0);
  return p * std::bit_cast<double>(scale);
}

TW_SIM_INLINE float exp2_approx(float x) {
  const double clamped = x < -200.0f ? -200.0 : x > 200.0f ? 200.0 : static_cast<double>(x);
  const float r = static_cast<float>(exp2_double(clamped));
  return x != x ? std::bit_cast<float>(kNaN32) : r;
}

}  // namespace tilewright::sim
