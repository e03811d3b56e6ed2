#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/caller.h"
#include "runtime/executor.h"
#include "torch/operators.h"

namespace tilewright {

// What a plan's call and host steps need, made ready once.
struct PreparedSteps {
  // Takes a host step's number and arguments, gives its results in one flat list.
  using RunHost = std::function<std::vector<c10::IValue>(const Host& host, std::vector<c10::IValue> args)>;

  PreparedSteps(const Plan& plan, const SymbolIndex& symbols, c10::Device target, RunHost run_host);

  c10::Device target;
  RunHost run_host;
  std::vector<std::unique_ptr<PreparedCall>> calls;        // by step; null for other steps
  std::vector<std::vector<ArgumentMaker>> host_arguments;  // by step
  std::vector<ArgumentMaker> outputs;
};

// One run of a plan over PyTorch's tensors.
class TorchCaller final : public Caller {
 public:
  TorchCaller(const PreparedSteps& steps, int slots, std::vector<c10::IValue> inputs);

  std::vector<c10::IValue> outputs(std::span<const int64_t> symbols) const;

  TensorView tensor(Slot slot) override;
  int64_t integer(Slot slot) override;
  double number(Slot slot) override;
  void alias(Slot slot, Slot of) override;
  void drop(Slot slot) override;

  void allocate(Slot slot, const Type& type, std::span<const int64_t> sizes, std::span<const int64_t> strides) override;
  void* workspace(int64_t bytes) override;
  void release_workspaces() override;
  void view(Slot result, Slot base, std::span<const int64_t> sizes, std::span<const int64_t> strides,
            int64_t offset) override;
  void copy(Slot from, Slot into) override;
  void restride(Slot slot, std::span<const int64_t> strides) override;

  void call(size_t step, const Call& call, std::span<const int64_t> symbols) override;
  void host(size_t step, const Host& host, std::span<const int64_t> symbols) override;

  void* stream() override;
  int ordinal() const override;

  bool profiling() const override { return profiling_; }
  void enter(const char* name) override;
  void leave() override;

 private:
  const at::Tensor& tensor_in(Slot slot) const;

  const PreparedSteps& steps_;
  std::vector<c10::IValue> slots_;
  std::vector<c10::DataPtr> workspaces_;
  bool profiling_;
  std::optional<at::RecordFunction> record_;
};

}  // namespace tilewright
