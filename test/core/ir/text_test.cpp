// Parsing and printing: parse(print(g)) == g.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/graph.h"

namespace tilewright {
namespace {

std::string error_of(const char* text) {
  try {
    parse_graph(text, "a.tw");
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

constexpr const char* kSoftmaxScaled =
    R"tw(graph @softmax_scaled(%x: bf16[s0, 768] strides [768, 1], %bias: f32[768], %n: int = s0) -> (bf16[s0, 1], int)
  symbols (s0 = 32 in [2, 65536] div 8)
{
  %0 = call aten.mul.Tensor(%x, 0.125) : bf16[s0, 768] strides [768, 1] @ 0
  %m = max %0 dims [1] keepdim true : bf16[s0, 1] @ 1 from [0, 1]
  return %m, s0
}
loc 0 = "model.py":212 "q * scale" aten.mul.Tensor
loc 1 = "model.py":213 "q.max(-1)" aten.amax.default
)tw";

TEST(Text, PrintsWhatItRead) {
  const Graph graph = parse_graph(kSoftmaxScaled);
  EXPECT_EQ(print(graph), kSoftmaxScaled);
  EXPECT_EQ(parse_graph(print(graph)), graph);
  EXPECT_EQ(graph.nodes()[1]->loc->line, 213);
  EXPECT_EQ(graph.nodes()[1]->origins, (std::vector<int>{0, 1}));
}

TEST(Text, LeavesOutWhatIsNotWanted) {
  const std::string text = print(parse_graph(kSoftmaxScaled), {.locations = false, .strides = false, .origins = false});
  EXPECT_EQ(text.find("strides"), std::string::npos);
  EXPECT_EQ(text.find("loc"), std::string::npos);
  EXPECT_EQ(text.find("from"), std::string::npos);
  EXPECT_EQ(print(*parse_graph(kSoftmaxScaled).nodes()[1]), "%m = max %0 dims [1] keepdim true : bf16[s0, 1]");
}

TEST(Text, InfersResultTypesThatAreLeftOut) {
  const Graph graph = parse_graph(R"tw(
    graph @g(%x: f16[N, 4]) {
      %c = constant dtype f16 value -0.0
      %y = mul %x, %c
      %mean, %m2 = welford %y dims [0, 1] keepdim false
      return %mean, %m2, %y -> into %x
    })tw");
  EXPECT_EQ(print(graph), R"tw(graph @g(%x: f16[N, 4]) -> (f32[], f32[], f16[N, 4])
  symbols (N = 16)
{
  %c = constant dtype f16 value -0.0 : f16[]
  %y = mul %x, %c : f16[N, 4]
  %mean, %m2 = welford %y dims [0, 1] keepdim false : f32[], f32[]
  return %mean, %m2, %y -> into %x
}
)tw");
}

TEST(Text, ReadsEveryKindOfArgument) {
  const char* text =
      R"tw(graph @"odd name"(%x: f32[4] strides [1] offset 3 device "cuda:1", %h: f64[] host, %l: list(f32[2], int), %s: str) -> (opaque[3], none, list(int, list()), float, float) {
  %0 = call ns.op.out(%x, [%h, %h], 2*u0 - 1, -3, 1e-05, inf, -inf, nan, true, none, "a\"\\\n\x01é", [], dtype(bf16), device("cuda:0"), layout(strided), memory_format(channels_last), generator(default), complex(1.0, -0.5), a=1, b=[1, 2.0]) : opaque[3]
  call aten.print.default(%l)
  host 12(%x, u0)
  %1, %2 = host 3(%s) : float, bool
  return %0, none, [1, []], %1, 0.1
}
)tw";
  const Graph graph = parse_graph(text);
  EXPECT_EQ(parse_graph(print(graph)), graph);
  std::string expected = text;
  expected.replace(expected.find(") {"), 3, ")\n  symbols (u0 = 16)\n{");
  // The long header is broken into a parameter a line.
  EXPECT_EQ(print(graph).substr(print(graph).find("-> (opaque")), expected.substr(expected.find("-> (opaque")));
  EXPECT_EQ(graph.nodes()[0]->operands.size(), 3U);
}

TEST(Text, KeepsFloatsExactly) {
  for (const double value :
       {0.1, 1e300, 5e-324, -0.0, 1.0 / 3, 123456789012345678.0, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    Graph graph("g");
    graph.set_outputs({{Arg{graph.constant(DType::kF64, value)}}, {Arg{value}}});
    EXPECT_EQ(parse_graph(print(graph)), graph) << print(graph);
  }
  Graph zero("g"), minus_zero("g");
  zero.set_outputs({{Arg{0.0}}});
  minus_zero.set_outputs({{Arg{-0.0}}});
  EXPECT_FALSE(zero == minus_zero);
}

TEST(Text, ReadsManyGraphsOfAFile) {
  const std::vector<Graph> graphs = parse_graphs("// RUN: x\ngraph @a() { return }\n graph @b() -> int { return 1 }");
  ASSERT_EQ(graphs.size(), 2U);
  EXPECT_EQ(graphs[1].name(), "b");
  EXPECT_EQ(print(graphs[0]), "graph @a() -> () {\n  return\n}\n");
}

TEST(Text, SaysWhereItIsWrong) {
  EXPECT_EQ(error_of("graph @g(%x: f31[2]) { return }"), "a.tw:1:14: unknown element type 'f31'");
  EXPECT_EQ(error_of("graph @g(%x: tensor) { return }"),
            "a.tw:1:14: unknown type 'tensor'; a tensor is written f32[sizes]");
  EXPECT_EQ(error_of("graph @g() {\n  %a = neg %b\n  return\n}"), "a.tw:2:12: %b is not defined before this");
  EXPECT_EQ(error_of("graph @g(%a: f32[]) {\n  %a = neg %a\n  return\n}"), "a.tw:2:3: %a is defined twice");
  EXPECT_EQ(error_of("graph @g(%a: f32[]) {\n  %b = negate %a\n  return\n}"),
            "a.tw:2:8: unknown operator 'negate'; an operator of PyTorch is 'call aten.name.overload(...)'");
  EXPECT_EQ(error_of("graph @g(%a: f32[]) {\n  %b = neg %a dim 1\n  return\n}"),
            "a.tw:2:15: neg has no attribute 'dim'");
  EXPECT_EQ(error_of("graph @g(%a: f32[2], %b: f32[3]) {\n  %c = add %a, %b\n  return\n}"),
            "a.tw:2:8: add: operand 1 has shape [3], operand 0 has [2]");
  EXPECT_EQ(error_of("graph @g(%a: f32[2]) -> f32[3] { return %a }"),
            "a.tw:1:22: output 0 is f32[2], the graph's head says f32[3]");
  EXPECT_EQ(error_of("graph @g(%a: f32[2]) { %b = call aten.neg.default(%a) return %b }"),
            "a.tw:1:24: the result types of a call must be written");
  EXPECT_EQ(error_of("graph @g(%a: f32[2]) { %b = neg %a @ 7 return %b }"),
            "a.tw:1:51: location 7 is used and not given");
  EXPECT_EQ(error_of("graph @g() symbols (s0 = 1, s0 = 2) { return }"), "a.tw:1:29: symbol s0 is declared twice");
  EXPECT_EQ(error_of("graph @g() { return \"abc }"), "a.tw:1:21: string without an end");
}

}  // namespace
}  // namespace tilewright
