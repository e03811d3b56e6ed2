#include "compiler/assembled.h"

#include <algorithm>

namespace tilewright {

namespace {

// The model does not tell less apart (docs/cost-model.md).
constexpr double kClearlySlower = 1.05;

std::string key_of(const std::string& body, const Schedule& schedule) { return body + print(schedule); }

}  // namespace

bool AssembledKernels::correct(Kernel& kernel, const MachineCode& code, const GpuFacts& gpu) {
  Candidate& candidate = kernel.variants[static_cast<size_t>(kernel.priced)];
  const Used used{code.registers, static_cast<int>(std::max(code.spill_store_bytes, code.spill_load_bytes))};
  const bool is_new = used_.emplace(key_of(print(kernel.group.body), candidate.schedule), used).second;
  candidate.footprint.registers_per_thread = used.registers;
  candidate.footprint.spill_bytes = used.spill_bytes;
  const double decided_by_us = kernel.time.kernel_us;
  kernel.parts = price_kernel(candidate.footprint, gpu);
  kernel.time.kernel_us = kernel.parts.total_us;
  return is_new && kernel.time.kernel_us > kClearlySlower * decided_by_us;
}

void AssembledKernels::correct(const Graph& body, Proposal& proposal) const {
  if (used_.empty()) return;
  const std::string text = print(body);
  for (Candidate& candidate : proposal.candidates) {
    const auto it = used_.find(key_of(text, candidate.schedule));
    if (it == used_.end()) continue;
    candidate.footprint.registers_per_thread = it->second.registers;
    candidate.footprint.spill_bytes = it->second.spill_bytes;
  }
}

}  // namespace tilewright
