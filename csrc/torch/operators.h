#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <vector>

#include "torch/arguments.h"

namespace tilewright {

// One call step made ready: the operator found in PyTorch's dispatcher, an argument maker for each argument of its
// schema.
class PreparedCall {
 public:
  // Results in slots of `read_by_type` get the element type and the strides of their types. Throws UserError where
  // PyTorch has no such operator or the arguments do not fit its schema.
  PreparedCall(const Call& call, const SymbolIndex& symbols, c10::Device target, const std::vector<bool>& read_by_type);

  // Calls the operator with values of `slots` and stores the results there.
  void run(std::vector<c10::IValue>& slots, std::span<const int64_t> symbols) const;

 private:
  // What kernels and views count on, where the result is not a view of an argument. Capture may have been told
  // otherwise than the operator does.
  struct WantedForm {
    size_t result;
    c10::ScalarType dtype;
    std::vector<SizeProgram> strides;
  };
  void store(std::vector<c10::IValue> returns, std::vector<c10::IValue>& slots) const;

  const Call& call_;
  c10::OperatorHandle op_;
  std::vector<ArgumentMaker> arguments_;
  std::vector<WantedForm> wanted_;
};

// Slots whose tensors the operator writes to, by its schema.
std::vector<Slot> slots_written_by(const Call& call);

// A tensor with the elements of `tensor`, these strides, and another element type if given, in storage of its own.
at::Tensor with_strides(const at::Tensor& tensor, c10::IntArrayRef strides,
                        std::optional<c10::ScalarType> dtype = std::nullopt);

// Results of a call or host step in one flat list: tuples and lists in order, unless one slot takes the whole.
std::vector<c10::IValue> flatten(std::vector<c10::IValue> values, const std::vector<Type>& types);

}  // namespace tilewright
