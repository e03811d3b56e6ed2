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

// What every kernel that needs it computes anew: sharing one would tie operators together that have nothing in common.
bool is_cheap(const Node& node) {
  return node.category() == Category::kConstant || node.category() == Category::kView || node.op == Op::kCast;
}

// Numbers for values: equal numbers mean equal values, whether their nodes become one or not.
class ValueNumbers {
 public:
  int of(const Value* v) {
    auto [it, is_new] = numbers_.emplace(v, next_);
    if (is_new) ++next_;
    return it->second;
  }
  int number(const Node& node) {
    std::string key = info(node.op).text;
    for (const Value* v : node.operands) key += " " + std::to_string(of(v));
    for (const auto& [name, attr] : node.attrs) key += " " + name + "=" + attr_key(attr);
    auto [it, is_new] = keys_.emplace(std::move(key), next_);
    if (is_new) next_ += static_cast<int>(node.results.size());
    for (const auto& r : node.results) numbers_[r.get()] = it->second + r->index;
    return it->second;
  }

 private:
  int next_ = 0;
  std::map<const Value*, int> numbers_;  // for asking only: its order is that of addresses
  std::map<std::string, int> keys_;
};

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

// An earlier node that may stand for this one; null where there is none.
Node* find_equal(const Node& node, const std::vector<Node*>& equals, const std::set<const Value*>& escaping) {
  for (Node* first : equals) {
    if (!same_memory(*first, node)) continue;
    if (is_cheap(node) && first->origins != node.origins) continue;
    if (escapes(node, escaping) && escapes(*first, escaping)) continue;  // eager returns two tensors
    return first;
  }
  return nullptr;
}

}  // namespace

void cse(Graph& g, const Context&) {
  std::set<const Value*> escaping = escaping_values(g);
  ValueNumbers numbers;
  std::map<int, std::vector<Node*>> seen;
  for (Node* node : g.nodes()) {
    if (node->is_call() || node->category() == Category::kHost) continue;
    std::vector<Node*>& equals = seen[numbers.number(*node)];
    Node* first = find_equal(*node, equals, escaping);
    if (!first) {
      equals.push_back(node);
      continue;
    }
    if (escapes(*node, escaping)) {
      for (const auto& r : first->results) escaping.insert(r.get());
    }
    first->origins = join_origins(first->origins, node->origins);
    for (size_t i = 0; i < node->results.size(); ++i) {
      for (Node* user : node->results[i]->users) {
        if (!user->is_call()) user->origins = join_origins(user->origins, node->origins);
      }
      g.replace_all_uses(node->results[i].get(), first->results[i].get());
    }
    g.erase(node);
  }
}

}  // namespace tilewright
