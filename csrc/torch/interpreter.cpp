#include "torch/interpreter.h"

#include <ATen/ops/empty.h>

#include "ir/interp.h"
#include "torch/operators.h"
#include "torch/python_values.h"
#include "torch/torch_types.h"

namespace tilewright {
namespace {

using c10::IValue;

at::Tensor as_torch(const HostTensor& tensor) {
  const at::Tensor out = at::empty(tensor.shape, at::TensorOptions().dtype(scalar_type(tensor.dtype)));
  store(tensor, dense_strides(tensor.shape), out.data_ptr());
  return out;
}

HostTensor as_host(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().cpu().contiguous().resolve_conj().resolve_neg();
  const DType dtype = dtype_of(dense.scalar_type());
  if (!has_kernels(dtype)) {
    throw UserError(std::string("the interpreter has no tensors of ") + c10::toString(dense.scalar_type()));
  }
  const std::vector<int64_t> shape = dense.sizes().vec();
  return load(dtype, shape, dense_strides(shape), dense.const_data_ptr());
}

InterpValue interp_value(const IValue& value) {
  if (value.isNone() || (value.isTensor() && !value.toTensor().defined())) return {Arg::None{}};
  if (value.isTensor()) return InterpValue::tensor(as_host(value.toTensor()));
  if (value.isInt()) return {value.toInt()};
  if (value.isDouble()) return {value.toDouble()};
  if (value.isBool()) return {value.toBool()};
  if (value.isString()) return {value.toStringRef()};
  if (value.isList()) {
    InterpValue::List list;
    for (const IValue& element : value.toListRef()) list.push_back(interp_value(element));
    return {std::move(list)};
  }
  throw UserError("the interpreter has no values of type " + value.tagKind());
}

IValue torch_value(const InterpValue& value) {
  if (const auto* tensor = std::get_if<InterpValue::Tensor>(&value.data)) return as_torch(**tensor);
  if (const auto* whole = std::get_if<int64_t>(&value.data)) return *whole;
  if (const auto* number = std::get_if<double>(&value.data)) return *number;
  if (const auto* flag = std::get_if<bool>(&value.data)) return *flag;
  if (const auto* text = std::get_if<std::string>(&value.data)) return *text;
  if (std::holds_alternative<Arg::None>(value.data)) return IValue();
  const auto* list = std::get_if<InterpValue::List>(&value.data);
  if (!list) throw UserError("an output that is neither a tensor nor a number");
  c10::List<IValue> out(c10::AnyType::get());
  for (const InterpValue& element : *list) out.push_back(torch_value(element));
  return out;
}

// A call of the graph as a call step of a plan over slots of its own: tensors in slots, the rest as literals.
class OneCall {
 public:
  OneCall(const Node& node, const std::vector<InterpValue>& args,
          const std::vector<std::pair<std::string, InterpValue>>& kwargs) {
    call_.op = node.callee;
    for (const InterpValue& arg : args) call_.args.push_back(plan_arg(arg));
    for (const auto& [name, arg] : kwargs) call_.kwargs.emplace_back(name, plan_arg(arg));
    for (const auto& result : node.results) {
      call_.results.push_back(static_cast<Slot>(slots_.size()));
      call_.types.push_back(result->type);
      slots_.emplace_back();
    }
  }

  std::vector<InterpValue> run() {
    PreparedCall(call_, SymbolIndex(), c10::Device(c10::kCPU), std::vector<bool>(slots_.size())).run(slots_, {});
    std::vector<InterpValue> results;
    results.reserve(call_.results.size());
    for (const Slot slot : call_.results) results.push_back(interp_value(slots_[static_cast<size_t>(slot)]));
    return results;
  }

 private:
  PlanArg plan_arg(const InterpValue& value) {
    if (const auto* whole = std::get_if<int64_t>(&value.data)) return {Expr(*whole)};
    if (const auto* number = std::get_if<double>(&value.data)) return {*number};
    if (const auto* flag = std::get_if<bool>(&value.data)) return {*flag};
    if (const auto* text = std::get_if<std::string>(&value.data)) return {*text};
    if (const auto* tagged = std::get_if<Arg::Tagged>(&value.data)) return {*tagged};
    if (const auto* complex = std::get_if<Arg::Complex>(&value.data)) return {*complex};
    if (std::holds_alternative<Arg::None>(value.data)) return {Arg::None{}};
    if (const auto* list = std::get_if<InterpValue::List>(&value.data)) {
      PlanArg::List out;
      for (const InterpValue& element : *list) out.push_back(plan_arg(element));
      return {std::move(out)};
    }
    slots_.push_back(torch_value(value));
    return {PlanArg::SlotRef{static_cast<Slot>(slots_.size()) - 1}};
  }

  Call call_;
  std::vector<IValue> slots_;
};

}  // namespace

py::list interpret_text(const std::string& text, const py::list& inputs, const std::map<std::string, int64_t>& symbols,
                        const std::string& mode) {
  if (mode != "eager" && mode != "exact") throw UserError("mode '" + mode + "', expected eager or exact");
  const Graph graph = parse_graph(text);
  if (const std::vector<std::string> errors = verify(graph); !errors.empty()) {
    std::string message = "the graph is not valid:";
    for (const std::string& error : errors) message += "\n" + error;
    throw UserError(message);
  }
  std::vector<InterpValue> values;
  for (const py::handle& input : inputs) values.push_back(interp_value(from_python(input.ptr())));
  InterpOptions options;
  options.mode = mode == "exact" ? InterpMode::kExact : InterpMode::kEager;
  options.symbols = symbols;
  options.call = [](const Node& node, const auto& args, const auto& kwargs) {
    return OneCall(node, args, kwargs).run();
  };
  py::list outputs;
  for (const InterpValue& output : interpret(graph, values, options)) outputs.append(to_python(torch_value(output)));
  return outputs;
}

}  // namespace tilewright
