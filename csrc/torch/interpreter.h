#pragma once

#include <torch/csrc/utils/pybind.h>

#include <map>
#include <string>

namespace tilewright {

// Runs a graph text with the interpreter (ir/interp.h) on PyTorch's values: tensors, numbers, bools. Calls go through
// the dispatcher on the CPU; `mode` is "eager" or "exact"; `symbols` gives those that no parameter does. Returns the
// outputs as CPU tensors and numbers, in order.
py::list interpret_text(const std::string& text, const py::list& inputs, const std::map<std::string, int64_t>& symbols,
                        const std::string& mode);

}  // namespace tilewright
