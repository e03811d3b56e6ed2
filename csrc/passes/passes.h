#pragma once

#include <string>
#include <vector>

#include "ir/context.h"
#include "ir/graph.h"

// Graph-to-graph rewrites, one a file. Each takes a valid graph and leaves a valid one that means the same; the pipeline
// (csrc/compiler) lists their order, verifies and dumps between them.

namespace tilewright {

// decompose: replaces calls of PyTorch's operators by operators of the Graph IR, by the rules of csrc/passes/rules.
//   before: %y = call aten.silu.default(%x) : bf16[8]       after: %1 = cast %x to f32
//                                                                  %2 = ... div %1, %2 ...
//                                                                  %y = cast %3 to bf16
// Keeps:     names, strides and offsets of results; loc; origins are the indices of the calls in the graph as it came.
// Must not:  touch a call without a rule, of types without kernels, or on another device: it stays, with a reason.
void decompose(Graph& g, const Context& ctx);

// Why a call stayed.
struct Refusal {
  std::string node;  // name of its first result, or of the operator where it has none
  std::string callee;
  std::string reason;
};
std::vector<Refusal> decompose_with_reasons(Graph& g, const Context& ctx);

}  // namespace tilewright
