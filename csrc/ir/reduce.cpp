#include "ir/reduce.h"

#include <algorithm>
#include <unordered_map>

namespace tilewright {
namespace {

bool is_used(const Value& parameter) { return parameter.has_uses(); }

// A copy with only the parameters that something uses.
Graph without_unused(const Graph& graph) {
  Graph out(graph.name());
  std::unordered_map<const Value*, Value*> copies;
  const auto to_copy = [&](Value*& value) { value = copies.at(value); };
  for (const Symbol& symbol : graph.symbols().symbols()) out.symbols().add(symbol);
  for (const Value* parameter : graph.parameters()) {
    if (is_used(*parameter)) copies[parameter] = out.add_parameter(parameter->name, parameter->type);
  }
  for (const Node* node : graph.nodes()) {
    std::vector<std::string> names;
    std::vector<Type> types;
    for (const auto& result : node->results) {
      names.push_back(result->name);
      types.push_back(result->type);
    }
    Node* made = nullptr;
    if (node->category() == Category::kCall || node->category() == Category::kHost) {
      std::vector<Arg> args = node->args;
      auto kwargs = node->kwargs;
      for (Arg& arg : args) for_each_value(arg, to_copy);
      for (auto& [key, arg] : kwargs) for_each_value(arg, to_copy);
      made = out.add_call(node->callee, std::move(args), std::move(kwargs), types, node->loc, nullptr, node->op, names);
    } else {
      std::vector<Value*> operands = node->operands;
      for (Value*& operand : operands) to_copy(operand);
      made = out.add_typed(node->op, std::move(operands), node->attrs, types, node->loc, nullptr, names);
    }
    made->origins = node->origins;
    for (size_t i = 0; i < node->results.size(); ++i) copies[node->results[i].get()] = made->results[i].get();
  }
  std::vector<Output> outputs = graph.outputs();
  for (Output& output : outputs) {
    for_each_value(output.value, to_copy);
    if (output.into) to_copy(output.into);
  }
  out.set_outputs(std::move(outputs));
  return out;
}

class Reducer {
 public:
  Reducer(const Graph& graph, const std::function<bool(const Graph&)>& still_fails)
      : best_(graph.clone()), still_fails_(still_fails) {}

  Graph run() {
    while (drop_outputs() || drop_nodes() || simplify_parameters()) {
    }
    return std::move(best_);
  }

 private:
  // Keeps the change if the graph still fails. `change` edits a copy of the best graph so far, and says whether it did.
  template <typename Change>
  bool attempt(const Change& change) {
    Graph candidate = best_.clone();
    if (!change(candidate)) return false;
    candidate.erase_dead([](const Node&) { return false; });
    candidate = without_unused(candidate);
    if (!verify(candidate).empty() || !still_fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  bool drop_outputs() {
    bool changed = false;
    for (size_t i = best_.outputs().size(); i-- > 0;) {
      changed |= attempt([&](Graph& g) {
        std::vector<Output> outputs = g.outputs();
        outputs.erase(outputs.begin() + static_cast<std::ptrdiff_t>(i));
        g.set_outputs(std::move(outputs));
        return true;
      });
    }
    for (size_t i = 0; i < best_.outputs().size(); ++i) changed |= drop_write(i) || return_operand(i);
    return changed;
  }

  bool drop_write(size_t i) {
    return attempt([&](Graph& g) {
      std::vector<Output> outputs = g.outputs();
      if (!outputs[i].into) return false;
      outputs[i].into = nullptr;
      g.set_outputs(std::move(outputs));
      return true;
    });
  }

  // Output i becomes an operand of the node that makes it.
  bool return_operand(size_t i) {
    const Value* output = best_.outputs()[i].tensor();
    if (!output || output->node->op == Op::kParameter) return false;
    for (size_t slot = 0; slot < output->node->operands.size(); ++slot) {
      const bool changed = attempt([&](Graph& g) {
        std::vector<Output> outputs = g.outputs();
        outputs[i] = {Arg{outputs[i].tensor()->node->operands[slot]}, nullptr};
        g.set_outputs(std::move(outputs));
        return true;
      });
      if (changed) return true;
    }
    return false;
  }

  // From the end, so that what feeds a removed node goes with it. Positions stay right: a change removes nodes only at
  // and before the position, and the loop ends at the start.
  bool drop_nodes() {
    bool changed = false;
    for (size_t i = best_.size(); i-- > 0;) {
      if (i >= best_.size()) continue;
      changed |= attempt([&](Graph& g) { return bypass(g, g.nodes()[i]); }) ||
                 attempt([&](Graph& g) { return cut(g, g.nodes()[i]); });
    }
    return changed;
  }

  // Uses of the node become uses of an operand of its type.
  static bool bypass(Graph& g, Node* node) {
    if (node->results.size() != 1) return false;
    const Type& type = node->type();
    for (Value* operand : node->operands) {
      if (operand->type.is_tensor() && type.is_tensor() && operand->type.dtype == type.dtype &&
          operand->type.shape == type.shape) {
        g.replace_all_uses(node->result(), operand);
        return true;
      }
    }
    return false;
  }

  // The node's results become parameters.
  static bool cut(Graph& g, Node* node) {
    if (node->category() == Category::kConstant) return false;
    for (const auto& result : node->results) {
      if (result->has_uses()) g.replace_all_uses(result.get(), g.add_parameter(result->name, result->type));
    }
    return true;
  }

  bool simplify_parameters() {
    bool changed = false;
    for (size_t i = 0; i < best_.parameters().size(); ++i) {
      changed |= attempt([&](Graph& g) {
        Type& type = g.parameters()[i]->type;
        if (!type.strides || *type.strides == type.contiguous_strides()) return false;
        type.strides = type.contiguous_strides();
        return true;
      });
    }
    return changed;
  }

  Graph best_;
  const std::function<bool(const Graph&)>& still_fails_;
};

}  // namespace

Graph reduce(const Graph& graph, const std::function<bool(const Graph&)>& still_fails) {
  return Reducer(graph, still_fails).run();
}

}  // namespace tilewright
