// The rules of Graph IR:
//
//   names     every value has a name of its own, a word or a number
//   defined   an operand, output or `-> into` is a parameter or the result of an earlier node of this graph
//   uses      a value's users are the nodes that name it, once a slot; its output_uses are counted right
//   shape     a native operator has the table's number of operands and results, the table's attributes in its order,
//   operands
//             that fit its shape rule, and result types of the kind, element type and sizes that the rule gives
//   call      a call's callee is namespace.name.overload, a host step's a number; its operands are the values of its
//             arguments in order; arguments by name have words as names, each once
//   symbols   a symbol's name is a word that means nothing else; lower <= hint <= upper; the divisor is positive and
//   divides
//             the hint
//   bound     a symbol that a type, attribute or argument uses is in the table; an unbacked one stands in the type of a
//             parameter or of an earlier call's result
//   sizes     a size is not known to be negative
//   strides   strides are given for every dimension or not at all
//   into      `-> into` names a tensor parameter of the value's element type and sizes, each at most once
#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "ir/graph.h"
#include "ir/shape_rules.h"
#include "support/reader.h"

namespace tilewright {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

// Words that mean something else where a symbol may stand.
bool is_reserved(const std::string& name) {
  static const char* const kWords[] = {"true", "false", "none", "inf", "nan", "floordiv", "mod", "min", "max"};
  return dtype_from_name(name) || std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords);
}

bool is_callee(const std::string& text) { return is_word(text) && std::count(text.begin(), text.end(), '.') == 2; }

template <typename Visit>
void for_each_expr(const Type& type, const Visit& visit) {
  for (const Expr& e : type.shape) visit(e);
  if (type.strides) {
    for (const Expr& e : *type.strides) visit(e);
  }
  if (type.offset) visit(*type.offset);
  if (type.value) visit(*type.value);
  for (const Type& element : type.elements) for_each_expr(element, visit);
}

template <typename Visit>
void for_each_expr(const Attr& attr, const Visit& visit) {
  if (auto* e = std::get_if<Expr>(&attr)) visit(*e);
  if (auto* list = std::get_if<std::vector<Expr>>(&attr)) {
    for (const Expr& e : *list) visit(e);
  }
}

template <typename Visit>
void for_each_expr(const Arg& arg, const Visit& visit) {
  if (auto* e = std::get_if<Expr>(&arg.data)) visit(*e);
  if (auto* list = std::get_if<Arg::List>(&arg.data)) {
    for (const Arg& element : *list) for_each_expr(element, visit);
  }
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  std::vector<std::string> run() {
    check_symbols();
    for (const Value* parameter : graph_.parameters()) {
      line_ = [parameter] { return parameter_line(*parameter); };
      bind_symbols(parameter->type);
      check_value(*parameter);
    }
    for (const Node* node : graph_.nodes()) {
      line_ = [node] { return print(*node); };
      check_node(*node);
    }
    line_ = [] { return std::string("return"); };
    check_outputs();
    check_uses();
    return std::move(errors_);
  }

 private:
  template <typename... Parts>
  void error(const Parts&... parts) {
    std::ostringstream text;
    text << line_() << "\n    ";
    (text << ... << parts);
    errors_.push_back(text.str());
  }

  static std::string parameter_line(const Value& parameter) {
    std::string line = "%" + parameter.name + ": ";
    write(line, parameter.type);
    return line;
  }

  void check_symbols() {
    for (const Symbol& symbol : graph_.symbols().symbols()) {
      line_ = [&symbol] { return "symbol " + symbol.name; };
      if (!is_word(symbol.name) || is_reserved(symbol.name))
        error("the name of a symbol is a word without another meaning");
      if (symbol.lower > symbol.upper) error("the range [", symbol.lower, ", ", symbol.upper, "] is empty");
      if (symbol.hint < symbol.lower || symbol.hint > symbol.upper) {
        error("hint ", symbol.hint, " outside of [", symbol.lower, ", ", symbol.upper, "]");
      }
      if (symbol.divisor < 1)
        error("divisor ", symbol.divisor, " is not positive");
      else if (symbol.hint % symbol.divisor != 0)
        error("hint ", symbol.hint, " is no multiple of the divisor ", symbol.divisor);
    }
  }

  void bind_symbols(const Type& type) {
    for_each_expr(type, [&](const Expr& e) {
      if (e.constant()) return;
      for (std::string& name : e.symbols()) bound_.insert(std::move(name));
    });
  }

  void check_expr(const Expr& e) {
    if (e.constant()) return;
    for (const std::string& name : e.symbols()) {
      const Symbol* symbol = graph_.symbols().find(name);
      if (!symbol)
        error("symbol ", name, " is not in the symbol table");
      else if (symbol->unbacked && !bound_.count(name))
        error("unbacked symbol ", name, " is used before a call gives it");
    }
  }

  // A value where it is defined.
  void check_value(const Value& value) {
    if (!is_word(value.name) && !is_number(value.name)) error("'", value.name, "' is neither a word nor a number");
    if (!names_.emplace(value.name, &value).second) error("%", value.name, " is defined twice");
    defined_.insert(&value);
    for_each_expr(value.type, [&](const Expr& e) { check_expr(e); });
    check_tensor(value);
  }

  void check_tensor(const Value& value) {
    const Type& type = value.type;
    for (const Expr& size : type.shape) {
      if (graph_.symbols().range(size).upper < 0) error("size ", size, " of %", value.name, " is negative");
    }
    if (type.strides && type.strides->size() != type.shape.size()) {
      error(type.strides->size(), " strides of %", value.name, " of rank ", type.rank());
    }
  }

  void check_node(const Node& node) {
    for (const Value* operand : node.operands) {
      if (!defined_.count(operand)) error("%", operand->name, " is not defined before this");
      uses_.push_back({operand, &node});
    }
    const bool given = node.category() == Category::kCall || node.category() == Category::kHost;
    for (const auto& [name, attr] : node.attrs) for_each_expr(attr, [&](const Expr& e) { check_expr(e); });
    if (given) {
      check_call(node);
      for (const auto& result : node.results) bind_symbols(result->type);
    } else {
      check_shape(node);
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      const Value& result = *node.results[i];
      if (result.node != &node || result.index != static_cast<int>(i)) error("result ", i, " does not know its node");
      check_value(result);
    }
  }

  void check_call(const Node& node) {
    if (node.is_call() && !is_callee(node.callee)) error("'", node.callee, "' is not namespace.name.overload");
    if (!node.is_call() && !is_number(node.callee)) error("'", node.callee, "' is not the number of a host step");
    std::vector<const Value*> values;
    const auto check = [&](const Arg& arg) {
      for_each_value(arg, [&](Value* value) { values.push_back(value); });
      for_each_expr(arg, [&](const Expr& e) { check_expr(e); });
    };
    for (const Arg& arg : node.args) check(arg);
    std::unordered_set<std::string> keys;
    for (const auto& [key, arg] : node.kwargs) {
      if (!is_word(key)) error("argument name '", key, "' is not a word");
      if (!keys.insert(key).second) error("argument ", key, " is given twice");
      check(arg);
    }
    if (!std::equal(values.begin(), values.end(), node.operands.begin(), node.operands.end())) {
      error("operands are not the values of the arguments");
    }
  }

  void check_shape(const Node& node) {
    std::vector<Type> types;
    try {
      types = infer_types(node, graph_.symbols());
    } catch (const UserError& broken) {
      return error(broken.what());
    } catch (const InternalError& broken) {
      return error(broken.what());
    }
    if (types.size() != node.results.size()) {
      return error(node.results.size(), " results, expected ", types.size());
    }
    for (size_t i = 0; i < types.size(); ++i) {
      const Type& found = node.type(static_cast<int>(i));
      if (found.kind != types[i].kind || found.dtype != types[i].dtype || found.shape != types[i].shape) {
        error("result ", i, " is ", found, ", expected ", types[i]);
      }
    }
  }

  void check_outputs() {
    std::unordered_set<const Value*> written;
    for (const Output& output : graph_.outputs()) {
      for_each_value(output.value, [&](Value* value) {
        if (!defined_.count(value)) error("%", value->name, " is not defined");
        ++output_uses_[value];
      });
      for_each_expr(output.value, [&](const Expr& e) { check_expr(e); });
      if (!output.into) continue;
      ++output_uses_[output.into];
      if (!written.insert(output.into).second) error("%", output.into->name, " is written twice");
      check_into(output);
    }
  }

  void check_into(const Output& output) {
    const std::vector<Value*>& parameters = graph_.parameters();
    if (std::find(parameters.begin(), parameters.end(), output.into) == parameters.end()) {
      return error("-> into %", output.into->name, ", which is no parameter");
    }
    const Type type = type_of(output.value), target = output.into->type;
    if (!type.is_tensor() || !target.is_tensor() || type.dtype != target.dtype || type.shape != target.shape) {
      error(type, " -> into %", output.into->name, ", which is ", target);
    }
  }

  // The use lists against the operands seen.
  void check_uses() {
    std::unordered_map<const Value*, std::vector<const Node*>> seen;
    for (const auto& [value, user] : uses_) seen[value].push_back(user);
    const auto check = [&](const Value& value) {
      std::vector<const Node*> listed(value.users.begin(), value.users.end());
      std::vector<const Node*>& used = seen[&value];
      if (!std::is_permutation(listed.begin(), listed.end(), used.begin(), used.end())) {
        error("%", value.name, " lists ", listed.size(), " uses, it has ", used.size());
      }
      const auto it = output_uses_.find(&value);
      const int outputs = it == output_uses_.end() ? 0 : it->second;
      if (value.output_uses != outputs)
        error("%", value.name, " counts ", value.output_uses, " uses as output, it has ", outputs);
    };
    for (const Value* parameter : graph_.parameters()) {
      line_ = [parameter] { return parameter_line(*parameter); };
      check(*parameter);
    }
    for (const Node* node : graph_.nodes()) {
      line_ = [node] { return print(*node); };
      for (const auto& result : node->results) check(*result);
    }
  }

  const Graph& graph_;
  std::function<std::string()> line_;  // the line that is checked
  std::vector<std::string> errors_;
  std::unordered_map<std::string, const Value*> names_;
  std::unordered_set<const Value*> defined_;
  std::unordered_set<std::string> bound_;
  std::vector<std::pair<const Value*, const Node*>> uses_;
  std::unordered_map<const Value*, int> output_uses_;
};

}  // namespace

std::vector<std::string> verify(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace tilewright
