#include "ir/type.h"

#include <array>
#include <ostream>

#include "support/float_formats.h"
#include "support/reader.h"

namespace tilewright {
namespace {

enum class Nature : uint8_t { kFloat, kSigned, kUnsigned, kBool, kOther };

struct DTypeFacts {
  const char* name;
  int bytes;
  Nature nature;
  bool kernels;
};

// In the order of DType.
constexpr std::array<DTypeFacts, 19> kDTypes = {{
    {"f64", 8, Nature::kFloat, true},     {"f32", 4, Nature::kFloat, true},     {"f16", 2, Nature::kFloat, true},
    {"bf16", 2, Nature::kFloat, true},    {"f8e4m3", 1, Nature::kFloat, true},  {"f8e5m2", 1, Nature::kFloat, true},
    {"i64", 8, Nature::kSigned, true},    {"i32", 4, Nature::kSigned, true},    {"i16", 2, Nature::kSigned, true},
    {"i8", 1, Nature::kSigned, true},     {"u8", 1, Nature::kUnsigned, true},   {"bool", 1, Nature::kBool, true},
    {"c32", 4, Nature::kOther, false},    {"c64", 8, Nature::kOther, false},    {"c128", 16, Nature::kOther, false},
    {"u16", 2, Nature::kUnsigned, false}, {"u32", 4, Nature::kUnsigned, false}, {"u64", 8, Nature::kUnsigned, false},
    {"opaque", 0, Nature::kOther, false},
}};
static_assert(static_cast<size_t>(DType::kOpaque) + 1 == kDTypes.size());

const DTypeFacts& facts(DType t) { return kDTypes[static_cast<size_t>(t)]; }

void write_list(std::string& out, const std::vector<Expr>& list) {
  out += '[';
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += ", ";
    out += list[i].str();
  }
  out += ']';
}

void write_tensor(std::string& out, const Type& t, bool strides) {
  out += name(t.dtype);
  write_list(out, t.shape);
  if (t.strides && strides) {
    out += " strides ";
    write_list(out, *t.strides);
  }
  if (t.offset && strides) out += " offset " + t.offset->str();
  if (t.device == "host") {
    out += " host";
  } else if (!t.device.empty()) {
    out += " device " + quoted(t.device);
  }
}

}  // namespace

const char* name(DType t) { return facts(t).name; }

std::optional<DType> dtype_from_name(std::string_view text) {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (text == kDTypes[i].name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int64_t bytes(DType t) { return facts(t).bytes; }
bool is_float(DType t) { return facts(t).nature == Nature::kFloat; }
bool is_integer(DType t) { return facts(t).nature == Nature::kSigned || facts(t).nature == Nature::kUnsigned; }
bool is_signed(DType t) { return is_float(t) || facts(t).nature == Nature::kSigned; }
bool has_kernels(DType t) { return facts(t).kernels; }
DType compute_type(DType t) { return is_float(t) && t != DType::kF64 ? DType::kF32 : t; }
std::ostream& operator<<(std::ostream& out, DType t) { return out << name(t); }

double round_to(DType t, double value) {
  switch (t) {
    case DType::kF32:
      return static_cast<float>(value);
    case DType::kF16:
      return rounded(value, kHalf);
    case DType::kBF16:
      return rounded(value, kBFloat16);
    case DType::kF8E4M3:
      return rounded(value, kFloat8E4M3);
    case DType::kF8E5M2:
      return rounded(value, kFloat8E5M2);
    default:
      return value;
  }
}

Type Type::tensor(DType dtype, std::vector<Expr> shape, std::optional<std::vector<Expr>> strides) {
  Type t;
  t.kind = TypeKind::kTensor;
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.strides = std::move(strides);
  return t;
}

Type Type::integer(std::optional<Expr> value) {
  Type t;
  t.kind = TypeKind::kInt;
  t.value = std::move(value);
  return t;
}

Type Type::of(TypeKind kind) {
  Type t;
  t.kind = kind;
  return t;
}

std::vector<Expr> Type::contiguous_strides() const {
  std::vector<Expr> out(shape.size());
  Expr stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    out[i] = stride;
    if (!shape[i].is_constant(0)) stride = stride * shape[i];  // as PyTorch gives them
  }
  return out;
}

void write(std::string& out, const Type& t, bool strides) {
  switch (t.kind) {
    case TypeKind::kTensor:
      write_tensor(out, t, strides);
      break;
    case TypeKind::kInt:
      out += "int";
      if (t.value) out += " = " + t.value->str();
      break;
    case TypeKind::kFloat:
      out += "float";
      break;
    case TypeKind::kBool:
      out += "bool";
      break;
    case TypeKind::kStr:
      out += "str";
      break;
    case TypeKind::kNone:
      out += "none";
      break;
    case TypeKind::kOpaque:
      out += "opaque";
      break;
    case TypeKind::kList:
      out += "list(";
      for (size_t i = 0; i < t.elements.size(); ++i) {
        if (i > 0) out += ", ";
        write(out, t.elements[i], strides);
      }
      out += ')';
      break;
  }
}

std::ostream& operator<<(std::ostream& out, const Type& t) {
  std::string text;
  write(text, t);
  return out << text;
}

}  // namespace tilewright
