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
  }
  bind_symbols(plan_, types, results);
  if (node.op == Op::kHost) {
    plan_.steps.emplace_back(Host{std::stoi(node.callee), std::move(args), results, types, node.loc});
    return;
  }
  std::vector<std::pair<std::string, PlanArg>> kwargs;
  for (const auto& [name, arg] : node.kwargs) kwargs.emplace_back(name, plan_arg(arg));
  plan_.steps.emplace_back(Call{node.callee, std::move(args), std::move(kwargs), results, types, node.loc});
}

Plan PlanBuilder::finish(const std::vector<Output>& outputs, const std::vector<const Value*>& written) {
  for (const Output& output : outputs) {
    const bool done = std::find(written.begin(), written.end(), output.tensor()) != written.end();
    if (!output.into || done) continue;
    TW_CHECK(output.tensor()) << "the value written into %" << output.into->name << " is not a tensor";
    plan_.steps.emplace_back(Copy{slot_of(output.tensor()), slot_of(output.into)});
  }
  // A value written into a parameter is returned as that parameter, which holds it now.
  for (const Output& output : outputs) {
    plan_.outputs.push_back(output.into ? PlanArg{PlanArg::SlotRef{slot_of(output.into)}} : plan_arg(output.value));
  }
  plan_frees(plan_);
  return std::move(plan_);
}

Plan plan_of_calls(const Graph& graph) {
  PlanBuilder builder(graph);
  for (const Node* node : graph.nodes()) builder.add_call(*node);
  return builder.finish(graph.outputs());
}

}  // namespace tilewright
