#include "cost/kernel_time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace tilewright {
namespace {

const GpuFacts& h200() { return gpu_named("h200"); }

// A copy of this many bytes, one vector of 16 bytes a thread.
Footprint copy(double bytes) {
  Footprint f;
  f.accesses.push_back({"x", false, bytes, bytes, 1});
  f.accesses.push_back({"y", true, bytes, bytes, 1});
  f.threads_per_block = 256;
  f.blocks = static_cast<int64_t>(std::ceil(bytes / 4096));
  f.registers_per_thread = 24;
  f.bytes_in_flight_per_thread = 16;
  return f;
}

TEST(KernelTime, ALargeCopyTakesItsBytes) {
  const KernelTime t = price_kernel(copy(134217728), h200());
  EXPECT_STREQ(t.bound, "memory");
  // Measured back to back: 65.5 us, 2 us of which are the launch.
  EXPECT_NEAR(t.total_us, 63.6, 0.1);
  EXPECT_NEAR(t.blocks_us, 19.7, 0.1);
  EXPECT_NEAR(t.latency_us, 11.2, 0.1);
}

TEST(KernelTime, SmallCopiesInAGraphAreAsMeasured) {
  const auto in_graph = [](double bytes) {
    return launch_us(Launcher::kGraph, h200()) + price_kernel(copy(bytes), h200()).total_us;
  };
  // Measured on one H200, a chain of pointwise kernels in a CUDA graph, microseconds each: within a sixth.
  EXPECT_NEAR(in_graph(65536), 1.23, 0.2);
  EXPECT_NEAR(in_graph(1048576), 1.51, 0.25);
  EXPECT_NEAR(in_graph(4194304), 2.26, 0.35);
  EXPECT_NEAR(in_graph(16777216), 6.0, 1.0);
}

TEST(KernelTime, LessInFlightIsSlower) {
  // A read with 8, 16, 24, 32 KB in flight an SM; measured 96, 54, 41, 37 us.
  const double measured_us[] = {96, 54, 41, 37};
  double last = 1e9;
  for (int i = 0; i < 4; ++i) {
    Footprint f = copy(134217728);
    f.accesses.pop_back();
    f.bytes_in_flight_per_thread = 4 * (i + 1);
    const double us = price_kernel(f, h200()).total_us;
    EXPECT_LT(us, last);
    EXPECT_NEAR(us / measured_us[i], 1, 0.15) << i;
    last = us;
  }
}

TEST(KernelTime, StoresDoNotWait) {
  // Measured: with one 16-byte load a thread a copy is at the limit also where registers leave room for three quarters
  // of the threads.
  Footprint f = copy(134217728);
  f.registers_per_thread = 40;
  EXPECT_NEAR(price_kernel(f, h200()).total_us, price_kernel(copy(134217728), h200()).total_us, 0.1);
}

TEST(KernelTime, LeavingOutAnAccessIsNeverSlower) {
  for (double bytes : {1e4, 1e6, 1e7, 2e7, 3e7, 5e7, 1e9}) {
    Footprint both = copy(bytes);
    Footprint one = both;
    one.accesses.pop_back();
    EXPECT_LE(price_kernel(one, h200()).total_us, price_kernel(both, h200()).total_us) << bytes;
  }
}

TEST(KernelTime, UncoalescedAccessesPayForSectors) {
  Footprint f = copy(134217728);
  f.accesses[1].efficiency = 1.0 / 16;
  const KernelTime t = price_kernel(f, h200());
  EXPECT_STREQ(t.bound, "l2");
  // Measured: PyTorch's transposing copy, of this kind, 430 us; our pointwise kernel 470.
  EXPECT_NEAR(t.total_us, 450, 25);
}

TEST(KernelTime, ArithmeticBinds) {
  Footprint f = copy(1048576);
  f.sfu = 1e9;
  const KernelTime t = price_kernel(f, h200());
  EXPECT_STREQ(t.bound, "sfu");
  EXPECT_NEAR(t.sfu_us, 1e9 / (132 * 16 * 1.75e3), 0.1 * t.sfu_us);
}

TEST(KernelTime, BlocksThatDoNotFitTakeForever) {
  Footprint f = copy(1048576);
  f.smem_bytes = 1 << 20;
  EXPECT_TRUE(std::isinf(price_kernel(f, h200()).total_us));
}

TEST(KernelTime, SpillsAndLowOccupancyCost) {
  const Footprint f = copy(134217728);
  Footprint spilled = f;
  spilled.spill_bytes = 256;
  EXPECT_GT(price_kernel(spilled, h200()).total_us, 2 * price_kernel(f, h200()).total_us);
  Footprint fat = f;
  fat.registers_per_thread = 255;
  EXPECT_GT(price_kernel(fat, h200()).total_us, 1.5 * price_kernel(f, h200()).total_us);
}

TEST(KernelTime, AFewTinyBlocksTakeALatency) {
  const KernelTime t = price_kernel(copy(4096), h200());
  EXPECT_STREQ(t.bound, "latency");
  EXPECT_NEAR(t.total_us, 0.6, 0.1);
}

TEST(KernelTime, WithoutBlocksThereIsNothingToDo) { EXPECT_EQ(price_kernel(copy(0), h200()).total_us, 0); }

TEST(KernelTime, ProductsTakeWholeWavesOfTheirTiles) {
  const auto product = [](int64_t blocks) {
    Footprint f;
    f.tensor_flops = 2.0 * 128 * 128 * 4096 * static_cast<double>(blocks);
    f.blocks = blocks;
    f.threads_per_block = 256;
    f.registers_per_thread = 200;
    return price_kernel(f, h200());
  };
  EXPECT_STREQ(product(1024).bound, "tensor");
  // 4096 x 4096 x 4096 by mma.sync, hand-written and untuned: 378 us.
  EXPECT_NEAR(product(1024).total_us / 378, 1, 0.2);
  EXPECT_NEAR(product(133).tensor_us / product(132).tensor_us, 2, 0.01);
}

TEST(KernelTime, WhatFollowsATiledProductIsNotHidden) {
  Footprint f;
  f.tensor_flops = 2.0 * 512 * 2048 * 2048;
  f.blocks = 128;
  f.threads_per_block = 128;
  f.registers_per_thread = 168;
  f.tile_phases = 1;
  const double bare_us = price_kernel(f, h200()).total_us;
  f.alu = 40.0 * 512 * 2048;  // a gelu
  const KernelTime with_gelu = price_kernel(f, h200());
  EXPECT_STREQ(with_gelu.bound, "tensor");
  EXPECT_GT(with_gelu.total_us, bare_us + 1);
  f.tile_phases = 2;
  EXPECT_GT(price_kernel(f, h200()).total_us, with_gelu.total_us + 1);
}

TEST(KernelTime, TransfersTakeLatencyAndLink) {
  EXPECT_NEAR(transfer_us(55e9, h200()), 1e6 + h200().link_latency_us, 1);
}

}  // namespace
}  // namespace tilewright
