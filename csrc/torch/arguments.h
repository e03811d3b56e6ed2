#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Device.h>

#include <span>
#include <string>
#include <vector>

#include "runtime/plan.h"
#include "runtime/sizes.h"

namespace tilewright {

// Makes one argument of an operator's boxed call: a literal is converted to the schema's type once, when the plan is
// prepared; values and size expressions are read at each call.
class ArgumentMaker {
 public:
  // `where` names the operator and argument for errors.
  ArgumentMaker(const PlanArg& arg, const c10::TypePtr& type, const SymbolIndex& symbols, c10::Device target,
                std::string where);
  explicit ArgumentMaker(c10::IValue constant);

  c10::IValue make(std::span<const c10::IValue> slots, std::span<const int64_t> symbols) const {
    return kind_ == Kind::kConstant ? constant_ : make_now(slots, symbols);
  }
  bool is_constant() const { return kind_ == Kind::kConstant; }

 private:
  enum class Kind : uint8_t { kConstant, kSlot, kSize, kList };
  c10::IValue make_now(std::span<const c10::IValue> slots, std::span<const int64_t> symbols) const;
  void prepare(const PlanArg& arg, const SymbolIndex& symbols, c10::Device target);
  void prepare_list(const PlanArg::List& list, const SymbolIndex& symbols, c10::Device target);
  c10::IValue convert(const c10::IValue& value) const;
  c10::IValue convert_list(std::vector<c10::IValue> elements) const;

  Kind kind_ = Kind::kConstant;
  c10::TypePtr type_;     // never an optional
  c10::IValue none_;      // what None means: an undefined tensor where the schema wants a tensor
  c10::TypePtr element_;  // of a list type
  std::string where_;
  c10::IValue constant_;
  Slot slot_ = kNoSlot;
  SizeProgram size_;
  std::vector<ArgumentMaker> elements_;
};

}  // namespace tilewright
