#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ir/context.h"
#include "runtime/artifact.h"
#include "runtime/assemble.h"
#include "schedule/schedule.h"

namespace tilewright {

// The kernels of one compiled graph, by key. A key is a hash of the canonical body, the schedule, the architecture, the
// options that kernels depend on and the generator's version; equal kernels are made once. A kernel is generated when
// it is first asked for, or ahead of that by generate_all.
class GeneratedKernels : public KernelSource {
 public:
  explicit GeneratedKernels(Context ctx);
  ~GeneratedKernels() override;

  std::string add(const Graph& body, const Schedule& schedule);
  std::shared_ptr<const Artifact> get(const std::string& key) override;

  // Generates the kernels on up to `threads` threads (0: as many as there are cores). Gives for each key the error that
  // making it threw, or null.
  std::vector<std::exception_ptr> generate_all(const std::vector<std::string>& keys, int threads);

 private:
  struct Entry;
  std::shared_ptr<const Artifact> make(const std::string& key, const Entry& entry);

  const Context ctx_;
  std::shared_ptr<Assembler> assembler_;  // null on the simulator, and where the driver assembles
  mutable std::mutex mutex_;
  std::condition_variable made_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;
};

}  // namespace tilewright
