#pragma once

#include <cstdint>

#include "target/gpu.h"

namespace tilewright {

// How many blocks of a kernel one SM holds at once, and what stops it from holding more.
struct Occupancy {
  int blocks_per_sm = 0;  // 0: the kernel cannot be launched
  int warps_per_sm = 0;
  double fraction = 0;     // of the warps that an SM can hold
  const char* limit = "";  // "registers", "shared memory", "threads", "blocks"
};

// By the rules of CUDA's occupancy calculator: registers are given to warps in units of 256 out of four equal register
// files, shared memory to blocks in units of 128 bytes on top of what the driver keeps.
//
//   h200, 256 threads, 64 registers, no shared memory: 8 warps of 2048 registers, 32 warps an SM, 4 blocks, 0.5
Occupancy occupancy(int threads_per_block, int registers_per_thread, int64_t smem_bytes, const GpuFacts& gpu);

}  // namespace tilewright
