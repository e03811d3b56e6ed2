// What kernels ask of the memory system, counted by the simulator, and what the assembler makes of them.

#include "../load_assembler.h"
#include "kernel_runner.h"
#include "runtime/assemble.h"

namespace tilewright {
namespace {

struct Case {
  const char* name;
  std::string text;
  KernelRunner::Symbols sizes;
};

std::string transposed_sum(const std::string& type, const std::string& op) {
  return "graph @k(%0: " + type + "[1024, 1024], %1: " + type + "[1024, 1024]) -> " + type +
         "[1024, 1024]\n{\n  %2 = permute %0 dims [1, 0]\n  %3 = " + op + " %2, %1\n  return %3\n}\n";
}

std::vector<Case> cases() {
  return {
      {"transpose_1", transposed_sum("i8", "add"), {}},
      {"transpose_bool", transposed_sum("bool", "and"), {}},
      {"transpose_2", transposed_sum("bf16", "add"), {}},
      {"transpose_4", transposed_sum("f32", "add"), {}},
      {"transpose_8", transposed_sum("f64", "add"), {}},
      {"transpose_narrowing",
       R"(
graph @k(%0: f32[1024, 512]) -> bf16[512, 1024]
{
  %1 = permute %0 dims [1, 0]
  %2 = cast %1 to bf16
  return %2
}
)",
       {}},
      {"transpose_both_ways",
       R"(
graph @k(%0: bf16[1024, 512], %1: bf16[512, 1024]) -> (bf16[512, 1024], bf16[1024, 512])
{
  %2 = permute %0 dims [1, 0]
  %3 = add %2, %1
  %4 = permute %3 dims [1, 0]
  return %3, %4
}
)",
       {}},
      {"bias",
       R"(
graph @k(%0: bf16[s0, 768], %1: bf16[768]) -> bf16[s0, 768]
  symbols (s0 = 8192 in [2, 65536])
{
  %2 = expand %1 shape [s0, 768]
  %3 = add %0, %2
  return %3
}
)",
       {{"s0", 64}}},
      {"softmax",
       R"(
graph @k(%0: bf16[s0, 1024]) -> bf16[s0, 1024]
  symbols (s0 = 8192 in [2, 65536])
{
  %1 = cast %0 to f32
  %2 = max %1 dims [1] keepdim true
  %3 = expand %2 shape [s0, 1024]
  %4 = sub %1, %3
  %5 = exp %4
  %6 = sum %5 dims [1] keepdim true
  %7 = expand %6 shape [s0, 1024]
  %8 = div %5, %7
  %9 = cast %8 to bf16
  return %9
}
)",
       {{"s0", 16}}},
      {"columns",
       R"(
graph @k(%0: f32[2048, 256]) -> f32[256]
{
  %1 = sum %0 dims [0] keepdim false
  return %1
}
)",
       {}},
      {"statistics",
       R"(
graph @k(%0: f32[8, 64, 256]) -> (f32[64], f32[64])
{
  %1, %2 = welford %0 dims [0, 2] keepdim false
  return %1, %2
}
)",
       {}},
      {"gelu",
       R"(
graph @k(%0: f32[s0]) -> f32[s0]
  symbols (s0 = 8192 in [2, 65536])
{
  %1 = erf %0
  %2 = mul %1, %0
  return %2
}
)",
       {{"s0", 4096}}},
  };
}

Case find_case(const std::string& name) {
  const std::vector<Case> all = cases();
  return *std::find_if(all.begin(), all.end(), [&](const Case& c) { return name == c.name; });
}

TEST(Memory, FullSectorsAndNoBankConflicts) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const KernelRunner runner(c.text);
    ASSERT_FALSE(runner.proposal.candidates.empty());
    const auto inputs = random_inputs(runner.body, c.sizes, 1);
    const KernelRunner::Run run = runner.run(runner.proposal.candidates[0].schedule, c.sizes, inputs, 0);
    EXPECT_GT(run.counters.total.global_load.requests, 0u);
    for (const sim::AccessCounters& a : run.counters.accesses) {
      const bool wide = a.space == sim::Space::kGlobal && a.bytes >= 32 * a.requests;
      if (wide) {
        EXPECT_EQ(a.sectors, a.ideal_sectors) << a.text;
      }
      if (a.space == sim::Space::kShared) {
        EXPECT_EQ(a.passes, a.ideal_passes) << a.text;
      }
    }
  }
}

// The variants for any size and alignment, on the same sizes.
TEST(Memory, TransposesOfSingleElementsHaveNoBankConflictsEither) {
  for (const char* name : {"transpose_1", "transpose_2", "transpose_4", "transpose_8", "transpose_both_ways"}) {
    SCOPED_TRACE(name);
    const KernelRunner runner(find_case(name).text);
    const auto inputs = random_inputs(runner.body, {}, 1);
    int ran = 0;
    for (const Candidate& c : runner.proposal.candidates) {
      if (c.schedule.family != "transpose" || c.schedule.param("vec_x") > 1) continue;
      ++ran;
      for (const sim::AccessCounters& a : runner.run(c.schedule, {}, inputs, 0).counters.accesses) {
        EXPECT_EQ(a.sectors, a.ideal_sectors) << a.text;
        EXPECT_EQ(a.passes, a.ideal_passes) << a.text;
      }
    }
    EXPECT_GT(ran, 0);
  }
}

TEST(Memory, VectorsOfSixteenBytes) {
  const KernelRunner runner(find_case("bias").text);
  const KernelCode code = generate(runner.body, runner.proposal.candidates[0].schedule, "sm_90a", runner.context);
  EXPECT_NE(code.ptx.find("ld.global.v4"), std::string::npos);
  EXPECT_NE(code.ptx.find("st.global.v4"), std::string::npos);
  EXPECT_EQ(code.ptx.find("ld.global.u16"), std::string::npos);
}

// The read-only cache does not see what the kernel writes.
TEST(Memory, WrittenParametersAreNotReadThroughTheReadOnlyCache) {
  for (const char* text : {R"(
graph @pointwise(%0: bf16[s0, 768], %1: bf16[768]) -> bf16[s0, 768]
  symbols (s0 = 8192 in [2, 65536])
{
  %2 = expand %1 shape [s0, 768]
  %3 = add %0, %2
  return %3 -> into %0
}
)",
                           R"(
graph @reduction(%0: f32[s0, 768]) -> f32[s0, 768]
  symbols (s0 = 8192 in [2, 65536])
{
  %1 = sum %0 dims [1] keepdim true
  %2 = expand %1 shape [s0, 768]
  %3 = div %0, %2
  return %3 -> into %0
}
)"}) {
    const KernelRunner runner(text);
    for (const Candidate& c : runner.proposal.candidates) {
      const KernelCode code = generate(runner.body, c.schedule, "sm_90a", runner.context);
      EXPECT_EQ(code.ptx.find(".nc."), std::string::npos) << print(c.schedule);
    }
    runner.check({{"s0", 5}}, {1e-5, 1e-5});
  }
}

TEST(Memory, LinesPointIntoTheBody) {
  const KernelRunner runner(find_case("bias").text);
  const KernelCode code = generate(runner.body, runner.proposal.candidates[0].schedule, "sm_90a", runner.context);
  std::istringstream lines(print(runner.body));
  int line = 0, add = 0;
  for (std::string text; std::getline(lines, text);) {
    ++line;
    if (text.find(" add ") != std::string::npos) add = line;
  }
  ASSERT_GT(add, 0);
  EXPECT_NE(code.ptx.find(".loc\t1 " + std::to_string(add) + " "), std::string::npos) << code.ptx;
}

TEST(Memory, AssemblesForEveryArchitectureWithoutSpills) {
  std::string why;
  const std::shared_ptr<Assembler> assembler = load_assembler(&why);
  if (!assembler) GTEST_SKIP() << "no nvJitLink here: " << why;
  for (const Case& c : cases()) {
    for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a"}) {
      SCOPED_TRACE(std::string(c.name) + " on " + arch);
      const KernelRunner runner(c.text, arch);
      for (const Candidate& candidate : runner.proposal.candidates) {
        const KernelCode code = generate(runner.body, candidate.schedule, arch, runner.context);
        const MachineCode machine = assembler->assemble(code.ptx, arch, c.name);
        EXPECT_EQ(machine.spill_store_bytes, 0) << print(candidate.schedule);
        RecordProperty(std::string(c.name) + "_" + arch + "_registers", machine.registers);
      }
    }
  }
}

}  // namespace
}  // namespace tilewright
