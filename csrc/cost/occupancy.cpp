#include "cost/occupancy.h"

#include <algorithm>

namespace tilewright {
namespace {

constexpr int kWarp = 32;
constexpr int kRegisterUnit = 256;
constexpr int kRegisterFiles = 4;
constexpr int64_t kSmemUnit = 128;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

int blocks_by_registers(int warps_per_block, int registers_per_thread, const GpuFacts& gpu) {
  if (registers_per_thread > gpu.max_registers_per_thread) return 0;
  const int64_t registers_per_warp = round_up(int64_t{std::max(registers_per_thread, 1)} * kWarp, kRegisterUnit);
  if (registers_per_warp * round_up(warps_per_block, kRegisterFiles) > gpu.registers_per_sm) return 0;
  const int64_t warps_per_file = gpu.registers_per_sm / kRegisterFiles / registers_per_warp;
  return static_cast<int>(warps_per_file * kRegisterFiles / warps_per_block);
}

int blocks_by_smem(int64_t smem_bytes, const GpuFacts& gpu) {
  if (smem_bytes > gpu.smem_optin_bytes) return 0;
  const int64_t smem_per_block = round_up(smem_bytes + gpu.smem_reserved_bytes, kSmemUnit);
  return static_cast<int>(gpu.smem_per_sm_bytes / smem_per_block);
}

}  // namespace

Occupancy occupancy(int threads_per_block, int registers_per_thread, int64_t smem_bytes, const GpuFacts& gpu) {
  constexpr int kMaxThreadsPerBlock = 1024;
  Occupancy result;
  if (threads_per_block <= 0 || threads_per_block > kMaxThreadsPerBlock) {
    result.limit = "threads";
    return result;
  }
  const int warps_per_block = (threads_per_block + kWarp - 1) / kWarp;
  const int warps_per_sm = gpu.max_threads_per_sm / kWarp;
  const struct {
    int blocks;
    const char* name;
  } limits[] = {{gpu.max_blocks_per_sm, "blocks"},
                {warps_per_sm / warps_per_block, "threads"},
                {blocks_by_registers(warps_per_block, registers_per_thread, gpu), "registers"},
                {blocks_by_smem(smem_bytes, gpu), "shared memory"}};
  const auto& least = *std::min_element(std::begin(limits), std::end(limits),
                                        [](const auto& a, const auto& b) { return a.blocks < b.blocks; });
  result.blocks_per_sm = least.blocks;
  result.limit = least.name;
  result.warps_per_sm = least.blocks * warps_per_block;
  result.fraction = static_cast<double>(result.warps_per_sm) / warps_per_sm;
  return result;
}

}  // namespace tilewright
