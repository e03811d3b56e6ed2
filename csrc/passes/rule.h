#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ir/graph.h"

namespace tilewright {

// The rule language of the pass `decompose` (csrc/passes/rules/*.tw): one rule says what an operator of PyTorch is in
// operators of the Graph IR. docs/decompose-rules.md shows it with examples; this is the whole of it.
//
//   file       := (rule | macro)*
//   rule       := 'rule' name ('|' name)* '(' parameters ')' (':' kind)? ('when' expression)? body
//   macro      := 'macro' name '(' parameters ')' body            used like an operator or as f(x); defined before its
//   use parameter  := '%'? name (':' conversion)? ('=' literal)?      in the order and with the names of PyTorch's
//   schema body       := '=>' result (',' result)*  |  '{' statement* '}' statement  := target (',' target)* '=' result
//   `%y` for tensors, a plain name for anything else
//               | 'require' expression ',' string                 where it is not known to hold, the call stays, for
//               this reason | 'if' expression '{' ... '}' ('else' ('if' ... | '{' ... '}'))? | 'for' name 'in'
//               expression '{' ... '}' | 'return' result (',' result)*
//   result     := operator operands attributes  |  expression     `add %x, (exp %y)`
//   operands   := expression (',' expression)*                    `(op ...)` is an expression; a list is spliced
//   attributes := (name expression)*                              `dims [0, 1] keepdim true`
//   expression := c ? a : b, or, and, not, == != < <= > >=, + - * /, -x, a[i], f(x), [a, b], [e for x in list],
//   literals
//
// The rules of an operator are tried in the order of their text; the first whose `when` holds is used.
//
// Kinds say how `%` parameters are prepared and the result is made:
//   arithmetic  T is the recorded result's type, C = compute_type(T). Tensors are rounded to T, then widened to C;
//   Python
//               numbers become constants of C; the result is rounded once. One operator alone stays in T, which means
//               the same, where its numbers are exact in T.
//   compare     T = C = PyTorch's promotion of the `%` parameters; numbers are rounded to T, as eager's comparisons do.
//   exact       T = C = the result's type: values are moved or chosen, never rounded.
//   view        operands come as they are; the result may be an operand itself.
//   (none)      operands come as they are; the rule casts. A result that is an operand becomes a copy, as in eager.
// A conversion after a parameter's name takes it out of that: `bool` makes it a truth value, `keep` leaves it alone,
// `i64` casts it.
//
// Implicit everywhere: a number among the operands becomes a constant of the other operands' type; operands of a
// pointwise operator are expanded to one shape; casts, reshapes, permutes and expands that change nothing vanish; a
// result is cast and expanded to the recorded type; fma of integers is mul and add.
//
// Names always there: R, shape (type and shape of the recorded result 0), T, C, results (their number).

struct RuleValue;
using RuleList = std::vector<RuleValue>;
struct RuleNone {
  friend bool operator==(RuleNone, RuleNone) { return true; }
};

// What an expression of a rule may be: a tensor, or something known while the rule is applied.
struct RuleValue {
  std::variant<RuleNone, Value*, Expr, double, bool, std::string, DType, RuleList> data;

  RuleValue() = default;
  template <typename T>
    requires(!std::is_same_v<std::remove_cvref_t<T>, RuleValue>)
  RuleValue(T&& value) : data(std::forward<T>(value)) {}  // NOLINT: any alternative is a value

  friend bool operator==(const RuleValue& a, const RuleValue& b) { return a.data == b.data; }

  bool is_none() const { return std::holds_alternative<RuleNone>(data); }
  bool is_number() const { return data.index() == 2 || data.index() == 3 || data.index() == 4; }
  Value* tensor() const {  // null unless a tensor
    auto* v = std::get_if<Value*>(&data);
    return v ? *v : nullptr;
  }
};

struct RuleMacro;

struct RuleAttr;

struct RuleTerm {
  enum class Kind : uint8_t {
    kLiteral,
    kVariable,
    kOperator,
    kMacro,
    kFunction,
    kUnary,
    kBinary,
    kConditional,
    kList,
    kComprehension,
    kIndex
  };
  Kind kind = Kind::kLiteral;
  int line = 0;
  RuleValue literal;
  std::string text;  // variable, function, unary or binary operator, comprehension's variable
  Op op = Op::kCopy;
  const RuleMacro* macro = nullptr;
  std::vector<RuleTerm> args;
  std::vector<RuleAttr> attrs;
};

struct RuleAttr {
  std::string name;
  RuleTerm value;
};

struct RuleStatement {
  enum class Kind : uint8_t { kAssign, kRequire, kIf, kFor, kReturn };
  Kind kind = Kind::kReturn;
  int line = 0;
  std::vector<std::string> names;
  std::vector<RuleTerm> terms;
  std::string text;
  std::vector<RuleStatement> body, otherwise;
};

enum class RuleConversion : uint8_t { kDefault, kKeep, kCast };

struct RuleParameter {
  std::string name;
  bool tensor = false;
  RuleConversion conversion = RuleConversion::kDefault;
  DType to = DType::kBool;  // of kCast
  std::optional<RuleValue> initial;
};

struct RuleMacro {
  std::string name;
  std::vector<RuleParameter> parameters;
  std::vector<RuleStatement> body;
};

enum class RuleKind : uint8_t { kPlain, kView, kArithmetic, kCompare, kExact };

struct DecomposeRule {
  std::vector<std::string> operators;
  std::string where;  // "activation.tw:12"
  std::vector<RuleParameter> parameters;
  RuleKind kind = RuleKind::kPlain;
  std::optional<RuleTerm> condition;
  std::vector<RuleStatement> body;
  bool one_operator = false;  // the body is one pointwise operator on parameters and numbers
};

// Parsed rules; never changes once made.
class RuleTable {
 public:
  // Throws InternalError: `file:line: text`.
  void add(std::string_view text, const std::string& file);
  // In the order of their text; empty where there is none.
  const std::vector<const DecomposeRule*>& find(const std::string& callee) const;
  const std::deque<DecomposeRule>& rules() const { return rules_; }

 private:
  friend class RuleParser;
  std::deque<DecomposeRule> rules_;
  std::map<std::string, RuleMacro, std::less<>> macros_;
  std::unordered_map<std::string, std::vector<const DecomposeRule*>> by_operator_;
};

// The rules that are part of this library, parsed at the first call.
const RuleTable& embedded_rule_table();

}  // namespace tilewright
