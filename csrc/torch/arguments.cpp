#include "torch/arguments.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/Generator.h>
#include <ATen/core/List.h>

#include <algorithm>

#include "torch/torch_types.h"

namespace tilewright {

namespace {

using c10::IValue;
using TorchKind = c10::TypeKind;

bool is_number(const IValue& value) {
  return value.isInt() || value.isDouble() || value.isBool() || value.isComplexDouble();
}

// The type inside an optional.
c10::TypePtr strip_optional(c10::TypePtr type) {
  while (type->kind() == TorchKind::OptionalType) type = type->expectRef<c10::OptionalType>().getElementType();
  return type;
}

IValue wrapped_number(const IValue& number) { return at::native::wrapped_scalar_tensor(number.toScalar()); }

template <typename T, typename Read>
IValue list_of(const std::vector<IValue>& elements, Read read) {
  c10::List<T> list;
  list.reserve(elements.size());
  for (const IValue& element : elements) list.push_back(read(element));
  return list;
}

int64_t as_int(const IValue& value) {
  if (value.isBool()) return value.toBool();
  if (value.isTensor()) return value.toTensor().item().toLong();
  return value.toInt();
}

double as_double(const IValue& value) {
  if (value.isTensor()) return value.toTensor().item().toDouble();
  return value.toScalar().toDouble();
}

}  // namespace

ArgumentMaker::ArgumentMaker(IValue constant) : constant_(std::move(constant)) {}

ArgumentMaker::ArgumentMaker(const PlanArg& arg, const c10::TypePtr& type, const SymbolIndex& symbols,
                             c10::Device target, std::string where)
    : type_(strip_optional(type)),
      none_(type->kind() == TorchKind::TensorType ? IValue(at::Tensor()) : IValue()),
      where_(std::move(where)) {
  if (type_->kind() == TorchKind::ListType) element_ = type_->expectRef<c10::ListType>().getElementType();
  prepare(arg, symbols, target);
}

void ArgumentMaker::prepare(const PlanArg& arg, const SymbolIndex& symbols, c10::Device target) {
  if (const auto* ref = arg.slot()) {
    kind_ = Kind::kSlot;
    slot_ = ref->slot;
  } else if (const auto* e = std::get_if<Expr>(&arg.data)) {
    size_ = SizeProgram(*e, symbols);
    if (size_.is_constant()) {
      constant_ = convert(size_({}));
    } else {
      kind_ = Kind::kSize;
    }
  } else if (const auto* list = std::get_if<PlanArg::List>(&arg.data)) {
    prepare_list(*list, symbols, target);
  } else if (const auto* tagged = std::get_if<Arg::Tagged>(&arg.data)) {
    if (tagged->tag == "device") {
      constant_ = device_of(tagged->text, target);
    } else if (tagged->tag == "generator") {
      constant_ = IValue();  // the device's default generator
    } else {
      constant_ = tag_value(tagged->tag, tagged->text);
    }
  } else if (const auto* real = std::get_if<double>(&arg.data)) {
    constant_ = convert(*real);
  } else if (const auto* flag = std::get_if<bool>(&arg.data)) {
    constant_ = convert(*flag);
  } else if (const auto* text = std::get_if<std::string>(&arg.data)) {
    constant_ = convert(*text);
  } else if (const auto* complex = std::get_if<Arg::Complex>(&arg.data)) {
    constant_ = convert(c10::complex<double>(complex->re, complex->im));
  } else {
    constant_ = none_;
  }
}

void ArgumentMaker::prepare_list(const PlanArg::List& list, const SymbolIndex& symbols, c10::Device target) {
  if (!element_) element_ = c10::AnyType::get();
  for (size_t i = 0; i < list.size(); ++i) {
    elements_.emplace_back(list[i], element_, symbols, target, where_ + "[" + std::to_string(i) + "]");
  }
  kind_ = Kind::kList;
  const bool is_constant =
      std::all_of(elements_.begin(), elements_.end(), [](const ArgumentMaker& e) { return e.is_constant(); });
  if (!is_constant) return;
  constant_ = make_now({}, {});
  kind_ = Kind::kConstant;
}

IValue ArgumentMaker::make_now(std::span<const IValue> slots, std::span<const int64_t> symbols) const {
  switch (kind_) {
    case Kind::kSlot:
      return convert(slots[slot_]);
    case Kind::kSize:
      return convert(size_(symbols));
    case Kind::kList: {
      std::vector<IValue> elements;
      elements.reserve(elements_.size());
      for (const ArgumentMaker& element : elements_) elements.push_back(element.make(slots, symbols));
      return convert_list(std::move(elements));
    }
    default:
      return constant_;
  }
}

// What Python's own conversion of arguments accepts: a number for a tensor, an integer for a float, a tensor with one
// element for a number, one number for a list of equal ones.
IValue ArgumentMaker::convert(const IValue& value) const {
  if (value.isNone()) return none_;
  switch (type_->kind()) {
    case TorchKind::TensorType:
      return is_number(value) ? wrapped_number(value) : value;
    case TorchKind::IntType:
    case TorchKind::SymIntType:
      return value.isInt() ? value : IValue(as_int(value));
    case TorchKind::FloatType:
    case TorchKind::SymFloatType:
      return value.isDouble() ? value : IValue(as_double(value));
    case TorchKind::BoolType:
    case TorchKind::SymBoolType:
      if (value.isTensor()) return value.toTensor().item().toBool();
      return value.isInt() ? IValue(value.toInt() != 0) : value;
    case TorchKind::NumberType:
      return value.isTensor() ? IValue(value.toTensor().item()) : value;
    case TorchKind::DeviceObjType:
      return value.isString() ? IValue(c10::Device(value.toStringRef())) : value;
    case TorchKind::ListType:
      return value.isList() ? value : convert_list({value});
    default:
      return value;
  }
}

IValue ArgumentMaker::convert_list(std::vector<IValue> elements) const {
  switch (element_->kind()) {
    case TorchKind::IntType:
    case TorchKind::SymIntType:
      return list_of<int64_t>(elements, as_int);
    case TorchKind::FloatType:
    case TorchKind::SymFloatType:
      return list_of<double>(elements, as_double);
    case TorchKind::BoolType:
      return list_of<bool>(elements, [](const IValue& v) { return v.isBool() ? v.toBool() : v.toInt() != 0; });
    case TorchKind::TensorType:
      return list_of<at::Tensor>(elements, [&](const IValue& v) {
        return v.isNone() ? at::Tensor() : is_number(v) ? wrapped_number(v).toTensor() : v.toTensor();
      });
    case TorchKind::OptionalType: {
      const c10::TypePtr inner = strip_optional(element_);
      if (inner->kind() == TorchKind::TensorType) {
        return list_of<std::optional<at::Tensor>>(elements, [](const IValue& v) {
          return v.isNone() ? std::optional<at::Tensor>() : std::optional<at::Tensor>(v.toTensor());
        });
      }
      break;
    }
    default:
      break;
  }
  c10::impl::GenericList list(element_);
  list.reserve(elements.size());
  for (IValue& element : elements) list.push_back(std::move(element));
  return list;
}

}  // namespace tilewright
