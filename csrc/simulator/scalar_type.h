#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tilewright::sim {

// PTX's fundamental types.
enum class Type : uint8_t {
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kF16x2,
  kBF16,
  kBF16x2,
  kF32,
  kF64,
  kTF32,
  kE4M3,
  kE5M2,
  kE4M3x2,
  kE5M2x2,
  kU16x2,
  kS16x2,
};

std::optional<Type> type_from_name(std::string_view name);  // "f32", without the dot
const char* type_name(Type type);
uint32_t type_bytes(Type type);  // kPred: 0
bool is_signed_int(Type type);
bool is_float(Type type);

}  // namespace tilewright::sim
