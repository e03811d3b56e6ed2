#include <bit>
#include <cmath>

#include "ir/interp_ops.h"

namespace tilewright {
namespace {

// To the nearest number with 10 bits of fraction, ties away from zero.
float to_tf32(float x) {
  if (!std::isfinite(x)) return x;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x1000U) & ~0x1fffU);
}

// Sums products of numbers of type Number, fused, in the order of k.
template <typename Number, typename Element>
double dot(int64_t count, const Element& element) {
  Number sum = 0;
  for (int64_t k = 0; k < count; ++k) {
    const auto [a, b] = element(k);
    sum = std::fma(static_cast<Number>(a), static_cast<Number>(b), sum);
  }
  return static_cast<double>(sum);
}

}  // namespace

HostTensor interp_matmul(const Node& node, const HostTensor& a, const HostTensor& b, const Sizes& shape,
                         InterpMode mode) {
  const size_t rank = shape.size();
  const int64_t m = shape[rank - 2], n = shape[rank - 1], count = a.shape[rank - 1];
  const bool wide = mode == InterpMode::kExact || a.dtype == DType::kF64;
  const bool tf32 = !wide && node.attr_string("precision") == "tf32";
  HostTensor out(node.type().dtype, shape);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const int64_t batch = i / (m * n), row = i / n % m, column = i % n;
    const double* left = a.floats.data() + (batch * m + row) * count;
    const double* right = b.floats.data() + batch * count * n + column;
    const auto element = [&](int64_t k) { return std::pair(left[k], right[k * n]); };
    const auto rounded = [&](int64_t k) {
      return std::pair(to_tf32(static_cast<float>(left[k])), to_tf32(static_cast<float>(right[k * n])));
    };
    out.floats[static_cast<size_t>(i)] = wide   ? dot<double>(count, element)
                                         : tf32 ? dot<float>(count, rounded)
                                                : dot<float>(count, element);
  }
  return out;
}

}  // namespace tilewright
