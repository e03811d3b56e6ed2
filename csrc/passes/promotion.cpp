#include "passes/promotion.h"

namespace tilewright {
namespace {

// Order of the kinds: a higher one wins over a lower one whatever their widths.
int kind(DType t) { return t == DType::kBool ? 0 : is_integer(t) ? 1 : 2; }

DType promote_integers(DType a, DType b) {
  if (is_signed(a) != is_signed(b)) {  // u8 with a signed type: the signed one, but i16 with i8
    const DType other = a == DType::kU8 ? b : a;
    return other == DType::kI8 ? DType::kI16 : other;
  }
  return bytes(a) >= bytes(b) ? a : b;
}

// The higher category's type, unless the lower one is of a higher kind.
std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher || !lower) return higher ? higher : lower;
  if (kind(*lower) <= kind(*higher)) return higher;
  return promote(*higher, *lower);
}

}  // namespace

std::optional<DType> promote(DType a, DType b) {
  if (a == b) return a;
  if (!has_kernels(a) || !has_kernels(b)) return std::nullopt;
  if (kind(a) != kind(b)) {
    const DType high = kind(a) > kind(b) ? a : b;
    return high;
  }
  if (kind(a) == 1) return promote_integers(a, b);
  if (bytes(a) == 1 || bytes(b) == 1) return std::nullopt;
  if (bytes(a) == bytes(b)) return DType::kF32;  // f16 with bf16
  return bytes(a) > bytes(b) ? a : b;
}

void Promotion::join(std::optional<DType>& into, DType type) {
  const std::optional<DType> joined = into ? promote(*into, type) : std::optional<DType>(type);
  if (!joined) impossible_ = true;
  into = joined;
}

std::optional<DType> Promotion::result() const {
  if (impossible_) return std::nullopt;
  return combine(dimensioned_, combine(zero_dim_, number_));
}

}  // namespace tilewright
