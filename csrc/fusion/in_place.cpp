#include "fusion/in_place.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "cost/call_facts.h"

namespace tilewright {
namespace {

void count_outputs(const Arg& arg, const Value* value, int& count) {
  if (const auto* found = std::get_if<Value*>(&arg.data)) count += *found == value;
  if (const auto* list = std::get_if<Arg::List>(&arg.data)) {
    for (const Arg& element : *list) count_outputs(element, value, count);
  }
}

int times_returned(const Graph& graph, const Value* value) {
  int count = 0;
  for (const Output& output : graph.outputs()) count_outputs(output.value, value, count);
  return count;
}

bool may_alias(const Unit& unit) {
  return unit.kind != Unit::Kind::kNative && (!unit.node->is_call() || call_facts(unit.node->callee).may_alias);
}

std::vector<const Value*> values(const std::vector<Value*>& all) { return {all.begin(), all.end()}; }

// Units that read the parameter's memory: by its name, or through what may be a view of it, whose names are there too.
struct MemoryReaders {
  std::set<int> all, through_views;
  std::unordered_set<std::string> names;
};
MemoryReaders readers_of_memory(const Value* parameter, const Units& units) {
  MemoryReaders readers;
  std::unordered_set<std::string>& names = readers.names;
  names.insert(parameter->name);
  // Units stand in an order in which a view comes after its base.
  for (int unit = 0; unit < units.size(); ++unit) {
    const Unit& u = units[unit];
    for (const Value* value : u.kind == Unit::Kind::kNative ? u.reads : values(u.node->operands)) {
      if (!names.count(value->name)) continue;
      readers.all.insert(unit);
      if (value->name != parameter->name) readers.through_views.insert(unit);
    }
    if (!readers.all.count(unit) || !may_alias(u)) continue;
    for (const auto& result : u.node->results) names.insert(result->name);
  }
  return readers;
}

// Within its own kernel: every node between the parameter and an output works on the element that is written.
Verdict reads_only_what_it_writes(const KernelNodes& kernel, const Value* parameter, const Value* value) {
  const bool reduces = std::any_of(kernel.nodes.begin(), kernel.nodes.end(),
                                   [](const Node* node) { return node->category() == Category::kReduction; });
  std::unordered_set<const Value*> touched = {parameter};
  for (const Node* node : kernel.nodes) {
    const bool reads = std::any_of(node->operands.begin(), node->operands.end(),
                                   [&](const Value* operand) { return touched.count(operand) > 0; });
    if (!reads) continue;
    if (node->category() != Category::kPointwise || node->type().shape != parameter->type.shape) {
      return Verdict::no("its kernel reads other elements of %" + parameter->name + " than the one it writes");
    }
    for (const auto& result : node->results) touched.insert(result.get());
  }
  // Threads that compute the same element again for another output might read it after it was written.
  for (const Value* output : kernel.outputs) {
    if (reduces && output != value && touched.count(output)) {
      return Verdict::no("its kernel has another output that depends on %" + parameter->name);
    }
  }
  return Verdict::yes();
}

Verdict check(const InPlaceWrite& write, const SourceIndex& index, const Units& units, Clusters& clusters,
              const Evaluator& evaluator) {
  const Type& from = write.value->type;
  const Type& into = write.parameter->type;
  if (from.dtype != into.dtype || from.shape != into.shape) return Verdict::no("it is of another type");
  if (times_returned(index.graph(), write.value) != 1) return Verdict::no("it is returned as well");
  if (evaluator.memory_strides(write.value) != evaluator.memory_strides(write.parameter)) {
    return Verdict::no("eager lays it out otherwise than %" + write.parameter->name);
  }
  const KernelNodes kernel = kernel_nodes(clusters.members(write.cluster), {write.cluster}, units, clusters, index);
  if (Verdict verdict = reads_only_what_it_writes(kernel, write.parameter, write.value); !verdict) return verdict;
  const MemoryReaders readers = readers_of_memory(write.parameter, units);
  for (const Output& output : index.graph().outputs()) {
    if (output.into && output.tensor() && output.tensor() != write.value && readers.names.count(output.tensor()->name))
      return Verdict::no("what %" + write.parameter->name + " held is written into %" + output.into->name);
  }
  for (int reader : readers.all) {
    for (int home : clusters.homes(reader)) {
      if (home == write.cluster && readers.through_views.count(reader)) {
        return Verdict::no("its kernel reads a view of %" + write.parameter->name);
      }
      if (home == write.cluster || clusters.put_before(home, write.cluster)) continue;
      return Verdict::no("%" + write.parameter->name + " is read after it is computed");
    }
  }
  return Verdict::yes();
}

}  // namespace

std::vector<InPlaceWrite> find_in_place(const SourceIndex& index, const Units& units, Clusters& clusters,
                                        const Evaluator& evaluator, std::vector<InPlaceRefusal>& refused) {
  std::vector<InPlaceWrite> writes;
  for (const Output& output : index.graph().outputs()) {
    Value* value = output.tensor();
    if (!output.into || !value) continue;
    const int unit = units.maker(value);
    if (unit < 0 || units[unit].kind != Unit::Kind::kNative) continue;
    const InPlaceWrite write{value, output.into, clusters.of(unit)};
    if (Verdict verdict = check(write, index, units, clusters, evaluator); !verdict) {
      refused.push_back({value, output.into, verdict.why_not});
      continue;
    }
    writes.push_back(write);
  }
  return writes;
}

}  // namespace tilewright
