#pragma once

#include <pybind11/pybind11.h>

namespace tilewright {

// Adds SimulatedModule, which tilewright.simulate runs kernels with, to the module.
void add_simulator(pybind11::module_& m);

}  // namespace tilewright
