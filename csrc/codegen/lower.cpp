#include "codegen/lower.h"

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Linker/Linker.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/DCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/GVN.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include "codegen/libdevice.h"
#include "support/error.h"

namespace tilewright {
namespace {

constexpr const char* kTriple = "nvptx64-nvidia-cuda";

std::unique_ptr<llvm::TargetMachine> make_target_machine(const std::string& arch) {
  static const bool initialized = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)initialized;
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(kTriple, error);
  TW_CHECK(target) << error;
  llvm::TargetOptions options;  // its default makes FMAs only where instructions say `contract`
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      kTriple, arch, "+ptx85", options, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
}

// libdevice asks at compile time how it was configured: as eager's kernels are, denormals kept and IEEE division.
void answer_reflect(llvm::Module& module) {
  llvm::Function* reflect = module.getFunction("__nvvm_reflect");
  if (!reflect) return;
  while (!reflect->use_empty()) {
    auto* call = llvm::cast<llvm::CallInst>(reflect->user_back());
    llvm::StringRef question;
    const llvm::Value* text = call->getArgOperand(0)->stripPointerCasts();
    if (auto* global = llvm::dyn_cast<llvm::GlobalVariable>(text); global && global->hasInitializer()) {
      if (auto* data = llvm::dyn_cast<llvm::ConstantDataSequential>(global->getInitializer())) question = data->getAsCString();
    }
    const int answer = question == "__CUDA_PREC_SQRT" || question == "__CUDA_PREC_DIV" ? 1 : question == "__CUDA_ARCH" ? 800 : 0;
    call->replaceAllUsesWith(llvm::ConstantInt::get(call->getType(), answer));
    call->eraseFromParent();
  }
  reflect->eraseFromParent();
}

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
  }
}

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);

  // Families emit straight code that is unrolled already; what is left is to share, fold and hoist.
  llvm::FunctionPassManager before;
  before.addPass(llvm::EarlyCSEPass());  // equal library calls, while they still are calls
  llvm::FunctionPassManager after;
  after.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  after.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  after.addPass(llvm::InstCombinePass(llvm::InstCombineOptions().setMaxIterations(1).setVerifyFixpoint(false)));
  after.addPass(llvm::SimplifyCFGPass());
  after.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  after.addPass(llvm::GVNPass());
  after.addPass(llvm::InstCombinePass(llvm::InstCombineOptions().setMaxIterations(1).setVerifyFixpoint(false)));
  after.addPass(llvm::SimplifyCFGPass());
  after.addPass(llvm::DCEPass());

  llvm::ModulePassManager passes;
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(before)));
  passes.addPass(llvm::AlwaysInlinerPass(/*InsertLifetime=*/false));
  passes.addPass(llvm::GlobalDCEPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(after)));
  passes.run(module, modules);
}

}  // namespace

LoweredModule lower_to_ptx(std::unique_ptr<llvm::Module> module, const std::string& arch) {
  const auto machine = make_target_machine(arch);
  module->setTargetTriple(kTriple);
  module->setDataLayout(machine->createDataLayout());
  std::string problem;
  llvm::raw_string_ostream problems(problem);
  if (llvm::verifyModule(*module, &problems)) {
    module->print(problems, nullptr);
    throw InternalError("invalid LLVM IR: " + problem);
  }
  link_libdevice(*module);
  optimize(*module, *machine);

  LoweredModule result;
  llvm::raw_string_ostream ir(result.llvm_ir);
  module->print(ir, nullptr);
  llvm::SmallString<0> ptx;
  llvm::raw_svector_ostream out(ptx);
  llvm::legacy::PassManager emit;
  TW_CHECK(!machine->addPassesToEmitFile(emit, out, nullptr, llvm::CodeGenFileType::AssemblyFile)) << "no PTX from " << arch;
  emit.run(*module);
  result.ptx = ptx.str().str();
  return result;
}

}  // namespace tilewright
