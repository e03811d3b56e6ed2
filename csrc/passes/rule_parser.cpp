#include <algorithm>
#include <array>
#include <limits>

#include "passes/embedded_rules.h"
#include "passes/rule.h"
#include "support/reader.h"

namespace tilewright {
class RuleParser {
 public:
  RuleParser(RuleTable& table, std::string_view text, const std::string& file)
      : table_(table), file_(file), reader_(text, file) {}

  void parse_file() {
    while (!reader_.at_end()) {
      if (reader_.take("rule")) {
        parse_rule();
      } else if (reader_.take("macro")) {
        parse_macro();
      } else {
        reader_.fail_expected("'rule' or 'macro'");
      }
    }
  }

 private:
  int line() const { return reader_.peek().line; }
  bool at_word() const { return reader_.peek().kind == TokenKind::kWord; }

  // One or two characters of punctuation: `=` is not the start of `==` or `=>`.
  bool at(std::string_view p) const {
    if (!reader_.is(p.substr(0, 1)) || at_word()) return false;
    const Token second = reader_.peek_second();
    const bool joined = second.kind == TokenKind::kPunctuation && !second.spaced;
    if (p.size() == 2) return joined && second.text == p.substr(1);
    const bool longer = joined && (second.text == "=" || (p == "=" && second.text == ">"));
    return !longer || std::string_view("=<>!").find(p[0]) == std::string_view::npos;
  }
  bool accept(std::string_view p) {
    if (!at(p)) return false;
    for (size_t i = 0; i < p.size(); ++i) reader_.next();
    return true;
  }
  void expect(std::string_view p) {
    if (!accept(p)) reader_.fail_expected("'" + std::string(p) + "'");
  }
  std::string expect_name() { return std::string(reader_.word("a name")); }
  // `%x` or `x`: the sign only tells the reader of a rule what is a tensor.
  std::string expect_variable() {
    reader_.take("%");
    return expect_name();
  }

  void parse_rule() {
    DecomposeRule rule;
    rule.where = file_ + ":" + std::to_string(line());
    do {
      rule.operators.push_back(expect_name());
    } while (accept("|"));
    rule.parameters = parse_parameters();
    if (accept(":")) rule.kind = parse_kind();
    if (reader_.take("when")) rule.condition = parse_expression();
    rule.body = parse_body();
    rule.one_operator = is_one_operator(rule);
    table_.rules_.push_back(std::move(rule));
    const DecomposeRule* stored = &table_.rules_.back();
    for (const std::string& name : stored->operators) table_.by_operator_[name].push_back(stored);
  }

  void parse_macro() {
    RuleMacro macro;
    macro.name = expect_name();
    if (op_from_name(macro.name) || table_.macros_.count(macro.name)) reader_.fail("'" + macro.name + "' is taken");
    macro.parameters = parse_parameters();
    macro.body = parse_body();
    table_.macros_.emplace(macro.name, std::move(macro));
  }

  RuleKind parse_kind() {
    const std::string kind = expect_name();
    if (kind == "arithmetic") return RuleKind::kArithmetic;
    if (kind == "compare") return RuleKind::kCompare;
    if (kind == "exact") return RuleKind::kExact;
    if (kind == "view") return RuleKind::kView;
    reader_.fail("no kind of rule is named '" + kind + "'");
  }

  std::vector<RuleParameter> parse_parameters() {
    std::vector<RuleParameter> result;
    expect("(");
    while (!at(")")) {
      RuleParameter p;
      p.tensor = reader_.is("%");
      p.name = expect_variable();
      if (accept(":")) parse_conversion(p);
      if (accept("=")) p.initial = parse_literal();
      result.push_back(std::move(p));
      if (!accept(",")) break;
    }
    expect(")");
    return result;
  }

  void parse_conversion(RuleParameter& p) {
    const std::string text = expect_name();
    if (text == "keep") {
      p.conversion = RuleConversion::kKeep;
      return;
    }
    const std::optional<DType> type = dtype_from_name(text);
    if (!type) reader_.fail("'" + text + "' is no conversion");
    p.conversion = RuleConversion::kCast;
    p.to = *type;
  }

  RuleValue parse_literal() {
    RuleTerm term = parse_unary();
    if (term.kind == RuleTerm::Kind::kList && term.args.empty()) return {RuleList{}};
    if (term.kind == RuleTerm::Kind::kList) {
      RuleList list;
      for (RuleTerm& t : term.args) list.push_back(t.literal);
      return {std::move(list)};
    }
    if (term.kind != RuleTerm::Kind::kLiteral) reader_.fail("a default is a literal");
    return term.literal;
  }

  // Statements.
  std::vector<RuleStatement> parse_body() {
    if (accept("=>")) {
      std::vector<RuleStatement> body;
      body.push_back(parse_return());
      return body;
    }
    return parse_block();
  }

  std::vector<RuleStatement> parse_block() {
    std::vector<RuleStatement> body;
    expect("{");
    while (!accept("}")) body.push_back(parse_statement());
    return body;
  }

  RuleStatement parse_return() {
    RuleStatement s;
    s.kind = RuleStatement::Kind::kReturn;
    s.line = line();
    do {
      s.terms.push_back(parse_result());
    } while (accept(","));
    return s;
  }

  RuleStatement parse_statement() {
    RuleStatement s;
    s.line = line();
    if (reader_.take("return")) return parse_return();
    if (reader_.take("require")) {
      s.kind = RuleStatement::Kind::kRequire;
      s.terms.push_back(parse_expression());
      expect(",");
      s.text = reader_.string("a reason");
    } else if (reader_.take("if")) {
      s.kind = RuleStatement::Kind::kIf;
      s.terms.push_back(parse_expression());
      s.body = parse_block();
      if (reader_.take("else")) {
        if (reader_.is("if")) {
          s.otherwise.push_back(parse_statement());
        } else {
          s.otherwise = parse_block();
        }
      }
    } else if (reader_.take("for")) {
      s.kind = RuleStatement::Kind::kFor;
      s.names.push_back(expect_name());
      if (!reader_.take("in")) reader_.fail("expected 'in'");
      s.terms.push_back(parse_expression());
      s.body = parse_block();
    } else {
      s.kind = RuleStatement::Kind::kAssign;
      do {
        s.names.push_back(expect_variable());
      } while (accept(","));
      expect("=");
      s.terms.push_back(parse_result());
    }
    return s;
  }

  // Expressions.
  bool at_operator() const {
    if (!at_word()) return false;
    const Token second = reader_.peek_second();
    if ((second.text == "(" || second.text == "[") && !second.spaced) return false;  // f(x), not `exp (neg %x)`
    const std::string_view word = reader_.peek().text;
    return op_from_name(word).has_value() || table_.macros_.find(word) != table_.macros_.end();
  }

  RuleTerm parse_result() { return at_operator() ? parse_operator() : parse_expression(); }

  RuleTerm parse_operator() {
    RuleTerm term;
    term.line = line();
    const std::string name = expect_name();
    int operands = -1;
    if (auto macro = table_.macros_.find(name); macro != table_.macros_.end()) {
      term.kind = RuleTerm::Kind::kMacro;
      term.macro = &macro->second;
      term.text = name;
      operands = static_cast<int>(macro->second.parameters.size());
    } else {
      term.kind = RuleTerm::Kind::kOperator;
      term.op = *op_from_name(name);
      term.text = name;
      operands = info(term.op).operands;
    }
    if (operands != 0) {
      do {
        term.args.push_back(parse_expression());
      } while (accept(","));
    }
    if (term.kind == RuleTerm::Kind::kOperator && operands > 0 && term.args.size() != static_cast<size_t>(operands)) {
      reader_.fail("'" + name + "' takes " + std::to_string(operands) + " operands, found " +
                   std::to_string(term.args.size()));
    }
    while (term.kind == RuleTerm::Kind::kOperator && at_attribute()) {
      std::string attr = expect_name();
      term.attrs.push_back({std::move(attr), parse_expression()});
    }
    return term;
  }

  bool at_attribute() const {
    static constexpr std::array<std::string_view, 14> kAttributes = {"to",  "dtype", "value",   "shape",    "dims",
                                                                     "dim", "start", "end",     "step",     "index",
                                                                     "low", "high",  "keepdim", "precision"};
    if (!at_word() || std::find(kAttributes.begin(), kAttributes.end(), reader_.peek().text) == kAttributes.end())
      return false;
    const Token second = reader_.peek_second();  // not the next statement's target
    return second.text != "=" && second.text != ",";
  }

  RuleTerm node(RuleTerm::Kind kind, std::string text, std::vector<RuleTerm> args) const {
    RuleTerm t;
    t.kind = kind;
    t.line = line();
    t.text = std::move(text);
    t.args = std::move(args);
    return t;
  }

  RuleTerm parse_expression() {
    RuleTerm condition = parse_or();
    if (!accept("?")) return condition;
    RuleTerm yes = parse_expression();
    expect(":");
    RuleTerm no = parse_expression();
    return node(RuleTerm::Kind::kConditional, "?", {std::move(condition), std::move(yes), std::move(no)});
  }
  RuleTerm parse_or() {
    RuleTerm left = parse_and();
    while (reader_.take("or")) left = node(RuleTerm::Kind::kBinary, "or", {std::move(left), parse_and()});
    return left;
  }
  RuleTerm parse_and() {
    RuleTerm left = parse_not();
    while (reader_.take("and")) left = node(RuleTerm::Kind::kBinary, "and", {std::move(left), parse_not()});
    return left;
  }
  RuleTerm parse_not() {
    if (reader_.take("not")) return node(RuleTerm::Kind::kUnary, "not", {parse_not()});
    return parse_comparison();
  }
  RuleTerm parse_comparison() {
    RuleTerm left = parse_sum();
    for (const char* op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (accept(op)) return node(RuleTerm::Kind::kBinary, op, {std::move(left), parse_sum()});
    }
    return left;
  }
  RuleTerm parse_sum() {
    RuleTerm left = parse_product();
    while (at("+") || at("-")) {
      std::string op(reader_.next().text);
      left = node(RuleTerm::Kind::kBinary, std::move(op), {std::move(left), parse_product()});
    }
    return left;
  }
  RuleTerm parse_product() {
    RuleTerm left = parse_unary();
    while (at("*") || at("/")) {
      std::string op(reader_.next().text);
      left = node(RuleTerm::Kind::kBinary, std::move(op), {std::move(left), parse_unary()});
    }
    return left;
  }
  RuleTerm parse_unary() {
    if (!accept("-")) return parse_postfix();
    RuleTerm inner = parse_unary();
    if (inner.kind == RuleTerm::Kind::kLiteral) {
      if (auto* d = std::get_if<double>(&inner.literal.data)) {
        inner.literal.data = -*d;
        return inner;
      }
      if (auto* e = std::get_if<Expr>(&inner.literal.data)) {
        inner.literal.data = Expr(0) - *e;
        return inner;
      }
    }
    return node(RuleTerm::Kind::kUnary, "-", {std::move(inner)});
  }
  RuleTerm parse_postfix() {
    RuleTerm base = parse_primary();
    while (accept("[")) {
      base = node(RuleTerm::Kind::kIndex, "[]", {std::move(base), parse_expression()});
      expect("]");
    }
    return base;
  }

  RuleTerm literal(RuleValue value) const {
    RuleTerm t = node(RuleTerm::Kind::kLiteral, "", {});
    t.literal = std::move(value);
    return t;
  }

  RuleTerm parse_primary() {
    if (accept("(")) {
      RuleTerm inner = parse_result();
      expect(")");
      return inner;
    }
    if (accept("[")) return parse_list();
    if (accept("%")) return node(RuleTerm::Kind::kVariable, expect_name(), {});
    if (at_word()) return parse_named(expect_name());
    if (reader_.peek().kind == TokenKind::kString) return literal(reader_.string("a string"));
    if (reader_.at_float()) return literal(reader_.number("a number"));
    return literal(Expr(reader_.integer("an expression")));
  }

  RuleTerm parse_named(const std::string& name) {
    if (name == "true" || name == "false") return literal(RuleValue{name == "true"});
    if (name == "none") return literal(RuleValue{RuleNone{}});
    if (name == "inf") return literal(RuleValue{std::numeric_limits<double>::infinity()});
    if (name == "NaN") return literal(RuleValue{std::numeric_limits<double>::quiet_NaN()});
    if (accept("(")) {
      std::vector<RuleTerm> args;
      while (!at(")")) {
        args.push_back(parse_expression());
        if (!accept(",")) break;
      }
      expect(")");
      auto macro = table_.macros_.find(name);
      if (macro == table_.macros_.end()) return node(RuleTerm::Kind::kFunction, name, std::move(args));
      RuleTerm term = node(RuleTerm::Kind::kMacro, name, std::move(args));
      term.macro = &macro->second;
      return term;
    }
    if (std::optional<DType> type = dtype_from_name(name)) return literal(RuleValue{*type});
    return node(RuleTerm::Kind::kVariable, name, {});
  }

  RuleTerm parse_list() {
    std::vector<RuleTerm> items;
    while (!at("]")) {
      items.push_back(parse_expression());
      if (reader_.take("for")) {
        const std::string variable = expect_variable();
        if (!reader_.take("in")) reader_.fail("expected 'in'");
        items.push_back(parse_expression());
        expect("]");
        return node(RuleTerm::Kind::kComprehension, variable, std::move(items));
      }
      if (!accept(",")) break;
    }
    expect("]");
    return node(RuleTerm::Kind::kList, "", std::move(items));
  }

  static bool is_one_operator(const DecomposeRule& rule) {
    if (rule.body.size() != 1 || rule.body[0].terms.size() != 1) return false;
    const RuleTerm& term = rule.body[0].terms[0];
    if (term.kind != RuleTerm::Kind::kOperator || info(term.op).category != Category::kPointwise) return false;
    for (const RuleTerm& a : term.args) {
      if (a.kind != RuleTerm::Kind::kLiteral && a.kind != RuleTerm::Kind::kVariable) return false;
    }
    return true;
  }

  RuleTable& table_;
  const std::string& file_;
  Reader reader_;
};

void RuleTable::add(std::string_view text, const std::string& file) {
  try {
    RuleParser(*this, text, file).parse_file();
  } catch (const UserError& e) {
    throw InternalError(e.what());
  }
}

const std::vector<const DecomposeRule*>& RuleTable::find(const std::string& callee) const {
  static const std::vector<const DecomposeRule*> kNone;
  auto it = by_operator_.find(callee);
  return it == by_operator_.end() ? kNone : it->second;
}

const RuleTable& embedded_rule_table() {
  static const RuleTable table = [] {
    RuleTable t;
    for (const EmbeddedFile& file : decompose_rules()) t.add(file.text, file.name);
    return t;
  }();
  return table;
}

}  // namespace tilewright
