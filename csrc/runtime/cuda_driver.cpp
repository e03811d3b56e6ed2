#include "runtime/cuda_driver.h"

#include <cuda.h>

#include <array>

#include "runtime/shared_library.h"
#include "support/error.h"

namespace tilewright {

namespace {

// The driver's functions in use, each by the name that it is exported under since CUDA 12.0.
// clang-format off
#define TW_DRIVER_FUNCTIONS(X) \
  X(cuInit) \
  X(cuDriverGetVersion) \
  X(cuDeviceGet) \
  X(cuDeviceGetCount) \
  X(cuDeviceGetName) \
  X(cuDeviceGetAttribute) \
  X(cuDevicePrimaryCtxRetain) \
  X(cuCtxGetCurrent) \
  X(cuCtxSetCurrent) \
  X(cuGetErrorName) \
  X(cuGetErrorString) \
  X(cuLibraryLoadData) \
  X(cuLibraryUnload) \
  X(cuLibraryGetKernel) \
  X(cuKernelGetFunction) \
  X(cuFuncSetAttribute) \
  X(cuFuncGetAttribute) \
  X(cuLaunchKernelEx) \
  X(cuMemsetD8Async) \
  X(cuStreamIsCapturing)
// clang-format on

struct Driver {
#define TW_DECLARE(name) decltype(&::name) name = nullptr;
  TW_DRIVER_FUNCTIONS(TW_DECLARE)
#undef TW_DECLARE
  int version = 0;  // 12040 is CUDA 12.4

  // "CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed)"
  std::string text(CUresult result) const {
    const char *name = nullptr, *what = nullptr;
    if (cuGetErrorName(result, &name) != CUDA_SUCCESS) return "error " + std::to_string(result);
    cuGetErrorString(result, &what);
    return std::string(name) + (what ? " (" + std::string(what) + ")" : "");
  }
  void check(CUresult result, const std::string& doing) const {
    if (result != CUDA_SUCCESS) throw DeviceError(doing + ": " + text(result));
  }
};

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Driver load_driver() {
  std::string error;
  const SharedLibrary library = SharedLibrary::open("libcuda.so.1", &error);
  if (!library) throw DeviceError("no CUDA driver: " + error);
  Driver driver;
  driver.cuDriverGetVersion = reinterpret_cast<decltype(&::cuDriverGetVersion)>(library.find("cuDriverGetVersion"));
  if (driver.cuDriverGetVersion) driver.cuDriverGetVersion(&driver.version);
  std::string missing;
#define TW_FIND(name)                                                     \
  driver.name = reinterpret_cast<decltype(&::name)>(library.find(#name)); \
  if (!driver.name) missing = #name;
  TW_DRIVER_FUNCTIONS(TW_FIND)
#undef TW_FIND
  if (!missing.empty()) {
    throw DeviceError("the CUDA driver is too old: it is of CUDA " + version_text(driver.version) +
                      ", 12.0 or newer is needed");
  }
  const CUresult result = driver.cuInit(0);
  if (result != CUDA_SUCCESS) throw DeviceError("the CUDA driver does not start: " + driver.text(result));
  return driver;
}

// Loaded once a process; a failure is tried again, since a device may have become visible.
const Driver& driver() {
  static const Driver loaded = load_driver();
  return loaded;
}

CUdevice device_of(int ordinal) {
  int count = 0;
  driver().check(driver().cuDeviceGetCount(&count), "counting GPUs");
  if (ordinal < 0 || ordinal >= count) {
    throw DeviceError("no GPU " + std::to_string(ordinal) + ": the driver has " + std::to_string(count));
  }
  CUdevice device;
  driver().check(driver().cuDeviceGet(&device, ordinal), "GPU " + std::to_string(ordinal));
  return device;
}

GpuAttributes attributes_of(CUdevice device) {
  const auto get = [&](CUdevice_attribute attribute) {
    int value = 0;
    return driver().cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
  };
  GpuAttributes a;
  std::array<char, 256> name{};
  driver().cuDeviceGetName(name.data(), static_cast<int>(name.size()), device);
  a.name = name.data();
  a.cc_major = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  a.cc_minor = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  a.sms = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  a.max_threads_per_sm = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  a.max_blocks_per_sm = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  a.registers_per_sm = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  a.smem_per_sm_bytes = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  a.smem_optin_bytes = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  a.smem_reserved_bytes = get(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  a.l2_bytes = get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  a.clock_khz = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  a.memory_clock_khz = get(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  a.memory_bus_bits = get(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  return a;
}

struct CudaKernel final : LoadedKernel {
  ~CudaKernel() override {
    if (library) driver().cuLibraryUnload(library);  // fails when the driver is already down, which is as good
  }
  CUlibrary library = nullptr;
  CUfunction function = nullptr;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int ordinal) : attributes_(attributes_of(device_of(ordinal))) {
    const GpuChoice choice = gpu_from_attributes(attributes_);
    if (!choice.verdict) throw UserError(choice.verdict.why_not);
    arch_ = choice.gpu.arch;
    as_ptx_ = choice.gpu.as_ptx;
  }

  std::string name() const override { return attributes_.name; }
  std::string arch() const override { return arch_; }

  std::shared_ptr<LoadedKernel> load(const Artifact& artifact, int ordinal) override {
    const CUdevice device = device_of(ordinal);
    enter_context(device);
    auto kernel = std::make_shared<CudaKernel>();
    kernel->library = load_library(artifact);
    const std::string doing = "kernel " + artifact.entry + " on " + attributes_.name;
    CUkernel handle;
    driver().check(driver().cuLibraryGetKernel(&handle, kernel->library, artifact.entry.c_str()), doing);
    // Loads the code into the context now: a launch inside a CUDA graph's capture must not.
    driver().check(driver().cuKernelGetFunction(&kernel->function, handle), doing);
    if (!artifact.dynamic_smem_bytes.is_constant(0)) allow_shared_memory(kernel->function, doing);
    return kernel;
  }

  bool is_capturing(void* stream) const override {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    driver().check(driver().cuStreamIsCapturing(static_cast<CUstream>(stream), &status), "the current stream");
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
  }

  void zero(uint64_t address, uint64_t bytes, void* stream) override {
    driver().check(driver().cuMemsetD8Async(address, 0, bytes, static_cast<CUstream>(stream)),
                   "zeroing memory of " + attributes_.name);
  }

  void launch(const LoadedKernel& kernel, const LaunchRequest& request) override {
    CUlaunchConfig config{};
    config.gridDimX = request.grid[0];
    config.gridDimY = request.grid[1];
    config.gridDimZ = request.grid[2];
    config.blockDimX = request.block[0];
    config.blockDimY = request.block[1];
    config.blockDimZ = request.block[2];
    config.sharedMemBytes = request.dynamic_smem_bytes;
    config.hStream = static_cast<CUstream>(request.stream);
    // Every parameter takes 8 bytes, so the words are the parameter buffer.
    size_t size = request.args.size_bytes();
    std::array<void*, 5> extra = {CU_LAUNCH_PARAM_BUFFER_POINTER, request.args.data(), CU_LAUNCH_PARAM_BUFFER_SIZE,
                                  &size, CU_LAUNCH_PARAM_END};
    const CUfunction function = static_cast<const CudaKernel&>(kernel).function;
    const CUresult result = driver().cuLaunchKernelEx(&config, function, nullptr, extra.data());
    if (result != CUDA_SUCCESS) {
      throw DeviceError("kernel " + std::string(request.name) + " on " + attributes_.name + ": " +
                        driver().text(result) + "; an error of earlier work on the GPU may surface here");
    }
  }

 private:
  // PyTorch's work runs in the primary context of a GPU; so does ours.
  void enter_context(CUdevice device) const {
    CUcontext current = nullptr;
    driver().check(driver().cuCtxGetCurrent(&current), "the current context");
    if (current) return;
    driver().check(driver().cuDevicePrimaryCtxRetain(&current, device), "the context of " + attributes_.name);
    driver().check(driver().cuCtxSetCurrent(current), "the context of " + attributes_.name);
  }

  CUlibrary load_library(const Artifact& artifact) const {
    const auto code = artifact.machine_code.find(arch_);
    const bool has_cubin = !as_ptx_ && code != artifact.machine_code.end() && !code->second.cubin.empty();
    std::array<char, 4096> log{};
    std::array<CUjit_option, 2> options = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size())};
    CUlibrary library = nullptr;
    const CUresult result =
        has_cubin
            ? driver().cuLibraryLoadData(&library, code->second.cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0)
            : driver().cuLibraryLoadData(&library, artifact.ptx.c_str(), options.data(), values.data(),
                                         static_cast<unsigned>(options.size()), nullptr, nullptr, 0);
    if (result == CUDA_SUCCESS) return library;
    const std::string what = "kernel " + artifact.entry + " on " + attributes_.name;
    if (result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
      throw DeviceError(what + ": the CUDA driver (CUDA " + version_text(driver().version) +
                        ") is too old for the PTX: update the driver, or install nvidia-nvjitlink");
    }
    throw DeviceError(what + ": " + driver().text(result) + (log[0] ? "\n" + std::string(log.data()) : ""));
  }

  // Shared memory over 48 KiB must be asked for; how much a launch takes may depend on sizes, so all of it is.
  void allow_shared_memory(CUfunction function, const std::string& doing) const {
    int static_bytes = 0;
    driver().check(driver().cuFuncGetAttribute(&static_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function), doing);
    const int most = static_cast<int>(attributes_.smem_optin_bytes) - static_bytes;
    driver().check(driver().cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most), doing);
  }

  GpuAttributes attributes_;
  std::string arch_;
  bool as_ptx_ = false;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(int ordinal) { return std::make_unique<CudaDevice>(ordinal); }

GpuFacts gpu_facts_of_driver(int ordinal) {
  const GpuChoice choice = gpu_from_attributes(attributes_of(device_of(ordinal)));
  if (!choice.verdict) throw UserError(choice.verdict.why_not);
  return choice.gpu;
}

}  // namespace tilewright
