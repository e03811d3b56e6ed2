#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

// Integer expressions over the sizes of a graph, kept in one canonical form so that `==` decides equality of
// polynomials and of equal floordiv/mod/min/max atoms.
//
//   (s0 + 1) * 2   ==   2 + 2*s0          floordiv(s0*6, 3)  ==  2*s0
//
// Expressions are immutable values, cheap to copy. Arithmetic that overflows int64 throws UserError.
class Expr {
 public:
  Expr(int64_t value = 0) : value_(value) {}  // NOLINT: an integer is an expression
  static Expr symbol(std::string name);

  std::optional<int64_t> constant() const;
  bool is_constant(int64_t value) const;
  bool is_symbol() const;
  // Names of the symbols it depends on, sorted, each once.
  std::vector<std::string> symbols() const;

  // Throws InternalError where a symbol has no value.
  int64_t evaluate(const std::map<std::string, int64_t>& values) const;
  Expr substitute(const std::map<std::string, Expr>& values) const;

  std::string str() const;

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  friend Expr floordiv(const Expr& a, const Expr& b);  // rounds towards minus infinity
  friend Expr mod(const Expr& a, const Expr& b);       // has the sign of b
  friend Expr min(const Expr& a, const Expr& b);
  friend Expr max(const Expr& a, const Expr& b);
  friend bool operator==(const Expr& a, const Expr& b);
  friend bool operator!=(const Expr& a, const Expr& b) { return !(a == b); }
  friend bool operator<(const Expr& a, const Expr& b);  // a total order for containers, not a comparison of values
  friend std::ostream& operator<<(std::ostream& out, const Expr& e);

  // One node of the canonical tree, for the code generator and the analyses. A sum or product has two or more operands
  // (of a product with a coefficient the first is that constant), floordiv, mod, min and max have two.
  enum class Kind : uint8_t { kConstant, kSymbol, kAdd, kMul, kFloorDiv, kMod, kMin, kMax };
  Kind kind() const;
  std::vector<Expr> operands() const;
  const std::string& symbol_name() const;

  struct Data;  // symbolic/expr_data.h

 private:
  friend struct ExprAccess;
  explicit Expr(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  // A constant is its value alone, without an allocation; else data_ is set and value_ is 0.
  int64_t value_ = 0;
  std::shared_ptr<const Data> data_;
};

Expr ceildiv(const Expr& a, const Expr& b);  // for b > 0
// Product of all; 1 for an empty list.
Expr product(const std::vector<Expr>& factors);
// Reads the text form; throws UserError with the column.
Expr parse_expr(std::string_view text);
class Reader;
Expr read_expr(Reader& reader);

inline constexpr int64_t kNoUpperBound = INT64_MAX;

// What is known of a symbol: where its value comes from is the graph's matter.
struct Symbol {
  std::string name;
  int64_t hint = 0;  // value in the example inputs; times are evaluated at it
  int64_t lower = 0;
  int64_t upper = kNoUpperBound;
  int64_t divisor = 1;  // every value is a multiple of it
  bool unbacked = false;
  friend bool operator==(const Symbol&, const Symbol&) = default;
};

struct Range {
  int64_t lower, upper;  // inclusive; saturated at the int64 limits
};

class SymbolTable {
 public:
  void add(Symbol symbol);  // its name must be new
  const Symbol* find(std::string_view name) const;
  Symbol* find(std::string_view name);
  const std::vector<Symbol>& symbols() const { return symbols_; }

  Range range(const Expr& e) const;
  // Greatest d found with d | e for all values; 0 for the constant 0.
  int64_t divisor(const Expr& e) const;
  bool is_divisible(const Expr& e, int64_t by) const;
  int64_t hint(const Expr& e) const;
  // Answers only what holds for all values of the symbols; nothing means unknown.
  std::optional<bool> known_less(const Expr& a, const Expr& b) const;
  std::optional<bool> known_equal(const Expr& a, const Expr& b) const;

 private:
  std::vector<Symbol> symbols_;
};

}  // namespace tilewright
