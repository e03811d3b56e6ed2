#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/context.h"
#include "passes/rule.h"

namespace tilewright {

// Why a call stays: thrown while a rule is applied, caught by the pass.
struct Refused {
  std::string reason;
};

// The attribute functions of the rule language (rule_functions.cpp): shapes, dimensions, types, numbers.
struct RuleFunctionContext {
  const Graph& graph;
  const Node& call;
  const Context& ctx;
};
RuleValue call_rule_function(const RuleFunctionContext& context, const std::string& name, std::vector<RuleValue>& args);

bool rule_truth(const RuleValue& value);
double rule_double(const RuleValue& value);
Expr rule_expr(const RuleValue& value);
std::vector<Expr> rule_exprs(const RuleValue& value);
// Refuses where it depends on sizes.
bool rule_equal(const SymbolTable& symbols, const RuleValue& a, const RuleValue& b);

// Applies one rule to one call: inserts the nodes before the call and gives the values for its results.
class RuleEmitter {
 public:
  RuleEmitter(Graph& graph, Node* call, std::vector<int> origins, const Context& ctx);

  // Whether the rule's `when` holds for these arguments (one a parameter).
  bool holds(const DecomposeRule& rule, const std::vector<RuleValue>& arguments);
  // One value a result of the call, of its recorded type and shape; null where the result is none. Throws Refused.
  std::vector<Value*> apply(const DecomposeRule& rule, const std::vector<RuleValue>& arguments);
  // Removes what was inserted.
  void undo();
  bool made(const Value* value) const;

 private:
  using Scope = std::map<std::string, RuleValue>;

  void bind(const DecomposeRule& rule, const std::vector<RuleValue>& arguments);
  void choose_types(const DecomposeRule& rule, const std::vector<RuleValue>& arguments);
  bool stays_narrow(const DecomposeRule& rule) const;
  RuleValue prepare(const DecomposeRule& rule, const RuleParameter& parameter, const RuleValue& value);

  // True: a `return` was run, its values are in returned_.
  bool run(const std::vector<RuleStatement>& body);
  bool run(const RuleStatement& statement);
  RuleValue evaluate(const RuleTerm& term);
  RuleValue evaluate_binary(const RuleTerm& term);
  RuleValue evaluate_comprehension(const RuleTerm& term);
  RuleValue evaluate_macro(const RuleTerm& term);
  RuleValue evaluate_operator(const RuleTerm& term);

  RuleValue emit_pointwise(const RuleTerm& term, std::vector<RuleValue> operands,
                           std::vector<std::pair<std::string, Attr>> attrs);
  RuleValue emit_other(const RuleTerm& term, std::vector<RuleValue> operands,
                       std::vector<std::pair<std::string, Attr>> attrs);
  Value* emit(Op op, std::vector<Value*> operands, std::vector<std::pair<std::string, Attr>> attrs, int result = 0);
  Node* insert(Op op, std::vector<Value*> operands, std::vector<std::pair<std::string, Attr>> attrs);
  Value* as_tensor(const RuleValue& value, DType type);
  Value* cast(Value* value, DType to);
  Value* expand(Value* value, const std::vector<Expr>& shape);
  std::vector<Expr> common_shape(const std::vector<Value*>& values);
  bool same_shape(const std::vector<Expr>& a, const std::vector<Expr>& b) const;
  bool shows_operand(const Value* value) const;
  Value* finish(const RuleValue& value, const Type& recorded);
  [[noreturn]] void fail(int line, const std::string& what) const;

  Graph& graph_;
  Node* call_;
  std::vector<int> origins_;
  const Context& ctx_;
  const DecomposeRule* rule_ = nullptr;
  Scope scope_;
  DType operand_type_ = DType::kF32;  // T
  DType compute_type_ = DType::kF32;  // C
  std::vector<RuleValue> returned_;
  std::vector<Node*> made_;
};

}  // namespace tilewright
