#include "torch/torch_caller.h"

#include <c10/core/DispatchKeySet.h>

#include "torch/memory.h"
#include "torch/torch_types.h"

namespace tilewright {

namespace {

using c10::IValue;

c10::IntArrayRef array_ref(std::span<const int64_t> values) { return {values.data(), values.size()}; }

}  // namespace

PreparedSteps::PreparedSteps(const Plan& plan, const SymbolIndex& symbols, c10::Device target, RunHost run_host)
    : target(target), run_host(std::move(run_host)), calls(plan.steps.size()), host_arguments(plan.steps.size()) {
  const std::vector<bool> read_by_type = slots_read_by_type(plan);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (const auto* call = std::get_if<Call>(&plan.steps[i])) {
      calls[i] = std::make_unique<PreparedCall>(*call, symbols, target, read_by_type);
    } else if (const auto* host = std::get_if<Host>(&plan.steps[i])) {
      for (const PlanArg& arg : host->args) {
        host_arguments[i].emplace_back(arg, c10::AnyType::get(), symbols, target,
                                       "host " + std::to_string(host->number));
      }
    }
  }
  for (const PlanArg& output : plan.outputs) {
    outputs.emplace_back(output, c10::AnyType::get(), symbols, target, "return");
  }
}

TorchCaller::TorchCaller(const PreparedSteps& steps, int slots, std::vector<IValue> inputs)
    : steps_(steps), slots_(std::move(inputs)), profiling_(at::hasCallbacks()) {
  slots_.resize(slots);
}

std::vector<IValue> TorchCaller::outputs(std::span<const int64_t> symbols) const {
  std::vector<IValue> result;
  result.reserve(steps_.outputs.size());
  for (const ArgumentMaker& output : steps_.outputs) result.push_back(output.make(slots_, symbols));
  return result;
}

const at::Tensor& TorchCaller::tensor_in(Slot slot) const {
  const IValue& value = slots_[slot];
  TW_CHECK(value.isTensor() && value.toTensor().defined()) << "$" << slot << " holds " << value.tagKind();
  return value.toTensor();
}

TensorView TorchCaller::tensor(Slot slot) {
  const at::Tensor* tensor = &tensor_in(slot);
  if (tensor->layout() != c10::kStrided || !tensor->has_storage()) {
    throw UserError("$" + std::to_string(slot) +
                    " is a tensor without memory of its own that kernels could read: " + tensor->toString());
  }
  if (tensor->is_neg() || tensor->_is_zerotensor()) {
    // The memory does not hold the values: a lazy negation, or zeros that were never written.
    slots_[slot] = with_strides(*tensor, tensor->strides());
    tensor = &slots_[slot].toTensor();
  }
  const auto sizes = tensor->sizes(), strides = tensor->strides();
  return {tensor->unsafeGetTensorImpl()->mutable_data(),
          dtype_of(tensor->scalar_type()),
          {sizes.data(), sizes.size()},
          {strides.data(), strides.size()}};
}

int64_t TorchCaller::integer(Slot slot) {
  const IValue& value = slots_[slot];
  if (value.isBool()) return value.toBool();
  TW_CHECK(value.isInt()) << "$" << slot << " holds " << value.tagKind() << ", expected an integer";
  return value.toInt();
}

double TorchCaller::number(Slot slot) {
  const IValue& value = slots_[slot];
  TW_CHECK(value.isScalar()) << "$" << slot << " holds " << value.tagKind() << ", expected a number";
  return value.toScalar().toDouble();
}

void TorchCaller::alias(Slot slot, Slot of) { slots_[slot] = slots_[of]; }

void TorchCaller::drop(Slot slot) { slots_[slot] = IValue(); }

void TorchCaller::allocate(Slot slot, const Type& type, std::span<const int64_t> sizes,
                           std::span<const int64_t> strides) {
  slots_[slot] = empty_strided(array_ref(sizes), array_ref(strides), scalar_type(type.dtype),
                               device_of(type.device, steps_.target));
}

void* TorchCaller::workspace(int64_t bytes) {
  workspaces_.push_back(c10::GetAllocator(steps_.target.type())->allocate(static_cast<size_t>(bytes)));
  return workspaces_.back().get();
}

void TorchCaller::release_workspaces() { workspaces_.clear(); }

void TorchCaller::view(Slot result, Slot base, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                       int64_t offset) {
  const at::Tensor& tensor = tensor_in(base);
  TW_CHECK(tensor.has_storage()) << "$" << base << " is viewed and has no memory of its own";
  slots_[result] = view_of(tensor, array_ref(sizes), array_ref(strides), tensor.storage_offset() + offset);
}

void TorchCaller::copy(Slot from, Slot into) { tensor_in(into).copy_(tensor_in(from)); }

void TorchCaller::restride(Slot slot, std::span<const int64_t> strides) {
  slots_[slot] = with_strides(tensor_in(slot), array_ref(strides));
}

void TorchCaller::call(size_t step, const Call&, std::span<const int64_t> symbols) {
  steps_.calls[step]->run(slots_, symbols);
}

void TorchCaller::host(size_t step, const Host& host, std::span<const int64_t> symbols) {
  std::vector<IValue> args;
  for (const ArgumentMaker& maker : steps_.host_arguments[step]) args.push_back(maker.make(slots_, symbols));
  std::vector<IValue> results = steps_.run_host(host, std::move(args));
  TW_CHECK(results.size() == host.results.size()) << "host step " << host.number << " returned " << results.size()
                                                  << " values, the graph has " << host.results.size();
  for (size_t i = 0; i < results.size(); ++i) {
    if (host.results[i] != kNoSlot) slots_[host.results[i]] = std::move(results[i]);
  }
}

void* TorchCaller::stream() { return current_stream(steps_.target); }

int TorchCaller::ordinal() const { return steps_.target.has_index() ? steps_.target.index() : 0; }

void TorchCaller::enter(const char* name) {
  record_.emplace(at::RecordScope::FUNCTION);
  record_->before(name);
}

void TorchCaller::leave() { record_.reset(); }

}  // namespace tilewright
