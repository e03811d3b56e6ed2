#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/context.h"
#include "runtime/artifact.h"
#include "runtime/device.h"
#include "runtime/plan.h"

namespace tilewright {

// One compiled graph: what runs, where its kernels come from, and why it looks as it does.
struct CompiledGraph {
  Plan plan;
  std::shared_ptr<KernelSource> kernels;
  std::string report_json;                                // kernels, calls, decisions, times; see fusion/report.h
  std::vector<std::pair<std::string, double>> phases_us;  // wall time of each stage, in order
  std::vector<std::string> warnings;                      // groups left to PyTorch because of an internal failure
};

// Runs every stage of the pipeline on Graph IR text. `ctx.gpu` is the row to price and generate for;
// `ctx.options.target` decides whether kernels are assembled (a GPU) or simulated (`sim:...`). Throws UserError for a
// text that does not parse or verify; an internal failure in a group gives its origins back to PyTorch with a warning,
// unless `strict`.
std::shared_ptr<CompiledGraph> compile_graph(std::string_view text, const Context& ctx);

// The context of a compile: options (target included) checked against the GPU table. `device` is "cpu" or "cuda:N";
// `attributes` are the driver's for a GPU. Throws UserError where the target cannot be had.
Context make_context(const Options& options, std::string_view device);

// The sink of `options.dump`: a folder of its own for each graph under `root`; null for an empty `root`. Throws
// UserError where the folder cannot be made.
std::function<void(const std::string& name, const std::string& text)> make_dump(const std::string& root,
                                                                                const std::string& graph);

// The simulator behind the runtime's Device interface: loads PTX and launches on host memory. `check`: each launch is
// looked through for races and reads of shared memory that nobody has written.
std::unique_ptr<Device> make_simulator_device(const std::string& arch, bool check);

}  // namespace tilewright
