#include "torch/run_operator.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/python_headers.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <algorithm>
#include <map>

#include "torch/torch_types.h"

namespace tilewright {

namespace {

using c10::IValue;
using c10::SymInt;

// The script object that the operator takes.
struct PlanObject final : torch::CustomClassHolder {
  explicit PlanObject(std::shared_ptr<const Compiled> compiled) : compiled(std::move(compiled)) {}
  std::shared_ptr<const Compiled> compiled;
};

// Which parameters of the plan a step writes to.
std::vector<bool> written_parameters(const Plan& plan) {
  std::vector<bool> is_written(plan.parameters.size(), false);
  const auto mark = [&](Slot slot) {
    if (slot >= 0 && slot < static_cast<Slot>(is_written.size())) is_written[slot] = true;
  };
  for (const Step& step : plan.steps) {
    if (const auto* launch = std::get_if<Launch>(&step)) {
      for (const LaunchOutput& output : launch->outputs) mark(output.into);
    } else if (const auto* copy = std::get_if<Copy>(&step)) {
      mark(copy->into);
    } else if (const auto* call = std::get_if<Call>(&step)) {
      for (Slot slot : slots_written_by(*call)) mark(slot);
    }
  }
  return is_written;
}

bool is_parameter(const Plan& plan, const PlanArg& output) {
  return output.slot() && output.slot()->slot < static_cast<Slot>(plan.parameters.size());
}

bool fits_the_schema(const Plan& plan, const std::vector<const Type*>& types) {
  const auto fits = [](const Type& type) { return type.is_tensor() || type.kind == TypeKind::kInt; };
  const auto output_fits = [&](const PlanArg& output) {
    if (is_parameter(plan, output)) return true;
    if (const PlanArg::SlotRef* ref = output.slot()) return types[ref->slot] && types[ref->slot]->is_tensor();
    return std::holds_alternative<Expr>(output.data) || std::holds_alternative<Arg::None>(output.data);
  };
  return std::all_of(plan.parameters.begin(), plan.parameters.end(), fits) &&
         std::all_of(plan.outputs.begin(), plan.outputs.end(), output_fits);
}

// Values of the plan's symbols, which may be symbolic themselves.
class SymbolicSizes {
 public:
  SymbolicSizes(const Plan& plan, const std::vector<IValue>& inputs) {
    for (const SymbolBinding& binding : plan.symbols) {
      if (binding.slot >= static_cast<Slot>(inputs.size())) continue;
      const auto at = [&](int64_t value) { return binding.value.evaluate({{binding.symbol, value}}); };
      const int64_t constant = at(0), factor = at(1) - at(0);
      SymInt value = read(binding, inputs[binding.slot]);
      if (constant != 0) value = value - constant;
      if (factor != 1) value = value / factor;
      values_.emplace(binding.symbol, std::move(value));
    }
  }

  SymInt operator()(const Expr& e) const {
    if (const std::optional<int64_t> constant = e.constant()) return *constant;
    if (e.is_symbol()) {
      const auto it = values_.find(e.symbol_name());
      if (it == values_.end()) {
        throw UserError("the size " + e.symbol_name() + " of a result depends on data: only running the plan tells it");
      }
      return it->second;
    }
    const std::vector<Expr> operands = e.operands();
    SymInt result = (*this)(operands[0]);
    for (size_t i = 1; i < operands.size(); ++i) result = combine(e.kind(), result, (*this)(operands[i]));
    return result;
  }

 private:
  static SymInt read(const SymbolBinding& binding, const IValue& value) {
    if (binding.source == SymbolBinding::Source::kInt) return value.toSymInt();
    const at::Tensor& tensor = value.toTensor();
    return binding.source == SymbolBinding::Source::kSize ? tensor.sym_size(binding.dim)
                                                          : tensor.sym_stride(binding.dim);
  }

  static SymInt combine(Expr::Kind kind, const SymInt& a, const SymInt& b) {
    switch (kind) {
      case Expr::Kind::kAdd:
        return a + b;
      case Expr::Kind::kMul:
        return a * b;
      case Expr::Kind::kFloorDiv:
        return a / b;
      case Expr::Kind::kMod:
        return a % b;
      case Expr::Kind::kMin:
        return a.min(b);
      default:
        return a.max(b);
    }
  }

  std::map<std::string, SymInt> values_;
};

// The plan's inputs from the operator's arguments: each parameter takes the next of its kind.
std::vector<IValue> inputs_of(const Plan& plan, at::TensorList written, at::TensorList read,
                              c10::SymIntArrayRef sizes) {
  const std::vector<bool> is_written = written_parameters(plan);
  size_t next_written = 0, next_read = 0, next_size = 0;
  std::vector<IValue> inputs;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    if (!plan.parameters[i].is_tensor()) {
      TORCH_CHECK(next_size < sizes.size(), "tilewright::run: found ", sizes.size(), " sizes, expected more");
      inputs.emplace_back(sizes[next_size++]);
      continue;
    }
    const at::TensorList tensors = is_written[i] ? written : read;
    size_t& next = is_written[i] ? next_written : next_read;
    TORCH_CHECK(next < tensors.size(), "tilewright::run: found ", tensors.size(), " tensors, expected more");
    inputs.emplace_back(tensors[next++]);
  }
  return inputs;
}

std::vector<at::Tensor> run(const c10::intrusive_ptr<PlanObject>& plan_object, at::TensorList written,
                            at::TensorList read, c10::SymIntArrayRef sizes) {
  const Compiled& compiled = *plan_object->compiled;
  const Plan& plan = compiled.graph().plan;
  std::vector<IValue> inputs = inputs_of(plan, written, read, sizes);
  for (IValue& input : inputs) {
    if (!input.isTensor()) input = input.toSymInt().guard_int(__FILE__, __LINE__);
  }
  const std::vector<IValue> outputs = compiled.run(std::move(inputs));
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (plan.outputs[i].slot() && !is_parameter(plan, plan.outputs[i])) tensors.push_back(outputs[i].toTensor());
  }
  return tensors;
}

std::vector<at::Tensor> run_meta(const c10::intrusive_ptr<PlanObject>& plan_object, at::TensorList written,
                                 at::TensorList read, c10::SymIntArrayRef sizes) {
  const Plan& plan = plan_object->compiled->graph().plan;
  const SymbolicSizes evaluate(plan, inputs_of(plan, written, read, sizes));
  const auto evaluate_all = [&](const std::vector<Expr>& expressions) {
    std::vector<SymInt> values;
    values.reserve(expressions.size());
    for (const Expr& e : expressions) values.push_back(evaluate(e));
    return values;
  };
  const std::vector<const Type*> types = slot_types(plan);
  std::vector<at::Tensor> tensors;
  for (const PlanArg& output : plan.outputs) {
    if (!output.slot() || is_parameter(plan, output)) continue;
    const Type& type = *types[output.slot()->slot];
    tensors.push_back(at::empty_strided_symint(evaluate_all(type.shape),
                                               evaluate_all(type.strides ? *type.strides : type.contiguous_strides()),
                                               at::TensorOptions(scalar_type(type.dtype)).device(c10::kMeta)));
  }
  return tensors;
}

TORCH_LIBRARY_FRAGMENT(tilewright, library) {
  library.class_<PlanObject>("Plan").def(
      "text", [](const c10::intrusive_ptr<PlanObject>& self) { return print(self->compiled->graph().plan); });
  library.def(
      "run(__torch__.torch.classes.tilewright.Plan plan, Tensor(a!)[] written, Tensor[] read, SymInt[] sizes) -> "
      "Tensor[]");
}

TORCH_LIBRARY_IMPL(tilewright, CPU, library) { library.impl("run", TORCH_FN(run)); }
TORCH_LIBRARY_IMPL(tilewright, CUDA, library) { library.impl("run", TORCH_FN(run)); }
TORCH_LIBRARY_IMPL(tilewright, Meta, library) { library.impl("run", TORCH_FN(run_meta)); }

// AOTAutograd sets a mode around the first run that checks the user's own operators. It sees them as calls of the plan;
// the plan as one operator would hide them, and break the rule that it checks where a result is a view of an input.
bool a_mode_looks_on() {
  const int64_t count = c10::impl::TorchDispatchModeTLS::stack_len();
  for (int64_t i = 0; i < count; ++i) {
    const auto& mode = c10::impl::TorchDispatchModeTLS::get_stack_at(i);
    const std::string_view type = Py_TYPE(mode->ptr(getPyInterpreter()))->tp_name;
    if (type != "_AnalyzeCustomOpInputOutputMode") return true;
  }
  return false;
}

}  // namespace

bool must_be_seen(const std::vector<IValue>& inputs) {
  if (c10::impl::TorchDispatchModeTLS::any_modes_set() && a_mode_looks_on()) return true;
  if (c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) return true;
  return std::any_of(inputs.begin(), inputs.end(), [](const IValue& input) {
    return input.isTensor() && input.toTensor().key_set().has(c10::DispatchKey::Python);
  });
}

std::optional<std::vector<IValue>> run_operator(const std::shared_ptr<const Compiled>& compiled,
                                                const std::vector<IValue>& inputs) {
  const Plan& plan = compiled->graph().plan;
  // An operator is found by its tensors: without one PyTorch cannot tell on which device to run it.
  const auto is_tensor = [](const IValue& input) { return input.isTensor(); };
  if (std::none_of(inputs.begin(), inputs.end(), is_tensor)) return std::nullopt;
  if (inputs.size() != plan.parameters.size() || !fits_the_schema(plan, slot_types(plan))) return std::nullopt;
  const std::vector<bool> is_written = written_parameters(plan);
  c10::List<at::Tensor> written, read;
  std::vector<SymInt> sizes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!plan.parameters[i].is_tensor()) {
      sizes.push_back(inputs[i].toSymInt());
    } else {
      (is_written[i] ? written : read).push_back(inputs[i].toTensor());
    }
  }
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("tilewright::run", "");
  torch::jit::Stack stack;
  stack.emplace_back(c10::make_intrusive<PlanObject>(compiled));
  stack.emplace_back(std::move(written));
  stack.emplace_back(std::move(read));
  stack.emplace_back(sizes);
  op.callBoxed(stack);

  const c10::List<at::Tensor> tensors = stack.back().toTensorList();
  const SymbolicSizes evaluate(plan, inputs);
  size_t next = 0;
  std::vector<IValue> outputs;
  for (const PlanArg& output : plan.outputs) {
    if (is_parameter(plan, output)) {
      outputs.push_back(inputs[output.slot()->slot]);
    } else if (output.slot()) {
      outputs.emplace_back(tensors.get(next++));
    } else if (const auto* e = std::get_if<Expr>(&output.data)) {
      outputs.emplace_back(evaluate(*e));
    } else {
      outputs.emplace_back();
    }
  }
  return outputs;
}

}  // namespace tilewright
