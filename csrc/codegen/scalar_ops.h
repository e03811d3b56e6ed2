#pragma once

#include "codegen/kernel_builder.h"
#include "codegen/narrow_functions.h"

namespace tilewright {

// One element of a pointwise operator, in the compute type and before rounding to the result's type. Operand types are
// those of the values, `dtypes`. Operators without a short form ignore that it is asked for.
Reg emit_pointwise(KernelBuilder& k, const Node& node, const std::vector<DType>& dtypes, const Regs& operands,
                   Form form = Form::kLibrary);

// Whether the operator's result is a value of its type without rounding (neg, maximum, where, ...).
bool is_exact(Op op);

// An element converted as CUDA converts, before rounding to a 16-bit float type.
Reg emit_cast(KernelBuilder& k, Reg value, DType from, DType to);

// An integer index as an element of `dtype`.
Reg emit_index_as(KernelBuilder& k, Reg index, DType dtype);
// The value of a `constant` node.
Reg emit_constant(KernelBuilder& k, const Node& node, DType dtype);

// NaN wins; for reductions and the operators maximum and minimum.
Reg emit_extremum(KernelBuilder& k, Reg a, Reg b, DType dtype, bool is_max);
// a < b of the element type: signed, unsigned or float (false where either is NaN).
Reg emit_less(KernelBuilder& k, Reg a, Reg b, DType dtype);

}  // namespace tilewright
