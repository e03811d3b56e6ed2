#include "simulator/scalar_type.h"

namespace tilewright::sim {
namespace {

struct Row {
  const char* name;
  uint32_t bytes;
};

// In the order of Type.
constexpr Row kRows[] = {
    {"pred", 0}, {"b8", 1},    {"b16", 2},    {"b32", 4},    {"b64", 8},   {"b128", 16}, {"u8", 1},
    {"u16", 2},  {"u32", 4},   {"u64", 8},    {"s8", 1},     {"s16", 2},   {"s32", 4},   {"s64", 8},
    {"f16", 2},  {"f16x2", 4}, {"bf16", 2},   {"bf16x2", 4}, {"f32", 4},   {"f64", 8},   {"tf32", 4},
    {"e4m3", 1}, {"e5m2", 1},  {"e4m3x2", 2}, {"e5m2x2", 2}, {"u16x2", 4}, {"s16x2", 4},
};

}  // namespace

std::optional<Type> type_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(kRows); ++i)
    if (name == kRows[i].name) return static_cast<Type>(i);
  return std::nullopt;
}

const char* type_name(Type type) { return kRows[static_cast<size_t>(type)].name; }
uint32_t type_bytes(Type type) { return kRows[static_cast<size_t>(type)].bytes; }
bool is_signed_int(Type type) { return type >= Type::kS8 && type <= Type::kS64; }
bool is_float(Type type) { return type >= Type::kF16 && type <= Type::kE5M2x2; }

}  // namespace tilewright::sim
