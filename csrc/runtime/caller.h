#pragma once

#include <cstdint>
#include <span>

#include "runtime/plan.h"

namespace tilewright {

// What a launch must know of a tensor. Sizes and strides belong to the tensor.
struct TensorView {
  void* data = nullptr;  // first element
  DType dtype = DType::kOpaque;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;  // in elements

  // Bytes from the first to past the last element; strides are not negative.
  int64_t span_bytes() const;
};

// The framework's side of one run: it holds the values by slot and does what only it can. An object serves one run in
// one thread. csrc/torch implements it over PyTorch; tests over plain memory.
class Caller {
 public:
  virtual ~Caller() = default;

  // Values by slot. Reading a slot that holds something else is an InternalError.
  virtual TensorView tensor(Slot slot) = 0;
  virtual int64_t integer(Slot slot) = 0;
  virtual double number(Slot slot) = 0;  // of a float, int or bool
  virtual void alias(Slot slot, Slot of) = 0;
  virtual void drop(Slot slot) = 0;

  // Memory. `device` is the type's; strides and sizes are evaluated.
  virtual void allocate(Slot slot, const Type& type, std::span<const int64_t> sizes,
                        std::span<const int64_t> strides) = 0;
  // Bytes that live until release_workspaces(), aligned to 256.
  virtual void* workspace(int64_t bytes) = 0;
  virtual void release_workspaces() = 0;
  virtual void view(Slot result, Slot base, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                    int64_t offset) = 0;
  // Elements of `from` into the memory of `into`.
  virtual void copy(Slot from, Slot into) = 0;
  // Replaces the tensor in the slot by a copy with storage of its own and the given strides.
  virtual void restride(Slot slot, std::span<const int64_t> strides) = 0;

  // `step` is the step's position in the plan, by which the framework finds what it prepared; `symbols` holds the
  // values of the plan's symbols by the numbers of Executor::symbols().
  virtual void call(size_t step, const Call& call, std::span<const int64_t> symbols) = 0;
  virtual void host(size_t step, const Host& host, std::span<const int64_t> symbols) = 0;

  // The stream on which kernels run now, as the device's launch takes it, and which GPU it belongs to.
  virtual void* stream() = 0;
  virtual int ordinal() const = 0;

  // Profiling: enter and leave enclose a launch where it is true.
  virtual bool profiling() const { return false; }
  virtual void enter(const char*) {}
  virtual void leave() {}
};

}  // namespace tilewright
