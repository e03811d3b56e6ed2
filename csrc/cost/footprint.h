#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilewright {

// What one kernel launch does, at the hint of every symbol: the schedule writes it, the cost model prices it.
struct Footprint {
  struct Access {
    std::string value;  // name in the body, for the report
    bool is_store = false;
    double bytes = 0;         // useful bytes, each element counted as often as it is fetched from global memory
    double unique_bytes = 0;  // distinct bytes touched: bytes above it may come from L2
    double efficiency = 1;    // useful bytes / bytes of the 32-byte sectors moved
  };
  std::vector<Access> accesses;

  // Operations over the whole launch, by unit. tensor_flops: floating point operations of mma.sync at the rate of
  // 16-bit elements; tf32 counts double.
  double fma_f32 = 0, fma_f64 = 0, alu = 0, sfu = 0, tensor_flops = 0;
  double smem_bytes_moved = 0;

  // Of a kernel that tiles products, in which a block copies and multiplies tiles, then computes what follows: 1; 2
  // where blocks that share k join their sums in between. 0 for other kernels.
  int tile_phases = 0;

  int64_t blocks = 0;
  int threads_per_block = 0;
  int registers_per_thread = 0;  // estimate before assembly, the assembler's figure after
  int64_t smem_bytes = 0;        // a block
  double bytes_in_flight_per_thread = 0;
  int spill_bytes = 0;
  int barriers = 0;  // block-wide, in sequence: each adds latency
};

}  // namespace tilewright
