#include "fusion/units.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "cost/call_facts.h"

namespace tilewright {
namespace {

bool is_call(const Node& node) { return node.category() == Category::kCall || node.category() == Category::kHost; }
bool is_parameter(const Value* value) { return !value->node || value->node->op == Op::kParameter; }

void insert_sorted(std::vector<int>& all, int one) {
  const auto at = std::lower_bound(all.begin(), all.end(), one);
  if (at == all.end() || *at != one) all.insert(at, one);
}

}  // namespace

bool is_free(const Node& node) {
  if (node.category() == Category::kConstant) return true;
  return node.category() == Category::kView && node.op != Op::kConcat && node.op != Op::kPad;
}

Units::Units(const SourceIndex& index, const Demand& demand) : index_(index), demand_(demand) {
  of_node_.assign(index.nodes().size(), -1);
  of_source_.assign(index.source_nodes().size(), -1);
  add_units();
  for (int unit = 0; unit < size(); ++unit) {
    if (units_[unit].kind == Unit::Kind::kNative) look_through(units_[unit]);
    link_operands(unit);
  }
  keep_effects_in_order();
  keep_sizes_in_order();
}

void Units::add_units() {
  for (size_t i = 0; i < index_.nodes().size(); ++i) {
    const Node* node = index_.nodes()[i];
    if (!demand_.live[i]) continue;
    const bool is_pinned = std::any_of(node->results.begin(), node->results.end(),
                                       [&](const auto& result) { return demand_.pinned.count(result.get()) > 0; });
    if (is_free(*node) && !is_pinned) continue;
    Unit unit;
    unit.kind = is_call(*node) ? Unit::Kind::kCall : Unit::Kind::kNative;
    unit.node = node;
    unit.place = static_cast<int>(i);
    units_.push_back(std::move(unit));
  }
  for (size_t i = 0; i < index_.source_nodes().size(); ++i) {
    if (!demand_.origin_runs[i]) continue;
    Unit unit;
    unit.kind = Unit::Kind::kOrigin;
    unit.node = index_.source_nodes()[i];
    unit.place = index_.place_of(static_cast<int>(i));
    units_.push_back(std::move(unit));
  }
  std::stable_sort(units_.begin(), units_.end(), [](const Unit& a, const Unit& b) { return a.place < b.place; });
  for (int unit = 0; unit < size(); ++unit) {
    const Node* node = units_[unit].node;
    if (units_[unit].kind == Unit::Kind::kOrigin) {
      of_source_[index_.source_id(node)] = unit;
    } else {
      of_node_[index_.id(node)] = unit;
    }
  }
}

int Units::maker(const Value* value) const {
  if (is_parameter(value)) return -1;
  if (is_call(*value->node)) return of_node_[index_.id(value->node)];
  const bool is_provided = demand_.provided.count(value) > 0;
  const int native = of_node_[index_.id(value->node)];
  if (!is_provided && native >= 0 && (!is_free(*value->node) || demand_.pinned.count(value))) return native;
  const int source_id = index_.maker(value);
  return source_id < 0 ? -1 : of_source_[source_id];
}

const std::vector<int>& Units::readers(const Value* value) const {
  static const std::vector<int> kNone;
  const auto at = readers_.find(value);
  return at == readers_.end() ? kNone : at->second;
}

void Units::look_through(Unit& unit) {
  std::unordered_set<const Value*> seen;
  std::vector<const Value*> work(unit.node->operands.rbegin(), unit.node->operands.rend());
  while (!work.empty()) {
    const Value* value = work.back();
    work.pop_back();
    if (!seen.insert(value).second) continue;
    const bool is_looked_through = !is_parameter(value) && is_free(*value->node) && !demand_.provided.count(value);
    if (!is_looked_through) {
      unit.reads.push_back(value);
      readers_[value].push_back(static_cast<int>(&unit - units_.data()));
      continue;
    }
    unit.free_nodes.push_back(value->node);
    work.insert(work.end(), value->node->operands.rbegin(), value->node->operands.rend());
  }
}

void Units::link(int from, int to) {
  if (from < 0 || from == to) return;
  insert_sorted(units_[from].after, to);
  insert_sorted(units_[to].before, from);
}

int Units::source_maker(const Value* source_value) const {
  if (is_parameter(source_value)) return -1;
  if (const Value* value = index_.in_graph(source_value)) return maker(value);
  return of_source_[index_.source_id(source_value->node)];
}

void Units::link_operands(int unit) {
  const Unit& u = units_[unit];
  if (u.kind == Unit::Kind::kNative) {
    for (const Value* value : u.reads) {
      const bool is_native = !is_parameter(value) && !is_call(*value->node) && !demand_.provided.count(value);
      link(is_native ? of_node_[index_.id(value->node)] : maker(value), unit);
    }
  } else {
    for (const Value* value : u.node->operands) {
      const int from = u.kind == Unit::Kind::kCall ? maker(value) : source_maker(value);
      TW_CHECK(from >= 0 || is_parameter(value))
          << "nothing makes %" << value->name << ", an operand of " << u.node->callee;
      link(from, unit);
    }
  }
}

// Steps with effects that are not seen (random numbers, writes, Python) run in the order of the captured graph.
void Units::keep_effects_in_order() {
  int last = -1;
  for (int unit = 0; unit < size(); ++unit) {
    const Unit& u = units_[unit];
    if (u.kind == Unit::Kind::kNative || !has_effects(*u.node)) continue;
    link(last, unit);
    last = unit;
  }
}

// A size that a call binds when it runs is known only after it, to those that do not read its results too.
void Units::keep_sizes_in_order() {
  const std::set<std::string> unbacked = unbacked_symbols(index_.graph());
  if (unbacked.empty()) return;
  std::vector<std::set<std::string>> mentioned;
  std::map<std::string, int> bound_by;
  for (int unit = 0; unit < size(); ++unit) {
    const Unit& u = units_[unit];
    mentioned.push_back(mentioned_symbols(*u.node, unbacked));
    for (const Node* node : u.free_nodes) mentioned.back().merge(mentioned_symbols(*node, unbacked));
    if (u.kind == Unit::Kind::kNative) continue;
    for (const std::string& symbol : mentioned.back()) bound_by.emplace(symbol, unit);
  }
  for (int unit = 0; unit < size(); ++unit) {
    for (const std::string& symbol : mentioned[unit]) {
      if (const auto at = bound_by.find(symbol); at != bound_by.end()) link(at->second, unit);
    }
  }
}

}  // namespace tilewright
