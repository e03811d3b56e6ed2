#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "torch/torch_caller.h"

namespace tilewright {

// A compiled graph bound to the device that it runs on.
class Compiled {
 public:
  Compiled(std::shared_ptr<CompiledGraph> graph, std::shared_ptr<Device> device, c10::Device target,
           PreparedSteps::RunHost run_host);

  // Runs the plan below autograd and autocast, on the current stream of its device. The inputs die at their last use.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs) const;

  const CompiledGraph& graph() const { return *graph_; }
  const Executor& executor() const { return executor_; }

 private:
  std::shared_ptr<CompiledGraph> graph_;
  Executor executor_;
  PreparedSteps steps_;
};

}  // namespace tilewright
