#include "codegen/lower.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
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

#include "codegen/link_libdevice.h"
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
  options.MCOptions.AsmVerbose = false;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      kTriple, arch, "+ptx85", options, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
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

LoweredModule lower_to_ptx(std::unique_ptr<llvm::Module> module, const std::string& arch, bool with_llvm_ir) {
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
  if (with_llvm_ir) module->print(ir, nullptr);
  llvm::SmallString<0> ptx;
  llvm::raw_svector_ostream out(ptx);
  llvm::legacy::PassManager emit;
  TW_CHECK(!machine->addPassesToEmitFile(emit, out, nullptr, llvm::CodeGenFileType::AssemblyFile))
      << "no PTX from " << arch;
  emit.run(*module);
  result.ptx = ptx.str().str();
  return result;
}

}  // namespace tilewright
