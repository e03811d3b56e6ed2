#include "runtime/sizes.h"

#include <gtest/gtest.h>

#include <random>

#include "support/error.h"

namespace tilewright {
namespace {

int64_t run(const char* text, int64_t s0, int64_t s1) {
  const SymbolIndex index({"s0", "s1"});
  const int64_t values[] = {s0, s1};
  return SizeProgram(parse_expr(text), index)(values);
}

TEST(SizeProgram, Evaluates) {
  EXPECT_EQ(run("7", 0, 0), 7);
  EXPECT_EQ(run("s1", 3, 5), 5);
  EXPECT_EQ(run("s0*s1 + 2*s0 - 1", 3, 5), 20);
  EXPECT_EQ(run("floordiv(s0, 4)", -1, 0), -1);
  EXPECT_EQ(run("mod(s0, 4)", -1, 0), 3);
  EXPECT_EQ(run("min(s0, s1)*max(s0, s1)", -2, 9), -18);
}

TEST(SizeProgram, AgreesWithTheExpression) {
  const char* const kTexts[] = {"floordiv(s0*s1 + 3, 4)*s1", "mod(s0 + s1, 7) + min(s0, 3*s1)", "s0*s0*s1 - s1*s1 + 11",
                                "max(floordiv(s0, 2), mod(s1, 5))"};
  const SymbolIndex index({"s0", "s1"});
  std::mt19937 random(5);
  for (const char* text : kTexts) {
    const Expr e = parse_expr(text);
    const SizeProgram program(e, index);
    for (int i = 0; i < 100; ++i) {
      const int64_t values[] = {static_cast<int64_t>(random() % 1000), static_cast<int64_t>(random() % 1000)};
      EXPECT_EQ(program(values), e.evaluate({{"s0", values[0]}, {"s1", values[1]}})) << text << " " << values[0];
    }
  }
}

TEST(SizeProgram, RefusesWhatHasNoSource) {
  EXPECT_THROW(SizeProgram(parse_expr("s0 + u7"), SymbolIndex({"s0"})), InternalError);
  EXPECT_THROW(run("floordiv(4, s0)", 0, 0), UserError);
}

}  // namespace
}  // namespace tilewright
