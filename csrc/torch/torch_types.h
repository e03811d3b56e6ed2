#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <string>

#include "ir/type.h"
#include "support/error.h"

namespace tilewright {

c10::ScalarType scalar_type(DType t);  // throws InternalError for kOpaque
DType dtype_of(c10::ScalarType t);     // kOpaque where the IR has no name for it

// What the tags of call arguments mean to PyTorch's schemas, where each is an integer: dtype(bf16), layout(strided),
// memory_format(channels_last). Throws UserError for a text that PyTorch does not know.
int64_t tag_value(const std::string& tag, const std::string& text);

// A device as a graph spells it, for a plan that runs on `target`: "" is the target, "host" CPU memory, and a graph
// captured on a GPU runs on the target in its place.
c10::Device device_of(const std::string& text, c10::Device target);

}  // namespace tilewright
