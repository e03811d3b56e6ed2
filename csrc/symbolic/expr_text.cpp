// The text form of expressions: 2*s0*s1 + floordiv(s0, 4) - 1
#include "support/reader.h"
#include "symbolic/expr_data.h"

namespace tilewright {
namespace {

using Kind = Expr::Kind;

const char* function_name(Kind kind) {
  switch (kind) {
    case Kind::kFloorDiv:
      return "floordiv";
    case Kind::kMod:
      return "mod";
    case Kind::kMin:
      return "min";
    default:
      return "max";
  }
}

void write(std::string& out, const Expr& e);

void write_atom(std::string& out, const Expr::Data& data) {
  if (data.kind == Kind::kSymbol) {
    out += data.name;
    return;
  }
  // min and max of many nest to the right.
  const size_t last = data.operands.size() - 1;
  for (size_t i = 0; i < last; ++i) {
    out += function_name(data.kind);
    out += '(';
    write(out, data.operands[i]);
    out += ", ";
  }
  write(out, data.operands[last]);
  out.append(last, ')');
}

void write_term(std::string& out, const Term& term, bool first) {
  if (first) {
    if (term.coefficient < 0) out += '-';
  } else {
    out += term.coefficient < 0 ? " - " : " + ";
  }
  const int64_t magnitude = term.coefficient < 0 ? -term.coefficient : term.coefficient;
  if (magnitude != 1 || term.factors.empty()) {
    out += std::to_string(magnitude);
    if (!term.factors.empty()) out += '*';
  }
  for (size_t i = 0; i < term.factors.size(); ++i) {
    if (i > 0) out += '*';
    write_atom(out, *term.factors[i]);
  }
}

void write(std::string& out, const Expr& e) {
  const DataPtr& data = ExprAccess::data(e);
  if (!data) {
    out += std::to_string(*e.constant());
  } else if (data->kind != Kind::kAdd) {
    write_atom(out, *data);
  } else {
    for (size_t i = 0; i < data->terms.size(); ++i) write_term(out, data->terms[i], i == 0);
  }
}

Expr read_function(Reader& reader, std::string_view name) {
  reader.expect("(");
  const Expr a = read_expr(reader);
  reader.expect(",");
  const Expr b = read_expr(reader);
  reader.expect(")");
  if (name == "floordiv") return floordiv(a, b);
  if (name == "mod") return mod(a, b);
  return name == "min" ? min(a, b) : max(a, b);
}

Expr read_factor(Reader& reader) {
  const Token token = reader.peek();
  if (reader.take("-"))
    return reader.peek().kind == TokenKind::kInteger ? Expr(-reader.integer("a number")) : read_factor(reader) * -1;
  if (reader.take("(")) {
    Expr inner = read_expr(reader);
    reader.expect(")");
    return inner;
  }
  if (token.kind == TokenKind::kInteger) return reader.integer("a number");
  const std::string_view word = reader.word("a size expression");
  if (!reader.is("(")) return Expr::symbol(std::string(word));
  if (word == "floordiv" || word == "mod" || word == "min" || word == "max") return read_function(reader, word);
  reader.fail_at(
      token, "unknown function '" + std::string(word) + "' in a size expression; there are floordiv, mod, min, max");
}

Expr read_product(Reader& reader) {
  Expr value = read_factor(reader);
  while (reader.take("*")) value = value * read_factor(reader);
  return value;
}

Expr read_sum(Reader& reader) {
  Expr value = read_product(reader);
  for (;;) {
    if (reader.take("+")) {
      value = value + read_product(reader);
    } else if (reader.take("-")) {
      value = value - read_product(reader);
    } else {
      return value;
    }
  }
}

}  // namespace

std::string Expr::str() const {
  std::string out;
  write(out, *this);
  return out;
}

Expr read_expr(Reader& reader) {
  const Token start = reader.peek();
  try {
    return read_sum(reader);
  } catch (const UserError& error) {
    const std::string message = error.what();
    if (message.rfind("size expression", 0) != 0) throw;  // has its place already
    reader.fail_at(start, message);
  }
}

Expr parse_expr(std::string_view text) {
  Reader reader(text, "<expression>");
  Expr value = read_expr(reader);
  if (!reader.at_end()) reader.fail_expected("the end of the expression");
  return value;
}

}  // namespace tilewright
