#pragma once

#include <functional>

#include "ir/graph.h"

namespace tilewright {

// The smallest graph found that still fails, by leaving out one thing at a time until nothing more can go: outputs,
// nodes (their uses become an operand of the same type, or a new parameter), parameters, strides, writes into
// parameters. `still_fails` is asked for valid graphs only; it must hold for `graph`.
Graph reduce(const Graph& graph, const std::function<bool(const Graph&)>& still_fails);

}  // namespace tilewright
