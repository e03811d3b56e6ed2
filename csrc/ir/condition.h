#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "symbolic/expr.h"

namespace tilewright {

// When a variant may run. The plan tests it at each call; an empty condition always holds.
struct Condition {
  int64_t pointer_alignment = 1;                    // every tensor pointer is a multiple of it (bytes)
  bool index_32bit = false;                         // every byte offset that the kernel computes is below 2^31
  std::vector<std::pair<Expr, int64_t>> divisible;  // expression is a multiple
  std::vector<std::pair<Expr, int64_t>> at_most;    // expression <= bound
  friend bool operator==(const Condition&, const Condition&) = default;
};

}  // namespace tilewright
