#include "cost/occupancy.h"

#include <gtest/gtest.h>

#include <string>

namespace tilewright {
namespace {

const GpuFacts& h200() { return gpu_named("h200"); }

TEST(Occupancy, ThreadsLimit) {
  const Occupancy o = occupancy(256, 32, 0, h200());
  EXPECT_EQ(o.blocks_per_sm, 8);
  EXPECT_EQ(o.warps_per_sm, 64);
  EXPECT_DOUBLE_EQ(o.fraction, 1);
}

TEST(Occupancy, RegistersLimit) {
  // 8 warps of 64 * 32 = 2048 registers: 8 warps a register file of 16384, 32 warps an SM.
  const Occupancy o = occupancy(256, 64, 0, h200());
  EXPECT_EQ(o.blocks_per_sm, 4);
  EXPECT_STREQ(o.limit, "registers");
  EXPECT_DOUBLE_EQ(o.fraction, 0.5);
}

TEST(Occupancy, RegistersAreGivenInUnits) {
  // 33 registers a thread take as much as 40: 1280 a warp, 12 warps a file, 48 warps an SM.
  EXPECT_EQ(occupancy(128, 33, 0, h200()).blocks_per_sm, 12);
  EXPECT_EQ(occupancy(128, 40, 0, h200()).blocks_per_sm, 12);
  EXPECT_EQ(occupancy(128, 41, 0, h200()).blocks_per_sm, 10);
}

TEST(Occupancy, SharedMemoryLimit) {
  const Occupancy o = occupancy(256, 32, 100 * 1024, h200());
  EXPECT_EQ(o.blocks_per_sm, 2);
  EXPECT_STREQ(o.limit, "shared memory");
  EXPECT_EQ(occupancy(256, 32, 227 * 1024, h200()).blocks_per_sm, 1);
}

TEST(Occupancy, BlocksLimit) {
  const Occupancy o = occupancy(32, 16, 0, gpu_named("rtx3090"));
  EXPECT_EQ(o.blocks_per_sm, 16);
  EXPECT_STREQ(o.limit, "blocks");
}

TEST(Occupancy, WhatCannotBeLaunched) {
  EXPECT_EQ(occupancy(1024, 255, 0, h200()).blocks_per_sm, 0);
  EXPECT_EQ(occupancy(256, 300, 0, h200()).blocks_per_sm, 0);
  EXPECT_EQ(occupancy(256, 32, 228 * 1024, h200()).blocks_per_sm, 0);
  EXPECT_EQ(occupancy(2048, 32, 0, h200()).blocks_per_sm, 0);
}

}  // namespace
}  // namespace tilewright
