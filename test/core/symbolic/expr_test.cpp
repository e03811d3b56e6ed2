#include "symbolic/expr.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "support/error.h"

namespace tilewright {
namespace {

Expr e(const char* text) { return parse_expr(text); }

TEST(Expr, PrintsOneCanonicalForm) {
  const std::pair<const char*, const char*> kCases[] = {
      {"(s0 + 1) * 2", "2*s0 + 2"},
      {"2 + s0*2", "2*s0 + 2"},
      {"s1*s0 + s0*s1", "2*s0*s1"},
      {"s0 - s0", "0"},
      {"-s0 + 3", "-s0 + 3"},
      {"3 - s0", "-s0 + 3"},
      {"s10 + s2", "s2 + s10"},
      {"(s0 + s1) * (s0 - s1)", "s0*s0 - s1*s1"},
      {"floordiv(s0*6, 3)", "2*s0"},
      {"floordiv(6*s0 + 7, 3)", "2*s0 + 2"},
      {"floordiv(4*s0 + 2, 8)", "floordiv(s0, 2)"},
      {"floordiv(s0*s1, s1)", "s0"},
      {"floordiv(s0*s1 + 5*s1, s1)", "s0 + 5"},
      {"floordiv(s0*s0 - s1*s1, s0 + s1)", "s0 - s1"},
      {"floordiv(3*s0*s1, 6*s1)", "floordiv(s0, 2)"},
      {"floordiv(floordiv(s0, 2), 3)", "floordiv(s0, 6)"},
      {"floordiv(floordiv(s0, 2) + 1, 3)", "floordiv(s0 + 2, 6)"},
      {"floordiv(mod(s0, 4), 4)", "0"},
      {"floordiv(-7, 2)", "-4"},
      {"floordiv(s0, -2)", "floordiv(-s0, 2)"},
      {"mod(4*s0, 4)", "0"},
      {"mod(5*s0 + 9, 4)", "mod(s0 + 1, 4)"},
      {"mod(2*s0 + 1, 4)", "2*mod(s0, 2) + 1"},
      {"mod(mod(s0, 12), 4)", "mod(s0, 4)"},
      {"mod(mod(s0, 4), 12)", "mod(s0, 4)"},
      {"mod(s0*s1, s1)", "0"},
      {"mod(-7, 2)", "1"},
      {"min(s0, s0 + 1)", "s0"},
      {"max(s0, s0 + 1)", "s0 + 1"},
      {"min(s1, min(4, s0))", "min(4, min(s0, s1))"},
      {"min(3, 5)", "3"},
  };
  for (const auto& [text, canonical] : kCases) {
    EXPECT_EQ(e(text).str(), canonical) << text;
    EXPECT_EQ(e(canonical), e(text)) << text;
  }
}

TEST(Expr, ReportsOverflowAndDivisionByZero) {
  EXPECT_THROW(Expr(INT64_MAX) + 1, UserError);
  EXPECT_THROW(e("s0*4611686018427387904*2"), UserError);
  EXPECT_THROW(floordiv(e("s0"), 0), UserError);
  EXPECT_THROW(mod(e("s0"), 0), UserError);
  EXPECT_THROW(e("s0*s0").evaluate({{"s0", int64_t{1} << 40}}), UserError);
}

TEST(Expr, ReportsWhereTextIsWrong) {
  const auto message = [](const char* text) {
    try {
      parse_expr(text);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(message("s0 + "), "<expression>:1:6: expected a size expression, found the end of the text");
  EXPECT_EQ(message("s0 s1"), "<expression>:1:4: expected the end of the expression, found 's1'");
  EXPECT_EQ(message("abs(s0)"),
            "<expression>:1:1: unknown function 'abs' in a size expression; there are floordiv, mod, min, max");
  EXPECT_EQ(message("99999999999999999999"),
            "<expression>:1:1: integer 99999999999999999999 does not fit into 64 bits");
}

TEST(Expr, SubstitutesAndSimplifiesAgain) {
  EXPECT_EQ(e("floordiv(s0, 4) + s1").substitute({{"s0", e("8*s2")}}), e("2*s2 + s1"));
  EXPECT_EQ(e("s0*s1").substitute({{"s0", Expr(3)}, {"s1", e("s0")}}), e("3*s0"));
}

TEST(Expr, ListsItsSymbols) {
  EXPECT_EQ(e("s1*max(s0, 3) + mod(s2, 5)").symbols(), (std::vector<std::string>{"s0", "s1", "s2"}));
  EXPECT_TRUE(Expr(4).symbols().empty());
}

TEST(Expr, ShowsItsTree) {
  const Expr sum = e("2*s0*s1 + s2 - 1");
  EXPECT_EQ(sum.kind(), Expr::Kind::kAdd);
  EXPECT_EQ(sum.operands(), (std::vector<Expr>{e("2*s0*s1"), e("s2"), -1}));
  EXPECT_EQ(e("2*s0*s1").kind(), Expr::Kind::kMul);
  EXPECT_EQ(e("2*s0*s1").operands(), (std::vector<Expr>{2, e("s0"), e("s1")}));
  EXPECT_EQ(e("min(s0, min(s1, s2))").operands(), (std::vector<Expr>{e("s0"), e("min(s1, s2)")}));
}

// A random expression, and the same computed without simplification.
struct Sample {
  Expr expr;
  std::function<int64_t(const std::map<std::string, int64_t>&)> value;
};

Sample random_sample(std::mt19937& random, int depth) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  if (depth == 0 || pick(0, 5) == 0) {
    if (pick(0, 1)) {
      const int64_t value = pick(-6, 12);
      return {value, [value](const auto&) { return value; }};
    }
    const std::string name = "s" + std::to_string(pick(0, 2));
    return {Expr::symbol(name), [name](const auto& at) { return at.at(name); }};
  }
  const Sample a = random_sample(random, depth - 1);
  const Sample b = random_sample(random, depth - 1);
  const auto floor_div = [](int64_t x, int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); };
  switch (pick(0, 7)) {
    case 0:
      return {a.expr + b.expr, [a, b](const auto& at) { return a.value(at) + b.value(at); }};
    case 1:
      return {a.expr - b.expr, [a, b](const auto& at) { return a.value(at) - b.value(at); }};
    case 2:
      return {a.expr * b.expr, [a, b](const auto& at) { return a.value(at) * b.value(at); }};
    case 3:
      return {min(a.expr, b.expr), [a, b](const auto& at) { return std::min(a.value(at), b.value(at)); }};
    case 4:
      return {max(a.expr, b.expr), [a, b](const auto& at) { return std::max(a.value(at), b.value(at)); }};
    default:
      break;
  }
  // Divisors: a constant, or a symbol (positive at every sampled point).
  int64_t by = pick(1, 9) * (pick(0, 4) == 0 ? -1 : 1);
  Sample divisor{by, [by](const auto&) { return by; }};
  if (pick(0, 2) == 0) {
    const Expr s = Expr::symbol("s1");
    divisor = {s * by, [by](const auto& at) { return at.at("s1") * by; }};
  }
  if (pick(0, 1)) {
    return {floordiv(a.expr, divisor.expr), [=](const auto& at) { return floor_div(a.value(at), divisor.value(at)); }};
  }
  return {mod(a.expr, divisor.expr),
          [=](const auto& at) { return a.value(at) - divisor.value(at) * floor_div(a.value(at), divisor.value(at)); }};
}

TEST(Expr, RandomExpressionsKeepTheirValueTextAndBounds) {
  for (int seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const Sample sample = random_sample(random, 4);
    EXPECT_EQ(parse_expr(sample.expr.str()), sample.expr) << "seed " << seed << ": " << sample.expr;
    SymbolTable table;
    table.add({"s0", 4, 0, 9, 2});
    table.add({"s1", 3, 1, 7});
    table.add({"s2", 6, 2, kNoUpperBound, 3});
    const Range range = table.range(sample.expr);
    const int64_t divisor = table.divisor(sample.expr);
    for (int i = 0; i < 8; ++i) {
      const std::map<std::string, int64_t> at = {
          {"s0", 2 * (random() % 5)}, {"s1", 1 + random() % 7}, {"s2", 3 + 3 * (random() % 50)}};
      const int64_t value = sample.value(at);
      EXPECT_EQ(sample.expr.evaluate(at), value) << "seed " << seed << ": " << sample.expr;
      EXPECT_LE(range.lower, value) << "seed " << seed << ": " << sample.expr;
      EXPECT_GE(range.upper, value) << "seed " << seed << ": " << sample.expr;
      EXPECT_TRUE(divisor == 0 ? value == 0 : value % divisor == 0) << "seed " << seed << ": " << sample.expr;
    }
  }
}

TEST(SymbolTable, KnowsRangesAndDivisors) {
  SymbolTable table;
  table.add({"s0", 32, 2, 1024, 8});
  table.add({"s1", 7, 2, kNoUpperBound});
  EXPECT_EQ(table.range(e("2*s0 + 1")).lower, 5);
  EXPECT_EQ(table.range(e("2*s0 + 1")).upper, 2049);
  EXPECT_EQ(table.range(e("s0 - s1")).lower, INT64_MIN);
  EXPECT_EQ(table.range(e("floordiv(s1, s0)")).lower, 0);
  EXPECT_EQ(table.range(e("mod(s1, 16)")).upper, 15);
  EXPECT_EQ(table.divisor(e("s0*s1 + 4*s1")), 4);
  EXPECT_EQ(table.divisor(e("floordiv(3*s0, 4)")), 2 * 3);
  EXPECT_TRUE(table.is_divisible(e("s0*s1"), 8));
  EXPECT_FALSE(table.is_divisible(e("s1"), 2));
  EXPECT_EQ(table.hint(e("s0 + s1")), 39);
}

TEST(SymbolTable, AnswersOnlyWhatAlwaysHolds) {
  SymbolTable table;
  table.add({"s0", 32, 2, 1024, 8});
  table.add({"s1", 7, 2, kNoUpperBound});
  EXPECT_EQ(table.known_less(e("s0"), e("s0 + s1")), true);
  EXPECT_EQ(table.known_less(e("s0"), 2000), true);
  EXPECT_EQ(table.known_less(e("s0"), 2), false);
  EXPECT_EQ(table.known_less(e("s0"), e("s1")), std::nullopt);
  EXPECT_EQ(table.known_equal(e("s0"), 12), false) << "12 is no multiple of 8";
  EXPECT_EQ(table.known_equal(e("s0"), 16), std::nullopt);
  EXPECT_EQ(table.known_equal(e("s1"), 1), false);
}

}  // namespace
}  // namespace tilewright
