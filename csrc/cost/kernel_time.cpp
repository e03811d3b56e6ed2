#include "cost/kernel_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilewright {
namespace {

constexpr double kUs = 1e6;  // microseconds in a second

// A value up to this share of the L2 cache is still there from the step before; above the second share nothing of it
// is. Chains of pointwise kernels over 16 MB, a third of the cache, run at its full rate. The rule looks at each value
// by itself, so that leaving out an access never makes a kernel slower.
constexpr double kAllResident = 0.35;
constexpr double kNoneResident = 0.7;
// DRAM is read in runs of 64 bytes: accesses that use single sectors of 32 bytes waste up to half.
constexpr double kMaxDramWaste = 2;
// Accesses of single sectors, each of another line, draw less of L2's rate: a transposing relu of 16384 x 4096 in bf16
// whose loads use 2 bytes of each sector takes 470 us, 1.4 times what the sectors alone would.
constexpr double kSingleSectorCost = 0.4;
// A load from L2 returns about twice as fast as one from DRAM, so half the loads in flight suffice.
constexpr double kL2LatencyRatio = 0.5;
constexpr double kL2BytesPerClockAndSm = 64;
constexpr double kSmemBytesPerClockAndSm = 128;
constexpr double kIssuePerClockAndSm = 128;  // lanes: four schedulers, a warp each
// Warps an SM needs to keep its arithmetic pipes busy: 4 a scheduler, with dependent instructions 4 clocks apart.
constexpr double kWarpsToHideArithmetic = 16;
constexpr double kBarrierUs = 0.03;
// The part of its rate at which mma.sync runs in a loop that also loads fragments and waits for copies. A hand-written,
// untuned loop reaches 0.6 on an H200.
constexpr double kTensorLoop = 0.7;
// Above this many waves blocks flow, and the last wave's emptiness is lost among them.
constexpr double kWavesThatFlow = 5;

// Kernels that tile products of matrices, on an H200: 16 x 4096 x 14336 takes 34.7 us where the weights take 27.5;
// 1024 x 1024 x 1024 in tiles of 64 x 128 draws 50 MB from L2 within 5.5 us; linear with a gelu(erf) after it
// takes 6.6, 9.9 and 21.7 us at 64 x 768 x 768, 256 x 3072 x 768 and 512 x 2048 x 2048, of which products and loads
// explain 1.6, 4.2 and 11. The part of the FMA rate that tiles of float32 reach is assumed.
constexpr double kTileBandwidth = 0.85;
constexpr double kTileL2Cost = 0.65;
constexpr double kTileFillUs = 1.2;
constexpr double kTileJoinUs = 1.5;
constexpr double kTileFmaRate = 0.65;

double resident_share(double value_bytes, const GpuFacts& gpu) {
  const double share = value_bytes / static_cast<double>(gpu.l2_bytes);
  return std::clamp((kNoneResident - share) / (kNoneResident - kAllResident), 0.0, 1.0);
}

// The part of the memory system's rate that this many bytes in flight draw. Measured reads of 8, 16, 24, 32 KB in
// flight an SM reach 0.34, 0.61, 0.82, 0.92 of the rate that 40 KB reach.
double drawn_share(double in_flight_bytes, double saturating_bytes) {
  if (in_flight_bytes <= 0 || saturating_bytes <= 0) return 1;  // not stated by the schedule, or no loads
  return std::min(1.0, std::pow(in_flight_bytes / saturating_bytes, 0.75));
}

// How much longer a transfer takes than at the full rate: whole waves draw what their blocks have in flight, the last
// one what its fewer blocks have.
double slowdown(const Footprint& f, int64_t blocks_at_once, double saturating_bytes) {
  const double in_flight_per_block = f.bytes_in_flight_per_thread * f.threads_per_block;
  const auto at = [&](double blocks) { return 1 / drawn_share(blocks * in_flight_per_block, saturating_bytes); };
  const double blocks = static_cast<double>(f.blocks);
  const double at_once = static_cast<double>(blocks_at_once);
  if (blocks <= at_once) return at(blocks);
  if (blocks >= kWavesThatFlow * at_once) return at(at_once);
  const double rest = std::fmod(blocks, at_once);
  return ((blocks - rest) * at(at_once) + (rest > 0 ? rest * at(rest) : 0)) / blocks;
}

void price_memory(const Footprint& f, int64_t blocks_at_once, double active_sms, const GpuFacts& gpu, KernelTime& t) {
  double all_bytes = 0, loaded_bytes = 0;
  double l2_bytes = 2.0 * f.spill_bytes * f.threads_per_block * static_cast<double>(f.blocks);
  for (const Footprint::Access& access : f.accesses) {
    const double efficiency = std::clamp(access.efficiency, 1e-3, 1.0);
    const double unique_bytes = std::min(access.unique_bytes, access.bytes);
    t.dram_bytes += unique_bytes * std::min(1 / efficiency, kMaxDramWaste) * (1 - resident_share(unique_bytes, gpu));
    l2_bytes += access.bytes / efficiency * (1 + kSingleSectorCost * (1 - efficiency));
    all_bytes += access.bytes;
    if (!access.is_store) loaded_bytes += access.bytes;
  }
  // Only loads wait; a kernel that also stores draws less of the memory's rate by them.
  const double loaded_share = all_bytes > 0 ? loaded_bytes / all_bytes : 1;
  const double saturating_bytes = gpu.bytes_in_flight_per_sm * gpu.sms * loaded_share;
  t.dram_us = t.dram_bytes / gpu.dram_bytes_per_s * kUs * slowdown(f, blocks_at_once, saturating_bytes);
  const double l2_slowdown = slowdown(f, blocks_at_once, saturating_bytes * kL2LatencyRatio);
  t.l2_us = l2_bytes * kUs *
            std::max(l2_slowdown / gpu.l2_bytes_per_s, 1 / (active_sms * kL2BytesPerClockAndSm * gpu.clock_hz));
}

// Arithmetic waits for the SM with the most blocks.
double imbalance(const Footprint& f, double waves, const GpuFacts& gpu) {
  if (waves >= kWavesThatFlow) return 1;
  const double share = waves <= 1 ? static_cast<double>(f.blocks) / gpu.sms : waves;
  return share <= 1 ? 1 : std::ceil(share) / share;
}

void price_arithmetic(const Footprint& f, double active_sms, const GpuFacts& gpu, KernelTime& t) {
  const double warps_per_block = std::ceil(f.threads_per_block / 32.0);
  const double blocks_per_sm =
      std::min<double>(t.occupancy.blocks_per_sm, std::ceil(static_cast<double>(f.blocks) / gpu.sms));
  const double hidden = std::min(1.0, blocks_per_sm * warps_per_block / kWarpsToHideArithmetic);
  const double clocks = active_sms * gpu.clock_hz / kUs / imbalance(f, t.waves, gpu);  // SM clocks a microsecond
  const double issued = f.fma_f32 + f.fma_f64 + f.alu + f.sfu;
  t.alu_us =
      std::max({f.fma_f32 / gpu.fma_f32, f.fma_f64 / gpu.fma_f64, f.alu / gpu.alu, issued / kIssuePerClockAndSm}) /
      (clocks * hidden);
  t.sfu_us = f.sfu / gpu.sfu / (clocks * hidden);
  t.smem_us = f.smem_bytes_moved / kSmemBytesPerClockAndSm / clocks;
  t.tensor_us = f.tensor_flops / (gpu.tensor_bf16 * gpu.mma_sync_share * kTensorLoop) / clocks;
}

// A block's phases follow each other, and the one or two others of its SM hide little of them.
void price_tiles(const Footprint& f, KernelTime& t) {
  t.dram_us /= kTileBandwidth;
  t.l2_us *= kTileL2Cost;
  t.phases_us = std::ceil(t.waves) * kTileFillUs + (f.tile_phases - 1) * kTileJoinUs;
  if (f.tensor_flops > 0) {
    t.phases_us += t.alu_us;
    t.alu_us = 0;
  } else {
    t.alu_us /= kTileFmaRate;
  }
}

}  // namespace

KernelTime price_kernel(const Footprint& footprint, const GpuFacts& gpu) {
  KernelTime t;
  t.fixed_us = gpu.kernel_fixed_us;
  t.occupancy = occupancy(footprint.threads_per_block, footprint.registers_per_thread, footprint.smem_bytes, gpu);
  if (t.occupancy.blocks_per_sm == 0) {
    t.total_us = std::numeric_limits<double>::infinity();
    t.bound = t.occupancy.limit;
    return t;
  }
  if (footprint.blocks == 0) {
    t.bound = "empty";
    return t;
  }
  const int64_t blocks_at_once = int64_t{t.occupancy.blocks_per_sm} * gpu.sms;
  t.waves = static_cast<double>(footprint.blocks) / static_cast<double>(blocks_at_once);
  const auto active_sms = static_cast<double>(std::min<int64_t>(footprint.blocks, gpu.sms));
  price_memory(footprint, blocks_at_once, active_sms, gpu, t);
  price_arithmetic(footprint, active_sms, gpu, t);
  const double load_us = gpu.latency_us * (t.dram_bytes > 0 ? 1 : kL2LatencyRatio);
  t.latency_us = std::ceil(t.waves) * (load_us + footprint.barriers * kBarrierUs);
  t.blocks_us = static_cast<double>(footprint.blocks) / gpu.blocks_per_us;
  if (footprint.tile_phases > 0) price_tiles(footprint, t);

  const struct {
    double us;
    const char* name;
  } terms[] = {{t.dram_us, "memory"}, {t.l2_us, "l2"},         {t.alu_us, "alu"},         {t.sfu_us, "sfu"},
               {t.smem_us, "smem"},   {t.tensor_us, "tensor"}, {t.latency_us, "latency"}, {t.blocks_us, "blocks"}};
  const auto& most =
      *std::max_element(std::begin(terms), std::end(terms), [](const auto& a, const auto& b) { return a.us < b.us; });
  t.total_us = t.fixed_us + most.us + t.phases_us;
  t.bound = most.name;
  return t;
}

double launch_us(Launcher launcher, const GpuFacts& gpu) {
  switch (launcher) {
    case Launcher::kPlan:
      return gpu.launch_host_us;
    case Launcher::kGraph:
      return gpu.launch_graph_us;
    case Launcher::kCall:
      return gpu.call_host_us;
  }
  return 0;
}

double transfer_us(double bytes, const GpuFacts& gpu) {
  return gpu.link_latency_us + bytes / gpu.link_bytes_per_s * kUs;
}

}  // namespace tilewright
