#include "runtime/cuda_driver.h"

#include <gtest/gtest.h>

#include "support/error.h"

namespace tilewright {
namespace {

// With a GPU: its facts and an error of the driver; without: the sentence that says so.
TEST(CudaDriver, NamesTheGpuOrSaysWhyThereIsNone) {
  std::unique_ptr<Device> device;
  try {
    device = make_cuda_device(0);
  } catch (const DeviceError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.rfind("no CUDA driver", 0) == 0 || text.rfind("the CUDA driver", 0) == 0 ||
                text.rfind("no GPU 0", 0) == 0)
        << text;
    EXPECT_THROW(gpu_facts_of_driver(0), DeviceError);
    return;
  }
  EXPECT_FALSE(device->name().empty());
  EXPECT_EQ(device->arch().rfind("sm_", 0), 0u) << device->arch();
  EXPECT_GT(gpu_facts_of_driver(0).sms, 0);
  EXPECT_THROW(make_cuda_device(1000), DeviceError);

  Artifact artifact;
  artifact.entry = "broken";
  artifact.ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry broken() {\n  no.such;\n}\n";
  try {
    device->load(artifact, 0);
    FAIL() << "loaded " << artifact.ptx;
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("kernel broken on " + device->name()), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tilewright
