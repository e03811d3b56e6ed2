#include "ir/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tilewright {
namespace {

bool has(const Graph& g, Op op) {
  const auto nodes = g.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node* n) { return n->op == op; });
}

TEST(Reduce, KeepsOnlyWhatTheFailureNeeds) {
  const Graph graph = parse_graph(R"(graph @g(%x: f32[s0, 8] strides [1, s0], %y: f32[s0, 8], %z: f32[4]) {
    %a = add %x, %y
    %b = tanh %a
    %c = exp %b
    %d = mul %c, %y
    %e = sum %d dims [1] keepdim false
    %f = neg %z
    return %e, %f -> into %z, %b, s0
  })");
  int asked = 0;
  const Graph small = reduce(graph, [&](const Graph& g) {
    ++asked;
    EXPECT_EQ(verify(g), std::vector<std::string>{});
    return has(g, Op::kExp);
  });
  EXPECT_EQ(print(small),
            "graph @g(%x: f32[s0, 8] strides [8, 1]) -> f32[s0, 8]\n"
            "  symbols (s0 = 16)\n"
            "{\n"
            "  %c = exp %x : f32[s0, 8]\n"
            "  return %c\n"
            "}\n");
  EXPECT_LT(asked, 60);
}

TEST(Reduce, LeavesAGraphThatNeedsEverything) {
  const Graph graph = parse_graph("graph @g(%x: f32[4]) { %a = exp %x return %a }");
  EXPECT_EQ(print(reduce(graph, [](const Graph& g) { return has(g, Op::kExp); })), print(graph));
}

}  // namespace
}  // namespace tilewright
