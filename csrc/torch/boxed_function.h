#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <vector>

#include "torch/compiled.h"

namespace tilewright {

// Runs a plan on the elements of a list, which it empties, so that each dies at its last use in the plan, and returns
// the first `outputs` results as a list. `constants` are parameters after the list's. Called and returns under the GIL,
// which it gives up while the plan runs.
py::object call_boxed(const std::shared_ptr<Compiled>& compiled, const std::vector<c10::IValue>& constants,
                      Py_ssize_t outputs, PyObject* args);

// The compiled function that AOTAutograd holds: call_boxed as an object that Python's interpreter calls directly. It
// has a `__dict__` with `_boxed_call`, since Dynamo's wrappers carry over nothing else.
py::object make_boxed_function(std::shared_ptr<Compiled> compiled, const py::sequence& constants, Py_ssize_t outputs);

// Makes the classes of our errors, RuntimeErrors, in the module.
void register_errors(py::module_& m);

}  // namespace tilewright
