#pragma once

#include <llvm/IR/Module.h>

#include <memory>
#include <string>

namespace tilewright {

struct LoweredModule {
  std::string llvm_ir;  // after optimisation; empty unless wanted
  std::string ptx;
};

// Links what the module needs of libdevice, optimises, and prints PTX for `arch`, and LLVM IR where it is wanted.
LoweredModule lower_to_ptx(std::unique_ptr<llvm::Module> module, const std::string& arch, bool with_llvm_ir);

}  // namespace tilewright
