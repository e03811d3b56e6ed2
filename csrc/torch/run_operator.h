#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "torch/compiled.h"

namespace tilewright {

// tilewright::run(Plan plan, Tensor(a!)[] written, Tensor[] read, SymInt[] sizes) -> Tensor[] is a plan as an operator
// of PyTorch, for callers that must see one: fake tensors, tensor subclasses, active modes. It has a meta
// implementation, which gives the results' types without running anything.

// Whether something beside the plan wants to see what runs on these inputs.
bool must_be_seen(const std::vector<c10::IValue>& inputs);

// Runs a plan by way of the operator and gives the plan's outputs. Nothing where the operator's schema cannot carry the
// plan: a parameter or result that is neither tensor nor integer, or no tensor among the inputs.
std::optional<std::vector<c10::IValue>> run_operator(const std::shared_ptr<const Compiled>& compiled,
                                                     const std::vector<c10::IValue>& inputs);

}  // namespace tilewright
