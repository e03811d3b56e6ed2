#include <bit>
#include <cmath>

#include "ir/graph.h"

namespace tilewright {
namespace {

template <typename T>
const T& attr_as(const Node& node, std::string_view name, const char* kind) {
  const Attr* attr = node.find_attr(name);
  TW_CHECK(attr) << node.info().text << " has no attribute " << name;
  const T* value = std::get_if<T>(attr);
  TW_CHECK(value) << "attribute " << name << " of " << node.info().text << " is not " << kind;
  return *value;
}

bool same_double(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

template <typename ArgType, typename Visit>
void visit_values(ArgType& arg, const Visit& visit) {
  if (auto* value = std::get_if<Value*>(&arg.data)) {
    visit(*value);
  } else if (auto* list = std::get_if<Arg::List>(&arg.data)) {
    for (auto& element : *list) visit_values(element, visit);
  }
}

}  // namespace

bool same(const Attr& a, const Attr& b) {
  const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  return x && y ? same_double(*x, *y) : a == b;
}

void for_each_value(Arg& arg, const std::function<void(Value*&)>& visit) { visit_values(arg, visit); }

void for_each_value(const Arg& arg, const std::function<void(Value*)>& visit) { visit_values(arg, visit); }

Type type_of(const Arg& arg) {
  if (auto* value = std::get_if<Value*>(&arg.data)) return (*value)->type;
  if (auto* size = std::get_if<Expr>(&arg.data)) return Type::integer(*size);
  if (std::holds_alternative<double>(arg.data)) return Type::of(TypeKind::kFloat);
  if (std::holds_alternative<bool>(arg.data)) return Type::of(TypeKind::kBool);
  if (std::holds_alternative<std::string>(arg.data)) return Type::of(TypeKind::kStr);
  if (std::holds_alternative<Arg::None>(arg.data)) return Type::of(TypeKind::kNone);
  auto* list = std::get_if<Arg::List>(&arg.data);
  if (!list) return Type::of(TypeKind::kOpaque);
  Type type = Type::of(TypeKind::kList);
  for (const Arg& element : *list) type.elements.push_back(type_of(element));
  return type;
}

const Attr* Node::find_attr(std::string_view name) const {
  for (const auto& [key, value] : attrs) {
    if (key == name) return &value;
  }
  return nullptr;
}

bool Node::attr_bool(std::string_view name) const { return attr_as<bool>(*this, name, "true or false"); }
const Expr& Node::attr_expr(std::string_view name) const { return attr_as<Expr>(*this, name, "a size"); }
double Node::attr_double(std::string_view name) const { return attr_as<double>(*this, name, "a float"); }
DType Node::attr_dtype(std::string_view name) const { return attr_as<DType>(*this, name, "an element type"); }
const std::string& Node::attr_string(std::string_view name) const {
  return attr_as<std::string>(*this, name, "a string");
}
const std::vector<Expr>& Node::attr_exprs(std::string_view name) const {
  return attr_as<std::vector<Expr>>(*this, name, "a list");
}

int64_t Node::attr_int(std::string_view name) const {
  const Expr& e = attr_expr(name);
  TW_CHECK(e.constant()) << "attribute " << name << " of " << info().text << " is " << e << ", not a constant";
  return *e.constant();
}

std::vector<int64_t> Node::attr_ints(std::string_view name) const {
  std::vector<int64_t> out;
  for (const Expr& e : attr_exprs(name)) {
    TW_CHECK(e.constant()) << "attribute " << name << " of " << info().text << " has " << e << ", not a constant";
    out.push_back(*e.constant());
  }
  return out;
}

}  // namespace tilewright
