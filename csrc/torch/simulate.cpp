#include "torch/simulate.h"

#include <pybind11/stl.h>

#include <cstring>

#include "simulator/report.h"
#include "simulator/simulator.h"

namespace tilewright {

namespace {

namespace py = pybind11;

struct SimulatedModule {
  explicit SimulatedModule(std::string text) : ptx(std::move(text)), module(sim::parse(ptx)) {}
  std::string ptx;
  std::shared_ptr<const sim::Module> module;
};

// A parameter is either bytes, or memory: (address, bytes, name, writable).
using Memory = std::tuple<uint64_t, uint64_t, std::string, bool>;

py::dict simulate(const SimulatedModule& simulated, const std::string& entry, const py::list& parameters,
                  const std::array<uint32_t, 3>& grid, const std::array<uint32_t, 3>& block,
                  const std::array<uint32_t, 3>& cluster, const py::dict& settings) {
  sim::LaunchConfig config;
  config.grid = grid;
  config.block = block;
  config.cluster = cluster;
  config.dynamic_smem_bytes = settings["shared_bytes"].cast<uint64_t>();
  config.threads = settings["threads"].cast<int>();
  config.step_budget = settings["step_budget"].cast<uint64_t>();
  config.seed = settings["seed"].cast<uint64_t>();
  sim::set_checks(config, settings["check"].cast<std::string>());
  sim::set_order(config, settings["completion"].cast<std::string>(), settings["order"].cast<std::string>());
  std::vector<std::vector<std::byte>> args;
  std::vector<sim::Allocation> memory;
  for (const py::handle& p : parameters) {
    if (py::isinstance<py::bytes>(p)) {
      const auto text = p.cast<std::string>();
      std::vector<std::byte> value(text.size());
      std::memcpy(value.data(), text.data(), text.size());
      args.push_back(std::move(value));
      continue;
    }
    const auto [address, bytes, name, writable] = p.cast<Memory>();
    args.push_back(sim::arg(address));
    memory.push_back({address, bytes, name, writable});
  }
  sim::LaunchResult result;
  {
    const py::gil_scoped_release no_gil;
    result = sim::launch(*simulated.module, entry, config, args, memory);
  }
  py::dict report;
  report["json"] = sim::report_json(result);
  report["table"] = sim::report_table(result);
  report["listing"] = sim::report_listing(result, simulated.ptx);
  return report;
}

}  // namespace

void add_simulator(py::module_& m) {
  py::class_<SimulatedModule>(m, "SimulatedModule")
      .def(py::init<std::string>(), py::arg("ptx"))
      .def("entries", [](const SimulatedModule& s) { return sim::kernel_names(*s.module); })
      .def("param_bytes", [](const SimulatedModule& s,
                             const std::string& entry) { return sim::kernel_info(*s.module, entry).param_bytes; })
      .def("launch", &simulate, py::arg("entry"), py::arg("parameters"), py::arg("grid"), py::arg("block"),
           py::arg("cluster"), py::arg("settings"));
}

}  // namespace tilewright
