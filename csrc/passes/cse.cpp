#include <cstring>
#include <map>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tilewright {
namespace {

// Equal keys compute equal values. Doubles are compared by their bits: -0 is not 0, and a NaN is itself.
std::string attr_key(const Attr& attr) {
  if (auto* d = std::get_if<double>(&attr)) {
    uint64_t bits = 0;
    std::memcpy(&bits, d, sizeof bits);
    return "d" + std::to_string(bits);
  }
  if (auto* b = std::get_if<bool>(&attr)) return *b ? "true" : "false";
  if (auto* e = std::get_if<Expr>(&attr)) return e->str();
  if (auto* t = std::get_if<DType>(&attr)) return name(*t);
  if (auto* s = std::get_if<std::string>(&attr)) return "\"" + *s;
  std::string key = "[";
  for (const Expr& e : std::get<std::vector<Expr>>(attr)) key += e.str() + ",";
  return key;
}

std::string node_key(const Node& node) {
  std::string key = info(node.op).text;
  for (const Value* v : node.operands) key += " %" + v->name;
  for (const auto& [name, attr] : node.attrs) key += " " + name + "=" + attr_key(attr);
  return key;
}

bool same_memory(const Node& a, const Node& b) {
  for (size_t i = 0; i < a.results.size(); ++i) {
    const auto& s = a.results[i]->type.strides;
    const auto& t = b.results[i]->type.strides;
    if (s && t && *s != *t) return false;
  }
  return true;
}

bool escapes(const Node& node, const std::set<const Value*>& escaping) {
  for (const auto& r : node.results) {
    if (escaping.count(r.get())) return true;
  }
  return false;
}

}  // namespace

void cse(Graph& g, const Context&) {
  std::set<const Value*> escaping = escaping_values(g);
  std::map<std::string, Node*> seen;
  for (Node* node : g.nodes()) {
    if (node->is_call() || node->category() == Category::kHost) continue;
    auto [it, is_new] = seen.emplace(node_key(*node), node);
    Node* first = it->second;
    if (is_new || !same_memory(*first, *node)) continue;
    if (escapes(*node, escaping)) {
      if (escapes(*first, escaping)) continue;  // eager returns two tensors
      for (const auto& r : first->results) escaping.insert(r.get());
    }
    first->origins = join_origins(first->origins, node->origins);
    for (size_t i = 0; i < node->results.size(); ++i) g.replace_all_uses(node->results[i].get(), first->results[i].get());
    g.erase(node);
  }
}

}  // namespace tilewright
