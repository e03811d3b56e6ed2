#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "symbolic/expr.h"

namespace tilewright {

// What the assembler says a kernel uses.
struct MachineCode {
  std::string cubin;
  int registers = 0;  // a thread
  int64_t spill_store_bytes = 0;
  int64_t spill_load_bytes = 0;
  int64_t stack_bytes = 0;
  int64_t static_smem_bytes = 0;
};

// One compiled kernel: its code and how to launch it. Expressions are over the symbols of the kernel's body, which the
// launch step names.
struct Artifact {
  std::string key;
  std::string entry;
  std::string arch;  // that `ptx` was generated for: "sm_90a"
  std::string ptx;
  std::map<std::string, MachineCode> machine_code;  // by architecture; may be empty: the driver assembles the PTX

  std::array<Expr, 3> grid{1, 1, 1};
  std::array<int, 3> block{1, 1, 1};
  Expr dynamic_smem_bytes = 0;
  std::vector<Expr> workspace_bytes;
  int zeroed_workspaces = 0;  // so many of the first ones must be zero before the launch
};

// Gives the artifact of a variant. Thread-safe. It may compile on first need; throws InternalError for a key it does
// not know and whatever compiling throws.
class KernelSource {
 public:
  virtual ~KernelSource() = default;
  virtual std::shared_ptr<const Artifact> get(const std::string& key) = 0;
};

}  // namespace tilewright
