#pragma once

#include <memory>
#include <string>

#include "runtime/device.h"
#include "target/gpu.h"

namespace tilewright {

// The CUDA driver as a Device. libcuda.so.1 is loaded on first use and never linked.
//
// Throws DeviceError where there is no driver or no such GPU, and UserError where the GPU is older than the oldest that
// kernels are made for.
std::unique_ptr<Device> make_cuda_device(int ordinal);

// The row of the GPU table for a GPU of this machine, or one filled from the driver's attributes.
GpuFacts gpu_facts_of_driver(int ordinal);

}  // namespace tilewright
