#pragma once

#include <llvm/IR/Module.h>

namespace tilewright {

// Links the functions of libdevice that the module calls, to be inlined, configured as eager's kernels have them.
void link_libdevice(llvm::Module& module);

}  // namespace tilewright
