// Triton kernels compiled to PTX (triton/kernels.py, triton/regenerate.py), against results computed here. Triton's
// kernels take two more pointers than they declare, for scratch memory that none of these uses.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernel_call.h"
#include "support/float_formats.h"

namespace tilewright::sim {
namespace {

// Launches the one kernel of triton/<name>.ptx, whose first line says "// W warps, B bytes of shared memory".
template <typename... Args>
void run_triton(const std::string& name, std::array<uint32_t, 3> grid, Args&&... args) {
  std::ifstream in(std::string(TILEWRIGHT_SOURCE_DIR) + "/test/core/simulator/triton/" + name + ".ptx");
  std::string slashes, word;
  uint32_t warps = 0;
  uint64_t smem_bytes = 0;
  in >> slashes >> warps >> word >> smem_bytes;
  ASSERT_GT(warps, 0u) << name;
  const auto module = parse_file("triton/" + name + ".ptx");
  LaunchConfig config = config_of(grid, {32 * warps, 1, 1}, smem_bytes);
  call(*module, name, config, args..., uint64_t{0}, uint64_t{0});
}

uint16_t half_bits(double x) { return static_cast<uint16_t>(encode(rounded(x, kHalf), kHalf)); }
uint16_t bf16_bits(double x) { return static_cast<uint16_t>(encode(rounded(x, kBFloat16), kBFloat16)); }
double half_value(uint16_t h) { return decode(h, kHalf); }
double bf16_value(uint16_t h) { return decode(h, kBFloat16); }

TEST(Triton, VectorAdd) {
  const int n = 2500;
  const std::vector<float> x = normal_floats(n, 1), y = normal_floats(n, 2);
  std::vector<float> out(n);
  run_triton("vector_add", {3, 1, 1}, x, y, out, n);
  for (int i = 0; i < n; ++i) ASSERT_EQ(out[i], x[i] + y[i]);
}

TEST(Triton, Softmax) {
  const int rows = 3, cols = 777;
  const std::vector<float> x = normal_floats(rows * cols, 3);
  std::vector<float> out(x.size());
  run_triton("softmax", {rows, 1, 1}, x, out, cols);
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int c = 0; c < cols; ++c) sum += std::exp(static_cast<double>(x[r * cols + c]));
    for (int c = 0; c < cols; ++c) {
      const double expected = std::exp(static_cast<double>(x[r * cols + c])) / sum;
      ASSERT_NEAR(out[r * cols + c], expected, expected * 1e-6);  // some ulp of ex2.approx and the sum
    }
  }
}

TEST(Triton, LayerNorm) {
  const int rows = 4, cols = 300;
  const std::vector<float> values = normal_floats(rows * cols, 4), weight = normal_floats(cols, 5),
                           bias = normal_floats(cols, 6);
  std::vector<uint16_t> x, out(values.size());
  for (float v : values) x.push_back(half_bits(v));
  std::vector<float> mean(rows);
  run_triton("layer_norm", {rows, 1, 1}, x, weight, bias, out, mean, cols, 1e-5f);
  for (int r = 0; r < rows; ++r) {
    double m = 0, v = 0;
    for (int c = 0; c < cols; ++c) m += half_value(x[r * cols + c]) / cols;
    for (int c = 0; c < cols; ++c) v += (half_value(x[r * cols + c]) - m) * (half_value(x[r * cols + c]) - m) / cols;
    ASSERT_NEAR(mean[r], m, 1e-6);
    for (int c = 0; c < cols; ++c) {
      const double expected = (half_value(x[r * cols + c]) - m) / std::sqrt(v + 1e-5) * weight[c] + bias[c];
      ASSERT_NEAR(half_value(out[r * cols + c]), expected, std::fabs(expected) * 0x1p-11 + 1e-5);
    }
  }
}

TEST(Triton, Matmul) {
  const int m = 70, n = 100, k = 72;
  const auto ia = integers<int32_t>(m * k, -8, 8, 7), ib = integers<int32_t>(k * n, -8, 8, 8);
  std::vector<uint16_t> a, b;
  for (int32_t v : ia) a.push_back(bf16_bits(v));
  for (int32_t v : ib) b.push_back(bf16_bits(v));
  std::vector<float> c(m * n);
  run_triton("matmul", {2, 2, 1}, a, b, c, m, n, k);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      int32_t sum = 0;
      for (int p = 0; p < k; ++p) sum += ia[i * k + p] * ib[p * n + j];
      ASSERT_EQ(c[i * n + j], static_cast<float>(sum)) << i << ", " << j;
    }
}

TEST(Triton, CausalAttention) {
  const int heads = 2, length = 128, depth = 32;
  const size_t size = static_cast<size_t>(heads) * length * depth;
  const std::vector<float> values = normal_floats(3 * size, 9);
  std::vector<uint16_t> q, k, v, out(size);
  for (size_t i = 0; i < size; ++i) {
    q.push_back(half_bits(values[i]));
    k.push_back(half_bits(values[size + i]));
    v.push_back(half_bits(values[2 * size + i]));
  }
  const float scale = 0.17677669f;
  run_triton("attention", {length / 64, heads, 1}, q, k, v, out, length, scale);
  for (int h = 0; h < heads; ++h)
    for (int i = 0; i < length; ++i) {
      const auto at = [&](const std::vector<uint16_t>& t, int row, int d) {
        return half_value(t[(static_cast<size_t>(h) * length + row) * depth + d]);
      };
      std::vector<double> p(static_cast<size_t>(i) + 1);
      double sum = 0;
      for (int j = 0; j <= i; ++j) {
        double s = 0;
        for (int d = 0; d < depth; ++d) s += at(q, i, d) * at(k, j, d);
        p[j] = std::exp(s * scale);
        sum += p[j];
      }
      for (int d = 0; d < depth; ++d) {
        double expected = 0;
        for (int j = 0; j <= i; ++j) expected += p[j] / sum * at(v, j, d);
        ASSERT_NEAR(at(out, i, d), expected, 2e-3) << h << " " << i << " " << d;  // p is rounded to 11 bits
      }
    }
}

TEST(Triton, Histogram) {
  const int n = 1300;
  const auto x = integers<int32_t>(n, 0, 63, 10);
  std::vector<int32_t> bins(64, 0), expected(64, 0);
  for (int32_t v : x) ++expected[v];
  run_triton("histogram", {3, 1, 1}, x, bins, n);
  EXPECT_EQ(bins, expected);
}

TEST(Triton, ScanRows) {
  const int rows = 3, cols = 412;
  const auto x = integers<int32_t>(rows * cols, -100, 100, 11);
  std::vector<int32_t> out(x.size()), expected(x.size());
  run_triton("scan_rows", {rows, 1, 1}, x, out, cols);
  for (int r = 0; r < rows; ++r)
    std::partial_sum(x.begin() + r * cols, x.begin() + (r + 1) * cols, expected.begin() + r * cols);
  EXPECT_EQ(out, expected);
}

TEST(Triton, Transpose) {
  const int rows = 45, cols = 72;
  const auto x = integers<uint16_t>(rows * cols, 0, 65535, 12);
  std::vector<uint16_t> out(x.size());
  run_triton("transpose", {2, 3, 1}, x, out, rows, cols);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) ASSERT_EQ(out[c * rows + r], x[r * cols + c]);
}

TEST(Triton, ArgMaxRows) {
  const int rows = 5, cols = 345;
  const auto steps = integers<int32_t>(rows * cols, -50, 50, 13);
  const std::vector<float> x(steps.begin(), steps.end());
  std::vector<float> value(rows);
  std::vector<int32_t> index(rows);
  run_triton("arg_max_rows", {rows, 1, 1}, x, value, index, cols);
  for (int r = 0; r < rows; ++r) {
    const auto best = std::max_element(x.begin() + r * cols, x.begin() + (r + 1) * cols);
    EXPECT_EQ(value[r], *best);
    EXPECT_EQ(index[r], best - x.begin() - r * cols);
  }
}

// Triton's generator: Philox4x32-10 of (offset, 0, 0, 0), its first word scaled to [0, 1).
float triton_rand(uint32_t seed, uint32_t offset) {
  uint32_t c[4] = {offset, 0, 0, 0}, key[2] = {seed, 0};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xd2511f53u} * c[0], p1 = uint64_t{0xcd9e8d57u} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(p1),
                              static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(p0)};
    std::copy_n(next, 4, c);
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  const auto x = static_cast<int32_t>(c[0]);
  return static_cast<float>(x < 0 ? -x - 1 : x) * 4.6566127342e-10f;
}

TEST(Triton, Dropout) {
  const int n = 1000;
  const std::vector<float> x = normal_floats(n, 14);
  std::vector<float> out(n);
  run_triton("dropout", {2, 1, 1}, x, out, n, 0.25f, 1234);
  for (int i = 0; i < n; ++i) {
    const float expected = triton_rand(1234, static_cast<uint32_t>(i)) > 0.25f ? x[i] / 0.75f : 0.0f;
    ASSERT_NEAR(out[i], expected, std::fabs(expected) * 0x1p-22f) << i;  // div.full: 2 ulp
  }
}

TEST(Triton, SortRows) {
  const auto x = integers<int32_t>(3 * 256, -100000, 100000, 15);
  std::vector<int32_t> out(x.size()), expected = x;
  run_triton("sort_rows", {3, 1, 1}, x, out);
  for (int r = 0; r < 3; ++r) std::sort(expected.begin() + r * 256, expected.begin() + (r + 1) * 256);
  EXPECT_EQ(out, expected);
}

TEST(Triton, GeluByErf) {
  const int n = 900;
  const std::vector<float> values = normal_floats(n, 16);
  std::vector<uint16_t> x, out(n);
  for (float v : values) x.push_back(bf16_bits(3.0 * v));
  run_triton("gelu_erf", {2, 1, 1}, x, out, n);
  for (int i = 0; i < n; ++i) {
    const double v = bf16_value(x[i]), expected = 0.5 * v * (1 + std::erf(v * std::sqrt(0.5)));
    // One rounding to 8 bits, and the cancellation of 1 + erf in float32.
    ASSERT_NEAR(bf16_value(out[i]), expected, std::fabs(expected) * 0x1p-8 + std::fabs(v) * 1e-7) << v;
  }
}

TEST(Triton, MatmulOfBytes) {
  const int m = 64, n = 32, k = 128;
  const auto a = integers<int8_t>(m * k, -128, 127, 17), b = integers<int8_t>(n * k, -128, 127, 18);
  std::vector<int32_t> c(m * n);
  run_triton("matmul_int8", {2, 1, 1}, a, b, c, k);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      int32_t sum = 0;
      for (int p = 0; p < k; ++p) sum += a[i * k + p] * b[j * k + p];
      ASSERT_EQ(c[i * n + j], sum);
    }
}

TEST(Triton, MatmulOfFloat8) {
  const int m = 32, n = 64, k = 64;
  // Bits of e4m3 without NaN: sign, exponent up to 10 of 15, mantissa; the value by the format's definition.
  const auto a = integers<uint8_t>(m * k, 0, 0x57, 19), b = integers<uint8_t>(n * k, 0x80, 0xd7, 20);
  const auto value = [](uint8_t v) {
    const int e = v >> 3 & 15, f = v & 7;
    const double magnitude = e == 0 ? std::ldexp(f, -9) : std::ldexp(8 + f, e - 10);
    return v & 0x80 ? -magnitude : magnitude;
  };
  std::vector<float> c(m * n);
  run_triton("matmul_fp8", {1, 2, 1}, a, b, c, k);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (int p = 0; p < k; ++p) {
        sum += value(a[i * k + p]) * value(b[j * k + p]);
        size += std::fabs(value(a[i * k + p]) * value(b[j * k + p]));
      }
      ASSERT_NEAR(c[i * n + j], sum, size * 0x1p-22);
    }
}

}  // namespace
}  // namespace tilewright::sim
