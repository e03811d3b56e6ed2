// Reduction kernels against the interpreter.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "kernel_runner.h"

namespace tilewright {
namespace {

constexpr Tolerance kSums{1e-5, 1e-4};  // another order of float32 additions than the interpreter's float64

std::string reduce(const std::string& op, const std::string& in, const std::string& out, const std::string& dims,
                   const std::string& shape, const std::string& result) {
  return "graph @k(%0: " + in + shape + ") -> " + out + result +
         "\n  symbols (s0 = 64 in [0, 100000], s1 = 512 in [0, 1000000])\n{\n  %1 = " + op + " %0 dims " + dims +
         " keepdim false\n  return %1\n}\n";
}

TEST(Reduction, EveryOperatorAndType) {
  for (const char* type : {"f64", "f32", "f16", "bf16", "i64", "i32", "u8"}) {
    for (const char* op : {"sum", "max", "min", "prod"}) {
      SCOPED_TRACE(std::string(op) + " " + type);
      KernelRunner(reduce(op, type, type, "[1]", "[s0, s1]", "[s0]")).check({{"s0", 5}, {"s1", 77}}, {1e-4, 1e-4});
    }
    SCOPED_TRACE(type);
    KernelRunner(reduce("argmax", type, "i64", "[1]", "[s0, s1]", "[s0]")).check({{"s0", 5}, {"s1", 300}});
    KernelRunner(reduce("argmin", type, "i64", "[1]", "[s0, s1]", "[s0]")).check({{"s0", 5}, {"s1", 300}});
  }
  for (const char* op : {"any", "all"})
    KernelRunner(reduce(op, "bool", "bool", "[1]", "[s0, s1]", "[s0]")).check({{"s0", 5}, {"s1", 3}});
}

TEST(Reduction, RowLengths) {
  const KernelRunner sum(reduce("sum", "f32", "f32", "[1]", "[s0, s1]", "[s0]"));
  const KernelRunner mean(reduce("mean", "f32", "f32", "[1]", "[s0, s1]", "[s0]"));
  for (int64_t n : {1, 2, 31, 32, 64, 100, 512, 513, 1000, 5000}) {
    SCOPED_TRACE(n);
    sum.check({{"s0", 3}, {"s1", n}}, kSums);
    mean.check({{"s0", 3}, {"s1", n}}, kSums);
  }
  sum.check({{"s0", 3}, {"s1", 0}});
  sum.check({{"s0", 0}, {"s1", 8}});
}

TEST(Reduction, Columns) {
  const KernelRunner sum(reduce("sum", "f32", "f32", "[0]", "[s0, s1]", "[s1]"));
  for (int64_t rows : {1, 5, 64, 300}) {
    for (int64_t columns : {1, 8, 33, 512}) {
      SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(columns));
      sum.check({{"s0", rows}, {"s1", columns}}, kSums);
    }
  }
}

TEST(Reduction, WholeTensor) {
  const KernelRunner sum(R"(
graph @k(%0: f32[s0, s1]) -> f32[]
  symbols (s0 = 4096 in [0, 100000], s1 = 4096 in [0, 1000000])
{
  %1 = sum %0 dims [0, 1] keepdim false
  return %1
}
)");
  sum.check({{"s0", 3}, {"s1", 5}}, kSums);
  sum.check({{"s0", 300}, {"s1", 512}}, {1e-4, 1e-2});
  sum.check({{"s0", 0}, {"s1", 512}});
}

TEST(Reduction, Softmax) {
  const KernelRunner softmax(R"(
graph @k(%0: bf16[s0, s1]) -> bf16[s0, s1]
  symbols (s0 = 64 in [1, 100000], s1 = 512 in [1, 1000000])
{
  %1 = cast %0 to f32
  %2 = max %1 dims [1] keepdim true
  %3 = expand %2 shape [s0, s1]
  %4 = sub %1, %3
  %5 = exp %4
  %6 = sum %5 dims [1] keepdim true
  %7 = expand %6 shape [s0, s1]
  %8 = div %5, %7
  %9 = cast %8 to bf16
  return %9
}
)");
  for (int64_t n : {1, 8, 100, 512, 504, 5000}) {
    SCOPED_TRACE(n);
    softmax.check({{"s0", 5}, {"s1", n}});
  }
}

TEST(Reduction, LayerNormWithStatistics) {
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const KernelRunner norm(R"(
graph @k(%0: bf16[s0, 768], %1: bf16[768], %2: bf16[768]) -> (bf16[s0, 768], f32[s0, 1], f32[s0, 1])
  symbols (s0 = 512 in [1, 1000000])
{
  %3 = cast %0 to f32
  %4, %5 = welford %3 dims [1] keepdim true
  %6 = constant dtype f32 value 768.0
  %7 = div %5, %6
  %8 = constant dtype f32 value 1e-5
  %9 = add %7, %8
  %10 = rsqrt %9
  %11 = expand %4 shape [s0, 768]
  %12 = sub %3, %11
  %13 = expand %10 shape [s0, 768]
  %14 = mul %12, %13
  %15 = cast %1 to f32
  %16 = expand %15 shape [s0, 768]
  %17 = mul %14, %16
  %18 = cast %2 to f32
  %19 = expand %18 shape [s0, 768]
  %20 = add %17, %19
  %21 = cast %20 to bf16
  return %21, %4, %10
}
)",
                            arch);
    norm.check({{"s0", 1}}, {1e-4, 1e-4});
    norm.check({{"s0", 37}}, {1e-4, 1e-4});
    norm.check({{"s0", 37}}, {1e-4, 1e-4}, 1);
  }
}

TEST(Reduction, BatchNormStatistics) {
  const KernelRunner planar(R"(
graph @k(%0: f32[s0, 6, 10, 12]) -> (f32[6], f32[6])
  symbols (s0 = 16 in [1, 1000])
{
  %1, %2 = welford %0 dims [0, 2, 3] keepdim false
  return %1, %2
}
)");
  planar.check({{"s0", 4}}, {1e-4, 1e-4});
  const KernelRunner channels_last(R"(
graph @k(%0: f32[s0, 24, 10, 12] strides [2880, 1, 288, 24]) -> (f32[24], f32[24])
  symbols (s0 = 16 in [1, 1000])
{
  %1, %2 = welford %0 dims [0, 2, 3] keepdim false
  return %1, %2
}
)");
  channels_last.check({{"s0", 4}}, {1e-4, 1e-4});
  channels_last.check({{"s0", 40}}, {1e-4, 1e-4});
}

TEST(Reduction, LogSumExpOfLongRows) {
  const KernelRunner runner(R"(
graph @k(%0: bf16[s0, s1]) -> f32[s0, 1]
  symbols (s0 = 4096 in [1, 100000], s1 = 128256 in [1, 1000000])
{
  %1 = cast %0 to f32
  %2 = max %1 dims [1] keepdim true
  %3 = expand %2 shape [s0, s1]
  %4 = sub %1, %3
  %5 = exp %4
  %6 = sum %5 dims [1] keepdim true
  %7 = log %6
  %8 = add %7, %2
  return %8
}
)");
  EXPECT_EQ(runner.proposal.candidates[0].schedule.param("looped"), 1);
  runner.check({{"s0", 2}, {"s1", 20000}}, kSums);
  runner.check({{"s0", 3}, {"s1", 24}}, kSums);
}

// A row of -inf alone, as a mask leaves it: max is -inf, and -inf - -inf is NaN, in one pass as in two.
TEST(Reduction, OnlineSumOfNothingButMinusInfinity) {
  const KernelRunner runner(R"(
graph @k(%0: f32[2, s1]) -> (f32[2, 1], f32[2, 1])
  symbols (s1 = 500000 in [1, 1000000])
{
  %1 = max %0 dims [1] keepdim true
  %2 = expand %1 shape [2, s1]
  %3 = sub %0, %2
  %4 = exp %3
  %5 = sum %4 dims [1] keepdim true
  return %1, %5
}
)");
  HostTensor x(DType::kF32, {2, 4096});
  for (double& v : x.floats) v = -INFINITY;
  x.floats[5000] = 1.0;
  runner.check({{"s1", 4096}}, {InterpValue::tensor(x)}, kSums);
}

TEST(Reduction, GroupNormThroughReshapes) {
  const KernelRunner runner(R"(
graph @k(%0: f32[s0, 32, 36], %1: f32[32]) -> f32[s0, 32, 36]
  symbols (s0 = 64 in [1, 1000])
{
  %2 = reshape %0 shape [s0, 4, 288]
  %3, %4 = welford %2 dims [2] keepdim true
  %5 = expand %3 shape [s0, 4, 288]
  %6 = sub %2, %5
  %7 = rsqrt %4
  %8 = expand %7 shape [s0, 4, 288]
  %9 = mul %6, %8
  %10 = reshape %9 shape [s0, 32, 36]
  %11 = reshape %1 shape [1, 32, 1]
  %12 = expand %11 shape [s0, 32, 36]
  %13 = mul %10, %12
  return %13
}
)");
  runner.check({{"s0", 3}}, kSums);
}

TEST(Reduction, ManyColumnReductionsShareSharedMemory) {
  const KernelRunner runner(R"(
graph @k(%0: bf16[s0, 64], %1: bf16[s0, 64]) -> (f32[64], f32[64], f32[64], f32[64], f32[64])
  symbols (s0 = 100000 in [1, 1000000])
{
  %2 = cast %0 to f32
  %3 = cast %1 to f32
  %4 = mul %2, %3
  %5 = sum %2 dims [0] keepdim false
  %6 = sum %3 dims [0] keepdim false
  %7 = sum %4 dims [0] keepdim false
  %8, %9 = welford %2 dims [0] keepdim false
  return %5, %6, %7, %8, %9
}
)");
  EXPECT_GT(runner.proposal.candidates[0].schedule.param("split"), 1);
  runner.check({{"s0", 1000}}, {1e-4, 1e-3});
  runner.check({{"s0", 7}}, {1e-4, 1e-3});
}

// Random shapes, strides, dimensions and types; sizes of 0 and 1 among them.
TEST(Reduction, RandomShapes) {
  std::mt19937 random(11);
  auto pick = [&](std::vector<int64_t> from) { return from[random() % from.size()]; };
  for (int round = 0; round < 40; ++round) {
    const int rank = 1 + static_cast<int>(random() % 4);
    std::vector<int64_t> sizes, order(rank), strides(rank);
    for (int d = 0; d < rank; ++d) sizes.push_back(pick({0, 1, 2, 3, 7, 8, 16, 33}));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    int64_t stride = pick({1, 1, 2});
    for (int64_t d : order) strides[d] = stride, stride *= std::max<int64_t>(sizes[d], 1) + pick({0, 0, 1});
    std::string shape, dims, kept, stride_text;
    auto append = [](std::string& list, int64_t v) { list += (list.empty() ? "" : ", ") + std::to_string(v); };
    const bool keepdim = random() % 2;
    int reduced = 0;
    for (int d = 0; d < rank; ++d) {
      append(shape, sizes[d]);
      append(stride_text, strides[d]);
      const bool reduce = random() % 2 || (d + 1 == rank && reduced == 0);
      if (reduce) append(dims, d), ++reduced;
      if (!reduce) append(kept, sizes[d]);
      if (reduce && keepdim) append(kept, 1);
    }
    const char* type = std::vector<const char*>{"f32", "bf16", "f64", "i32"}[random() % 4];
    const char* op = std::vector<const char*>{"sum", "sum", "prod"}[random() % 3];
    const std::string text = std::string("graph @k(%0: ") + type + "[" + shape + "] strides [" + stride_text +
                             "]) -> " + type + "[" + kept + "]\n{\n  %1 = " + op + " %0 dims [" + dims + "] keepdim " +
                             (keepdim ? "true" : "false") + "\n  return %1\n}\n";
    SCOPED_TRACE(text);
    KernelRunner(text).check({}, {1e-3, 1e-3});
  }
}

// Cross-entropy's loss of a row: one pass over the row, and one element that the target picks.
TEST(Reduction, PicksAnElementWithoutAPass) {
  const KernelRunner loss(R"(
graph @k(%0: bf16[s0, 20000], %1: i64[s0]) -> f32[s0]
  symbols (s0 = 4096 in [1, 100000])
{
  %2 = iota dtype i64 shape [s0, 20000] dim 1
  %3 = unsqueeze %1 dims [1]
  %4 = expand %3 shape [s0, 20000]
  %5 = eq %2, %4
  %6 = cast %0 to f32
  %7 = max %6 dims [1] keepdim true
  %8 = expand %7 shape [s0, 20000]
  %9 = sub %6, %8
  %10 = exp %9
  %11 = sum %10 dims [1] keepdim true
  %12 = log %11
  %13 = expand %12 shape [s0, 20000]
  %14 = sub %9, %13
  %15 = constant dtype f32 value 0.0
  %16 = where %5, %14, %15
  %17 = sum %16 dims [1] keepdim false
  return %17
}
)");
  std::vector<InterpValue> inputs = random_inputs(loss.body, {{"s0", 5}}, 1);
  HostTensor targets = inputs[1].tensor();
  targets.ints = {0, 19999, 777, -100, 20000};  // the last two pick nothing
  inputs[1] = InterpValue::tensor(targets);
  loss.check({{"s0", 5}}, inputs, {1e-5, 1e-4});
  const KernelRunner::Run run = loss.run(loss.proposal.candidates.at(0).schedule, {{"s0", 5}}, inputs, 0);
  EXPECT_LT(run.counters.total.global_load.bytes, 5 * 20000 * 2 + 1000u);
  EXPECT_EQ(run.outputs[0].floats[3], 0);
}

// Turns in which a thread has all its vectors are free of conditions: the instructions an element show it.
TEST(Reduction, LongRowsTakeFewInstructions) {
  const KernelRunner sum(R"(
graph @k(%0: bf16[s0, 100008]) -> f32[s0]
  symbols (s0 = 4096 in [1, 100000])
{
  %1 = cast %0 to f32
  %2 = max %1 dims [1] keepdim true
  %3 = expand %2 shape [s0, 100008]
  %4 = sub %1, %3
  %5 = exp %4
  %6 = sum %5 dims [1] keepdim false
  return %6
}
)");
  const auto inputs = random_inputs(sum.body, {{"s0", 1}}, 1);
  sum.check({{"s0", 1}}, inputs, kSums);
  const KernelRunner::Run run = sum.run(sum.proposal.candidates.at(0).schedule, {{"s0", 1}}, inputs, 0);
  EXPECT_LT(static_cast<double>(run.counters.total.lane_instructions), 12.0 * 100008);
}

// Rows that start anywhere: vectors lie where memory is aligned, so that most of a row takes 16 bytes an access.
TEST(Reduction, OddRowsAreReadInAlignedVectors) {
  const KernelRunner softmax(R"(
graph @k(%0: bf16[s0, 4097]) -> bf16[s0, 4097]
  symbols (s0 = 8192 in [1, 100000])
{
  %1 = cast %0 to f32
  %2 = max %1 dims [1] keepdim true
  %3 = expand %2 shape [s0, 4097]
  %4 = sub %1, %3
  %5 = exp %4
  %6 = sum %5 dims [1] keepdim true
  %7 = expand %6 shape [s0, 4097]
  %8 = div %5, %7
  %9 = cast %8 to bf16
  return %9
}
)");
  const KernelRunner sum(reduce("sum", "f32", "f32", "[1]", "[s0, 1001]", "[s0]"));
  const KernelRunner place(reduce("argmax", "f32", "i64", "[1]", "[s0, 1001]", "[s0]"));
  const KernelRunner statistics(R"(
graph @k(%0: f16[s0, 771], %1: f32[771]) -> (f32[s0], f32[s0])
  symbols (s0 = 8192 in [1, 100000])
{
  %2 = cast %0 to f32
  %3 = expand %1 shape [s0, 771]
  %4 = mul %2, %3
  %5, %6 = welford %4 dims [1] keepdim false
  return %5, %6
}
)");
  const KernelRunner looped(reduce("sum", "bf16", "bf16", "[1]", "[s0, 60001]", "[s0]"));
  struct Odd {
    const KernelRunner* runner;
    int64_t rows;
  };
  for (const auto& [runner, rows] : {Odd{&softmax, 17}, {&sum, 19}, {&place, 19}, {&statistics, 11}, {&looped, 3}}) {
    SCOPED_TRACE(print(runner->body));
    const Schedule& schedule = runner->proposal.candidates.at(0).schedule;
    EXPECT_NE(print(schedule).find("shift=1"), std::string::npos) << print(schedule);
    runner->check({{"s0", rows}, {"s1", 1}}, {1e-4, 1e-4});
    runner->check({{"s0", rows}, {"s1", 1}}, {1e-4, 1e-4}, 1);
    runner->check({{"s0", 1}, {"s1", 1}}, {1e-4, 1e-4});
    const auto inputs = random_inputs(runner->body, {{"s0", rows}, {"s1", 1}}, 1);
    const KernelRunner::Run run = runner->run(schedule, {{"s0", rows}, {"s1", 1}}, inputs, 0);
    uint64_t bytes = 0, vector_bytes = 0;
    for (const sim::AccessCounters& a : run.counters.accesses) {
      if (a.space != sim::Space::kGlobal) continue;
      bytes += a.bytes;
      if (a.text.find(".v4") == std::string::npos && a.text.find(".v2") == std::string::npos) continue;
      vector_bytes += a.bytes;
      EXPECT_LE(a.sectors, a.ideal_sectors + a.requests) << a.text;
    }
    if (runner != &statistics) {  // its weights lie otherwise than its rows
      EXPECT_GT(static_cast<double>(vector_bytes), 0.95 * static_cast<double>(bytes));
    }
  }
}

}  // namespace
}  // namespace tilewright
