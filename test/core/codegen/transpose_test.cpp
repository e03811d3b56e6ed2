// Kernels whose operands lie in memory in different orders, against the interpreter.

#include "schedule/transpose.h"

#include <random>

#include "kernel_runner.h"

namespace tilewright {
namespace {

void expect_transposes(KernelRunner& runner) {
  runner.check_shared = true;
  ASSERT_FALSE(runner.proposal.candidates.empty());
  EXPECT_EQ(runner.proposal.candidates[0].schedule.family, "transpose");
}

TEST(Transpose, EveryElementType) {
  for (const char* type : {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"}) {
    SCOPED_TRACE(type);
    const std::string t = type, op = t == "bool" ? "not" : "neg";
    KernelRunner runner("graph @k(%0: " + t + "[s0, s1]) -> " + t +
                        "[s1, s0]\n  symbols (s0 = 4096 in [0, 65536], s1 = 1024 in [0, 65536])\n{\n  %1 = permute "
                        "%0 dims [1, 0]\n  %2 = " +
                        op + " %1\n  return %2\n}\n");
    expect_transposes(runner);
    runner.check({{"s0", 160}, {"s1", 144}});
    runner.check({{"s0", 37}, {"s1", 65}});
  }
}

TEST(Transpose, AnySizeAndAlignment) {
  KernelRunner runner(R"(
graph @k(%0: bf16[s2, s0, s1], %1: bf16[s2, s1, s0]) -> bf16[s2, s1, s0]
  symbols (s0 = 4096 in [0, 100000], s1 = 1024 in [0, 100000], s2 = 2 in [0, 100000])
{
  %2 = permute %0 dims [0, 2, 1]
  %3 = add %2, %1
  %4 = abs %3
  return %4
}
)");
  expect_transposes(runner);
  for (const auto& [s0, s1, s2] : std::vector<std::array<int64_t, 3>>{{0, 5, 2},
                                                                      {5, 0, 2},
                                                                      {8, 8, 0},
                                                                      {1, 1, 1},
                                                                      {1, 200, 3},
                                                                      {200, 1, 3},
                                                                      {8, 8, 5},
                                                                      {129, 65, 1},
                                                                      {136, 72, 2},
                                                                      {128, 64, 2}}) {
    SCOPED_TRACE(std::to_string(s0) + " x " + std::to_string(s1) + " x " + std::to_string(s2));
    runner.check({{"s0", s0}, {"s1", s1}, {"s2", s2}});
    runner.check({{"s0", s0}, {"s1", s1}, {"s2", s2}}, {}, /*shift=*/1);
  }
}

TEST(Transpose, ChannelsLastAndBack) {
  KernelRunner to_last(R"(
graph @k(%0: f16[s1, 24, 10, 12], %1: f16[24]) -> f16[s1, 24, 10, 12] strides [2880, 1, 288, 24]
  symbols (s1 = 4096 in [1, 65536])
{
  %2 = reshape %1 shape [1, 24, 1, 1]
  %3 = expand %2 shape [s1, 24, 10, 12]
  %4 = add %0, %3 : f16[s1, 24, 10, 12] strides [2880, 1, 288, 24]
  return %4
}
)");
  expect_transposes(to_last);
  to_last.check({{"s1", 2}});
  KernelRunner to_first(R"(
graph @k(%0: f16[2, s0, 10, 12] strides [120*s0, 1, 12*s0, s0], %1: f16[s0]) -> f16[2, s0, 10, 12]
  symbols (s0 = 4096 in [2, 4096])
{
  %2 = reshape %1 shape [1, s0, 1, 1]
  %3 = expand %2 shape [2, s0, 10, 12]
  %4 = mul %0, %3 : f16[2, s0, 10, 12] strides [120*s0, 120, 12, 1]
  return %4
}
)");
  expect_transposes(to_first);
  to_first.check({{"s0", 64}});
  to_first.check({{"s0", 3}});
}

TEST(Transpose, CastsBetweenElementSizes) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"f32", "bf16"}, {"bf16", "f32"}, {"f64", "i8"}, {"u8", "f64"}, {"bool", "bf16"}, {"i64", "f16"}}) {
    SCOPED_TRACE(from + " to " + to);
    KernelRunner runner("graph @k(%0: " + from + "[s0, s1]) -> " + to +
                        "[s1, s0]\n  symbols (s0 = 4096 in [1, 65536], s1 = 1024 in [1, 65536])\n{\n  %1 = "
                        "permute %0 dims [1, 0]\n  %2 = cast %1 to " +
                        to + "\n  return %2\n}\n");
    expect_transposes(runner);
    runner.check({{"s0", 96}, {"s1", 128}});
    runner.check({{"s0", 95}, {"s1", 129}});
  }
}

TEST(Transpose, OutputsOfBothOrders) {
  KernelRunner runner(R"(
graph @k(%0: f32[s0, s1], %1: f32[s0, s1], %2: bf16[s1, s0]) -> (f64[s1, s0], bf16[s0, s1], bf16[s0, s1])
  symbols (s0 = 4096 in [1, 65536], s1 = 1024 in [1, 65536])
{
  %3 = mul %0, %1
  %4 = cast %3 to bf16
  %5 = permute %4 dims [1, 0]
  %6 = add %5, %2
  %7 = permute %6 dims [1, 0]
  %8 = cast %6 to f64
  return %8, %7, %4
}
)");
  expect_transposes(runner);
  const TransposePhases t = transpose_phases(*make_element_program(runner.body).program);
  EXPECT_EQ(t.stores[0].size(), 1u);
  EXPECT_EQ(t.stores[1].size(), 1u);
  EXPECT_EQ(t.stores[2].size(), 1u);
  runner.check({{"s0", 64}, {"s1", 128}});
  runner.check({{"s0", 33}, {"s1", 70}});
}

TEST(Transpose, ConcatenationOfTransposes) {
  KernelRunner runner(R"(
graph @k(%0: bf16[s0, 40], %1: bf16[s0, 24], %2: bf16[16, s0]) -> bf16[80, s0]
  symbols (s0 = 16384 in [1, 65536])
{
  %3 = permute %0 dims [1, 0]
  %4 = permute %1 dims [1, 0]
  %5 = concat %3, %4, %2 dim 0
  %6 = neg %5
  return %6
}
)");
  expect_transposes(runner);
  runner.check({{"s0", 64}});
  runner.check({{"s0", 61}});
}

TEST(Transpose, InPlaceAndIndices) {
  KernelRunner runner(R"(
graph @k(%0: f32[s0, s1], %1: f32[s1, s0]) -> f32[s0, s1]
  symbols (s0 = 4096 in [1, 65536], s1 = 1024 in [1, 65536])
{
  %2 = permute %1 dims [1, 0]
  %3 = iota dtype f32 shape [s0, s1] dim 0
  %4 = add %2, %3
  %5 = mul %4, %0
  return %5 -> into %0
}
)");
  expect_transposes(runner);
  runner.check({{"s0", 48}, {"s1", 96}});
  runner.check({{"s0", 17}, {"s1", 131}});
}

// Sums of operands in memory orders of their own, written in one or two others.
class RandomOrders {
 public:
  explicit RandomOrders(int seed) : random_(seed) {}

  std::string text() {
    static const std::vector<std::string> kTypes = {"bf16", "f32", "f64", "f16"};
    rank_ = 2 + pick(3);
    const int inputs = 1 + pick(3), outputs = 1 + pick(2);
    std::string params, body, results, returned, sum;
    for (int i = 0; i < inputs; ++i) {
      const std::string type = kTypes[pick(4)], n = std::to_string(i);
      params += (i ? ", %p" : "%p") + n + ": " + type + ordered();
      body += "  %c" + n + " = cast %p" + n + " to f32\n";
      const std::string next = i == 0 ? "%c0" : "%a" + n;
      if (i > 0) body += "  " + next + " = add " + sum + ", %c" + n + "\n";
      sum = next;
    }
    for (int o = 0; o < outputs; ++o) {
      const std::string type = kTypes[pick(4)], n = std::to_string(o), order = ordered();
      results += (o ? ", " : "") + type + order;
      body += "  %n" + n + " = " + (o ? "abs " : "neg ") + sum + "\n";
      body += "  %o" + n + " = cast %n" + n + " to " + type + " : " + type + order + "\n";
      returned += (o ? ", %o" : "%o") + n;
    }
    std::string symbols;
    for (int d = 0; d < rank_; ++d) symbols += (d ? ", s" : "s") + std::to_string(d) + " = 512 in [0, 65536]";
    return "graph @k(" + params + ") -> (" + results + ")\n  symbols (" + symbols + ")\n{\n" + body + "  return " +
           returned + "\n}\n";
  }

  KernelRunner::Symbols sizes() {
    static const int64_t kSizes[] = {1, 2, 3, 8, 16, 24, 40, 67};
    KernelRunner::Symbols sizes;
    int64_t elements = 1;
    for (int d = 0; d < rank_; ++d) {
      int64_t size = kSizes[pick(8)];
      if (elements * size > 20000) size = 2;
      elements *= size;
      sizes["s" + std::to_string(d)] = size;
    }
    return sizes;
  }

 private:
  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  // The shape, with dense strides of the dimensions in any order.
  std::string ordered() {
    std::vector<int> order(rank_);
    for (int d = 0; d < rank_; ++d) order[d] = d;
    std::shuffle(order.begin(), order.end(), random_);
    std::vector<std::string> stride(rank_);
    std::string inner = "1";
    for (int d : order) {
      stride[d] = inner;
      inner += "*s" + std::to_string(d);
    }
    std::string shape, strides;
    for (int d = 0; d < rank_; ++d) {
      shape += (d ? ", s" : "s") + std::to_string(d);
      strides += (d ? ", " : "") + stride[d];
    }
    return "[" + shape + "] strides [" + strides + "]";
  }

  std::mt19937 random_;
  int rank_ = 2;
};

TEST(Transpose, RandomOrders) {
  int transposed = 0;
  for (int seed = 0; seed < 12; ++seed) {
    RandomOrders random(seed);
    const std::string text = random.text();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    KernelRunner runner(text);
    runner.check_shared = true;
    transposed += runner.proposal.candidates[0].schedule.family == "transpose";
    for (int i = 0; i < 3; ++i) {
      const KernelRunner::Symbols sizes = random.sizes();
      runner.check(sizes, {.relative = 1e-2, .absolute = 1e-2}, /*shift=*/i == 2);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(transposed, 6);
}

TEST(Transpose, FiveDimensionsReversed) {
  KernelRunner runner(R"(
graph @k(%0: i32[3, 16, 2, 5, 24]) -> i32[24, 5, 2, 16, 3]
{
  %1 = permute %0 dims [4, 3, 2, 1, 0]
  %2 = neg %1
  return %2
}
)");
  expect_transposes(runner);
  runner.check({});
}

}  // namespace
}  // namespace tilewright
