#pragma once

#include "ir/type.h"
#include "target/gpu.h"

namespace tilewright {

// One product of matrices, or a batch of them: [batch, m, k] times [batch, k, n], at the hints.
struct ProductSize {
  double batch = 1, m = 0, n = 0, k = 0;
  double flops() const { return 2 * batch * m * n * k; }
};

// Floating point operations a second of products of this element type. `tf32`: of float32 on tensor cores.
double matrix_rate(DType dtype, bool tf32, const GpuFacts& gpu);

// How long cuBLAS computes, without what it waits for memory: the least, over tiles of a few sizes and over splits of
// k, of whole waves of tiles at the rate that a tile of this size reaches. On an h200, in microseconds:
//
//   bf16                     here   measured in a graph, or of a large one as launched by the host
//   1024 x 1024 x 1024        5.2   5.6
//   4096 x 4096 x 1024       46     49
//   4096 x 4096 x 4096      174     177
//   8192 x 8192 x 8192     1376     1398
//   4096 x 14336 x 4096     608     606
double library_product_us(const ProductSize& size, DType dtype, bool tf32, const GpuFacts& gpu);

}  // namespace tilewright
