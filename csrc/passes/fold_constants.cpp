#include <cmath>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tilewright {
namespace {

// Numbers of every type as doubles: integers of more than 53 bits are left alone.
constexpr double kExactIntegers = 9007199254740992.0;

double round_result(DType t, double wide) { return is_float(t) ? round_to(t, round_to(compute_type(t), wide)) : wide; }

// Rounding in double before the float of at most 24 bits changes nothing for these, except for fma.
std::optional<double> evaluate_floats(Op op, DType t, const std::vector<double>& x) {
  switch (op) {
    case Op::kReciprocal:
      return 1.0 / x[0];
    case Op::kSqrt:
      return std::sqrt(x[0]);
    case Op::kCeil:
      return std::ceil(x[0]);
    case Op::kFloor:
      return std::floor(x[0]);
    case Op::kTrunc:
      return std::trunc(x[0]);
    case Op::kDiv:
      return x[0] / x[1];
    case Op::kFma:
      if (compute_type(t) == DType::kF64) return std::fma(x[0], x[1], x[2]);
      return std::fma(static_cast<float>(x[0]), static_cast<float>(x[1]), static_cast<float>(x[2]));
    default:
      return std::nullopt;
  }
}

std::optional<double> evaluate_numbers(Op op, const std::vector<double>& x) {
  switch (op) {
    case Op::kCopy:
      return x[0];
    case Op::kNeg:
      return -x[0];
    case Op::kAbs:
      return std::fabs(x[0]);
    case Op::kAdd:
      return x[0] + x[1];
    case Op::kSub:
      return x[0] - x[1];
    case Op::kMul:
      return x[0] * x[1];
    case Op::kMaximum:
      return std::isnan(x[0]) || x[0] > x[1] ? x[0] : x[1];
    case Op::kMinimum:
      return std::isnan(x[0]) || x[0] < x[1] ? x[0] : x[1];
    case Op::kWhere:
      return x[0] != 0 ? x[1] : x[2];
    default:
      return std::nullopt;
  }
}

std::optional<double> evaluate_tests(Op op, const std::vector<double>& x) {
  switch (op) {
    case Op::kEq:
      return x[0] == x[1];
    case Op::kNe:
      return x[0] != x[1];
    case Op::kLt:
      return x[0] < x[1];
    case Op::kLe:
      return x[0] <= x[1];
    case Op::kGt:
      return x[0] > x[1];
    case Op::kGe:
      return x[0] >= x[1];
    case Op::kIsNan:
      return std::isnan(x[0]);
    case Op::kIsInf:
      return std::isinf(x[0]);
    default:
      return std::nullopt;
  }
}

std::optional<double> evaluate_truths(Op op, const std::vector<double>& x) {
  switch (op) {
    case Op::kAnd:
      return x[0] != 0 && x[1] != 0;
    case Op::kOr:
      return x[0] != 0 || x[1] != 0;
    case Op::kXor:
      return (x[0] != 0) != (x[1] != 0);
    case Op::kNot:
      return x[0] == 0;
    default:
      return std::nullopt;
  }
}

bool fits_integer(DType t, double value) {
  if (value != std::floor(value) || std::fabs(value) > kExactIntegers) return false;
  const int bits = static_cast<int>(bytes(t)) * 8 - (is_signed(t) ? 1 : 0);
  return value < std::ldexp(1.0, bits) && value >= (is_signed(t) ? -std::ldexp(1.0, bits) : 0.0);
}

// The node's value where all operands are numbers and the operator is one that every machine rounds alike.
std::optional<double> evaluate(const Node& node) {
  std::vector<double> x;
  for (const Value* v : node.operands) {
    const std::optional<double> value = constant_value(v);
    if (!value || (is_integer(v->type.dtype) && std::fabs(*value) > kExactIntegers)) return std::nullopt;
    x.push_back(*value);
  }
  const DType type = node.type().dtype;
  std::optional<double> result;
  if (node.op == Op::kCast) {
    const bool to_narrower_kind = is_integer(type) && is_float(node.operand(0)->type.dtype);
    result = type == DType::kBool ? static_cast<double>(x[0] != 0) : to_narrower_kind ? std::trunc(x[0]) : x[0];
  } else if (auto test = evaluate_tests(node.op, x)) {
    return test;
  } else if (type == DType::kBool && node.op != Op::kWhere && node.op != Op::kCopy) {
    return evaluate_truths(node.op, x);
  } else {
    result = evaluate_numbers(node.op, x);
    if (!result && is_float(type)) result = evaluate_floats(node.op, type, x);
  }
  if (!result) return std::nullopt;
  if (is_integer(type) && !fits_integer(type, *result)) return std::nullopt;
  return round_result(type, *result);
}

Node* make_constant(Graph& g, DType type, double value, Node* before) {
  Value* v =
      is_integer(type) ? g.constant_int(type, static_cast<int64_t>(value), before) : g.constant(type, value, before);
  v->node->loc = before->loc;
  return v->node;
}

bool is_number(const Value* v, double value) {
  const std::optional<double> c = constant_value(v);
  return c && *c == value && std::signbit(*c) == std::signbit(value);
}

// The operand that an operator with a neutral number gives as it is; null where there is none. Every row holds for NaN,
// infinities and signed zeros.
Value* neutral_result(const Node& node) {
  const DType type = node.type().dtype;
  auto x = [&](int i) { return node.operand(i); };
  switch (node.op) {
    case Op::kMul:
      return is_number(x(1), 1) ? x(0) : is_number(x(0), 1) ? x(1) : nullptr;
    case Op::kDiv:
      return is_number(x(1), 1) ? x(0) : nullptr;
    case Op::kAdd: {  // x + 0.0 turns -0.0 into 0.0, x + -0.0 does not
      const double zero = is_float(type) ? -0.0 : 0.0;
      return is_number(x(1), zero) ? x(0) : is_number(x(0), zero) ? x(1) : nullptr;
    }
    case Op::kSub:
      return is_number(x(1), 0.0) ? x(0) : nullptr;
    case Op::kMaximum:
    case Op::kMinimum: {
      const double end = node.op == Op::kMaximum ? -INFINITY : INFINITY;
      return is_number(x(1), end) ? x(0) : is_number(x(0), end) ? x(1) : nullptr;
    }
    case Op::kAnd:
    case Op::kOr: {
      if (type != DType::kBool) return nullptr;
      const double neutral = node.op == Op::kAnd ? 1 : 0;
      return is_number(x(1), neutral) ? x(0) : is_number(x(0), neutral) ? x(1) : nullptr;
    }
    case Op::kWhere:
      if (const std::optional<double> c = constant_value(x(0))) return *c != 0 ? x(1) : x(2);
      return x(1) == x(2) ? x(1) : nullptr;
    case Op::kNeg:
    case Op::kNot:
      return x(0)->node->op == node.op ? x(0)->node->operand(0) : nullptr;
    default:
      return nullptr;
  }
}

// Operands that are fills become their rank-0 values, which any shape takes.
void read_fills(Graph& g, Node* node) {
  bool other = false;  // an operand that gives the shape
  for (const Value* v : node->operands) other = other || (v->type.rank() > 0 && v->node->op != Op::kFull);
  if (!other) return;
  for (size_t i = 0; i < node->operands.size(); ++i) {
    Node* fill = node->operands[i]->node;
    if (fill->op != Op::kFull) continue;
    node->origins = join_origins(node->origins, fill->origins);
    g.replace_operand(node, static_cast<int>(i), fill->operand(0));
  }
}

// An operator on fills alone is a fill of the operator on their values.
Node* hoist_fill(Graph& g, Node* node) {
  if (node->op == Op::kCopy || node->type().rank() == 0) return nullptr;
  std::vector<Value*> scalars;
  std::vector<int> origins = node->origins;
  for (Value* v : node->operands) {
    if (v->type.rank() > 0 && v->node->op != Op::kFull) return nullptr;
    scalars.push_back(v->type.rank() == 0 ? v : v->node->operand(0));
    if (v->type.rank() > 0) origins = join_origins(origins, v->node->origins);
  }
  Node* scalar = g.add(node->op, std::move(scalars), node->attrs, node->loc, node);
  Node* fill = g.add(Op::kFull, {scalar->result()}, {{"shape", node->type().shape}}, node->loc, node);
  scalar->origins = origins;
  fill->origins = origins;
  take_over(g, node, fill);
  return scalar;
}

void fold(Graph& g, Node* node, std::set<const Value*>& escaping) {
  read_fills(g, node);
  if (Node* scalar = hoist_fill(g, node)) node = scalar;
  if (const std::optional<double> value = evaluate(*node)) {
    take_over(g, node, make_constant(g, node->type().dtype, *value, node));
    return;
  }
  Value* same = neutral_result(*node);
  if (!same) return;
  if (same->type.shape == node->type().shape) {
    forward_new(g, node, same, escaping);
  } else if (same->type.rank() == 0) {
    take_over(g, node, g.add(Op::kFull, {same}, {{"shape", node->type().shape}}, node->loc, node));
  }
}

}  // namespace

void fold_constants(Graph& g, const Context&) {
  std::set<const Value*> escaping = escaping_values(g);
  for (Node* node : g.nodes()) {
    if (node->category() != Category::kPointwise) continue;
    const Value* first = node->operand(0);
    if (first->type.is_tensor() && has_kernels(first->type.dtype)) fold(g, node, escaping);
  }
  g.erase_dead();
}

}  // namespace tilewright
