#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/utils/pybind.h>

#include <vector>

namespace tilewright {

// Python objects as values of a plan and back, under the GIL. What a plan has no type for is carried unread.
c10::IValue from_python(PyObject* object);
py::object to_python(const c10::IValue& value);

// Runs a host step: a Python callable over the arguments. Takes the GIL.
std::vector<c10::IValue> run_python(const py::object& callable, const std::vector<c10::IValue>& args);

}  // namespace tilewright
