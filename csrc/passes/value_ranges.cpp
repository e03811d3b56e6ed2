#include "passes/value_ranges.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string_view>
#include <unordered_map>

namespace tilewright {
namespace {

constexpr ValueRange kUnknown{};
constexpr ValueRange kTruth{0, 1};

ValueRange type_range(const Type& t) {
  if (!t.is_tensor()) return kUnknown;
  switch (t.dtype) {
    case DType::kBool:
      return kTruth;
    case DType::kU8:
      return {0, 255};
    case DType::kI8:
      return {-128, 127};
    case DType::kI16:
      return {-32768, 32767};
    case DType::kI32:
      return {INT32_MIN, INT32_MAX};
    default:
      return kUnknown;
  }
}

ValueRange join(ValueRange a, ValueRange b) { return {std::min(a.lower, b.lower), std::max(a.upper, b.upper)}; }

// A tensor has no more elements than memory has bytes; what counts them stays below this.
constexpr int64_t kMostElements = int64_t{1} << 48;
// Sums and products of what lies within stay in 64 bits.
constexpr int64_t kSummable = int64_t{1} << 60, kMultipliable = int64_t{1} << 30;
bool within(ValueRange r, int64_t limit) { return r.lower > -limit && r.upper < limit; }

ValueRange add(ValueRange a, ValueRange b) {
  return within(a, kSummable) && within(b, kSummable) ? ValueRange{a.lower + b.lower, a.upper + b.upper} : kUnknown;
}
ValueRange negate(ValueRange a) { return within(a, kSummable) ? ValueRange{-a.upper, -a.lower} : kUnknown; }
ValueRange multiply(ValueRange a, ValueRange b) {
  if (!within(a, kMultipliable) || !within(b, kMultipliable)) return kUnknown;
  const auto [low, high] = std::minmax({a.lower * b.lower, a.lower * b.upper, a.upper * b.lower, a.upper * b.upper});
  return {low, high};
}

ValueRange truth(bool always, bool never) { return {always ? 1 : 0, never ? 0 : 1}; }
ValueRange as_truth(ValueRange r) { return truth(r.lower > 0 || r.upper < 0, r.is(0)); }
ValueRange less(ValueRange a, ValueRange b) { return truth(a.upper < b.lower, a.lower >= b.upper); }
ValueRange less_equal(ValueRange a, ValueRange b) { return truth(a.upper <= b.lower, a.lower > b.upper); }
ValueRange equal(ValueRange a, ValueRange b) {
  return truth(a.known() && a.lower == a.upper && b.is(a.lower), a.upper < b.lower || b.upper < a.lower);
}
ValueRange opposite(ValueRange r) { return {1 - r.upper, 1 - r.lower}; }
ValueRange both(ValueRange a, ValueRange b) { return {std::min(a.lower, b.lower), std::min(a.upper, b.upper)}; }
ValueRange either(ValueRange a, ValueRange b) { return {std::max(a.lower, b.lower), std::max(a.upper, b.upper)}; }

// "aten.ge.Scalar" -> "ge"; empty for other namespaces.
std::string_view operator_name(const std::string& callee) {
  std::string_view text = callee;
  if (text.substr(0, 5) != "aten.") return {};
  text.remove_prefix(5);
  return text.substr(0, text.find('.'));
}

// Operators whose result holds nothing but elements of their first operand.
bool moves_values(std::string_view op) {
  static const std::set<std::string_view> kMoves = {"expand",
                                                    "view",
                                                    "_unsafe_view",
                                                    "reshape",
                                                    "unsqueeze",
                                                    "squeeze",
                                                    "permute",
                                                    "transpose",
                                                    "t",
                                                    "slice",
                                                    "select",
                                                    "clone",
                                                    "alias",
                                                    "detach",
                                                    "lift_fresh_copy",
                                                    "flip",
                                                    "index",
                                                    "gather",
                                                    "index_select",
                                                    "repeat",
                                                    "contiguous",
                                                    "roll",
                                                    "unbind",
                                                    "split",
                                                    "split_with_sizes",
                                                    "chunk",
                                                    "amax",
                                                    "amin",
                                                    "expand_as",
                                                    "as_strided"};
  return kMoves.count(op) > 0;
}

using Binary = ValueRange (*)(ValueRange, ValueRange);

Binary binary(std::string_view op, bool on_truth) {
  static const std::unordered_map<std::string_view, Binary> kAny = {
      {"lt", [](ValueRange a, ValueRange b) { return less(a, b); }},
      {"le", [](ValueRange a, ValueRange b) { return less_equal(a, b); }},
      {"gt", [](ValueRange a, ValueRange b) { return less(b, a); }},
      {"ge", [](ValueRange a, ValueRange b) { return less_equal(b, a); }},
      {"eq", [](ValueRange a, ValueRange b) { return equal(a, b); }},
      {"ne", [](ValueRange a, ValueRange b) { return opposite(equal(a, b)); }},
      {"logical_and", [](ValueRange a, ValueRange b) { return both(as_truth(a), as_truth(b)); }},
      {"logical_or", [](ValueRange a, ValueRange b) { return either(as_truth(a), as_truth(b)); }},
      {"maximum", [](ValueRange a, ValueRange b) { return either(a, b); }},
      {"minimum", [](ValueRange a, ValueRange b) { return both(a, b); }},
  };
  static const std::unordered_map<std::string_view, Binary> kTruths = {
      {"bitwise_and", both}, {"__and__", both}, {"mul", both}, {"bitwise_or", either}, {"__or__", either}};
  static const std::unordered_map<std::string_view, Binary> kIntegers = {{"mul", multiply}};
  for (const auto* table : {&kAny, on_truth ? &kTruths : &kIntegers}) {
    if (auto it = table->find(op); it != table->end()) return it->second;
  }
  return nullptr;
}

const Arg* find_argument(const Node& node, size_t i, std::string_view name) {
  for (const auto& [key, arg] : node.kwargs) {
    if (key == name) return &arg;
  }
  return i < node.args.size() ? &node.args[i] : nullptr;
}

bool is_integral(const Type& t) { return t.is_tensor() && (is_integer(t.dtype) || t.dtype == DType::kBool); }

}  // namespace

ValueRange ValueRanges::of(const Value* value) {
  if (auto it = known_.find(value); it != known_.end()) return it->second;
  ValueRange range =
      value->type.kind == TypeKind::kInt && value->type.value ? of(Arg{*value->type.value}) : type_range(value->type);
  if (value->node->is_call()) {
    const ValueRange computed = compute(*value->node);
    range = {std::max(range.lower, computed.lower), std::min(range.upper, computed.upper)};
    if (range.lower > range.upper) range = type_range(value->type);  // the cast to this type wrapped
  }
  known_[value] = range;
  return range;
}

ValueRange ValueRanges::of(const Arg& arg) {
  if (auto* v = std::get_if<Value*>(&arg.data)) return of(*v);
  if (auto* e = std::get_if<Expr>(&arg.data)) {
    const Range r = g_.symbols().range(*e);
    return {r.lower, r.upper};
  }
  if (auto* b = std::get_if<bool>(&arg.data)) return *b ? ValueRange{1, 1} : ValueRange{0, 0};
  if (auto* d = std::get_if<double>(&arg.data)) {
    if (std::fabs(*d) < static_cast<double>(kMultipliable))
      return {static_cast<int64_t>(std::floor(*d)), static_cast<int64_t>(std::ceil(*d))};
  }
  return kUnknown;
}

ValueRange ValueRanges::of_argument(const Node& node, size_t i, const char* name) {
  const Arg* arg = find_argument(node, i, name);
  return arg ? of(*arg) : kUnknown;
}

ValueRange ValueRanges::compute(const Node& node) {
  const std::string_view op = operator_name(node.callee);
  if (op.empty()) return kUnknown;
  const ValueRange first = of_argument(node, 0, "self");
  if (moves_values(op)) return first;
  if (op == "full") return of_argument(node, 1, "fill_value");
  if (op == "full_like") return of_argument(node, 1, "fill_value");
  if (op == "new_full") return of_argument(node, 2, "fill_value");
  if (op == "scalar_tensor") return of_argument(node, 0, "s");
  if (op == "ones" || op == "ones_like" || op == "new_ones") return {1, 1};
  if (op == "zeros" || op == "zeros_like" || op == "new_zeros") return {0, 0};
  if (op == "arange") {
    if (!is_integral(node.type()) || node.callee == "aten.arange.start_step") return kUnknown;
    const bool with_start = node.callee == "aten.arange.start";
    const ValueRange start = with_start ? of_argument(node, 0, "start") : ValueRange{0, 0};
    const ValueRange end = of_argument(node, with_start ? 1 : 0, "end");
    if (!within({start.lower, start.lower}, kSummable)) return kUnknown;
    return {start.lower, std::max(start.lower, std::min(end.upper - 1, start.lower + kMostElements))};
  }
  if (op == "logical_not") return opposite(as_truth(first));
  if (op == "bitwise_not" && node.type().dtype == DType::kBool) return opposite(first);
  if (op == "any" || op == "all") return as_truth(first);
  if (op == "_to_copy") return node.type().dtype == DType::kBool ? as_truth(first) : first;
  if (op == "where") {
    const ValueRange condition = of_argument(node, 0, "condition");
    if (condition.is(1)) return of_argument(node, 1, "self");
    if (condition.is(0)) return of_argument(node, 2, "other");
    return join(of_argument(node, 1, "self"), of_argument(node, 2, "other"));
  }
  if (op == "constant_pad_nd") {
    const bool given = find_argument(node, 2, "value") != nullptr;
    return join(first, given ? of_argument(node, 2, "value") : ValueRange{0, 0});
  }
  if (op == "cat" || op == "stack") {
    const Arg* list = find_argument(node, 0, "tensors");
    const Arg::List* items = list ? std::get_if<Arg::List>(&list->data) : nullptr;
    if (!items || items->empty()) return kUnknown;
    ValueRange all = of(items->front());
    for (const Arg& a : *items) all = join(all, of(a));
    return all;
  }
  const ValueRange second = of_argument(node, 1, "other");
  if ((op == "add" || op == "sub") && is_integral(node.type()) && !find_argument(node, 2, "alpha")) {
    return add(first, op == "add" ? second : negate(second));
  }
  const Binary f = binary(op, node.type().dtype == DType::kBool);
  return f ? f(first, second) : kUnknown;
}

}  // namespace tilewright
