#pragma once

#include "codegen/kernel_builder.h"
#include "schedule/element_program.h"
#include "schedule/schedule.h"

namespace tilewright {

// Each writes the kernel of a schedule of its family and returns its module.
std::unique_ptr<llvm::Module> build_pointwise(llvm::LLVMContext& context, const ElementProgram& program,
                                              const Schedule& schedule, const GpuFacts& gpu);
std::unique_ptr<llvm::Module> build_transpose(llvm::LLVMContext& context, const ElementProgram& program,
                                              const Schedule& schedule, const GpuFacts& gpu);
std::unique_ptr<llvm::Module> build_reduction(llvm::LLVMContext& context, const ElementProgram& program,
                                              const Schedule& schedule, const GpuFacts& gpu);
std::unique_ptr<llvm::Module> build_matvec(llvm::LLVMContext& context, const ElementProgram& program,
                                           const Schedule& schedule, const GpuFacts& gpu);
std::unique_ptr<llvm::Module> build_matmul(llvm::LLVMContext& context, const ElementProgram& program,
                                           const Schedule& schedule, const GpuFacts& gpu);

}  // namespace tilewright
