#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/graph.h"

namespace tilewright {

// The two graphs of a partition, indexed: which call of source made which value of graph.
class SourceIndex {
 public:
  SourceIndex(const Graph& graph, const Graph& source);

  const Graph& graph() const { return graph_; }
  const Graph& source() const { return source_; }
  const std::vector<const Node*>& nodes() const { return nodes_; }
  const std::vector<const Node*>& source_nodes() const { return source_nodes_; }
  int id(const Node* node) const { return ids_.at(node); }
  int source_id(const Node* node) const { return source_ids_.at(node); }

  // The call of source that makes this value of graph; -1 for parameters and for values that source does not have.
  int maker(const Value* value) const;
  // The value of graph that is this value of source; null where the passes left none.
  Value* in_graph(const Value* source_value) const;
  // The value is a call's that only makes a view: PyTorch hands it out without a kernel.
  bool is_metadata(const Value* value) const;
  // Where a call of source stood among graph's nodes: the first node that came from it, else after its operands.
  int place_of(int source_id) const { return places_[source_id]; }

 private:
  const Graph& graph_;
  const Graph& source_;
  std::vector<const Node*> nodes_, source_nodes_;
  std::unordered_map<const Node*, int> ids_, source_ids_;
  std::vector<int> places_;
};

// What must run so that graph's outputs come about, when the calls `given_back` of source are PyTorch's.
struct Demand {
  std::vector<char> live;                     // of graph's nodes: calls that run, native nodes that a kernel computes
  std::vector<char> origin_runs;              // of source's calls: given back, or views that are only metadata
  std::unordered_set<const Value*> pinned;    // values of native nodes that must lie in memory
  std::unordered_set<const Value*> provided;  // values of native nodes that calls given back write
  // Calls beyond `given_back` that must be PyTorch's since nothing else makes an operand, with the reason.
  std::vector<std::pair<int, std::string>> drawn_in;
};
Demand demand(const SourceIndex& index, const std::vector<char>& given_back);

// Symbols that no input gives: a call binds them when it runs.
std::set<std::string> unbacked_symbols(const Graph& graph);
// Those that the node's results are sized by or its arguments contain, of `symbols`.
std::set<std::string> mentioned_symbols(const Node& node, const std::set<std::string>& symbols);

// The native node can be part of a kernel: its element types have kernels and its tensors lie on the target.
Verdict fits_kernels(const Node& node);

}  // namespace tilewright
