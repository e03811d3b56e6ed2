#include "codegen/scalar_ops.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <limits>

#include "support/error.h"

namespace tilewright {
namespace {

using llvm::Intrinsic::ID;

// One operator's element, with what its cases share.
class ScalarOp {
 public:
  ScalarOp(KernelBuilder& k, const Node& node, const std::vector<DType>& dtypes, const Regs& operands)
      : k_(k),
        ir_(k.ir()),
        node_(node),
        dtype_(dtypes.empty() ? node.type().dtype : dtypes.back()),
        v_(operands),
        type_(operands.empty() ? nullptr : operands.back()->getType()),
        float_(is_float(dtype_)),
        signed_(is_signed(dtype_)) {}

  Reg unary();
  Reg binary();
  Reg ternary();
  // Null for operators and types without a short form.
  Reg short_form();
  Reg shared_quotient();

 private:
  [[noreturn]] void unsupported() const {
    throw InternalError(std::string("no code for ") + node_.info().text + " of " + name(dtype_));
  }
  Reg number(double x) const {
    return float_ ? llvm::ConstantFP::get(type_, x) : llvm::ConstantInt::get(type_, static_cast<int64_t>(x), true);
  }
  Reg intrinsic(ID id, const Regs& args) const { return ir_.CreateIntrinsic(id, {type_}, args); }
  // libdevice's function for the compute type: __nv_expf, __nv_exp.
  Reg library(const char* base, const Regs& args) const {
    if (!float_) unsupported();
    return k_.call_libdevice(std::string("__nv_") + base + (type_->isFloatTy() ? "f" : ""), type_, args);
  }
  Reg less(Reg a, Reg b) const { return emit_less(k_, a, b, dtype_); }
  Reg negative(Reg a) const { return signed_ ? less(a, number(0)) : llvm::cast<llvm::Value>(ir_.getFalse()); }
  Reg is_nan(Reg a) const { return float_ ? ir_.CreateFCmpUNO(a, a) : llvm::cast<llvm::Value>(ir_.getFalse()); }

  Reg reciprocal_approx(Reg x) const;
  Reg quotient_approx() const;
  Reg erf_approx() const;
  Reg tanh_approx() const;
  Reg with_sign_of(Reg magnitude, Reg x) const;
  Reg sign() const;
  Reg rounding(ID id) const { return float_ ? intrinsic(id, {v_[0]}) : v_[0]; }
  Reg divide(Reg a, Reg b, bool remainder) const;
  Reg floor_div() const;
  Reg mod() const;
  Reg integer_pow() const;
  Reg compare(llvm::CmpInst::Predicate on_float, llvm::CmpInst::Predicate on_signed,
              llvm::CmpInst::Predicate on_unsigned) const;
  Reg shift(bool left) const;
  Reg nextafter() const;
  Reg bits_of(Reg value, DType dtype) const;
  Reg value_of(Reg bits, DType dtype) const;

  KernelBuilder& k_;
  llvm::IRBuilder<>& ir_;
  const Node& node_;
  const DType dtype_;
  const Regs& v_;
  llvm::Type* const type_;
  const bool float_, signed_;
};

Reg ScalarOp::sign() const {
  if (dtype_ == DType::kBool) return v_[0];
  const Reg positive = ir_.CreateZExt(less(number(0), v_[0]), ir_.getInt32Ty());
  const Reg below = ir_.CreateZExt(negative(v_[0]), ir_.getInt32Ty());
  const Reg difference = ir_.CreateSub(positive, below);
  return float_ ? ir_.CreateSIToFP(difference, type_) : ir_.CreateSExtOrTrunc(difference, type_);
}

// Division as the GPU does it, also by zero and of the smallest number by -1, where LLVM's has no meaning. Types below
// 32 bits divide in 32 bits.
Reg ScalarOp::divide(Reg a, Reg b, bool remainder) const {
  const unsigned bits = std::max(32u, type_->getIntegerBitWidth());
  llvm::Type* wide = ir_.getIntNTy(bits);
  auto widen = [&](Reg x) { return signed_ ? ir_.CreateSExt(x, wide) : ir_.CreateZExt(x, wide); };
  const Reg wide_a = widen(a), wide_b = widen(b);
  auto* constant = llvm::dyn_cast<llvm::ConstantInt>(wide_b);
  Reg result;
  if (constant && !constant->isZero() && !constant->isMinusOne()) {
    const auto op = remainder ? (signed_ ? llvm::Instruction::SRem : llvm::Instruction::URem)
                              : (signed_ ? llvm::Instruction::SDiv : llvm::Instruction::UDiv);
    result = ir_.CreateBinOp(op, wide_a, wide_b);
  } else {
    const std::string text =
        std::string(remainder ? "rem." : "div.") + (signed_ ? "s" : "u") + std::to_string(bits) + " $0, $1, $2;";
    auto* type = llvm::FunctionType::get(wide, {wide, wide}, false);
    result = ir_.CreateCall(
        llvm::InlineAsm::get(type, text, bits == 64 ? "=l,l,l" : "=r,r,r", /*hasSideEffects=*/false), {wide_a, wide_b});
  }
  return ir_.CreateTrunc(result, type_);
}

Reg ScalarOp::floor_div() const {
  const Reg a = v_[0], b = v_[1];
  if (!float_) {
    const Reg quotient = divide(a, b, false);
    if (!signed_) return quotient;
    const Reg inexact = ir_.CreateICmpNE(divide(a, b, true), number(0));
    const Reg signs_differ = ir_.CreateXor(negative(a), negative(b));
    return ir_.CreateSub(quotient, ir_.CreateZExt(ir_.CreateAnd(inexact, signs_differ), type_));
  }
  // torch.floor_divide: from the exact remainder, so that the quotient is right where a / b rounds up to an integer.
  const Reg rest = library("fmod", {a, b});
  Reg quotient = ir_.CreateFDiv(ir_.CreateFSub(a, rest), b);
  const Reg adjust =
      ir_.CreateAnd(ir_.CreateFCmpUNE(rest, number(0)), ir_.CreateXor(less(b, number(0)), less(rest, number(0))));
  quotient = ir_.CreateSelect(adjust, ir_.CreateFSub(quotient, number(1)), quotient);
  Reg floor = intrinsic(llvm::Intrinsic::floor, {quotient});
  floor = ir_.CreateSelect(ir_.CreateFCmpOGT(ir_.CreateFSub(quotient, floor), number(0.5)),
                           ir_.CreateFAdd(floor, number(1)), floor);
  const Reg plain = ir_.CreateFDiv(a, b);
  const Reg zero = intrinsic(llvm::Intrinsic::copysign, {number(0), plain});
  const Reg finite = ir_.CreateSelect(ir_.CreateFCmpUNE(quotient, number(0)), floor, zero);
  return ir_.CreateSelect(ir_.CreateFCmpOEQ(b, number(0)), plain, finite);
}

Reg ScalarOp::mod() const {
  const Reg a = v_[0], b = v_[1];
  if (!float_) {
    const Reg rest = divide(a, b, true);
    if (!signed_) return rest;
    const Reg adjust = ir_.CreateAnd(ir_.CreateICmpNE(rest, number(0)), ir_.CreateXor(negative(rest), negative(b)));
    return ir_.CreateAdd(rest, ir_.CreateSelect(adjust, b, number(0)));
  }
  const Reg rest = library("fmod", {a, b});
  const Reg adjust =
      ir_.CreateAnd(ir_.CreateFCmpUNE(rest, number(0)), ir_.CreateXor(less(b, number(0)), less(rest, number(0))));
  return ir_.CreateSelect(adjust, ir_.CreateFAdd(rest, b), rest);
}

// By squaring. A negative exponent leaves 1, -1 or 0.
Reg ScalarOp::integer_pow() const {
  const Reg base = v_[0], exponent = v_[1], one = number(1), zero = number(0);
  llvm::BasicBlock* from = ir_.GetInsertBlock();
  llvm::BasicBlock *head = k_.new_block("pow"), *turn = k_.new_block("square"), *done = k_.new_block("powed");
  ir_.CreateBr(head);
  ir_.SetInsertPoint(head);
  auto *result = ir_.CreatePHI(type_, 2), *square = ir_.CreatePHI(type_, 2), *left = ir_.CreatePHI(type_, 2);
  result->addIncoming(one, from);
  square->addIncoming(base, from);
  left->addIncoming(exponent, from);
  const Reg more = signed_ ? ir_.CreateICmpSGT(left, zero) : ir_.CreateICmpNE(left, zero);
  ir_.CreateCondBr(more, turn, done);
  ir_.SetInsertPoint(turn);
  const Reg odd = ir_.CreateICmpNE(ir_.CreateAnd(left, one), zero);
  result->addIncoming(ir_.CreateSelect(odd, ir_.CreateMul(result, square), result), turn);
  square->addIncoming(ir_.CreateMul(square, square), turn);
  left->addIncoming(ir_.CreateLShr(left, one), turn);
  ir_.CreateBr(head);
  ir_.SetInsertPoint(done);
  if (!signed_) return result;
  const Reg odd_exponent = ir_.CreateICmpNE(ir_.CreateAnd(exponent, one), zero);
  const Reg of_minus_one = ir_.CreateSelect(odd_exponent, number(-1), one);
  const Reg reciprocal = ir_.CreateSelect(ir_.CreateICmpEQ(base, one), one,
                                          ir_.CreateSelect(ir_.CreateICmpEQ(base, number(-1)), of_minus_one, zero));
  return ir_.CreateSelect(negative(exponent), reciprocal, result);
}

Reg ScalarOp::compare(llvm::CmpInst::Predicate on_float, llvm::CmpInst::Predicate on_signed,
                      llvm::CmpInst::Predicate on_unsigned) const {
  if (float_) return ir_.CreateFCmp(on_float, v_[0], v_[1]);
  return ir_.CreateICmp(signed_ ? on_signed : on_unsigned, v_[0], v_[1]);
}

Reg ScalarOp::shift(bool left) const {
  const unsigned bits = type_->getIntegerBitWidth();
  const Reg a = v_[0], amount = v_[1], width = llvm::ConstantInt::get(type_, bits);
  const Reg in_range = ir_.CreateICmpULT(amount, width);
  const Reg safe = ir_.CreateSelect(in_range, amount, number(0));
  if (left) return ir_.CreateSelect(in_range, ir_.CreateShl(a, safe), number(0));
  if (!signed_) return ir_.CreateSelect(in_range, ir_.CreateLShr(a, safe), number(0));
  return ir_.CreateSelect(in_range, ir_.CreateAShr(a, safe),
                          ir_.CreateAShr(a, llvm::ConstantInt::get(type_, bits - 1)));
}

// The bits of an element as memory holds them.
Reg ScalarOp::bits_of(Reg value, DType dtype) const {
  if (dtype == DType::kBF16)
    return ir_.CreateTrunc(ir_.CreateLShr(ir_.CreateBitCast(value, ir_.getInt32Ty()), 16), ir_.getInt16Ty());
  if (dtype == DType::kF16) return ir_.CreateBitCast(ir_.CreateFPTrunc(value, ir_.getHalfTy()), ir_.getInt16Ty());
  if (dtype == DType::kBool) return ir_.CreateZExt(value, ir_.getInt8Ty());
  return ir_.CreateBitCast(value, ir_.getIntNTy(8 * bytes(dtype)));
}

Reg ScalarOp::value_of(Reg bits, DType dtype) const {
  if (dtype == DType::kBF16)
    return ir_.CreateBitCast(ir_.CreateShl(ir_.CreateZExt(bits, ir_.getInt32Ty()), 16), ir_.getFloatTy());
  if (dtype == DType::kF16) return ir_.CreateFPExt(ir_.CreateBitCast(bits, ir_.getHalfTy()), ir_.getFloatTy());
  if (dtype == DType::kBool) return ir_.CreateICmpNE(bits, ir_.getInt8(0));
  return ir_.CreateBitCast(bits, k_.element_type(dtype));
}

// One step in the element type's own bits: 16-bit types have neighbours of their own.
Reg ScalarOp::nextafter() const {
  if (dtype_ != DType::kBF16 && dtype_ != DType::kF16) return library("nextafter", v_);
  const Reg from = v_[0], to = v_[1];
  llvm::Type* i16 = ir_.getInt16Ty();
  const Reg bits = bits_of(from, dtype_);
  const Reg away = ir_.CreateICmpEQ(ir_.CreateFCmpOLT(from, to), ir_.CreateFCmpOGT(from, number(0)));
  const Reg stepped =
      ir_.CreateSelect(away, ir_.CreateAdd(bits, ir_.getInt16(1)), ir_.CreateSub(bits, ir_.getInt16(1)));
  const Reg smallest =
      ir_.CreateOr(ir_.CreateAnd(bits_of(to, dtype_), llvm::ConstantInt::get(i16, 0x8000)), ir_.getInt16(1));
  Reg result = value_of(ir_.CreateSelect(ir_.CreateFCmpOEQ(from, number(0)), smallest, stepped), dtype_);
  result = ir_.CreateSelect(ir_.CreateFCmpOEQ(from, to), to, result);
  return ir_.CreateSelect(ir_.CreateFCmpUNO(from, to), ir_.CreateFAdd(from, to), result);
}

Reg ScalarOp::unary() {
  const Reg x = v_[0];
  switch (node_.op) {
    case Op::kCopy:
      return x;
    case Op::kCast:
      return emit_cast(k_, x, dtype_, node_.type().dtype);
    case Op::kBitcast:
      return value_of(bits_of(x, dtype_), node_.type().dtype);
    case Op::kNeg:
      return float_ ? ir_.CreateFNeg(x) : ir_.CreateNeg(x);
    case Op::kAbs:
      if (float_) return intrinsic(llvm::Intrinsic::fabs, {x});
      return signed_ ? ir_.CreateIntrinsic(llvm::Intrinsic::abs, {type_}, {x, ir_.getFalse()}) : x;
    case Op::kSign:
      return sign();
    case Op::kCeil:
      return rounding(llvm::Intrinsic::ceil);
    case Op::kFloor:
      return rounding(llvm::Intrinsic::floor);
    case Op::kRound:
      return rounding(llvm::Intrinsic::rint);
    case Op::kTrunc:
      return rounding(llvm::Intrinsic::trunc);
    case Op::kReciprocal:
      return ir_.CreateFDiv(number(1), x);
    case Op::kSqrt:
      return intrinsic(llvm::Intrinsic::sqrt, {x});
    case Op::kRsqrt:
      return library("rsqrt", v_);
    case Op::kExp:
      return library("exp", v_);
    case Op::kExp2:
      return library("exp2", v_);
    case Op::kExpm1:
      return library("expm1", v_);
    case Op::kLog:
      return library("log", v_);
    case Op::kLog2:
      return library("log2", v_);
    case Op::kLog10:
      return library("log10", v_);
    case Op::kLog1p:
      return library("log1p", v_);
    case Op::kSin:
      return library("sin", v_);
    case Op::kCos:
      return library("cos", v_);
    case Op::kTan:
      return library("tan", v_);
    case Op::kAsin:
      return library("asin", v_);
    case Op::kAcos:
      return library("acos", v_);
    case Op::kAtan:
      return library("atan", v_);
    case Op::kSinh:
      return library("sinh", v_);
    case Op::kCosh:
      return library("cosh", v_);
    case Op::kTanh:
      return library("tanh", v_);
    case Op::kAsinh:
      return library("asinh", v_);
    case Op::kAcosh:
      return library("acosh", v_);
    case Op::kAtanh:
      return library("atanh", v_);
    case Op::kErf:
      return library("erf", v_);
    case Op::kErfc:
      return library("erfc", v_);
    case Op::kErfinv:
      return library("erfinv", v_);
    case Op::kLgamma:
      return library("lgamma", v_);
    case Op::kSigmoid:
      return ir_.CreateFDiv(number(1), ir_.CreateFAdd(number(1), library("exp", {ir_.CreateFNeg(x)})));
    case Op::kIsNan:
      return is_nan(x);
    case Op::kIsInf:
      return float_ ? ir_.CreateFCmpOEQ(intrinsic(llvm::Intrinsic::fabs, {x}), llvm::ConstantFP::getInfinity(type_))
                    : llvm::cast<llvm::Value>(ir_.getFalse());
    case Op::kSignbit:
      if (!float_) return negative(x);
      return ir_.CreateICmpSLT(ir_.CreateBitCast(x, ir_.getIntNTy(type_->getPrimitiveSizeInBits())),
                               llvm::ConstantInt::get(ir_.getIntNTy(type_->getPrimitiveSizeInBits()), 0));
    case Op::kNot:
      return ir_.CreateNot(x);
    default:
      unsupported();
  }
}

Reg ScalarOp::binary() {
  using P = llvm::CmpInst::Predicate;
  const Reg a = v_[0], b = v_[1];
  const bool is_bool = dtype_ == DType::kBool;
  switch (node_.op) {
    case Op::kAdd:
      return float_ ? ir_.CreateFAdd(a, b) : is_bool ? ir_.CreateOr(a, b) : ir_.CreateAdd(a, b);
    case Op::kSub:
      return float_ ? ir_.CreateFSub(a, b) : is_bool ? ir_.CreateXor(a, b) : ir_.CreateSub(a, b);
    case Op::kMul:
      return float_ ? ir_.CreateFMul(a, b) : is_bool ? ir_.CreateAnd(a, b) : ir_.CreateMul(a, b);
    case Op::kDiv:
      return float_ ? ir_.CreateFDiv(a, b) : divide(a, b, false);
    case Op::kFloorDiv:
      return floor_div();
    case Op::kMod:
      return mod();
    case Op::kFmod:
      return float_ ? library("fmod", v_) : divide(a, b, true);
    case Op::kPow:
      return float_ ? library("pow", v_) : integer_pow();
    case Op::kAtan2:
      return library("atan2", v_);
    case Op::kHypot:
      return library("hypot", v_);
    case Op::kCopysign:
      return intrinsic(llvm::Intrinsic::copysign, v_);
    case Op::kNextafter:
      return nextafter();
    case Op::kMaximum:
      return emit_extremum(k_, a, b, dtype_, true);
    case Op::kMinimum:
      return emit_extremum(k_, a, b, dtype_, false);
    case Op::kFmax:
      return float_ ? intrinsic(llvm::Intrinsic::maxnum, v_) : emit_extremum(k_, a, b, dtype_, true);
    case Op::kFmin:
      return float_ ? intrinsic(llvm::Intrinsic::minnum, v_) : emit_extremum(k_, a, b, dtype_, false);
    case Op::kEq:
      return compare(P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ);
    case Op::kNe:
      return compare(P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE);
    case Op::kLt:
      return compare(P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT);
    case Op::kLe:
      return compare(P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE);
    case Op::kGt:
      return compare(P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT);
    case Op::kGe:
      return compare(P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE);
    case Op::kAnd:
      return ir_.CreateAnd(a, b);
    case Op::kOr:
      return ir_.CreateOr(a, b);
    case Op::kXor:
      return ir_.CreateXor(a, b);
    case Op::kShl:
      return shift(true);
    case Op::kShr:
      return shift(false);
    default:
      unsupported();
  }
}

Reg ScalarOp::ternary() {
  if (node_.op == Op::kWhere) return ir_.CreateSelect(v_[0], v_[1], v_[2]);
  if (node_.op == Op::kFma)
    return float_ ? intrinsic(llvm::Intrinsic::fma, v_) : ir_.CreateAdd(ir_.CreateMul(v_[0], v_[1]), v_[2]);
  unsupported();
}

// ---- short forms

// Also right where the result is subnormal; LLVM has an intrinsic only for the form that flushes those.
Reg ScalarOp::reciprocal_approx(Reg x) const {
  auto* type = llvm::FunctionType::get(type_, {type_}, false);
  return ir_.CreateCall(llvm::InlineAsm::get(type, "rcp.approx.f32 $0, $1;", "=f,f", /*hasSideEffects=*/false), {x});
}

// By a reciprocal that does not depend on how exact the GPU's approximation is. An eighth of both, so that it is not
// subnormal; it stays 0 for an infinite divisor.
Reg ScalarOp::quotient_approx() const {
  const Reg a = ir_.CreateFMul(v_[0], number(0.125)), b = ir_.CreateFMul(v_[1], number(0.125));
  const Reg first = ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_rcp_approx_ftz_f, {}, {b});
  const Reg finite = intrinsic(llvm::Intrinsic::minnum, {b, number(std::numeric_limits<float>::max())});
  const Reg error = intrinsic(llvm::Intrinsic::fma, {ir_.CreateFNeg(finite), first, number(1)});
  return ir_.CreateFMul(a, intrinsic(llvm::Intrinsic::fma, {first, error, first}));
}

// `magnitude` is not negative.
Reg ScalarOp::with_sign_of(Reg magnitude, Reg x) const {
  llvm::Type* bits = ir_.getInt32Ty();
  const Reg sign = ir_.CreateAnd(ir_.CreateBitCast(x, bits), 0x80000000u);
  return ir_.CreateBitCast(ir_.CreateOr(ir_.CreateBitCast(magnitude, bits), sign), type_);
}

// 1 - 2^(t p(t)) for t = |x|, up to t = 4, from where on it is 1. The polynomial is fitted to log2(erfc(t)) / t where
// libdevice has another formula, and from t = 1 on to libdevice's own, closer the smaller erfc is.
Reg ScalarOp::erf_approx() const {
  constexpr double kTerms[] = {7.484419711545343e-06, -0.00012623814109247178, 0.0007908418192528188,
                               -0.002245199168100953, 0.00014243522309698164,  0.02763226442039013,
                               -0.14825770258903503,  -0.9184540510177612,     -1.6279064416885376};
  const Reg t = intrinsic(llvm::Intrinsic::minnum, {intrinsic(llvm::Intrinsic::fabs, {v_[0]}), number(4)});
  Reg p = number(kTerms[0]);
  for (size_t i = 1; i < std::size(kTerms); ++i) p = intrinsic(llvm::Intrinsic::fma, {p, t, number(kTerms[i])});
  const Reg rest = ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_ex2_approx_ftz_f, {}, {ir_.CreateFMul(p, t)});
  return with_sign_of(ir_.CreateFSub(number(1), rest), v_[0]);
}

// 1 - 2 / (exp(2 |x|) + 1)
Reg ScalarOp::tanh_approx() const {
  constexpr double kTwoLog2E = 2.88539008177792681472;
  const Reg t = intrinsic(llvm::Intrinsic::fabs, {v_[0]});
  const Reg e = ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_ex2_approx_ftz_f, {}, {ir_.CreateFMul(t, number(kTwoLog2E))});
  const Reg r = ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_rcp_approx_ftz_f, {}, {ir_.CreateFAdd(e, number(1))});
  return with_sign_of(intrinsic(llvm::Intrinsic::fma, {r, number(-2), number(1)}), v_[0]);
}

// Equal instructions of all elements become one: what works on the divisor alone is done once a row.
Reg ScalarOp::shared_quotient() {
  const auto fma = [&](Reg a, Reg b, Reg c) { return intrinsic(llvm::Intrinsic::fma, {a, b, c}); };
  const Reg a = v_[0], b = v_[1], minus_b = ir_.CreateFNeg(b);
  Reg reciprocal = ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_rcp_approx_ftz_f, {}, {b});
  reciprocal = fma(reciprocal, fma(minus_b, reciprocal, number(1)), reciprocal);
  const Reg quotient = ir_.CreateFMul(a, reciprocal);
  return fma(fma(minus_b, quotient, a), reciprocal, quotient);
}

Reg ScalarOp::short_form() {
  if (!type_->isFloatTy()) return nullptr;
  switch (node_.op) {
    case Op::kErf:
      return erf_approx();
    case Op::kTanh:
      return tanh_approx();
    case Op::kReciprocal:
      return reciprocal_approx(v_[0]);
    case Op::kDiv:
      return quotient_approx();
    default:
      return nullptr;
  }
}

}  // namespace

Reg emit_pointwise(KernelBuilder& k, const Node& node, const std::vector<DType>& dtypes, const Regs& operands,
                   Form form) {
  ScalarOp op(k, node, dtypes, operands);
  if (form == Form::kShared) return op.shared_quotient();
  if (form == Form::kShort) {
    if (const Reg value = op.short_form()) return value;
  }
  switch (operands.size()) {
    case 1:
      return op.unary();
    case 2:
      return op.binary();
    default:
      return op.ternary();
  }
}

bool is_exact(Op op) {
  switch (op) {
    case Op::kCopy:
    case Op::kNeg:
    case Op::kAbs:
    case Op::kSign:
    case Op::kCeil:
    case Op::kFloor:
    case Op::kRound:
    case Op::kTrunc:
    case Op::kBitcast:
    case Op::kCopysign:
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kFmax:
    case Op::kFmin:
    case Op::kWhere:
      return true;
    default:
      return false;
  }
}

Reg emit_cast(KernelBuilder& k, Reg value, DType from, DType to) {
  llvm::IRBuilder<>& ir = k.ir();
  llvm::Type *from_type = k.element_type(from), *to_type = k.element_type(to);
  if (from == to) return value;
  if (to == DType::kBool) {
    return is_float(from) ? ir.CreateFCmpUNE(value, llvm::ConstantFP::get(from_type, 0))
                          : ir.CreateICmpNE(value, llvm::ConstantInt::get(from_type, 0));
  }
  if (is_float(from) && is_float(to)) return ir.CreateFPCast(value, to_type);
  if (is_float(to)) {
    return is_signed(from) ? ir.CreateSIToFP(value, to_type) : ir.CreateUIToFP(value, to_type);
  }
  if (!is_float(from))
    return is_signed(from) ? ir.CreateSExtOrTrunc(value, to_type) : ir.CreateZExtOrTrunc(value, to_type);
  // The conversion of the machine: towards zero, saturating, NaN as it comes. Bytes without sign go through 64 bits,
  // as PyTorch's conversion does.
  const bool wide = to == DType::kI64 || to == DType::kU8;
  const bool is_double = from == DType::kF64;
  const ID id = is_double ? (wide ? llvm::Intrinsic::nvvm_d2ll_rz : llvm::Intrinsic::nvvm_d2i_rz)
                          : (wide ? llvm::Intrinsic::nvvm_f2ll_rz : llvm::Intrinsic::nvvm_f2i_rz);
  return ir.CreateTrunc(ir.CreateIntrinsic(id, {}, {value}), to_type);
}

Reg emit_index_as(KernelBuilder& k, Reg index, DType dtype) {
  llvm::IRBuilder<>& ir = k.ir();
  const Reg wide = ir.CreateSExt(index, ir.getInt64Ty());
  return emit_cast(k, wide, DType::kI64, dtype);
}

Reg emit_constant(KernelBuilder& k, const Node& node, DType dtype) {
  const Attr* value = node.find_attr("value");
  TW_CHECK(value) << "constant without a value";
  llvm::Type* type = k.element_type(dtype);
  if (const auto* e = std::get_if<Expr>(value)) {
    if (!e->constant()) {
      return emit_index_as(k, k.expression(*e, {}, [](const Expr&) { return false; }), dtype);
    }
    if (!is_float(dtype)) return llvm::ConstantInt::get(type, *e->constant(), true);
    return llvm::ConstantFP::get(type, static_cast<double>(*e->constant()));
  }
  if (const auto* b = std::get_if<bool>(value)) {
    if (is_float(dtype)) return llvm::ConstantFP::get(type, *b);
    return llvm::ConstantInt::get(type, *b);
  }
  const double x = std::get<double>(*value);
  if (!is_float(dtype)) return llvm::ConstantInt::get(type, static_cast<int64_t>(x), true);
  llvm::APFloat number(x);
  bool lossy = false;
  if (dtype == DType::kBF16) number.convert(llvm::APFloat::BFloat(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  if (dtype == DType::kF16) number.convert(llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  number.convert(type->getFltSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return llvm::ConstantFP::get(type, number);
}

Reg emit_less(KernelBuilder& k, Reg a, Reg b, DType dtype) {
  if (is_float(dtype)) return k.ir().CreateFCmpOLT(a, b);
  return is_signed(dtype) ? k.ir().CreateICmpSLT(a, b) : k.ir().CreateICmpULT(a, b);
}

Reg emit_extremum(KernelBuilder& k, Reg a, Reg b, DType dtype, bool is_max) {
  llvm::IRBuilder<>& ir = k.ir();
  if (a->getType()->isFloatTy())
    return ir.CreateBinaryIntrinsic(is_max ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, a, b);
  const Reg b_is_better = is_max ? emit_less(k, a, b, dtype) : emit_less(k, b, a, dtype);
  const Reg better = ir.CreateSelect(b_is_better, b, a);
  if (!is_float(dtype)) return better;
  // f64 has no instruction in which NaN wins.
  return ir.CreateSelect(ir.CreateFCmpUNO(a, a), a, ir.CreateSelect(ir.CreateFCmpUNO(b, b), b, better));
}

}  // namespace tilewright
