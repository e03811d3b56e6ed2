// Random graphs: properties of the text form, of cloning, and of the interpreter's two modes.
#include "ir/random_graph.h"

#include <gtest/gtest.h>

#include <set>

#include "ir/interp.h"

namespace tilewright {
namespace {

constexpr int kSeeds = 400;

TEST(RandomGraph, IsValidAndReadsBack) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    const RandomGraph random = random_graph(seed, {.nodes = 5 + seed % 40, .products = seed % 2 == 0});
    const std::string text = print(random.graph);
    EXPECT_EQ(verify(random.graph), std::vector<std::string>{}) << text;
    const Graph back = parse_graph(text);
    EXPECT_TRUE(back == random.graph) << text;
    EXPECT_EQ(print(back), text);
    EXPECT_TRUE(random.graph.clone() == random.graph);
  }
}

TEST(RandomGraph, IsTheSameForASeed) {
  EXPECT_EQ(print(random_graph(11).graph), print(random_graph(11).graph));
  EXPECT_NE(print(random_graph(11).graph), print(random_graph(12).graph));
}

TEST(RandomGraph, ReachesEveryOperator) {
  std::set<Op> seen;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const RandomGraph random = random_graph(seed, {.nodes = 30, .products = true});
    for (const Node* node : random.graph.nodes()) seen.insert(node->op);
  }
  for (const OpInfo& row : all_ops()) {
    const bool left_out = row.category == Category::kCall || row.category == Category::kHost ||
                          row.category == Category::kParameter || row.op == Op::kSymInt || row.op == Op::kBitcast;
    EXPECT_TRUE(left_out || seen.count(row.op)) << row.text;
  }
}

// The stated errors hold between eager's rounding and none where a graph has only wide types: exact mode is a second
// correct implementation then.
TEST(RandomGraph, StatesHowFarImplementationsMayBeApart) {
  int compared = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const RandomGraph random = random_graph(
        seed,
        {.nodes = 20, .products = seed % 2 == 0, .dtypes = {DType::kF64, DType::kI64, DType::kI32, DType::kBool}});
    const auto inputs = random_inputs(random.graph, random.sizes, seed);
    const auto eager =
        interpret(random.graph, inputs, {.mode = InterpMode::kEager, .symbols = random.sizes, .call = nullptr});
    const auto exact =
        interpret(random.graph, inputs, {.mode = InterpMode::kExact, .symbols = random.sizes, .call = nullptr});
    for (size_t i = 0; i < eager.size(); ++i) {
      const Verdict close = all_close(eager[i].tensor(), exact[i].tensor(), {0, random.output_errors[i]});
      EXPECT_TRUE(close) << "seed " << seed << " output " << i << ": " << close.why_not << "\n" << print(random.graph);
      ++compared;
    }
  }
  EXPECT_GT(compared, kSeeds);
}

}  // namespace
}  // namespace tilewright
