#pragma once

#include <vector>

#include "ir/interp.h"

namespace tilewright {

// The operators of the interpreter, by category; sizes are numbers here. Private to ir/interp*.cpp.

using Sizes = std::vector<int64_t>;

// Operand tensors have the result's shape or rank 0.
HostTensor interp_pointwise(const Node& node, const std::vector<const HostTensor*>& operands, const Sizes& shape,
                            InterpMode mode);
HostTensor interp_cast(const HostTensor& from, DType to, InterpMode mode);

std::vector<HostTensor> interp_reduction(const Node& node, const HostTensor& from, const Sizes& shape, InterpMode mode);

HostTensor interp_matmul(const Node& node, const HostTensor& a, const HostTensor& b, const Sizes& shape,
                         InterpMode mode);

// Attributes of views with their sizes evaluated.
struct ViewSizes {
  Sizes shape;                  // of the result
  int64_t start = 0, step = 1;  // slice
  int64_t index = 0;            // select
  Sizes low;                    // pad
};
HostTensor interp_view(const Node& node, const std::vector<const HostTensor*>& operands, const ViewSizes& sizes);

}  // namespace tilewright
