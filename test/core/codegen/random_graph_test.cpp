// Random graphs as one kernel each, against the interpreter.

#include "ir/random_graph.h"

#include "kernel_runner.h"

namespace tilewright {
namespace {

int check_seeds(uint64_t first, uint64_t count, const RandomGraphOptions& options, const std::string& arch) {
  int kernels = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    RandomGraph random = random_graph(seed, options);
    SCOPED_TRACE("seed " + std::to_string(seed) + " on " + arch + "\n" + print(random.graph));
    const KernelRunner runner(std::move(random.graph), arch);
    if (runner.proposal.candidates.empty()) {
      EXPECT_FALSE(runner.proposal.why_none.empty());
      continue;
    }
    ++kernels;
    const std::vector<InterpValue> inputs = random_inputs(runner.body, random.sizes, seed);
    InterpOptions interp;
    interp.symbols = random.sizes;
    const std::vector<InterpValue> expected = interpret(runner.body, inputs, interp);
    for (const Candidate& c : runner.proposal.candidates) {
      if (!runner.holds(c.condition, random.sizes, 0)) continue;
      SCOPED_TRACE(print(c.schedule));
      try {
        const KernelRunner::Run run = runner.run(c.schedule, random.sizes, inputs, 0);
        for (size_t i = 0; i < expected.size(); ++i) {
          const Verdict close = all_close(run.outputs[i], expected[i].tensor(), {0, random.output_errors[i]});
          EXPECT_TRUE(close.ok) << "output " << i << ": " << close.why_not;
        }
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }
  return kernels;
}

TEST(RandomGraphs, PointwiseAndViews) {
  RandomGraphOptions options;
  options.nodes = 7;
  options.reductions = false;
  EXPECT_GT(check_seeds(0, 40, options, "sm_80"), 8);
}

TEST(RandomGraphs, WithReductions) {
  RandomGraphOptions options;
  options.nodes = 5;
  EXPECT_GT(check_seeds(1000, 60, options, "sm_90a"), 10);
}

TEST(RandomGraphs, WithProductsOfMatrices) {
  RandomGraphOptions options;
  options.nodes = 6;
  options.products = true;
  options.reductions = false;
  options.dtypes = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kBool};
  EXPECT_GT(check_seeds(2000, 150, options, "sm_80"), 30);
}

}  // namespace
}  // namespace tilewright
