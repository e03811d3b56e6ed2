#include "torch/boxed_function.h"

#include <structmember.h>
#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <cstddef>

#include "torch/python_values.h"
#include "torch/run_operator.h"

namespace tilewright {

namespace {

using c10::IValue;

// Borrowed: the module holds them.
struct ErrorClasses {
  PyObject* user = nullptr;
  PyObject* internal = nullptr;
  PyObject* device = nullptr;
};
ErrorClasses error_classes;

struct BoxedState {
  std::shared_ptr<Compiled> compiled;
  std::vector<IValue> constants;
  Py_ssize_t outputs;
};

struct BoxedFunction {
  PyObject ob_base;  // what PyObject_HEAD declares
  vectorcallfunc call;
  PyObject* dict;
  PyObject* weak_references;
  BoxedState* state;
};

PyObject* call_state(const BoxedState& state, PyObject* args) {
  try {
    return call_boxed(state.compiled, state.constants, state.outputs, args).release().ptr();
  } catch (const UserError& error) {
    PyErr_SetString(error_classes.user, error.what());
  } catch (const InternalError& error) {
    PyErr_SetString(error_classes.internal, error.what());
  } catch (const DeviceError& error) {
    PyErr_SetString(error_classes.device, error.what());
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (...) {
    // PyTorch's own errors reach Python as the types that eager raises.
    torch::translate_exception_to_python(std::current_exception());
  }
  return nullptr;
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  if (PyVectorcall_NARGS(count) != 1 || (names && PyTuple_GET_SIZE(names) != 0) || !PyList_CheckExact(args[0])) {
    PyErr_SetString(PyExc_TypeError, "a compiled function takes its inputs in one list");
    return nullptr;
  }
  return call_state(*reinterpret_cast<BoxedFunction*>(self)->state, args[0]);
}

void deallocate(PyObject* self) {
  auto* function = reinterpret_cast<BoxedFunction*>(self);
  if (function->weak_references) PyObject_ClearWeakRefs(self);
  Py_CLEAR(function->dict);
  delete function->state;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(BoxedFunction, call), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(BoxedFunction, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(BoxedFunction, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef getters[] = {
    {"__dict__", PyObject_GenericGetDict, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject* boxed_type() {
  static PyType_Slot slots[] = {
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
      {Py_tp_members, members},
      {Py_tp_getset, getters},
      {Py_tp_getattro, reinterpret_cast<void*>(PyObject_GenericGetAttr)},
      {0, nullptr},
  };
  static PyType_Spec spec = {"tilewright._C.BoxedFunction", sizeof(BoxedFunction), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             slots};
  static PyObject* const type = PyType_FromSpec(&spec);
  if (!type) throw py::error_already_set();
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

py::object call_boxed(const std::shared_ptr<Compiled>& compiled, const std::vector<IValue>& constants,
                      Py_ssize_t outputs, PyObject* args) {
  std::vector<IValue> inputs;
  inputs.reserve(compiled->graph().plan.slots());
  const Py_ssize_t count = PyList_GET_SIZE(args);
  for (Py_ssize_t i = 0; i < count; ++i) inputs.push_back(from_python(PyList_GET_ITEM(args, i)));
  inputs.insert(inputs.end(), constants.begin(), constants.end());
  if (PyList_SetSlice(args, 0, count, nullptr) != 0) throw py::error_already_set();

  std::vector<IValue> results;
  {
    const py::gil_scoped_release no_gil;
    std::optional<std::vector<IValue>> seen;
    if (must_be_seen(inputs)) seen = run_operator(compiled, inputs);
    results = seen ? std::move(*seen) : compiled->run(std::move(inputs));
  }
  const Py_ssize_t returned = std::min(outputs, static_cast<Py_ssize_t>(results.size()));
  py::object list = py::reinterpret_steal<py::object>(PyList_New(returned));
  if (!list) throw py::error_already_set();
  for (Py_ssize_t i = 0; i < returned; ++i) PyList_SET_ITEM(list.ptr(), i, to_python(results[i]).release().ptr());
  return list;
}

py::object make_boxed_function(std::shared_ptr<Compiled> compiled, const py::sequence& constants, Py_ssize_t outputs) {
  PyTypeObject* type = boxed_type();
  py::dict attributes;
  attributes["_boxed_call"] = true;
  attributes["__name__"] = compiled->graph().plan.name;
  auto state = std::make_unique<BoxedState>(BoxedState{std::move(compiled), {}, outputs});
  for (const py::handle& constant : constants) state->constants.push_back(from_python(constant.ptr()));

  py::object object = py::reinterpret_steal<py::object>(type->tp_alloc(type, 0));
  if (!object) throw py::error_already_set();
  auto* function = reinterpret_cast<BoxedFunction*>(object.ptr());
  function->call = vectorcall;
  function->dict = attributes.release().ptr();
  function->state = state.release();
  return object;
}

void register_errors(py::module_& m) {
  error_classes.user = py::register_exception<UserError>(m, "UserError", PyExc_RuntimeError).ptr();
  error_classes.internal = py::register_exception<InternalError>(m, "InternalError", PyExc_RuntimeError).ptr();
  error_classes.device = py::register_exception<DeviceError>(m, "DeviceError", PyExc_RuntimeError).ptr();
}

}  // namespace tilewright
