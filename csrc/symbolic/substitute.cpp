#include "support/error.h"
#include "symbolic/expr_data.h"
namespace tilewright {
namespace {

using Kind = Expr::Kind;
using Values = std::map<std::string, Expr>;

Expr substitute_atom(const DataPtr& data, const Values& values) {
  if (data->kind == Kind::kSymbol) {
    const auto it = values.find(data->name);
    return it == values.end() ? ExprAccess::wrap(data) : it->second;
  }
  Expr out = data->operands[0].substitute(values);
  for (size_t i = 1; i < data->operands.size(); ++i) {
    const Expr operand = data->operands[i].substitute(values);
    switch (data->kind) {
      case Kind::kFloorDiv:
        out = floordiv(out, operand);
        break;
      case Kind::kMod:
        out = mod(out, operand);
        break;
      case Kind::kMin:
        out = min(out, operand);
        break;
      default:
        out = max(out, operand);
        break;
    }
  }
  return out;
}

}  // namespace

int64_t Expr::evaluate(const std::map<std::string, int64_t>& values) const {
  return evaluate_with(*this, [&](const std::string& name) {
    const auto it = values.find(name);
    TW_CHECK(it != values.end()) << "no value for symbol " << name << " of " << *this;
    return it->second;
  });
}

Expr Expr::substitute(const Values& values) const {
  if (!data_) return *this;
  if (data_->kind != Kind::kAdd) return substitute_atom(data_, values);
  Expr sum = 0;
  for (const Term& term : data_->terms) {
    Expr value = term.coefficient;
    for (const DataPtr& factor : term.factors) value = value * substitute_atom(factor, values);
    sum = sum + value;
  }
  return sum;
}

}  // namespace tilewright
