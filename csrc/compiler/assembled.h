#pragma once

#include <map>
#include <string>

#include "fusion/partition.h"
#include "runtime/artifact.h"

namespace tilewright {

// What the assembler said of the kernels made so far, by body and schedule. It takes the place of the schedule's
// estimates, so that a group whose registers or spills make it slower than was predicted is weighed again.
class AssembledKernels {
 public:
  // Corrects the kernel's footprint and times. True where T is now clearly more than what was decided by, and the
  // figures are new: a partition that is asked for again may come out differently.
  bool correct(Kernel& kernel, const MachineCode& code, const GpuFacts& gpu);
  // Corrects those candidates whose kernels have been made.
  void correct(const Graph& body, Proposal& proposal) const;

 private:
  struct Used {
    int registers = 0;
    int spill_bytes = 0;
  };
  std::map<std::string, Used> used_;  // by text of body and schedule
};

}  // namespace tilewright
