#include "compiler/pipeline.h"

#include <algorithm>
#include <array>

#include "passes/passes.h"

namespace tilewright {

namespace {

constexpr std::array kGraphPasses = {
    // first: attention calls are still whole, and masks are still the calls that the user's model made
    GraphPass{"drop_true_masks", drop_true_masks},
    // every later pass reads native operators; what it leaves as a call stays PyTorch's
    GraphPass{"decompose", decompose},
    // before fold_casts: casts that only a view separates meet
    GraphPass{"fold_views", fold_views},
    GraphPass{"fold_casts", fold_casts},
    // after the folds, which make more operands constant and more nodes equal
    GraphPass{"fold_constants", fold_constants},
    GraphPass{"cse", cse},
    // does nothing unless numerics=fast; after cse, so that a value is marked once for all its consumers
    GraphPass{"relax_rounding", relax_rounding},
    // last: fusion prices what is there
    GraphPass{"remove_dead", remove_dead},
};

}  // namespace

std::span<const GraphPass> graph_passes() { return kGraphPasses; }

const GraphPass* find_pass(std::string_view name) {
  const auto* found =
      std::find_if(kGraphPasses.begin(), kGraphPasses.end(), [&](const GraphPass& pass) { return name == pass.name; });
  return found == kGraphPasses.end() ? nullptr : found;
}

}  // namespace tilewright
