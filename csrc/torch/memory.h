#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <string>

namespace tilewright {

// Tensors made without a trip through the dispatcher: a plan makes one for each result of a kernel.

// The current device of its kind must be `device`.
at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype, c10::Device device);

// A tensor over `base`'s storage; the offset counts in elements from the storage's begin.
// Throws c10::Error where it would reach beyond the storage.
at::Tensor view_of(const at::Tensor& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t storage_offset);

// The stream on which PyTorch enqueues work for a GPU now, as the driver takes it.
void* current_stream(c10::Device device);

}  // namespace tilewright
