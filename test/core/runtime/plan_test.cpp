#include "runtime/plan.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/plan_builder.h"

namespace tilewright {
namespace {

// Every kind of step, argument and condition once.
const char* const kText =
    R"(plan @everything($0: f32[s0, 768] strides [768, 1], $1: i64[2*s1 + 1] strides [1], $2: int = s2, $3: float, $4: f32[] host)
  symbols (s2 = $2, s0 = size($0, 0), 1 + 2*s1 = size($1, 0), s3 = stride($0, 0))
{
  $5, $6 = launch "mul_amax"($0, int $2, float $3, host $4) symbols (s0 = s0, s1 = s2*s0)
    variant "a41c" if align 16 index32 divisible (s0, 8) divisible (s1, 4) at_most (s0, 4096)
    variant "77e0"
    lines (1 @ 0, 3 @ 1)
    : f32[s0] strides [1], f32[s0, 768] strides [768, 1]
  $7 = launch "add_"($0, $5)
    variant "0b0b"
    : f32[s0, 768] strides [768, 1] into $0
  free $5, $7
  $8, $9 = call aten.topk.default($6, 2, -1, true, false, largest=none) : f32[s0, 2] strides [2, 1], i64[s0, 2] @ 1
  call aten._assert_async.default($9) @ 0
  $10 = call aten.full.default([s0, 2*s1], -0.5, dtype=dtype(bf16), layout=layout(strided), device=device("cuda:0"), pin_memory=false) : bf16[s0, 2*s1]
  $11, _ = host 3($8, "text \"quoted\"\n", [1, 2.0, [none]], complex(1.0, -inf)) : int = u0, opaque @ 0
  $12 = view $10 : bf16[s0] strides [2*s1] offset 1
  copy $6 -> $0
  return $12, $0, s0 + 2*s1, none, [$8, 1e-30], nan
}
loc 0 = "model.py":212 "q * scale" aten.mul.Tensor
loc 1 = "C:\\odd \"name\"":1 "" ""
)";

TEST(PlanText, PrintsWhatItParses) {
  const Plan plan = parse_plan(kText);
  const std::string text = print(plan);
  EXPECT_EQ(print(parse_plan(text)), text);
  EXPECT_EQ(plan.parameters.size(), 5u);
  EXPECT_EQ(plan.slots(), 13);
}

TEST(PlanText, ParsesWhatItPrints) {
  Plan plan = parse_plan(kText);
  plan.outputs.pop_back();  // nan is not equal to itself
  EXPECT_EQ(parse_plan(print(plan)), plan);
}

TEST(PlanText, TellsPlansApart) {
  Plan plan = parse_plan(kText);
  plan.outputs.pop_back();
  Plan other = plan;
  std::get<Launch>(other.steps[0]).variants[0].condition.index_32bit = false;
  EXPECT_FALSE(plan == other);
  other = plan;
  std::get<Call>(other.steps[3]).args[1] = {Expr(3)};
  EXPECT_FALSE(plan == other);
}

std::string error_of(const std::string& text) {
  try {
    parse_plan(text, "p.txt");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(PlanText, NamesThePlaceOfAnError) {
  EXPECT_EQ(error_of("plan @p($1: f32[])\n{\n  return\n}\n").substr(0, 12), "p.txt:1:9: p");
  EXPECT_NE(error_of("plan @p()\n{\n  jump $1\n}\n").find("p.txt:3:3: expected a step"), std::string::npos)
      << error_of("plan @p()\n{\n  jump $1\n}\n");
  EXPECT_NE(error_of("plan @p()\n{\n  $0 = launch \"k\"()\n    variant \"a\"\n  return\n}\n").find("0 types for 1"),
            std::string::npos);
}

TEST(Plan, IsValid) {
  Plan plan = parse_plan(kText);
  EXPECT_EQ(verify(plan), std::vector<std::string>{});
}

TEST(Plan, VerifierFindsEachFault) {
  const auto only_error = [](const std::string& text) {
    const std::vector<std::string> errors = verify(parse_plan(text));
    return errors.size() == 1 ? errors[0] : std::to_string(errors.size()) + " errors";
  };
  EXPECT_EQ(only_error("plan @p($0: f32[])\n{\n  return $1\n}\n"), "return: $1 is read before a step fills it");
  EXPECT_EQ(only_error("plan @p($0: f32[])\n{\n  free $0\n  return $0\n}\n"), "return: $0 is read after it was freed");
  EXPECT_EQ(only_error("plan @p($0: f32[])\n{\n  $0 = call aten.relu.default($0)\n  return $0\n}\n"),
            "step 0: $0 is filled twice");
  EXPECT_EQ(only_error("plan @p($0: f32[])\n{\n  $1 = launch \"k\"($0)\n variant \"a\" if index32 : f32[] strides []\n"
                       "  return $1\n}\n"),
            "step 0: the last variant of k has a condition");
  EXPECT_EQ(only_error("plan @p($0: f32[])\n{\n  $1 = launch \"k\"($0) variant \"a\" : f32[s0] strides [1]\n"
                       "  return $1\n}\n"),
            "step 0: symbol s0 has no source");
  EXPECT_EQ(only_error("plan @p($0: f32[], $1: f32[])\n{\n  _ = launch \"k\"($0) variant \"a\" : f32[] into $1\n"
                       "  return\n}\n"),
            "step 0: $1 is written and not an input of the kernel");
  EXPECT_EQ(only_error("plan @p($0: f32[4])\n{\n  $1 = view $0 : f32[2]\n  return $1\n}\n"),
            "step 0: a view needs a slot and a tensor type with strides");
}

TEST(Plan, FreesEachSlotAfterItsLastUse) {
  Plan plan = parse_plan(R"(plan @p($0: f32[4], $1: f32[4], $2: f32[4])
{
  $3 = call aten.add.Tensor($0, $1) : f32[4]
  $4 = call aten.mul.Tensor($3, $3) : f32[4]
  $5 = call aten.mul.Tensor($4, $1) : f32[4]
  $6 = call aten.neg.default($5) : f32[4]
  return [$4]
}
)");
  plan_frees(plan);
  const std::string expected = R"({
  free $2
  $3 = call aten.add.Tensor($0, $1) : f32[4]
  free $0
  $4 = call aten.mul.Tensor($3, $3) : f32[4]
  free $3
  $5 = call aten.mul.Tensor($4, $1) : f32[4]
  free $1
  $6 = call aten.neg.default($5) : f32[4]
  free $5, $6
  return [$4]
}
)";
  const std::string text = print(plan);
  EXPECT_EQ(text.substr(text.find('{')), expected);
  const Plan once = plan;
  plan_frees(plan);
  EXPECT_EQ(plan, once);
  EXPECT_TRUE(verify(plan).empty());
}

TEST(Plan, BindsSymbolsToIntegersThenSizesThenStrides) {
  Plan plan;
  plan.parameters = parse_plan(
                        "plan @p($0: f32[s1, 2*s0 + 2] strides [s2, 1], $1: int = s1, $2: f32[s0*s1, s3*s3])\n"
                        "{\n  return\n}\n")
                        .parameters;
  bind_symbols(plan, plan.parameters, {0, 1, 2});
  ASSERT_EQ(plan.symbols.size(), 3u);
  EXPECT_EQ(plan.symbols[0], (SymbolBinding{"s1", Expr::symbol("s1"), 1, SymbolBinding::Source::kInt, 0}));
  EXPECT_EQ(plan.symbols[1],
            (SymbolBinding{"s0", Expr(2) * Expr::symbol("s0") + Expr(2), 0, SymbolBinding::Source::kSize, 1}));
  EXPECT_EQ(plan.symbols[2], (SymbolBinding{"s2", Expr::symbol("s2"), 0, SymbolBinding::Source::kStride, 0}));
}

TEST(Plan, OfCalls) {
  const Graph graph = parse_graph(
      R"(graph @g(%x: f32[s0, 4] strides [4, 1], %y: f32[s0, 4] strides [4, 1]) -> (f32[s0, 4], int, f32[s0, 4])
  symbols (s0 = 8 in [2, 64])
{
  %a = call aten.add.Tensor(%x, %y, alpha=2) : f32[s0, 4] strides [4, 1] @ 0
  %b = host 1(%a, s0) : f32[s0, 4]
  return %b -> into %y, s0, %a
}
loc 0 = "m.py":3 "x + y" aten.add.Tensor
)");
  const std::string expected = R"(plan @g($0: f32[s0, 4] strides [4, 1], $1: f32[s0, 4] strides [4, 1])
  symbols (s0 = size($0, 0))
{
  $2 = call aten.add.Tensor($0, $1, alpha=2) : f32[s0, 4] strides [4, 1] @ 0
  free $0
  $3 = host 1($2, s0) : f32[s0, 4]
  copy $3 -> $1
  free $3
  return $1, s0, $2
}
loc 0 = "m.py":3 "x + y" aten.add.Tensor
)";
  EXPECT_EQ(print(plan_of_calls(graph)), expected);
}

// A parameter is written after what it held has been copied on; two that change places need a third place.
TEST(Plan, CopiesBeforeItOverwrites) {
  const Graph graph = parse_graph(
      R"(graph @g(%x: f32[4], %y: f32[4], %z: f32[4]) -> (f32[4], f32[4], f32[4]) {
  %a = call aten.neg.default(%z) : f32[4]
  return %y -> into %x, %x -> into %y, %a -> into %z
}
)");
  const std::string expected = R"(plan @g($0: f32[4], $1: f32[4], $2: f32[4])
{
  $3 = call aten.neg.default($2) : f32[4]
  copy $3 -> $2
  free $3
  $4 = call aten.clone.default($1, memory_format=memory_format(contiguous_format)) : f32[4] strides [1]
  copy $0 -> $1
  copy $4 -> $0
  free $4
  return $0, $1, $2
}
)";
  EXPECT_EQ(print(plan_of_calls(graph)), expected);
}

// Views of views are views of what has the memory; those that nothing reads are no steps.
TEST(Plan, Views) {
  const Graph graph = parse_graph(
      R"(graph @g(%x: f32[s0, 6] strides [6, 1]) -> (f32[3, s0 - 1])
  symbols (s0 = 8 in [2, 64])
{
  %a = call aten.slice.Tensor(%x, 0, 1, 9223372036854775807) : f32[s0 - 1, 6] strides [6, 1] offset 6
  %b, %c = call aten.split.Tensor(%a, 3, 1) : f32[s0 - 1, 3] strides [6, 1] offset 6, f32[s0 - 1, 3] strides [6, 1] offset 9
  %d = call aten.select.int(%c, 0, -1) : f32[3] strides [1] offset 6*s0 - 3
  %e = call aten.t.default(%c) : f32[3, s0 - 1] strides [1, 6] offset 9
  %f = call aten.add.Tensor(%e, %d) : f32[3, s0 - 1] strides [1, 3]
  return %f
}
)");
  PlanBuilder builder(graph);
  for (const Node* node : graph.nodes()) {
    if (node->callee == "aten.add.Tensor") {
      builder.add_call(*node);
    } else {
      EXPECT_TRUE(builder.add_views(*node)) << node->callee;
    }
  }
  EXPECT_EQ(print(builder.finish(graph.outputs())), R"(plan @g($0: f32[s0, 6] strides [6, 1])
  symbols (s0 = size($0, 0))
{
  $4 = view $0 : f32[3] strides [1] offset 6*s0 - 3
  $5 = view $0 : f32[3, s0 - 1] strides [1, 6] offset 9
  free $0
  $6 = call aten.add.Tensor($5, $4) : f32[3, s0 - 1] strides [1, 3]
  free $4, $5
  return $6
}
)");
}

// What the types do not tell stays a call.
TEST(Plan, CallsWhoseMemoryIsNotKnown) {
  const Graph graph = parse_graph(
      R"(graph @g(%x: f32[4, 6] strides [6, 1], %y: f32[4, 6], %z: c64[4] strides [1]) -> (f32[6])
{
  %a = call aten.t.default(%x) : f32[6, 4]
  %b = call aten.t.default(%y) : f32[6, 4] strides [1, 6]
  %c = call aten.real.default(%z) : f32[4] strides [2]
  %d = call aten.as_strided.default(%x, [2], [1], 3) : f32[2] strides [1] offset 3
  %e = call aten.select.int(%x, 0, %y) : f32[6] strides [1] offset u0
  return %e
}
)");
  PlanBuilder builder(graph);
  for (const Node* node : graph.nodes()) EXPECT_FALSE(builder.add_views(*node)) << node->callee;
}

}  // namespace
}  // namespace tilewright
