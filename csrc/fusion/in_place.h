#pragma once

#include <vector>

#include "fusion/evaluator.h"

namespace tilewright {

// An output bound to a parameter (`-> into`) whose kernel may write it straight into the parameter's memory.
struct InPlaceWrite {
  Value* value = nullptr;
  Value* parameter = nullptr;
  int cluster = -1;
};

// Finds the outputs that can be written in place and puts every reader of the old value before the writer. `refused`
// gets, for every other output that a kernel makes, the reason.
//
// Allowed where the value is that output only, its memory is laid out as the parameter's, all other readers of the
// parameter can run before, and the writing kernel reads the parameter only at the element that it writes.
struct InPlaceRefusal {
  const Value* value;
  const Value* parameter;
  std::string why;
};
std::vector<InPlaceWrite> find_in_place(const SourceIndex& index, const Units& units, Clusters& clusters,
                                        const Evaluator& evaluator, std::vector<InPlaceRefusal>& refused);

}  // namespace tilewright
