#pragma once

#include <string>
#include <vector>

#include "ir/context.h"
#include "ir/graph.h"

// Graph-to-graph rewrites, one a file. Each takes a valid graph and leaves a valid one that means the same; the
// pipeline (csrc/compiler) lists their order, verifies and dumps between them.

namespace tilewright {

// decompose: replaces calls of PyTorch's operators by operators of the Graph IR, by the rules of csrc/passes/rules.
//   before: %y = call aten.silu.default(%x) : bf16[8]       after: %1 = cast %x to f32
//                                                                  %2 = ... div %1, %2 ...
//                                                                  %y = cast %3 to bf16
// Keeps:     names, strides and offsets of results; loc; origins are the indices of the calls in the graph as it came.
// Must not:  touch a call without a rule, of types without kernels, or on another device: it stays, with a reason.
void decompose(Graph& g, const Context& ctx);

// Why a call stayed.
struct Refusal {
  std::string node;  // name of its first result, or of the operator where it has none
  std::string callee;
  std::string reason;
};
std::vector<Refusal> decompose_with_reasons(Graph& g, const Context& ctx);

// fold_casts: removes a cast that keeps every value before another cast.
//   before: %w = cast %x to f32 (bf16)     after: uses of %n become %x
//           %n = cast %w to bf16
// Keeps:     loc of the outer cast; origins of both.
// Must not:  fold narrow-then-widen (it rounds), or a truth value's test (to bool).
void fold_casts(Graph& g, const Context& ctx);

// fold_views: composes index maps with the ones they read, removes those that change nothing, and moves fills through.
//   before: %1 = permute %x dims [1, 0]    after: uses of %2 become %x
//           %2 = permute %1 dims [1, 0]
//   before: %1 = reshape %x shape [6]      after: %2 = reshape %x shape [3, 2]
//           %2 = reshape %1 shape [3, 2]
// Keeps:     names and strides of what stays; origins of both.
// Must not:  touch a copy (a tensor of its own), or merge a slice with steps.
void fold_views(Graph& g, const Context& ctx);

// fold_constants: computes operators on numbers, and removes operators that a number makes an identity.
//   before: %1 = constant 2.0, %2 = mul %1, %1        after: %2 = constant 4.0
//   before: %1 = mul %x, 1.0                          after: uses of %1 become %x
//   before: %1 = full 2.0 shape [8], %2 = add %x, %1  after: %2 = add %x, 2.0
// Only operators that IEEE rounds exactly are computed here; the GPU's exp is not the host's.
// Must not:  x + 0.0 (-0.0 becomes 0.0), x * 0.0 (NaN), or anything else that changes a bit.
void fold_constants(Graph& g, const Context& ctx);

// cse: one node for equal nodes.
//   before: %1 = exp %x, %2 = exp %x       after: uses of %2 become %1
// Keeps:     the first; origins of both.
// Must not:  merge calls and host steps, results of other strides, two tensors that both leave the graph, or what each
//            kernel computes anew at no cost (constants, casts, index maps) and belongs to different operators.
void cse(Graph& g, const Context& ctx);

// drop_true_masks: removes an attention's mask that is proven to hide nothing, and gives any other mask whose last
// stride is 0 a last stride of 1 (else PyTorch takes its slow path). Works on calls, before `decompose`.
//   before: %m = call aten.ge.Scalar(%arange, 0), %e = call aten.expand.default(%m, ...)
//           %o = call aten.scaled_dot_product_attention.default(%q, %k, %v, %e)
//   after:  %o = call aten.scaled_dot_product_attention.default(%q, %k, %v, none)
// Must not:  guess: a mask read from memory, or one that depends on both indices, stays.
void drop_true_masks(Graph& g, const Context& ctx);

// relax_rounding: with numerics=fast, a value between fused operators keeps the compute type.
//   before: %y = cast %w to bf16 (made by a rule), %z = cast %y to f32      after: uses of %z become %w
// All consumers see one number: a value that a call, an output or a narrow operator reads stays rounded for all of
// them. Must not:  remove a cast of the captured graph, which always rounds.
void relax_rounding(Graph& g, const Context& ctx);

// remove_dead: removes native nodes whose results nobody uses. Calls and host steps stay.
void remove_dead(Graph& g, const Context& ctx);

}  // namespace tilewright
