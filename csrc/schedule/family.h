#pragma once

#include <array>

#include "schedule/element_program.h"
#include "schedule/schedule.h"

namespace tilewright {

// The families by which schedules are proposed, each in its own file.
Proposal propose_pointwise(const ElementProgram& program, const Context& ctx);
// The program as a pointwise kernel of this schedule goes through it.
ElementProgram program_for(const ElementProgram& program, const Schedule& schedule);
LaunchShape launch_pointwise(const ElementProgram& program, const Schedule& schedule, const GpuFacts& gpu);
Proposal propose_transpose(const ElementProgram& program, const Context& ctx);
LaunchShape launch_transpose(const ElementProgram& program, const Schedule& schedule, const GpuFacts& gpu);
Proposal propose_reduction(const ElementProgram& program, const Context& ctx);
LaunchShape launch_reduction(const ElementProgram& program, const Schedule& schedule, const GpuFacts& gpu);

Proposal propose_matvec(const ElementProgram& program, const Context& ctx);
LaunchShape launch_matvec(const ElementProgram& program, const Schedule& schedule, const GpuFacts& gpu);
Proposal propose_matmul(const ElementProgram& program, const Context& ctx);
LaunchShape launch_matmul(const ElementProgram& program, const Schedule& schedule, const GpuFacts& gpu);

struct Family {
  const char* name;
  bool takes_products;  // of matrices: such programs, and no others
  Proposal (*propose)(const ElementProgram&, const Context&);
  LaunchShape (*launch)(const ElementProgram&, const Schedule&, const GpuFacts&);
};
inline constexpr std::array kFamilies = {
    Family{"transpose", false, propose_transpose, launch_transpose},  // before pointwise, which takes the same groups
    Family{"pointwise", false, propose_pointwise, launch_pointwise},
    Family{"reduction", false, propose_reduction, launch_reduction},
    Family{"matvec", true, propose_matvec, launch_matvec},  // before matmul, which takes the same groups
    Family{"matmul", true, propose_matmul, launch_matmul},
};

}  // namespace tilewright
