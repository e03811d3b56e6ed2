#include "codegen/codegen.h"

#include "codegen/families/families.h"
#include "codegen/lower.h"
#include "support/error.h"

namespace tilewright {
namespace {

struct FamilyBuilder {
  const char* name;
  std::unique_ptr<llvm::Module> (*build)(llvm::LLVMContext&, const ElementProgram&, const Schedule&, const GpuFacts&);
};
constexpr FamilyBuilder kBuilders[] = {
    {"pointwise", build_pointwise}, {"transpose", build_transpose}, {"reduction", build_reduction},
    {"matvec", build_matvec},       {"matmul", build_matmul},
};

}  // namespace

KernelCode generate(const Graph& body, const Schedule& schedule, const std::string& arch, const Context& ctx) {
  ProgramResult made = make_element_program(body);
  TW_CHECK(made.program) << made.why_not;
  llvm::LLVMContext context;
  for (const FamilyBuilder& family : kBuilders) {
    if (schedule.family != family.name) continue;
    std::unique_ptr<llvm::Module> module = family.build(context, *made.program, schedule, ctx.gpu);
    KernelCode code;
    code.entry = module->getName().str();
    LoweredModule lowered = lower_to_ptx(std::move(module), arch, /*with_llvm_ir=*/static_cast<bool>(ctx.dump));
    code.ptx = std::move(lowered.ptx);
    code.llvm_ir = std::move(lowered.llvm_ir);
    return code;
  }
  throw UserError("unknown family `" + schedule.family + "`");
}

}  // namespace tilewright
