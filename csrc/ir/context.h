#pragma once

#include <functional>
#include <string>

#include "support/options.h"
#include "target/gpu.h"

namespace tilewright {

// What a pass, the schedule, the cost model and fusion may ask; there is no other state.
struct Context {
  Options options;
  GpuFacts gpu;
  // Receives each stage's text, named "03_decompose.tw"; may be empty.
  std::function<void(const std::string& name, const std::string& text)> dump;
};

}  // namespace tilewright
