#pragma once

#include <map>

#include "ir/graph.h"

namespace tilewright {

// What a tensor's elements may be: an interval that holds all of them. Truth values are 0 and 1. Bounds at the int64
// limits mean not known.
struct ValueRange {
  int64_t lower = INT64_MIN, upper = INT64_MAX;

  bool is(int64_t value) const { return lower == value && upper == value; }
  bool known() const { return lower != INT64_MIN && upper != INT64_MAX; }
};

// An analysis over the calls of a graph as it is imported: creation, comparison, logic, integer arithmetic and
// everything that only moves values. What it does not know has the range of its type.
class ValueRanges {
 public:
  explicit ValueRanges(const Graph& g) : g_(g) {}
  ValueRange of(const Value* value);

 private:
  ValueRange compute(const Node& node);
  ValueRange of(const Arg& arg);
  ValueRange of_argument(const Node& node, size_t i, const char* name);

  const Graph& g_;
  std::map<const Value*, ValueRange> known_;  // for asking only: its order is that of addresses
};

}  // namespace tilewright
