#include "ir/group.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace tilewright {
namespace {

class BodyBuilder {
 public:
  BodyBuilder(Group& group, const SymbolTable& symbols, const GroupMemory& memory)
      : group_(group), symbols_(symbols), memory_(memory) {}

  void build(const std::vector<const Node*>& nodes, const std::vector<Value*>& outputs) {
    members_.insert(nodes.begin(), nodes.end());
    for (const Value* output : outputs) order_from(output->node);
    TW_CHECK(group_.nodes.size() == nodes.size())
        << nodes.size() << " nodes, of which the outputs need " << group_.nodes.size();
    for (const Node* node : group_.nodes) {
      for (Value* operand : node->operands) add_input(operand);
    }
    std::vector<Value*> targets;
    for (Value* output : outputs) targets.push_back(memory_.into ? memory_.into(output) : nullptr);
    for (Value* target : targets) {
      if (target) add_input(target);
    }
    for (const Node* node : group_.nodes) copy(*node);
    bind(outputs, targets);
  }

 private:
  // Appends the members that `node` depends on, then the node. Depth is bounded by an explicit stack: graphs may be
  // deep.
  void order_from(const Node* root) {
    std::vector<std::pair<const Node*, size_t>> stack;
    if (placed_.insert(root).second) stack.push_back({root, 0});
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next == node->operands.size()) {
        group_.nodes.push_back(node);
        stack.pop_back();
        continue;
      }
      const Node* operand = node->operands[next++]->node;
      if (operand && members_.count(operand) && placed_.insert(operand).second) stack.push_back({operand, 0});
    }
  }

  bool is_member(const Value* value) const { return value->node && members_.count(value->node); }

  void add_input(Value* value) {
    if (is_member(value) || in_body_.count(value)) return;
    Type type = translate(value->type);
    if (type.is_tensor()) type.strides = translate(memory_.strides_of(value));
    in_body_[value] = group_.body.add_parameter(std::to_string(next_name_++), std::move(type));
    group_.inputs.push_back(value);
  }

  void copy(const Node& node) {
    std::vector<Value*> operands;
    for (const Value* operand : node.operands) operands.push_back(in_body_.at(operand));
    std::vector<std::pair<std::string, Attr>> attrs;
    for (const auto& [name, attr] : node.attrs) attrs.emplace_back(name, translate(attr));
    std::vector<Type> types;
    std::vector<std::string> names;
    for (const auto& result : node.results) {
      types.push_back(translate(result->type));
      types.back().strides.reset();
      names.push_back(std::to_string(next_name_++));
    }
    const Node* made = group_.body.add_typed(node.op, std::move(operands), std::move(attrs), std::move(types), nullptr,
                                             nullptr, std::move(names));
    for (size_t i = 0; i < node.results.size(); ++i) in_body_[node.results[i].get()] = made->results[i].get();
  }

  void bind(const std::vector<Value*>& outputs, const std::vector<Value*>& targets) {
    std::vector<Output> bound;
    for (size_t i = 0; i < outputs.size(); ++i) {
      Value* result = in_body_.at(outputs[i]);
      result->type.strides = translate(memory_.strides_of(outputs[i]));
      bound.push_back({Arg{result}, targets[i] ? in_body_.at(targets[i]) : nullptr});
    }
    group_.body.set_outputs(std::move(bound));
    group_.outputs = outputs;
  }

  Expr translate(const Expr& e) {
    for (const std::string& symbol : e.symbols()) {
      if (renamed_.count(symbol)) continue;
      Symbol known;
      if (const Symbol* found = symbols_.find(symbol)) known = *found;
      known.name = "s" + std::to_string(group_.symbols.size());
      renamed_.emplace(symbol, Expr::symbol(known.name));
      group_.body.symbols().add(known);
      group_.symbols.push_back(symbol);
    }
    return e.constant() ? e : e.substitute(renamed_);
  }
  std::vector<Expr> translate(const std::vector<Expr>& all) {
    std::vector<Expr> out;
    for (const Expr& e : all) out.push_back(translate(e));
    return out;
  }
  Type translate(Type type) {
    type.shape = translate(type.shape);
    type.offset.reset();
    if (type.strides) type.strides = translate(*type.strides);
    if (type.value) type.value = translate(*type.value);
    return type;
  }
  Attr translate(const Attr& attr) {
    if (const auto* e = std::get_if<Expr>(&attr)) return translate(*e);
    if (const auto* es = std::get_if<std::vector<Expr>>(&attr)) return translate(*es);
    return attr;
  }

  Group& group_;
  const SymbolTable& symbols_;
  const GroupMemory& memory_;
  std::unordered_set<const Node*> members_, placed_;
  std::unordered_map<const Value*, Value*> in_body_;
  std::map<std::string, Expr> renamed_;
  int next_name_ = 0;
};

}  // namespace

Group make_group(std::string name, const std::vector<const Node*>& nodes, const std::vector<Value*>& outputs,
                 const SymbolTable& symbols, const GroupMemory& memory) {
  Group group;
  group.name = std::move(name);
  BodyBuilder(group, symbols, memory).build(nodes, outputs);
  std::set<int> origins;
  for (const Node* node : group.nodes) origins.insert(node->origins.begin(), node->origins.end());
  group.origins.assign(origins.begin(), origins.end());
  return group;
}

}  // namespace tilewright
