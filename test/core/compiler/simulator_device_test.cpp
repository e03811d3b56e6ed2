#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "support/error.h"

namespace tilewright {
namespace {

// What the simulator finds is said of the step, the operator and the user's line that the PTX line comes from.
TEST(SimulatorDevice, ReportsNameTheOperatorAndTheUsersLine) {
  const std::unique_ptr<Device> device = make_simulator_device("sm_90a", /*check=*/true);
  Artifact artifact;
  artifact.entry = "k";
  artifact.arch = "sm_90a";
  artifact.ptx = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .b64 %a;
  .file 1 "group.tw"
  .loc 1 4 0
  ld.param.u64 %a, [out];
  .loc 1 7 0
  st.global.u64 [%a+8], %a;
  ret;
}
)";
  uint64_t memory[1] = {}, args[] = {reinterpret_cast<uint64_t>(memory)};
  const MemoryRange range{args[0], sizeof memory, true, 0};
  const std::vector<std::pair<int, LocPtr>> lines{
      {4, std::make_shared<Loc>(Loc{"model.py", 11, "x = a.neg()", "aten.neg.default"})},
      {7, std::make_shared<Loc>(Loc{"model.py", 12, "return x + 1", "aten.add.Tensor"})}};
  LaunchRequest request;
  request.name = "add_neg";
  request.args = args;
  request.memory = {&range, 1};
  request.lines = lines;
  try {
    device->launch(*device->load(artifact, 0), request);
    FAIL() << "the store is outside";
  } catch (const DeviceError& e) {
    const std::string report = e.what();
    EXPECT_NE(report.find("add_neg: "), std::string::npos) << report;
    EXPECT_NE(report.find("out-of-bounds global store"), std::string::npos) << report;
    EXPECT_NE(report.find("(group.tw:7, aten.add.Tensor at model.py:12)"), std::string::npos) << report;
  }
}

}  // namespace
}  // namespace tilewright
