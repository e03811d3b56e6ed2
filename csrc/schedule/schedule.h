#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost/footprint.h"
#include "ir/condition.h"
#include "ir/context.h"
#include "ir/group.h"

namespace tilewright {

// A family plus its parameters: how logical iterations map to grid, block, warp, lane and vector. Codegen reads it and
// never changes it. Text form: `pointwise vec=8 threads=256 index_bits=32`.
struct Schedule {
  std::string family;
  std::vector<std::pair<std::string, int64_t>> params;  // in the family's order

  int64_t param(std::string_view name) const;  // throws InternalError where absent
  int64_t param(std::string_view name, int64_t otherwise) const;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};
std::string print(const Schedule& s);
Schedule parse_schedule(std::string_view text);

struct Candidate {
  Schedule schedule;
  Condition condition;
  Footprint footprint;
};

// Schedules for a group, best first by the family's own order, the last one unconditional; or the reasons why none.
struct Proposal {
  std::vector<Candidate> candidates;
  std::vector<std::string> why_none;
};
Proposal propose(const Graph& body, const Context& ctx);

// How a kernel of this schedule is launched: expressions over the body's symbols.
struct LaunchShape {
  Expr grid[3] = {1, 1, 1};
  int block[3] = {1, 1, 1};
  Expr dynamic_smem_bytes = 0;
  std::vector<Expr> workspace_bytes;  // buffers beside inputs and outputs
  int zeroed_workspaces = 0;  // so many of the first ones must be zero before the launch; the kernel zeroes them again
};
LaunchShape launch_shape(const Graph& body, const Schedule& schedule, const GpuFacts& gpu);

}  // namespace tilewright
