#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "symbolic/expr.h"

namespace tilewright {

// Index arithmetic over iteration axes: an axis is a symbol with 0 <= axis < size, where the size may itself be
// symbolic. Index maps of views become expressions over axes; what the ranges of the axes prove is simplified away:
//
//   axes a < s0, b < 64:   div(a*64 + b, 64) == a      mod(a*64 + b, 64) == b
//
// so that a reshape there and back is the identity, and a vector of elements along an axis is recognised as contiguous.
class IndexSpace {
 public:
  explicit IndexSpace(const SymbolTable& symbols) : table_(symbols) {}

  // A new axis, all of whose values are multiples of `divisor`; its expression. Axis names cannot be written in Graph
  // IR, so they never meet a symbol of the graph.
  Expr add_axis(const Expr& size, int64_t divisor = 1);
  bool is_axis(const std::string& symbol) const { return sizes_.count(symbol) != 0; }
  const Expr& size(const std::string& axis) const { return sizes_.at(axis); }
  const SymbolTable& table() const { return table_; }

  // floordiv and modulus for b > 0.
  Expr div(const Expr& a, const Expr& b) const;
  Expr mod(const Expr& a, const Expr& b) const;
  // Puts quotients and remainders of one value back together: 8*floordiv(x, 8) + mod(x, 8) == x.
  Expr recombine(const Expr& e) const;
  // Replaces axes, simplifying what the new expressions allow.
  Expr rewrite(const Expr& e, const std::map<std::string, Expr>& values) const;

  bool depends_on(const Expr& e, const std::string& axis) const;
  // The factor c of `axis` where e == c * axis + (terms without it); nothing when e depends on it otherwise.
  std::optional<Expr> coefficient(const Expr& e, const std::string& axis) const;
  // Proven for all values of axes and symbols.
  bool not_negative(const Expr& e) const { return table_.range(e).lower >= 0; }
  bool below(const Expr& e, const Expr& bound) const;

 private:
  std::optional<Expr> largest_factor(const Expr& f) const;
  std::optional<Expr> largest(const Expr& e) const;
  struct Split {
    Expr quotient, rest;
  };
  Split split(const Expr& a, const Expr& b) const;

  SymbolTable table_;
  std::map<std::string, Expr> sizes_;
};

// Terms of a sum, factors of a product, the constant factor of a term.
std::vector<Expr> sum_terms(const Expr& e);
std::vector<Expr> product_factors(const Expr& e);
int64_t constant_factor(const Expr& term);

// Row-major index of `coords` in `shape`, and back.
Expr linearize(const std::vector<Expr>& coords, const std::vector<Expr>& shape);
std::vector<Expr> delinearize(const IndexSpace& space, const Expr& index, const std::vector<Expr>& shape);
// Coordinates in `to` of the element at `coords` in `from`; both shapes have the same number of elements. Runs of
// dimensions whose products agree are mapped by themselves, so that symbolic sizes need few divisions.
std::vector<Expr> reshape_coords(const IndexSpace& space, const std::vector<Expr>& coords,
                                 const std::vector<Expr>& from, const std::vector<Expr>& to);

}  // namespace tilewright
