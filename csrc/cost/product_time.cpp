#include "cost/product_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilewright {
namespace {

constexpr double kUs = 1e6;

// The part of an SM's matrix rate that cuBLAS reaches inside a tile. That of the largest is fitted to products of 4096
// and 8192, that of 64 x 128 to 1024; the others lie on the line through them.
struct Tile {
  double m, n, efficiency;
};
constexpr Tile kTiles[] = {{128, 256, 0.88}, {128, 128, 0.75}, {64, 128, 0.55}, {64, 64, 0.4}};

// What a wave of tiles takes beside its arithmetic: filling the pipeline and writing the result.
constexpr double kWaveUs = 0.9;

constexpr int kMostSplits = 32;
constexpr double kLeastSplitK = 256;  // of a part
// Joining the parts of a split product is a kernel of its own, or a wait for the other parts.
constexpr double kJoinUs = 1.2;

double with_tile(const ProductSize& size, const Tile& tile, int split, double flops_per_us_and_sm,
                 const GpuFacts& gpu) {
  const double tiles = size.batch * std::ceil(size.m / tile.m) * std::ceil(size.n / tile.n) * split;
  const double waves = std::ceil(tiles / gpu.sms);
  const double tile_us = 2 * tile.m * tile.n * std::ceil(size.k / split) / (flops_per_us_and_sm * tile.efficiency);
  const double partial_bytes = 2 * 4 * split * size.batch * size.m * size.n;  // float32, written and read
  const double join_us = split == 1 ? 0 : kJoinUs + partial_bytes / gpu.l2_bytes_per_s * kUs;
  return waves * (tile_us + kWaveUs) + join_us;
}

}  // namespace

double matrix_rate(DType dtype, bool tf32, const GpuFacts& gpu) {
  const double clocks = gpu.sms * gpu.clock_hz;
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
      return gpu.tensor_bf16 * clocks;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kI8:
      return 2 * gpu.tensor_bf16 * clocks;
    case DType::kF64:
      return 2 * gpu.fma_f64 * clocks;
    default:
      return (tf32 ? gpu.tensor_bf16 / 2 : 2 * gpu.fma_f32) * clocks;
  }
}

double library_product_us(const ProductSize& size, DType dtype, bool tf32, const GpuFacts& gpu) {
  if (size.flops() == 0) return 0;
  const double flops_per_us_and_sm = matrix_rate(dtype, tf32, gpu) / gpu.sms / kUs;
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    for (int split = 1; split <= kMostSplits && (split == 1 || size.k / split >= kLeastSplitK); split *= 2) {
      best = std::min(best, with_tile(size, tile, split, flops_per_us_and_sm, gpu));
    }
  }
  return best;
}

}  // namespace tilewright
