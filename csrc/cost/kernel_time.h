#pragma once

#include "cost/footprint.h"
#include "cost/occupancy.h"
#include "cost/time.h"
#include "target/gpu.h"

namespace tilewright {

// Predicts how long one kernel takes on the GPU from its footprint (docs/cost-model.md):
//
//   t = fixed + max(memory, issue, special functions, shared memory, tensor cores, latency, starting blocks) + phases
//
// A copy of 128 MB on the h200: 268 MB at 4.25 TB/s are 63.2 us of memory; 32768 blocks at 1660 a microsecond start in
// 19.7 us; one load's latency in each of 32 waves takes 11.2 us; with 0.5 us of ramp and drain t is 63.6 us, bound by
// memory.
struct KernelTime {
  double total_us = 0;
  const char* bound = "";  // the term that decided: "memory", "l2", "alu", "sfu", "smem", "tensor", "latency", "blocks"

  double dram_us = 0;
  double l2_us = 0;
  double alu_us = 0;  // integer, logic and FMA pipes, and the issue slots that all of them share
  double sfu_us = 0;
  double smem_us = 0;
  double tensor_us = 0;
  double latency_us = 0;
  double blocks_us = 0;
  double fixed_us = 0;
  double phases_us = 0;  // of kernels that tile products: filling the first tiles, and what follows the product

  double dram_bytes = 0;  // moved
  double waves = 0;       // blocks over what the GPU holds at once
  Occupancy occupancy;
};

// A footprint that cannot be launched (too many registers, threads or bytes of shared memory) takes infinitely long.
KernelTime price_kernel(const Footprint& footprint, const GpuFacts& gpu);

// How a step is started.
enum class Launcher : uint8_t {
  kPlan,   // by the plan, through the driver
  kGraph,  // replayed as a node of a CUDA graph
  kCall,   // by PyTorch, through its dispatcher
};
double launch_us(Launcher launcher, const GpuFacts& gpu);

// Time of a copy between host and GPU.
double transfer_us(double bytes, const GpuFacts& gpu);

}  // namespace tilewright
