#pragma once

#include "compiler/generated_kernels.h"
#include "fusion/partition.h"
#include "runtime/plan.h"

namespace tilewright {

// The plan of a partition: each kernel a launch with its variants (added to `kernels`), each call, view and given-back
// origin a call, in the partition's order.
Plan build_plan(const Graph& graph, const Graph& source, const Partition& partition, GeneratedKernels& kernels);

}  // namespace tilewright
