#include "runtime/sizes.h"

#include <algorithm>
#include <array>

#include "support/error.h"

namespace tilewright {

SymbolIndex::SymbolIndex(std::vector<std::string> names) {
  for (std::string& name : names) add(name);
}

int SymbolIndex::add(const std::string& name) {
  const auto [it, is_new] = numbers_.emplace(name, size());
  if (is_new) names_.push_back(name);
  return it->second;
}

int SymbolIndex::find(std::string_view name) const {
  const auto it = numbers_.find(name);
  return it == numbers_.end() ? -1 : it->second;
}

SizeProgram::SizeProgram(const Expr& e, const SymbolIndex& index) {
  if (const std::optional<int64_t> value = e.constant()) {
    constant_ = *value;
    return;
  }
  if (e.is_symbol()) {
    symbol_ = index.find(e.symbol_name());
    TW_CHECK(symbol_ >= 0) << "symbol " << e.symbol_name() << " has no source";
    return;
  }
  emit(e, index);
  int depth = 0;
  for (const Step& step : steps_) {
    const bool is_push = step.kind == Expr::Kind::kConstant || step.kind == Expr::Kind::kSymbol;
    depth += is_push ? 1 : -1;
    depth_ = std::max(depth_, depth);
  }
}

void SizeProgram::emit(const Expr& e, const SymbolIndex& index) {
  if (const std::optional<int64_t> value = e.constant()) {
    steps_.push_back({Expr::Kind::kConstant, *value});
    return;
  }
  if (e.is_symbol()) {
    const int number = index.find(e.symbol_name());
    TW_CHECK(number >= 0) << "symbol " << e.symbol_name() << " has no source";
    steps_.push_back({Expr::Kind::kSymbol, number});
    return;
  }
  const std::vector<Expr> operands = e.operands();
  for (size_t i = 0; i < operands.size(); ++i) {
    emit(operands[i], index);
    if (i > 0) steps_.push_back({e.kind(), 0});
  }
}

namespace {

int64_t apply(Expr::Kind kind, int64_t a, int64_t b) {
  switch (kind) {
    case Expr::Kind::kAdd:
      return a + b;
    case Expr::Kind::kMul:
      return a * b;
    case Expr::Kind::kFloorDiv:
      if (b == 0) throw UserError("a size is divided by zero");
      return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
    case Expr::Kind::kMod: {
      if (b == 0) throw UserError("a size is divided by zero");
      const int64_t r = a % b;
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    case Expr::Kind::kMin:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

}  // namespace

int64_t SizeProgram::run(std::span<const int64_t> symbols) const {
  constexpr int kInline = 16;
  std::array<int64_t, kInline> small;
  std::vector<int64_t> large(depth_ > kInline ? depth_ : 0);
  int64_t* stack = large.empty() ? small.data() : large.data();
  int top = 0;
  for (const Step& step : steps_) {
    if (step.kind == Expr::Kind::kConstant) {
      stack[top++] = step.value;
    } else if (step.kind == Expr::Kind::kSymbol) {
      stack[top++] = symbols[step.value];
    } else {
      --top;
      stack[top - 1] = apply(step.kind, stack[top - 1], stack[top]);
    }
  }
  return stack[0];
}

std::vector<SizeProgram> size_programs(const std::vector<Expr>& expressions, const SymbolIndex& index) {
  std::vector<SizeProgram> programs;
  programs.reserve(expressions.size());
  for (const Expr& e : expressions) programs.emplace_back(e, index);
  return programs;
}

}  // namespace tilewright
