#include "torch/memory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <c10/core/Allocator.h>
#include <dlfcn.h>

#include "support/error.h"

namespace tilewright {

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype, c10::Device device) {
  if (device.is_cpu()) return at::Tensor(at::detail::empty_strided_cpu(sizes, strides, dtype));
  const c10::DispatchKeySet keys(c10::computeDispatchKey(dtype, std::nullopt, device));
  return at::Tensor(at::detail::empty_strided_generic(sizes, strides, c10::GetAllocator(device.type()), keys, dtype));
}

at::Tensor view_of(const at::Tensor& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t storage_offset) {
  at::native::checkInBoundsForStorage(sizes, strides, storage_offset, base.dtype(), base.storage());
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(base.storage()),
                                                             base.key_set(), base.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, storage_offset);
  return view;
}

namespace {

// A function with C linkage that PyTorch keeps stable for compiled models. It is looked up in the library that the
// process has loaded, so that one build serves a PyTorch with and without CUDA.
using CurrentStream = int (*)(int32_t device_index, void** stream);

CurrentStream find_current_stream() {
  for (const char* library : {"libtorch_cuda.so", "libtorch_cuda.so.2"}) {
    void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) continue;
    if (void* symbol = dlsym(handle, "aoti_torch_get_current_cuda_stream")) {
      return reinterpret_cast<CurrentStream>(symbol);
    }
  }
  return reinterpret_cast<CurrentStream>(dlsym(RTLD_DEFAULT, "aoti_torch_get_current_cuda_stream"));
}

}  // namespace

void* current_stream(c10::Device device) {
  if (!device.is_cuda()) return nullptr;
  static const CurrentStream get = find_current_stream();
  if (!get) throw InternalError("this PyTorch does not tell its current CUDA stream");
  void* stream = nullptr;
  if (get(device.index(), &stream) != 0) throw DeviceError("PyTorch has no current stream for " + device.str());
  return stream;
}

}  // namespace tilewright
