// The rule language and the promotion of types (passes/rule.h, passes/promotion.h).

#include "passes/rule.h"

#include <gtest/gtest.h>

#include "passes/embedded_rules.h"
#include "passes/passes.h"
#include "passes/promotion.h"

namespace tilewright {
namespace {

std::string parse_error(std::string_view text) {
  RuleTable table;
  try {
    table.add(text, "t.tw");
  } catch (const InternalError& e) {
    return e.what();
  }
  return "";
}

TEST(Rules, TheEmbeddedOnesParseAndNameTheirOperatorsOnce) {
  const RuleTable& table = embedded_rule_table();
  EXPECT_GT(table.rules().size(), 250U);
  EXPECT_FALSE(table.find("aten.gelu.default").empty());
  EXPECT_TRUE(table.find("aten.cumsum.default").empty());
  // A rule without a condition ends its operator's list: what follows could never be used.
  for (const DecomposeRule& rule : table.rules()) {
    for (const std::string& name : rule.operators) {
      const std::vector<const DecomposeRule*>& list = table.find(name);
      for (size_t i = 0; i + 1 < list.size(); ++i) {
        EXPECT_TRUE(list[i]->condition.has_value())
            << name << " at " << list[i]->where << " hides " << list[i + 1]->where;
      }
    }
  }
}

TEST(Rules, ErrorsNameTheLine) {
  EXPECT_EQ(parse_error("rule a.b.c(%x) => exp %x"), "");
  EXPECT_EQ(parse_error("\nrule a.b.c(%x) => add %x\n"), "t.tw:3:1: 'add' takes 2 operands, found 1");
  EXPECT_EQ(parse_error("rule a.b.c(%x) : quick => exp %x"), "t.tw:1:24: no kind of rule is named 'quick'");
  EXPECT_EQ(parse_error("rule a.b.c(%x : c9) => exp %x"), "t.tw:1:19: 'c9' is no conversion");
  EXPECT_EQ(parse_error("macro exp(%x) => neg %x"), "t.tw:1:10: 'exp' is taken");
  EXPECT_EQ(parse_error("rule a.b.c(%x) {"), "t.tw:1:17: expected a name, found the end of the text");
}

// One call of an operator with the rules given, as `return`ed text.
std::string reasons_of(const char* text) {
  Graph g = parse_graph(text);
  std::string all;
  for (const Refusal& r : decompose_with_reasons(g, Context{})) all += r.node + " " + r.callee + ": " + r.reason + "\n";
  return all;
}

TEST(Decompose, SaysWhyACallStays) {
  EXPECT_EQ(reasons_of("graph @g(%x: c64[8]) -> (c64[8]) { %y = call aten.exp.default(%x) : c64[8] return %y }"),
            "y aten.exp.default: no kernels for c64\n");
  EXPECT_EQ(reasons_of("graph @g(%x: f32[8]) -> (f32[8]) { %y = call aten.cumsum.default(%x, 0) : f32[8] return %y }"),
            "y aten.cumsum.default: no rule for this operator\n");
  EXPECT_EQ(
      reasons_of(
          "graph @g(%x: f32[8] host) -> (f32[8] host) { %y = call aten.exp.default(%x) : f32[8] host return %y }"),
      "y aten.exp.default: a tensor lies in CPU memory\n");
  EXPECT_EQ(
      reasons_of("graph @g(%x: i64[8]) -> (i64[8]) { %y = call aten.pow.Tensor_Scalar(%x, -7) : i64[8] return %y }"),
      "y aten.pow.Tensor_Scalar: no rule is for these arguments\n");
  EXPECT_EQ(reasons_of(
                "graph @g(%x: f32[s0]) -> (f32[s0]) { %y = call aten.roll.default(%x, [3], [0]) : f32[s0] return %y }"),
            "y aten.roll.default: sizes do not decide whether s0 > 0\n");
}

// A call that is refused half-way leaves nothing behind.
TEST(Decompose, ARefusalUndoesWhatWasInserted) {
  const char* text =
      "graph @g(%x: f32[8, 4]) -> (f32[9, 4]) { %y = call aten.cat.default([%x, %x], 0) : f32[9, 4] return %y }";
  Graph g = parse_graph(text);
  const std::vector<Refusal> refusals = decompose_with_reasons(g, Context{});
  ASSERT_EQ(refusals.size(), 1U);
  EXPECT_NE(refusals[0].reason.find("a shape other than the one recorded"), std::string::npos) << refusals[0].reason;
  EXPECT_EQ(g.size(), 1U);
  EXPECT_TRUE(verify(g).empty());
}

TEST(Promotion, OfTwoTypes) {
  EXPECT_EQ(promote(DType::kF16, DType::kBF16), DType::kF32);
  EXPECT_EQ(promote(DType::kBF16, DType::kF32), DType::kF32);
  EXPECT_EQ(promote(DType::kBF16, DType::kI64), DType::kBF16);
  EXPECT_EQ(promote(DType::kU8, DType::kI8), DType::kI16);
  EXPECT_EQ(promote(DType::kU8, DType::kI32), DType::kI32);
  EXPECT_EQ(promote(DType::kBool, DType::kU8), DType::kU8);
  EXPECT_EQ(promote(DType::kF8E4M3, DType::kF32), std::nullopt);
  EXPECT_EQ(promote(DType::kC64, DType::kF32), std::nullopt);
}

TEST(Promotion, DimensionsDecideBeforeNumbers) {
  const auto result = [](std::vector<DType> dimensioned, std::vector<DType> zero_dim, std::vector<DType> numbers) {
    Promotion p;
    for (DType t : dimensioned) p.add_tensor(t, /*has_dimensions=*/true);
    for (DType t : zero_dim) p.add_tensor(t, /*has_dimensions=*/false);
    for (DType t : numbers) p.add_number(t);
    return p.result();
  };
  EXPECT_EQ(result({DType::kBF16}, {DType::kF64}, {}), DType::kBF16);
  EXPECT_EQ(result({DType::kI32}, {DType::kI64}, {}), DType::kI32);
  EXPECT_EQ(result({DType::kI32}, {DType::kBF16}, {}), DType::kBF16);
  EXPECT_EQ(result({DType::kI32}, {}, {DType::kF32}), DType::kF32);
  EXPECT_EQ(result({DType::kU8}, {}, {DType::kI64}), DType::kU8);
  EXPECT_EQ(result({DType::kBool}, {}, {DType::kI64}), DType::kI64);
  EXPECT_EQ(result({}, {DType::kF16}, {DType::kF32}), DType::kF16);
}

}  // namespace
}  // namespace tilewright
