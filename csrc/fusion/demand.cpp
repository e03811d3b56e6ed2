#include "fusion/demand.h"

#include <algorithm>

#include "cost/call_facts.h"

namespace tilewright {
namespace {

bool same_tensor(const Type& a, const Type& b) { return a.kind == b.kind && a.dtype == b.dtype && a.shape == b.shape; }

bool is_native(const Node* node) {
  return node && node->category() != Category::kCall && node->category() != Category::kHost &&
         node->category() != Category::kParameter;
}

bool is_made(const Value* value) { return value->node && value->node->op != Op::kParameter; }

class DemandBuilder {
 public:
  DemandBuilder(const SourceIndex& index, const std::vector<char>& given_back)
      : index_(index), given_back_(given_back) {
    demand_.live.assign(index.nodes().size(), 0);
    demand_.origin_runs.assign(index.source_nodes().size(), 0);
  }

  Demand build() {
    const std::set<std::string> unbacked = unbacked_symbols(index_.graph());
    for (const Node* node : index_.nodes()) {
      if (!is_native(node) && (has_effects(*node) || !mentioned_symbols(*node, unbacked).empty())) run_call(node);
    }
    for (const Output& output : index_.graph().outputs()) need(output.value);
    while (!work_.empty()) {
      const Node* node = work_.back();
      work_.pop_back();
      if (is_native(node)) {
        for (const Value* operand : node->operands) inline_value(operand);
      } else {
        for (const Value* operand : node->operands) need(operand);
      }
    }
    return std::move(demand_);
  }

 private:
  void need(const Arg& arg) {
    if (const auto* value = std::get_if<Value*>(&arg.data)) need(*value);
    if (const auto* list = std::get_if<Arg::List>(&arg.data)) {
      for (const Arg& element : *list) need(element);
    }
  }

  // Somebody reads the value from memory.
  void need(const Value* value) {
    if (!is_native(value->node)) return run_call(value->node);
    const int maker = index_.maker(value);
    if (maker >= 0 && given_back_[maker]) return provide(value, maker);
    if (index_.is_metadata(value)) return run_origin(maker);
    demand_.pinned.insert(value);
    compute(value->node);
  }

  // A kernel reads the value, or computes it itself.
  void inline_value(const Value* value) {
    if (!is_native(value->node)) return run_call(value->node);
    const int maker = index_.maker(value);
    if (maker >= 0 && given_back_[maker]) return provide(value, maker);
    compute(value->node);
  }

  void provide(const Value* value, int maker) {
    demand_.provided.insert(value);
    run_origin(maker);
  }

  void compute(const Node* node) {
    char& live = demand_.live[index_.id(node)];
    if (!live) work_.push_back(node);
    live = 1;
  }

  void run_call(const Node* node) {
    if (node && node->op != Op::kParameter) compute(node);
  }

  void run_origin(int source_id) {
    if (demand_.origin_runs[source_id]) return;
    demand_.origin_runs[source_id] = 1;
    for (const Value* operand : index_.source_nodes()[source_id]->operands) {
      if (!is_made(operand)) continue;
      if (const Value* value = index_.in_graph(operand)) {
        need(value);
        continue;
      }
      // The passes made one view of several, or none of a call's value.
      const int maker = index_.source_id(operand->node);
      const bool is_view = operand->node->is_call() && call_facts(operand->node->callee).kind == CallKind::kView;
      if (!is_view && !given_back_[maker] && !demand_.origin_runs[maker]) {
        demand_.drawn_in.emplace_back(maker, "no kernel makes %" + operand->name + ", which a call needs");
      }
      run_origin(maker);
    }
  }

  const SourceIndex& index_;
  const std::vector<char>& given_back_;
  Demand demand_;
  std::vector<const Node*> work_;
};

void mention(const Expr& e, const std::set<std::string>& symbols, std::set<std::string>& found) {
  for (const std::string& symbol : e.symbols()) {
    if (symbols.count(symbol)) found.insert(symbol);
  }
}
void mention(const std::vector<Expr>& all, const std::set<std::string>& symbols, std::set<std::string>& found) {
  for (const Expr& e : all) mention(e, symbols, found);
}
void mention(const Type& type, const std::set<std::string>& symbols, std::set<std::string>& found) {
  mention(type.shape, symbols, found);
  if (type.strides) mention(*type.strides, symbols, found);
  if (type.value) mention(*type.value, symbols, found);
  for (const Type& element : type.elements) mention(element, symbols, found);
}
void mention(const Arg& arg, const std::set<std::string>& symbols, std::set<std::string>& found) {
  if (const auto* e = std::get_if<Expr>(&arg.data)) mention(*e, symbols, found);
  if (const auto* list = std::get_if<Arg::List>(&arg.data)) {
    for (const Arg& element : *list) mention(element, symbols, found);
  }
}

Verdict fits_kernels(const Type& type, bool is_operand) {
  if (!type.is_tensor()) return Verdict::yes();
  if (!has_kernels(type.dtype)) return Verdict::no(std::string("no kernels for element type ") + name(type.dtype));
  const bool is_argument = is_operand && type.device == "host" && type.rank() == 0;
  if (type.device.empty() || is_argument) return Verdict::yes();
  return Verdict::no(type.device == "host" ? "it is computed on the host" : "it lies on device " + type.device);
}

}  // namespace

SourceIndex::SourceIndex(const Graph& graph, const Graph& source) : graph_(graph), source_(source) {
  for (const Node* node : graph.nodes()) {
    ids_[node] = static_cast<int>(nodes_.size());
    nodes_.push_back(node);
  }
  for (const Node* node : source.nodes()) {
    source_ids_[node] = static_cast<int>(source_nodes_.size());
    source_nodes_.push_back(node);
  }
  places_.assign(source_nodes_.size(), -1);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (int origin : nodes_[i]->origins) {
      TW_CHECK(origin >= 0 && origin < static_cast<int>(source_nodes_.size()))
          << nodes_[i]->info().text << " has origin " << origin << " of " << source_nodes_.size() << " calls";
      if (places_[origin] < 0) places_[origin] = static_cast<int>(i);
    }
  }
  for (size_t i = 0; i < source_nodes_.size(); ++i) {
    if (places_[i] >= 0) continue;
    for (const Value* operand : source_nodes_[i]->operands) {
      if (is_made(operand)) places_[i] = std::max(places_[i], places_[source_ids_.at(operand->node)]);
    }
  }
}

int SourceIndex::maker(const Value* value) const {
  const Value* found = source_.find(value->name);
  if (!found || !is_made(found) || !is_made(value) || !same_tensor(found->type, value->type)) return -1;
  const int id = source_ids_.at(found->node);
  // A pass may have given a new value the name of one that is gone.
  const std::vector<int>& origins = value->node->origins;
  const bool came_from = std::binary_search(origins.begin(), origins.end(), id);
  return came_from || (origins.empty() && value->node->callee == found->node->callee) ? id : -1;
}

Value* SourceIndex::in_graph(const Value* source_value) const {
  Value* found = graph_.find(source_value->name);
  if (!found || !same_tensor(found->type, source_value->type)) return nullptr;
  if (!is_made(found)) return is_made(source_value) ? nullptr : found;
  return maker(found) >= 0 ? found : nullptr;
}

bool SourceIndex::is_metadata(const Value* value) const {
  const int source_id = maker(value);
  if (source_id < 0 || !source_nodes_[source_id]->is_call()) return false;
  return call_facts(source_nodes_[source_id]->callee).kind == CallKind::kView;
}

Demand demand(const SourceIndex& index, const std::vector<char>& given_back) {
  return DemandBuilder(index, given_back).build();
}

std::set<std::string> unbacked_symbols(const Graph& graph) {
  std::set<std::string> out;
  for (const Symbol& symbol : graph.symbols().symbols()) {
    if (symbol.unbacked) out.insert(symbol.name);
  }
  return out;
}

std::set<std::string> mentioned_symbols(const Node& node, const std::set<std::string>& symbols) {
  std::set<std::string> found;
  if (symbols.empty()) return found;
  for (const auto& result : node.results) mention(result->type, symbols, found);
  for (const Arg& arg : node.args) mention(arg, symbols, found);
  for (const auto& [name, arg] : node.kwargs) mention(arg, symbols, found);
  for (const auto& [name, attr] : node.attrs) {
    if (const auto* e = std::get_if<Expr>(&attr)) mention(*e, symbols, found);
    if (const auto* all = std::get_if<std::vector<Expr>>(&attr)) mention(*all, symbols, found);
  }
  return found;
}

Verdict fits_kernels(const Node& node) {
  for (const Value* operand : node.operands) {
    if (Verdict verdict = fits_kernels(operand->type, /*is_operand=*/true); !verdict) return verdict;
  }
  for (const auto& result : node.results) {
    if (Verdict verdict = fits_kernels(result->type, /*is_operand=*/false); !verdict) return verdict;
  }
  return Verdict::yes();
}

}  // namespace tilewright
