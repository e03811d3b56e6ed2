// What happens where the driver or the assembler refuses: both are fakes that are loaded before the real ones would be.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>

#include "compiler/compile.h"
#include "runtime/assemble.h"
#include "runtime/cuda_driver.h"
#include "support/error.h"
#include "target/gpu.h"

namespace tilewright {
namespace {

constexpr int kUnsupportedPtxVersion = 222;  // CUDA_ERROR_UNSUPPORTED_PTX_VERSION

class FakeDriver : public testing::Test {
 protected:
  // Later requests for a library of that name find it.
  static void* load(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << dlerror();
    return library;
  }
  void SetUp() override { cuda_ = load(TILEWRIGHT_FAKE_CUDA); }
  void TearDown() override {
    set("fake_gpus", 1);
    set("fake_cc_major", 9);
    set("fake_cc_minor", 0);
    set("fake_load_result", 0);
    set("fake_launch_result", 0);
  }
  void set(const char* answer, int value) { *static_cast<int*>(dlsym(cuda_, answer)) = value; }

  template <typename Error, typename Run>
  static std::string error_of(Run&& run) {
    try {
      run();
    } catch (const Error& error) {
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  void* cuda_ = nullptr;
};

Artifact artifact() {
  Artifact a;
  a.entry = "gelu";
  a.ptx = ".version 9.9";
  return a;
}

TEST_F(FakeDriver, TooOldForThePtx) {
  set("fake_load_result", kUnsupportedPtxVersion);
  const auto device = make_cuda_device(0);
  EXPECT_EQ(
      error_of<DeviceError>([&] { device->load(artifact(), 0); }),
      "kernel gelu on Fake GPU: the CUDA driver (CUDA 12.4) is too old for the PTX: update the driver, or install "
      "nvidia-nvjitlink");
}

TEST_F(FakeDriver, ARefusedLaunchNamesTheKernel) {
  set("fake_launch_result", 1);
  const auto device = make_cuda_device(0);
  const auto kernel = device->load(artifact(), 0);
  LaunchRequest request;
  request.name = "gelu_add";
  EXPECT_EQ(error_of<DeviceError>([&] { device->launch(*kernel, request); }),
            "kernel gelu_add on Fake GPU: CUDA_ERROR_FAKE (made up); an error of earlier work on the GPU may surface "
            "here");
}

TEST_F(FakeDriver, NoGpu) {
  set("fake_gpus", 0);
  EXPECT_EQ(error_of<DeviceError>([] { make_cuda_device(0); }), "no GPU 0: the driver has 0");
}

TEST_F(FakeDriver, AGpuOlderThanTheTable) {
  set("fake_cc_major", 7);
  EXPECT_NE(error_of<UserError>([] { make_cuda_device(0); }).find("Fake GPU"), std::string::npos);
  EXPECT_THROW(make_context({}, "cuda:0"), UserError);
}

const char* const kTwoGroups = R"tw(graph @g(%x: f32[64, 32] strides [32, 1]) -> (f32[64, 32], f32[64, 32])
{
  %a = call aten.sin.default(%x) : f32[64, 32] strides [32, 1] @ 0
  %b = call aten.cumsum.default(%x, 0) : f32[64, 32] strides [32, 1] @ 1
  %c = call aten.exp.default(%b) : f32[64, 32] strides [32, 1] @ 2
  return %a, %c
}
loc 0 = "model.py":12 "x.sin()" aten.sin.default
loc 1 = "model.py":13 "x.cumsum(0)" aten.cumsum.default
loc 2 = "model.py":14 "y.exp()" aten.exp.default
)tw";

Options generate_all(bool strict) {
  Options options;
  options.kernels = "generate";
  options.strict = strict;
  return options;
}

TEST_F(FakeDriver, AGpuNewerThanTheTableTakesPtx) {
  set("fake_cc_major", 12);
  const auto graph = compile_graph(kTwoGroups, make_context(generate_all(true), "cuda:0"));
  int launches = 0;
  for (const Step& step : graph->plan.steps) {
    const auto* launch = std::get_if<Launch>(&step);
    if (!launch) continue;
    ++launches;
    const auto made = graph->kernels->get(launch->variants.back().key);
    EXPECT_EQ(made->arch, "sm_80");
    EXPECT_NE(made->ptx.find(".target sm_80"), std::string::npos);
    EXPECT_TRUE(made->machine_code.empty());
  }
  EXPECT_EQ(launches, 2);
}

TEST_F(FakeDriver, WithoutNvJitLinkTheDriverAssembles) {
  std::string why;
  if (Assembler::load({}, &why)) GTEST_SKIP() << "nvJitLink is here";
  EXPECT_NE(why.find("libnvJitLink.so"), std::string::npos) << why;
  const auto graph = compile_graph(kTwoGroups, make_context(generate_all(true), "cuda:0"));
  const auto& launch = std::get<Launch>(graph->plan.steps[0]);
  const auto made = graph->kernels->get(launch.variants.back().key);
  EXPECT_EQ(made->arch, "sm_90a");
  EXPECT_TRUE(made->machine_code.empty());
  EXPECT_NE(make_cuda_device(0)->load(*made, 0), nullptr);
}

class FakeAssembler : public FakeDriver {
 protected:
  void SetUp() override {
    FakeDriver::SetUp();
    // Asked before the fake one is loaded, which would then answer.
    static const bool real_one = Assembler::load({}, nullptr) != nullptr;
    if (real_one) GTEST_SKIP() << "nvJitLink is here";
    load(TILEWRIGHT_FAKE_NVJITLINK);
  }
};

// The group's operators run as calls; the warning names them and the user's line.
TEST_F(FakeAssembler, AnInternalFailureInOneGroup) {
  const auto graph = compile_graph(kTwoGroups, make_context(generate_all(false), "cuda:0"));
  ASSERT_EQ(graph->warnings.size(), 1u) << print(graph->plan);
  EXPECT_EQ(graph->warnings[0],
            "tilewright: no kernel could be made for sin: nvJitLink 13.0 cannot read the PTX of kernel tw_pointwise "
            "for sm_90a "
            "(error 4)\n\n  model.py:12  x.sin()  aten.sin.default\n"
            "left to PyTorch; TILEWRIGHT_STRICT=1 makes this an error");
  const std::string plan = print(graph->plan);
  EXPECT_NE(plan.find("call aten.sin.default($0)"), std::string::npos) << plan;
  EXPECT_NE(plan.find("launch \"exp\""), std::string::npos) << plan;
}

TEST_F(FakeAssembler, StrictRaises) {
  EXPECT_THROW(compile_graph(kTwoGroups, make_context(generate_all(true), "cuda:0")), DeviceError);
}

}  // namespace
}  // namespace tilewright
