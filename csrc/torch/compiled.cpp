#include "torch/compiled.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace tilewright {

Compiled::Compiled(std::shared_ptr<CompiledGraph> graph, std::shared_ptr<Device> device, c10::Device target,
                   PreparedSteps::RunHost run_host)
    : graph_(std::move(graph)),
      executor_(std::shared_ptr<const Plan>(graph_, &graph_->plan), graph_->kernels, std::move(device)),
      steps_(graph_->plan, executor_.symbols(), target, std::move(run_host)) {}

std::vector<c10::IValue> Compiled::run(std::vector<c10::IValue> inputs) const {
  const size_t expected = graph_->plan.parameters.size();
  if (inputs.size() != expected) {
    throw UserError("found " + std::to_string(inputs.size()) + " inputs, the graph was compiled for " +
                    std::to_string(expected));
  }
  // The graph is what autograd and autocast made of the user's program: nothing below it may do their work again.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard below_autocast(c10::autocast_dispatch_keyset);
  const c10::AutoGradMode no_grad(false);
  const c10::OptionalDeviceGuard device(steps_.target.is_cpu() ? std::nullopt
                                                               : std::optional<c10::Device>(steps_.target));

  TorchCaller caller(steps_, graph_->plan.slots(), std::move(inputs));
  std::vector<int64_t> symbols;
  executor_.run(caller, symbols);
  return caller.outputs(symbols);
}

}  // namespace tilewright
