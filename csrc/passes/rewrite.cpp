#include "passes/rewrite.h"

#include <algorithm>
#include <iterator>

namespace tilewright {

std::vector<int> join_origins(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> result;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}

void take_over(Graph& g, Node* node, Node* with) {
  Value* from = node->result();
  Value* to = with->result();
  const std::string name = from->name;
  to->type.strides = from->type.strides;
  to->type.offset = from->type.offset;
  with->origins = join_origins(with->origins, node->origins);
  g.replace_all_uses(from, to);
  g.erase(node);
  g.rename(to, name);
}

void forward(Graph& g, Node* node, Value* with) {
  for (Node* user : node->result()->users) {
    if (!user->is_call()) user->origins = join_origins(user->origins, node->origins);
  }
  g.replace_all_uses(node->result(), with);
  g.erase(node);
}

std::set<const Value*> escaping_values(const Graph& g) {
  std::set<const Value*> result;
  for (const Output& o : g.outputs()) {
    const Value* v = o.tensor();
    while (v) {
      result.insert(v);
      const Node* n = v->node;
      v = n && n->category() == Category::kView && !n->operands.empty() ? n->operand(0) : nullptr;
    }
  }
  return result;
}

void forward_new(Graph& g, Node* node, Value* with, std::set<const Value*>& escaping) {
  if (!escaping.count(node->result())) {
    forward(g, node, with);
    return;
  }
  if (node->op == Op::kCopy) return;
  Node* copy = g.add(Op::kCopy, {with}, {}, node->loc, node);
  take_over(g, node, copy);
  escaping.insert(copy->result());
}

std::optional<double> constant_value(const Value* v) {
  if (!v->node || v->node->op != Op::kConstant) return std::nullopt;
  const Attr* attr = v->node->find_attr("value");
  if (auto* d = std::get_if<double>(attr)) return *d;
  if (auto* b = std::get_if<bool>(attr)) return *b ? 1.0 : 0.0;
  if (auto* e = std::get_if<Expr>(attr)) {
    if (const std::optional<int64_t> i = e->constant()) return static_cast<double>(*i);
  }
  return std::nullopt;
}

}  // namespace tilewright
