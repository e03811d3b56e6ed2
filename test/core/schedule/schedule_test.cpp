// What the families propose: exact parameters at known hints, conditions, reasons.

#include "schedule/schedule.h"

#include <gtest/gtest.h>

#include "support/error.h"

namespace tilewright {
namespace {

Context h200() {
  Context ctx;
  ctx.gpu = *find_gpu("h200");
  return ctx;
}

struct Proposed {
  explicit Proposed(const std::string& text) : body(parse_graph(text)), proposal(propose(body, h200())) {}
  std::string schedule(size_t i = 0) const { return print(proposal.candidates.at(i).schedule); }
  const Condition& condition(size_t i = 0) const { return proposal.candidates.at(i).condition; }
  const Footprint& footprint(size_t i = 0) const { return proposal.candidates.at(i).footprint; }
  Graph body;
  Proposal proposal;
};

TEST(Schedule, TextForm) {
  const Schedule s{"pointwise", {{"vec", 8}, {"threads", 256}}};
  EXPECT_EQ(print(s), "pointwise vec=8 threads=256");
  EXPECT_EQ(parse_schedule(print(s)), s);
  EXPECT_EQ(s.param("threads"), 256);
  EXPECT_THROW(s.param("vectors"), InternalError);
  EXPECT_THROW(parse_schedule(""), UserError);
  EXPECT_THROW(parse_schedule("pointwise vec=many"), UserError);
  EXPECT_THROW(parse_schedule("pointwise vec"), UserError);
}

TEST(Schedule, LastCandidateIsUnconditional) {
  for (const char* text : {
           "graph @k(%0: bf16[s0]) -> bf16[s0]\n  symbols (s0 = 5000 in [0, 100000000000])\n{\n  %1 = neg %0\n  return "
           "%1\n}\n",
           "graph @k(%0: bf16[s0, s1]) -> bf16[s0]\n  symbols (s0 = 5000 in [0, 1000000], s1 = 4096 in [0, "
           "1000000])\n{\n  %1 = sum %0 dims [1] keepdim false\n  return %1\n}\n",
           "graph @k(%0: bf16[64, 100]) -> bf16[64]\n{\n  %1 = sum %0 dims [1] keepdim false\n  return %1\n}\n",
       }) {
    const Proposed p(text);
    ASSERT_FALSE(p.proposal.candidates.empty()) << text;
    EXPECT_EQ(p.proposal.candidates.back().condition, Condition{}) << text;
  }
}

TEST(Schedule, DenseVectorsOfABroadcastSum) {
  const Proposed p(R"(
graph @k(%0: bf16[s0, 768], %1: bf16[768]) -> bf16[s0, 768]
  symbols (s0 = 8192 in [2, 65536])
{
  %2 = expand %1 shape [s0, 768]
  %3 = add %0, %2
  return %3
}
)");
  EXPECT_EQ(p.schedule(), "pointwise vec=8 rows=4 unroll=1 threads=128 index_bits=32 align=16");
  EXPECT_EQ(p.condition().pointer_alignment, 16);
  EXPECT_TRUE(p.condition().divisible.empty());
  const LaunchShape shape = launch_shape(p.body, p.proposal.candidates[0].schedule, h200().gpu);
  EXPECT_EQ(shape.grid[0].evaluate({{"s0", 8192}}), 8192 / 4 * 96 / 128);
  EXPECT_EQ(shape.block[0], 128);
}

TEST(Schedule, SymbolicInnerSizeIsACondition) {
  const Proposed p(R"(
graph @k(%0: f32[s0, s1], %1: f32[s0, 1]) -> f32[s0, s1]
  symbols (s0 = 64 in [2, 65536], s1 = 512 in [2, 65536])
{
  %2 = expand %1 shape [s0, s1]
  %3 = add %0, %2
  return %3
}
)");
  EXPECT_EQ(p.proposal.candidates.at(0).schedule.param("vec"), 4);
  const std::vector<std::pair<Expr, int64_t>> divisible = {{Expr::symbol("s1"), 4}};
  EXPECT_EQ(p.condition().divisible, divisible);
  EXPECT_TRUE(p.condition().index_32bit);
}

TEST(Schedule, RowsOfANormStayInRegisters) {
  const Proposed p(R"(
graph @k(%0: bf16[16384, 4096]) -> bf16[16384, 4096]
{
  %1 = cast %0 to f32
  %2 = max %1 dims [1] keepdim true
  %3 = expand %2 shape [16384, 4096]
  %4 = sub %1, %3
  %5 = exp %4
  %6 = sum %5 dims [1] keepdim true
  %7 = expand %6 shape [16384, 4096]
  %8 = div %5, %7
  %9 = cast %8 to bf16
  return %9
}
)");
  EXPECT_EQ(p.schedule(),
            "reduction columns=0 vec=8 threads=128 rows=1 vectors=4 looped=0 split=1 index_bits=32 align=16 stream=0");
  double read = 0, written = 0;
  for (const Footprint::Access& a : p.footprint().accesses) (a.is_store ? written : read) += a.bytes;
  EXPECT_EQ(read, 16384.0 * 4096 * 2);
  EXPECT_EQ(written, 16384.0 * 4096 * 2);
  EXPECT_EQ(p.footprint().blocks, 16384);
}

TEST(Schedule, LongRowsAreReadOnceForAMaximumAndItsSum) {
  const Proposed p(R"(
graph @k(%0: f32[4096, 128256]) -> f32[4096, 1]
{
  %1 = max %0 dims [1] keepdim true
  %2 = expand %1 shape [4096, 128256]
  %3 = sub %0, %2
  %4 = exp %3
  %5 = sum %4 dims [1] keepdim true
  return %5
}
)");
  EXPECT_EQ(p.proposal.candidates.at(0).schedule.param("looped"), 1);
  EXPECT_EQ(p.footprint().accesses.at(0).bytes, 4096.0 * 128256 * 4);
}

TEST(Schedule, FewLongRowsAreSplit) {
  const Proposed p(R"(
graph @k(%0: bf16[16384, 4096]) -> bf16[]
{
  %1 = sum %0 dims [0, 1] keepdim false
  return %1
}
)");
  const Schedule& s = p.proposal.candidates.at(0).schedule;
  EXPECT_GE(s.param("split"), 132);
  const LaunchShape shape = launch_shape(p.body, s, h200().gpu);
  EXPECT_EQ(shape.zeroed_workspaces, 1);
  EXPECT_EQ(shape.workspace_bytes.size(), 2u);
  EXPECT_EQ(shape.grid[1], Expr(s.param("split")));
}

TEST(Schedule, ReasonsWhyNot) {
  auto why = [](const std::string& text) {
    const Proposed p(text);
    EXPECT_TRUE(p.proposal.candidates.empty());
    return p.proposal.why_none.empty() ? "" : p.proposal.why_none[0];
  };
  EXPECT_EQ(why(R"(
graph @k(%0: f32[8, 16]) -> f32[8, 16]
{
  %1 = sum %0 dims [1] keepdim true
  %2 = sum %0 dims [0] keepdim true
  %3 = expand %1 shape [8, 16]
  %4 = expand %2 shape [8, 16]
  %5 = mul %3, %4
  return %5
}
)"),
            "%2 reduces other dimensions than %1");
  EXPECT_EQ(why(R"(
graph @k(%0: f32[8, 16], %1: f32[4]) -> (f32[8, 16], f32[4])
{
  %2 = neg %0
  %3 = neg %1
  return %2, %3
}
)"),
            "output %3: f32[4] has another number of elements than the kernel iterates over");
  EXPECT_EQ(why(R"(
graph @k(%0: f32[16]) -> f32[16]
{
  %1 = flip %0 dims [0]
  %2 = neg %1
  return %2 -> into %0
}
)"),
            "%0 is written in place and read at other elements");
}

}  // namespace
}  // namespace tilewright
