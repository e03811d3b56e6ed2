// Pointwise kernels against the interpreter.

#include "kernel_runner.h"

namespace tilewright {
namespace {

std::string unary(const std::string& op, const std::string& in, const std::string& shape = "[s0]") {
  return "graph @k(%0: " + in + shape + ") -> " + in + shape +
         "\n  symbols (s0 = 1024 in [0, 100000000])\n{\n  %1 = " + op + " %0\n  return %1\n}\n";
}

TEST(Pointwise, SizesAroundTheVector) {
  const KernelRunner add(R"(
graph @k(%0: bf16[s0], %1: bf16[s0]) -> bf16[s0]
  symbols (s0 = 4096 in [0, 100000000])
{
  %2 = add %0, %1
  return %2
}
)");
  for (int64_t n : {0, 1, 7, 8, 9, 255, 256, 257, 2047, 2048, 2049, 10007}) {
    SCOPED_TRACE(n);
    add.check({{"s0", n}});
    add.check({{"s0", n}}, {}, /*shift=*/1);
  }
}

TEST(Pointwise, EveryElementType) {
  for (const char* type : {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8"}) {
    SCOPED_TRACE(type);
    for (const char* op : {"neg", "abs", "sign", "copy"}) {
      SCOPED_TRACE(op);
      KernelRunner(unary(op, type)).check({{"s0", 1003}});
    }
  }
  KernelRunner(unary("not", "bool")).check({{"s0", 1003}});
}

TEST(Pointwise, BroadcastRowsAndColumns) {
  const KernelRunner runner(R"(
graph @k(%0: bf16[s0, 48], %1: f32[48], %2: bf16[s0, 1]) -> bf16[s0, 48]
  symbols (s0 = 512 in [1, 65536])
{
  %3 = cast %0 to f32
  %4 = expand %1 shape [s0, 48]
  %5 = mul %3, %4
  %6 = cast %2 to f32
  %7 = expand %6 shape [s0, 48]
  %8 = add %5, %7
  %9 = cast %8 to bf16
  return %9
}
)");
  runner.check({{"s0", 1}});
  runner.check({{"s0", 37}});
  runner.check({{"s0", 300}}, {}, 1);
}

TEST(Pointwise, TransposedOperand) {
  KernelRunner(R"(
graph @k(%0: f32[96, 40], %1: f32[40, 96]) -> f32[96, 40]
{
  %2 = permute %1 dims [1, 0]
  %3 = add %0, %2
  return %3
}
)")
      .check({});
}

TEST(Pointwise, Concatenation) {
  const KernelRunner runner(R"(
graph @k(%0: f16[s0, 24], %1: f16[s0, 8], %2: f16[s0, 5]) -> f16[s0, 37]
  symbols (s0 = 64 in [1, 4096])
{
  %3 = neg %0
  %4 = concat %3, %1, %2 dim 1
  return %4
}
)");
  runner.check({{"s0", 13}});
  const KernelRunner even(R"(
graph @k(%0: f16[s0, 24], %1: f16[s0, 8]) -> f16[s0, 32]
  symbols (s0 = 64 in [1, 4096])
{
  %2 = concat %0, %1 dim 1
  return %2
}
)");
  even.check({{"s0", 13}});
}

TEST(Pointwise, PadSliceFlipSelect) {
  KernelRunner(R"(
graph @k(%0: f32[10, 12]) -> f32[13, 16]
{
  %1 = constant dtype f32 value 1.5
  %2 = pad %0, %1 low [1, 4] high [2, 0]
  return %2
}
)")
      .check({});
  KernelRunner(R"(
graph @k(%0: f32[10, 64]) -> f32[10, 16]
{
  %1 = slice %0 dim 1 start 3 end 35 step 2
  %2 = flip %1 dims [1]
  %3 = exp %2
  return %3
}
)")
      .check({});
  KernelRunner(R"(
graph @k(%0: i32[10, 6, 8]) -> i32[10, 8]
{
  %1 = select %0 dim 1 index 4
  %2 = iota dtype i32 shape [10, 8] dim 1
  %3 = add %1, %2
  return %3
}
)")
      .check({});
}

TEST(Pointwise, ReshapeThereAndBack) {
  const KernelRunner runner(R"(
graph @k(%0: bf16[s0, 768], %1: bf16[s0, 12, 64]) -> bf16[s0, 12, 64]
  symbols (s0 = 64 in [1, 4096])
{
  %2 = reshape %0 shape [s0, 12, 64]
  %3 = mul %2, %1
  %4 = reshape %3 shape [s0*12, 64]
  %5 = neg %4
  %6 = reshape %5 shape [s0, 12, 64]
  return %6
}
)");
  runner.check({{"s0", 5}});
}

// The innermost axis is no multiple of a vector, but the whole tensor lies in one piece: one axis for all of it.
TEST(Pointwise, OddInnermostAxes) {
  const KernelRunner bias(R"(
graph @k(%0: bf16[s0, 4097], %1: bf16[4097]) -> bf16[s0, 4097]
  symbols (s0 = 4096 in [1, 65536])
{
  %2 = expand %1 shape [s0, 4097]
  %3 = add %0, %2
  return %3
}
)");
  const KernelRunner channels(R"(
graph @k(%0: bf16[s0, 16, 7, 7], %1: f32[16], %2: bf16[7]) -> (bf16[s0, 16, 7, 7], bool[s0, 16, 7, 7])
  symbols (s0 = 64 in [1, 65536])
{
  %3 = unsqueeze %1 dims [0, 2, 3]
  %4 = expand %3 shape [s0, 16, 7, 7]
  %5 = cast %4 to bf16
  %6 = mul %0, %5
  %7 = expand %2 shape [s0, 16, 7, 7]
  %8 = add %6, %7
  %9 = gt %8, %0
  return %8, %9
}
)");
  for (const KernelRunner* runner : {&bias, &channels}) {
    const Schedule& schedule = runner->proposal.candidates.at(0).schedule;
    EXPECT_NE(print(schedule).find("flat=1"), std::string::npos) << print(schedule);
    for (int64_t rows : {1, 3, 8}) {
      runner->check({{"s0", rows}});
      runner->check({{"s0", rows}}, {}, 1);
    }
    const KernelCode code = generate(runner->body, schedule, "sm_90a", runner->context);
    EXPECT_NE(code.ptx.find("ld.global.v4"), std::string::npos);
    EXPECT_NE(code.ptx.find("st.global.v4"), std::string::npos);
  }
  // Must not fire: an output in another order than memory's.
  const KernelRunner turned(R"(
graph @k(%0: f32[33, 65] strides [1, 33]) -> f32[33, 65] {
  %1 = neg %0
  return %1
}
)");
  for (const Candidate& c : turned.proposal.candidates) EXPECT_EQ(print(c.schedule).find("flat"), std::string::npos);
  turned.check({});
}

}  // namespace
}  // namespace tilewright
