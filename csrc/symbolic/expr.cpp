#include "symbolic/expr.h"

#include <algorithm>
#include <numeric>
#include <ostream>
#include <set>

#include "support/error.h"
#include "symbolic/expr_data.h"

namespace tilewright {
namespace {

using Kind = Expr::Kind;

// s2 before s10: shorter names first.
std::strong_ordering compare_names(const std::string& a, const std::string& b) {
  if (const auto order = a.size() <=> b.size(); order != 0) return order;
  return a.compare(b) <=> 0;
}

bool product_less(const Term& a, const Term& b) { return compare_products(a.factors, b.factors) < 0; }

Expr atom(Kind kind, std::vector<Expr> operands) {
  auto data = std::make_shared<Expr::Data>();
  data->kind = kind;
  data->operands = std::move(operands);
  return ExprAccess::wrap(std::move(data));
}

std::vector<DataPtr> merged_factors(const std::vector<DataPtr>& a, const std::vector<DataPtr>& b) {
  std::vector<DataPtr> out(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), out.begin(),
             [](const DataPtr& x, const DataPtr& y) { return compare_atoms(*x, *y) < 0; });
  return out;
}

// Whether `factors` has all of `part`; then `rest` is what remains.
bool remove_factors(const std::vector<DataPtr>& factors, const std::vector<DataPtr>& part, std::vector<DataPtr>& rest) {
  rest.clear();
  size_t next = 0;
  for (const DataPtr& factor : factors) {
    if (next < part.size() && compare_atoms(*factor, *part[next]) == 0) {
      ++next;
    } else {
      rest.push_back(factor);
    }
  }
  return next == part.size();
}

std::vector<DataPtr> common_factors(const std::vector<DataPtr>& a, const std::vector<DataPtr>& b) {
  std::vector<DataPtr> out;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const auto order = compare_atoms(*a[i], *b[j]);
    if (order == 0)
      out.push_back(a[i]), ++i, ++j;
    else if (order < 0)
      ++i;
    else
      ++j;
  }
  return out;
}

int64_t magnitude_gcd(int64_t a, int64_t b) {
  TW_CHECK(a != INT64_MIN && b != INT64_MIN) << "coefficient " << INT64_MIN;
  return std::gcd(a, b);
}

// The greatest term that divides every term; coefficient positive.
Term content(const std::vector<Term>& terms) {
  Term out{0, terms.empty() ? std::vector<DataPtr>{} : terms[0].factors};
  for (const Term& term : terms) {
    out.coefficient = magnitude_gcd(out.coefficient, term.coefficient);
    out.factors = common_factors(out.factors, term.factors);
  }
  return out;
}

// a / by where every term of a is a multiple.
std::vector<Term> divided(const std::vector<Term>& a, const Term& by) {
  std::vector<Term> out;
  for (const Term& term : a) {
    Term quotient{term.coefficient / by.coefficient, {}};
    TW_CHECK(term.coefficient % by.coefficient == 0 && remove_factors(term.factors, by.factors, quotient.factors))
        << term_value(term) << " by " << term_value(by);
    out.push_back(std::move(quotient));
  }
  return out;
}

// Moves the terms of `terms` that are multiples of `by` to the result, divided.
std::vector<Term> split_multiples(std::vector<Term>& terms, const Term& by) {
  std::vector<Term> quotients, rest;
  for (Term& term : terms) {
    Term quotient{term.coefficient / by.coefficient, {}};
    const bool multiple =
        term.coefficient % by.coefficient == 0 && remove_factors(term.factors, by.factors, quotient.factors);
    (multiple ? quotients : rest).push_back(multiple ? std::move(quotient) : std::move(term));
  }
  terms = std::move(rest);
  return quotients;
}

// a / b for a sum b of two or more terms, where it leaves no remainder: long division by the leading term.
std::optional<Expr> exact_quotient(const Expr& a, const Expr& b) {
  const std::vector<Term> divisor = terms_of(b);
  Expr rest = a, quotient = 0;
  while (!rest.is_constant(0)) {
    std::vector<Term> leading = {terms_of(rest).front()};
    const std::vector<Term> step = split_multiples(leading, divisor.front());
    if (step.empty()) return std::nullopt;
    quotient = quotient + term_value(step[0]);
    rest = rest - term_value(step[0]) * b;
  }
  return quotient;
}

// x where e is floordiv(x, c) or mod(x, c) (as `kind` says) with a constant c > 0.
struct ConstantDivision {
  Expr of;
  int64_t by;
};
std::optional<ConstantDivision> as_constant_division(const DataPtr& data, Kind kind) {
  if (!data || data->kind != kind) return std::nullopt;
  const auto by = data->operands[1].constant();
  if (!by || *by <= 0) return std::nullopt;
  return ConstantDivision{data->operands[0], *by};
}

// Takes the constant term out of a sum.
int64_t take_constant(std::vector<Term>& terms) {
  if (terms.empty() || !terms.back().factors.empty()) return 0;
  const int64_t value = terms.back().coefficient;
  terms.pop_back();
  return value;
}

// floordiv(a, c), c > 1, a not a constant.
//   floordiv(c*q + r, c) = q + floordiv(r, c)
//   floordiv(g*x + k, g*d) = floordiv(x + floordiv(k, g), d)
//   floordiv(floordiv(x, d) + k, c) = floordiv(x + k*d, c*d)
Expr floordiv_constant(const Expr& a, int64_t c) {
  std::vector<Term> rest = terms_of(a);
  int64_t constant = take_constant(rest);
  Expr quotient = sum_of(split_multiples(rest, Term{c, {}}));
  quotient = quotient + floor_quotient(constant, c);
  constant = floor_remainder(constant, c);
  if (rest.empty()) return quotient;
  int64_t common = c;
  for (const Term& term : rest) common = magnitude_gcd(common, term.coefficient);
  rest = divided(rest, Term{common, {}});
  constant /= common;
  c /= common;
  if (rest.size() == 1 && rest[0].coefficient == 1 && rest[0].factors.size() == 1) {
    const DataPtr& lone = rest[0].factors[0];
    if (const auto inner = as_constant_division(lone, Kind::kFloorDiv)) {
      return quotient + floordiv(inner->of + checked_mul(constant, inner->by), checked_mul(inner->by, c));
    }
    if (const auto inner = as_constant_division(lone, Kind::kMod)) {
      if (checked_add(inner->by - 1, constant) < c) return quotient;
    }
  }
  return quotient + atom(Kind::kFloorDiv, {sum_of(std::move(rest)) + constant, c});
}

// mod(a, c), c > 1, a not a constant.
//   mod(c*q + r, c) = mod(r, c)
//   mod(g*x + k, g*d) = g*mod(x + floordiv(k, g), d) + mod(k, g)
//   mod(mod(x, d), c) = mod(x, c) where c | d,  mod(x, d) where d <= c
Expr mod_constant(const Expr& a, int64_t c) {
  std::vector<Term> rest;
  int64_t common = c;
  for (Term& term : terms_of(a)) {
    term.coefficient = floor_remainder(term.coefficient, c);
    if (term.coefficient == 0) continue;
    if (!term.factors.empty()) common = magnitude_gcd(common, term.coefficient);
    rest.push_back(std::move(term));
  }
  const int64_t constant = take_constant(rest);
  if (rest.empty()) return constant;
  rest = divided(rest, Term{common, {}});
  const int64_t inside = constant / common, outside = constant % common;
  c /= common;
  if (rest.size() == 1 && rest[0].coefficient == 1 && rest[0].factors.size() == 1) {
    if (const auto inner = as_constant_division(rest[0].factors[0], Kind::kMod)) {
      if (inner->by % c == 0) return mod(inner->of + inside, c) * common + outside;
      if (checked_add(inner->by, inside) <= c) return (sum_of(std::move(rest)) + inside) * common + outside;
    }
  }
  return atom(Kind::kMod, {sum_of(std::move(rest)) + inside, c}) * common + outside;
}

// min and max: flat, sorted, of operands that differ by a constant only one.
Expr extreme(Kind kind, const Expr& a, const Expr& b) {
  std::vector<Expr> kept;
  const auto add = [&](const Expr& e) {
    for (Expr& have : kept) {
      const auto difference = (e - have).constant();
      if (!difference) continue;
      if (kind == Kind::kMin ? *difference < 0 : *difference > 0) have = e;
      return;
    }
    kept.push_back(e);
  };
  for (const Expr& e : {a, b}) {
    const DataPtr& data = ExprAccess::data(e);
    if (data && data->kind == kind) {
      for (const Expr& inner : data->operands) add(inner);
    } else {
      add(e);
    }
  }
  if (kept.size() == 1) return kept[0];
  std::sort(kept.begin(), kept.end());
  return atom(kind, std::move(kept));
}

void collect_symbols(const Expr& e, std::set<std::string>& out) {
  const DataPtr& data = ExprAccess::data(e);
  if (!data) return;
  if (data->kind == Kind::kSymbol) out.insert(data->name);
  for (const Expr& operand : data->operands) collect_symbols(operand, out);
  for (const Term& term : data->terms) {
    for (const DataPtr& factor : term.factors) collect_symbols(ExprAccess::wrap(factor), out);
  }
}

}  // namespace

int64_t checked_add(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out) || out == INT64_MIN) throw UserError("size expression overflows 64 bits");
  return out;
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out) || out == INT64_MIN) throw UserError("size expression overflows 64 bits");
  return out;
}

int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == 0) throw UserError("size expression divides by zero");
  if (b == -1) return checked_mul(a, -1);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t floor_remainder(int64_t a, int64_t b) {
  if (b == 0) throw UserError("size expression divides by zero");
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::strong_ordering compare_atoms(const Expr::Data& a, const Expr::Data& b) {
  if (&a == &b) return std::strong_ordering::equal;
  if (const auto order = a.kind <=> b.kind; order != 0) return order;
  if (a.kind == Kind::kSymbol) return compare_names(a.name, b.name);
  if (const auto order = a.operands.size() <=> b.operands.size(); order != 0) return order;
  for (size_t i = 0; i < a.operands.size(); ++i) {
    if (const auto order = compare(a.operands[i], b.operands[i]); order != 0) return order;
  }
  return std::strong_ordering::equal;
}

std::strong_ordering compare_products(const std::vector<DataPtr>& a, const std::vector<DataPtr>& b) {
  if (const auto order = b.size() <=> a.size(); order != 0) return order;
  for (size_t i = 0; i < a.size(); ++i) {
    if (const auto order = compare_atoms(*a[i], *b[i]); order != 0) return order;
  }
  return std::strong_ordering::equal;
}

std::strong_ordering compare(const Expr& a, const Expr& b) {
  const DataPtr &x = ExprAccess::data(a), &y = ExprAccess::data(b);
  if (!x || !y) {
    if (x || y) return x ? std::strong_ordering::greater : std::strong_ordering::less;
    return *a.constant() <=> *b.constant();
  }
  if (x == y) return std::strong_ordering::equal;
  if (x->kind != Kind::kAdd || y->kind != Kind::kAdd) return compare_atoms(*x, *y);
  for (size_t i = 0; i < x->terms.size() && i < y->terms.size(); ++i) {
    const Term &s = x->terms[i], &t = y->terms[i];
    if (const auto order = compare_products(s.factors, t.factors); order != 0) return order;
    if (const auto order = s.coefficient <=> t.coefficient; order != 0) return order;
  }
  return x->terms.size() <=> y->terms.size();
}

std::vector<Term> terms_of(const Expr& e) {
  const DataPtr& data = ExprAccess::data(e);
  if (!data) {
    if (e.is_constant(0)) return {};
    return {Term{*e.constant(), {}}};
  }
  if (data->kind == Kind::kAdd) return data->terms;
  return {Term{1, {data}}};
}

Expr sum_of(std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(), product_less);
  std::vector<Term> merged;
  for (Term& term : terms) {
    if (!merged.empty() && compare_products(merged.back().factors, term.factors) == 0) {
      merged.back().coefficient = checked_add(merged.back().coefficient, term.coefficient);
      if (merged.back().coefficient == 0) merged.pop_back();
    } else if (term.coefficient != 0) {
      merged.push_back(std::move(term));
    }
  }
  if (merged.empty()) return 0;
  if (merged.size() == 1) {
    const Term& only = merged[0];
    if (only.factors.empty()) return only.coefficient;
    if (only.coefficient == 1 && only.factors.size() == 1) return ExprAccess::wrap(only.factors[0]);
  }
  auto data = std::make_shared<Expr::Data>();
  data->terms = std::move(merged);
  return ExprAccess::wrap(std::move(data));
}

Expr term_value(const Term& term) { return sum_of({term}); }

Expr Expr::symbol(std::string name) {
  auto data = std::make_shared<Data>();
  data->kind = Kind::kSymbol;
  data->name = std::move(name);
  return Expr(std::move(data));
}

std::optional<int64_t> Expr::constant() const {
  if (data_) return std::nullopt;
  return value_;
}

bool Expr::is_constant(int64_t value) const { return !data_ && value_ == value; }

bool Expr::is_symbol() const { return data_ && data_->kind == Kind::kSymbol; }

std::vector<std::string> Expr::symbols() const {
  if (!data_) return {};
  if (is_symbol()) return {data_->name};
  std::set<std::string> names;
  collect_symbols(*this, names);
  return {names.begin(), names.end()};
}

Expr operator+(const Expr& a, const Expr& b) {
  if (!a.data_ && !b.data_) return checked_add(a.value_, b.value_);
  if (a.is_constant(0)) return b;
  if (b.is_constant(0)) return a;
  std::vector<Term> terms = terms_of(a);
  for (Term& term : terms_of(b)) terms.push_back(std::move(term));
  return sum_of(std::move(terms));
}

Expr operator-(const Expr& a, const Expr& b) {
  if (!a.data_ && !b.data_) return checked_add(a.value_, checked_mul(b.value_, -1));
  if (b.is_constant(0)) return a;
  return a + b * -1;
}

Expr operator*(const Expr& a, const Expr& b) {
  if (!a.data_ && !b.data_) return checked_mul(a.value_, b.value_);
  if (a.is_constant(1)) return b;
  if (b.is_constant(1)) return a;
  if (a.is_constant(0) || b.is_constant(0)) return 0;
  std::vector<Term> terms;
  for (const Term& x : terms_of(a)) {
    for (const Term& y : terms_of(b)) {
      terms.push_back({checked_mul(x.coefficient, y.coefficient), merged_factors(x.factors, y.factors)});
    }
  }
  return sum_of(std::move(terms));
}

Expr floordiv(const Expr& a, const Expr& b) {
  if (!a.data_ && !b.data_) return floor_quotient(a.value_, b.value_);
  if (b.is_constant(0)) throw UserError("size expression divides by zero");
  if (b.is_constant(1) || a.is_constant(0)) return a;
  if (!b.data_) return b.value_ > 0 ? floordiv_constant(a, b.value_) : floordiv(a * -1, b * -1);
  if (a == b) return 1;
  std::vector<Term> rest = terms_of(a);
  std::vector<Term> divisor = terms_of(b);
  if (divisor.size() > 1) {
    if (const auto quotient = exact_quotient(a, b)) return *quotient;
  }
  const Expr quotient = divisor.size() == 1 ? sum_of(split_multiples(rest, divisor[0])) : Expr(0);
  if (rest.empty()) return quotient;
  std::vector<Term> both = rest;
  both.insert(both.end(), divisor.begin(), divisor.end());
  const Term common = content(both);
  if (common.coefficient == 1 && common.factors.empty()) {
    return quotient + atom(Kind::kFloorDiv, {sum_of(std::move(rest)), b});
  }
  return quotient + floordiv(sum_of(divided(rest, common)), sum_of(divided(divisor, common)));
}

Expr mod(const Expr& a, const Expr& b) {
  if (!a.data_ && !b.data_) return floor_remainder(a.value_, b.value_);
  if (b.is_constant(0)) throw UserError("size expression divides by zero");
  if (b.is_constant(1) || a.is_constant(0) || a == b) return 0;
  if (!b.data_) return b.value_ > 0 ? mod_constant(a, b.value_) : mod(a * -1, b * -1) * -1;
  std::vector<Term> rest = terms_of(a);
  std::vector<Term> divisor = terms_of(b);
  if (divisor.size() > 1 && exact_quotient(a, b)) return 0;
  if (divisor.size() == 1) split_multiples(rest, divisor[0]);
  if (rest.empty()) return 0;
  std::vector<Term> both = rest;
  both.insert(both.end(), divisor.begin(), divisor.end());
  const Term common = content(both);
  if (common.coefficient == 1 && common.factors.empty()) return atom(Kind::kMod, {sum_of(std::move(rest)), b});
  return mod(sum_of(divided(rest, common)), sum_of(divided(divisor, common))) * term_value(common);
}

Expr min(const Expr& a, const Expr& b) { return extreme(Kind::kMin, a, b); }
Expr max(const Expr& a, const Expr& b) { return extreme(Kind::kMax, a, b); }

bool operator==(const Expr& a, const Expr& b) {
  if (!a.data_ || !b.data_) return !a.data_ && !b.data_ && a.value_ == b.value_;
  return compare(a, b) == 0;
}

bool operator<(const Expr& a, const Expr& b) { return compare(a, b) < 0; }

Expr::Kind Expr::kind() const {
  if (!data_) return Kind::kConstant;
  if (data_->kind == Kind::kAdd && data_->terms.size() == 1) return Kind::kMul;
  return data_->kind;
}

std::vector<Expr> Expr::operands() const {
  std::vector<Expr> out;
  switch (kind()) {
    case Kind::kConstant:
    case Kind::kSymbol:
      break;
    case Kind::kAdd:
      for (const Term& term : data_->terms) out.push_back(term_value(term));
      break;
    case Kind::kMul: {
      const Term& term = data_->terms[0];
      if (term.coefficient != 1) out.push_back(term.coefficient);
      for (const DataPtr& factor : term.factors) out.push_back(Expr(factor));
      break;
    }
    case Kind::kFloorDiv:
    case Kind::kMod:
      out = data_->operands;
      break;
    case Kind::kMin:
    case Kind::kMax: {
      const std::vector<Expr>& all = data_->operands;
      const std::vector<Expr> rest(all.begin() + 1, all.end());
      out = {all[0], rest.size() == 1 ? rest[0] : atom(data_->kind, rest)};
      break;
    }
  }
  return out;
}

const std::string& Expr::symbol_name() const {
  TW_CHECK(is_symbol()) << "symbol_name of " << str();
  return data_->name;
}

Expr ceildiv(const Expr& a, const Expr& b) { return floordiv(a + b - 1, b); }

Expr product(const std::vector<Expr>& factors) {
  Expr out = 1;
  for (const Expr& factor : factors) out = out * factor;
  return out;
}

std::ostream& operator<<(std::ostream& out, const Expr& e) { return out << e.str(); }

}  // namespace tilewright
