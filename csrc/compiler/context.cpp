#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "compiler/compile.h"
#include "runtime/cuda_driver.h"

namespace tilewright {

namespace {

constexpr const char* kArchitectures[] = {"sm_80", "sm_86", "sm_89", "sm_90a"};

void check_choice(const std::string& option, const std::string& value, const std::vector<std::string>& choices) {
  std::string all;
  for (const std::string& choice : choices) {
    if (choice == value) return;
    if (!choice.empty()) all += (all.empty() ? "" : ", ") + choice;
  }
  const std::string near = nearest_name(value, choices);
  throw UserError("option " + option + ": found \"" + value + "\", expected one of " + all +
                  (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
}

GpuFacts simulated_gpu(const Options& options) {
  std::vector<std::string> targets;
  for (const char* arch : kArchitectures) targets.push_back(std::string("sim:") + arch);
  check_choice("target", options.target, targets);
  const std::string arch = options.target.substr(4);
  if (options.gpu.empty()) return *default_gpu_of(arch);
  GpuFacts gpu = gpu_named(options.gpu);
  if (gpu.arch != arch) {
    throw UserError("option gpu: " + gpu.name + " has the architecture " + gpu.arch + ", and the target is " +
                    options.target);
  }
  return gpu;
}

int ordinal_of(std::string_view device) {
  const size_t colon = device.find(':');
  return colon == std::string_view::npos ? 0 : std::stoi(std::string(device.substr(colon + 1)));
}

// A folder of its own for each graph of a process: `graph`, `graph.1`, ...
std::string new_folder(const std::string& root, const std::string& graph) {
  if (mkdir(root.c_str(), 0777) != 0 && errno != EEXIST) {
    throw UserError("option dump: cannot make the folder " + root + ": " + std::strerror(errno));
  }
  for (int i = 0;; ++i) {
    const std::string folder = root + "/" + graph + (i ? "." + std::to_string(i) : "");
    if (mkdir(folder.c_str(), 0777) == 0) return folder;
    if (errno != EEXIST) throw UserError("option dump: cannot make the folder " + folder + ": " + std::strerror(errno));
  }
}

}  // namespace

Context make_context(const Options& options, std::string_view device) {
  check_choice("kernels", options.kernels, {"auto", "generate", "call"});
  check_choice("numerics", options.numerics, {"eager", "fast"});
  check_choice("matmul", options.matmul, {"auto", "generate", "call"});
  check_choice("float32_matmul", options.float32_matmul, {"", "ieee", "tf32"});
  Context ctx;
  ctx.options = options;
  if (!options.target.empty()) {
    ctx.gpu = simulated_gpu(options);
  } else if (device.rfind("cuda", 0) == 0) {
    ctx.gpu = gpu_facts_of_driver(ordinal_of(device));
  } else {
    throw UserError("no target: the tensors lie in CPU memory; set the option target, for example to sim:sm_90a");
  }
  return ctx;
}

std::function<void(const std::string&, const std::string&)> make_dump(const std::string& root,
                                                                      const std::string& graph) {
  if (root.empty()) return nullptr;
  return [folder = new_folder(root, graph)](const std::string& name, const std::string& text) {
    std::ofstream(folder + "/" + name) << text;
  };
}

}  // namespace tilewright
