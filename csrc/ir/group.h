#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace tilewright {

// Nodes of a graph that become one kernel.
//
// `body` is the kernel as a graph of its own, in canonical form: parameters %0, %1, ... and nodes named by position, no
// locations, only the symbols it uses (named s0, s1, ... by first appearance). Its tensor parameters carry the strides
// of the memory they read; its outputs' types carry the strides of the memory that is written (an output `-> into %p`
// is written to the parameter's memory). Equal bodies are equal kernels.
struct Group {
  std::string name;                  // display name, after the user's operators: "mul_amax_sub_exp"
  std::vector<const Node*> nodes;    // of the partitioned graph; body node i is nodes[i]
  std::vector<Value*> inputs;        // body parameter i is inputs[i]
  std::vector<Value*> outputs;       // body output i is outputs[i]
  std::vector<std::string> symbols;  // body symbol i is this symbol of the graph
  std::vector<int> origins;          // union of the nodes' origins, sorted
  Graph body{"kernel"};
};

// What make_group asks of its caller, for a value that the kernel reads or writes.
struct GroupMemory {
  // The strides of the value's memory.
  std::function<std::vector<Expr>(const Value*)> strides_of;
  // The parameter of the graph whose memory receives this output, or null. May be empty.
  std::function<Value*(const Value*)> into;
};

// Builds the canonical body of a kernel that computes `outputs` with `nodes`. Nodes stand in the body in the order in
// which a walk from the outputs to their operands leaves them, so that equal kernels are equal texts wherever their
// nodes stand in the graph. A value of `nodes` that others use too is an output only if it is listed: a cheap node may
// be part of several groups.
Group make_group(std::string name, const std::vector<const Node*>& nodes, const std::vector<Value*>& outputs,
                 const SymbolTable& symbols, const GroupMemory& memory);

}  // namespace tilewright
