#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "cost/kernel_time.h"
#include "fusion/clusters.h"
#include "fusion/partition.h"

namespace tilewright {

// What schedule and cost say of a set of nodes as one kernel.
struct Evaluation {
  Verdict verdict;  // not ok: no family takes it, with the reasons
  std::vector<Candidate> variants;
  int priced = 0;
  Time time;
  KernelTime kernel;
};

// The nodes of a kernel and what it hands on.
struct KernelNodes {
  std::vector<const Node*> nodes;  // in graph's order
  std::vector<Value*> outputs;     // in graph's order
};

// Asks schedule and cost about sets of units, each set that is equal as a kernel once: the layers of a model are many
// times the same.
class Evaluator {
 public:
  Evaluator(const SourceIndex& index, const Context& ctx, const Proposer& proposer)
      : index_(index), ctx_(ctx), proposer_(proposer) {}

  const Evaluation& evaluate(const KernelNodes& kernel);
  // The memory of these values is PyTorch's, laid out as recorded, though native nodes define them.
  void set_provided(const std::unordered_set<const Value*>& provided);
  // For a body that differs from what was evaluated, as with an output that is written into a parameter.
  Evaluation evaluate_body(const Graph& body) const;

  // The strides of a value's memory where it crosses from one step to another: those recorded of what PyTorch makes;
  // for what kernels make eager's where they are known and no two elements share a place, else row-major.
  std::vector<Expr> memory_strides(const Value* value) const;
  const SymbolTable& symbols() const { return index_.graph().symbols(); }

 private:
  using Key = std::vector<int>;
  Key key_of(const KernelNodes& kernel);
  int signature_of(const Node* node);
  int memory_of(const Value* value);
  int intern(const std::string& text);

  const SourceIndex& index_;
  const Context& ctx_;
  const Proposer& proposer_;
  std::unordered_map<std::string, int> texts_;
  std::unordered_map<const Node*, int> signatures_;
  std::unordered_map<const Value*, int> memories_;
  std::unordered_set<const Value*> provided_;
  std::map<Key, Evaluation> known_;
};

// The nodes of a kernel made of these units: they and the free nodes that they look through. `outputs` are results of
// the units that are pinned or read by a cluster not among `together` that does not compute them itself.
KernelNodes kernel_nodes(const std::vector<int>& members, const std::vector<int>& together, const Units& units,
                         const Clusters& clusters, const SourceIndex& index);

// The same for units whatever their clusters are: `outputs` are results that are pinned or that other units read.
KernelNodes kernel_nodes_apart(const std::vector<int>& members, const Units& units, const SourceIndex& index);

// The symbols' hints satisfy the condition; pointers are taken to be aligned.
bool holds_at_hints(const Condition& condition, const Graph& body);

}  // namespace tilewright
