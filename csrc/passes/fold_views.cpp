#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tilewright {
namespace {

using Exprs = std::vector<Expr>;

bool known_equal(const Graph& g, const Exprs& a, const Exprs& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!g.symbols().known_equal(a[i], b[i]).value_or(false)) return false;
  }
  return true;
}

// Whether the node gives its operand as it is.
bool is_identity(const Graph& g, const Node& node) {
  const Exprs& shape = node.type().shape;
  switch (node.op) {
    case Op::kReshape:
    case Op::kExpand:
    case Op::kFull:
    case Op::kSlice: {
      const bool all =
          node.op != Op::kSlice || (node.attr_expr("start").is_constant(0) && node.attr_expr("step").is_constant(1));
      return all && known_equal(g, shape, node.operand(0)->type.shape);
    }
    case Op::kPermute: {
      const std::vector<int64_t> dims = node.attr_ints("dims");
      for (size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] != static_cast<int64_t>(i)) return false;
      }
      return true;
    }
    case Op::kSqueeze:
    case Op::kUnsqueeze:
    case Op::kFlip:
      return node.attr_exprs("dims").empty();
    case Op::kConcat:
      return node.operands.size() == 1;
    case Op::kPad: {
      const Exprs zeros(node.attr_exprs("low").size(), Expr(0));
      return node.attr_exprs("low") == zeros && node.attr_exprs("high") == zeros;
    }
    default:
      return false;
  }
}

// A node that means `node` but reads the operand of the view that `node` reads; null where the two do not compose.
struct Composition {
  Graph& g;
  Node* node;
  Node* inner;

  Node* make(Op op, std::vector<std::pair<std::string, Attr>> attrs) const {
    Node* made = g.add(op, {inner->operand(0)}, std::move(attrs), node->loc, node);
    made->origins = join_origins(node->origins, inner->origins);
    return made;
  }

  Node* reshape() const {
    switch (inner->op) {
      case Op::kReshape:
      case Op::kSqueeze:
      case Op::kUnsqueeze:
        return make(Op::kReshape, {{"shape", node->type().shape}});
      default:
        return nullptr;
    }
  }

  Node* permute() const {
    if (inner->op != Op::kPermute) return nullptr;
    const std::vector<int64_t> first = inner->attr_ints("dims");
    Exprs dims;
    for (int64_t d : node->attr_ints("dims")) dims.emplace_back(first[static_cast<size_t>(d)]);
    return make(Op::kPermute, {{"dims", std::move(dims)}});
  }

  Node* expand() const {
    return inner->op == Op::kExpand ? make(Op::kExpand, {{"shape", node->type().shape}}) : nullptr;
  }

  Node* squeeze() const {
    if (inner->op == Op::kReshape) return make(Op::kReshape, {{"shape", node->type().shape}});
    const bool undoes = inner->op == Op::kUnsqueeze && inner->attr_exprs("dims") == node->attr_exprs("dims");
    return undoes ? make(Op::kReshape, {{"shape", node->type().shape}}) : nullptr;
  }

  Node* unsqueeze() const {
    if (inner->op == Op::kReshape) return make(Op::kReshape, {{"shape", node->type().shape}});
    if (inner->op != Op::kUnsqueeze) return nullptr;
    const std::vector<int64_t> outer = node->attr_ints("dims"), first = inner->attr_ints("dims");
    Exprs dims;
    int64_t between = 0;  // dimension of the value between the two
    for (int64_t d = 0; d < node->type().rank(); ++d) {
      const bool added = std::find(outer.begin(), outer.end(), d) != outer.end();
      if (added || std::find(first.begin(), first.end(), between) != first.end()) dims.emplace_back(d);
      between += added ? 0 : 1;
    }
    return make(Op::kUnsqueeze, {{"dims", std::move(dims)}});
  }

  Node* slice() const {
    if (inner->op != Op::kSlice || !inner->attr_expr("step").is_constant(1)) return nullptr;
    if (inner->attr_int("dim") != node->attr_int("dim")) return nullptr;
    const Expr& offset = inner->attr_expr("start");
    return make(Op::kSlice, {{"dim", node->attr_expr("dim")},
                             {"start", offset + node->attr_expr("start")},
                             {"end", offset + node->attr_expr("end")},
                             {"step", node->attr_expr("step")}});
  }

  Node* flip() const {
    if (inner->op != Op::kFlip) return nullptr;
    const std::vector<int64_t> a = node->attr_ints("dims"), b = inner->attr_ints("dims");
    Exprs dims;
    for (int64_t d = 0; d < node->type().rank(); ++d) {
      const bool once = (std::find(a.begin(), a.end(), d) != a.end()) != (std::find(b.begin(), b.end(), d) != b.end());
      if (once) dims.emplace_back(d);
    }
    return make(Op::kFlip, {{"dims", std::move(dims)}});
  }

  // A dimension that was added is selected again.
  Node* select() const {
    if (inner->op != Op::kUnsqueeze || inner->attr_exprs("dims") != Exprs{node->attr_expr("dim")}) return nullptr;
    return make(Op::kReshape, {{"shape", node->type().shape}});
  }

  Node* fill() const { return make(Op::kFull, {{"shape", node->type().shape}}); }

  Node* compose() const {
    const bool moves =
        node->op != Op::kConcat && node->op != Op::kPad && node->op != Op::kIota && node->op != Op::kFull;
    if (inner->op == Op::kFull && moves) return fill();
    switch (node->op) {
      case Op::kReshape:
        return reshape();
      case Op::kPermute:
        return permute();
      case Op::kExpand:
        return expand();
      case Op::kSqueeze:
        return squeeze();
      case Op::kUnsqueeze:
        return unsqueeze();
      case Op::kSlice:
        return slice();
      case Op::kFlip:
        return flip();
      case Op::kSelect:
        return select();
      default:
        return nullptr;
    }
  }
};

// Composes as far as it goes, then removes what became an identity. A value that leaves the graph keeps its own node:
// what it is a view of is part of what eager returns.
void fold(Graph& g, Node* node, std::set<const Value*>& escaping) {
  while (!node->operands.empty()) {
    if (is_identity(g, *node)) {
      const bool is_view = node->op != Op::kConcat && node->op != Op::kPad;  // those make a tensor of their own
      if (is_view) {
        if (node->result()->output_uses > 0) return;  // eager returns a tensor object of its own
        forward(g, node, node->operand(0));
      } else {
        forward_new(g, node, node->operand(0), escaping);
      }
      return;
    }
    Node* inner = node->operand(0)->node;
    if (inner->category() != Category::kView || inner->operands.empty()) return;
    if (escaping.count(node->result()) && inner->op == Op::kFull) return;
    Node* made = Composition{g, node, inner}.compose();
    if (!made) return;
    take_over(g, node, made);
    node = made;
  }
}

}  // namespace

void fold_views(Graph& g, const Context&) {
  std::set<const Value*> escaping = escaping_values(g);
  for (Node* node : g.nodes()) {
    if (node->category() == Category::kView) fold(g, node, escaping);
  }
  g.erase_dead();
}

}  // namespace tilewright
