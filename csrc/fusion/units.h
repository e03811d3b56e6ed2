#pragma once

#include <unordered_map>
#include <vector>

#include "fusion/demand.h"

namespace tilewright {

// One thing that has to run: a native node that some kernel computes, a call of graph, or a call of source.
//
// Views, constants and other nodes that cost a kernel nothing are no units: each kernel that looks through them has
// them as its own. Only where their value must lie in memory they are a unit too.
struct Unit {
  enum class Kind : uint8_t { kNative, kCall, kOrigin };
  Kind kind = Kind::kNative;
  const Node* node = nullptr;
  int place = -1;                  // where it stood in graph
  std::vector<int> before, after;  // units whose results it reads, and that read its; sorted

  // Native units: the values read from other units, parameters and calls, and the free nodes looked through for them.
  std::vector<const Value*> reads;
  std::vector<const Node*> free_nodes;
};

class Units {
 public:
  Units(const SourceIndex& index, const Demand& demand);

  const std::vector<Unit>& all() const { return units_; }
  const Unit& operator[](int unit) const { return units_[unit]; }
  int size() const { return static_cast<int>(units_.size()); }
  // The unit that writes or computes the value; -1 for a parameter.
  int maker(const Value* value) const;
  // Native units that read the value.
  const std::vector<int>& readers(const Value* value) const;
  bool is_pinned(const Value* value) const { return demand_.pinned.count(value) > 0; }

 private:
  void add_units();
  void look_through(Unit& unit);
  void link(int from, int to);
  void link_operands(int unit);
  void keep_effects_in_order();
  void keep_sizes_in_order();
  int source_maker(const Value* source_value) const;

  const SourceIndex& index_;
  const Demand& demand_;
  std::vector<Unit> units_;
  std::vector<int> of_node_, of_source_;  // unit of graph's node, of source's call; -1: none
  std::unordered_map<const Value*, std::vector<int>> readers_;
};

// A kernel has the node for nothing: an index map, a constant, or a fill.
bool is_free(const Node& node);

}  // namespace tilewright
