#include "schedule/index_space.h"

#include <gtest/gtest.h>

#include <random>

namespace tilewright {
namespace {

const Expr kN = Expr::symbol("n");

SymbolTable sizes() {
  SymbolTable table;
  table.add({.name = "n", .hint = 6, .lower = 1});
  return table;
}

TEST(IndexSpace, QuotientAndRemainderOfARowMajorIndex) {
  IndexSpace space(sizes());
  const Expr a = space.add_axis(kN), b = space.add_axis(64);
  EXPECT_EQ(space.div(a * 64 + b, 64), a);
  EXPECT_EQ(space.mod(a * 64 + b, 64), b);
  EXPECT_EQ(space.div(b, 64), Expr(0));
  EXPECT_EQ(space.mod(a * 128 + b, 64), b);
}

TEST(IndexSpace, SymbolicInnerSize) {
  IndexSpace space(sizes());
  const Expr a = space.add_axis(5), b = space.add_axis(kN), c = space.add_axis(4);
  const Expr index = (a * kN + b) * 4 + c;
  EXPECT_EQ(space.div(index, kN * 4), a);
  EXPECT_EQ(space.mod(index, kN * 4), b * 4 + c);
  EXPECT_EQ(space.div(a * (kN + 1) + b, kN + 1), a);
}

TEST(IndexSpace, WhatIsNotProvenStays) {
  IndexSpace space(sizes());
  const Expr a = space.add_axis(kN), b = space.add_axis(65);
  EXPECT_NE(space.div(a * 64 + b, 64), a);
  EXPECT_EQ(space.coefficient(space.div(b, 64), b.symbol_name()), std::nullopt);
  EXPECT_EQ(space.coefficient(a * 7 + b * kN, b.symbol_name()), std::optional<Expr>(kN));
}

TEST(IndexSpace, LanesFallOutOfDivisions) {
  IndexSpace space(sizes());
  const Expr q = space.add_axis(4096, /*divisor=*/8);
  for (int lane = 0; lane < 8; ++lane) {
    EXPECT_EQ(space.div(q + lane, 768) - space.div(q, 768), Expr(0)) << lane;
    EXPECT_EQ(space.mod(q + lane, 768) - space.mod(q, 768), Expr(lane)) << lane;
  }
}

TEST(IndexSpace, ReshapeThereAndBackIsTheIdentity) {
  IndexSpace space(sizes());
  const std::vector<Expr> from = {kN, 12, 64}, to = {kN * 12, 8, 8};
  const std::vector<Expr> coords = {space.add_axis(kN), space.add_axis(12), space.add_axis(64)};
  EXPECT_EQ(reshape_coords(space, reshape_coords(space, coords, from, to), to, from), coords);
}

// law: the row-major index of reshape_coords(c) in `to` is that of c in `from`.
TEST(IndexSpace, ReshapesKeepTheRowMajorIndex) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    IndexSpace space(sizes());
    std::vector<int64_t> primes(5);
    for (int64_t& p : primes) p = std::vector<int64_t>{2, 3, 4, 1}[random() % 4];
    auto grouped = [&] {
      std::vector<int64_t> shape = {1};
      for (int64_t p : primes) random() % 2 ? (shape.back() *= p, void()) : shape.push_back(p);
      return shape;
    };
    const std::vector<int64_t> from = grouped(), to = grouped();
    std::vector<Expr> from_sizes(from.begin(), from.end()), to_sizes(to.begin(), to.end()), axes;
    for (int64_t s : from) axes.push_back(space.add_axis(s));
    const std::vector<Expr> mapped = reshape_coords(space, axes, from_sizes, to_sizes);
    int64_t total = 1;
    for (int64_t s : from) total *= s;
    for (int64_t i = 0; i < total; ++i) {
      std::map<std::string, int64_t> at;
      int64_t rest = i;
      for (size_t d = from.size(); d-- > 0; rest /= from[d]) at[axes[d].symbol_name()] = rest % from[d];
      int64_t index = 0;
      for (size_t d = 0; d < to.size(); ++d) {
        const int64_t c = mapped[d].evaluate(at);
        ASSERT_TRUE(c >= 0 && c < to[d]) << mapped[d];
        index = index * to[d] + c;
      }
      ASSERT_EQ(index, i) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace tilewright
