#pragma once

#include <cstddef>

namespace tilewright {

// CUDA's libdevice as LLVM bitcode, part of this library: the transcendental functions that eager's kernels use.
extern const unsigned char kLibdevice[];
extern const size_t kLibdeviceBytes;

}  // namespace tilewright
