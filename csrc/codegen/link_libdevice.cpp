#include "codegen/link_libdevice.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <algorithm>
#include <set>
#include <string>

#include "codegen/libdevice.h"
#include "support/error.h"

namespace tilewright {
namespace {

// libdevice asks at compile time how it was configured: as eager's kernels are, denormals kept and IEEE division.
void answer_reflect(llvm::Module& module) {
  llvm::Function* reflect = module.getFunction("__nvvm_reflect");
  if (!reflect) return;
  while (!reflect->use_empty()) {
    auto* call = llvm::cast<llvm::CallInst>(reflect->user_back());
    llvm::StringRef question;
    const llvm::Value* text = call->getArgOperand(0)->stripPointerCasts();
    if (auto* global = llvm::dyn_cast<llvm::GlobalVariable>(text); global && global->hasInitializer()) {
      if (auto* data = llvm::dyn_cast<llvm::ConstantDataSequential>(global->getInitializer()))
        question = data->getAsCString();
    }
    const int answer = question == "__CUDA_PREC_SQRT" || question == "__CUDA_PREC_DIV" ? 1
                       : question == "__CUDA_ARCH"                                     ? 800
                                                                                       : 0;
    call->replaceAllUsesWith(llvm::ConstantInt::get(call->getType(), answer));
    call->eraseFromParent();
  }
  reflect->eraseFromParent();
}

// Whether an instruction may run where its branch was not taken: arithmetic, and the machine's own functions of
// numbers.
bool runs_anywhere(const llvm::Instruction& i) {
  if (const auto* call = llvm::dyn_cast<llvm::CallInst>(&i)) {
    const llvm::Function* f = call->getCalledFunction();
    return f && f->isIntrinsic() && call->doesNotAccessMemory() && !call->isConvergent();
  }
  return llvm::isSafeToSpeculativelyExecute(&i);
}

// LLVM's back end branches on the sign; on bits it is one instruction.
void expand_copysign(llvm::Function& f) {
  for (llvm::Instruction& i : llvm::make_early_inc_range(llvm::instructions(f))) {
    auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
    if (!call || call->getIntrinsicID() != llvm::Intrinsic::copysign || !call->getType()->isFloatTy()) continue;
    llvm::IRBuilder<> ir(call);
    const auto bits = [&](llvm::Value* value, uint32_t mask) {
      return ir.CreateAnd(ir.CreateBitCast(value, ir.getInt32Ty()), mask);
    };
    llvm::Value* both = ir.CreateOr(bits(call->getArgOperand(0), 0x7fffffff), bits(call->getArgOperand(1), 0x80000000));
    call->replaceAllUsesWith(ir.CreateBitCast(both, call->getType()));
    call->eraseFromParent();
  }
}

// A side of a branch: a short block without other ways in, straight to `join`.
bool is_short_side(llvm::BasicBlock& side, const llvm::BasicBlock& from, const llvm::BasicBlock& join) {
  constexpr size_t kMostInstructions = 16;
  if (side.getSinglePredecessor() != &from || side.getSingleSuccessor() != &join || side.size() > kMostInstructions)
    return false;
  return std::all_of(side.begin(), std::prev(side.end()), runs_anywhere);
}

// Turns a branch over short sides into selects. Elements of a warp take both sides anyway, and straight code is what
// lets the elements of a vector overlap. LLVM stops at two values that differ; libdevice's functions choose among
// polynomials.
bool flatten_branch(llvm::BasicBlock& from) {
  auto* branch = llvm::dyn_cast<llvm::BranchInst>(from.getTerminator());
  if (!branch || !branch->isConditional()) return false;
  llvm::BasicBlock *yes = branch->getSuccessor(0), *no = branch->getSuccessor(1);
  if (yes == no) return false;
  llvm::BasicBlock* join = nullptr;
  if (yes->getSingleSuccessor() && is_short_side(*yes, from, *yes->getSingleSuccessor()))
    join = yes->getSingleSuccessor();
  const bool has_yes = join != nullptr;
  if (has_yes ? no != join && !is_short_side(*no, from, *join)
              : !(no->getSingleSuccessor() == yes && is_short_side(*no, from, *yes)))
    return false;
  if (!has_yes) join = yes;
  const bool has_no = no != join;
  if (join == &from) return false;
  for (llvm::BasicBlock* side : {has_yes ? yes : nullptr, has_no ? no : nullptr}) {
    if (side) from.splice(branch->getIterator(), side, side->begin(), std::prev(side->end()));
  }
  for (llvm::PHINode& phi : join->phis()) {
    llvm::Value* on_yes = phi.getIncomingValueForBlock(has_yes ? yes : &from);
    llvm::Value* on_no = phi.getIncomingValueForBlock(has_no ? no : &from);
    llvm::Value* chosen =
        on_yes == on_no ? on_yes
                        : llvm::SelectInst::Create(branch->getCondition(), on_yes, on_no, "", branch->getIterator());
    if (has_yes) phi.removeIncomingValue(yes, /*DeletePHIIfEmpty=*/false);
    if (has_no) phi.removeIncomingValue(no, /*DeletePHIIfEmpty=*/false);
    if (phi.getBasicBlockIndex(&from) >= 0) {
      phi.setIncomingValueForBlock(&from, chosen);
    } else {
      phi.addIncoming(chosen, &from);
    }
  }
  llvm::BranchInst::Create(join, branch->getIterator());
  branch->eraseFromParent();
  if (has_yes) yes->eraseFromParent();
  if (has_no) no->eraseFromParent();
  return true;
}

void flatten_branches(llvm::Function& f) {
  for (bool changed = true; changed;) {
    changed = false;
    for (llvm::BasicBlock& block : f) {
      if (flatten_branch(block)) {
        changed = true;
        break;
      }
    }
    // A block that now has one way on and whose next has one way in becomes one with it.
    for (llvm::BasicBlock& block : llvm::make_early_inc_range(f)) llvm::MergeBlockIntoPredecessor(&block);
  }
}

}  // namespace

void link_libdevice(llvm::Module& module) {
  bool needed = false;
  for (const llvm::Function& f : module) needed |= f.isDeclaration() && f.getName().starts_with("__nv_");
  if (!needed) return;
  const llvm::StringRef bytes(reinterpret_cast<const char*>(kLibdevice), kLibdeviceBytes);
  auto lazy = llvm::getLazyBitcodeModule(llvm::MemoryBufferRef(bytes, "libdevice"), module.getContext());
  TW_CHECK(lazy) << llvm::toString(lazy.takeError());
  (*lazy)->setDataLayout(module.getDataLayout());
  (*lazy)->setTargetTriple(module.getTargetTriple());
  std::set<std::string> own;
  for (const llvm::Function& f : module) {
    if (!f.isDeclaration()) own.insert(f.getName().str());
  }
  TW_CHECK(!llvm::Linker::linkModules(module, std::move(*lazy), llvm::Linker::LinkOnlyNeeded)) << "linking libdevice";
  answer_reflect(module);
  for (llvm::Function& f : module) {
    if (f.isDeclaration() || own.count(f.getName().str())) {
      TW_CHECK(!f.isDeclaration() || !f.getName().starts_with("__nv_")) << "libdevice has no " << f.getName().str();
      continue;
    }
    f.setLinkage(llvm::GlobalValue::InternalLinkage);
    f.removeFnAttr(llvm::Attribute::NoInline);
    f.removeFnAttr(llvm::Attribute::OptimizeNone);
    f.addFnAttr(llvm::Attribute::AlwaysInline);
    // A library function is one operator: as in eager's build its products and sums become FMAs.
    for (llvm::Instruction& i : llvm::instructions(f)) {
      if (llvm::isa<llvm::FPMathOperator>(i)) i.setHasAllowContract(true);
    }
    flatten_branches(f);
    expand_copysign(f);
  }
}

}  // namespace tilewright
