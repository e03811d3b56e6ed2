#include "torch/torch_types.h"

#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace tilewright {

namespace {

constexpr std::pair<DType, c10::ScalarType> kTypes[] = {
    {DType::kF64, c10::ScalarType::Double},
    {DType::kF32, c10::ScalarType::Float},
    {DType::kF16, c10::ScalarType::Half},
    {DType::kBF16, c10::ScalarType::BFloat16},
    {DType::kF8E4M3, c10::ScalarType::Float8_e4m3fn},
    {DType::kF8E5M2, c10::ScalarType::Float8_e5m2},
    {DType::kI64, c10::ScalarType::Long},
    {DType::kI32, c10::ScalarType::Int},
    {DType::kI16, c10::ScalarType::Short},
    {DType::kI8, c10::ScalarType::Char},
    {DType::kU8, c10::ScalarType::Byte},
    {DType::kBool, c10::ScalarType::Bool},
    {DType::kC32, c10::ScalarType::ComplexHalf},
    {DType::kC64, c10::ScalarType::ComplexFloat},
    {DType::kC128, c10::ScalarType::ComplexDouble},
    {DType::kU16, c10::ScalarType::UInt16},
    {DType::kU32, c10::ScalarType::UInt32},
    {DType::kU64, c10::ScalarType::UInt64},
};

constexpr std::pair<const char*, c10::Layout> kLayouts[] = {
    {"strided", c10::kStrided},      {"sparse_coo", c10::kSparse},    {"sparse_csr", c10::kSparseCsr},
    {"sparse_csc", c10::kSparseCsc}, {"sparse_bsr", c10::kSparseBsr}, {"sparse_bsc", c10::kSparseBsc},
    {"_mkldnn", c10::kMkldnn},       {"jagged", c10::kJagged},
};

constexpr std::pair<const char*, c10::MemoryFormat> kMemoryFormats[] = {
    {"contiguous_format", c10::MemoryFormat::Contiguous},
    {"preserve_format", c10::MemoryFormat::Preserve},
    {"channels_last", c10::MemoryFormat::ChannelsLast},
    {"channels_last_3d", c10::MemoryFormat::ChannelsLast3d},
};

template <typename T, size_t n>
std::optional<int64_t> find_name(const std::pair<const char*, T> (&table)[n], const std::string& text) {
  for (const auto& [name, value] : table) {
    if (text == name) return static_cast<int64_t>(value);
  }
  return std::nullopt;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::optional<int64_t> find_scalar_type(const std::string& text) {
  if (const std::optional<DType> t = dtype_from_name(text); t && *t != DType::kOpaque) {
    return static_cast<int64_t>(scalar_type(*t));
  }
  // Types without a name in the IR go by PyTorch's: "float8_e4m3fnuz", "qint8".
  for (int i = 0; i < static_cast<int>(c10::ScalarType::NumOptions); ++i) {
    if (i == static_cast<int>(c10::ScalarType::Undefined)) continue;
    if (lower(c10::toString(static_cast<c10::ScalarType>(i))) == lower(text)) return i;
  }
  return std::nullopt;
}

}  // namespace

c10::ScalarType scalar_type(DType t) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == t) return theirs;
  }
  throw InternalError(std::string("PyTorch has no element type ") + name(t));
}

DType dtype_of(c10::ScalarType t) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == t) return ours;
  }
  return DType::kOpaque;
}

int64_t tag_value(const std::string& tag, const std::string& text) {
  std::optional<int64_t> value;
  if (tag == "dtype") value = find_scalar_type(text);
  if (tag == "layout") value = find_name(kLayouts, text);
  if (tag == "memory_format") value = find_name(kMemoryFormats, text);
  if (!value) throw UserError("PyTorch has no " + tag + " " + text);
  return *value;
}

c10::Device device_of(const std::string& text, c10::Device target) {
  if (text.empty()) return target;
  if (text == "host") return c10::Device(c10::kCPU);
  const c10::Device device(text);
  return device.is_cuda() && !target.is_cuda() ? target : device;
}

}  // namespace tilewright
