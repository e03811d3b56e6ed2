#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace tilewright {

// Nodes of a graph that become one kernel.
//
// `body` is the kernel as a graph of its own, in canonical form: parameters %0, %1, ... and nodes named by position, no
// locations, only the symbols it uses (named s0, s1, ... by first appearance). Its tensor parameters carry the strides of the
// memory they read; its outputs' types carry the strides of the memory that is written (an output `-> into %p` is written to
// the parameter's memory). Equal bodies are equal kernels.
struct Group {
  std::string name;                  // display name, after the user's operators: "mul_amax_sub_exp"
  std::vector<const Node*> nodes;    // of the partitioned graph, in order
  std::vector<Value*> inputs;        // body parameter i is inputs[i]
  std::vector<Value*> outputs;       // body output i is outputs[i]
  std::vector<std::string> symbols;  // body symbol i is this symbol of the graph
  std::vector<int> origins;          // union of the nodes' origins, sorted
  Graph body{"kernel"};
};

// Builds the canonical body for `nodes` (in graph order). Outputs are the values of `nodes` used outside, in order of
// definition. `strides_of` gives the memory layout chosen for each input and output.
Group make_group(std::string name, const Graph& graph, const std::vector<const Node*>& nodes,
                 const std::function<std::vector<Expr>(const Value*)>& strides_of);

}  // namespace tilewright
