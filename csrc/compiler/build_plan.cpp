#include "compiler/build_plan.h"

#include <algorithm>

#include "cost/call_facts.h"
#include "runtime/plan_builder.h"

namespace tilewright {

namespace {

LaunchInput::Kind input_kind(const Type& type) {
  switch (type.kind) {
    case TypeKind::kTensor:
      return type.device == "host" ? LaunchInput::Kind::kHostTensor : LaunchInput::Kind::kPointer;
    case TypeKind::kInt:
      return LaunchInput::Kind::kInt;
    default:
      return LaunchInput::Kind::kFloat;
  }
}

// The parameter that the kernel itself writes output `i` to, or null.
const Value* written_parameter(const Partition& partition, int kernel, const Value* output) {
  for (const InPlace& in_place : partition.in_place) {
    if (in_place.kernel == kernel && in_place.value == output) return in_place.parameter;
  }
  return nullptr;
}

std::vector<std::pair<int, LocPtr>> line_table(const Group& group) {
  std::vector<std::pair<int, LocPtr>> lines;
  int line = first_node_line(group.body);
  for (const Node* node : group.nodes) {
    if (node->loc) lines.emplace_back(line, node->loc);
    ++line;
  }
  return lines;
}

// Output types of a body carry strides over the body's symbols; a plan's are over its own.
Type in_plan_symbols(Type type, const std::map<std::string, Expr>& symbols) {
  for (Expr& size : type.shape) size = size.substitute(symbols);
  if (type.strides) {
    for (Expr& stride : *type.strides) stride = stride.substitute(symbols);
  }
  return type;
}

Launch launch_step(const Partition& partition, int index, PlanBuilder& builder, GeneratedKernels& kernels) {
  const Kernel& kernel = partition.kernels[index];
  const Group& group = kernel.group;
  Launch launch;
  launch.name = group.name;
  for (Value* input : group.inputs) launch.inputs.push_back({builder.slot_of(input), input_kind(input->type)});

  std::map<std::string, Expr> plan_symbols;
  const auto& body_symbols = group.body.symbols().symbols();
  TW_CHECK(body_symbols.size() == group.symbols.size())
      << "group " << group.name << ": body has " << body_symbols.size() << " symbols, group " << group.symbols.size();
  for (size_t i = 0; i < body_symbols.size(); ++i) {
    const Expr symbol = Expr::symbol(group.symbols[i]);
    launch.symbols.emplace_back(body_symbols[i].name, symbol);
    plan_symbols.emplace(body_symbols[i].name, symbol);
  }

  for (size_t i = 0; i < group.outputs.size(); ++i) {
    const Value* output = group.outputs[i];
    LaunchOutput step{builder.slot_of(output), {}, kNoSlot};
    const Output& in_body = group.body.outputs()[i];
    step.type = in_plan_symbols(in_body.tensor()->type, plan_symbols);
    step.type.device = output->type.device;
    if (const Value* parameter = written_parameter(partition, index, output)) step.into = builder.slot_of(parameter);
    launch.outputs.push_back(std::move(step));
  }
  for (const Candidate& candidate : kernel.variants) {
    launch.variants.push_back({kernels.add(group.body, candidate.schedule), candidate.condition});
  }
  launch.lines = line_table(group);
  return launch;
}

}  // namespace

Plan build_plan(const Graph& graph, const Graph& source, const Partition& partition, GeneratedKernels& kernels) {
  const Graph& whole = partition.whole_source ? source : graph;
  PlanBuilder builder(whole);
  for (const PartitionStep& step : partition.steps) {
    if (step.kind == PartitionStep::Kind::kGroup) {
      builder.add(launch_step(partition, step.kernel, builder, kernels));
    } else if (!step.is_view || !builder.add_views(*step.node)) {
      builder.add_call(*step.node);
    }
  }
  std::vector<const Value*> written;
  written.reserve(partition.in_place.size());
  for (const InPlace& in_place : partition.in_place) written.push_back(in_place.value);
  return builder.finish(whole.outputs(), written, [](const Node& node) {
    return node.category() == Category::kView || (node.is_call() && call_facts(node.callee).may_alias);
  });
}

}  // namespace tilewright
