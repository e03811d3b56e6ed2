#pragma once

#include <compare>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "symbolic/expr.h"

namespace tilewright {

// The canonical form behind Expr, private to symbolic/.
//
// A value that is no constant is an atom (a symbol, or floordiv, mod, min, max of two values), or a polynomial: a sum
// of terms, each a coefficient times a product of atoms. A polynomial never is a constant or a lone atom. Its terms are
// sorted by their products (higher degree first, the constant last), each product once, no coefficient zero.
using DataPtr = std::shared_ptr<const Expr::Data>;

struct Term {
  int64_t coefficient = 0;
  std::vector<DataPtr> factors;  // atoms, sorted; a square has its atom twice
};

struct Expr::Data {
  Kind kind = Kind::kAdd;      // kAdd stands for every polynomial
  std::string name;            // kSymbol
  std::vector<Expr> operands;  // kFloorDiv, kMod: two; kMin, kMax: two or more, flat, sorted, each once
  std::vector<Term> terms;     // kAdd
};

// The doors between Expr and its data.
struct ExprAccess {
  static const DataPtr& data(const Expr& e) { return e.data_; }
  static Expr wrap(DataPtr data) { return Expr(std::move(data)); }
};

// Orders of canonical values: structure, never addresses.
std::strong_ordering compare(const Expr& a, const Expr& b);
std::strong_ordering compare_atoms(const Expr::Data& a, const Expr::Data& b);
std::strong_ordering compare_products(const std::vector<DataPtr>& a, const std::vector<DataPtr>& b);

// The terms of a polynomial; one for an atom or a constant other than 0, none for 0.
std::vector<Term> terms_of(const Expr& e);
// The canonical value of a sum of terms in any order.
Expr sum_of(std::vector<Term> terms);
Expr term_value(const Term& term);

// The value of e where `lookup(name)` gives each symbol's; Lookup returns int64_t.
template <typename Lookup>
int64_t evaluate_with(const Expr& e, const Lookup& lookup);

// Arithmetic that throws UserError where int64 overflows.
int64_t checked_add(int64_t a, int64_t b);
int64_t checked_mul(int64_t a, int64_t b);
int64_t floor_quotient(int64_t a, int64_t b);
int64_t floor_remainder(int64_t a, int64_t b);

template <typename Lookup>
int64_t evaluate_atom(const Expr::Data& data, const Lookup& lookup) {
  if (data.kind == Expr::Kind::kSymbol) return lookup(data.name);
  int64_t value = evaluate_with(data.operands[0], lookup);
  for (size_t i = 1; i < data.operands.size(); ++i) {
    const int64_t operand = evaluate_with(data.operands[i], lookup);
    switch (data.kind) {
      case Expr::Kind::kFloorDiv:
        value = floor_quotient(value, operand);
        break;
      case Expr::Kind::kMod:
        value = floor_remainder(value, operand);
        break;
      case Expr::Kind::kMin:
        value = operand < value ? operand : value;
        break;
      default:
        value = operand > value ? operand : value;
        break;
    }
  }
  return value;
}

template <typename Lookup>
int64_t evaluate_with(const Expr& e, const Lookup& lookup) {
  const DataPtr& data = ExprAccess::data(e);
  if (!data) return *e.constant();
  if (data->kind != Expr::Kind::kAdd) return evaluate_atom(*data, lookup);
  int64_t sum = 0;
  for (const Term& term : data->terms) {
    int64_t value = term.coefficient;
    for (const DataPtr& factor : term.factors) value = checked_mul(value, evaluate_atom(*factor, lookup));
    sum = checked_add(sum, value);
  }
  return sum;
}

}  // namespace tilewright
