#include "torch/operators.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include "runtime/small_array.h"
#include "torch/memory.h"
#include "torch/torch_types.h"

namespace tilewright {

namespace {

using c10::IValue;

// "aten.addmm.default" is the dispatcher's aten::addmm with the overload "".
c10::OperatorHandle find_operator(const std::string& text) {
  const size_t first = text.find('.'), last = text.rfind('.');
  if (first == std::string::npos || first == last) {
    throw UserError("'" + text + "' is not an operator's name, expected namespace.name.overload");
  }
  const std::string name = text.substr(0, first) + "::" + text.substr(first + 1, last - first - 1);
  std::string overload = text.substr(last + 1);
  if (overload == "default") overload.clear();
  const auto handle = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!handle) throw UserError("this PyTorch has no operator " + text);
  return *handle;
}

void append_flat(const IValue& value, std::vector<IValue>& flat) {
  if (value.isTuple()) {
    for (const IValue& element : value.toTupleRef().elements()) append_flat(element, flat);
  } else if (value.isList()) {
    for (const IValue& element : value.toListRef()) append_flat(element, flat);
  } else {
    flat.push_back(value);
  }
}

bool has_strides(const at::Tensor& tensor, std::span<const int64_t> strides) {
  const auto sizes = tensor.sizes();
  if (sizes.size() != strides.size()) return true;  // another rank: not what was recorded, left as it is
  for (size_t d = 0; d < strides.size(); ++d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1 && tensor.stride(static_cast<int64_t>(d)) != strides[d]) {
      for (size_t rest = d + 1; rest < strides.size(); ++rest) {
        if (sizes[rest] == 0) return true;
      }
      return false;
    }
  }
  return true;
}

bool shares_storage(const at::Tensor& tensor, const IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& other = value.toTensor();
    return other.defined() && other.has_storage() && other.storage().is_alias_of(tensor.storage());
  }
  if (!value.isList()) return false;
  for (const IValue& element : value.toListRef()) {
    if (shares_storage(tensor, element)) return true;
  }
  return false;
}

}  // namespace

std::vector<IValue> flatten(std::vector<IValue> values, const std::vector<Type>& types) {
  if (types.size() == 1 && values.size() == 1 && types[0].kind == TypeKind::kList) return values;
  std::vector<IValue> flat;
  for (const IValue& value : values) append_flat(value, flat);
  return flat;
}

std::vector<Slot> slots_written_by(const Call& call) {
  const std::vector<c10::Argument>& formal = find_operator(call.op).schema().arguments();
  std::vector<Slot> slots;
  const auto add = [&](const auto& self, const PlanArg& arg) -> void {
    if (const PlanArg::SlotRef* ref = arg.slot()) slots.push_back(ref->slot);
    if (const auto* list = std::get_if<PlanArg::List>(&arg.data)) {
      for (const PlanArg& element : *list) self(self, element);
    }
  };
  for (size_t i = 0; i < formal.size(); ++i) {
    if (!formal[i].alias_info() || !formal[i].alias_info()->isWrite()) continue;
    if (i < call.args.size()) add(add, call.args[i]);
    for (const auto& [name, arg] : call.kwargs) {
      if (name == formal[i].name()) add(add, arg);
    }
  }
  return slots;
}

at::Tensor with_strides(const at::Tensor& tensor, c10::IntArrayRef strides, std::optional<c10::ScalarType> dtype) {
  at::Tensor copy = empty_strided(tensor.sizes(), strides, dtype.value_or(tensor.scalar_type()), tensor.device());
  copy.copy_(tensor);
  return copy;
}

PreparedCall::PreparedCall(const Call& call, const SymbolIndex& symbols, c10::Device target,
                           const std::vector<bool>& read_by_type)
    : call_(call), op_(find_operator(call.op)) {
  const c10::FunctionSchema& schema = op_.schema();
  const std::vector<c10::Argument>& formal = schema.arguments();
  if (call.args.size() > formal.size()) {
    throw UserError(call.op + " takes " + std::to_string(formal.size()) + " arguments, found " +
                    std::to_string(call.args.size()));
  }
  size_t used = call.args.size();
  for (size_t i = 0; i < formal.size(); ++i) {
    const PlanArg* given = i < call.args.size() ? &call.args[i] : nullptr;
    for (const auto& [name, arg] : call.kwargs) {
      if (name == formal[i].name()) {
        given = &arg;
        ++used;
      }
    }
    const std::string where = call.op + ", argument " + formal[i].name();
    if (!given) {
      if (!formal[i].default_value()) throw UserError(where + " is missing");
      arguments_.emplace_back(*formal[i].default_value());
      continue;
    }
    const auto* list = std::get_if<PlanArg::List>(&given->data);
    if (!list && formal[i].N() && !given->slot() && !std::holds_alternative<Arg::None>(given->data)) {
      // int[2] given as one number means two of it.
      const PlanArg repeated{PlanArg::List(*formal[i].N(), *given)};
      arguments_.emplace_back(repeated, formal[i].type(), symbols, target, where);
    } else {
      arguments_.emplace_back(*given, formal[i].type(), symbols, target, where);
    }
  }
  if (used != call.args.size() + call.kwargs.size()) {
    throw UserError(call.op + " has a keyword argument that its schema lacks");
  }
  bool is_view = false;
  for (const c10::Argument& result : schema.returns()) is_view |= result.alias_info() != nullptr;
  for (size_t i = 0; !is_view && i < call.types.size(); ++i) {
    const bool is_read = call.results[i] != kNoSlot && read_by_type[call.results[i]];
    if (!is_read || !call.types[i].strides || call.types[i].dtype == DType::kOpaque) continue;
    WantedForm wanted{i, scalar_type(call.types[i].dtype), {}};
    for (const Expr& stride : *call.types[i].strides) wanted.strides.emplace_back(stride, symbols);
    wanted_.push_back(std::move(wanted));
  }
}

void PreparedCall::run(std::vector<IValue>& slots, std::span<const int64_t> symbols) const {
  torch::jit::Stack stack;
  stack.reserve(arguments_.size());
  for (const ArgumentMaker& argument : arguments_) stack.push_back(argument.make(slots, symbols));
  op_.callBoxed(stack);
  store(std::move(stack), slots);

  for (const WantedForm& wanted : wanted_) {
    IValue& value = slots[call_.results[wanted.result]];
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const at::Tensor& tensor = value.toTensor();
    if (tensor.layout() != c10::kStrided || !tensor.has_storage()) continue;
    SmallArray<int64_t, 16> strides(wanted.strides.size());
    for (size_t d = 0; d < strides.size(); ++d) strides[d] = wanted.strides[d](symbols);
    if (tensor.scalar_type() == wanted.dtype && has_strides(tensor, strides)) continue;
    // Composite operators return an argument, or a view of one, without saying so in their schema.
    bool is_alias = false;
    for (const ArgumentMaker& argument : arguments_) is_alias |= shares_storage(tensor, argument.make(slots, symbols));
    if (!is_alias) value = with_strides(tensor, c10::IntArrayRef(strides.data(), strides.size()), wanted.dtype);
  }
}

void PreparedCall::store(std::vector<IValue> returns, std::vector<IValue>& slots) const {
  if (call_.results.empty()) return;
  std::vector<IValue> flat = flatten(std::move(returns), call_.types);
  TW_CHECK(flat.size() == call_.results.size())
      << call_.op << " returned " << flat.size() << " values, the graph has " << call_.results.size();
  for (size_t i = 0; i < flat.size(); ++i) {
    if (call_.results[i] != kNoSlot) slots[call_.results[i]] = std::move(flat[i]);
  }
}

}  // namespace tilewright
