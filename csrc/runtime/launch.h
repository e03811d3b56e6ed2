#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/caller.h"
#include "runtime/device.h"
#include "runtime/plan.h"
#include "runtime/sizes.h"

namespace tilewright {

// One launch step made ready to run: its expressions are programs, its variants keep their loaded kernels.
class LaunchRunner {
 public:
  // `may_copy(slot)` says whether the value in a slot may be replaced by a copy of its own.
  LaunchRunner(const Launch& launch, const SymbolIndex& plan_symbols, KernelSource* kernels, Device* device,
               std::vector<bool> may_copy);
  ~LaunchRunner();

  void run(Caller& caller, std::span<const int64_t> plan_symbols);

  struct Count {
    std::string key;
    uint64_t launches;
  };
  std::vector<Count> counts() const;

 private:
  struct Output {
    Slot slot, into;
    const Type* type;
    std::vector<SizeProgram> sizes, strides;
  };
  struct Bound {
    SizeProgram value;
    int64_t bound;
  };
  // A kernel loaded on one GPU.
  struct Loaded {
    std::shared_ptr<const Artifact> artifact;
    std::shared_ptr<LoadedKernel> kernel;
    int ordinal;
    std::array<SizeProgram, 3> grid;
    SizeProgram dynamic_smem;
    std::vector<SizeProgram> workspaces;
  };
  struct VariantState {
    const Variant* variant;
    std::vector<Bound> divisible, at_most;
    std::atomic<const Loaded*> latest{nullptr};
    std::map<int, std::unique_ptr<Loaded>> by_ordinal;  // guarded by mutex_
    std::atomic<uint64_t> launches{0};
  };
  struct Operands;

  void allocate_outputs(Caller& caller, std::span<const int64_t> plan_symbols) const;
  void part_overlapping_inputs(Caller& caller) const;
  void read_operands(Caller& caller, Operands& operands) const;
  VariantState& choose(const Operands& operands, std::span<const int64_t> symbols);
  const Loaded& loaded(VariantState& state, Caller& caller);
  void launch(const Loaded& loaded, Caller& caller, Operands& operands, std::span<const int64_t> symbols) const;

  const Launch& launch_;
  KernelSource* kernels_;
  Device* device_;
  std::vector<bool> may_copy_;
  SymbolIndex body_;
  std::vector<SizeProgram> symbols_;
  std::vector<Output> outputs_;
  std::vector<std::unique_ptr<VariantState>> variants_;
  bool writes_inputs_ = false;
  bool asks_for_alignment_ = false;
  std::mutex mutex_;
};

}  // namespace tilewright
