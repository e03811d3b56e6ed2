// One test for each rule of ir/verify.cpp, and one for each shape rule's errors.
#include <gtest/gtest.h>

#include "ir/graph.h"

namespace tilewright {
namespace {

// The errors of a graph text, one a line; result types must be written where the shape rule would refuse.
std::string errors_of(const Graph& graph) {
  std::string out;
  for (const std::string& error : verify(graph)) out += error + "\n";
  return out;
}
std::string errors_of(const char* text) { return errors_of(parse_graph(text)); }

TEST(Verify, AcceptsAValidGraph) {
  EXPECT_EQ(
      errors_of(R"(graph @g(%x: bf16[s0, 768] strides [768, 1], %n: int = s0) symbols (s0 = 32 in [2, 65536] div 8) {
    %0 = call aten.mul.Tensor(%x, 0.125) : bf16[s0, 768]
    %u = call aten.item.default(%x) : int = u0
    %m = max %0 dims [1] keepdim true
    %z = host 3(%m, u0) : f32[u0]
    return %z, s0, u0, %0 -> into %x
  })"),
      "");
}

TEST(Verify, CollectsAllErrorsEachUnderItsLine) {
  EXPECT_EQ(errors_of(R"(graph @g(%x: f32[4], %y: f32[5], %i: i32[4]) {
    %a = add %x, %y : f32[4]
    %b = add %x, %i : f32[4]
    return %a, %b
  })"),
            "%a = add %x, %y : f32[4]\n    add: operand 1 has shape [5], operand 0 has [4]\n"
            "%b = add %x, %i : f32[4]\n    add: operand 1 has element type i32, operand 0 has f32\n");
}

TEST(Verify, Names) {
  Graph g = parse_graph("graph @g(%x: f32[4]) { %a = neg %x %b = neg %x return %a, %b }");
  g.find("b")->name = "a";
  EXPECT_EQ(errors_of(g), "%a = neg %x : f32[4]\n    %a is defined twice\n");
  g.nodes()[1]->result()->name = "b c";
  EXPECT_EQ(errors_of(g), "%b c = neg %x : f32[4]\n    'b c' is neither a word nor a number\n");
}

TEST(Verify, Defined) {
  Graph g = parse_graph("graph @g(%x: f32[4]) { %a = neg %x %b = neg %a return %b }");
  g.replace_operand(g.nodes()[0], 0, g.find("b"));
  EXPECT_EQ(errors_of(g), "%a = neg %b : f32[4]\n    %b is not defined before this\n");
  Graph other = parse_graph("graph @h(%y: f32[4]) { return %y }");
  g = parse_graph("graph @g(%x: f32[4]) { return %x }");
  g.set_outputs({{Arg{other.find("y")}}});
  EXPECT_EQ(errors_of(g), "return\n    %y is not defined\n");
}

TEST(Verify, Uses) {
  Graph g = parse_graph("graph @g(%x: f32[4]) { %a = add %x, %x return %a }");
  g.find("x")->users.pop_back();
  g.find("a")->output_uses = 0;
  EXPECT_EQ(errors_of(g),
            "%x: f32[4]\n    %x lists 1 uses, it has 2\n"
            "%a = add %x, %x : f32[4]\n    %a counts 0 uses as output, it has 1\n");
}

TEST(Verify, Shape) {
  EXPECT_EQ(errors_of("graph @g(%x: f32[4]) { %a = neg %x : f16[4] return %a }"),
            "%a = neg %x : f16[4]\n    result 0 is f16[4], expected f32[4]\n");
  EXPECT_EQ(errors_of("graph @g(%x: f32[4]) { %a = add %x : f32[4] return %a }"),
            "%a = add %x : f32[4]\n    add: 1 operands, expected 2\n");
  EXPECT_EQ(errors_of("graph @g(%x: f32[4]) { %a = sum %x dims [0] : f32[] return %a }"),
            "%a = sum %x dims [0] : f32[]\n    sum: attribute keepdim is missing\n");
  EXPECT_EQ(
      errors_of("graph @g(%x: f32[4]) { %a = sum %x keepdim true dims [0] : f32[1] return %a }"),
      "%a = sum %x keepdim true dims [0] : f32[1]\n    sum: attributes are repeated or not in the table's order\n");
  EXPECT_EQ(errors_of("graph @g(%x: f32[4], %s: str) { %a = neg %s : f32[4] return %a }"),
            "%a = neg %s : f32[4]\n    neg: operand 0 is str, not a tensor\n");
}

TEST(Verify, Call) {
  EXPECT_EQ(errors_of("graph @g(%x: f32[4]) { %a = call neg(%x) : f32[4] return %a }"),
            "%a = call neg(%x) : f32[4]\n    'neg' is not namespace.name.overload\n");
  EXPECT_EQ(errors_of("graph @g(%x: f32[4]) { call aten.f.default(%x, a=1, a=2) return %x }"),
            "call aten.f.default(%x, a=1, a=2)\n    argument a is given twice\n");
  Graph g = parse_graph("graph @g(%x: f32[4]) { call aten.f.default(%x) return %x }");
  g.nodes()[0]->args.clear();
  EXPECT_EQ(errors_of(g), "call aten.f.default()\n    operands are not the values of the arguments\n");
}

TEST(Verify, Symbols) {
  EXPECT_EQ(
      errors_of(
          "graph @g() symbols (s0 = 1 in [2, 4], s1 = 3 in [5, 2], s2 = 6 div 4, s3 = 0 div 0, max = 2) { return }"),
      "symbol s0\n    hint 1 outside of [2, 4]\n"
      "symbol s1\n    the range [5, 2] is empty\n"
      "symbol s1\n    hint 3 outside of [5, 2]\n"
      "symbol s2\n    hint 6 is no multiple of the divisor 4\n"
      "symbol s3\n    divisor 0 is not positive\n"
      "symbol max\n    the name of a symbol is a word without another meaning\n");
}

TEST(Verify, Bound) {
  EXPECT_EQ(errors_of(R"(graph @g(%x: f32[4]) symbols (u0 = 4 unbacked) {
    %a = call aten.f.default(%x, u0) : f32[4]
    %b = call aten.g.default(%x) : int = u0
    %c = call aten.f.default(%x, u0) : f32[4]
    return %a, %c
  })"),
            "%a = call aten.f.default(%x, u0) : f32[4]\n    unbacked symbol u0 is used before a call gives it\n");
  Graph g("g");
  g.add_parameter("x", Type::tensor(DType::kF32, {Expr::symbol("s7")}));
  EXPECT_EQ(errors_of(g), "%x: f32[s7]\n    symbol s7 is not in the symbol table\n");
}

TEST(Verify, SizesAndStrides) {
  EXPECT_EQ(errors_of("graph @g(%x: f32[-3], %y: f32[s0 - 9]) symbols (s0 = 4 in [2, 8]) { return }"),
            "%x: f32[-3]\n    size -3 of %x is negative\n%y: f32[s0 - 9]\n    size s0 - 9 of %y is negative\n");
  EXPECT_EQ(errors_of("graph @g(%x: f32[3, 4] strides [1]) { return }"),
            "%x: f32[3, 4] strides [1]\n    1 strides of %x of rank 2\n");
}

TEST(Verify, Into) {
  EXPECT_EQ(errors_of(R"(graph @g(%x: f32[4], %y: f32[5], %n: int) {
    %a = neg %x
    return %a -> into %a, %a -> into %x, %x -> into %x, %a -> into %y, 3 -> into %n
  })"),
            "return\n    -> into %a, which is no parameter\n"
            "return\n    %x is written twice\n"
            "return\n    f32[4] -> into %y, which is f32[5]\n"
            "return\n    int = 3 -> into %n, which is int\n");
}

// An operator's line that its shape rule refuses, and why. %x: f32[s0, 4], %y: f32[4, s0], %s: f32[], %i: i32[s0, 4],
// %b: bool[s0, 4], %one: f32[1, 4], with s0 in [2, 64].
struct Refusal {
  const char* line;
  const char* why;
};

class ShapeRules : public testing::TestWithParam<Refusal> {};

TEST_P(ShapeRules, Refuse) {
  const std::string text = std::string(
                               "graph @g(%x: f32[s0, 4], %y: f32[4, s0], %s: f32[], %i: i32[s0, 4], %b: bool[s0, 4], "
                               "%one: f32[1, 4], %c: c64[4]) symbols (s0 = 8 in [2, 64]) {\n") +
                           "%r = " + GetParam().line + "\nreturn %r }";
  try {
    parse_graph(text, "t");
    FAIL() << GetParam().line << " is accepted";
  } catch (const UserError& error) {
    EXPECT_EQ(error.what(), "t:2:6: " + std::string(GetParam().why));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ShapeRules,
    testing::Values(
        Refusal{"add %x, %y", "add: operand 1 has shape [4, s0], operand 0 has [s0, 4]"},
        Refusal{"add %x, %one", "add: operand 1 has shape [1, 4], operand 0 has [s0, 4]"},
        Refusal{"sub %b, %b", "sub: element type bool, expected a number type"},
        Refusal{"exp %i", "exp: element type i32, expected a float type"},
        Refusal{"shl %x, %x", "shl: element type f32, expected an integer type"},
        Refusal{"and %x, %x", "and: element type f32, expected an integer type or bool"},
        Refusal{"isnan %i", "isnan: element type i32, expected a float type"},
        Refusal{"neg %c", "neg: operand 0 has element type c64, which only calls take"},
        Refusal{"where %x, %x, %x", "where: the condition has element type f32, expected bool"},
        Refusal{"where %b, %x, %i", "where: operand 2 has element type i32, operand 1 has f32"},
        Refusal{"cast %x to c64", "cast: to c64, which only calls give"},
        Refusal{"bitcast %x to f16", "bitcast: from f32 (4 bytes) to f16 (2)"},
        Refusal{"constant dtype f32 value 1", "constant: the value of a f32 constant is a float, such as 1.0"},
        Refusal{"constant dtype i8 value 128", "constant: 128 does not fit into i8"},
        Refusal{"constant dtype u8 value -1", "constant: -1 does not fit into u8"},
        Refusal{"constant dtype i32 value s0", "constant: the value of a i32 constant is an integer"},
        Refusal{"constant dtype bool value 1", "constant: the value of a bool constant is true or false"},
        Refusal{"symint dtype f32 value s0", "symint: element type f32, expected an integer type or f64"},
        Refusal{"reshape %x shape [s0, 5]", "reshape: [s0, 4] has 4*s0 elements, [s0, 5] has 5*s0"},
        Refusal{"reshape %x shape [-4, -s0]", "reshape: size -4 is negative"},
        Refusal{"permute %x dims [0]", "permute: 1 dimensions named, the operand has 2"},
        Refusal{"permute %x dims [0, 0]", "permute: dimension 0 is named twice"},
        Refusal{"permute %x dims [0, 2]", "permute: dimension 2 of rank 2"},
        Refusal{"expand %x shape [4]", "expand: [s0, 4] to the lower rank of [4]"},
        Refusal{"expand %x shape [3, s0, 5]", "expand: size 4 of dimension 1 does not expand to 5"},
        Refusal{"slice %x dim 1 start 1 end 5 step 1", "slice: from 1 to 5 of size 4"},
        Refusal{"slice %x dim 0 start 0 end s0 step 0", "slice: step 0 is not positive"},
        Refusal{"flip %x dims [0, 0]", "flip: dimension 0 is named twice"},
        Refusal{"select %x dim 1 index 4", "select: index 4 of size 4"},
        Refusal{"squeeze %x dims [0]", "squeeze: dimension 0 has size s0"},
        Refusal{"unsqueeze %x dims [3]", "unsqueeze: dimension 3 of rank 3"},
        Refusal{"concat dim 0", "concat: no operands"},
        Refusal{"concat %x, %y dim 0", "concat: operand 1 has shape [4, s0], operand 0 has [s0, 4], along dimension 0"},
        Refusal{"pad %x, %x low [0, 0] high [0, 0]", "pad: the fill has rank 2, expected 0"},
        Refusal{"pad %x, %s low [0] high [0, 0]", "pad: low has 1 sizes, high 2, the operand 2"},
        Refusal{"pad %x, %s low [0, -1] high [0, 0]", "pad: size -1 is negative"},
        Refusal{"iota dtype bool shape [4] dim 0", "iota: element type bool, expected a number type"},
        Refusal{"iota dtype i64 shape [4] dim 1", "iota: dimension 1 of rank 1"},
        Refusal{"full %x shape [4]", "full: the value has rank 2, expected 0"},
        Refusal{"matmul %x, %x precision ieee", "matmul: no product of [s0, 4] and [s0, 4]"},
        Refusal{"matmul %x, %s precision ieee", "matmul: operands of rank 2 and 0, expected one rank, 2 or more"},
        Refusal{"matmul %i, %i precision ieee", "matmul: element type i32, expected f64, f32, f16 or bf16"},
        Refusal{"matmul %x, %y precision half", "matmul: attribute precision is not ieee or tf32"},
        Refusal{"sum %b dims [0] keepdim true", "sum: element type bool, expected a number type"},
        Refusal{"mean %i dims [0] keepdim true", "mean: element type i32, expected a float type"},
        Refusal{"any %x dims [0] keepdim true", "any: element type f32, expected bool"},
        Refusal{"sum %x dims [1, 0] keepdim true", "sum: dims are not sorted"},
        Refusal{"argmax %x dims [] keepdim false", "argmax: 0 dimensions of rank 2, expected one or all"}));

}  // namespace
}  // namespace tilewright
