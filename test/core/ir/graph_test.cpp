// Building and changing graphs.
#include "ir/graph.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

Type f32(std::vector<Expr> shape) { return Type::tensor(DType::kF32, std::move(shape)); }

TEST(Graph, InfersTypesAndNamesValues) {
  Graph g("g");
  g.symbols().add({"s0", 4, 2});
  Value* x = g.add_parameter("x", f32({Expr::symbol("s0"), 3}));
  Value* y = g.add(Op::kNeg, {x})->result();
  Value* z = g.add(Op::kNeg, {y}, {}, nullptr, nullptr, "x")->result();
  Value* w = g.add(Op::kNeg, {z}, {}, nullptr, nullptr, "x")->result();
  EXPECT_EQ(y->name, "0");
  EXPECT_EQ(z->name, "x_1");
  EXPECT_EQ(w->name, "x_2");
  EXPECT_EQ(y->type, x->type);
  EXPECT_EQ(g.find("x_2"), w);
  EXPECT_EQ(g.find("nothing"), nullptr);
}

TEST(Graph, RefusesOperandsThatDoNotFit) {
  Graph g("g");
  Value* x = g.add_parameter("x", f32({4}));
  Value* i = g.add_parameter("i", Type::tensor(DType::kI32, {4}));
  EXPECT_THROW(g.add(Op::kAdd, {x, i}), UserError);
  EXPECT_THROW(g.add(Op::kAdd, {x}), UserError);
  EXPECT_THROW(g.add(Op::kCast, {x}), UserError) << "without its attribute";
  EXPECT_EQ(g.size(), 0U);
  EXPECT_TRUE(x->users.empty());
}

TEST(Graph, KeepsUses) {
  Graph g("g");
  Value* x = g.add_parameter("x", f32({4}));
  Node* square = g.add(Op::kMul, {x, x});
  Node* sum = g.add(Op::kAdd, {square->result(), x});
  g.set_outputs({{Arg{sum->result()}}, {Arg{square->result()}, x}});
  EXPECT_EQ(x->users, (std::vector<Node*>{square, square, sum}));
  EXPECT_EQ(x->output_uses, 1) << "its memory is written";
  EXPECT_EQ(square->result()->output_uses, 1);

  Node* negated = g.add(Op::kNeg, {x}, {}, nullptr, sum);
  EXPECT_EQ(g.index(negated), 1);
  EXPECT_EQ(g.index(sum), 2);
  g.replace_operand(sum, 1, negated->result());
  EXPECT_EQ(x->users, (std::vector<Node*>{square, square, negated}));
  g.replace_all_uses(square->result(), negated->result());
  EXPECT_EQ(negated->result()->users, (std::vector<Node*>{sum, sum}));
  EXPECT_EQ(g.outputs()[1].tensor(), negated->result());
  EXPECT_FALSE(square->result()->has_uses());
  g.erase(square);
  EXPECT_EQ(x->users, (std::vector<Node*>{negated}));
  EXPECT_EQ(g.index(sum), 1);
  EXPECT_THROW(g.erase(negated), InternalError);
}

TEST(Graph, ChangesArgumentsOfCalls) {
  Graph g("g");
  Value* x = g.add_parameter("x", f32({4}));
  Value* y = g.add_parameter("y", f32({4}));
  Node* call = g.add_call("aten.cat.default", {Arg{Arg::List{{x}, {y}, {x}}}}, {{"dim", Arg{Expr(0)}}}, {f32({12})});
  g.replace_operand(call, 2, y);
  EXPECT_EQ(print(*call), "%0 = call aten.cat.default([%x, %y, %y], dim=0) : f32[12]");
  g.replace_all_uses(y, x);
  EXPECT_EQ(print(*call), "%0 = call aten.cat.default([%x, %x, %x], dim=0) : f32[12]");
  EXPECT_EQ(x->users.size(), 3U);
}

TEST(Graph, ErasesWhatNobodyUses) {
  Graph g("g");
  Value* x = g.add_parameter("x", f32({4}));
  g.add(Op::kExp, {g.add(Op::kNeg, {x})->result()});
  g.add_call("aten.neg.default", {Arg{x}}, {}, {f32({4})});
  g.set_outputs({{Arg{x}}});
  g.erase_dead();
  EXPECT_EQ(g.size(), 1U) << "a call may have an effect";
  g.erase_dead([](const Node&) { return false; });
  EXPECT_EQ(g.size(), 0U);
}

TEST(Graph, ClonesWhole) {
  Graph g = parse_graph(R"(
    graph @g(%x: f32[s0], %y: f32[s0]) symbols (s0 = 8 in [2, inf]) {
      %a = add %x, %y @ 0 from [3]
      %b = call aten.cat.default([%a, %x], dim=0) : f32[2*s0] @ 0
      return %b, %a -> into %x
    }
    loc 0 = "m.py":1 "x + y" aten.add.Tensor)");
  Graph copy = g.clone();
  EXPECT_EQ(copy, g);
  EXPECT_EQ(print(copy), print(g));
  copy.rename(copy.find("a"), "c");
  EXPECT_FALSE(copy == g);
  EXPECT_NE(g.find("a"), nullptr);
  EXPECT_EQ(copy.find("c")->output_uses, 1);
}

TEST(Graph, RoundsConstantsToTheirType) {
  Graph g("g");
  EXPECT_EQ(g.constant(DType::kBF16, 0.1)->node->attr_double("value"), 0.10009765625);
  EXPECT_EQ(g.constant(DType::kI32, 3)->node->attr_int("value"), 3);
  EXPECT_EQ(g.constant(DType::kBool, 3)->node->attr_bool("value"), true);
  EXPECT_EQ(g.constant_int(DType::kI64, INT64_MAX)->node->attr_int("value"), INT64_MAX);
  EXPECT_THROW(g.constant_int(DType::kI8, 200), UserError);
}

TEST(Graph, MovesKeepNodes) {
  Graph g("g");
  Value* x = g.add_parameter("x", f32({4}));
  Node* n = g.add(Op::kNeg, {x});
  Graph moved = std::move(g);
  EXPECT_EQ(moved.find("x"), x);
  moved.erase(n);
  EXPECT_EQ(moved.size(), 0U);
}

}  // namespace
}  // namespace tilewright
