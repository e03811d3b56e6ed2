#include <cstdio>
#include <cstring>
#include <map>

#include "compiler/compile.h"
#include "simulator/simulator.h"

namespace tilewright {

namespace {

class SimulatedKernel : public LoadedKernel {
 public:
  SimulatedKernel(std::shared_ptr<const sim::Module> module, std::string entry)
      : module(std::move(module)), entry(std::move(entry)) {}
  const std::shared_ptr<const sim::Module> module;
  const std::string entry;
};

class SimulatorDevice : public Device {
 public:
  SimulatorDevice(std::string arch, bool check) : arch_(std::move(arch)), check_(check) {}

  std::string name() const override { return "simulator of " + arch_; }
  std::string arch() const override { return arch_; }
  bool checks_memory() const override { return true; }

  std::shared_ptr<LoadedKernel> load(const Artifact& artifact, int) override {
    try {
      return std::make_shared<SimulatedKernel>(sim::parse(artifact.ptx), artifact.entry);
    } catch (const UserError& e) {
      throw DeviceError("the simulator does not take the PTX of " + artifact.entry + ": " + e.what());
    }
  }

  void launch(const LoadedKernel& kernel, const LaunchRequest& request) override {
    const auto& simulated = static_cast<const SimulatedKernel&>(kernel);
    sim::LaunchConfig config;
    config.grid = request.grid;
    config.block = request.block;
    config.dynamic_smem_bytes = request.dynamic_smem_bytes;
    config.check_races = config.check_uninitialized = check_;
    std::map<int, std::string> names;
    for (const auto& [line, loc] : request.lines)
      if (loc) names[line] = loc->op + " at " + loc->file + ":" + std::to_string(loc->line);
    config.names = &names;
    config.counters = false;  // nobody reads them here, and they cost time
    std::vector<std::vector<std::byte>> args;
    for (uint64_t value : request.args) args.push_back(sim::arg(value));
    std::vector<sim::Allocation> memory;
    for (const MemoryRange& range : request.memory) {
      memory.push_back({range.base, range.bytes, "parameter " + std::to_string(range.parameter), range.writable});
    }
    try {
      const std::string printed = sim::launch(*simulated.module, simulated.entry, config, args, memory).printed;
      std::fwrite(printed.data(), 1, printed.size(), stdout);
    } catch (const std::runtime_error& e) {
      throw DeviceError(std::string(request.name) + ": " + e.what());
    }
  }

 private:
  const std::string arch_;
  const bool check_;
};

}  // namespace

std::unique_ptr<Device> make_simulator_device(const std::string& arch, bool check) {
  return std::make_unique<SimulatorDevice>(arch, check);
}

}  // namespace tilewright
