#include "codegen/reducers.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include "codegen/scalar_ops.h"
#include "schedule/reduction.h"
#include "support/error.h"

namespace tilewright {

Reducer::Reducer(KernelBuilder& k, const ElementProgram& program, const ProgramReduction& reduction)
    : k_(k),
      p_(program),
      r_(reduction),
      compute_(compute_type(program.steps[reduction.operand].dtype)),
      parts_(state_types(reduction, program)) {}

bool Reducer::needs_position() const { return r_.node->op == Op::kArgmax || r_.node->op == Op::kArgmin; }
bool Reducer::is_welford() const { return r_.node->op == Op::kWelford; }

Reg Reducer::zero() const { return llvm::Constant::getNullValue(k_.element_type(parts_[0])); }

// What every element beats.
Reg Reducer::worst(bool is_max) const {
  llvm::Type* type = k_.element_type(compute_);
  if (is_float(compute_)) return llvm::ConstantFP::getInfinity(type, /*Negative=*/is_max);
  const unsigned bits = type->getIntegerBitWidth();
  const bool sign = is_signed(compute_);
  const llvm::APInt value = is_max ? (sign ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getMinValue(bits))
                                   : (sign ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits));
  return llvm::ConstantInt::get(type, value);
}

Regs Reducer::identity() const {
  llvm::IRBuilder<>& ir = k_.ir();
  if (p_.is_online(r_)) return {worst(true), zero()};
  switch (r_.node->op) {
    case Op::kSum:
    case Op::kMean:
      // -0 + x is x for every x, but a sum of nothing is +0.
      return {zero()};
    case Op::kProd:
      return {is_float(parts_[0]) ? llvm::cast<llvm::Value>(llvm::ConstantFP::get(k_.element_type(parts_[0]), 1))
                                  : llvm::cast<llvm::Value>(ir.getInt64(1))};
    case Op::kMax:
      return {worst(true)};
    case Op::kMin:
      return {worst(false)};
    case Op::kAny:
      return {ir.getFalse()};
    case Op::kAll:
      return {ir.getTrue()};
    case Op::kArgmax:
      return {worst(true), ir.getInt64(INT64_MAX)};
    case Op::kArgmin:
      return {worst(false), ir.getInt64(INT64_MAX)};
    case Op::kWelford:
      return {zero(), zero(), zero()};
    default:
      throw InternalError(std::string("no reducer for ") + r_.node->info().text);
  }
}

Regs Reducer::of_element(Reg value, Reg position) const {
  if (needs_position()) return {value, k_.ir().CreateSExt(position, k_.ir().getInt64Ty())};
  if (is_welford()) return {value, zero(), llvm::ConstantFP::get(k_.element_type(compute_), 1)};
  return {emit_cast(k_, value, compute_, parts_[0])};
}

Reg Reducer::join_one(Reg a, Reg b) const {
  llvm::IRBuilder<>& ir = k_.ir();
  const bool is_real = is_float(parts_[0]);
  switch (r_.node->op) {
    case Op::kSum:
    case Op::kMean:
      return is_real ? ir.CreateFAdd(a, b) : ir.CreateAdd(a, b);
    case Op::kProd:
      return is_real ? ir.CreateFMul(a, b) : ir.CreateMul(a, b);
    case Op::kMax:
      return emit_extremum(k_, a, b, compute_, true);
    case Op::kMin:
      return emit_extremum(k_, a, b, compute_, false);
    case Op::kAny:
      return ir.CreateOr(a, b);
    case Op::kAll:
      return ir.CreateAnd(a, b);
    default:
      throw InternalError(std::string("no reducer for ") + r_.node->info().text);
  }
}

// The better value, NaN above all; of equals the first.
Regs Reducer::join_best(const Regs& a, const Regs& b) const {
  llvm::IRBuilder<>& ir = k_.ir();
  const bool is_max = r_.node->op == Op::kArgmax;
  Reg better = is_max ? emit_less(k_, a[0], b[0], compute_) : emit_less(k_, b[0], a[0], compute_);
  Reg equal = is_float(compute_) ? ir.CreateFCmpOEQ(a[0], b[0]) : ir.CreateICmpEQ(a[0], b[0]);
  if (is_float(compute_)) {
    const Reg a_nan = ir.CreateFCmpUNO(a[0], a[0]), b_nan = ir.CreateFCmpUNO(b[0], b[0]);
    better = ir.CreateOr(better, ir.CreateAnd(b_nan, ir.CreateNot(a_nan)));
    equal = ir.CreateOr(equal, ir.CreateAnd(a_nan, b_nan));
  }
  const Reg take_b = ir.CreateOr(better, ir.CreateAnd(equal, ir.CreateICmpSLT(b[1], a[1])));
  return {ir.CreateSelect(take_b, b[0], a[0]), ir.CreateSelect(take_b, b[1], a[1])};
}

// Chan's formula, written so that exchanging a and b changes no bit.
Regs Reducer::join_welford(const Regs& a, const Regs& b) const {
  llvm::IRBuilder<>& ir = k_.ir();
  const Reg count = ir.CreateFAdd(a[2], b[2]);
  const Reg one = llvm::ConstantFP::get(count->getType(), 1);
  const Reg scale = ir.CreateFDiv(one, ir.CreateSelect(ir.CreateFCmpOEQ(count, zero()), one, count));
  const Reg mean = ir.CreateFMul(ir.CreateFAdd(ir.CreateFMul(a[0], a[2]), ir.CreateFMul(b[0], b[2])), scale);
  const Reg distance = ir.CreateFSub(b[0], a[0]);
  const Reg between = ir.CreateFMul(ir.CreateFMul(distance, distance), ir.CreateFMul(ir.CreateFMul(a[2], b[2]), scale));
  return {mean, ir.CreateFAdd(ir.CreateFAdd(a[1], b[1]), between), count};
}

// Of x <= 0, for terms relative to a maximum so far, which are no operator's results: off by 2^-24 |x| and the GPU's
// 2^-22, so that a sum of them, in which exp(0) is one, is as exact as a sum of floats in another order.
Reg Reducer::exp(Reg x) const {
  if (!x->getType()->isFloatTy()) return k_.call_libdevice("__nv_exp", x->getType(), {x});
  constexpr double kLog2E = 1.44269504088896340736;
  const Reg scaled = k_.ir().CreateFMul(x, llvm::ConstantFP::get(x->getType(), kLog2E));
  return k_.ir().CreateIntrinsic(llvm::Intrinsic::nvvm_ex2_approx_ftz_f, {}, {scaled});
}

// What to measure from where nothing is above minus infinity.
Reg Reducer::finite_maximum(Reg maximum) const {
  return k_.ir().CreateSelect(k_.ir().CreateFCmpOEQ(maximum, worst(true)), zero(), maximum);
}

Regs Reducer::join_online(const Regs& a, const Regs& b) const {
  llvm::IRBuilder<>& ir = k_.ir();
  const Reg maximum = emit_extremum(k_, a[0], b[0], compute_, true);
  const Reg base = finite_maximum(maximum);
  auto moved = [&](const Regs& s) { return ir.CreateFMul(s[1], exp(ir.CreateFSub(s[0], base))); };
  return {maximum, ir.CreateFAdd(moved(a), moved(b))};
}

// The maximum of all first, so that only what was there before is rescaled.
Regs Reducer::extend_online(const Regs& state, const std::vector<Element>& elements) const {
  llvm::IRBuilder<>& ir = k_.ir();
  Regs values, level;
  for (const Element& e : elements)
    values.push_back(e.present ? ir.CreateSelect(e.present, e.value, worst(true)) : e.value);
  for (level = values; level.size() > 1;) {
    Regs next;
    for (size_t i = 0; i + 1 < level.size(); i += 2)
      next.push_back(emit_extremum(k_, level[i], level[i + 1], compute_, true));
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = std::move(next);
  }
  const Reg maximum = emit_extremum(k_, state[0], level[0], compute_, true);
  const Reg base = finite_maximum(maximum);
  for (Reg& v : values) v = exp(ir.CreateFSub(v, base));
  const Reg before = ir.CreateFMul(state[1], exp(ir.CreateFSub(state[0], base)));
  return {maximum, ir.CreateFAdd(before, tree_sum(k_, values))};
}

Regs Reducer::extend(const Regs& state, const std::vector<Element>& elements) const {
  return p_.is_online(r_) ? extend_online(state, elements) : join(state, of_elements(elements));
}

Regs Reducer::join(const Regs& a, const Regs& b) const {
  if (p_.is_online(r_)) return join_online(a, b);
  if (needs_position()) return join_best(a, b);
  if (is_welford()) return join_welford(a, b);
  return {join_one(a[0], b[0])};
}

Regs Reducer::welford_of(const std::vector<Element>& elements) const {
  llvm::IRBuilder<>& ir = k_.ir();
  const Reg one = llvm::ConstantFP::get(k_.element_type(compute_), 1);
  Regs values, counts;
  for (const Element& e : elements) {
    values.push_back(e.present ? ir.CreateSelect(e.present, e.value, zero()) : e.value);
    counts.push_back(e.present ? ir.CreateSelect(e.present, one, zero()) : one);
  }
  const Reg count = tree_sum(k_, counts);
  const Reg some = ir.CreateSelect(ir.CreateFCmpOEQ(count, zero()), one, count);
  // The reciprocal is shared by all lanes; that the mean is off by its rounding does not show in the squares.
  const Reg mean = ir.CreateFMul(tree_sum(k_, values), ir.CreateFDiv(one, some));
  Regs squares;
  for (size_t i = 0; i < elements.size(); ++i) {
    Reg distance = ir.CreateFSub(elements[i].value, mean);
    if (elements[i].present) distance = ir.CreateSelect(elements[i].present, distance, zero());
    if (i % 2 == 0) {
      squares.push_back(ir.CreateFMul(distance, distance));
    } else {
      squares.back() =
          ir.CreateIntrinsic(llvm::Intrinsic::fma, {distance->getType()}, {distance, distance, squares.back()});
    }
  }
  return {mean, tree_sum(k_, squares), count};
}

Regs Reducer::of_elements(const std::vector<Element>& elements) const {
  if (is_welford()) return welford_of(elements);
  if (p_.is_online(r_)) return extend_online(identity(), elements);
  // Neighbours with one condition are joined first, so that the condition is applied once.
  std::vector<Regs> groups;
  for (size_t i = 0; i < elements.size();) {
    std::vector<Regs> level;
    const Reg present = elements[i].present;
    for (; i < elements.size() && elements[i].present == present; ++i)
      level.push_back(of_element(elements[i].value, elements[i].position));
    while (level.size() > 1) {
      std::vector<Regs> next;
      for (size_t j = 0; j + 1 < level.size(); j += 2) next.push_back(join(level[j], level[j + 1]));
      if (level.size() % 2 == 1) next.push_back(level.back());
      level = std::move(next);
    }
    if (present) {
      const Regs none = identity();
      for (size_t part = 0; part < none.size(); ++part)
        level[0][part] = k_.ir().CreateSelect(present, level[0][part], none[part]);
    }
    groups.push_back(level[0]);
  }
  Regs all = groups[0];
  for (size_t g = 1; g < groups.size(); ++g) all = join(all, groups[g]);
  return all;
}

Reg Reducer::count_as_float(Reg count) const { return emit_index_as(k_, count, compute_); }

Regs Reducer::finish(const Regs& state, Reg count) const {
  llvm::IRBuilder<>& ir = k_.ir();
  const DType result = r_.node->type().dtype;
  if (needs_position()) return {state[1]};
  if (is_welford()) return {state[0], state[1]};
  if (p_.is_online(r_)) {
    // exp(-inf - -inf) for every element.
    const Reg nothing = ir.CreateAnd(ir.CreateFCmpOEQ(state[0], worst(true)), ir.CreateICmpNE(count, k_.index(0)));
    return {ir.CreateSelect(nothing, llvm::ConstantFP::getNaN(state[1]->getType()), state[1])};
  }
  Regs values = {state[0]};
  if (r_.node->op == Op::kMean) values[0] = ir.CreateFDiv(values[0], count_as_float(count));
  if (!is_float(parts_[0]) && values[0]->getType() != k_.element_type(result))
    values[0] = emit_cast(k_, values[0], parts_[0], result);
  k_.round(values, result);
  return values;
}

Reg tree_sum(KernelBuilder& k, Regs values) {
  while (values.size() > 1) {
    Regs next;
    for (size_t i = 0; i + 1 < values.size(); i += 2) next.push_back(k.ir().CreateFAdd(values[i], values[i + 1]));
    if (values.size() % 2 == 1) next.push_back(values.back());
    values = std::move(next);
  }
  return values[0];
}

}  // namespace tilewright
