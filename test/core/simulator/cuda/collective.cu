// Reductions, scans, histograms and sorting: shuffles, votes, matches, atomics and barriers.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include <cuda/atomic>

namespace cg = cooperative_groups;

__device__ float block_sum(float v) {
  __shared__ float partial[32];
  for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x < (blockDim.x + 31) / 32 ? partial[threadIdx.x] : 0.0f;
  if (threadIdx.x < 32)
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;  // whole in warp 0
}

extern "C" __global__ void reduce_atomic(const float* x, float* sum, int n) {
  float v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
  v = block_sum(v);
  if (threadIdx.x == 0) atomicAdd(sum, v);
}

// The block that finishes last adds the sums of all, in order.
__device__ unsigned g_ticket;
extern "C" __global__ void reduce_last_block(const float* x, float* partial, float* sum, int n) {
  __shared__ bool last;
  float v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
  v = block_sum(v);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = v;
    __threadfence();
    last = atomicInc(&g_ticket, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float all = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) all += static_cast<volatile float*>(partial)[b];
    *sum = all;
  }
}

// Value and index in one word: atomicMax finds the largest value, and the smallest index of it.
extern "C" __global__ void arg_max(const int* x, unsigned long long* best, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned long long key = static_cast<unsigned>(x[i]) ^ 0x80000000u;
  atomicMax(best, key << 32 | static_cast<unsigned>(~i));
}

// Mean and variance of rows by Welford's update, merged over the lanes of a warp.
extern "C" __global__ void welford_rows(const float* x, double* mean, double* variance, int cols) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  double m = 0, m2 = 0;
  int n = 0;
  for (int c = threadIdx.x; c < cols; c += 32) {
    const double d = x[row * cols + c] - m;
    m += d / ++n;
    m2 += d * (x[row * cols + c] - m);
  }
  for (int k = 16; k > 0; k /= 2) {
    const double om = __shfl_xor_sync(~0u, m, k), om2 = __shfl_xor_sync(~0u, m2, k);
    const int on = __shfl_xor_sync(~0u, n, k), all = n + on;
    if (all > 0) {
      const double d = om - m;
      m += d * on / all;
      m2 += om2 + d * d * n * on / all;
    }
    n = all;
  }
  if (threadIdx.x == 0) {
    mean[row] = m;
    variance[row] = m2 / n;
  }
}

// An inclusive scan over one block: by warps, then over the warps' sums.
__device__ int block_scan(int v) {
  __shared__ int sums[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int d = 1; d < 32; d *= 2) {
    const int up = __shfl_up_sync(~0u, v, d);
    if (lane >= d) v += up;
  }
  if (lane == 31) sums[warp] = v;
  __syncthreads();
  if (warp == 0) {
    int s = lane < static_cast<int>(blockDim.x / 32) ? sums[lane] : 0;
    for (int d = 1; d < 32; d *= 2) {
      const int up = __shfl_up_sync(~0u, s, d);
      if (lane >= d) s += up;
    }
    sums[lane] = s;
  }
  __syncthreads();
  return warp > 0 ? v + sums[warp - 1] : v;
}

// One pass: each block takes the sum before it from the block before it, for which it waits.
extern "C" __global__ void scan_chained(const int* x, int* out, int* carry, int* ready, int n) {
  __shared__ int before;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int v = block_scan(i < n ? x[i] : 0);
  if (threadIdx.x == blockDim.x - 1) {
    int sum = 0;
    if (blockIdx.x > 0) {
      cuda::atomic_ref<int, cuda::thread_scope_device> flag(ready[blockIdx.x - 1]);
      while (flag.load(cuda::memory_order_acquire) == 0) {
      }
      sum = carry[blockIdx.x - 1];
    }
    carry[blockIdx.x] = sum + v;
    cuda::atomic_ref<int, cuda::thread_scope_device>(ready[blockIdx.x]).store(1, cuda::memory_order_release);
    before = sum;
  }
  __syncthreads();
  if (i < n) out[i] = before + v;
}

// Hillis and Steele in shared memory, two buffers.
extern "C" __global__ void scan_shared(const int* x, int* out, int n) {
  extern __shared__ int s[];
  int* from = s;
  int* to = s + blockDim.x;
  const int i = threadIdx.x;
  from[i] = i < n ? x[i] : 0;
  for (int d = 1; d < blockDim.x; d *= 2) {
    __syncthreads();
    to[i] = from[i] + (i >= d ? from[i - d] : 0);
    int* t = from;
    from = to;
    to = t;
  }
  if (i < n) out[i] = from[i];
}

// Keeps positive numbers; each warp takes room by one atomic.
extern "C" __global__ void compact(const int* x, int* out, int* count, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  const bool keep = i < n && x[i] > 0;
  const unsigned kept = __ballot_sync(~0u, keep);
  int base = 0;
  if (lane == 0 && kept) base = atomicAdd(count, __popc(kept));
  base = __shfl_sync(~0u, base, 0);
  if (keep) out[base + __popc(kept & ((1u << lane) - 1))] = x[i];
}

extern "C" __global__ void histogram_shared(const unsigned char* data, unsigned* bins, int n) {
  __shared__ unsigned s[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) s[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&s[data[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    if (s[i]) atomicAdd(&bins[i], s[i]);
}

// Lanes with one value elect a leader, which counts for all of them.
extern "C" __global__ void histogram_match(const unsigned char* data, unsigned* bins, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned same = __match_any_sync(__activemask(), data[i]);
  if (__ffs(same) - 1 == static_cast<int>(threadIdx.x % 32)) atomicAdd(&bins[data[i]], __popc(same));
}

// What redux.sync does, one result an operation.
extern "C" __global__ void warp_reductions(const int* x, int* out) {
  const int v = x[threadIdx.x];
  const int results[] = {static_cast<int>(__reduce_add_sync(~0u, v)),
                         __reduce_min_sync(~0u, v),
                         __reduce_max_sync(~0u, v),
                         static_cast<int>(__reduce_and_sync(~0u, static_cast<unsigned>(v))),
                         static_cast<int>(__reduce_or_sync(~0u, static_cast<unsigned>(v))),
                         static_cast<int>(__reduce_xor_sync(~0u, static_cast<unsigned>(v)))};
  for (int k = 0; k < 6; ++k)
    if (threadIdx.x == 0) out[k] = results[k];
}

// Groups of 8 lanes and of the lanes that take a branch.
extern "C" __global__ void group_reductions(const int* x, int* tiles, int* odd) {
  const auto block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<8>(block);
  const int v = x[block.thread_rank()];
  const int sum = cg::reduce(tile, v, cg::plus<int>());
  const int most = cg::reduce(tile, v, cg::greater<int>());
  if (tile.thread_rank() == 0) {
    tiles[2 * (block.thread_rank() / 8)] = sum;
    tiles[2 * (block.thread_rank() / 8) + 1] = most;
  }
  if (v & 1) {
    const auto active = cg::coalesced_threads();
    const int s = cg::reduce(active, v, cg::plus<int>());
    if (active.thread_rank() == 0) atomicAdd(odd, s);
  }
}

// Batcher's bitonic network in shared memory.
extern "C" __global__ void bitonic_sort(float* x) {
  extern __shared__ float f[];
  const unsigned i = threadIdx.x;
  f[i] = x[i];
  for (unsigned k = 2; k <= blockDim.x; k *= 2)
    for (unsigned j = k / 2; j > 0; j /= 2) {
      __syncthreads();
      const unsigned other = i ^ j;
      if (other > i) {
        const float a = f[i], b = f[other];
        if ((a > b) == ((i & k) == 0)) {
          f[i] = b;
          f[other] = a;
        }
      }
    }
  __syncthreads();
  x[i] = f[i];
}

// Stable counting sort of 4-bit digits by votes, within one block.
extern "C" __global__ void radix_digit_sort(const unsigned* x, unsigned* out, int shift) {
  __shared__ int counts[16], starts[16];
  const int lane = threadIdx.x % 32;
  const unsigned v = x[threadIdx.x], digit = v >> shift & 15;
  if (threadIdx.x < 16) counts[threadIdx.x] = 0;
  __syncthreads();
  int rank = 0;
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) {
    if (threadIdx.x / 32 == warp) {
      const unsigned same = __match_any_sync(~0u, digit);
      rank = counts[digit] + __popc(same & ((1u << lane) - 1));
      __syncwarp();
      if (lane == 31 - __clz(same)) counts[digit] += __popc(same);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0)
    for (int d = 0, sum = 0; d < 16; ++d) {
      starts[d] = sum;
      sum += counts[d];
    }
  __syncthreads();
  out[starts[digit] + rank] = v;
}

// Every thread adds in turn under a lock of its own making.
__device__ int g_lock;
extern "C" __global__ void locked_sum(double* sum) {
  for (bool done = false; !done;) {
    if (atomicCAS(&g_lock, 0, 1) == 0) {
      __threadfence();
      *static_cast<volatile double*>(sum) = *static_cast<volatile double*>(sum) + threadIdx.x;
      __threadfence();
      atomicExch(&g_lock, 0);
      done = true;
    }
  }
}

// Atomics of every type that the C++ interface has.
extern "C" __global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(i, t);
  atomicSub(i + 1, t);
  atomicMin(i + 2, -t);
  atomicMax(i + 3, t);
  atomicAnd(u, ~(1u << (t % 32)));
  atomicOr(u + 1, 1u << (t % 32));
  atomicXor(u + 2, 1u << (t % 31));
  atomicInc(u + 3, 9);
  atomicDec(u + 4, 9);
  atomicAdd(l, 1ull << (t % 40));
  atomicMin(l + 1, 1000ull - t);
  atomicMax(reinterpret_cast<long long*>(l + 2), static_cast<long long>(t));
  atomicAdd(f, 0.5f);
  atomicAdd(d, 0.25);
  atomicExch(f + 1, 7.0f);
}

// Every block adds its neighbour's number to its own, three times, with the whole grid in step.
extern "C" __global__ void grid_steps(int* values, int* next) {
  const auto grid = cg::this_grid();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  for (int step = 0; step < 3; ++step) {
    next[i] = values[i] + values[(i + blockDim.x) % n];
    grid.sync();
    values[i] = next[i];
    grid.sync();
  }
}
