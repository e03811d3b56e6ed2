// Whole kernels as nvcc 13 prints them, kept as data.
#include <cmath>
#include <numeric>

#include "run.h"

namespace tilewright::sim {
namespace {

std::vector<float> ramp(size_t n, float scale = 1.0f) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = scale * static_cast<float>(static_cast<int>(i * 37 % 101) - 50);
  return v;
}

TEST(Kernels, VectorAdd) {
  const auto module = parse(read_data("kernels_sm90a.ptx"));
  const int n = 1000;
  std::vector<float> x = ramp(n), y = ramp(n, 0.5f), z(n, 0.0f);
  const std::vector<Allocation> memory{allocation(x, "x", false), allocation(y, "y", false), allocation(z, "z")};
  const std::vector<std::vector<std::byte>> args{pointer(x), pointer(y), pointer(z), arg(n)};
  const LaunchResult r = launch(*module, "vector_add", config_1d(4, 256), args, memory);
  for (int i = 0; i < n; ++i) ASSERT_EQ(z[i], x[i] + y[i]) << i;
  EXPECT_EQ(r.total.blocks, 4u);
  EXPECT_EQ(r.total.global_load.bytes, 2u * n * 4);
  EXPECT_EQ(r.total.global_store.bytes, 1u * n * 4);
}

void check_transpose(const char* name, uint64_t& passes, uint64_t& ideal) {
  const auto module = parse(read_data("kernels_sm90a.ptx"));
  const int rows = 70, cols = 45;
  std::vector<float> in(rows * cols), out(rows * cols);
  std::iota(in.begin(), in.end(), 0.0f);
  LaunchConfig config;
  config.grid = {2, 3, 1};
  config.block = {32, 8, 1};
  const std::vector<Allocation> memory{allocation(in, "in"), allocation(out, "out")};
  const std::vector<std::vector<std::byte>> args{pointer(in), pointer(out), arg(rows), arg(cols)};
  const LaunchResult r = launch(*module, name, config, args, memory);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) ASSERT_EQ(out[j * rows + i], in[i * cols + j]);
  passes = r.total.shared_load.passes;
  ideal = r.total.shared_load.ideal_passes;
}

TEST(Kernels, TransposeThroughSharedMemory) {
  uint64_t passes, ideal;
  check_transpose("transpose_tiled", passes, ideal);
  EXPECT_EQ(passes, ideal);
  check_transpose("transpose_conflict", passes, ideal);
  EXPECT_GT(passes, 10 * ideal);
}

TEST(Kernels, BlockReduction) {
  const auto module = parse(read_data("kernels_sm90a.ptx"));
  const int n = 5000;
  std::vector<float> x = ramp(n), out(1, 0.0f);
  const std::vector<Allocation> memory{allocation(x, "x"), allocation(out, "out")};
  const std::vector<std::vector<std::byte>> args{pointer(x), pointer(out), arg(n)};
  launch(*module, "block_reduce", config_1d(5, 160), args, memory);
  EXPECT_EQ(out[0], std::accumulate(x.begin(), x.end(), 0.0f));  // small integers: exact in any order
}

TEST(Kernels, SoftmaxOfBfloat16Rows) {
  for (const char* file : {"kernels_sm90a.ptx", "kernels_sm80_fast_math.ptx"}) {
    const auto module = parse(read_data(file));
    const int rows = 3, cols = 333;
    std::vector<uint16_t> x(rows * cols), out(rows * cols);
    std::vector<float> wide(rows * cols);
    for (int i = 0; i < rows * cols; ++i) {
      const float v = 0.01f * static_cast<float>((i * 7919) % 601 - 300);
      x[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16);
      wide[i] = std::bit_cast<float>(static_cast<uint32_t>(x[i]) << 16);
    }
    LaunchConfig config = config_1d(rows, 128);
    config.dynamic_smem_bytes = cols * sizeof(float);
    const std::vector<Allocation> memory{allocation(x, "x"), allocation(out, "out")};
    const std::vector<std::vector<std::byte>> args{pointer(x), pointer(out), arg(cols)};
    launch(*module, "softmax_rows", config, args, memory);
    for (int r = 0; r < rows; ++r) {
      double sum = 0;
      for (int c = 0; c < cols; ++c) sum += std::exp(static_cast<double>(wide[r * cols + c]));
      for (int c = 0; c < cols; ++c) {
        const double expected = std::exp(static_cast<double>(wide[r * cols + c])) / sum;
        const double got = std::bit_cast<float>(static_cast<uint32_t>(out[r * cols + c]) << 16);
        ASSERT_NEAR(got, expected, expected / 200) << file;  // one rounding to 8 bits
      }
    }
  }
}

// A call with a local array, a switch through brx.idx, printf and assert.
TEST(Kernels, FunctionsSwitchesPrintfAndAssert) {
  const auto module = parse(read_data("functions_sm90a.ptx"));
  std::vector<float> out(32);
  const std::vector<Allocation> memory{allocation(out, "out")};
  const auto run = [&](int n) {
    return launch(*module, "dev", config_1d(1, 32), std::vector<std::vector<std::byte>>{pointer(out), arg(n)}, memory);
  };
  EXPECT_EQ(run(5).printed, "hello 3 4.000000 str\n");
  const float table[] = {1, 2, 3, 4};
  for (int i = 0; i < 32; ++i) {
    const float x = static_cast<float>(i * ((5 + i) & 7)) + table[i & 3];
    const float results[] = {x + 1, x * 2, x - 3, -x, x / 3, std::sin(x), x, x};
    EXPECT_NEAR(out[i], results[i & 7], 1e-6f) << i;
  }
  const std::string text = thrown<DeviceError>([&] { run(500); });
  EXPECT_NE(text.find("assertion failed: n < 100 at"), std::string::npos) << text;
}

TEST(Kernels, HistogramInSharedMemory) {
  const auto module = parse(read_data("functions_sm90a.ptx"));
  std::vector<uint8_t> data(10000);
  std::vector<int> expected(256), counts(256);
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<uint8_t>(i * i % 251);
    ++expected[data[i]];
  }
  LaunchConfig config = config_1d(4, 96);
  config.check_races = config.check_uninitialized = true;
  const std::vector<Allocation> memory{allocation(data, "data"), allocation(counts, "counts")};
  launch(*module, "hist", config, std::vector<std::vector<std::byte>>{pointer(data), pointer(counts), arg(10000)},
         memory);
  EXPECT_EQ(counts, expected);
}

TEST(Kernels, InfoOfAnEntry) {
  const auto module = parse(read_data("kernels_sm90a.ptx"));
  const KernelInfo info = kernel_info(*module, "transpose_tiled");
  EXPECT_EQ(info.param_bytes, (std::vector<uint32_t>{8, 8, 4, 4}));
  EXPECT_EQ(info.static_smem_bytes, 32u * 33 * 4);
  EXPECT_FALSE(info.uses_dynamic_smem);
  EXPECT_TRUE(kernel_info(*module, "softmax_rows").uses_dynamic_smem);
  EXPECT_THROW(kernel_info(*module, "nothing"), UserError);
}

}  // namespace
}  // namespace tilewright::sim
