#include "fusion/evaluator.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace tilewright {
namespace {

void print_attr(std::ostream& out, const Attr& attr) {
  if (const auto* flag = std::get_if<bool>(&attr)) out << (*flag ? "true" : "false");
  if (const auto* e = std::get_if<Expr>(&attr)) out << *e;
  if (const auto* number = std::get_if<double>(&attr)) out << std::hexfloat << *number << std::defaultfloat;
  if (const auto* dtype = std::get_if<DType>(&attr)) out << *dtype;
  if (const auto* text = std::get_if<std::string>(&attr)) out << *text;
  if (const auto* all = std::get_if<std::vector<Expr>>(&attr)) {
    for (const Expr& e : *all) out << e << ',';
  }
}

void print_sizes(std::ostream& out, const std::vector<Expr>& sizes) {
  out << '[';
  for (const Expr& size : sizes) out << size << ',';
  out << ']';
}

bool is_unconditional(const Condition& c) { return c == Condition{}; }

// Bytes from the first element of a tensor to the end of its last one, at the hints.
double extent_bytes(const Type& type, const SymbolTable& symbols) {
  double last = 0;
  const std::vector<Expr> strides = type.strides.value_or(type.contiguous_strides());
  for (int d = 0; d < type.rank(); ++d) {
    last += static_cast<double>(symbols.hint(type.shape[d]) - 1) * static_cast<double>(symbols.hint(strides[d]));
  }
  return (last + 1) * static_cast<double>(bytes(type.dtype));
}

struct Priced {
  Candidate candidate;
  KernelTime kernel;
  bool holds = false;
};

// The model ranks; it does not tell a twentieth apart. Within that the family's order stands.
constexpr double kClearlyFaster = 0.9;

// Whether `a` may run wherever `b` may.
bool covers(const Condition& a, const Condition& b) {
  const auto has_all = [](const auto& all, const auto& wanted) {
    return std::all_of(wanted.begin(), wanted.end(),
                       [&](const auto& w) { return std::find(all.begin(), all.end(), w) != all.end(); });
  };
  return b.pointer_alignment % a.pointer_alignment == 0 && (b.index_32bit || !a.index_32bit) &&
         has_all(b.divisible, a.divisible) && has_all(b.at_most, a.at_most);
}

// The families' order, without those that another clearly beats at the hints: one of the same condition, or one of
// another family that may run wherever it may. Within a family, a variant without wide accesses never replaces one that
// has them: the model's latency of small kernels is too coarse to say so.
std::vector<Priced> worth_keeping(std::vector<Priced> all) {
  const auto beats = [&](size_t j, size_t i) {
    const Candidate &cj = all[j].candidate, &ci = all[i].candidate;
    const bool is_rival =
        cj.schedule.family == ci.schedule.family ? cj.condition == ci.condition : covers(cj.condition, ci.condition);
    if (!is_rival) return false;
    const double tj = all[j].kernel.total_us, ti = all[i].kernel.total_us;
    return tj < kClearlyFaster * ti || (j < i && tj <= ti);
  };
  std::vector<Priced> kept;
  for (size_t i = 0; i < all.size(); ++i) {
    bool is_beaten = false;
    for (size_t j = 0; j < all.size() && !is_beaten; ++j) is_beaten = j != i && all[i].holds && beats(j, i);
    if (!is_beaten) kept.push_back(all[i]);
  }
  std::stable_partition(kept.begin(), kept.end(),
                        [](const Priced& p) { return !is_unconditional(p.candidate.condition); });
  return kept;
}

std::string join(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : "; ") + part;
  return out;
}

}  // namespace

namespace {

KernelNodes nodes_with_outputs(const std::vector<int>& members, const Units& units, const SourceIndex& index,
                               const std::function<bool(const Value* result, int unit)>& is_output) {
  KernelNodes kernel;
  for (int unit : members) {
    const Unit& u = units[unit];
    kernel.nodes.push_back(u.node);
    kernel.nodes.insert(kernel.nodes.end(), u.free_nodes.begin(), u.free_nodes.end());
    for (const auto& result : u.node->results) {
      if (is_output(result.get(), unit)) kernel.outputs.push_back(result.get());
    }
  }
  const auto earlier = [&](const Node* a, const Node* b) { return index.id(a) < index.id(b); };
  std::sort(kernel.nodes.begin(), kernel.nodes.end(), earlier);
  kernel.nodes.erase(std::unique(kernel.nodes.begin(), kernel.nodes.end()), kernel.nodes.end());
  std::stable_sort(kernel.outputs.begin(), kernel.outputs.end(),
                   [&](const Value* a, const Value* b) { return earlier(a->node, b->node); });
  return kernel;
}

}  // namespace

KernelNodes kernel_nodes(const std::vector<int>& members, const std::vector<int>& together, const Units& units,
                         const Clusters& clusters, const SourceIndex& index) {
  const auto is_together = [&](int cluster) {
    return std::find(together.begin(), together.end(), cluster) != together.end();
  };
  const auto is_read_outside = [&](const Value* value, int unit) {
    for (int reader : units.readers(value)) {
      for (int home : clusters.homes(reader)) {
        if (!is_together(home) && !clusters.has(home, unit)) return true;
      }
    }
    return false;
  };
  return nodes_with_outputs(members, units, index, [&](const Value* result, int unit) {
    return is_together(clusters.of(unit)) && (units.is_pinned(result) || is_read_outside(result, unit));
  });
}

KernelNodes kernel_nodes_apart(const std::vector<int>& members, const Units& units, const SourceIndex& index) {
  return nodes_with_outputs(members, units, index, [&](const Value* result, int) {
    const std::vector<int>& readers = units.readers(result);
    return units.is_pinned(result) || std::any_of(readers.begin(), readers.end(), [&](int reader) {
             return std::find(members.begin(), members.end(), reader) == members.end();
           });
  });
}

bool holds_at_hints(const Condition& condition, const Graph& body) {
  const SymbolTable& symbols = body.symbols();
  for (const auto& [e, by] : condition.divisible) {
    if (symbols.hint(e) % by != 0) return false;
  }
  for (const auto& [e, bound] : condition.at_most) {
    if (symbols.hint(e) > bound) return false;
  }
  if (!condition.index_32bit) return true;
  const auto fits = [&](const Type& type) { return !type.is_tensor() || extent_bytes(type, symbols) < 2147483648.0; };
  for (const Value* parameter : body.parameters()) {
    if (!fits(parameter->type)) return false;
  }
  return std::all_of(body.outputs().begin(), body.outputs().end(),
                     [&](const Output& output) { return !output.tensor() || fits(output.tensor()->type); });
}

std::vector<Expr> Evaluator::memory_strides(const Value* value) const {
  const Type& type = value->type;
  if (!type.strides) return type.contiguous_strides();
  const bool is_pytorchs = !value->node || value->node->category() == Category::kParameter ||
                           value->node->category() == Category::kCall || value->node->category() == Category::kHost ||
                           provided_.count(value);
  if (is_pytorchs) return *type.strides;
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (int d = 0; d < type.rank(); ++d) {
    const int64_t size = symbols().hint(type.shape[d]);
    if (size > 1) dims.emplace_back(symbols().hint((*type.strides)[d]), size);
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return type.contiguous_strides();
    reach += stride * (size - 1);
  }
  return *type.strides;
}

void Evaluator::set_provided(const std::unordered_set<const Value*>& provided) {
  provided_ = provided;
  memories_.clear();
}

Evaluation Evaluator::evaluate_body(const Graph& body) const {
  Evaluation result;
  const Proposal proposal = proposer_(body, ctx_);
  std::vector<Priced> all;
  for (const Candidate& candidate : proposal.candidates) {
    Priced priced{candidate, price_kernel(candidate.footprint, ctx_.gpu), holds_at_hints(candidate.condition, body)};
    if (std::isfinite(priced.kernel.total_us)) all.push_back(std::move(priced));
  }
  if (all.empty()) {
    result.verdict = Verdict::no(proposal.candidates.empty() ? join(proposal.why_none) : "a block does not fit an SM");
    return result;
  }
  const std::vector<Priced> kept = worth_keeping(std::move(all));
  TW_CHECK(is_unconditional(kept.back().candidate.condition)) << "every schedule has a condition";
  while (!kept[result.priced].holds) ++result.priced;
  for (const Priced& priced : kept) result.variants.push_back(priced.candidate);
  result.kernel = kept[result.priced].kernel;
  result.time = {.launch_us = launch_us(Launcher::kPlan, ctx_.gpu), .kernel_us = result.kernel.total_us};
  return result;
}

const Evaluation& Evaluator::evaluate(const KernelNodes& kernel) {
  Key key = key_of(kernel);
  const auto at = known_.find(key);
  if (at != known_.end()) return at->second;
  const GroupMemory memory{[&](const Value* value) { return memory_strides(value); }, nullptr};
  const Group group = make_group("", kernel.nodes, kernel.outputs, symbols(), memory);
  return known_.emplace(std::move(key), evaluate_body(group.body)).first->second;
}

Evaluator::Key Evaluator::key_of(const KernelNodes& kernel) {
  constexpr int kInput = -1;
  constexpr int kOutputs = -2;
  Key key;
  std::unordered_map<const Value*, int> numbers;
  for (const Node* node : kernel.nodes) {
    key.push_back(signature_of(node));
    for (const Value* operand : node->operands) {
      const auto [at, is_new] = numbers.emplace(operand, static_cast<int>(numbers.size()));
      if (is_new) key.insert(key.end(), {kInput, memory_of(operand)});
      key.push_back(at->second);
    }
    for (const auto& result : node->results) numbers.emplace(result.get(), static_cast<int>(numbers.size()));
  }
  key.push_back(kOutputs);
  for (const Value* output : kernel.outputs) key.insert(key.end(), {numbers.at(output), memory_of(output)});
  return key;
}

int Evaluator::signature_of(const Node* node) {
  const auto at = signatures_.find(node);
  if (at != signatures_.end()) return at->second;
  std::ostringstream text;
  text << node->info().text;
  for (const auto& [name, attr] : node->attrs) {
    text << ' ' << name << ' ';
    print_attr(text, attr);
  }
  for (const auto& result : node->results) {
    text << " : " << result->type.dtype;
    print_sizes(text, result->type.shape);
  }
  return signatures_[node] = intern(text.str());
}

int Evaluator::memory_of(const Value* value) {
  const auto at = memories_.find(value);
  if (at != memories_.end()) return at->second;
  std::ostringstream text;
  text << static_cast<int>(value->type.kind) << value->type.dtype << value->type.device;
  print_sizes(text, value->type.shape);
  if (value->type.is_tensor()) print_sizes(text, memory_strides(value));
  return memories_[value] = intern(text.str());
}

int Evaluator::intern(const std::string& text) {
  return texts_.emplace(text, static_cast<int>(texts_.size())).first->second;
}

}  // namespace tilewright
