// The whole compiler on random graphs: what the kernels compute on the simulator is what the interpreter says.
// tilewright-run --random=0:500 --against=interp --option kernels=generate  looks further.
#include <gtest/gtest.h>

#include "compiler/simulate.h"
#include "ir/random_graph.h"

namespace tilewright {
namespace {

class RandomGraphs : public testing::TestWithParam<const char*> {};

TEST_P(RandomGraphs, KernelsComputeWhatTheInterpreterSays) {
  const std::string arch = GetParam();
  Options options;
  options.target = "sim:" + arch;
  options.kernels = "generate";
  options.strict = true;
  const Context ctx = make_context(options, "cpu");
  const uint64_t first = 100 * std::stoul(arch.substr(3));  // other graphs for each
  for (uint64_t seed = first; seed < first + 12; ++seed) {
    const RandomGraph random = random_graph(seed, {.nodes = 10});
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + print(random.graph));
    const auto inputs = random_inputs(random.graph, random.sizes, seed);
    const auto expected =
        interpret(random.graph, inputs, {.mode = InterpMode::kEager, .symbols = random.sizes, .call = nullptr});
    const SimulatedRun run = simulate(*compile_graph(print(random.graph), ctx), arch, inputs, random.sizes);
    for (size_t i = 0; i < expected.size(); ++i) {
      const Verdict close = all_close(run.outputs[i].tensor(), expected[i].tensor(), {0, random.output_errors[i]});
      EXPECT_TRUE(close) << "output " << i << ": " << close.why_not;
      Value* target = random.graph.outputs()[i].into;
      if (!target) continue;
      const auto& parameters = random.graph.parameters();
      const auto at = static_cast<size_t>(std::find(parameters.begin(), parameters.end(), target) - parameters.begin());
      EXPECT_TRUE(all_close(run.parameters[at].tensor(), expected[i].tensor(), {0, random.output_errors[i]}))
          << "output " << i << " is not in %" << target->name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, RandomGraphs, testing::Values("sm_80", "sm_86", "sm_89", "sm_90a"));

}  // namespace
}  // namespace tilewright
