#include "runtime/plan_builder.h"

#include <algorithm>
#include <type_traits>

namespace tilewright {

PlanBuilder::PlanBuilder(const Graph& graph) {
  plan_.name = graph.name();
  std::vector<Slot> slots;
  for (const Value* parameter : graph.parameters()) {
    plan_.parameters.push_back(parameter->type);
    slots.push_back(slot_of(parameter));
    types_[slots.back()] = parameter->type;
  }
  bind_symbols(plan_, plan_.parameters, slots);
}

Slot PlanBuilder::slot_of(const Value* value) {
  return slots_.emplace(value->name, static_cast<Slot>(slots_.size())).first->second;
}

PlanArg PlanBuilder::plan_arg(const Arg& arg) {
  return std::visit(
      [&](const auto& data) -> PlanArg {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, Value*>) {
          return {PlanArg::SlotRef{slot_of(data)}};
        } else if constexpr (std::is_same_v<T, Arg::List>) {
          return {plan_args(data)};
        } else {
          return {data};
        }
      },
      arg.data);
}

std::vector<PlanArg> PlanBuilder::plan_args(const std::vector<Arg>& args) {
  std::vector<PlanArg> result;
  result.reserve(args.size());
  for (const Arg& arg : args) result.push_back(plan_arg(arg));
  return result;
}

void PlanBuilder::add_call(const Node& node) {
  TW_CHECK(node.op == Op::kCall || node.op == Op::kHost) << "a call step from the operator " << node.info().text;
  std::vector<PlanArg> args = plan_args(node.args);
  std::vector<Slot> results;
  std::vector<Type> types;
  for (const auto& result : node.results) {
    results.push_back(slot_of(result.get()));
    types.push_back(result->type);
    types_[results.back()] = result->type;
  }
  bind_symbols(plan_, types, results);
  if (node.op == Op::kHost) {
    plan_.steps.emplace_back(Host{std::stoi(node.callee), std::move(args), results, types, node.loc});
    return;
  }
  std::vector<std::pair<std::string, PlanArg>> kwargs;
  kwargs.reserve(node.kwargs.size());
  for (const auto& [name, arg] : node.kwargs) kwargs.emplace_back(name, plan_arg(arg));
  plan_.steps.emplace_back(Call{node.callee, std::move(args), std::move(kwargs), results, types, node.loc});
}

void PlanBuilder::add(Launch launch) {
  for (const LaunchOutput& output : launch.outputs) {
    if (output.slot != kNoSlot) types_[output.slot] = output.type;
  }
  plan_.steps.emplace_back(std::move(launch));
}

PlanBuilder::Root PlanBuilder::root_of(Slot slot) const {
  const auto found = roots_.find(slot);
  return found == roots_.end() ? Root{slot, Expr(0)} : found->second;
}

bool PlanBuilder::is_bound(const Type& type) const {
  const auto is_known = [&](const Expr& e) {
    const std::vector<std::string> symbols = e.symbols();
    return std::all_of(symbols.begin(), symbols.end(), [&](const std::string& symbol) {
      return std::any_of(plan_.symbols.begin(), plan_.symbols.end(),
                         [&](const SymbolBinding& binding) { return binding.symbol == symbol; });
    });
  };
  return std::all_of(type.shape.begin(), type.shape.end(), is_known) &&
         std::all_of(type.strides->begin(), type.strides->end(), is_known) && is_known(*type.offset);
}

namespace {

Expr offset_of(const Type& type) { return type.offset.value_or(Expr(0)); }

// Nothing where the type does not tell; a tensor of rank 0 has none to tell.
std::optional<std::vector<Expr>> strides_of(const Type& type) {
  if (!type.is_tensor()) return std::nullopt;
  return type.rank() == 0 ? std::vector<Expr>() : type.strides;
}

// as_strided counts its offset from the storage's begin, where a parameter need not start.
bool counts_from_storage(const Node& node) {
  return node.callee == "aten.as_strided.default" && node.args.size() > 3 &&
         !std::holds_alternative<Arg::None>(node.args[3].data);
}

}  // namespace

bool PlanBuilder::add_views(const Node& node) {
  const auto* operand = node.args.empty() ? nullptr : std::get_if<Value*>(&node.args[0].data);
  if (!operand || counts_from_storage(node)) return false;
  const Type& base = (*operand)->type;
  const auto filled = types_.find(slot_of(*operand));
  if (filled == types_.end() || !strides_of(base) || strides_of(filled->second) != strides_of(base)) return false;

  const Root root = root_of(slot_of(*operand));
  std::vector<View> views;
  for (const auto& result : node.results) {
    Type type = result->type;
    type.strides = strides_of(type);
    if (!type.strides || type.dtype != base.dtype || type.device != base.device) return false;
    type.offset = root.offset + offset_of(type) - offset_of(base);
    if (!is_bound(type)) return false;
    views.push_back({root.slot, slot_of(result.get()), std::move(type)});
  }
  for (View& view : views) {
    types_[view.result] = view.type;
    roots_.emplace(view.result, Root{view.base, *view.type.offset});
    if (view.type.offset == Expr(0)) view.type.offset.reset();
    plan_.steps.emplace_back(std::move(view));
  }
  return true;
}

namespace {

// Whether `value` may lie in the memory of the parameter `memory`.
bool shares(const Value* value, const Value* memory, const std::function<bool(const Node&)>& may_share) {
  if (value->name == memory->name) return true;
  const Node* node = value->node;
  if (!node || node->op == Op::kParameter || !may_share(*node)) return false;
  return std::any_of(node->operands.begin(), node->operands.end(),
                     [&](const Value* operand) { return shares(operand, memory, may_share); });
}

}  // namespace

Slot PlanBuilder::clone(const Value* value) {
  Type type = value->type;
  type.strides = type.contiguous_strides();
  type.offset.reset();
  const auto result = static_cast<Slot>(slots_.size() + clones_++);
  plan_.steps.emplace_back(Call{"aten.clone.default",
                                {PlanArg{PlanArg::SlotRef{slot_of(value)}}},
                                {{"memory_format", PlanArg{Arg::Tagged{"memory_format", "contiguous_format"}}}},
                                {result},
                                {type},
                                value->node->loc});
  return result;
}

// A parameter is written when no copy that is still to come reads it; where copies wait for each other (two parameters
// change places) one of them is made from a clone.
void PlanBuilder::copy_in_order(std::vector<Write> writes, const std::function<bool(const Node&)>& may_share) {
  const auto waits = [&](const Write& write) {
    return std::any_of(writes.begin(), writes.end(),
                       [&](const Write& other) { return other.from && shares(other.from, write.into, may_share); });
  };
  while (!writes.empty()) {
    const auto free = std::find_if_not(writes.begin(), writes.end(), waits);
    if (free != writes.end()) {
      plan_.steps.emplace_back(Copy{free->slot, slot_of(free->into)});
      writes.erase(free);
      continue;
    }
    const auto reader = std::find_if(writes.begin(), writes.end(), [](const Write& write) { return write.from; });
    reader->slot = clone(reader->from);
    reader->from = nullptr;
  }
}

Plan PlanBuilder::finish(const std::vector<Output>& outputs, const std::vector<const Value*>& written,
                         const std::function<bool(const Node&)>& may_share) {
  std::vector<Write> writes;
  for (const Output& output : outputs) {
    const Value* value = output.tensor();
    const bool done = value == output.into || std::find(written.begin(), written.end(), value) != written.end();
    if (!output.into || done) continue;
    TW_CHECK(value) << "the value written into %" << output.into->name << " is not a tensor";
    writes.push_back({value, output.into, slot_of(value)});
  }
  for (const Output& output : outputs) {  // slots of values come before those of clones
    if (const Value* value = output.tensor()) slot_of(value);
  }
  copy_in_order(std::move(writes), may_share);
  // A value written into a parameter is returned as that parameter, which holds it now.
  for (const Output& output : outputs) {
    plan_.outputs.push_back(output.into ? PlanArg{PlanArg::SlotRef{slot_of(output.into)}} : plan_arg(output.value));
  }
  drop_unused_views(plan_);
  plan_frees(plan_);
  return std::move(plan_);
}

Plan plan_of_calls(const Graph& graph) {
  PlanBuilder builder(graph);
  for (const Node* node : graph.nodes()) builder.add_call(*node);
  return builder.finish(graph.outputs());
}

}  // namespace tilewright
