#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tilewright {
namespace {

// Whether the node is part of an operator's expansion, not a conversion that the user wrote. Without a location it is
// taken for the user's.
bool is_made_by_rule(const Node& node) {
  if (!node.loc || node.loc->op.empty()) return false;
  const std::string& op = node.loc->op;
  return op != "aten._to_copy.default" && op != "prims.convert_element_type.default" && op != "aten.copy.default";
}

bool is_narrow(DType t) { return is_float(t) && compute_type(t) != t; }

bool is_widening(const Node& node) {
  return node.op == Op::kCast && is_narrow(node.operand(0)->type.dtype) && node.type().dtype == DType::kF32;
}

// Operators that compute in the type of their operands and may as well do so in a wider one.
bool can_widen(const Node& node) {
  if (node.category() != Category::kPointwise || !is_narrow(node.type().dtype) || !is_made_by_rule(node)) return false;
  return node.op != Op::kCast && node.op != Op::kCopy && node.op != Op::kBitcast && node.op != Op::kNextafter;
}

// %y = op %a, %b : bf16    becomes    %wa = cast %a to f32 ... %w = op %wa, %wb : f32, %y = cast %w to bf16
void widen(Graph& g, Node* node) {
  std::vector<Value*> operands;
  for (Value* v : node->operands) {
    if (!is_narrow(v->type.dtype)) {
      operands.push_back(v);
      continue;
    }
    Node* wide = g.add(Op::kCast, {v}, {{"to", DType::kF32}}, node->loc, node);
    wide->origins = node->origins;
    operands.push_back(wide->result());
  }
  Node* wide = g.add(node->op, std::move(operands), node->attrs, node->loc, node);
  wide->origins = node->origins;
  Node* narrow = g.add(Op::kCast, {wide->result()}, {{"to", node->type().dtype}}, node->loc, node);
  take_over(g, node, narrow);
}

bool is_rounding(const Node& node) {
  return node.op == Op::kCast && is_narrow(node.type().dtype) && node.operand(0)->type.dtype == DType::kF32 &&
         is_made_by_rule(node);
}

// Whether every reader of the rounded value widens it again.
bool only_widened(const Value& v) {
  return v.output_uses == 0 && !v.users.empty() && std::all_of(v.users.begin(), v.users.end(), [](const Node* n) {
           return is_widening(*n) && is_made_by_rule(*n);
         });
}

}  // namespace

void relax_rounding(Graph& g, const Context& ctx) {
  if (ctx.options.numerics != "fast") return;
  for (Node* node : g.nodes()) {
    if (can_widen(*node)) widen(g, node);
  }
  std::vector<Node*> roundings;  // none of them is among the nodes that go
  for (Node* node : g.nodes()) {
    if (is_rounding(*node)) roundings.push_back(node);
  }
  for (Node* node : roundings) {
    if (!only_widened(*node->result())) continue;
    Value* wide = node->operand(0);
    const std::vector<Node*> users = node->result()->users;
    for (Node* user : users) {
      user->origins = join_origins(user->origins, node->origins);
      forward(g, user, wide);
    }
  }
  g.erase_dead();
}

}  // namespace tilewright
