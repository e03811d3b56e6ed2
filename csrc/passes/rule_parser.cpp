#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "passes/embedded_rules.h"
#include "passes/rule.h"

namespace tilewright {
namespace {

struct Token {
  enum class Kind : uint8_t { kEnd, kName, kTensor, kInteger, kFloat, kString, kPunctuation };
  Kind kind = Kind::kEnd;
  std::string text;
  int line = 0;
};

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::vector<Token> tokens() {
    std::vector<Token> result;
    do {
      result.push_back(next());
    } while (result.back().kind != Token::Kind::kEnd);
    return result;
  }

 private:
  static bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
  static bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }
  char at(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  void skip_space() {
    while (position_ < text_.size()) {
      if (at(position_) == '\n') ++line_;
      if (std::isspace(static_cast<unsigned char>(at(position_)))) {
        ++position_;
      } else if (at(position_) == '/' && at(position_ + 1) == '/') {
        while (position_ < text_.size() && at(position_) != '\n') ++position_;
      } else {
        return;
      }
    }
  }

  std::string take_name() {
    size_t start = position_;
    while (continues_name(at(position_))) ++position_;
    return std::string(text_.substr(start, position_ - start));
  }

  Token next() {
    skip_space();
    Token token;
    token.line = line_;
    if (position_ >= text_.size()) return token;
    const char c = at(position_);
    if (starts_name(c)) {
      token.kind = Token::Kind::kName;
      token.text = take_name();
    } else if (c == '%') {
      ++position_;
      token.kind = Token::Kind::kTensor;
      token.text = take_name();
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      take_number(token);
    } else if (c == '"') {
      const size_t end = text_.find('"', position_ + 1);
      if (end == std::string_view::npos) fail("unterminated string");
      token.kind = Token::Kind::kString;
      token.text = std::string(text_.substr(position_ + 1, end - position_ - 1));
      position_ = end + 1;
    } else {
      take_punctuation(token);
    }
    return token;
  }

  void take_number(Token& token) {
    const size_t start = position_;
    token.kind = Token::Kind::kInteger;
    while (std::isdigit(static_cast<unsigned char>(at(position_))) || at(position_) == '.' || at(position_) == 'e' ||
           ((at(position_) == '-' || at(position_) == '+') && at(position_ - 1) == 'e')) {
      if (at(position_) == '.' || at(position_) == 'e') token.kind = Token::Kind::kFloat;
      ++position_;
    }
    token.text = std::string(text_.substr(start, position_ - start));
  }

  void take_punctuation(Token& token) {
    static constexpr std::array<std::string_view, 5> kLong = {"=>", "==", "!=", "<=", ">="};
    token.kind = Token::Kind::kPunctuation;
    for (std::string_view p : kLong) {
      if (text_.substr(position_, 2) == p) token.text = p;
    }
    if (token.text.empty()) token.text = std::string(1, at(position_));
    if (token.text.size() == 1 && std::string_view("()[]{},:=<>+-*/?|").find(token.text[0]) == std::string_view::npos) {
      fail("unexpected '" + token.text + "'");
    }
    position_ += token.text.size();
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw InternalError(file_ + ":" + std::to_string(line_) + ": " + what);
  }

  std::string_view text_;
  const std::string& file_;
  size_t position_ = 0;
  int line_ = 1;
};

}  // namespace

class RuleParser {
 public:
  RuleParser(RuleTable& table, std::string_view text, const std::string& file)
      : table_(table), file_(file), tokens_(Lexer(text, file).tokens()) {}

  void parse_file() {
    while (peek().kind != Token::Kind::kEnd) {
      if (accept_name("rule")) {
        parse_rule();
      } else if (accept_name("macro")) {
        parse_macro();
      } else {
        fail("expected 'rule' or 'macro', found '" + peek().text + "'");
      }
    }
  }

 private:
  // Tokens.
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(position_ + ahead, tokens_.size() - 1)]; }
  const Token& take() { return tokens_[position_ < tokens_.size() - 1 ? position_++ : position_]; }
  bool is_punctuation(std::string_view p, size_t ahead = 0) const {
    return peek(ahead).kind == Token::Kind::kPunctuation && peek(ahead).text == p;
  }
  bool is_name(std::string_view n) const { return peek().kind == Token::Kind::kName && peek().text == n; }
  bool accept(std::string_view p) { return is_punctuation(p) ? (take(), true) : false; }
  bool accept_name(std::string_view n) { return is_name(n) ? (take(), true) : false; }
  void expect(std::string_view p) {
    if (!accept(p)) fail("expected '" + std::string(p) + "', found '" + peek().text + "'");
  }
  std::string expect_name() {
    if (peek().kind != Token::Kind::kName) fail("expected a name, found '" + peek().text + "'");
    return take().text;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw InternalError(file_ + ":" + std::to_string(peek().line) + ": " + what);
  }

  void parse_rule() {
    Rule rule;
    rule.where = file_ + ":" + std::to_string(peek().line);
    do {
      rule.operators.push_back(expect_name());
    } while (accept("|"));
    rule.parameters = parse_parameters();
    if (accept(":")) rule.kind = parse_kind();
    if (accept_name("when")) rule.condition = parse_expression();
    rule.body = parse_body();
    rule.one_operator = is_one_operator(rule);
    table_.rules_.push_back(std::move(rule));
    const Rule* stored = &table_.rules_.back();
    for (const std::string& name : stored->operators) table_.by_operator_[name].push_back(stored);
  }

  void parse_macro() {
    RuleMacro macro;
    macro.name = expect_name();
    if (op_from_name(macro.name) || table_.macros_.count(macro.name)) fail("'" + macro.name + "' is taken");
    macro.parameters = parse_parameters();
    macro.body = parse_body();
    table_.macros_.emplace(macro.name, std::move(macro));
  }

  RuleKind parse_kind() {
    const std::string kind = expect_name();
    if (kind == "arithmetic") return RuleKind::kArithmetic;
    if (kind == "compare") return RuleKind::kCompare;
    if (kind == "exact") return RuleKind::kExact;
    fail("no kind of rule is named '" + kind + "'");
  }

  std::vector<RuleParameter> parse_parameters() {
    std::vector<RuleParameter> result;
    expect("(");
    while (!is_punctuation(")")) {
      RuleParameter p;
      p.tensor = peek().kind == Token::Kind::kTensor;
      p.name = p.tensor ? take().text : expect_name();
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
    if (!type) fail("'" + text + "' is no conversion");
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
    if (term.kind != RuleTerm::Kind::kLiteral) fail("a default is a literal");
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
    s.line = peek().line;
    do {
      s.terms.push_back(parse_result());
    } while (accept(","));
    return s;
  }

  RuleStatement parse_statement() {
    RuleStatement s;
    s.line = peek().line;
    if (accept_name("return")) return parse_return();
    if (accept_name("require")) {
      s.kind = RuleStatement::Kind::kRequire;
      s.terms.push_back(parse_expression());
      expect(",");
      if (peek().kind != Token::Kind::kString) fail("expected a reason");
      s.text = take().text;
    } else if (accept_name("if")) {
      s.kind = RuleStatement::Kind::kIf;
      s.terms.push_back(parse_expression());
      s.body = parse_block();
      if (accept_name("else")) {
        if (is_name("if")) {
          s.otherwise.push_back(parse_statement());
        } else {
          s.otherwise = parse_block();
        }
      }
    } else if (accept_name("for")) {
      s.kind = RuleStatement::Kind::kFor;
      s.names.push_back(expect_name());
      if (!accept_name("in")) fail("expected 'in'");
      s.terms.push_back(parse_expression());
      s.body = parse_block();
    } else {
      s.kind = RuleStatement::Kind::kAssign;
      do {
        s.names.push_back(peek().kind == Token::Kind::kTensor ? take().text : expect_name());
      } while (accept(","));
      expect("=");
      s.terms.push_back(parse_result());
    }
    return s;
  }

  // Expressions.
  bool at_operator() const {
    return peek().kind == Token::Kind::kName && (op_from_name(peek().text) || table_.macros_.count(peek().text) > 0);
  }

  RuleTerm parse_result() { return at_operator() ? parse_operator() : parse_expression(); }

  RuleTerm parse_operator() {
    RuleTerm term;
    term.line = peek().line;
    const std::string name = take().text;
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
      fail("'" + name + "' takes " + std::to_string(operands) + " operands, found " + std::to_string(term.args.size()));
    }
    while (term.kind == RuleTerm::Kind::kOperator && peek().kind == Token::Kind::kName && at_attribute()) {
      std::string attr = take().text;
      term.attrs.emplace_back(std::move(attr), parse_expression());
    }
    return term;
  }

  bool at_attribute() const {
    static constexpr std::array<std::string_view, 13> kAttributes = {
        "to", "dtype", "value", "shape", "dims", "dim", "start", "end", "step", "index", "low", "high", "keepdim"};
    for (std::string_view a : kAttributes) {
      if (peek().text == a && !is_punctuation("=", 1) && !is_punctuation(",", 1)) return true;
    }
    return false;
  }

  RuleTerm node(RuleTerm::Kind kind, std::string text, std::vector<RuleTerm> args) const {
    RuleTerm t;
    t.kind = kind;
    t.line = peek().line;
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
    while (accept_name("or")) left = node(RuleTerm::Kind::kBinary, "or", {std::move(left), parse_and()});
    return left;
  }
  RuleTerm parse_and() {
    RuleTerm left = parse_not();
    while (accept_name("and")) left = node(RuleTerm::Kind::kBinary, "and", {std::move(left), parse_not()});
    return left;
  }
  RuleTerm parse_not() {
    if (accept_name("not")) return node(RuleTerm::Kind::kUnary, "not", {parse_not()});
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
    while (is_punctuation("+") || is_punctuation("-")) {
      std::string op = take().text;
      left = node(RuleTerm::Kind::kBinary, std::move(op), {std::move(left), parse_product()});
    }
    return left;
  }
  RuleTerm parse_product() {
    RuleTerm left = parse_unary();
    while (is_punctuation("*") || is_punctuation("/")) {
      std::string op = take().text;
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
    const Token token = take();
    switch (token.kind) {
      case Token::Kind::kTensor: return node(RuleTerm::Kind::kVariable, token.text, {});
      case Token::Kind::kString: return literal({token.text});
      case Token::Kind::kInteger: return literal({Expr(std::stoll(token.text))});
      case Token::Kind::kFloat: return literal({std::stod(token.text)});
      case Token::Kind::kName: return parse_named(token.text);
      default: fail("expected an expression, found '" + token.text + "'");
    }
  }

  RuleTerm parse_named(const std::string& name) {
    if (name == "true" || name == "false") return literal({name == "true"});
    if (name == "none") return literal({RuleNone{}});
    if (name == "inf") return literal({std::numeric_limits<double>::infinity()});
    if (name == "NaN") return literal({std::numeric_limits<double>::quiet_NaN()});
    if (is_punctuation("(")) {
      take();
      std::vector<RuleTerm> args;
      while (!is_punctuation(")")) {
        args.push_back(parse_expression());
        if (!accept(",")) break;
      }
      expect(")");
      return node(RuleTerm::Kind::kFunction, name, std::move(args));
    }
    if (std::optional<DType> type = dtype_from_name(name)) return literal({*type});
    return node(RuleTerm::Kind::kVariable, name, {});
  }

  RuleTerm parse_list() {
    std::vector<RuleTerm> items;
    while (!is_punctuation("]")) {
      items.push_back(parse_expression());
      if (accept_name("for")) {
        const std::string variable = peek().kind == Token::Kind::kTensor ? take().text : expect_name();
        if (!accept_name("in")) fail("expected 'in'");
        items.push_back(parse_expression());
        expect("]");
        return node(RuleTerm::Kind::kComprehension, variable, std::move(items));
      }
      if (!accept(",")) break;
    }
    expect("]");
    return node(RuleTerm::Kind::kList, "", std::move(items));
  }

  static bool is_one_operator(const Rule& rule) {
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
  std::vector<Token> tokens_;
  size_t position_ = 0;
};

void RuleTable::add(std::string_view text, const std::string& file) { RuleParser(*this, text, file).parse_file(); }

const std::vector<const Rule*>& RuleTable::find(const std::string& callee) const {
  static const std::vector<const Rule*> kNone;
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
