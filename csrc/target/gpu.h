#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"

namespace tilewright {

// One row of the GPU table: what the schedule and the cost model may ask. Passes ask for a capability or a limit here,
// never for an architecture number. Rates are per second, bandwidths in bytes per second, times in microseconds.
struct GpuFacts {
  std::string name;  // "h200": what options={"gpu": ...} names
  std::string arch;  // "sm_90a"

  int sms = 0;
  int max_threads_per_sm = 0;
  int max_blocks_per_sm = 0;
  int registers_per_sm = 65536;
  int max_registers_per_thread = 255;
  int64_t smem_per_sm_bytes = 0;
  int64_t smem_optin_bytes = 0;  // most a block may ask for
  int64_t smem_reserved_bytes = 1024;
  int64_t l2_bytes = 0;

  double clock_hz = 0;          // sustained
  double dram_bytes_per_s = 0;  // of a large copy, read plus write
  double l2_bytes_per_s = 0;
  double link_bytes_per_s = 0;  // host to device
  double link_latency_us = 0;

  // Operations per clock and SM; tensor_bf16 counts floating point operations, two a multiply-add.
  double fma_f32 = 0, fma_f64 = 0, alu = 0, sfu = 0, tensor_bf16 = 0;
  double mma_sync_share = 1;  // of tensor_bf16: what mma.sync can reach where a wider instruction reaches all

  double launch_host_us = 0;          // one launch when the host is the bottleneck
  double launch_graph_us = 0;         // the gap of one more kernel in a CUDA graph
  double kernel_fixed_us = 0;         // ramp up and drain of a kernel by itself
  double call_host_us = 0;            // one operator through PyTorch's dispatcher
  double latency_us = 0;              // a dependent global load
  double bytes_in_flight_per_sm = 0;  // loads in flight that saturate the memory
  double blocks_per_us = 0;           // how fast the whole GPU starts blocks

  bool has_bf16_arith = false;  // add/mul in bf16
  bool has_clusters = false;
  bool has_bulk_copy = false;

  bool as_ptx = false;    // newer than the table: its driver assembles the PTX made for `arch`
  bool measured = false;  // memory and graphs were measured on one; else all is from data sheets
};

const std::vector<GpuFacts>& gpu_table();
const GpuFacts* find_gpu(std::string_view name);
// The row, or UserError with the nearest name.
const GpuFacts& gpu_named(std::string_view name);
// The row to price for where only an architecture is known: sm_80 a100, sm_86 rtx3090, sm_89 l4, sm_90a h200.
const GpuFacts* default_gpu_of(std::string_view arch);

// What the driver says of a GPU. Zero where it does not know.
struct GpuAttributes {
  std::string name;  // "NVIDIA H200"
  int cc_major = 0, cc_minor = 0;
  int sms = 0;
  int max_threads_per_sm = 0;
  int max_blocks_per_sm = 0;
  int registers_per_sm = 0;
  int64_t smem_per_sm_bytes = 0;
  int64_t smem_optin_bytes = 0;
  int64_t smem_reserved_bytes = 0;
  int64_t l2_bytes = 0;
  int64_t clock_khz = 0;
  int64_t memory_clock_khz = 0;
  int memory_bus_bits = 0;
};

struct GpuChoice {
  GpuFacts gpu;
  Verdict verdict;  // not ok: everything stays PyTorch's, with this sentence; `gpu` means nothing
};
// The row of the GPU with this name, else the row of its architecture with the driver's limits. A GPU newer than the
// table takes the code of sm_80 as PTX; one older than sm_80 is refused.
GpuChoice gpu_from_attributes(const GpuAttributes& attributes);

}  // namespace tilewright
