#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/rule_emitter.h"

namespace tilewright {
namespace {

// An argument of a call as the rules see it.
RuleValue to_rule_value(const Arg& arg) {
  struct Convert {
    RuleValue operator()(Arg::None) const { return {RuleNone{}}; }
    RuleValue operator()(Value* v) const {
      if (v->type.is_tensor()) return {v};
      if (v->type.kind == TypeKind::kNone) return {RuleNone{}};
      if (v->type.kind == TypeKind::kInt && v->type.value) return {*v->type.value};
      if (v->type.kind == TypeKind::kInt || v->type.kind == TypeKind::kFloat || v->type.kind == TypeKind::kBool)
        return {v};
      throw Refused{"%" + v->name + " is neither a tensor nor a number"};
    }
    RuleValue operator()(const Expr& e) const { return {e}; }
    RuleValue operator()(double d) const { return {d}; }
    RuleValue operator()(bool b) const { return {b}; }
    RuleValue operator()(const std::string& s) const { return {s}; }
    RuleValue operator()(const Arg::Tagged& t) const {
      if (t.tag != "dtype") return {t.text};
      const std::optional<DType> type = dtype_from_name(t.text);
      return type ? RuleValue{*type} : RuleValue{t.text};
    }
    RuleValue operator()(Arg::Complex) const { throw Refused{"an argument is a complex number"}; }
    RuleValue operator()(const Arg::List& list) const {
      RuleList result;
      for (const Arg& a : list) result.push_back(to_rule_value(a));
      return {std::move(result)};
    }
  };
  return std::visit(Convert{}, arg.data);
}

// The call's arguments in the order of the rule's parameters.
std::vector<RuleValue> bind_arguments(const DecomposeRule& rule, const Node& call) {
  std::vector<RuleValue> result;
  if (call.args.size() > rule.parameters.size()) throw Refused{"the call has more arguments than the rule knows"};
  for (size_t i = 0; i < rule.parameters.size(); ++i) {
    const RuleParameter& p = rule.parameters[i];
    const Arg* arg = i < call.args.size() ? &call.args[i] : nullptr;
    for (const auto& [name, value] : call.kwargs) {
      if (name == p.name) arg = &value;
    }
    if (!arg && !p.initial) throw Refused{"the call lacks the argument " + p.name};
    result.push_back(arg ? to_rule_value(*arg) : *p.initial);
  }
  for (const auto& [name, value] : call.kwargs) {
    bool known = false;
    for (const RuleParameter& p : rule.parameters) known = known || p.name == name;
    if (!known) throw Refused{"the rule does not know the argument " + name};
  }
  return result;
}

// What no rule could mend: types and devices.
void require_supported(const Node& call) {
  auto require = [](const Type& t, bool is_result) {
    if (!t.is_tensor()) {
      if (is_result && t.kind != TypeKind::kNone) throw Refused{"a result is no tensor"};
      return;
    }
    if (!has_kernels(t.dtype)) throw Refused{std::string("no kernels for ") + name(t.dtype)};
    const bool number = t.device == "host" && t.rank() == 0 && !is_result;  // read when a kernel is launched
    if (!t.device.empty() && !number) {
      throw Refused{t.device == "host" ? "a tensor lies in CPU memory" : "a tensor is on " + t.device};
    }
  };
  for (const Value* v : call.operands) require(v->type, /*is_result=*/false);
  for (const auto& r : call.results) require(r->type, /*is_result=*/true);
  if (call.results.empty()) throw Refused{"the operator has no result"};
}

// Gives the call's result its native value: under the same name, with the recorded strides.
void take_over(Graph& g, Value* result, Value* value, bool is_new) {
  const std::string name = result->name;
  const Type recorded = result->type;
  if (!is_new) {  // the users read what the call read
    for (Node* user : result->users) user->origins = join_origins(user->origins, result->node->origins);
  }
  g.replace_all_uses(result, value);
  if (!is_new) return;
  value->type.strides = recorded.strides;
  value->type.offset = recorded.offset;
  g.rename(result, name + "_call");
  g.rename(value, name);
}

void replace_call(Graph& g, Node* call, const RuleEmitter& emitter, const std::vector<Value*>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i]) take_over(g, call->result(static_cast<int>(i)), values[i], emitter.made(values[i]));
  }
  g.erase(call);
}

void expand_call(Graph& g, Node* call, const std::vector<const DecomposeRule*>& rules, const std::vector<int>& origins,
                 const Context& ctx) {
  require_supported(*call);
  RuleEmitter emitter(g, call, origins, ctx);
  for (const DecomposeRule* rule : rules) {
    const std::vector<RuleValue> arguments = bind_arguments(*rule, *call);
    if (!emitter.holds(*rule, arguments)) continue;
    try {
      replace_call(g, call, emitter, emitter.apply(*rule, arguments));
      return;
    } catch (const Refused&) {
      emitter.undo();
      throw;
    } catch (const UserError& e) {  // an operator does not take what the rule gives it
      emitter.undo();
      throw Refused{"rule at " + rule->where + ": " + e.what()};
    }
  }
  throw Refused{"no rule is for these arguments"};
}

}  // namespace

std::vector<Refusal> decompose_with_reasons(Graph& g, const Context& ctx) {
  const RuleTable& table = embedded_rule_table();
  std::vector<Refusal> refusals;
  for (Node* node : g.nodes()) {
    if (node->origins.empty()) node->origins = {g.index(node)};
  }
  for (Node* node : g.nodes()) {
    if (!node->is_call()) continue;
    const std::vector<const DecomposeRule*>& rules = table.find(node->callee);
    try {
      if (rules.empty()) throw Refused{"no rule for this operator"};
      expand_call(g, node, rules, node->origins, ctx);
    } catch (const Refused& r) {
      refusals.push_back({node->results.empty() ? node->callee : node->result()->name, node->callee, r.reason});
    }
  }
  g.erase_dead();
  return refusals;
}

void decompose(Graph& g, const Context& ctx) { decompose_with_reasons(g, ctx); }

}  // namespace tilewright
