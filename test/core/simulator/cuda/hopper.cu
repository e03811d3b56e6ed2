// What sm_90 adds: clusters with distributed shared memory, bulk copies on mbarriers, st.async.
#include <cooperative_groups.h>
#include <cuda_pipeline.h>

#include <cuda/barrier>
#include <cuda/ptx>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

// The bins of a histogram are spread over the blocks of a cluster.
extern "C" __global__ void __cluster_dims__(4, 1, 1)
    cluster_histogram(const unsigned* data, unsigned* bins, int n, int bins_a_block) {
  extern __shared__ unsigned local[];
  const auto cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < bins_a_block; i += blockDim.x) local[i] = 0;
  cluster.sync();
  for (int i = cluster.thread_rank() + blockIdx.x / 4 * cluster.num_threads(); i < n; i += gridDim.x * blockDim.x) {
    const unsigned bin = data[i];
    unsigned* peer = cluster.map_shared_rank(local, bin / bins_a_block);
    atomicAdd(peer + bin % bins_a_block, 1u);
  }
  cluster.sync();
  for (int i = threadIdx.x; i < bins_a_block; i += blockDim.x)
    atomicAdd(&bins[cluster.block_rank() * bins_a_block + i], local[i]);
}

// Each block reads the sums of the others.
extern "C" __global__ void __cluster_dims__(2, 2, 1) cluster_sum(const float* x, float* out) {
  __shared__ float sum;
  const auto cluster = cg::this_cluster();
  float v = x[cluster.block_rank() * 32 + threadIdx.x];
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  if (threadIdx.x == 0) sum = v;
  cluster.sync();
  float all = 0;
  for (unsigned r = 0; r < cluster.num_blocks(); ++r) all += *cluster.map_shared_rank(&sum, r);
  if (threadIdx.x == 0) out[cluster.block_rank()] = all + cluster.block_index().x + 10 * cluster.block_index().y;
  cluster.sync();
}

// Two buffers filled by bulk copies; one thread produces, all consume.
constexpr int kChunk = 256;
extern "C" __global__ void bulk_scale(const float* in, float* out, int chunks, float factor) {
  __shared__ alignas(128) float buffer[2][kChunk];
  __shared__ alignas(128) float result[kChunk];
  __shared__ unsigned long full[2];
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full[0], 1);
    ptx::mbarrier_init(&full[1], 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  const auto fetch = [&](int chunk) {
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[chunk % 2],
                                   kChunk * sizeof(float));
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, buffer[chunk % 2], in + chunk * kChunk,
                       kChunk * sizeof(float), &full[chunk % 2]);
  };
  if (threadIdx.x == 0) fetch(0);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (threadIdx.x == 0 && chunk + 1 < chunks) fetch(chunk + 1);
    while (!ptx::mbarrier_try_wait_parity(&full[chunk % 2], chunk / 2 & 1)) {
    }
    for (int i = threadIdx.x; i < kChunk; i += blockDim.x) result[i] = factor * buffer[chunk % 2][i];
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
      ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out + chunk * kChunk, result, kChunk * sizeof(float));
      ptx::cp_async_bulk_commit_group();
      ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
    __syncthreads();
  }
}

// Bulk sums into global memory, from every block.
extern "C" __global__ void bulk_reduce(int* out) {
  __shared__ alignas(16) int mine[128];
  mine[threadIdx.x] = threadIdx.x * (blockIdx.x + 1);
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, out, mine, sizeof mine);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
  }
}

// A block sends rows to the next of its cluster, which waits for the bytes.
extern "C" __global__ void __cluster_dims__(2, 1, 1) ring_send(const int4* in, int4* out) {
  __shared__ int4 inbox[32];
  __shared__ unsigned long bar;
  const auto cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank(), next = (rank + 1) % cluster.num_blocks();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof inbox);
  }
  cluster.sync();
  const int4 v = in[rank * 32 + threadIdx.x];
  int(&words)[4] = *reinterpret_cast<int(*)[4]>(const_cast<int4*>(&v));
  int4* to = cluster.map_shared_rank(&inbox[threadIdx.x], next);
  unsigned long* peer = cluster.map_shared_rank(&bar, next);
  ptx::st_async(reinterpret_cast<int*>(to), words, peer);
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bar, 0)) {
  }
  out[rank * 32 + threadIdx.x] = inbox[threadIdx.x];
  cluster.sync();
}

// cuda::barrier: phases counted through tokens; arrival of copies.
extern "C" __global__ void barrier_phases(const int* in, int* out, int rounds) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ int s[64];
  __shared__ alignas(Barrier) char memory[sizeof(Barrier)];
  Barrier& bar = reinterpret_cast<Barrier&>(memory);
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  int v = in[threadIdx.x];
  for (int r = 0; r < rounds; ++r) {
    s[threadIdx.x] = v;
    bar.arrive_and_wait();
    v = s[(threadIdx.x + 1) % blockDim.x] + 1;
    bar.wait(bar.arrive());
  }
  out[threadIdx.x] = v;
}

// Double buffering by the pipeline primitives.
extern "C" __global__ void pipeline_sum(const int* in, int* out, int rows) {
  __shared__ int buffer[2][128];
  const int t = threadIdx.x;
  int sum = 0;
  __pipeline_memcpy_async(&buffer[0][t], in + t, 4);
  __pipeline_commit();
  for (int r = 0; r < rows; ++r) {
    if (r + 1 < rows) __pipeline_memcpy_async(&buffer[(r + 1) % 2][t], in + (r + 1) * 128 + t, 4);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    sum += buffer[r % 2][127 - t];
    __syncthreads();
  }
  out[t] = sum;
}

__device__ bool elected() {
  unsigned p;
  asm volatile("{ .reg .pred p; elect.sync _|p, -1; selp.u32 %0, 1, 0, p; }" : "=r"(p));
  return p;
}

// One elected lane of each warp speaks; warps of a warpgroup trade registers.
extern "C" __global__ void elect_and_registers(int* out) {
  if (elected()) atomicAdd(out, 1);
  if (threadIdx.x < 128)
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  else
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  out[1 + threadIdx.x] = threadIdx.x / 128;
}
