#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "symbolic/expr.h"

namespace tilewright {

// Numbers the symbols of a plan or of a kernel's body, so that a run keeps their values in an array.
class SymbolIndex {
 public:
  SymbolIndex() = default;
  explicit SymbolIndex(std::vector<std::string> names);

  int add(const std::string& name);       // the number it has, or the next
  int find(std::string_view name) const;  // -1: absent
  int size() const { return static_cast<int>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::map<std::string, int, std::less<>> numbers_;
};

// A size expression made ready to be evaluated at every call: constants and plain symbols cost a load, the rest runs on
// a small stack. Throws InternalError for a symbol without a number.
class SizeProgram {
 public:
  SizeProgram() = default;  // 0
  SizeProgram(const Expr& e, const SymbolIndex& index);

  int64_t operator()(std::span<const int64_t> symbols) const {
    if (symbol_ < 0 && steps_.empty()) return constant_;
    if (steps_.empty()) return symbols[symbol_];
    return run(symbols);
  }
  bool is_constant() const { return symbol_ < 0 && steps_.empty(); }

 private:
  struct Step {
    Expr::Kind kind;  // kConstant and kSymbol push `value`; the others combine the topmost two
    int64_t value;
  };
  void emit(const Expr& e, const SymbolIndex& index);
  int64_t run(std::span<const int64_t> symbols) const;

  int64_t constant_ = 0;
  int symbol_ = -1;
  std::vector<Step> steps_;
  int depth_ = 0;
};

std::vector<SizeProgram> size_programs(const std::vector<Expr>& expressions, const SymbolIndex& index);

}  // namespace tilewright
