#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/artifact.h"
#include "runtime/caller.h"
#include "runtime/device.h"
#include "runtime/plan.h"
#include "runtime/sizes.h"

namespace tilewright {

// Runs a plan. Made once for a plan: expressions become programs over numbered symbols, and each variant keeps its
// loaded kernel, so that a run does no look-up by name, takes no lock, and evaluates only what depends on sizes.
//
// Thread-safe: what a run needs lives in its Caller and on its stack.
class Executor {
 public:
  // `kernels` and `device` may be null for a plan without launches.
  Executor(std::shared_ptr<const Plan> plan, std::shared_ptr<KernelSource> kernels, std::shared_ptr<Device> device);
  ~Executor();

  // The caller's slots of the plan's parameters are filled; afterwards those that the outputs name are. `symbols`
  // receives the values of the symbols, by number, for outputs that are expressions.
  void run(Caller& caller, std::vector<int64_t>& symbols) const;

  const Plan& plan() const { return *plan_; }
  const SymbolIndex& symbols() const { return symbols_; }

  // How often each variant of a launch step ran, in the plan's order.
  struct VariantCount {
    size_t step;
    std::string key;
    uint64_t launches;
  };
  std::vector<VariantCount> counts() const;

 private:
  struct Prepared;
  // `filled_by` is the step that fills each slot, -1 for parameters; `may_copy` says which slots a copy may replace.
  void add_checks(const std::vector<int>& filled_by, const std::vector<bool>& may_copy);

  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<KernelSource> kernels_;
  std::shared_ptr<Device> device_;
  SymbolIndex symbols_;
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace tilewright
