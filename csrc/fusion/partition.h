#pragma once

#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "cost/kernel_time.h"
#include "cost/time.h"
#include "ir/context.h"
#include "ir/group.h"
#include "schedule/schedule.h"

namespace tilewright {

// Which nodes of a graph become kernels, which stay calls of PyTorch, and why.
//
// `graph` is what the passes left: native nodes and calls. `source` is the same graph before `decompose`: calls only;
// the origins of graph's nodes are indices of source's nodes. A value of one and the value of the same name of the
// other are the same tensor, so a step of either kind finds its operands by name: what a step reads is a parameter or
// was written by an earlier step.
//
//   graph                                   steps
//   %0 = call aten.mm.default(%x, %w)       call   aten.mm.default                      writes %0
//   %1 = add %0, %r            (origin 1)   kernel add_native_layer_norm                writes %1, %6
//   %2 = cast %1 to f32        (origin 2)
//   ...
//   %6 = cast %5 to bf16       (origin 2)
//   %7 = reshape %6 shape [..] (origin 3)   origin aten.view.default (metadata only)    writes %7
//   %8 = call aten.mm.default(%7, %v)       call   aten.mm.default                      writes %8

// A group and the kernels that may run it.
struct Kernel {
  Group group;
  // What the plan tries in this order; the last one has no condition. At least one.
  std::vector<Candidate> variants;
  int priced = 0;  // the variant that runs at the symbols' hints, to which the times belong
  Time time;
  KernelTime parts;
};

struct PartitionStep {
  enum class Kind : uint8_t {
    kGroup,   // kernels[kernel]
    kCall,    // `node`, a call or host step of graph
    kOrigin,  // `node`, a call or host step of source, given back to PyTorch or a view that is only metadata
  };
  Kind kind = Kind::kGroup;
  int kernel = -1;
  const Node* node = nullptr;
  bool is_view = false;  // a call that makes no kernel: its result is a view of its first operand
  std::string why = {};  // of a call: why it is PyTorch's
  Time time = {};
};

// A value that its kernel writes straight into a parameter's memory (`-> into`): no copy is left to do for that output.
// The steps are in an order in which nobody reads the parameter's old value afterwards. Where the kernel reads the
// parameter too, its body says `-> into` as well.
struct InPlace {
  const Value* value = nullptr;  // of graph
  const Value* parameter = nullptr;
  int kernel = -1;
};

struct Decision {
  // "fuse", "generate" (a kernel of one node), "product" (a kernel with a product of matrices), "refuse", "recompute",
  // "give back", "keep call", "view", "in place", "copy into".
  std::string what;
  std::string why;
  std::vector<std::string> nodes = {};  // the user's operators or the graph's values it is about
  double before_us = 0;                 // T of the steps concerned if it were not so, and as it was decided
  double after_us = 0;
  LocPtr loc = nullptr;
};

struct Partition {
  std::vector<Kernel> kernels;
  std::vector<PartitionStep> steps;  // in an order that respects all dependencies
  std::vector<InPlace> in_place;
  std::vector<Decision> decisions;
  // Every step is of source, whose outputs are then to be returned; otherwise graph's are.
  bool whole_source = false;

  Time time() const;
};

// Asks for the schedules of a body; `propose` unless a test brings its own.
using Proposer = std::function<Proposal(const Graph& body, const Context& ctx)>;

// Why a call of graph was not expanded, by the name of its first result.
using CallReasons = std::map<std::string, std::string>;

// By options.kernels: "auto" forms a group where T falls and gives back one that is slower than its origin's operators;
// "generate" forms every group that a family can take; "call" forms none. Products of matrices follow product_choice:
// "auto" keeps one where its kernel, neighbours inside, beats PyTorch's call with the neighbours' own kernels beside
// it, by T and by the GPU's time alone; "generate" keeps every one that a family takes. All times are taken at the
// symbols' hints. Results keep eager's strides. A view of a parameter or of another output stays one.
Partition partition(const Graph& graph, const Graph& source, const Context& ctx, const Proposer& proposer = propose,
                    const CallReasons& reasons = {});

// Steps with their times, then the decisions, one a line.
std::string print(const Partition& partition);
std::ostream& operator<<(std::ostream& out, const Partition& partition);

}  // namespace tilewright
