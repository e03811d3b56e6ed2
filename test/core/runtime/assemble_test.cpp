#include "runtime/assemble.h"

#include <gtest/gtest.h>

#include <thread>

#include "../load_assembler.h"
#include "support/error.h"

namespace tilewright {
namespace {

// y[i] = 2 * x[i], one thread an element, with 1 KiB of shared memory so that the log tells of it.
std::string kernel(const std::string& arch, const std::string& name) {
  return ".version 8.0\n.target " + arch + "\n.address_size 64\n.visible .entry " + name +
         R"((.param .u64 px, .param .u64 py)
{
  .reg .b64 %rd<6>;
  .reg .b32 %r<4>;
  .reg .f32 %f<3>;
  .shared .align 4 .b8 buffer[1024];
  ld.param.u64 %rd1, [px];
  ld.param.u64 %rd2, [py];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.u64 %rd4, %rd1, %rd3;
  add.u64 %rd5, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4];
  add.f32 %f2, %f1, %f1;
  mov.u32 %r2, buffer;
  add.u32 %r3, %r2, %r1;
  st.shared.f32 [buffer], %f2;
  ld.shared.f32 %f2, [%r3];
  st.global.f32 [%rd5], %f2;
  ret;
}
)";
}

class NvJitLink : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    assembler_ = load_assembler(&why);
    if (!assembler_) GTEST_SKIP() << "no nvJitLink here: " << why;
  }
  std::shared_ptr<Assembler> assembler_;
};

TEST_F(NvJitLink, AssemblesForEveryArchitecture) {
  for (const std::string arch : {"sm_80", "sm_86", "sm_89", "sm_90a"}) {
    const MachineCode code = assembler_->assemble(kernel(arch, "twice"), arch, "twice");
    EXPECT_EQ(code.cubin.substr(1, 3), "ELF") << arch;
    EXPECT_GT(code.registers, 3) << arch;
    EXPECT_LT(code.registers, 64) << arch;
    EXPECT_GE(code.static_smem_bytes, 1024) << arch;
    EXPECT_EQ(code.spill_store_bytes, 0) << arch;
  }
}

TEST_F(NvJitLink, AFaultNamesKernelAndLine) {
  std::string ptx = kernel("sm_80", "twice");
  ptx.replace(ptx.find("add.f32"), 7, "add.f31");
  try {
    assembler_->assemble(ptx, "sm_80", "twice_of_x");
    FAIL() << "assembled " << ptx;
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("twice_of_x for sm_80"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("line 17"), std::string::npos) << error.what();
  }
}

TEST_F(NvJitLink, ManyThreads) {
  std::vector<std::thread> threads;
  std::vector<int> registers(8, 0);
  for (size_t i = 0; i < registers.size(); ++i) {
    threads.emplace_back([&, i] {
      registers[i] = assembler_->assemble(kernel("sm_90a", "k" + std::to_string(i)), "sm_90a", "k").registers;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int n : registers) EXPECT_EQ(n, registers[0]);
}

TEST(Assembler, SaysWhyThereIsNone) {
  std::string why;
  const auto assembler = Assembler::load({"/nowhere/libnvJitLink.so.13"}, &why);
  EXPECT_TRUE(assembler || why.find("/nowhere/libnvJitLink.so.13") != std::string::npos) << why;
}

TEST(Assembler, ReadsTheLog) {
  MachineCode code;
  read_resource_usage(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Function properties for k\n"
      "    416 bytes stack frame, 24 bytes spill stores, 28 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 1 barriers, 416 bytes cumulative stack size, 2048 bytes smem, 560 "
      "bytes cmem[0]\n",
      code);
  EXPECT_EQ(code.registers, 168);
  EXPECT_EQ(code.stack_bytes, 416);
  EXPECT_EQ(code.spill_store_bytes, 24);
  EXPECT_EQ(code.spill_load_bytes, 28);
  EXPECT_EQ(code.static_smem_bytes, 2048);
}

}  // namespace
}  // namespace tilewright
