#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace tilewright {

// What the cost model and fusion know of PyTorch's operators by name: one row an operator in call_facts.cpp. An
// operator without a row is one memory-bound kernel with effects unknown.
enum class CallKind : uint8_t {
  kView,         // no kernel: the result is a view of the first operand
  kMemory,       // one or several kernels bound by the bytes of operands and results
  kMatmul,       // 2 * result elements * last dimension of the left matrix
  kConvolution,  // 2 * result elements * filter elements of one output channel
  kAttention,    // 4 * rows * columns * head size
  kGather,       // reads as many bytes of its first operand as it writes
  kHostRead,     // waits for the GPU and copies a number to the host
};

struct CallFacts {
  CallKind kind = CallKind::kMemory;
  // The part of the roof (bandwidth or matrix rate) that eager's kernel reaches, and how many passes over its kind's
  // work it makes (a backward of a product makes two).
  double efficiency = 0.92;
  double passes = 1;
  int kernels = 1;
  // Nothing but its results depends on when it runs: it may be moved, and dropped when they are unused.
  bool pure = true;
  // Its result may share memory with an operand.
  bool may_alias = false;
};

// `callee` as in the text of a call: "aten.mm.default".
const CallFacts& call_facts(std::string_view callee);

// The call or host step must run where it stands among others of its kind, whether or not its results are used: it
// draws random numbers, writes, asserts, reads the GPU from the host, is Python's or unknown.
bool has_effects(const Node& node);

// "layer_norm" of "aten.layer_norm.default", for display.
std::string base_name(std::string_view callee);

}  // namespace tilewright
