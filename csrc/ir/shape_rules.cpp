#include "ir/shape_rules.h"

#include <algorithm>
#include <sstream>

namespace tilewright {
namespace {

// Streams a message and throws it: `fail(node) << "operand 0 is " << t;` does so at the end of the statement.
class Failure {
 public:
  explicit Failure(const Node& node) { text_ << node.info().text << ": "; }
  template <typename T>
  Failure& operator<<(const T& part) {
    text_ << part;
    return *this;
  }
  [[noreturn]] ~Failure() noexcept(false) { throw UserError(text_.str()); }

 private:
  std::ostringstream text_;
};

struct ListText {
  const std::vector<Expr>& list;
};
std::ostream& operator<<(std::ostream& out, const ListText& text) {
  out << '[';
  for (size_t i = 0; i < text.list.size(); ++i) out << (i ? ", " : "") << text.list[i];
  return out << ']';
}

const char* kind_text(AttrKind kind) {
  switch (kind) {
    case AttrKind::kDType:
      return "an element type";
    case AttrKind::kBool:
      return "true or false";
    case AttrKind::kNumber:
      return "a number, true or false";
    case AttrKind::kSize:
      return "a size";
    case AttrKind::kSizes:
      return "a list of sizes";
    case AttrKind::kDim:
      return "a dimension";
    case AttrKind::kDims:
      return "a list of dimensions";
    case AttrKind::kPrecision:
      return "ieee or tf32";
  }
  return "";
}

bool is_of_kind(const Attr& attr, AttrKind kind) {
  const auto is_constant = [](const Expr& e) { return e.constant().has_value(); };
  switch (kind) {
    case AttrKind::kDType:
      return std::holds_alternative<DType>(attr);
    case AttrKind::kBool:
      return std::holds_alternative<bool>(attr);
    case AttrKind::kNumber:
      return std::holds_alternative<bool>(attr) || std::holds_alternative<double>(attr) ||
             std::holds_alternative<Expr>(attr);
    case AttrKind::kSize:
      return std::holds_alternative<Expr>(attr);
    case AttrKind::kSizes:
      return std::holds_alternative<std::vector<Expr>>(attr);
    case AttrKind::kDim:
      return std::holds_alternative<Expr>(attr) && is_constant(std::get<Expr>(attr));
    case AttrKind::kDims: {
      const auto* list = std::get_if<std::vector<Expr>>(&attr);
      return list && std::all_of(list->begin(), list->end(), is_constant);
    }
    case AttrKind::kPrecision: {
      const auto* word = std::get_if<std::string>(&attr);
      return word && (*word == "ieee" || *word == "tf32");
    }
  }
  return false;
}

const Type& tensor(const Node& node, size_t i) {
  const Type& type = node.operands[i]->type;
  if (!type.is_tensor()) Failure(node) << "operand " << i << " is " << type << ", not a tensor";
  if (!has_kernels(type.dtype))
    Failure(node) << "operand " << i << " has element type " << type.dtype << ", which only calls take";
  return type;
}

// Where the result lies: host only if every operand does; else where the others lie.
std::string device_of(const Node& node) {
  const std::string* device = nullptr;
  bool host = false;
  for (const Value* operand : node.operands) {
    const Type& type = operand->type;
    if (type.device == "host" && type.rank() == 0) {
      host = true;
    } else if (type.is_tensor() && operand->node->category() != Category::kConstant) {
      if (device && *device != type.device) {
        Failure(node) << "operands on two devices: \"" << *device << "\" and \"" << type.device << '"';
      }
      device = &type.device;
    }
  }
  return device ? *device : host ? "host" : "";
}

Type result(const Node& node, DType dtype, std::vector<Expr> shape) {
  Type type = Type::tensor(dtype, std::move(shape));
  type.device = device_of(node);
  return type;
}

// The common shape of operands from `first` on: equal shapes, or rank 0.
const std::vector<Expr>& common_shape(const Node& node, size_t first = 0) {
  size_t widest = first;
  for (size_t i = first; i < node.operands.size(); ++i) {
    const Type& type = tensor(node, i);
    if (type.rank() == 0) continue;
    const Type& other = node.operands[widest]->type;
    if (other.rank() == 0) {
      widest = i;
    } else if (type.shape != other.shape) {
      Failure(node) << "operand " << i << " has shape " << ListText{type.shape} << ", operand " << widest << " has "
                    << ListText{other.shape};
    }
  }
  return node.operands[widest]->type.shape;
}

DType common_dtype(const Node& node, size_t first = 0) {
  const DType dtype = tensor(node, first).dtype;
  for (size_t i = first + 1; i < node.operands.size(); ++i) {
    const DType other = tensor(node, i).dtype;
    if (other != dtype) {
      Failure(node) << "operand " << i << " has element type " << other << ", operand " << first << " has " << dtype;
    }
  }
  return dtype;
}

void check_dtype(const Node& node, DType dtype, bool fits, const char* wanted) {
  if (!fits) Failure(node) << "element type " << dtype << ", expected " << wanted;
}

Type pointwise(const Node& node) {
  const DType dtype = common_dtype(node);
  switch (node.info().rule) {
    case Rule::kNumber:
      check_dtype(node, dtype, dtype != DType::kBool, "a number type");
      break;
    case Rule::kFloat:
    case Rule::kFloatTest:
      check_dtype(node, dtype, is_float(dtype), "a float type");
      break;
    case Rule::kInteger:
      check_dtype(node, dtype, is_integer(dtype), "an integer type");
      break;
    case Rule::kBits:
      check_dtype(node, dtype, !is_float(dtype), "an integer type or bool");
      break;
    default:
      break;
  }
  const bool test = node.info().rule == Rule::kCompare || node.info().rule == Rule::kFloatTest;
  return result(node, test ? DType::kBool : dtype, common_shape(node));
}

Type where(const Node& node) {
  const DType condition = tensor(node, 0).dtype;
  if (condition != DType::kBool) Failure(node) << "the condition has element type " << condition << ", expected bool";
  return result(node, common_dtype(node, 1), common_shape(node));
}

Type cast(const Node& node) {
  const DType to = node.attr_dtype("to");
  if (!has_kernels(to)) Failure(node) << "to " << to << ", which only calls give";
  const TypeKind kind = node.operands[0]->type.kind;
  if (kind == TypeKind::kFloat || kind == TypeKind::kInt || kind == TypeKind::kBool) return result(node, to, {});
  return result(node, to, tensor(node, 0).shape);
}

Type bitcast(const Node& node) {
  const Type& from = tensor(node, 0);
  const DType to = node.attr_dtype("to");
  if (!has_kernels(to) || bytes(to) != bytes(from.dtype)) {
    Failure(node) << "from " << from.dtype << " (" << bytes(from.dtype) << " bytes) to " << to << " (" << bytes(to)
                  << ")";
  }
  return result(node, to, from.shape);
}

Type constant(const Node& node) {
  const DType dtype = node.attr_dtype("dtype");
  if (!has_kernels(dtype)) Failure(node) << "element type " << dtype << ", which only calls give";
  const Attr& value = *node.find_attr("value");
  if (is_float(dtype) && !std::holds_alternative<double>(value)) {
    Failure(node) << "the value of a " << dtype << " constant is a float, such as 1.0";
  }
  if (dtype == DType::kBool && !std::holds_alternative<bool>(value)) {
    Failure(node) << "the value of a bool constant is true or false";
  }
  if (!is_integer(dtype)) return result(node, dtype, {});
  const Expr* size = std::get_if<Expr>(&value);
  if (!size || !size->constant()) Failure(node) << "the value of a " << dtype << " constant is an integer";
  const int64_t number = *size->constant();
  const int bits = static_cast<int>(8 * bytes(dtype)) - (is_signed(dtype) ? 1 : 0);
  const bool fits =
      bits >= 63 || (number < (int64_t{1} << bits) && number >= (is_signed(dtype) ? -(int64_t{1} << bits) : 0));
  if (!fits) Failure(node) << number << " does not fit into " << dtype;
  return result(node, dtype, {});
}

Type symint(const Node& node) {
  const DType dtype = node.attr_dtype("dtype");
  check_dtype(node, dtype, has_kernels(dtype) && (is_integer(dtype) || dtype == DType::kF64), "an integer type or f64");
  return result(node, dtype, {});
}

size_t checked_dim(const Node& node, int64_t dim, int rank) {
  if (dim < 0 || dim >= rank) Failure(node) << "dimension " << dim << " of rank " << rank;
  return static_cast<size_t>(dim);
}

// Which of `rank` dimensions `dims` names.
std::vector<bool> chosen_dims(const Node& node, int rank) {
  std::vector<bool> chosen(static_cast<size_t>(rank), false);
  for (const int64_t dim : node.attr_ints("dims")) {
    const size_t d = checked_dim(node, dim, rank);
    if (chosen[d]) Failure(node) << "dimension " << dim << " is named twice";
    chosen[d] = true;
  }
  return chosen;
}

void check_sizes(const Node& node, const std::vector<Expr>& sizes, const SymbolTable& symbols) {
  for (const Expr& size : sizes) {
    if (symbols.known_less(size, 0) == true) Failure(node) << "size " << size << " is negative";
  }
}

// Whether two sizes can be one: known to be, or by a guard that the expressions do not show; the example inputs tell.
bool may_equal(const Expr& a, const Expr& b, const SymbolTable& symbols) {
  const std::optional<bool> equal = symbols.known_equal(a, b);
  return equal ? *equal : symbols.hint(a) == symbols.hint(b);
}

Type reshape(const Node& node, const SymbolTable& symbols) {
  const Type& from = tensor(node, 0);
  const std::vector<Expr>& shape = node.attr_exprs("shape");
  check_sizes(node, shape, symbols);
  const Expr before = from.numel(), after = product(shape);
  if (!may_equal(before, after, symbols)) {
    Failure(node) << ListText{from.shape} << " has " << before << " elements, " << ListText{shape} << " has " << after;
  }
  return result(node, from.dtype, shape);
}

Type permute(const Node& node) {
  const Type& from = tensor(node, 0);
  const std::vector<int64_t> dims = node.attr_ints("dims");
  chosen_dims(node, from.rank());
  if (dims.size() != from.shape.size())
    Failure(node) << dims.size() << " dimensions named, the operand has " << from.rank();
  std::vector<Expr> shape;
  shape.reserve(dims.size());
  for (const int64_t dim : dims) shape.push_back(from.shape[static_cast<size_t>(dim)]);
  return result(node, from.dtype, std::move(shape));
}

Type expand(const Node& node, const SymbolTable& symbols) {
  const Type& from = tensor(node, 0);
  const std::vector<Expr>& shape = node.attr_exprs("shape");
  check_sizes(node, shape, symbols);
  if (shape.size() < from.shape.size())
    Failure(node) << ListText{from.shape} << " to the lower rank of " << ListText{shape};
  const size_t added = shape.size() - from.shape.size();
  for (size_t i = 0; i < from.shape.size(); ++i) {
    if (!from.shape[i].is_constant(1) && from.shape[i] != shape[added + i]) {
      Failure(node) << "size " << from.shape[i] << " of dimension " << i << " does not expand to " << shape[added + i];
    }
  }
  return result(node, from.dtype, shape);
}

Type slice(const Node& node, const SymbolTable& symbols) {
  const Type& from = tensor(node, 0);
  const size_t dim = checked_dim(node, node.attr_int("dim"), from.rank());
  const Expr &start = node.attr_expr("start"), &end = node.attr_expr("end"), &step = node.attr_expr("step");
  if (symbols.known_less(start, 0) == true || symbols.known_less(end, start) == true ||
      symbols.known_less(from.shape[dim], end) == true) {
    Failure(node) << "from " << start << " to " << end << " of size " << from.shape[dim];
  }
  if (symbols.known_less(0, step) == false) Failure(node) << "step " << step << " is not positive";
  Type type = result(node, from.dtype, from.shape);
  type.shape[dim] = ceildiv(end - start, step);
  return type;
}

Type flip(const Node& node) {
  const Type& from = tensor(node, 0);
  chosen_dims(node, from.rank());
  return result(node, from.dtype, from.shape);
}

Type select(const Node& node, const SymbolTable& symbols) {
  const Type& from = tensor(node, 0);
  const size_t dim = checked_dim(node, node.attr_int("dim"), from.rank());
  const Expr& index = node.attr_expr("index");
  if (symbols.known_less(index, 0) == true || symbols.known_less(index, from.shape[dim]) == false) {
    Failure(node) << "index " << index << " of size " << from.shape[dim];
  }
  std::vector<Expr> shape = from.shape;
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
  return result(node, from.dtype, std::move(shape));
}

Type squeeze(const Node& node) {
  const Type& from = tensor(node, 0);
  const std::vector<bool> dropped = chosen_dims(node, from.rank());
  std::vector<Expr> shape;
  for (size_t i = 0; i < dropped.size(); ++i) {
    if (dropped[i] && !from.shape[i].is_constant(1))
      Failure(node) << "dimension " << i << " has size " << from.shape[i];
    if (!dropped[i]) shape.push_back(from.shape[i]);
  }
  return result(node, from.dtype, std::move(shape));
}

Type unsqueeze(const Node& node) {
  const Type& from = tensor(node, 0);
  const int rank = from.rank() + static_cast<int>(node.attr_ints("dims").size());
  size_t next = 0;
  std::vector<Expr> shape;
  for (const bool added : chosen_dims(node, rank)) shape.push_back(added ? Expr(1) : from.shape[next++]);
  return result(node, from.dtype, std::move(shape));
}

Type concat(const Node& node) {
  if (node.operands.empty()) Failure(node) << "no operands";
  const DType dtype = common_dtype(node);
  std::vector<Expr> shape = tensor(node, 0).shape;
  const size_t dim = checked_dim(node, node.attr_int("dim"), tensor(node, 0).rank());
  for (size_t i = 1; i < node.operands.size(); ++i) {
    const std::vector<Expr>& other = tensor(node, i).shape;
    bool fits = other.size() == shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) fits = d == dim || other[d] == shape[d];
    if (!fits) {
      Failure(node) << "operand " << i << " has shape " << ListText{other} << ", operand 0 has "
                    << ListText{tensor(node, 0).shape} << ", along dimension " << dim;
    }
    shape[dim] = shape[dim] + other[dim];
  }
  return result(node, dtype, std::move(shape));
}

Type pad(const Node& node, const SymbolTable& symbols) {
  const Type& from = tensor(node, 0);
  common_dtype(node);
  if (tensor(node, 1).rank() != 0) Failure(node) << "the fill has rank " << tensor(node, 1).rank() << ", expected 0";
  const std::vector<Expr>&low = node.attr_exprs("low"), &high = node.attr_exprs("high");
  if (low.size() != from.shape.size() || high.size() != from.shape.size()) {
    Failure(node) << "low has " << low.size() << " sizes, high " << high.size() << ", the operand " << from.rank();
  }
  check_sizes(node, low, symbols);
  check_sizes(node, high, symbols);
  std::vector<Expr> shape;
  shape.reserve(low.size());
  for (size_t i = 0; i < low.size(); ++i) shape.push_back(low[i] + from.shape[i] + high[i]);
  return result(node, from.dtype, std::move(shape));
}

Type iota(const Node& node, const SymbolTable& symbols) {
  const DType dtype = node.attr_dtype("dtype");
  check_dtype(node, dtype, has_kernels(dtype) && dtype != DType::kBool, "a number type");
  const std::vector<Expr>& shape = node.attr_exprs("shape");
  check_sizes(node, shape, symbols);
  checked_dim(node, node.attr_int("dim"), static_cast<int>(shape.size()));
  return result(node, dtype, shape);
}

Type full(const Node& node, const SymbolTable& symbols) {
  const Type& value = tensor(node, 0);
  if (value.rank() != 0) Failure(node) << "the value has rank " << value.rank() << ", expected 0";
  check_sizes(node, node.attr_exprs("shape"), symbols);
  return result(node, value.dtype, node.attr_exprs("shape"));
}

void check_reduced_dtype(const Node& node, DType dtype) {
  switch (node.info().rule) {
    case Rule::kReduceNumber:
      return check_dtype(node, dtype, dtype != DType::kBool, "a number type");
    case Rule::kReduceFloat:
    case Rule::kWelford:
      return check_dtype(node, dtype, is_float(dtype), "a float type");
    case Rule::kReduceBool:
      return check_dtype(node, dtype, dtype == DType::kBool, "bool");
    default:
      return;
  }
}

Type reduction(const Node& node) {
  const Type& from = tensor(node, 0);
  check_reduced_dtype(node, from.dtype);
  const std::vector<bool> reduced = chosen_dims(node, from.rank());
  const std::vector<int64_t> dims = node.attr_ints("dims");
  if (!std::is_sorted(dims.begin(), dims.end())) Failure(node) << "dims are not sorted";
  if (node.info().rule == Rule::kReduceIndex && dims.size() != 1 && dims.size() != reduced.size()) {
    Failure(node) << dims.size() << " dimensions of rank " << reduced.size() << ", expected one or all";
  }
  const bool keepdim = node.attr_bool("keepdim");
  std::vector<Expr> shape;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (!reduced[i])
      shape.push_back(from.shape[i]);
    else if (keepdim)
      shape.push_back(1);
  }
  DType dtype = from.dtype;
  if (node.info().rule == Rule::kReduceIndex) dtype = DType::kI64;
  if (node.info().rule == Rule::kWelford) dtype = compute_type(dtype);
  return result(node, dtype, std::move(shape));
}

Type matmul(const Node& node, const SymbolTable& symbols) {
  const Type &a = tensor(node, 0), &b = tensor(node, 1);
  const DType dtype = common_dtype(node);
  const bool multiplies = dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
  check_dtype(node, dtype, multiplies, "f64, f32, f16 or bf16");
  const size_t rank = a.shape.size();
  if (rank < 2 || rank != b.shape.size())
    Failure(node) << "operands of rank " << rank << " and " << b.shape.size() << ", expected one rank, 2 or more";
  bool fits = may_equal(a.shape[rank - 1], b.shape[rank - 2], symbols);
  for (size_t d = 0; d + 2 < rank; ++d) fits = fits && may_equal(a.shape[d], b.shape[d], symbols);
  if (!fits) Failure(node) << "no product of " << ListText{a.shape} << " and " << ListText{b.shape};
  if (node.attr_string("precision") == "tf32" && dtype != DType::kF32)
    Failure(node) << "precision tf32 is for f32, found " << dtype;
  std::vector<Expr> shape = a.shape;
  shape.back() = b.shape.back();
  return result(node, compute_type(dtype), std::move(shape));
}

void check_operand_count(const Node& node) {
  const int wanted = node.info().operands;
  if (wanted >= 0 && static_cast<int>(node.operands.size()) != wanted) {
    Failure(node) << node.operands.size() << " operands, expected " << wanted;
  }
}

}  // namespace

void check_attrs(const Node& node) {
  const std::vector<AttrInfo>& rows = node.info().attrs;
  for (const auto& [name, value] : node.attrs) {
    const bool known = std::any_of(rows.begin(), rows.end(), [&](const AttrInfo& row) { return row.name == name; });
    if (!known) Failure(node) << "no attribute " << name << " in the table";
  }
  for (const AttrInfo& row : rows) {
    const Attr* attr = node.find_attr(row.name);
    if (!attr) Failure(node) << "attribute " << row.name << " is missing";
    if (!is_of_kind(*attr, row.kind)) Failure(node) << "attribute " << row.name << " is not " << kind_text(row.kind);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (node.attrs.size() != rows.size() || node.attrs[i].first != rows[i].name) {
      Failure(node) << "attributes are repeated or not in the table's order";
    }
  }
}

std::vector<Type> infer_types(const Node& node, const SymbolTable& symbols) {
  check_operand_count(node);
  check_attrs(node);
  switch (node.info().rule) {
    case Rule::kGiven:
      break;
    case Rule::kConstant:
      return {constant(node)};
    case Rule::kSymInt:
      return {symint(node)};
    case Rule::kAny:
    case Rule::kNumber:
    case Rule::kFloat:
    case Rule::kInteger:
    case Rule::kBits:
    case Rule::kCompare:
    case Rule::kFloatTest:
      return {pointwise(node)};
    case Rule::kWhere:
      return {where(node)};
    case Rule::kCast:
      return {cast(node)};
    case Rule::kBitcast:
      return {bitcast(node)};
    case Rule::kReshape:
      return {reshape(node, symbols)};
    case Rule::kPermute:
      return {permute(node)};
    case Rule::kExpand:
      return {expand(node, symbols)};
    case Rule::kSlice:
      return {slice(node, symbols)};
    case Rule::kFlip:
      return {flip(node)};
    case Rule::kSelect:
      return {select(node, symbols)};
    case Rule::kSqueeze:
      return {squeeze(node)};
    case Rule::kUnsqueeze:
      return {unsqueeze(node)};
    case Rule::kConcat:
      return {concat(node)};
    case Rule::kPad:
      return {pad(node, symbols)};
    case Rule::kIota:
      return {iota(node, symbols)};
    case Rule::kFull:
      return {full(node, symbols)};
    case Rule::kReduceAny:
    case Rule::kReduceNumber:
    case Rule::kReduceFloat:
    case Rule::kReduceBool:
    case Rule::kReduceIndex:
      return {reduction(node)};
    case Rule::kWelford: {
      const Type type = reduction(node);
      return {type, type};
    }
    case Rule::kMatmul:
      return {matmul(node, symbols)};
  }
  throw InternalError(std::string(node.info().text) + " has no shape rule: its result types are given");
}

}  // namespace tilewright
