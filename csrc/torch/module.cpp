#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include "compiler/compile.h"
#include "compiler/pipeline.h"
#include "runtime/assemble.h"
#include "runtime/cuda_driver.h"
#include "support/options.h"
#include "torch/boxed_function.h"
#include "torch/compiled.h"
#include "torch/interpreter.h"
#include "torch/python_values.h"
#include "torch/simulate.h"

namespace tilewright {

namespace {

using c10::IValue;

// PyTorch's own errors reach Python as the types that eager raises.
py::object call_translated(const std::shared_ptr<Compiled>& compiled, const py::list& args) {
  try {
    return call_boxed(compiled, {}, PY_SSIZE_T_MAX, args.ptr());
  } catch (const c10::Error&) {
    torch::translate_exception_to_python(std::current_exception());
    throw py::error_already_set();
  }
}

Options read_options(const std::map<std::string, std::string>& given) {
  Options options;
  for (const auto& [name, value] : given) set_option(options, name, value);
  return options;
}

std::shared_ptr<Compiled> compile(const std::string& text, const std::map<std::string, std::string>& given,
                                  const py::list& hosts, const std::string& device) {
  const Options options = read_options(given);
  const c10::Device target(device);
  std::shared_ptr<CompiledGraph> graph;
  std::shared_ptr<Device> runs_on;
  {
    const py::gil_scoped_release no_gil;
    const Context ctx = make_context(options, device);
    graph = compile_graph(text, ctx);
    if (target.is_cpu()) {
      runs_on = make_simulator_device(ctx.gpu.arch, options.check_kernels);
    } else {
      runs_on = make_cuda_device(target.has_index() ? target.index() : 0);
    }
  }
  for (const std::string& warning : graph->warnings) {
    if (PyErr_WarnEx(PyExc_UserWarning, warning.c_str(), 2) != 0) throw py::error_already_set();
  }
  std::vector<py::object> callables;
  for (const py::handle& host : hosts) callables.push_back(py::reinterpret_borrow<py::object>(host));
  const auto run_host = [callables](const Host& host, const std::vector<IValue>& args) {
    TW_CHECK(host.number >= 0 && host.number < static_cast<int>(callables.size()))
        << "host step " << host.number << " of " << callables.size();
    return run_python(callables[host.number], args);
  };
  return std::make_shared<Compiled>(std::move(graph), std::move(runs_on), target, run_host);
}

// The text of a graph as fusion finds it, for the simulator's target.
std::string after_passes(const std::string& text, const std::map<std::string, std::string>& given) {
  const Context ctx = make_context(read_options(given), "cpu");
  Graph graph = parse_graph(text);
  for (const GraphPass& pass : graph_passes()) pass.run(graph, ctx);
  return print(graph);
}

// What the assembler says of the kernel of a variant, for the architecture that it was generated for.
py::dict resources(const Compiled& compiled, const std::string& key) {
  MachineCode code;
  {
    const py::gil_scoped_release no_gil;
    static std::string why;
    static const std::shared_ptr<Assembler> assembler = Assembler::load({}, &why);
    if (!assembler) throw DeviceError("no assembler: " + why);
    const std::shared_ptr<const Artifact> artifact = compiled.graph().kernels->get(key);
    code = assembler->assemble(artifact->ptx, artifact->arch, artifact->entry);
  }
  py::dict fields;
  fields["registers"] = code.registers;
  fields["smem_bytes"] = code.static_smem_bytes;
  fields["stack_bytes"] = code.stack_bytes;
  fields["spill_bytes"] = code.spill_store_bytes + code.spill_load_bytes;
  return fields;
}

py::list options_table() {
  py::list rows;
  for (const OptionInfo& row : option_table()) {
    py::dict fields;
    fields["name"] = row.name;
    fields["type"] = row.type;
    fields["default"] = row.default_value;
    fields["env"] = row.env;
    fields["key"] = row.is_key;
    fields["doc"] = row.doc;
    rows.append(fields);
  }
  return rows;
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  m.doc() = "Tilewright's compiler, bound to PyTorch.";
  register_errors(m);

  py::class_<Compiled, std::shared_ptr<Compiled>>(m, "Compiled")
      .def("__call__", &call_translated, py::arg("args"))
      // What AOTAutograd calls, with `constants` after its inputs and only the first `outputs` results.
      .def("boxed", &make_boxed_function, py::arg("constants"), py::arg("outputs"))
      .def("resources", &resources, py::arg("key"))
      .def("plan_text", [](const Compiled& c) { return print(c.graph().plan); })
      .def("report_json", [](const Compiled& c) { return c.graph().report_json; })
      .def_property_readonly("phases_us", [](const Compiled& c) { return c.graph().phases_us; })
      .def("launches", [](const Compiled& c) {
        py::list rows;
        for (const Executor::VariantCount& count : c.executor().counts()) {
          rows.append(py::make_tuple(count.step, count.key, count.launches));
        }
        return rows;
      });

  m.def("compile", &compile, py::arg("text"), py::arg("options"), py::arg("hosts"), py::arg("device"));
  m.def("options_table", &options_table);
  add_simulator(m);
  m.def("interpret", &interpret_text, py::arg("text"), py::arg("inputs"), py::arg("symbols"), py::arg("mode"));
  m.def("after_passes", &after_passes, py::arg("text"), py::arg("options"));
}

}  // namespace tilewright
