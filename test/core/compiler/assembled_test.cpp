#include "compiler/assembled.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

// Before decompose, and after.
const char* kAbsNeg = R"tw(
graph @source(%x: f32[16777216]) -> f32[16777216]
{
  %a = call aten.abs.default(%x) : f32[16777216] strides [1]
  %b = call aten.neg.default(%a) : f32[16777216] strides [1]
  return %b
}

graph @g(%x: f32[16777216]) -> f32[16777216]
{
  %a = abs %x : f32[16777216] strides [1] from [0]
  %b = neg %a : f32[16777216] strides [1] from [1]
  return %b
}
)tw";

MachineCode machine_code(int registers, int64_t spill_bytes) {
  MachineCode code;
  code.registers = registers;
  code.spill_store_bytes = code.spill_load_bytes = spill_bytes;
  return code;
}

class Assembled : public testing::Test {
 protected:
  Assembled() : graphs_(parse_graphs(kAbsNeg)) {
    ctx_.options.kernels = "auto";
    ctx_.gpu = gpu_named("h200");
  }

  Partition partition() {
    return tilewright::partition(graphs_[1], graphs_[0], ctx_, [this](const Graph& body, const Context& ctx) {
      Proposal proposal = propose(body, ctx);
      assembled_.correct(body, proposal);
      return proposal;
    });
  }

  std::vector<Graph> graphs_;
  Context ctx_;
  AssembledKernels assembled_;
};

TEST_F(Assembled, AGroupThatSpillsIsSplit) {
  Partition whole = partition();
  ASSERT_EQ(whole.kernels.size(), 1U);
  const double decided_by_us = whole.kernels[0].time.kernel_us;

  const MachineCode spilling = machine_code(255, 2000);
  EXPECT_TRUE(assembled_.correct(whole.kernels[0], spilling, ctx_.gpu));
  EXPECT_GT(whole.kernels[0].time.kernel_us, 2 * decided_by_us);
  EXPECT_EQ(whole.kernels[0].variants[0].footprint.registers_per_thread, 255);
  EXPECT_EQ(whole.kernels[0].variants[0].footprint.spill_bytes, 2000);

  const Partition split = partition();
  EXPECT_EQ(split.kernels.size(), 2U);
  EXPECT_LT(split.time().total_us(), whole.kernels[0].time.total_us());
}

TEST_F(Assembled, AGroupAsGoodAsPredictedStays) {
  Partition whole = partition();
  Kernel& kernel = whole.kernels[0];
  const int predicted = kernel.variants[0].footprint.registers_per_thread;
  EXPECT_FALSE(assembled_.correct(kernel, machine_code(predicted + 1, 0), ctx_.gpu));
  EXPECT_EQ(kernel.variants[0].footprint.registers_per_thread, predicted + 1);
  EXPECT_EQ(partition().kernels.size(), 1U);
}

TEST_F(Assembled, WhatIsKnownIsNotLearntAgain) {
  Partition whole = partition();
  const MachineCode spilling = machine_code(255, 2000);
  EXPECT_TRUE(assembled_.correct(whole.kernels[0], spilling, ctx_.gpu));
  EXPECT_FALSE(assembled_.correct(whole.kernels[0], spilling, ctx_.gpu));
}

}  // namespace
}  // namespace tilewright
