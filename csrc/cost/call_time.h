#pragma once

#include "cost/time.h"
#include "ir/context.h"
#include "ir/graph.h"

namespace tilewright {

// Predicted time of a call or host step that PyTorch runs, at the symbols' hints. Its operators are priced as their own
// kernels are known to behave (cost/call_facts.cpp), so that a group is weighed against what it replaces:
//
//   %y = call aten._softmax.default(%x, -1, false) : bf16[16384, 4096]     h200: launch 5.0 us, kernel 180 us
//     268 MB at 4.27 TB/s, of which this kernel reaches 0.35; measured 212 us where a copy takes 68
struct CallTime {
  Time time;
  double bytes = 0;        // of operands and results, or of what is gathered; each element once
  double flops = 0;        // of matrix products
  const char* basis = "";  // "view", "memory", "flops", "transfer", "host", "empty"
};
CallTime price_call(const Node& call, const SymbolTable& symbols, const Context& ctx);

// Bytes of the distinct elements of a tensor: dimensions of stride 0 count once. 0 for anything but a tensor.
double distinct_bytes(const Type& type, const SymbolTable& symbols);

}  // namespace tilewright
