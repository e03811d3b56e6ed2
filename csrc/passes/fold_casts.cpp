#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tilewright {
namespace {

// Bits of an integer type's magnitude; a float type holds integers of `digits` bits exactly.
int magnitude_bits(DType t) {
  if (t == DType::kBool) return 1;
  return static_cast<int>(bytes(t)) * 8 - (is_signed(t) ? 1 : 0);
}

struct FloatFormat {
  int digits, exponent_bits;
};

FloatFormat format(DType t) {
  switch (t) {
    case DType::kF64:
      return {53, 11};
    case DType::kF32:
      return {24, 8};
    case DType::kF16:
      return {11, 5};
    case DType::kBF16:
      return {8, 8};
    case DType::kF8E4M3:
      return {4, 4};
    case DType::kF8E5M2:
      return {3, 5};
    default:
      return {0, 0};
  }
}

// Whether every value of `from` is one of `to`.
bool holds_all(DType to, DType from) {
  if (from == to) return true;
  if (!has_kernels(from) || !has_kernels(to) || to == DType::kBool) return false;
  if (from == DType::kBool) return true;
  if (is_float(from)) {
    return is_float(to) && format(to).digits >= format(from).digits &&
           format(to).exponent_bits >= format(from).exponent_bits;
  }
  if (is_float(to))
    return format(to).digits >= magnitude_bits(from) && magnitude_bits(from) < (1 << (format(to).exponent_bits - 1));
  if (is_signed(from) && !is_signed(to)) return false;
  return magnitude_bits(to) >= magnitude_bits(from);
}

bool keeps_values(const Node& node) {
  if (node.op != Op::kCast || !node.operand(0)->type.is_tensor()) return false;
  return holds_all(node.type().dtype, node.operand(0)->type.dtype);
}

}  // namespace

void fold_casts(Graph& g, const Context&) {
  std::set<const Value*> escaping = escaping_values(g);
  for (Node* node : g.nodes()) {
    if (node->op != Op::kCast || !node->operand(0)->type.is_tensor()) continue;
    Value* source = node->operand(0);
    std::vector<int> origins;
    while (keeps_values(*source->node)) {
      origins = join_origins(origins, source->node->origins);
      source = source->node->operand(0);
    }
    node->origins = join_origins(node->origins, origins);
    if (source->type.dtype == node->type().dtype) {
      forward_new(g, node, source, escaping);
    } else if (source != node->operand(0)) {
      g.replace_operand(node, 0, source);
    }
  }
  g.erase_dead();
}

}  // namespace tilewright
