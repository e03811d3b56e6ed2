#pragma once

#include <memory>
#include <string>

#include "runtime/device.h"
#include "target/gpu.h"

namespace tilewright {

// The CUDA driver as a Device. libcuda.so.1 is loaded on first use and never linked. Throws DeviceError where there is
// no driver or GPU, and UserError where the GPU is older than sm_80.
std::unique_ptr<Device> make_cuda_device(int ordinal);

// What the driver says of a GPU: the row for one that the GPU table does not know (rates and times from the nearest row
// of the table, scaled by the attributes).
GpuFacts gpu_facts_of_driver(int ordinal);

// Name and architecture, "NVIDIA H200" and "sm_90".
struct CudaGpu {
  std::string name;
  int capability = 0;      // 90
  int driver_version = 0;  // 13000
};
CudaGpu cuda_gpu(int ordinal);

}  // namespace tilewright
