// CUDA C++ kernels as nvcc 13 compiles them (cuda/*.cu, cuda/regenerate.sh), against results computed here.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include "kernel_call.h"
#include "support/float_formats.h"

namespace tilewright::sim {
namespace {

const Module& module_of(const std::string& name) {
  static std::map<std::string, std::shared_ptr<const Module>> modules;
  auto& m = modules[name];
  if (!m) m = parse_file("cuda/" + name + ".ptx");
  return *m;
}

// ---- memory.cu -----------------------------------------------------------------------------------------------------

TEST(CudaMemory, Transposes) {
  const int rows = 67, cols = 95;
  const std::vector<float> in = normal_floats(rows * cols, 1);
  std::map<std::string, MemoryCounters> reads;
  for (const std::string name : {"transpose_padded", "transpose_conflicting", "transpose_swizzled"}) {
    std::vector<float> out(rows * cols);
    reads[name] =
        call(module_of("memory"), name, config_of({3, 3, 1}, {32, 8, 1}), in, out, rows, cols).total.shared_load;
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j) ASSERT_EQ(out[j * rows + i], in[i * cols + j]) << name;
  }
  EXPECT_EQ(reads["transpose_padded"].passes, reads["transpose_padded"].ideal_passes);
  EXPECT_EQ(reads["transpose_swizzled"].passes, reads["transpose_swizzled"].ideal_passes);
  EXPECT_GT(reads["transpose_conflicting"].passes, 10 * reads["transpose_conflicting"].ideal_passes);
}

TEST(CudaMemory, CopyByVectors) {
  const std::vector<float> in = normal_floats(4 * 1000, 2);
  std::vector<float> out(in.size());
  const LaunchResult r = call(module_of("memory"), "copy_vector4", config_1d(3, 128), in, out, 1000);
  EXPECT_EQ(out, in);
  // A vector's memory may begin within a sector: one more a request.
  EXPECT_LE(r.total.global_load.sectors, r.total.global_load.ideal_sectors + r.total.global_load.requests);
  EXPECT_EQ(r.total.global_load.bytes, in.size() * 4);
}

TEST(CudaMemory, Gather) {
  std::vector<double> table(500), out(1000);
  std::iota(table.begin(), table.end(), 0.5);
  const auto index = integers<int64_t>(1000, 0, 499, 3);
  call(module_of("memory"), "gather", config_1d(4, 256), std::as_const(table), index, out, 1000);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], static_cast<double>(index[i]) + 0.5);
}

TEST(CudaMemory, StencilWithConstantWeights) {
  const int n = 700;
  std::vector<float> in(n), out(n);
  for (int i = 0; i < n; ++i) in[i] = static_cast<float>(i * i % 31);
  call(module_of("memory"), "stencil_1d", config_1d(3, 256), in, out, n);
  for (int i = 0; i < n; ++i) {
    float expected = 0;  // small multiples of 1/16: exact in any order
    for (int k = -3; k <= 3; ++k)
      if (i + k >= 0 && i + k < n) expected += static_cast<float>(4 - std::abs(k)) * 0.0625f * in[i + k];
    ASSERT_EQ(out[i], expected) << i;
  }
}

TEST(CudaMemory, StencilsInTwoAndThreeDimensions) {
  const int height = 21, width = 45;
  const auto in = integers<int32_t>(height * width, -9, 9, 4);
  const std::vector<float> x(in.begin(), in.end());
  std::vector<float> out(x.size());
  call(module_of("memory"), "stencil_2d", config_of({2, 6, 1}, {32, 4, 1}), x, out, height, width);
  const auto at = [&](int r, int c) { return x[std::clamp(r, 0, height - 1) * width + std::clamp(c, 0, width - 1)]; };
  for (int r = 0; r < height; ++r)
    for (int c = 0; c < width; ++c)
      ASSERT_EQ(out[r * width + c], at(r, c - 1) + at(r, c + 1) + at(r - 1, c) + at(r + 1, c) - 4 * at(r, c));

  const int nz = 6, ny = 11, nx = 18;
  const auto cells = integers<int32_t>(nz * ny * nx, -9, 9, 5);
  const std::vector<float> volume(cells.begin(), cells.end());
  std::vector<float> result(volume.size(), 0);
  call(module_of("memory"), "stencil_3d", config_of({3, 3, 1}, {8, 4, 1}), volume, result, nz, ny, nx);
  for (int z = 1; z < nz - 1; ++z)
    for (int y = 1; y < ny - 1; ++y)
      for (int i = 1; i < nx - 1; ++i) {
        const size_t p = (static_cast<size_t>(z) * ny + y) * nx + i, plane = static_cast<size_t>(ny) * nx;
        const float sum = volume[p - plane] + volume[p + plane] + volume[p - 1] + volume[p + 1] + volume[p - nx] +
                          volume[p + nx] - 6 * volume[p];
        ASSERT_EQ(result[p], sum);
      }
}

TEST(CudaMemory, Life) {
  const int height = 13, width = 64;
  const auto in = integers<uint8_t>(height * width, 0, 1, 6);
  std::vector<uint8_t> out(in.size());
  call(module_of("memory"), "life", config_of({1, height, 1}, {16, 1, 1}), in, out, height, width);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      int alive = 0;
      for (int k = 0; k < 9; ++k)
        if (k != 4) alive += in[(y + k / 3 - 1 + height) % height * width + (x + k % 3 - 1 + width) % width];
      ASSERT_EQ(out[y * width + x], alive == 3 || (alive == 2 && in[y * width + x]));
    }
}

// ---- collective.cu -------------------------------------------------------------------------------------------------

std::vector<float> small_integers(size_t n, uint32_t seed) {
  const auto v = integers<int32_t>(n, -50, 50, seed);
  return {v.begin(), v.end()};
}

TEST(CudaCollective, Reductions) {
  const int n = 5000;
  const std::vector<float> x = small_integers(n, 7);
  const float expected = std::accumulate(x.begin(), x.end(), 0.0f);
  std::vector<float> sum(1, 0), partial(6), last(1);
  call(module_of("collective"), "reduce_atomic", config_1d(6, 160), x, sum, n);
  EXPECT_EQ(sum[0], expected);
  for (int repeat = 0; repeat < 2; ++repeat) {  // the ticket is back at zero after the first
    last[0] = -1;
    call(module_of("collective"), "reduce_last_block", config_1d(6, 160), x, partial, last, n);
    EXPECT_EQ(last[0], expected);
  }
}

TEST(CudaCollective, ArgMax) {
  const auto x = integers<int32_t>(3000, -1000, 1000, 8);
  std::vector<uint64_t> best(1, 0);
  call(module_of("collective"), "arg_max", config_1d(12, 256), x, best, 3000);
  const auto it = std::max_element(x.begin(), x.end());
  EXPECT_EQ(static_cast<int32_t>(static_cast<uint32_t>(best[0] >> 32) ^ 0x80000000u), *it);
  EXPECT_EQ(~static_cast<uint32_t>(best[0]), static_cast<uint32_t>(it - x.begin()));
}

TEST(CudaCollective, WelfordRows) {
  const int rows = 6, cols = 77;
  const std::vector<float> x = normal_floats(rows * cols, 9);
  std::vector<double> mean(rows), variance(rows);
  call(module_of("collective"), "welford_rows", config_of({3, 1, 1}, {32, 2, 1}), x, mean, variance, cols);
  for (int r = 0; r < rows; ++r) {
    double m = 0, v = 0;
    for (int c = 0; c < cols; ++c) m += x[r * cols + c] / static_cast<double>(cols);
    for (int c = 0; c < cols; ++c) v += (x[r * cols + c] - m) * (x[r * cols + c] - m) / cols;
    EXPECT_NEAR(mean[r], m, 1e-13);
    EXPECT_NEAR(variance[r], v, 1e-13);
  }
}

TEST(CudaCollective, Scans) {
  const int n = 2000;
  const auto x = integers<int32_t>(n, -100, 100, 10);
  std::vector<int32_t> expected(n), out(n), carry(8), ready(8, 0);
  std::partial_sum(x.begin(), x.end(), expected.begin());
  call(module_of("collective"), "scan_chained", config_1d(8, 256), x, out, carry, ready, n);
  EXPECT_EQ(out, expected);
  std::vector<int32_t> first(200);
  call(module_of("collective"), "scan_shared", config_of({1, 1, 1}, {256, 1, 1}, 2 * 256 * 4), x, first, 200);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), expected.begin()));
}

TEST(CudaCollective, Compaction) {
  const auto x = integers<int32_t>(1000, -5, 5, 11);
  std::vector<int32_t> out(1000, 0), count(1, 0), expected;
  LaunchConfig config = config_1d(4, 256);
  call(module_of("collective"), "compact", config, x, out, count, 1000);
  std::copy_if(x.begin(), x.end(), std::back_inserter(expected), [](int32_t v) { return v > 0; });
  ASSERT_EQ(static_cast<size_t>(count[0]), expected.size());
  out.resize(expected.size());
  std::sort(out.begin(), out.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(out, expected);
}

TEST(CudaCollective, Histograms) {
  const auto data = integers<uint8_t>(7000, 0, 60, 12);
  std::vector<uint32_t> expected(256, 0);
  for (uint8_t v : data) ++expected[v];
  for (const std::string name : {"histogram_shared", "histogram_match"}) {
    std::vector<uint32_t> bins(256, 0);
    call(module_of("collective"), name, config_1d(28, 256), data, bins, 7000);
    EXPECT_EQ(bins, expected) << name;
  }
}

TEST(CudaCollective, ReductionsOfAWarpAndOfGroups) {
  const auto x = integers<int32_t>(64, -1000, 1000, 13);
  std::vector<int32_t> out(6), tiles(16), odd(1, 0), expected(6);
  call(module_of("collective"), "warp_reductions", config_1d(1, 32), x, out);
  expected[0] = std::accumulate(x.begin(), x.begin() + 32, 0);
  expected[1] = *std::min_element(x.begin(), x.begin() + 32);
  expected[2] = *std::max_element(x.begin(), x.begin() + 32);
  expected[3] = std::accumulate(x.begin(), x.begin() + 32, -1, std::bit_and<>());
  expected[4] = std::accumulate(x.begin(), x.begin() + 32, 0, std::bit_or<>());
  expected[5] = std::accumulate(x.begin(), x.begin() + 32, 0, std::bit_xor<>());
  EXPECT_EQ(out, expected);
  call(module_of("collective"), "group_reductions", config_1d(1, 64), x, tiles, odd);
  int32_t odd_sum = 0;
  for (int32_t v : x) odd_sum += v & 1 ? v : 0;
  EXPECT_EQ(odd[0], odd_sum);
  for (int t = 0; t < 8; ++t) {
    EXPECT_EQ(tiles[2 * t], std::accumulate(x.begin() + 8 * t, x.begin() + 8 * t + 8, 0));
    EXPECT_EQ(tiles[2 * t + 1], *std::max_element(x.begin() + 8 * t, x.begin() + 8 * t + 8));
  }
}

TEST(CudaCollective, Sorts) {
  std::vector<float> f = normal_floats(512, 14), sorted = f;
  std::sort(sorted.begin(), sorted.end());
  call(module_of("collective"), "bitonic_sort", config_of({1, 1, 1}, {512, 1, 1}, 512 * 4), f);
  EXPECT_EQ(f, sorted);
  const auto keys = integers<uint32_t>(256, 0, 0xffff, 15);
  std::vector<uint32_t> out(256), expected = keys;
  call(module_of("collective"), "radix_digit_sort", config_1d(1, 256), keys, out, 4);
  std::stable_sort(expected.begin(), expected.end(),
                   [](uint32_t a, uint32_t b) { return (a >> 4 & 15) < (b >> 4 & 15); });
  EXPECT_EQ(out, expected);
}

TEST(CudaCollective, LocksAndAtomics) {
  std::vector<double> sum(1, 0);
  call(module_of("collective"), "locked_sum", config_1d(3, 64), sum);
  EXPECT_EQ(sum[0], 3 * 63 * 64 / 2);
  std::vector<int32_t> i{0, 0, 5, -5};
  std::vector<uint32_t> u{~0u, 0, 0, 0, 0};
  std::vector<uint64_t> l{0, ~uint64_t{0}, 0};
  std::vector<float> f{0, 0};
  std::vector<double> d{0};
  call(module_of("collective"), "atomics", config_1d(2, 96), i, u, l, f, d);
  EXPECT_EQ(i, (std::vector<int32_t>{191 * 96, -191 * 96, -191, 191}));
  uint32_t parity = 0, dec = 0;
  uint64_t powers = 0;
  for (uint32_t t = 0; t < 192; ++t) {
    parity ^= 1u << (t % 31);
    powers += uint64_t{1} << (t % 40);
    dec = dec == 0 || dec > 9 ? 9 : dec - 1;
  }
  EXPECT_EQ(u, (std::vector<uint32_t>{0, ~0u, parity, 192 % 10, dec}));
  EXPECT_EQ(l, (std::vector<uint64_t>{powers, 1000 - 191, 191}));
  EXPECT_EQ(f, (std::vector<float>{96, 7}));
  EXPECT_EQ(d[0], 48);
}

TEST(CudaCollective, GridBarrier) {
  std::vector<int32_t> values = integers<int32_t>(6 * 64, -9, 9, 31), next(values.size()), expected = values;
  call(module_of("collective"), "grid_steps", config_1d(6, 64), values, next);
  for (int step = 0; step < 3; ++step) {
    const std::vector<int32_t> before = expected;
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = before[i] + before[(i + 64) % before.size()];
  }
  EXPECT_EQ(values, expected);
}

// ---- matrix.cu -----------------------------------------------------------------------------------------------------

uint16_t to_bits(float x, const FloatFormat& format) {
  return static_cast<uint16_t>(encode(rounded(static_cast<double>(x), format), format));
}

TEST(CudaMatrix, GemmThroughSharedMemory) {
  const int m = 35, n = 50, k = 41;
  const std::vector<float> a = small_integers(m * k, 16), b = small_integers(k * n, 17);
  std::vector<float> c(m * n);
  call(module_of("matrix"), "gemm_shared", config_of({4, 3, 1}, {16, 16, 1}), a, b, c, m, n, k);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
      ASSERT_EQ(c[i * n + j], sum);
    }
}

// Small integers: products and sums are exact in every type and order. Element (row, column) of a and b as the layouts
// say; T and C are the types in memory.
template <typename T, typename C, typename ToT, typename ToC>
void check_wmma(const std::string& name, int tile_m, int tile_n, int k, bool a_rows, bool b_rows, ToT to_t, ToC to_c,
                int low = -4) {
  const int m = 2 * tile_m, n = 3 * tile_n;
  const auto a = integers<int32_t>(m * k, low, 4, 18), b = integers<int32_t>(k * n, low, 4, 19),
             c = integers<int32_t>(m * n, low, 4, 20);
  std::vector<T> ta(a.size()), tb(b.size());
  std::vector<C> tc(c.size()), d(c.size()), expected(c.size());
  for (int i = 0; i < m; ++i)
    for (int p = 0; p < k; ++p) ta[a_rows ? i * k + p : p * m + i] = to_t(a[i * k + p]);
  for (int p = 0; p < k; ++p)
    for (int j = 0; j < n; ++j) tb[b_rows ? p * n + j : j * k + p] = to_t(b[p * n + j]);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      int32_t sum = c[i * n + j];
      for (int p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
      tc[i * n + j] = to_c(c[i * n + j]);
      expected[i * n + j] = to_c(sum);
    }
  call(module_of("matrix"), name, config_of({3, 2, 1}, {32, 1, 1}), ta, tb, tc, d, n, k);
  EXPECT_EQ(d, expected) << name;
}

TEST(CudaMatrix, Wmma) {
  const auto f16 = [](int32_t x) { return to_bits(static_cast<float>(x), kHalf); };
  const auto bf16 = [](int32_t x) { return to_bits(static_cast<float>(x), kBFloat16); };
  const auto f32 = [](int32_t x) { return static_cast<float>(x); };
  const auto f64 = [](int32_t x) { return static_cast<double>(x); };
  const auto s32 = [](int32_t x) { return x; };
  const auto s8 = [](int32_t x) { return static_cast<int8_t>(x); };
  const auto u8 = [](int32_t x) { return static_cast<uint8_t>(x); };
  using H = uint16_t;
  check_wmma<H, float>("wmma_f16_rr", 16, 16, 48, true, true, f16, f32);
  check_wmma<H, float>("wmma_f16_rc", 16, 16, 48, true, false, f16, f32);
  check_wmma<H, float>("wmma_f16_cr", 16, 16, 48, false, true, f16, f32);
  check_wmma<H, float>("wmma_f16_cc", 16, 16, 48, false, false, f16, f32);
  check_wmma<H, float>("wmma_f16_wide", 8, 32, 32, true, true, f16, f32);
  check_wmma<H, float>("wmma_f16_tall", 32, 8, 32, true, false, f16, f32);
  check_wmma<H, H>("wmma_f16_f16", 16, 16, 48, true, false, f16, f16);
  check_wmma<H, float>("wmma_bf16", 16, 16, 48, true, false, bf16, f32);
  check_wmma<H, float>("wmma_bf16_wide", 8, 32, 48, false, true, bf16, f32);
  check_wmma<int8_t, int32_t>("wmma_s8", 16, 16, 32, true, false, s8, s32);
  check_wmma<uint8_t, int32_t>("wmma_u8_tall", 32, 8, 32, true, false, u8, s32, /*low=*/0);
  check_wmma<double, double>("wmma_f64", 8, 8, 12, true, false, f64, f64);
  check_wmma<float, float>("wmma_tf32", 16, 16, 24, true, false, f32, f32);
}

TEST(CudaMatrix, GemmByMmaWithAsynchronousCopies) {
  const int m = 128, n = 64, k = 160;
  const std::vector<float> a = small_integers(m * k, 21), b = small_integers(n * k, 22);
  std::vector<uint16_t> ha, hb;
  for (float x : a) ha.push_back(to_bits(x, kBFloat16));
  for (float x : b) hb.push_back(to_bits(x, kBFloat16));
  std::vector<float> c(m * n);
  const LaunchResult r =
      call(module_of("matrix"), "gemm_mma", config_of({n / 64, m / 64, 1}, {128, 1, 1}), ha, hb, c, m, n, k);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int p = 0; p < k; ++p) sum += a[i * k + p] * b[j * k + p];
      ASSERT_EQ(c[i * n + j], sum);
    }
  // Rows of 80 bytes: ldmatrix has no conflicts.
  EXPECT_EQ(r.total.shared_load.passes, r.total.shared_load.ideal_passes);
}

// ---- hopper.cu -----------------------------------------------------------------------------------------------------

TEST(CudaHopper, HistogramOverACluster) {
  const auto data = integers<uint32_t>(3000, 0, 4 * 50 - 1, 23);
  std::vector<uint32_t> bins(200, 0), expected(200, 0);
  for (uint32_t v : data) ++expected[v];
  call(module_of("hopper"), "cluster_histogram", config_of({8, 1, 1}, {64, 1, 1}, 50 * 4), data, bins, 3000, 50);
  EXPECT_EQ(bins, expected);
}

TEST(CudaHopper, SumOverACluster) {
  const std::vector<float> x = small_integers(128, 24);
  std::vector<float> out(4);
  call(module_of("hopper"), "cluster_sum", config_of({2, 2, 1}, {32, 1, 1}), x, out);
  const float sum = std::accumulate(x.begin(), x.end(), 0.0f);
  EXPECT_EQ(out, (std::vector<float>{sum, sum + 1, sum + 10, sum + 11}));
}

TEST(CudaHopper, BulkCopies) {
  const int chunks = 5;
  std::vector<float> in = normal_floats(chunks * 256 + 4, 25), out(in.size(), 0);
  // Bulk copies want 16-byte alignment, which a vector's memory has.
  call(module_of("hopper"), "bulk_scale", config_1d(1, 64), in, out, chunks, 3.0f);
  for (int i = 0; i < chunks * 256; ++i) ASSERT_EQ(out[i], 3.0f * in[i]);
  std::vector<int32_t> sums(128, 5);
  call(module_of("hopper"), "bulk_reduce", config_1d(7, 128), sums);
  for (int i = 0; i < 128; ++i) ASSERT_EQ(sums[i], 5 + 28 * i);
}

TEST(CudaHopper, StoresToAPeer) {
  const auto in = integers<int32_t>(256, -9, 9, 26);
  std::vector<int32_t> out(256);
  call(module_of("hopper"), "ring_send", config_1d(2, 32), in, out);
  for (int i = 0; i < 256; ++i) ASSERT_EQ(out[i], in[(i + 128) % 256]);
}

TEST(CudaHopper, BarriersAndPipelines) {
  const auto in = integers<int32_t>(64, -9, 9, 27);
  std::vector<int32_t> out(64);
  call(module_of("hopper"), "barrier_phases", config_1d(1, 64), in, out, 5);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(out[i], in[(i + 5) % 64] + 5);
  const auto rows = integers<int32_t>(6 * 128, -9, 9, 28);
  std::vector<int32_t> sums(128);
  call(module_of("hopper"), "pipeline_sum", config_1d(1, 128), rows, sums, 6);
  for (int i = 0; i < 128; ++i) {
    int32_t sum = 0;
    for (int r = 0; r < 6; ++r) sum += rows[r * 128 + 127 - i];
    ASSERT_EQ(sums[i], sum);
  }
}

TEST(CudaHopper, ElectionAndRegisters) {
  std::vector<int32_t> out(257, 0);
  call(module_of("hopper"), "elect_and_registers", config_1d(1, 256), out);
  EXPECT_EQ(out[0], 8);
  for (int i = 0; i < 256; ++i) ASSERT_EQ(out[1 + i], i / 128);
}

// ---- functions.cu --------------------------------------------------------------------------------------------------

TEST(CudaFunctions, BytecodeThroughATableOfBranches) {
  // Doubles the input, adds 5, and negates the sum when the input is odd.
  const std::vector<uint8_t> code{1, 2, 2, 4, 2, 5, 3, 1, 2, 1, 3, 7, 1, 6, 0};
  const auto input = integers<int32_t>(32, -20, 20, 29);
  std::vector<int32_t> out(32);
  call(module_of("functions"), "bytecode", config_1d(1, 32), code, input, out);
  for (int i = 0; i < 32; ++i) {
    const int32_t sum = 2 * input[i] + 5;
    ASSERT_EQ(out[i], (input[i] + 1) & 1 ? sum : -sum) << input[i];
  }
}

TEST(CudaFunctions, Calls) {
  std::vector<double> out(64);
  call(module_of("functions"), "struct_calls", config_1d(1, 32), out, 7);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(out[2 * i], 7 * 0.5 * i);
    EXPECT_EQ(out[2 * i + 1], 21 * 1000 + 'a' + 21);
  }
  std::vector<uint32_t> values(32);
  call(module_of("functions"), "recursion", config_1d(1, 32), values);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(values[i], 2 * (i % 4) + 3);  // Ackermann's function of 2 and n
}

TEST(CudaFunctions, PointersAndVirtualFunctions) {
  std::vector<float> x(64), expected(64);
  std::vector<int32_t> which(64);
  for (int i = 0; i < 64; ++i) {
    x[i] = static_cast<float>(i + 1);
    which[i] = i < 32 ? i * i % 3 : 1;
    expected[i] = which[i] == 0 ? 2 * x[i] : which[i] == 1 ? x[i] * x[i] : 1 / x[i];
  }
  call(module_of("functions"), "function_pointers", config_1d(1, 64), x, which);
  EXPECT_EQ(x, expected);
  std::vector<float> area(32);
  call(module_of("functions"), "virtual_calls", config_1d(1, 32), area);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(area[i], static_cast<float>((i % 3 == 0 ? 3 : 1) * i * i));
}

TEST(CudaFunctions, PrintfAndAssert) {
  std::string expected;
  for (int block = 0; block < 2; ++block) {
    expected += "plain\nplain\nplain\n";
    for (int t = 0; t < 3; ++t) {
      char line[200];
      std::snprintf(line, sizeof line, "%d %5d|%-4d|%04d %u %x %X %o %c%%\n", -t, t, t, t, 4000000000u + t, 255 + t,
                    255 + t, 8 + t, 'a' + t);
      expected += line;
    }
    for (int t = 0; t < 3; ++t) {
      char line[200];
      std::snprintf(line, sizeof line, "%lld %llu %lx %f %.3e %g %s\n", -5000000000ll - t, 10000000000000000000ull,
                    0xfedcba9876543210ul, 1.5 + t, 12345.678 * (t + 1), 0.0001 * (t + 1), t % 2 ? "odd" : "even");
      expected += line;
    }
  }
  EXPECT_EQ(call(module_of("functions"), "prints", config_1d(2, 32), 3).printed, expected);
  std::vector<int32_t> x(32, 1);
  call(module_of("functions"), "asserts", config_1d(1, 32), x);
  x[9] = -1;
  const std::string text = thrown<DeviceError>([&] { call(module_of("functions"), "asserts", config_1d(1, 32), x); });
  EXPECT_NE(text.find("assertion failed: x[threadIdx.x] >= 0 at functions.cu:"), std::string::npos) << text;
  EXPECT_NE(text.find("in void asserts(const int *)"), std::string::npos) << text;
  EXPECT_NE(text.find("thread (9, 0, 0)"), std::string::npos) << text;
}

TEST(CudaFunctions, BlackScholes) {
  const int n = 300;
  std::vector<float> spot(n), strike(n), years(n), call_price(n), put_price(n);
  for (int i = 0; i < n; ++i) {
    spot[i] = 5 + 0.1f * static_cast<float>(i);
    strike[i] = 20;
    years[i] = 0.25f + 0.01f * static_cast<float>(i % 90);
  }
  call(module_of("functions"), "black_scholes", config_1d(2, 160), spot, strike, years, call_price, put_price, n);
  const auto normal = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  for (int i = 0; i < n; ++i) {
    const double root = 0.3f * std::sqrt(static_cast<double>(years[i]));
    const double d1 =
        (std::log(static_cast<double>(spot[i]) / strike[i]) + (0.02f + 0.5 * 0.3f * 0.3f) * years[i]) / root;
    const double discounted = strike[i] * std::exp(-0.02f * static_cast<double>(years[i]));
    const double expected = spot[i] * normal(d1) - discounted * normal(d1 - root);
    ASSERT_NEAR(call_price[i], expected, 2e-5) << i;  // prices up to 35 in float32, of a difference
    ASSERT_NEAR(put_price[i], expected - spot[i] + discounted, 2e-5) << i;
  }
}

TEST(CudaFunctions, Mandelbrot) {
  const int width = 40, height = 25, most = 60;
  std::vector<int32_t> out(width * height);
  call(module_of("functions"), "mandelbrot", config_of({5, 4, 1}, {8, 8, 1}), out, width, height, most);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const double cr = -2 + 3.0 * x / width, ci = -1 + 2.0 * y / height;
      double zr = 0, zi = 0;
      int steps = 0;
      // Contractions as nvcc makes them, so that not even cells at the border differ.
      while (steps < most && std::fma(zr, zr, zi * zi) <= 4) {
        const double r = std::fma(zr, zr, -(zi * zi)) + cr;
        zi = std::fma(zr + zr, zi, ci);
        zr = r;
        ++steps;
      }
      ASSERT_NEAR(out[y * width + x], steps, 0) << x << ", " << y;
    }
}

TEST(CudaFunctions, Philox) {
  std::vector<uint32_t> out(4 * 64);
  call(module_of("functions"), "philox", config_1d(2, 32), out, 0u, 0u);
  // Random123's known answer for counter and key zero.
  EXPECT_EQ(out[0], 0x6627e8d5u);
  EXPECT_EQ(out[1], 0xe169c58du);
  EXPECT_EQ(out[2], 0xbc57ac4cu);
  EXPECT_EQ(out[3], 0x9b00dbd8u);
}

TEST(CudaFunctions, WideIntegersAndPackedBytes) {
  std::vector<uint64_t> a(32), b(32), out(128);
  std::mt19937_64 random(30);
  for (int i = 0; i < 32; ++i) {
    a[i] = random() >> (i * 2 % 60);
    b[i] = random() >> (i * 5 % 60);
  }
  call(module_of("functions"), "wide_integers", config_1d(1, 32), a, b, out);
  for (int i = 0; i < 32; ++i) {
    const unsigned __int128 p = static_cast<unsigned __int128>(a[i]) * b[i] + a[i];
    ASSERT_EQ(out[4 * i], static_cast<uint64_t>(p));
    ASSERT_EQ(out[4 * i + 1], static_cast<uint64_t>(p >> 64));
    ASSERT_EQ(out[4 * i + 2], a[i] / (b[i] | 1));
    ASSERT_EQ(out[4 * i + 3], static_cast<uint64_t>(static_cast<int64_t>(a[i]) % static_cast<int64_t>(b[i] | 1)));
  }
  std::vector<uint32_t> x(32), y(32), bytes(320);
  for (int i = 0; i < 32; ++i) {
    x[i] = static_cast<uint32_t>(random());
    y[i] = static_cast<uint32_t>(random());
  }
  call(module_of("functions"), "packed_bytes", config_1d(1, 32), x, y, bytes);
  for (int i = 0; i < 32; ++i) {
    const auto u = [](uint32_t v, int k) { return static_cast<int>(v >> (8 * k) & 255); };
    const auto s = [&](uint32_t v, int k) { return static_cast<int>(static_cast<int8_t>(u(v, k))); };
    const uint64_t pair = uint64_t{y[i]} << 32 | x[i];
    const auto byte = [&](int k) { return static_cast<uint32_t>(pair >> (8 * k) & 255); };
    uint32_t e[10] = {byte(5) | byte(7) << 8 | byte(1) << 16 | byte(3) << 24, 7};
    for (int k = 0; k < 4; ++k) {
      const auto put = [&](int n, int v) { e[n] |= (static_cast<uint32_t>(v) & 255) << (8 * k); };
      e[1] += static_cast<uint32_t>(s(x[i], k) * s(y[i], k));
      put(2, u(x[i], k) + u(y[i], k));
      put(3, std::abs(u(x[i], k) - u(y[i], k)));
      put(4, std::max(s(x[i], k), s(y[i], k)));
      put(5, u(x[i], k) > u(y[i], k) ? 255 : 0);
      put(6, (u(x[i], k) + u(y[i], k) + 1) / 2);
    }
    for (int k = 0; k < 2; ++k) {
      const auto half = [&](uint32_t v) { return static_cast<int>(static_cast<int16_t>(v >> (16 * k))); };
      e[7] |= (static_cast<uint32_t>(std::clamp(half(x[i]) - half(y[i]), -32768, 32767)) & 0xffff) << (16 * k);
    }
    e[8] = static_cast<uint32_t>((pair << 0 << (y[i] & 31)) >> 32);
    uint32_t reversed = 0, first = 0;
    for (int k = 0; k < 32; ++k) reversed |= (x[i] >> k & 1) << (31 - k);
    while (first < 32 && !(y[i] >> first & 1)) ++first;
    e[9] = reversed ^ static_cast<uint32_t>(std::countl_zero(y[i])) ^ static_cast<uint32_t>(std::popcount(x[i])) ^
           (first + 1);
    for (int n = 0; n < 10; ++n) ASSERT_EQ(bytes[10 * i + n], e[n]) << n << " of " << x[i] << ", " << y[i];
  }
}

TEST(CudaFunctions, SmallFloats) {
  const std::vector<float> x{0,   1,   -1.5f,  0.3f,  1000, -70000, 1e-6f, 448,
                             460, 500, 0.017f, 3.25f, 300,  1e-9f,  -0.0f, 6};
  std::vector<float> out(8 * x.size());
  call(module_of("functions"), "small_floats", config_1d(1, static_cast<uint32_t>(x.size())), x, out);
  const auto nearest = [](double v, int mantissa, int least, double most, bool saturates) {
    const double magnitude = std::fabs(v);
    const int exponent = std::max(magnitude > 0 ? std::ilogb(magnitude) : least, least);
    double r = std::nearbyint(std::ldexp(magnitude, mantissa - exponent));
    r = std::ldexp(r, exponent - mantissa);
    if (r > most) r = saturates ? most : INFINITY;
    return static_cast<float>(std::copysign(r, v));
  };
  for (size_t i = 0; i < x.size(); ++i) {
    const float* o = &out[8 * i];
    const auto f16 = [&](double v) { return nearest(v, 10, -14, 65504, false); };
    const auto bf16 = [&](double v) { return nearest(v, 7, -126, 0x1.fep127, false); };
    EXPECT_EQ(o[0], f16(x[i])) << x[i];
    EXPECT_EQ(o[1], bf16(x[i])) << x[i];
    EXPECT_EQ(o[2], nearest(x[i], 3, -6, 448, true)) << x[i];
    EXPECT_EQ(o[3], nearest(x[i], 2, -14, 57344, true)) << x[i];
    EXPECT_EQ(o[4], f16(0.5 * f16(x[i]) + 1)) << x[i];
    EXPECT_EQ(o[5], f16(0.5 * f16(x[i]) - 1)) << x[i];
    EXPECT_EQ(o[6], bf16(3.0 * bf16(x[i]))) << x[i];
    const double power = std::exp2(f16(0.125 * x[i]));
    if (power > 65504) continue;
    EXPECT_NEAR(o[7], power, 0x1p-10 * power + 0x1p-24) << x[i];
  }
}

}  // namespace
}  // namespace tilewright::sim
