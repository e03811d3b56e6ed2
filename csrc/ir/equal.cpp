#include <algorithm>

#include "ir/graph.h"

namespace tilewright {
namespace {

// Values of two graphs are the same where their names are: names are unique in a graph, and both define them alike.
bool same_value(const Value* a, const Value* b) { return a == b || (a && b && a->name == b->name); }

bool same_arg(const Arg& a, const Arg& b) {
  if (a.data.index() != b.data.index()) return false;
  if (auto* value = std::get_if<Value*>(&a.data)) return same_value(*value, std::get<Value*>(b.data));
  if (auto* number = std::get_if<double>(&a.data)) return same(Attr(*number), Attr(std::get<double>(b.data)));
  if (auto* complex = std::get_if<Arg::Complex>(&a.data)) {
    const auto& other = std::get<Arg::Complex>(b.data);
    return same(Attr(complex->re), Attr(other.re)) && same(Attr(complex->im), Attr(other.im));
  }
  if (auto* list = std::get_if<Arg::List>(&a.data)) {
    const auto& other = std::get<Arg::List>(b.data);
    return std::equal(list->begin(), list->end(), other.begin(), other.end(), same_arg);
  }
  if (auto* size = std::get_if<Expr>(&a.data)) return *size == std::get<Expr>(b.data);
  if (auto* flag = std::get_if<bool>(&a.data)) return *flag == std::get<bool>(b.data);
  if (auto* text = std::get_if<std::string>(&a.data)) return *text == std::get<std::string>(b.data);
  if (auto* tagged = std::get_if<Arg::Tagged>(&a.data)) return *tagged == std::get<Arg::Tagged>(b.data);
  return true;  // none
}

bool same_loc(const LocPtr& a, const LocPtr& b) { return a == b || (a && b && *a == *b); }

bool same_node(const Node& a, const Node& b) {
  const auto same_result = [](const auto& x, const auto& y) { return x->name == y->name && x->type == y->type; };
  const auto same_pair = [](const auto& x, const auto& y) { return x.first == y.first && same(x.second, y.second); };
  const auto same_kwarg = [](const auto& x, const auto& y) {
    return x.first == y.first && same_arg(x.second, y.second);
  };
  return a.op == b.op && a.callee == b.callee && a.origins == b.origins && same_loc(a.loc, b.loc) &&
         std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(), b.operands.end(), same_value) &&
         std::equal(a.attrs.begin(), a.attrs.end(), b.attrs.begin(), b.attrs.end(), same_pair) &&
         std::equal(a.results.begin(), a.results.end(), b.results.begin(), b.results.end(), same_result) &&
         std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(), same_arg) &&
         std::equal(a.kwargs.begin(), a.kwargs.end(), b.kwargs.begin(), b.kwargs.end(), same_kwarg);
}

}  // namespace

bool operator==(const Graph& a, const Graph& b) {
  if (a.name() != b.name() || a.symbols().symbols() != b.symbols().symbols()) return false;
  const auto same_parameter = [](const Value* x, const Value* y) { return same_node(*x->node, *y->node); };
  const auto same_nodes = [](const Node* x, const Node* y) { return same_node(*x, *y); };
  const auto same_output = [](const Output& x, const Output& y) {
    return same_arg(x.value, y.value) && same_value(x.into, y.into);
  };
  const std::vector<Node*> x = a.nodes(), y = b.nodes();
  return std::equal(a.parameters().begin(), a.parameters().end(), b.parameters().begin(), b.parameters().end(),
                    same_parameter) &&
         std::equal(x.begin(), x.end(), y.begin(), y.end(), same_nodes) &&
         std::equal(a.outputs().begin(), a.outputs().end(), b.outputs().begin(), b.outputs().end(), same_output);
}

}  // namespace tilewright
