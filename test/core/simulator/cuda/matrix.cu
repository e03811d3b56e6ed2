// Matrix products: by hand, by wmma, by mma.sync with ldmatrix and cp.async.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

extern "C" __global__ void gemm_shared(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float sa[16][16], sb[16][16];
  const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k0 = 0; k0 < k; k0 += 16) {
    sa[threadIdx.y][threadIdx.x] = row < m && k0 + threadIdx.x < k ? a[row * k + k0 + threadIdx.x] : 0.0f;
    sb[threadIdx.y][threadIdx.x] = col < n && k0 + threadIdx.y < k ? b[(k0 + threadIdx.y) * n + col] : 0.0f;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += sa[threadIdx.y][i] * sb[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}

// One warp computes a tile of a * b + c; layouts, shapes and types are wmma's.
template <int M, int N, int K, typename In, typename Out, typename ALayout, typename BLayout>
__device__ void wmma_tile(const In* a, const In* b, const Out* c, Out* d, int n, int k) {
  using Load = typename wmma::fragment<wmma::matrix_a, M, N, K, In, ALayout>;
  Load fa;
  wmma::fragment<wmma::matrix_b, M, N, K, In, BLayout> fb;
  wmma::fragment<wmma::accumulator, M, N, K, Out> acc;
  const int row = blockIdx.y * M, col = blockIdx.x * N;
  constexpr bool kARows = std::is_same_v<ALayout, wmma::row_major>, kBRows = std::is_same_v<BLayout, wmma::row_major>;
  const int m = gridDim.y * M;
  wmma::load_matrix_sync(acc, c + row * n + col, n, wmma::mem_row_major);
  for (int k0 = 0; k0 < k; k0 += K) {
    wmma::load_matrix_sync(fa, kARows ? a + row * k + k0 : a + k0 * m + row, kARows ? k : m);
    wmma::load_matrix_sync(fb, kBRows ? b + k0 * n + col : b + col * k + k0, kBRows ? n : k);
    wmma::mma_sync(acc, fa, fb, acc);
  }
  wmma::store_matrix_sync(d + row * n + col, acc, n, wmma::mem_row_major);
}

#define TW_WMMA(name, M, N, K, In, Out, ALayout, BLayout)                                         \
  extern "C" __global__ void name(const In* a, const In* b, const Out* c, Out* d, int n, int k) { \
    wmma_tile<M, N, K, In, Out, wmma::ALayout, wmma::BLayout>(a, b, c, d, n, k);                  \
  }
TW_WMMA(wmma_f16_rr, 16, 16, 16, half, float, row_major, row_major)
TW_WMMA(wmma_f16_rc, 16, 16, 16, half, float, row_major, col_major)
TW_WMMA(wmma_f16_cr, 16, 16, 16, half, float, col_major, row_major)
TW_WMMA(wmma_f16_cc, 16, 16, 16, half, float, col_major, col_major)
TW_WMMA(wmma_f16_wide, 8, 32, 16, half, float, row_major, row_major)
TW_WMMA(wmma_f16_tall, 32, 8, 16, half, float, row_major, col_major)
TW_WMMA(wmma_f16_f16, 16, 16, 16, half, half, row_major, col_major)
TW_WMMA(wmma_bf16, 16, 16, 16, __nv_bfloat16, float, row_major, col_major)
TW_WMMA(wmma_bf16_wide, 8, 32, 16, __nv_bfloat16, float, col_major, row_major)
TW_WMMA(wmma_s8, 16, 16, 16, signed char, int, row_major, col_major)
TW_WMMA(wmma_u8_tall, 32, 8, 16, unsigned char, int, row_major, col_major)
TW_WMMA(wmma_f64, 8, 8, 4, double, double, row_major, col_major)

// tf32 operands are rounded in registers.
extern "C" __global__ void wmma_tf32(const float* a, const float* b, const float* c, float* d, int n, int k) {
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc;
  const int row = blockIdx.y * 16, col = blockIdx.x * 16;
  wmma::load_matrix_sync(acc, c + row * n + col, n, wmma::mem_row_major);
  for (int k0 = 0; k0 < k; k0 += 8) {
    wmma::load_matrix_sync(fa, a + row * k + k0, k);
    wmma::load_matrix_sync(fb, b + col * k + k0, k);
    for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
    for (int i = 0; i < fb.num_elements; ++i) fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
    wmma::mma_sync(acc, fa, fb, acc);
  }
  wmma::store_matrix_sync(d + row * n + col, acc, n, wmma::mem_row_major);
}

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// c (m x n, float32) = a (m x k) b (n x k, transposed), tiles of 64 x 64 x 32, four warps of 32 x 32, three stages.
constexpr int kM = 64, kN = 64, kK = 32, kStages = 3, kPitch = kK + 8;
extern "C" __global__ void __launch_bounds__(128)
    gemm_mma(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int m, int n, int k) {
  __shared__ __align__(16) __nv_bfloat16 sa[kStages][kM * kPitch], sb[kStages][kN * kPitch];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row0 = blockIdx.y * kM, col0 = blockIdx.x * kN, wm = warp / 2 * 32, wn = warp % 2 * 32;
  const auto fetch = [&](int stage, int k0) {
    for (int i = threadIdx.x; i < kM * kK / 8; i += 128) {
      const int r = i / (kK / 8), s = i % (kK / 8) * 8;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(&sa[stage][r * kPitch + s])),
                   "l"(a + (row0 + r) * k + k0 + s));
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(&sb[stage][r * kPitch + s])),
                   "l"(b + (col0 + r) * k + k0 + s));
    }
  };
  float acc[2][4][4] = {};
  const int steps = k / kK;
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < steps) fetch(s, s * kK);
    asm volatile("cp.async.commit_group;");
  }
  for (int step = 0; step < steps; ++step) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2));
    __syncthreads();
    if (step + kStages - 1 < steps) fetch((step + kStages - 1) % kStages, (step + kStages - 1) * kK);
    asm volatile("cp.async.commit_group;");
    const int stage = step % kStages;
    for (int kk = 0; kk < kK; kk += 16) {
      unsigned fa[2][4], fb[4][2];
      for (int i = 0; i < 2; ++i)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3])
                     : "r"(shared_address(&sa[stage][(wm + 16 * i + lane % 16) * kPitch + kk + lane / 16 * 8])));
      for (int j = 0; j < 4; j += 2)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(fb[j][0]), "=r"(fb[j][1]), "=r"(fb[j + 1][0]), "=r"(fb[j + 1][1])
                     : "r"(shared_address(
                         &sb[stage][(wn + 8 * j + lane % 8 + lane / 16 * 8) * kPitch + kk + (lane / 8 & 1) * 8])));
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j)
          asm volatile(
              "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
              "{%0, %1, %2, %3};"
              : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3])
              : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]), "r"(fb[j][1]));
    }
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int e = 0; e < 4; ++e)
        c[(row0 + wm + 16 * i + lane / 4 + e / 2 * 8) * n + col0 + wn + 8 * j + lane % 4 * 2 + e % 2] = acc[i][j][e];
}
