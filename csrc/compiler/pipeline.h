#pragma once

#include <span>
#include <string_view>

#include "ir/context.h"
#include "ir/graph.h"

namespace tilewright {

// A graph-to-graph rewrite of csrc/passes: the name is the function, the file, `--pass=`, the dump and the test folder.
struct GraphPass {
  const char* name;
  void (*run)(Graph& graph, const Context& ctx);
};

// The passes in the order in which they run; pipeline.cpp says why each stands where it does.
std::span<const GraphPass> graph_passes();
// Null where no pass has the name.
const GraphPass* find_pass(std::string_view name);

}  // namespace tilewright
