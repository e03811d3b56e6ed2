#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "ir/graph.h"
#include "runtime/artifact.h"

namespace tilewright {

// A kernel that a device has loaded. Launching it needs no lock.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
};

// Memory that a launch may touch: all of a tensor's elements, or a workspace.
struct MemoryRange {
  uint64_t base = 0;
  uint64_t bytes = 0;
  bool writable = false;
  int parameter = 0;  // of the kernel
};

struct LaunchRequest {
  const char* name = "";  // display name of the step, for errors
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::array<uint32_t, 3> block{1, 1, 1};
  uint32_t dynamic_smem_bytes = 0;
  std::span<uint64_t> args;  // 8 bytes a parameter: addresses, s64, bits of f64
  void* stream = nullptr;
  std::span<const MemoryRange> memory;            // filled only for a device that checks_memory()
  std::span<const std::pair<int, LocPtr>> lines;  // `.loc` line of the kernel -> the user's line, for its reports
};

// Where kernels run: a GPU through its driver, or the simulator. Thread-safe. Failures are DeviceErrors that name the
// kernel.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;  // for people: "NVIDIA H200", "simulator of sm_90a"
  virtual std::string arch() const = 0;  // "sm_90a"
  // `ordinal` says which GPU will launch it.
  virtual std::shared_ptr<LoadedKernel> load(const Artifact& artifact, int ordinal) = 0;
  virtual void launch(const LoadedKernel& kernel, const LaunchRequest& request) = 0;
  // Zeroes memory in the stream's order; by default as the host does.
  virtual void zero(uint64_t address, uint64_t bytes, void* stream);
  // Whether a CUDA graph is being captured on the stream: nothing may be loaded then.
  virtual bool is_capturing(void* stream) const;
  // True: every launch lists the memory that it may touch.
  virtual bool checks_memory() const { return false; }
};

}  // namespace tilewright
