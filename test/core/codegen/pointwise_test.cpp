#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "schedule/schedule.h"

namespace tilewright {
namespace {

TEST(Pointwise, DISABLED_Smoke) {
  Graph g = parse_graph(R"(
graph @k(%0: bf16[s0, 768], %1: bf16[768]) -> bf16[s0, 768]
  symbols (s0 = 512 in [2, 65536])
{
  %2 = expand %1 shape [s0, 768]
  %3 = add %0, %2
  %4 = exp %3
  return %4
}
)");
  Context ctx;
  ctx.gpu.sms = 132;
  Proposal p = propose(g, ctx);
  for (auto& c : p.candidates) std::cout << print(c.schedule) << "\n";
  for (auto& c : p.why_none) std::cout << c << "\n";
  KernelCode code = generate(g, p.candidates.at(0).schedule, "sm_90a", ctx);
  std::cout << code.ptx;
}

}  // namespace
}  // namespace tilewright
