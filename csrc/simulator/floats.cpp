#include "simulator/floats.h"

#include "simulator/machine.h"

namespace tilewright::sim {
namespace {

// Whether rounding drops `rest` of `half * 2` upward in magnitude.
bool rounds_up(bool negative, bool odd, int below_half, bool inexact, int mode) {
  // below_half: -1 below, 0 at, 1 above the middle.
  switch (mode) {
    case kNearest:
      return below_half > 0 || (below_half == 0 && odd);
    case kNearestAway:
      return below_half >= 0;
    case kTowardZero:
      return false;
    case kDown:
      return negative && inexact;
    default:
      return !negative && inexact;
  }
}

uint64_t overflowed(bool negative, Format f, int mode, bool saturate) {
  const uint64_t sign = static_cast<uint64_t>(negative) << (f.exponent_bits + f.mantissa_bits);
  const uint64_t infinity = ((uint64_t{1} << f.exponent_bits) - 1) << f.mantissa_bits;
  const uint64_t largest = f.has_infinity ? infinity - 1 : (infinity | ((uint64_t{1} << f.mantissa_bits) - 1)) - 1;
  const bool to_infinity =
      mode == kNearest || mode == kNearestAway || (mode == kDown && negative) || (mode == kUp && !negative);
  return sign | (saturate || !to_infinity || !f.has_infinity ? largest : infinity);
}

}  // namespace

uint64_t encode(bool negative, uint64_t mantissa, int exponent, bool sticky, Format f, int mode, bool saturate) {
  const uint64_t sign = static_cast<uint64_t>(negative) << (f.exponent_bits + f.mantissa_bits);
  if (mantissa == 0) return sign;
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const int width = 64 - std::countl_zero(mantissa);
  const int top = exponent + width - 1;  // the value is in [2^top, 2^(top+1))
  // Bits below the last one kept.
  int drop = width - 1 - f.mantissa_bits;
  if (top < 1 - bias) drop += 1 - bias - top;
  uint64_t kept;
  int where = -1;
  bool inexact = sticky;
  if (drop <= 0) {
    kept = mantissa << -drop;
  } else if (drop > 64) {
    kept = 0;
    inexact = true;
  } else {
    kept = drop == 64 ? 0 : mantissa >> drop;
    const uint64_t rest = drop == 64 ? mantissa : mantissa & ((uint64_t{1} << drop) - 1);
    const uint64_t half = uint64_t{1} << (drop - 1);
    where = rest > half || (rest == half && sticky) ? 1 : rest == half ? 0 : -1;
    inexact = rest != 0 || sticky;
  }
  if (rounds_up(negative, kept & 1, where, inexact, mode)) ++kept;
  // A subnormal result has exponent field 0; a carry into the field is what rounding up to a normal should do.
  const int field = top < 1 - bias ? 0 : top + bias;
  const uint64_t hidden = uint64_t{1} << f.mantissa_bits;
  const uint64_t magnitude = field == 0 ? kept : (static_cast<uint64_t>(field) << f.mantissa_bits) + (kept - hidden);
  const uint64_t infinity = ((uint64_t{1} << f.exponent_bits) - 1) << f.mantissa_bits;
  const uint64_t limit = f.has_infinity ? infinity : infinity | (hidden - 1);
  if (magnitude >= limit) return overflowed(negative, f, mode, saturate);
  return sign | magnitude;
}

uint64_t encode_double(double x, Format f, int mode, bool saturate) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const bool negative = bits >> 63;
  const int field = static_cast<int>((bits >> 52) & 0x7ff);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  if (field == 0x7ff) {
    if (fraction != 0) return (uint64_t{1} << (f.exponent_bits + f.mantissa_bits)) - 1;
    // Infinity stays one in every rounding.
    return overflowed(negative, f, kNearest, saturate);
  }
  if (field == 0) return encode(negative, fraction, -1074, false, f, mode, saturate);
  return encode(negative, fraction | (uint64_t{1} << 52), field - 1075, false, f, mode, saturate);
}

double decode_small(uint32_t bits, Format f) {
  const bool negative = bits >> (f.exponent_bits + f.mantissa_bits) & 1;
  const uint32_t field = bits >> f.mantissa_bits & ((1u << f.exponent_bits) - 1);
  const uint32_t fraction = bits & ((1u << f.mantissa_bits) - 1);
  const uint32_t all = (1u << f.exponent_bits) - 1;
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  double value;
  if (field == all && f.has_infinity) {
    value = fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (field == all && fraction == (1u << f.mantissa_bits) - 1) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (field == 0) {
    value = std::ldexp(fraction, 1 - bias - f.mantissa_bits);
  } else {
    value = std::ldexp(fraction | (1u << f.mantissa_bits), static_cast<int>(field) - bias - f.mantissa_bits);
  }
  return negative ? -value : value;
}

}  // namespace tilewright::sim
