#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "ir/interp.h"

namespace tilewright {

// What a run gave: the outputs in order, and each parameter's elements afterwards, where it is a tensor.
struct SimulatedRun {
  std::vector<InterpValue> outputs;
  std::vector<InterpValue> parameters;
};

// Runs a compiled graph's plan on tensors in plain memory, its kernels on the simulator of `arch`. Tensors lie at the
// strides of the plan's parameters (dense where it gives none), evaluated at `symbols`. New memory is filled with a
// pattern, so that an element that no kernel wrote shows. Throws UserError for a plan with a call or host step, naming
// it.
SimulatedRun simulate(const CompiledGraph& compiled, const std::string& arch, const std::vector<InterpValue>& inputs,
                      const std::map<std::string, int64_t>& symbols);

}  // namespace tilewright
