#include <gtest/gtest.h>

#include <set>

#include "target/gpu.h"

namespace tilewright {
namespace {

TEST(GpuTable, EveryRowIsComplete) {
  std::set<std::string> names;
  for (const GpuFacts& gpu : gpu_table()) {
    SCOPED_TRACE(gpu.name);
    EXPECT_TRUE(names.insert(gpu.name).second);
    EXPECT_GT(gpu.sms, 0);
    EXPECT_EQ(gpu.max_threads_per_sm % 32, 0);
    EXPECT_GT(gpu.max_blocks_per_sm, 0);
    EXPECT_GT(gpu.smem_optin_bytes, 48 * 1024);
    EXPECT_EQ(gpu.smem_per_sm_bytes, gpu.smem_optin_bytes + gpu.smem_reserved_bytes);
    EXPECT_GT(gpu.l2_bytes, 0);
    EXPECT_GT(gpu.l2_bytes_per_s, gpu.dram_bytes_per_s);
    for (double rate :
         {gpu.clock_hz, gpu.dram_bytes_per_s, gpu.link_bytes_per_s, gpu.link_latency_us, gpu.fma_f32, gpu.fma_f64,
          gpu.alu, gpu.sfu, gpu.tensor_bf16, gpu.launch_host_us, gpu.launch_graph_us, gpu.kernel_fixed_us,
          gpu.call_host_us, gpu.latency_us, gpu.bytes_in_flight_per_sm, gpu.blocks_per_us}) {
      EXPECT_GT(rate, 0);
    }
    EXPECT_FALSE(gpu.as_ptx);
  }
}

TEST(GpuTable, EveryArchitectureHasARowToPriceFor) {
  for (const GpuFacts& gpu : gpu_table()) {
    const GpuFacts* row = default_gpu_of(gpu.arch);
    ASSERT_NE(row, nullptr) << gpu.arch;
    EXPECT_EQ(row->arch, gpu.arch);
  }
  EXPECT_EQ(default_gpu_of("sm_89")->name, "l4");
  EXPECT_EQ(default_gpu_of("sm_75"), nullptr);
}

TEST(GpuTable, FindsByNameAsPeopleWriteIt) {
  EXPECT_EQ(find_gpu("H200")->name, "h200");
  EXPECT_EQ(find_gpu("RTX 4090")->name, "rtx4090");
  EXPECT_EQ(find_gpu("v100"), nullptr);
}

TEST(GpuTable, AnUnknownNameGetsTheNearest) {
  try {
    gpu_named("rtx409");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "no gpu \"rtx409\" in the table; did you mean \"rtx4090\"? known: a100, rtx3090, l4, "
                 "rtx4090, h100, h200");
  }
}

GpuAttributes attributes(std::string name, int major, int minor) {
  GpuAttributes a;
  a.name = std::move(name);
  a.cc_major = major;
  a.cc_minor = minor;
  return a;
}

TEST(GpuFromAttributes, TakesTheRowWithTheDriversLimits) {
  GpuAttributes a = attributes("NVIDIA H200", 9, 0);
  a.sms = 66;
  const GpuChoice half = gpu_from_attributes(a);
  ASSERT_TRUE(half.verdict) << half.verdict.why_not;
  EXPECT_EQ(half.gpu.name, "h200");
  EXPECT_EQ(half.gpu.sms, 66);
  EXPECT_DOUBLE_EQ(half.gpu.blocks_per_us, find_gpu("h200")->blocks_per_us / 2);
  EXPECT_EQ(half.gpu.smem_optin_bytes, find_gpu("h200")->smem_optin_bytes);
  EXPECT_TRUE(half.gpu.measured);

  EXPECT_EQ(gpu_from_attributes(attributes("NVIDIA A100-SXM4-80GB", 8, 0)).gpu.name, "a100");
  EXPECT_EQ(gpu_from_attributes(attributes("NVIDIA GeForce RTX 3090", 8, 6)).gpu.name, "rtx3090");
}

TEST(GpuFromAttributes, ANamesakeIsNotTheRow) {
  EXPECT_EQ(gpu_from_attributes(attributes("NVIDIA L40S", 8, 9)).gpu.name, "nvidial40s");
  EXPECT_EQ(gpu_from_attributes(attributes("NVIDIA GeForce RTX 3090 Ti", 8, 6)).gpu.name, "nvidiageforcertx3090ti");
}

TEST(GpuFromAttributes, AnUnknownGpuOfAKnownArchitectureBorrowsRates) {
  GpuAttributes a = attributes("NVIDIA RTX A6000", 8, 6);
  a.sms = 84;
  a.clock_khz = 1800000;
  a.memory_clock_khz = 8001000;
  a.memory_bus_bits = 384;
  const GpuChoice choice = gpu_from_attributes(a);
  ASSERT_TRUE(choice.verdict);
  EXPECT_EQ(choice.gpu.arch, "sm_86");
  EXPECT_FALSE(choice.gpu.as_ptx);
  EXPECT_FALSE(choice.gpu.measured);
  EXPECT_NEAR(choice.gpu.dram_bytes_per_s, 768e9 * 0.88, 1e9);
  EXPECT_DOUBLE_EQ(choice.gpu.clock_hz, 1.8e9);
}

TEST(GpuFromAttributes, ANewerGpuTakesSm80CodeAsPtx) {
  GpuAttributes a = attributes("NVIDIA B200", 10, 0);
  a.sms = 148;
  a.smem_optin_bytes = 227 * 1024;
  const GpuChoice choice = gpu_from_attributes(a);
  ASSERT_TRUE(choice.verdict);
  EXPECT_EQ(choice.gpu.arch, "sm_80");
  EXPECT_TRUE(choice.gpu.as_ptx);
  EXPECT_EQ(choice.gpu.sms, 148);
  EXPECT_FALSE(choice.gpu.has_clusters);
}

TEST(GpuFromAttributes, AnOlderGpuIsRefusedWithOneSentence) {
  const GpuChoice choice = gpu_from_attributes(attributes("Tesla T4", 7, 5));
  EXPECT_FALSE(choice.verdict);
  EXPECT_EQ(choice.verdict.why_not,
            "Tesla T4 has compute capability 7.5; kernels need 8.0 or newer, so everything is left to PyTorch");
}

}  // namespace
}  // namespace tilewright
