// What is known of expressions from the ranges and divisors of their symbols: interval arithmetic, saturated at the
// limits of int64, which stand for "no bound".
#include <algorithm>
#include <numeric>

#include "support/error.h"
#include "symbolic/expr_data.h"

namespace tilewright {
namespace {

using Kind = Expr::Kind;
constexpr int64_t kNoLower = INT64_MIN, kNoUpper = kNoUpperBound;

int64_t saturated(__int128 value) {
  if (value >= kNoUpper) return kNoUpper;
  if (value <= kNoLower) return kNoLower;
  return static_cast<int64_t>(value);
}

int64_t add_lower(int64_t a, int64_t b) {
  return a == kNoLower || b == kNoLower   ? kNoLower
         : a == kNoUpper || b == kNoUpper ? kNoUpper
                                          : saturated(static_cast<__int128>(a) + b);
}
int64_t add_upper(int64_t a, int64_t b) {
  return a == kNoUpper || b == kNoUpper   ? kNoUpper
         : a == kNoLower || b == kNoLower ? kNoLower
                                          : saturated(static_cast<__int128>(a) + b);
}

bool is_limit(int64_t value) { return value == kNoLower || value == kNoUpper; }

int64_t multiply(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (is_limit(a) || is_limit(b)) return (a < 0) == (b < 0) ? kNoUpper : kNoLower;
  return saturated(static_cast<__int128>(a) * b);
}

Range times(const Range& a, const Range& b) {
  const int64_t corners[] = {multiply(a.lower, b.lower), multiply(a.lower, b.upper), multiply(a.upper, b.lower),
                             multiply(a.upper, b.upper)};
  return {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4)};
}

// floor(a / b) for b >= 1, limits included.
int64_t divide(int64_t a, int64_t b) {
  if (b == kNoUpper) return a < 0 ? -1 : 0;
  return is_limit(a) ? a : floor_quotient(a, b);
}

Range floordiv_range(const Range& a, Range b) {
  if (b.upper < 1 || b.lower < 0) return {kNoLower, kNoUpper};
  b.lower = std::max<int64_t>(b.lower, 1);  // zero divides nothing
  return {divide(a.lower, a.lower < 0 ? b.lower : b.upper), divide(a.upper, a.upper < 0 ? b.upper : b.lower)};
}

Range mod_range(const Range& a, const Range& b) {
  if (b.upper < 1 || b.lower < 0) return {kNoLower, kNoUpper};
  if (a.lower >= 0 && a.upper < b.lower) return a;
  const int64_t upper = b.upper == kNoUpper ? kNoUpper : b.upper - 1;
  return {0, a.lower >= 0 ? std::min(a.upper, upper) : upper};
}

Range atom_range(const SymbolTable& table, const Expr::Data& data) {
  if (data.kind == Kind::kSymbol) {
    const Symbol* symbol = table.find(data.name);
    return symbol ? Range{symbol->lower, symbol->upper} : Range{kNoLower, kNoUpper};
  }
  Range out = table.range(data.operands[0]);
  for (size_t i = 1; i < data.operands.size(); ++i) {
    const Range next = table.range(data.operands[i]);
    switch (data.kind) {
      case Kind::kFloorDiv:
        out = floordiv_range(out, next);
        break;
      case Kind::kMod:
        out = mod_range(out, next);
        break;
      case Kind::kMin:
        out = {std::min(out.lower, next.lower), std::min(out.upper, next.upper)};
        break;
      default:
        out = {std::max(out.lower, next.lower), std::max(out.upper, next.upper)};
        break;
    }
  }
  return out;
}

int64_t saturated_gcd_product(int64_t a, int64_t b) {
  int64_t out = 0;
  // A divisor too large for int64 is still a multiple of either part.
  return __builtin_mul_overflow(a, b, &out) ? a : out;
}

int64_t atom_divisor(const SymbolTable& table, const Expr::Data& data) {
  if (data.kind == Kind::kSymbol) {
    const Symbol* symbol = table.find(data.name);
    return symbol ? std::max<int64_t>(symbol->divisor, 1) : 1;
  }
  const int64_t first = table.divisor(data.operands[0]);
  if (data.kind == Kind::kFloorDiv) {
    const auto by = data.operands[1].constant();
    return by && *by > 0 && first % *by == 0 && first != 0 ? first / *by : 1;
  }
  int64_t out = first;
  for (size_t i = 1; i < data.operands.size(); ++i) out = std::gcd(out, table.divisor(data.operands[i]));
  return out;
}

}  // namespace

void SymbolTable::add(Symbol symbol) {
  TW_CHECK(find(symbol.name) == nullptr) << "symbol " << symbol.name << " is there already";
  symbols_.push_back(std::move(symbol));
}

const Symbol* SymbolTable::find(std::string_view name) const {
  const auto it = std::find_if(symbols_.begin(), symbols_.end(), [&](const Symbol& s) { return s.name == name; });
  return it == symbols_.end() ? nullptr : &*it;
}

Symbol* SymbolTable::find(std::string_view name) {
  return const_cast<Symbol*>(static_cast<const SymbolTable*>(this)->find(name));
}

Range SymbolTable::range(const Expr& e) const {
  if (const auto value = e.constant()) return {*value, *value};
  Range sum{0, 0};
  for (const Term& term : terms_of(e)) {
    Range value{term.coefficient, term.coefficient};
    for (const DataPtr& factor : term.factors) value = times(value, atom_range(*this, *factor));
    sum = {add_lower(sum.lower, value.lower), add_upper(sum.upper, value.upper)};
  }
  return sum;
}

int64_t SymbolTable::divisor(const Expr& e) const {
  int64_t out = 0;
  for (const Term& term : terms_of(e)) {
    int64_t value = term.coefficient < 0 ? -term.coefficient : term.coefficient;
    for (const DataPtr& factor : term.factors) value = saturated_gcd_product(value, atom_divisor(*this, *factor));
    out = std::gcd(out, value);
  }
  return out;
}

bool SymbolTable::is_divisible(const Expr& e, int64_t by) const {
  TW_CHECK(by != 0) << "divisible by 0";
  return divisor(e) % by == 0;
}

int64_t SymbolTable::hint(const Expr& e) const {
  return evaluate_with(e, [&](const std::string& name) {
    const Symbol* symbol = find(name);
    TW_CHECK(symbol) << "unknown symbol " << name << " in " << e;
    return symbol->hint;
  });
}

std::optional<bool> SymbolTable::known_less(const Expr& a, const Expr& b) const {
  const Range difference = range(b - a);
  if (difference.lower > 0) return true;
  if (difference.upper <= 0) return false;
  return std::nullopt;
}

std::optional<bool> SymbolTable::known_equal(const Expr& a, const Expr& b) const {
  const Expr difference = a - b;
  if (difference.is_constant(0)) return true;
  const Range bounds = range(difference);
  if (bounds.lower == 0 && bounds.upper == 0) return true;
  if (bounds.lower > 0 || bounds.upper < 0) return false;
  // 4*s0 - 2 is never 0, since 4 divides 4*s0 and not 2.
  Expr without_constant = 0;
  int64_t constant = 0;
  for (const Term& term : terms_of(difference)) {
    if (term.factors.empty())
      constant = term.coefficient;
    else
      without_constant = without_constant + term_value(term);
  }
  if (constant % std::max<int64_t>(divisor(without_constant), 1) != 0) return false;
  return std::nullopt;
}

}  // namespace tilewright
