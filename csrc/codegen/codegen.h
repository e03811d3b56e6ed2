#pragma once

#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace tilewright {

// PTX of one kernel and how to call it.
//
// Parameters of the entry, in order, each 8 bytes unless said:
//   1. for each body parameter: a tensor's device address (first element, storage offset included); an `int` as s64; a
//   `float` as
//      f64; a tensor marked `host` (rank 0) as its value widened to f64, or s64 for integers and bool;
//   2. for each body output that is not `-> into`: its device address;
//   3. for each workspace: its device address;
//   4. for each symbol of the body's symbol table: its value as s64.
struct KernelCode {
  std::string entry;  // name of the .entry
  std::string ptx;
  std::string llvm_ir;  // empty unless the context dumps
};

// `arch` is sm_80, sm_86, sm_89 or sm_90a. Thread-safe: each call has its own LLVMContext.
KernelCode generate(const Graph& body, const Schedule& schedule, const std::string& arch, const Context& ctx);

}  // namespace tilewright
