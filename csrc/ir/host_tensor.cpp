#include "ir/host_tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <sstream>

#include "support/float_formats.h"

namespace tilewright {
namespace {

// Visits every index of a shape in row-major order: visit(position, offset) with the offset that the strides give.
template <typename Visit>
void for_each_offset(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, const Visit& visit) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  std::vector<int64_t> index(shape.size(), 0);
  int64_t offset = 0;
  for (int64_t position = 0; position < count; ++position) {
    visit(static_cast<size_t>(position), offset);
    for (size_t d = shape.size(); d-- > 0;) {
      offset += strides[d];
      if (++index[d] < shape[d]) break;
      offset -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

const FloatFormat* small_format(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return &kHalf;
    case DType::kBF16:
      return &kBFloat16;
    case DType::kF8E4M3:
      return &kFloat8E4M3;
    case DType::kF8E5M2:
      return &kFloat8E5M2;
    default:
      return nullptr;
  }
}

// splitmix64: a full-period generator that needs no state beyond a counter.
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

double magnitude_of_last_place(DType dtype) {
  if (dtype == DType::kF64) return 0x1p-52;
  if (const FloatFormat* format = small_format(dtype)) return std::ldexp(1.0, -format->mantissa_bits);
  return 0x1p-23;
}

}  // namespace

HostTensor::HostTensor(DType type, std::vector<int64_t> sizes) : dtype(type), shape(std::move(sizes)) {
  if (is_float())
    floats.resize(static_cast<size_t>(numel()));
  else
    ints.resize(static_cast<size_t>(numel()));
}

int64_t HostTensor::numel() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d] == 0 ? 1 : shape[d];
  }
  return strides;
}

int64_t reach(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  int64_t last = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return 0;
    last += (shape[d] - 1) * strides[d];
  }
  return last + 1;
}

uint64_t element_bits(DType dtype, double value) {
  if (dtype == DType::kF64) return std::bit_cast<uint64_t>(value);
  if (dtype == DType::kF32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  const FloatFormat* format = small_format(dtype);
  TW_CHECK(format) << "float bits of " << dtype;
  return encode(rounded(value, *format), *format);
}

uint64_t element_bits(DType dtype, int64_t value) {
  const int64_t width = 8 * bytes(dtype);
  return width == 64 ? static_cast<uint64_t>(value) : static_cast<uint64_t>(value) & ((uint64_t{1} << width) - 1);
}

double float_of_bits(DType dtype, uint64_t bits) {
  if (dtype == DType::kF64) return std::bit_cast<double>(bits);
  if (dtype == DType::kF32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  const FloatFormat* format = small_format(dtype);
  TW_CHECK(format) << "float bits of " << dtype;
  return decode(static_cast<uint16_t>(bits), *format);
}

int64_t int_of_bits(DType dtype, uint64_t bits) { return wrapped(dtype, static_cast<int64_t>(bits)); }

int64_t wrapped(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kI32:
      return static_cast<int32_t>(value);
    case DType::kI16:
      return static_cast<int16_t>(value);
    case DType::kI8:
      return static_cast<int8_t>(value);
    case DType::kU8:
      return static_cast<uint8_t>(value);
    case DType::kBool:
      return value != 0;
    default:
      return value;
  }
}

void store(const HostTensor& tensor, const std::vector<int64_t>& strides, void* memory) {
  const auto width = static_cast<size_t>(bytes(tensor.dtype));
  auto* base = static_cast<unsigned char*>(memory);
  for_each_offset(tensor.shape, strides, [&](size_t i, int64_t offset) {
    const uint64_t bits =
        tensor.is_float() ? element_bits(tensor.dtype, tensor.floats[i]) : element_bits(tensor.dtype, tensor.ints[i]);
    std::memcpy(base + static_cast<size_t>(offset) * width, &bits, width);  // little endian, as every GPU is
  });
}

HostTensor load(DType dtype, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                const void* memory) {
  HostTensor out(dtype, shape);
  const auto width = static_cast<size_t>(bytes(dtype));
  const auto* base = static_cast<const unsigned char*>(memory);
  for_each_offset(shape, strides, [&](size_t i, int64_t offset) {
    uint64_t bits = 0;
    std::memcpy(&bits, base + static_cast<size_t>(offset) * width, width);
    if (out.is_float())
      out.floats[i] = float_of_bits(dtype, bits);
    else
      out.ints[i] = int_of_bits(dtype, bits);
  });
  return out;
}

HostTensor random_tensor(DType dtype, std::vector<int64_t> shape, uint64_t seed) {
  HostTensor out(dtype, std::move(shape));
  const uint64_t start = mixed(seed);
  for (size_t i = 0; i < static_cast<size_t>(out.numel()); ++i) {
    const uint64_t random = mixed(start + i);
    if (out.is_float()) {
      const double unit = static_cast<double>(random >> 11) * 0x1p-53;
      out.floats[i] = random % 32 == 0 ? 0.0 : round_to(dtype, unit * 6 - 3);
    } else if (dtype == DType::kBool) {
      out.ints[i] = static_cast<int64_t>(random & 1);
    } else {
      out.ints[i] = static_cast<int64_t>(random % 17) - (is_signed(dtype) ? 8 : 0);
    }
  }
  return out;
}

Verdict all_close(const HostTensor& found, const HostTensor& expected, Tolerance tolerance) {
  std::ostringstream why;
  if (found.dtype != expected.dtype || found.shape != expected.shape) {
    why << "found " << found.dtype << " of " << found.numel() << " elements, expected " << expected.dtype << " of "
        << expected.numel();
    return Verdict::no(why.str());
  }
  int64_t wrong = 0, worst = 0;
  double worst_excess = -1;
  for (int64_t i = 0; i < found.numel(); ++i) {
    const double a = found.number(i), b = expected.number(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double bound = tolerance.absolute + tolerance.relative * std::fabs(b);
    const double difference = std::fabs(a - b);
    if (std::isfinite(a) && std::isfinite(b) && difference <= bound) continue;
    ++wrong;
    const double excess = std::isfinite(difference) ? difference - bound : HUGE_VAL;
    if (excess > worst_excess) worst = i, worst_excess = excess;
  }
  if (wrong == 0) return Verdict::yes();
  why << wrong << " of " << found.numel() << " elements differ; the worst is element " << worst << ": found "
      << found.number(worst) << ", expected " << expected.number(worst);
  return Verdict::no(why.str());
}

Tolerance rounding_tolerance(DType dtype) {
  if (!is_float(dtype)) return {};
  const double unit = magnitude_of_last_place(dtype);
  const FloatFormat* format = small_format(dtype);
  const int min_exponent = format ? format->min_exponent() : dtype == DType::kF64 ? -1022 : -126;
  return {2 * unit, 2 * std::ldexp(unit, min_exponent)};
}

}  // namespace tilewright
