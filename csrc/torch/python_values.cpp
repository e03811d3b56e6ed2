#include "torch/python_values.h"

#include <ATen/core/jit_type.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_numbers.h>
#include <torch/csrc/utils/python_strings.h>
#include <torch/csrc/utils/python_symnode.h>

#include "support/error.h"

namespace torch::jit {
// Of torch/csrc/jit/python/pybind_utils.h, whose other parts need symbols that PyTorch does not export.
TORCH_PYTHON_API py::object toPyObject(IValue ivalue);
}  // namespace torch::jit

namespace tilewright {

using c10::IValue;

namespace {

// A Python object that the plan only carries from one host step to another.
class CarriedObject final : public c10::ivalue::PyObjectHolder {
 public:
  explicit CarriedObject(py::object object) : object_(std::move(object)) {}
  ~CarriedObject() override {
    const py::gil_scoped_acquire gil;
    object_ = py::object();
  }

  PyObject* getPyObject() override { return object_.ptr(); }
  c10::InferredType tryToInferType() override { return c10::InferredType("a carried Python object"); }
  IValue toIValue(const c10::TypePtr&, std::optional<int32_t>) override {
    throw InternalError("a carried Python object as the argument of an operator: " + toStr());
  }
  std::string toStr() override {
    const py::gil_scoped_acquire gil;
    return py::str(object_);
  }
  std::vector<at::Tensor> extractTensors() override { return {}; }

 private:
  py::object object_;
};

}  // namespace

IValue from_python(PyObject* object) {
  if (THPVariable_Check(object)) return IValue(THPVariable_Unpack(object));
  if (object == Py_None) return {};
  if (PyBool_Check(object)) return IValue(object == Py_True);
  if (PyLong_Check(object)) return IValue(static_cast<int64_t>(THPUtils_unpackLong(object)));
  if (torch::is_symint(object)) return IValue(py::handle(object).cast<c10::SymInt>());
  if (PyFloat_Check(object)) return IValue(PyFloat_AsDouble(object));
  if (PyComplex_Check(object)) {
    return IValue(c10::complex<double>(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object)));
  }
  if (THPUtils_checkString(object)) return IValue(THPUtils_unpackString(object));
  if (THPGenerator_Check(object) > 0) return IValue(THPGenerator_Unwrap(object));
  if (THPDevice_Check(object)) return IValue(reinterpret_cast<THPDevice*>(object)->device);
  if (THPDtype_Check(object)) return IValue(static_cast<int64_t>(reinterpret_cast<THPDtype*>(object)->scalar_type));
  // A list keeps its elements readable by calls; anything else, a symbolic number included, is only carried.
  if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
    c10::impl::GenericList list(c10::AnyType::get());
    const py::object sequence = py::reinterpret_steal<py::object>(PySequence_Fast(object, "a list"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.ptr()); ++i) {
      list.push_back(from_python(PySequence_Fast_GET_ITEM(sequence.ptr(), i)));
    }
    return list;
  }
  c10::intrusive_ptr<c10::ivalue::PyObjectHolder> carried =
      c10::make_intrusive<CarriedObject>(py::reinterpret_borrow<py::object>(object));
  return IValue(std::move(carried));
}

py::object to_python(const IValue& value) {
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return py::none();
    return py::reinterpret_steal<py::object>(THPVariable_Wrap(value.toTensor()));
  }
  if (value.isNone()) return py::none();
  if (value.isInt()) return py::int_(value.toInt());
  if (value.isPyObject()) return py::reinterpret_borrow<py::object>(value.toPyObject());
  return torch::jit::toPyObject(value);
}

namespace {

void append_results(PyObject* object, std::vector<IValue>& flat) {
  if (!PyTuple_Check(object) && !PyList_Check(object)) {
    flat.push_back(from_python(object));
    return;
  }
  const py::object sequence = py::reinterpret_steal<py::object>(PySequence_Fast(object, "a list"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.ptr()); ++i) {
    append_results(PySequence_Fast_GET_ITEM(sequence.ptr(), i), flat);
  }
}

}  // namespace

std::vector<IValue> run_python(const py::object& callable, const std::vector<IValue>& args) {
  const py::gil_scoped_acquire gil;
  py::tuple arguments(args.size());
  for (size_t i = 0; i < args.size(); ++i) arguments[i] = to_python(args[i]);
  const py::object result = py::reinterpret_steal<py::object>(PyObject_CallObject(callable.ptr(), arguments.ptr()));
  if (!result) throw py::error_already_set();
  std::vector<IValue> flat;
  append_results(result.ptr(), flat);
  return flat;
}

}  // namespace tilewright
