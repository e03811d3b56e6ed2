#include "ir/interp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tilewright {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

HostTensor floats(DType dtype, std::vector<double> values) {
  HostTensor t(dtype, {static_cast<int64_t>(values.size())});
  t.floats = std::move(values);
  return t;
}
HostTensor ints(DType dtype, std::vector<int64_t> values) {
  HostTensor t(dtype, {static_cast<int64_t>(values.size())});
  t.ints = std::move(values);
  return t;
}

// Runs one operator on tensors; `line` names them %a, %b, %c.
HostTensor run(const std::string& line, const std::vector<HostTensor>& inputs, InterpMode mode = InterpMode::kEager) {
  std::string text = "graph @g(";
  std::vector<InterpValue> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string type;
    std::vector<Expr> shape(inputs[i].shape.begin(), inputs[i].shape.end());
    write(type, Type::tensor(inputs[i].dtype, shape));
    text += std::string(i ? ", " : "") + "%" + static_cast<char>('a' + i) + ": " + type;
    values.push_back(InterpValue::tensor(inputs[i]));
  }
  const Graph graph = parse_graph(text + ") {\n%r = " + line + "\nreturn %r }");
  EXPECT_EQ(verify(graph), std::vector<std::string>{});
  return interpret(graph, values, {.mode = mode, .symbols = {}, .call = nullptr})[0].tensor();
}

void expect_floats(const HostTensor& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.floats.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(found.floats[i])) << i;
    } else {
      EXPECT_EQ(found.floats[i], expected[i]) << i;
      EXPECT_EQ(std::signbit(found.floats[i]), std::signbit(expected[i])) << i;
    }
  }
}

using I = std::vector<int64_t>;

TEST(Interp, EagerRoundsEachOperatorAndExactNever) {
  const HostTensor one = floats(DType::kBF16, {1.0}), small = floats(DType::kBF16, {0x1p-9});
  expect_floats(run("add %a, %b", {one, small}), {1.0});
  expect_floats(run("add %a, %b", {one, small}, InterpMode::kExact), {1.0 + 0x1p-9});
  const HostTensor third = run("div %a, %b", {floats(DType::kF32, {1}), floats(DType::kF32, {3})});
  expect_floats(third, {static_cast<double>(1.0F / 3.0F)});
  // Inside one operator nothing rounds to f16: 300 * 300 overflows f16, fma does not see it.
  expect_floats(run("fma %a, %a, %b", {floats(DType::kF16, {300}), floats(DType::kF16, {-60000})}), {30000});
  expect_floats(run("mul %a, %a", {floats(DType::kF16, {300})}), {kInf});
}

TEST(Interp, UnaryFunctions) {
  const double x = 0.375;
  const std::pair<const char*, double> kCases[] = {
      {"exp", std::exp(x)},
      {"exp2", std::exp2(x)},
      {"expm1", std::expm1(x)},
      {"log", std::log(x)},
      {"log2", std::log2(x)},
      {"log10", std::log10(x)},
      {"log1p", std::log1p(x)},
      {"sin", std::sin(x)},
      {"cos", std::cos(x)},
      {"tan", std::tan(x)},
      {"asin", std::asin(x)},
      {"acos", std::acos(x)},
      {"atan", std::atan(x)},
      {"sinh", std::sinh(x)},
      {"cosh", std::cosh(x)},
      {"tanh", std::tanh(x)},
      {"asinh", std::asinh(x)},
      {"atanh", std::atanh(x)},
      {"erf", std::erf(x)},
      {"erfc", std::erfc(x)},
      {"lgamma", std::lgamma(x)},
      {"sqrt", std::sqrt(x)},
      {"rsqrt", 1 / std::sqrt(x)},
      {"reciprocal", 1 / x},
      {"sigmoid", 1 / (1 + std::exp(-x))},
      {"neg", -x},
      {"abs", x},
      {"copy", x},
  };
  for (const auto& [op, expected] : kCases) {
    EXPECT_DOUBLE_EQ(run(std::string(op) + " %a", {floats(DType::kF64, {x})}).floats[0], expected) << op;
    const HostTensor narrow = run(std::string(op) + " %a", {floats(DType::kF32, {x})});
    EXPECT_NEAR(narrow.floats[0], expected, 4e-7 * std::fabs(expected)) << op;
    EXPECT_EQ(narrow.floats[0], static_cast<float>(narrow.floats[0])) << op;
  }
  EXPECT_DOUBLE_EQ(run("acosh %a", {floats(DType::kF64, {1.5})}).floats[0], std::acosh(1.5));
}

TEST(Interp, ErfinvInvertsErf) {
  for (const double y : {-0.999999999, -0.7, -1e-10, 0.0, 1e-300, 0.1, 0.5, 0.9, 0.99999, 1 - 1e-15}) {
    const double x = run("erfinv %a", {floats(DType::kF64, {y})}).floats[0];
    EXPECT_NEAR(std::erf(x), y, 2e-16 + 1e-14 * std::fabs(y)) << y;
  }
  expect_floats(run("erfinv %a", {floats(DType::kF32, {1, -1, 2, 0})}), {kInf, -kInf, kNan, 0});
}

TEST(Interp, RoundingFunctions) {
  const HostTensor x = floats(DType::kF32, {-2.5, -0.5, 0.5, 1.5, 2.5, -0.0});
  expect_floats(run("round %a", {x}), {-2, -0.0, 0, 2, 2, -0.0});
  expect_floats(run("floor %a", {x}), {-3, -1, 0, 1, 2, -0.0});
  expect_floats(run("ceil %a", {x}), {-2, -0.0, 1, 2, 3, -0.0});
  expect_floats(run("trunc %a", {x}), {-2, -0.0, 0, 1, 2, -0.0});
}

TEST(Interp, NanAndSignedZero) {
  const HostTensor a = floats(DType::kF32, {kNan, 1, 0.0, -0.0}), b = floats(DType::kF32, {1, kNan, -0.0, 0.0});
  expect_floats(run("maximum %a, %b", {a, b}), {kNan, kNan, 0.0, 0.0});
  expect_floats(run("minimum %a, %b", {a, b}), {kNan, kNan, -0.0, -0.0});
  expect_floats(run("fmax %a, %b", {a, b}), {1, 1, 0.0, 0.0});
  expect_floats(run("fmin %a, %b", {a, b}), {1, 1, -0.0, -0.0});
  expect_floats(run("sign %a", {floats(DType::kF32, {kNan, -3, 0, kInf})}), {0, -1, 0, 1});
  expect_floats(run("copysign %a, %b", {floats(DType::kF32, {1, 2}), floats(DType::kF32, {-0.0, kInf})}), {-1, 2});
  EXPECT_EQ(run("signbit %a", {a}).ints, (I{0, 0, 0, 1}));
  EXPECT_EQ(run("isnan %a", {a}).ints, (I{1, 0, 0, 0}));
  EXPECT_EQ(run("isinf %a", {floats(DType::kF32, {-kInf, 1})}).ints, (I{1, 0}));
  EXPECT_EQ(run("eq %a, %b", {a, b}).ints, (I{0, 0, 1, 1}));
  EXPECT_EQ(run("ne %a, %b", {a, b}).ints, (I{1, 1, 0, 0}));
  EXPECT_EQ(run("lt %a, %b", {a, b}).ints, (I{0, 0, 0, 0}));
}

TEST(Interp, DivisionOfFloats) {
  const HostTensor a = floats(DType::kF64, {7, -7, 7, -7, 1, 1, 0}), b = floats(DType::kF64, {2, 2, -2, -2, 0.1, 0, 0});
  expect_floats(run("floor_div %a, %b", {a, b}), {3, -4, -4, 3, 9, kInf, kNan});
  expect_floats(run("mod %a, %b", {floats(DType::kF64, {7, -7, 7, -7}), floats(DType::kF64, {3, 3, -3, -3})}),
                {1, 2, -2, -1});
  expect_floats(run("fmod %a, %b", {floats(DType::kF64, {7, -7, 7, -7}), floats(DType::kF64, {3, 3, -3, -3})}),
                {1, -1, 1, -1});
}

TEST(Interp, IntegersWrap) {
  EXPECT_EQ(run("add %a, %b", {ints(DType::kI32, {INT32_MAX}), ints(DType::kI32, {1})}).ints, I{INT32_MIN});
  EXPECT_EQ(run("mul %a, %a", {ints(DType::kU8, {20})}).ints, I{144});
  EXPECT_EQ(run("sub %a, %b", {ints(DType::kU8, {3}), ints(DType::kU8, {5})}).ints, I{254});
  EXPECT_EQ(run("neg %a", {ints(DType::kI8, {-128})}).ints, I{-128});
  EXPECT_EQ(run("abs %a", {ints(DType::kI64, {INT64_MIN, -3})}).ints, (I{INT64_MIN, 3}));
  EXPECT_EQ(run("fma %a, %a, %a", {ints(DType::kI16, {300})}).ints, I{300 * 300 + 300 - 65536});
  EXPECT_EQ(run("sign %a", {ints(DType::kI32, {-5, 0, 9})}).ints, (I{-1, 0, 1}));
}

TEST(Interp, DivisionOfIntegers) {
  const HostTensor a = ints(DType::kI32, {7, -7, 7, -7, INT32_MIN}), b = ints(DType::kI32, {2, 2, -2, -2, -1});
  EXPECT_EQ(run("div %a, %b", {a, b}).ints, (I{3, -3, -3, 3, INT32_MIN}));
  EXPECT_EQ(run("floor_div %a, %b", {a, b}).ints, (I{3, -4, -4, 3, INT32_MIN}));
  EXPECT_EQ(run("mod %a, %b", {a, b}).ints, (I{1, 1, -1, -1, 0}));
  EXPECT_EQ(run("fmod %a, %b", {a, b}).ints, (I{1, -1, 1, -1, 0}));
  const HostTensor c = ints(DType::kI64, {5, -5, INT64_MIN}), zero = ints(DType::kI64, {0, 0, -1});
  EXPECT_EQ(run("div %a, %b", {c, zero}).ints, (I{-1, -1, INT64_MIN}));
  EXPECT_EQ(run("floor_div %a, %b", {c, zero}).ints, (I{-1, -2, INT64_MIN}));
  EXPECT_EQ(run("mod %a, %b", {c, zero}).ints, (I{5, -5, 0}));
  EXPECT_EQ(run("div %a, %b", {ints(DType::kU8, {200}), ints(DType::kU8, {0})}).ints, I{255});
}

TEST(Interp, PowersAndShiftsAndBits) {
  EXPECT_EQ(
      run("pow %a, %b", {ints(DType::kI32, {3, 2, 1, -1, -1, 0, 2}), ints(DType::kI32, {4, 40, -5, -5, -4, 0, -1})})
          .ints,
      (I{81, 0, 1, -1, 1, 1, 0}));
  EXPECT_EQ(run("shl %a, %b", {ints(DType::kI32, {1, 1, 1, 3}), ints(DType::kI32, {31, 32, -1, 1})}).ints,
            (I{INT32_MIN, 0, 0, 6}));
  EXPECT_EQ(run("shr %a, %b", {ints(DType::kI32, {-8, -8, 8, 8}), ints(DType::kI32, {1, 32, 40, 2})}).ints,
            (I{-4, -1, 0, 2}));
  EXPECT_EQ(run("not %a", {ints(DType::kU8, {5})}).ints, I{250});
  EXPECT_EQ(run("not %a", {ints(DType::kBool, {1, 0})}).ints, (I{0, 1}));
  EXPECT_EQ(run("xor %a, %b", {ints(DType::kI32, {6}), ints(DType::kI32, {3})}).ints, I{5});
  EXPECT_EQ(run("and %a, %b", {ints(DType::kI32, {6}), ints(DType::kI32, {3})}).ints, I{2});
  EXPECT_EQ(run("or %a, %b", {ints(DType::kI32, {6}), ints(DType::kI32, {3})}).ints, I{7});
  EXPECT_EQ(run("add %a, %b", {ints(DType::kBool, {0, 1, 1}), ints(DType::kBool, {0, 0, 1})}).ints, (I{0, 1, 1}));
  EXPECT_EQ(run("mul %a, %b", {ints(DType::kBool, {0, 1, 1}), ints(DType::kBool, {0, 0, 1})}).ints, (I{0, 0, 1}));
}

TEST(Interp, Casts) {
  const HostTensor x = floats(DType::kF32, {-1.9, 1.9, 3e9, -3e9, kNan, kInf, 300.7});
  EXPECT_EQ(run("cast %a to i32", {x}).ints, (I{-1, 1, INT32_MAX, INT32_MIN, 0, INT32_MAX, 300}));
  EXPECT_EQ(run("cast %a to i64", {x}).ints, (I{-1, 1, 3000000000, -3000000000, INT64_MIN, INT64_MAX, 300}));
  EXPECT_EQ(run("cast %a to i8", {x}).ints, (I{-1, 1, -1, 0, 0, -1, 44}));
  EXPECT_EQ(run("cast %a to u8", {floats(DType::kF32, {-1, 255.5, 257})}).ints, (I{255, 255, 1}));
  EXPECT_EQ(run("cast %a to bool", {floats(DType::kF32, {0, -0.0, kNan, 0.1})}).ints, (I{0, 0, 1, 1}));
  EXPECT_EQ(run("cast %a to i32", {floats(DType::kF64, {kNan})}).ints, I{INT32_MIN});
  expect_floats(run("cast %a to bf16", {floats(DType::kF32, {1.00390625, 3.4e38})}), {1.0, kInf});
  expect_floats(run("cast %a to bf16", {floats(DType::kF32, {1.00390625})}, InterpMode::kExact), {1.00390625});
  expect_floats(run("cast %a to f32", {ints(DType::kI64, {16777217, -3})}), {16777216, -3});
  EXPECT_EQ(run("cast %a to i8", {ints(DType::kI32, {200, -1})}).ints, (I{-56, -1}));
  EXPECT_EQ(run("cast %a to bool", {ints(DType::kI32, {256, 0})}).ints, (I{1, 0}));
  EXPECT_EQ(run("bitcast %a to i32", {floats(DType::kF32, {1.0, -0.0})}).ints, (I{0x3f800000, INT32_MIN}));
  expect_floats(run("bitcast %a to bf16", {ints(DType::kI16, {0x3f80})}), {1.0});
  expect_floats(run("nextafter %a, %b", {floats(DType::kBF16, {1, 1, 0}), floats(DType::kBF16, {2, 0, -1})}),
                {1.0078125, 0.99609375, -std::ldexp(1.0, -133)});
}

TEST(Interp, WhereTakesTheChosenOperandEvenBesideNan) {
  const HostTensor c = ints(DType::kBool, {1, 0}), a = floats(DType::kF32, {1, kNan});
  expect_floats(run("where %a, %b, %c", {c, a, floats(DType::kF32, {kNan, 2})}), {1, 2});
}

// A graph without inputs that gives i64 tensors.
I elements(const std::string& body) {
  const Graph graph = parse_graph("graph @g() {\n" + body + "\nreturn %r }");
  EXPECT_EQ(verify(graph), std::vector<std::string>{});
  return interpret(graph, {})[0].tensor().ints;
}

TEST(Interp, IndexMaps) {
  const std::string x = "%i = iota dtype i64 shape [6] dim 0\n%x = reshape %i shape [2, 3]\n";  // 0 1 2 / 3 4 5
  EXPECT_EQ(elements(x + "%r = permute %x dims [1, 0]"), (I{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(elements(x + "%r = flip %x dims [0]"), (I{3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(elements(x + "%r = flip %x dims [0, 1]"), (I{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(elements(x + "%r = slice %x dim 1 start 0 end 3 step 2"), (I{0, 2, 3, 5}));
  EXPECT_EQ(elements(x + "%r = slice %x dim 0 start 1 end 1 step 1"), I{});
  EXPECT_EQ(elements(x + "%r = select %x dim 1 index 2"), (I{2, 5}));
  EXPECT_EQ(elements(x + "%s = select %x dim 0 index 1\n%r = expand %s shape [2, 3]"), (I{3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(elements(x + "%s = slice %x dim 1 start 1 end 2 step 1\n%r = expand %s shape [2, 2]"), (I{1, 1, 4, 4}));
  EXPECT_EQ(elements(x + "%r = concat %x, %x dim 1"), (I{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(elements(x + "%r = concat %x, %x dim 0"), (I{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(elements(x + "%f = constant dtype i64 value 9\n%r = pad %x, %f low [0, 1] high [1, 0]"),
            (I{9, 0, 1, 2, 9, 3, 4, 5, 9, 9, 9, 9}));
  EXPECT_EQ(elements(x + "%u = unsqueeze %x dims [0, 2]\n%r = squeeze %u dims [2]"), (I{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(elements("%r = iota dtype i64 shape [2, 3] dim 1"), (I{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(elements("%c = constant dtype i64 value -4\n%r = full %c shape [3]"), (I{-4, -4, -4}));
}

HostTensor matrix(DType dtype, I shape, std::vector<double> values) {
  HostTensor t(dtype, std::move(shape));
  if (t.is_float())
    t.floats = std::move(values);
  else
    t.ints.assign(values.begin(), values.end());
  return t;
}

TEST(Interp, Reductions) {
  const HostTensor x = matrix(DType::kF32, {2, 3}, {1, 2, 3, -4, 5, 6});
  expect_floats(run("sum %a dims [1] keepdim false", {x}), {6, 7});
  expect_floats(run("sum %a dims [0] keepdim true", {x}), {-3, 7, 9});
  expect_floats(run("sum %a dims [] keepdim false", {x}), {1, 2, 3, -4, 5, 6});
  expect_floats(run("mean %a dims [0] keepdim false", {x}), {-1.5, 3.5, 4.5});
  expect_floats(run("prod %a dims [0, 1] keepdim false", {x}), {-720});
  expect_floats(run("max %a dims [1] keepdim false", {x}), {3, 6});
  expect_floats(run("min %a dims [0, 1] keepdim false", {x}), {-4});
  EXPECT_EQ(run("argmax %a dims [0] keepdim false", {x}).ints, (I{0, 1, 1}));
  EXPECT_EQ(run("argmin %a dims [0, 1] keepdim false", {x}).ints, I{3});
  EXPECT_EQ(run("sum %a dims [0] keepdim false", {ints(DType::kI32, {INT32_MAX, 1})}).ints, I{INT32_MIN});
  EXPECT_EQ(run("prod %a dims [0] keepdim false", {ints(DType::kI64, {3, -4})}).ints, I{-12});
  EXPECT_EQ(run("max %a dims [0] keepdim false", {ints(DType::kU8, {3, 200, 4})}).ints, I{200});
  EXPECT_EQ(run("any %a dims [0] keepdim false", {ints(DType::kBool, {0, 0, 1})}).ints, I{1});
  EXPECT_EQ(run("all %a dims [0] keepdim false", {ints(DType::kBool, {1, 0, 1})}).ints, I{0});
}

TEST(Interp, ReductionsOfNanTiesAndNothing) {
  const HostTensor x = floats(DType::kF32, {1, kNan, 3, kNan}), ties = floats(DType::kF32, {2, 7, 7, 2});
  expect_floats(run("max %a dims [0] keepdim false", {x}), {kNan});
  expect_floats(run("min %a dims [0] keepdim false", {x}), {kNan});
  EXPECT_EQ(run("argmax %a dims [0] keepdim false", {x}).ints, I{1});
  EXPECT_EQ(run("argmin %a dims [0] keepdim false", {x}).ints, I{1});
  EXPECT_EQ(run("argmax %a dims [0] keepdim false", {ties}).ints, I{1});
  EXPECT_EQ(run("argmin %a dims [0] keepdim false", {ties}).ints, I{0});
  const HostTensor none(DType::kF32, {2, 0});
  expect_floats(run("sum %a dims [1] keepdim false", {none}), {0, 0});
  expect_floats(run("prod %a dims [1] keepdim false", {none}), {1, 1});
  expect_floats(run("mean %a dims [1] keepdim false", {none}), {kNan, kNan});
  EXPECT_THROW(run("max %a dims [1] keepdim false", {none}), UserError);
  expect_floats(run("max %a dims [0] keepdim false", {none}), {});
  EXPECT_EQ(run("all %a dims [0] keepdim false", {ints(DType::kBool, {})}).ints, I{1});
}

TEST(Interp, WelfordGivesMeanAndDeviationsInTheComputeType) {
  const Graph g = parse_graph(R"(graph @g(%x: bf16[4]) {
    %mean, %m2 = welford %x dims [0] keepdim false
    return %mean, %m2 })");
  const auto out = interpret(g, {InterpValue::tensor(floats(DType::kBF16, {1, 2, 3, 4.03125}))});
  EXPECT_EQ(out[0].tensor().dtype, DType::kF32);
  EXPECT_EQ(out[0].tensor().floats[0], 2.5078125);
  EXPECT_NEAR(out[1].tensor().floats[0], 5.09448, 1e-5);
}

TEST(Interp, MeanRoundsOnce) {
  // 257 ones in bf16: an accumulator in bf16 would stop at 256.
  expect_floats(run("sum %a dims [0] keepdim false", {floats(DType::kBF16, std::vector<double>(512, 1.0))}), {512});
  expect_floats(run("mean %a dims [0] keepdim false", {floats(DType::kBF16, std::vector<double>(257, 1.0))}), {1});
}

TEST(Interp, ProductsOfMatrices) {
  const HostTensor a = matrix(DType::kBF16, {2, 2, 3}, {1, 2, 3, 4, 5, 6, -1, 0, 1, 0, 2, 0});
  const HostTensor b = matrix(DType::kBF16, {2, 3, 2}, {1, 0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7});
  const HostTensor product = run("matmul %a, %b precision ieee", {a, b});
  EXPECT_EQ(product.dtype, DType::kF32);
  EXPECT_EQ(product.shape, (std::vector<int64_t>{2, 2, 2}));
  expect_floats(product, {4, 5, 10, 11, 4, 4, 8, 10});
  const HostTensor none =
      run("matmul %a, %b precision ieee", {matrix(DType::kF32, {2, 0}, {}), matrix(DType::kF32, {0, 1}, {})});
  expect_floats(none, {0, 0});
}

TEST(Interp, ProductsAccumulateInTheComputeType) {
  const HostTensor a = matrix(DType::kF32, {1, 3}, {0x1p30, 1, -0x1p30}), b = matrix(DType::kF32, {3, 1}, {1, 1, 1});
  expect_floats(run("matmul %a, %b precision ieee", {a, b}), {0});
  expect_floats(run("matmul %a, %b precision ieee", {a, b}, InterpMode::kExact), {1});
  // 1 + 2^-11 is in the middle of two numbers of 10 bits.
  const HostTensor c = matrix(DType::kF32, {1, 1}, {1 + 0x1p-11}), one = matrix(DType::kF32, {1, 1}, {1});
  expect_floats(run("matmul %a, %b precision tf32", {c, one}), {1 + 0x1p-10});
  expect_floats(run("matmul %a, %b precision tf32", {c, one}, InterpMode::kExact), {1 + 0x1p-11});
}

TEST(Interp, NumbersBecomeTensorsByCast) {
  const Graph g = parse_graph(R"(graph @g(%f: float, %n: int = s0, %x: f32[2*s0 + 1]) {
    %a = cast %f to f32
    %b = cast %n to f32
    %c = symint dtype i64 value s0
    %d = cast %c to f32
    %y = mul %x, %a
    %z = add %y, %b
    %w = add %z, %d
    return %w, s0 })");
  const auto out = interpret(g, {{0.5}, {int64_t{1}}, InterpValue::tensor(floats(DType::kF32, {2, 4, 6}))});
  expect_floats(out[0].tensor(), {3, 4, 5});
  EXPECT_EQ(std::get<int64_t>(out[1].data), 1);
}

TEST(Interp, CallsGoThroughTheCallback) {
  const Graph g = parse_graph(R"(graph @g(%x: f32[3]) symbols (u0 = 2 unbacked) {
    %n, %y = call my.nonzero.default(%x, [1, none], scale=2.5) : int = u0, f32[u0]
    %c = constant dtype f32 value 1.0
    %f = full %c shape [u0]
    %r = add %y, %f
    return %r, %n })");
  InterpOptions options;
  options.call = [](const Node& node, const auto& args, const auto& kwargs) {
    EXPECT_EQ(node.callee, "my.nonzero.default");
    EXPECT_EQ(args.size(), 2U);
    EXPECT_EQ(std::get<double>(kwargs[0].second.data), 2.5);
    return std::vector<InterpValue>{{int64_t{2}},
                                    InterpValue::tensor(floats(DType::kF32, {args[0].tensor().floats[0], 5}))};
  };
  const auto out = interpret(g, {InterpValue::tensor(floats(DType::kF32, {3, 0, 1}))}, options);
  expect_floats(out[0].tensor(), {4, 6});
  EXPECT_THROW(interpret(g, {InterpValue::tensor(floats(DType::kF32, {3, 0, 1}))}), UserError);
}

TEST(Interp, RefusesInputsThatDoNotFit) {
  const Graph g = parse_graph("graph @g(%x: f32[s0], %y: f32[2*s0]) { return %x }");
  const auto message = [&](const HostTensor& x, const HostTensor& y) {
    try {
      interpret(g, {InterpValue::tensor(x), InterpValue::tensor(y)});
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(message(HostTensor(DType::kF32, {2}), HostTensor(DType::kF32, {4})), "none");
  EXPECT_EQ(message(HostTensor(DType::kF32, {2}), HostTensor(DType::kF32, {5})),
            "%y is f32[2*s0], given is f32[5] s0=2");
  EXPECT_EQ(message(HostTensor(DType::kF16, {2}), HostTensor(DType::kF32, {4})), "%x is f32[s0], given is f16[2] s0=2");
  EXPECT_THROW(interpret(g, {}), UserError);
}

TEST(HostTensor, MemoryAtStrides) {
  HostTensor x = random_tensor(DType::kBF16, {3, 4}, 5);
  const std::vector<int64_t> strides = {1, 5};
  ASSERT_EQ(reach(x.shape, strides), 18);
  std::vector<uint16_t> memory(18, 0xffff);
  store(x, strides, memory.data());
  EXPECT_EQ(memory[3], 0xffff) << "between the columns";
  EXPECT_EQ(load(DType::kBF16, x.shape, strides, memory.data()).floats, x.floats);
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kF8E4M3, DType::kF8E5M2, DType::kI64,
                            DType::kI32, DType::kI16, DType::kI8, DType::kU8, DType::kBool}) {
    const HostTensor t = random_tensor(dtype, {7}, 3);
    std::vector<char> bytes_of(static_cast<size_t>(7 * bytes(dtype)));
    store(t, {1}, bytes_of.data());
    EXPECT_TRUE(all_close(load(dtype, {7}, {1}, bytes_of.data()), t, {})) << dtype;
  }
}

TEST(HostTensor, ComparesWithinTolerance) {
  const HostTensor a = floats(DType::kF32, {1, kNan, kInf, 0}), b = floats(DType::kF32, {1.001, kNan, kInf, 0});
  EXPECT_FALSE(all_close(a, b, {1e-4, 0}));
  EXPECT_TRUE(all_close(a, b, {1e-2, 0}));
  const Verdict verdict = all_close(floats(DType::kF32, {1, 2, 5}), floats(DType::kF32, {1, 3, 9}), {});
  EXPECT_EQ(verdict.why_not, "2 of 3 elements differ; the worst is element 2: found 5, expected 9");
  EXPECT_FALSE(all_close(floats(DType::kF32, {kInf}), floats(DType::kF32, {1}), {1, 1}));
  EXPECT_FALSE(all_close(floats(DType::kF32, {kNan}), floats(DType::kF32, {1}), {1, 1}));
}

}  // namespace
}  // namespace tilewright
