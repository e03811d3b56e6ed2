#include "schedule/index_space.h"

#include <algorithm>
#include <numeric>

#include "support/error.h"

namespace tilewright {

// Friends of Expr, named here since members of the same name hide them.
Expr mod(const Expr& a, const Expr& b);

namespace {

int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t r = a % b;
  return r < 0 ? r + b : r;
}

// term / d where the division is exact for the polynomial.
std::optional<Expr> divide_exactly(const Expr& term, const Expr& d) {
  if (d.is_constant(1)) return term;
  if (auto c = d.constant()) {
    if (*c == 0) return std::nullopt;
    const int64_t factor = constant_factor(term);
    if (factor % *c != 0) return std::nullopt;
    Expr result = factor / *c;
    for (const Expr& f : product_factors(term)) {
      if (!f.constant()) result = result * f;
    }
    return result;
  }
  std::vector<Expr> left = product_factors(term);
  int64_t number = 1;
  for (const Expr& f : left) {
    if (auto c = f.constant()) number *= *c;
  }
  for (const Expr& f : product_factors(d)) {
    if (auto c = f.constant()) {
      if (number % *c != 0) return std::nullopt;
      number /= *c;
      continue;
    }
    auto it = std::find(left.begin(), left.end(), f);
    if (it == left.end()) return std::nullopt;
    left.erase(it);
  }
  Expr result = number;
  for (const Expr& f : left) {
    if (!f.constant()) result = result * f;
  }
  return result;
}

// The constant term of a sum.
int64_t constant_term(const Expr& e) {
  for (const Expr& t : sum_terms(e)) {
    if (auto c = t.constant()) return *c;
  }
  return 0;
}

}  // namespace

std::vector<Expr> sum_terms(const Expr& e) {
  if (e.kind() == Expr::Kind::kAdd) return e.operands();
  return {e};
}

std::vector<Expr> product_factors(const Expr& e) {
  if (e.kind() == Expr::Kind::kMul) return e.operands();
  return {e};
}

int64_t constant_factor(const Expr& term) {
  int64_t factor = 1;
  for (const Expr& f : product_factors(term)) {
    if (auto c = f.constant()) factor *= *c;
  }
  return factor;
}

Expr IndexSpace::add_axis(const Expr& size, int64_t divisor) {
  Symbol symbol;
  symbol.name = "@" + std::to_string(table_.symbols().size());
  symbol.divisor = divisor;
  const Range range = table_.range(size);
  symbol.upper = range.upper == kNoUpperBound ? kNoUpperBound : std::max<int64_t>(range.upper - 1, 0);
  table_.add(symbol);
  sizes_.emplace(symbol.name, size);
  return Expr::symbol(symbol.name);
}

bool IndexSpace::depends_on(const Expr& e, const std::string& axis) const {
  if (e.is_symbol()) return e.symbol_name() == axis;
  if (e.constant()) return false;
  for (const Expr& operand : e.operands()) {
    if (depends_on(operand, axis)) return true;
  }
  return false;
}

std::optional<Expr> IndexSpace::coefficient(const Expr& e, const std::string& axis) const {
  Expr sum = 0;
  const Expr symbol = Expr::symbol(axis);
  for (const Expr& term : sum_terms(e)) {
    if (!depends_on(term, axis)) continue;
    auto c = divide_exactly(term, symbol);
    if (!c || depends_on(*c, axis)) return std::nullopt;
    sum = sum + *c;
  }
  return sum;
}

// An upper bound of a factor that is not negative; nothing where it may be negative or is not understood.
std::optional<Expr> IndexSpace::largest_factor(const Expr& f) const {
  switch (f.kind()) {
    case Expr::Kind::kConstant:
      return f;
    case Expr::Kind::kSymbol:
      if (is_axis(f.symbol_name())) return size(f.symbol_name()) - 1;
      return table_.range(f).lower >= 0 ? std::optional(f) : std::nullopt;
    case Expr::Kind::kMod:
      return f.operands()[1] - 1;
    case Expr::Kind::kFloorDiv: {
      const Expr numerator = f.operands()[0], divisor = f.operands()[1];
      auto most = largest(numerator);
      if (!most || !not_negative(numerator)) return std::nullopt;
      return divisor.constant() ? floordiv(*most, divisor) : *most;
    }
    default:
      return std::nullopt;
  }
}

// An upper bound: each term that grows with an axis is taken at the axis's end, each that falls at its start.
std::optional<Expr> IndexSpace::largest(const Expr& e) const {
  Expr sum = 0;
  for (const Expr& term : sum_terms(e)) {
    Expr most = constant_factor(term);
    bool varies = false;
    for (const Expr& f : product_factors(term)) {
      if (f.constant()) continue;
      auto bound = largest_factor(f);
      if (!bound) return std::nullopt;
      varies = varies || *bound != f;
      most = most * *bound;
    }
    if (!varies) {
      sum = sum + term;
    } else if (constant_factor(term) >= 0) {
      sum = sum + most;
    }  // a falling term is at most 0, since its factors are not negative
  }
  return sum;
}

bool IndexSpace::below(const Expr& e, const Expr& bound) const {
  if (auto c = e.constant()) return table_.range(bound).lower > *c;
  auto most = largest(e);
  return most && table_.range(bound - 1 - *most).lower >= 0;
}

// a == b * quotient + rest, with the terms of `rest` that b does not divide.
IndexSpace::Split IndexSpace::split(const Expr& a, const Expr& b) const {
  Split s{0, 0};
  for (const Expr& term : sum_terms(a)) {
    if (auto q = divide_exactly(term, b)) {
      s.quotient = s.quotient + *q;
    } else {
      s.rest = s.rest + term;
    }
  }
  if (sum_terms(b).size() < 2) return s;
  // A divisor such as s0 + 1 comes back spread over the terms of an axis: a*s0 + a.
  for (const auto& [axis, size] : sizes_) {
    auto c = coefficient(s.rest, axis);
    if (!c || c->is_constant(0)) continue;
    auto q = divide_exactly(*c, b);
    if (!q && *c == b) q = Expr(1);
    if (!q) continue;
    s.quotient = s.quotient + *q * Expr::symbol(axis);
    s.rest = s.rest - *c * Expr::symbol(axis);
  }
  return s;
}

Expr IndexSpace::div(const Expr& a, const Expr& b) const {
  if (b.is_constant(1)) return a;
  if (b.is_constant(0)) return 0;  // nothing is iterated
  auto [quotient, rest] = split(a, b);
  if (rest.is_constant(0)) return quotient;
  if (not_negative(rest) && below(rest, b)) return quotient;
  if (rest.kind() == Expr::Kind::kFloorDiv) return quotient + div(rest.operands()[0], rest.operands()[1] * b);
  // The part of the constant below what divides everything else never carries.
  const int64_t constant = constant_term(rest);
  const Expr variable = rest - constant;
  const int64_t g = std::gcd(table_.divisor(variable), table_.divisor(b));
  if (g > 1) rest = variable + (constant - floor_mod(constant, g));
  if (rest.is_constant(0)) return quotient;
  if (g > 1 && b.constant()) {
    const Expr shrunk_b = *b.constant() / g;
    bool exact = true;
    Expr shrunk = 0;
    for (const Expr& term : sum_terms(rest)) {
      auto q = divide_exactly(term, g);
      exact = exact && q.has_value();
      if (q) shrunk = shrunk + *q;
    }
    if (exact) return quotient + div(shrunk, shrunk_b);
  }
  return quotient + floordiv(rest, b);
}

Expr IndexSpace::mod(const Expr& a, const Expr& b) const {
  if (b.is_constant(1) || b.is_constant(0)) return 0;
  Expr rest = split(a, b).rest;
  if (rest.is_constant(0)) return 0;
  if (not_negative(rest) && below(rest, b)) return rest;
  const int64_t constant = constant_term(rest);
  const Expr variable = rest - constant;
  const int64_t g = std::gcd(table_.divisor(variable), table_.divisor(b));
  if (g <= 1) return tilewright::mod(rest, b);
  const int64_t residue = floor_mod(constant, g);
  return tilewright::mod(rest - residue, b) + residue;
}

namespace {

// c * mod(y, b) + c * b * floordiv(y, b) == c * y, where y may itself be floordiv(x, a).
std::optional<Expr> recombine_once(const IndexSpace& space, const Expr& e) {
  const std::vector<Expr> terms = sum_terms(e);
  for (const Expr& term : terms) {
    const std::vector<Expr> factors = product_factors(term);
    for (size_t m = 0; m < factors.size(); ++m) {
      if (factors[m].kind() != Expr::Kind::kMod) continue;
      Expr c = 1;
      for (size_t f = 0; f < factors.size(); ++f) c = f == m ? c : c * factors[f];
      const Expr y = factors[m].operands()[0], b = factors[m].operands()[1];
      const Expr partner = c * b * space.div(y, b);
      if (std::find(terms.begin(), terms.end(), partner) != terms.end()) return e - term - partner + c * y;
    }
  }
  return std::nullopt;
}

}  // namespace

Expr IndexSpace::recombine(const Expr& e) const {
  Expr result = e;
  while (auto simpler = recombine_once(*this, result)) result = *simpler;
  return result;
}

Expr IndexSpace::rewrite(const Expr& e, const std::map<std::string, Expr>& values) const {
  switch (e.kind()) {
    case Expr::Kind::kConstant:
      return e;
    case Expr::Kind::kSymbol: {
      auto it = values.find(e.symbol_name());
      return it == values.end() ? e : it->second;
    }
    default:
      break;
  }
  std::vector<Expr> operands = e.operands();
  for (Expr& operand : operands) operand = rewrite(operand, values);
  switch (e.kind()) {
    case Expr::Kind::kAdd: {
      Expr sum = 0;
      for (const Expr& operand : operands) sum = sum + operand;
      return sum;
    }
    case Expr::Kind::kMul:
      return product(operands);
    case Expr::Kind::kFloorDiv:
      return div(operands[0], operands[1]);
    case Expr::Kind::kMod:
      return mod(operands[0], operands[1]);
    case Expr::Kind::kMin:
    case Expr::Kind::kMax: {
      Expr result = operands[0];
      for (size_t i = 1; i < operands.size(); ++i) {
        result = e.kind() == Expr::Kind::kMin ? min(result, operands[i]) : max(result, operands[i]);
      }
      return result;
    }
    default:
      throw InternalError("rewrite: unknown kind of expression " + e.str());
  }
}

Expr linearize(const std::vector<Expr>& coords, const std::vector<Expr>& shape) {
  TW_CHECK(coords.size() == shape.size()) << coords.size() << " coordinates for rank " << shape.size();
  Expr index = 0;
  for (size_t d = 0; d < shape.size(); ++d) index = index * shape[d] + coords[d];
  return index;
}

std::vector<Expr> delinearize(const IndexSpace& space, const Expr& index, const std::vector<Expr>& shape) {
  std::vector<Expr> coords(shape.size(), 0);
  Expr rest = index;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d].is_constant(1)) continue;
    const bool outermost =
        std::all_of(shape.begin(), shape.begin() + d, [](const Expr& s) { return s.is_constant(1); });
    if (outermost) {
      coords[d] = rest;
      break;
    }
    coords[d] = space.mod(rest, shape[d]);
    rest = space.div(rest, shape[d]);
  }
  return coords;
}

std::vector<Expr> reshape_coords(const IndexSpace& space, const std::vector<Expr>& coords,
                                 const std::vector<Expr>& from, const std::vector<Expr>& to) {
  std::vector<Expr> result;
  size_t i = 0, j = 0;
  while (j < to.size() || i < from.size()) {
    // The shortest runs from[i, i_end) and to[j, j_end) with equal products.
    size_t i_end = i, j_end = j;
    Expr from_size = 1, to_size = 1;
    bool closed = false;
    if (i < from.size() && j < to.size()) {
      from_size = from[i_end++];
      to_size = to[j_end++];
      // Grow the shorter side, the one that lacks factors; symbolic products are compared by divisibility.
      while (!(closed = from_size == to_size)) {
        const bool from_divides = divide_exactly(to_size, from_size).has_value();
        const bool to_divides = divide_exactly(from_size, to_size).has_value();
        const auto from_constant = from_size.constant(), to_constant = to_size.constant();
        bool grow_from = from_divides && !to_divides;
        if (!from_divides && !to_divides && from_constant && to_constant) grow_from = *from_constant < *to_constant;
        if (!from_divides && !to_divides && !(from_constant && to_constant)) {
          grow_from = space.table().hint(from_size) < space.table().hint(to_size);
        }
        if (grow_from && i_end < from.size()) {
          from_size = from_size * from[i_end++];
        } else if (!grow_from && j_end < to.size()) {
          to_size = to_size * to[j_end++];
        } else {
          break;
        }
      }
    }
    if (!closed) {  // what is left belongs together
      i_end = from.size();
      j_end = to.size();
    }
    const std::vector<Expr> run_coords(coords.begin() + i, coords.begin() + i_end);
    const std::vector<Expr> run_from(from.begin() + i, from.begin() + i_end);
    const std::vector<Expr> run_to(to.begin() + j, to.begin() + j_end);
    if (run_from == run_to) {
      result.insert(result.end(), run_coords.begin(), run_coords.end());
    } else {
      const std::vector<Expr> run = delinearize(space, space.recombine(linearize(run_coords, run_from)), run_to);
      result.insert(result.end(), run.begin(), run.end());
    }
    i = i_end;
    j = j_end;
  }
  return result;
}

}  // namespace tilewright
