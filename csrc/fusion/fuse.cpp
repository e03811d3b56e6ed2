#include "fusion/fuse.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <sstream>

#include "cost/call_facts.h"
#include "cost/call_time.h"

namespace tilewright {
namespace {

// Larger kernels gain little and cost registers and compile time.
constexpr size_t kMaxUnits = 192;
// Kernels that only share an input are worth a look where it is at least this large.
constexpr double kMinSharedBytes = 64 * 1024;
// A value is cheap to recompute from this many pointwise nodes.
constexpr size_t kMaxCone = 4;
constexpr size_t kMaxRecomputers = 8;

// What comes after a product is computed once, what comes before it for every tile.
struct Pair {
  double bytes;
  bool before_product;
  int sequence;
  int a, b, version_a, version_b;
  friend bool operator<(const Pair& x, const Pair& y) {  // top of the queue: most bytes, then first pushed
    if (x.bytes != y.bytes) return x.bytes < y.bytes;
    return x.before_product != y.before_product ? x.before_product : x.sequence > y.sequence;
  }
};

constexpr Time kNever{.kernel_us = std::numeric_limits<double>::infinity()};

// PyTorch's products are fast where ours lose most, and the model's error is of this order.
constexpr double kMustBeatCallsBy = 0.95;

}  // namespace

std::string microseconds(double us) {
  std::ostringstream out;
  out.precision(1);
  out << std::fixed << us << " us";
  return out.str();
}

bool beats_calls(const Time& kernel, const Time& calls) {
  return kernel.total_us() < calls.total_us() && kernel.kernel_us < kMustBeatCallsBy * calls.kernel_us;
}

bool Fuser::is_native(int cluster) const {
  return units_[clusters_.members(cluster).front()].kind == Unit::Kind::kNative;
}

KernelNodes Fuser::nodes_of(int cluster) const {
  return kernel_nodes(clusters_.members(cluster), {cluster}, units_, clusters_, index_);
}

const Evaluation& Fuser::evaluate(int cluster) const { return evaluator_.evaluate(nodes_of(cluster)); }

const Evaluation& Fuser::evaluate_together(int a, int b) const {
  std::vector<int> both;
  std::set_union(clusters_.members(a).begin(), clusters_.members(a).end(), clusters_.members(b).begin(),
                 clusters_.members(b).end(), std::back_inserter(both));
  return evaluator_.evaluate(kernel_nodes(both, {a, b}, units_, clusters_, index_));
}

// Calls that become products of matrices, among the origins of these units.
std::vector<int> Fuser::products_in(const std::vector<int>& members) const {
  std::set<int> products;
  for (int unit : members) {
    if (units_[unit].node->category() != Category::kContraction) continue;
    for (int origin : units_[unit].node->origins) {
      if (call_facts(index_.source_nodes()[origin]->callee).kind == CallKind::kMatmul) products.insert(origin);
    }
  }
  return {products.begin(), products.end()};
}

Time Fuser::beside_calls(const std::vector<int>& members) const {
  const std::vector<int> products = products_in(members);
  Time total;
  for (int origin : products) {
    total += price_call(*index_.source_nodes()[origin], index_.source().symbols(), ctx_).time;
  }
  // What is left falls into the pieces that lie before, between and after the calls.
  std::vector<int> rest;
  for (int unit : members) {
    const std::vector<int>& origins = units_[unit].node->origins;
    const bool is_calls = std::any_of(origins.begin(), origins.end(), [&](int origin) {
      return std::binary_search(products.begin(), products.end(), origin);
    });
    if (!is_calls) rest.push_back(unit);
  }
  while (!rest.empty()) {
    std::vector<int> piece = {rest.front()};
    rest.erase(rest.begin());
    for (size_t i = 0; i < piece.size(); ++i) {
      const Unit& unit = units_[piece[i]];
      const auto is_next = [&](int other) {
        return std::binary_search(unit.before.begin(), unit.before.end(), other) ||
               std::binary_search(unit.after.begin(), unit.after.end(), other);
      };
      std::copy_if(rest.begin(), rest.end(), std::back_inserter(piece), is_next);
      std::erase_if(rest, is_next);
    }
    std::sort(piece.begin(), piece.end());
    const Evaluation& made = evaluator_.evaluate(kernel_nodes_apart(piece, units_, index_));
    if (!made.verdict) return kNever;
    total += made.time;
  }
  return total;
}

Fuser::Price Fuser::price(int cluster) const {
  const Evaluation& made = evaluate(cluster);
  const Price as_kernel{made.verdict ? made.time : kNever, false};
  if (product_choice(ctx_.options) != "auto" || products_of(cluster).empty()) return as_kernel;
  const Price as_calls{beside_calls(cluster), true};
  return beats_calls(as_kernel.time, as_calls.time) ? as_kernel : as_calls;
}

void Fuser::gather_products() {
  for (int unit = 0; unit < units_.size(); ++unit) {
    const std::vector<int> products = products_in({unit});
    if (products.empty()) continue;
    for (bool grows = true; grows;) {
      grows = false;
      const int cluster = clusters_.of(unit);
      std::set<int> around = clusters_.before(cluster);
      around.insert(clusters_.after(cluster).begin(), clusters_.after(cluster).end());
      for (int other : around) {
        if (!is_native(other) || units_[clusters_.members(other).front()].node->origins != units_[unit].node->origins) {
          continue;
        }
        grows = try_merge(cluster, other, /*must_gain=*/false);
        if (grows) break;
      }
    }
  }
}

void Fuser::fuse() {
  version_.assign(units_.size(), 0);
  gather_products();
  fuse_neighbours(/*siblings=*/false);
  fuse_neighbours(/*siblings=*/true);
  recompute_cheap();
}

// Bytes that need not be written and read again if the two are one.
double Fuser::bytes_between(int from, int to) const {
  double total = 0;
  for (int unit : clusters_.members(from)) {
    for (const auto& result : units_[unit].node->results) {
      bool is_read = false, is_kept = units_.is_pinned(result.get());
      for (int reader : units_.readers(result.get())) {
        (clusters_.has(to, reader) ? is_read : is_kept) |= !clusters_.has(from, reader);
      }
      if (is_read) total += distinct_bytes(result->type, evaluator_.symbols()) * (is_kept ? 1 : 2);
    }
  }
  return total;
}

// What no family takes by itself is worth any price.
bool Fuser::try_merge(int a, int b, bool must_gain) {
  if (clusters_.members(a).size() + clusters_.members(b).size() > kMaxUnits || !clusters_.can_merge(a, b)) return false;
  const Evaluation& whole = evaluate_together(a, b);
  if (!whole.verdict) return false;
  if (must_gain) {
    const Price first = price(a), second = price(b);
    const Time apart = first.time + second.time;
    const bool has_calls = first.is_calls || second.is_calls;
    if (has_calls ? !beats_calls(whole.time, apart) : whole.time.total_us() >= apart.total_us()) return false;
  }
  clusters_.merge(a, b);
  return true;
}

void Fuser::fuse_neighbours(bool siblings) {
  std::priority_queue<Pair> queue;
  int sequence = 0;
  const auto push = [&](int a, int b, double bytes) {
    if (!is_native(a) || !is_native(b)) return;
    const bool before_product = products_of(a).empty() && !products_of(b).empty();
    queue.push({bytes, before_product, sequence++, a, b, version_[a], version_[b]});
  };
  const auto push_edges = [&](int cluster, bool both_ways) {
    for (int after : clusters_.after(cluster)) push(cluster, after, bytes_between(cluster, after));
    if (!both_ways) return;
    for (int before : clusters_.before(cluster)) push(before, cluster, bytes_between(before, cluster));
  };
  const auto push_siblings = [&](const Value* value) {
    const double bytes = distinct_bytes(value->type, evaluator_.symbols());
    if (bytes < kMinSharedBytes) return;
    std::set<std::pair<int, int>> readers;
    for (int reader : units_.readers(value))
      readers.insert({clusters_.position(clusters_.of(reader)), clusters_.of(reader)});
    for (auto at = readers.begin(); at != readers.end() && std::next(at) != readers.end(); ++at) {
      push(at->second, std::next(at)->second, bytes);
    }
  };

  if (siblings) {
    std::unordered_set<const Value*> seen;
    for (const Unit& unit : units_.all()) {
      for (const Value* value : unit.reads) {
        if (seen.insert(value).second) push_siblings(value);
      }
    }
  } else {
    for (int cluster : clusters_.in_order()) {
      if (is_native(cluster)) push_edges(cluster, /*both_ways=*/false);
    }
  }
  while (!queue.empty()) {
    const Pair pair = queue.top();
    queue.pop();
    if (!clusters_.is_alive(pair.a) || !clusters_.is_alive(pair.b)) continue;
    if (version_[pair.a] != pair.version_a || version_[pair.b] != pair.version_b) continue;
    if (!try_merge(pair.a, pair.b, ctx_.options.kernels == "auto" || siblings)) continue;
    ++version_[pair.a];
    push_edges(pair.a, /*both_ways=*/true);
    if (!siblings) continue;
    for (int unit : clusters_.members(pair.a)) {
      for (const Value* value : units_[unit].reads) push_siblings(value);
    }
  }
}

// The pointwise units of the cluster that compute the value, up to what comes from outside; false where they are too
// many or not cheap.
bool Fuser::cheap_cone(const Value* value, int cluster, std::vector<int>& cone) const {
  std::vector<int> work = {units_.maker(value)};
  while (!work.empty()) {
    const int unit = work.back();
    work.pop_back();
    if (std::find(cone.begin(), cone.end(), unit) != cone.end()) continue;
    const Node& node = *units_[unit].node;
    if (node.category() != Category::kPointwise || node.info().cost == CostClass::kTranscendental) return false;
    cone.push_back(unit);
    if (cone.size() > kMaxCone) return false;
    for (const Value* read : units_[unit].reads) {
      const int maker = units_.maker(read);
      if (maker >= 0 && clusters_.has(cluster, maker)) work.push_back(maker);
    }
  }
  std::sort(cone.begin(), cone.end());
  return true;
}

// Units of the cone that nobody needs of `home` any more, since those that read them compute them.
std::vector<int> Fuser::useless_units(const Clusters& tried, int home, const std::vector<int>& cone) const {
  std::vector<int> useless;
  const auto is_needed = [&](int unit) {
    const bool is_owner = tried.of(unit) == home;
    for (const auto& result : units_[unit].node->results) {
      if (is_owner && units_.is_pinned(result.get())) return true;
      for (int reader : units_.readers(result.get())) {
        const bool is_gone = std::find(useless.begin(), useless.end(), reader) != useless.end();
        for (int cluster : tried.homes(reader)) {
          if (cluster == home ? !is_gone : is_owner && !tried.has(cluster, unit)) return true;
        }
      }
    }
    return false;
  };
  for (auto unit = cone.rbegin(); unit != cone.rend(); ++unit) {
    if (!is_needed(*unit)) useless.push_back(*unit);
  }
  return useless;
}

// The values that the cone reads weigh less than the one it makes, apart from those that a target reads anyway.
bool Fuser::may_save_bytes(const Value* value, const std::vector<int>& cone, const std::set<int>& targets) const {
  const double value_bytes = distinct_bytes(value->type, evaluator_.symbols());
  double saved = value_bytes * (static_cast<double>(targets.size()) + (units_.is_pinned(value) ? 0 : 1));
  for (int target : targets) {
    std::unordered_set<const Value*> read;
    for (int unit : clusters_.members(target)) read.insert(units_[unit].reads.begin(), units_[unit].reads.end());
    for (int unit : cone) {
      for (const Value* input : units_[unit].reads) {
        const int maker = units_.maker(input);
        const bool is_in_cone = maker >= 0 && std::find(cone.begin(), cone.end(), maker) != cone.end();
        if (!is_in_cone && read.insert(input).second) saved -= distinct_bytes(input->type, evaluator_.symbols());
      }
    }
  }
  return saved > 0;
}

bool Fuser::try_recompute(const Value* value, int unit) {
  const int home = clusters_.of(unit);
  std::set<int> targets;
  for (int reader : units_.readers(value)) {
    for (int cluster : clusters_.homes(reader)) {
      if (!clusters_.has(cluster, unit)) targets.insert(cluster);
    }
  }
  std::vector<int> cone;
  if (targets.empty() || targets.size() > kMaxRecomputers || !cheap_cone(value, home, cone)) return false;

  if (!may_save_bytes(value, cone, targets)) return false;

  double before_us = evaluate(home).time.total_us();
  for (int target : targets) before_us += evaluate(target).time.total_us();
  Clusters tried = clusters_;
  for (int target : targets) tried.recompute(cone, target);
  tried.drop(useless_units(tried, home, cone), home);
  double after_us = 0;
  targets.insert(home);
  for (int cluster : targets) {
    if (!tried.is_alive(cluster)) continue;
    const Evaluation& made =
        evaluator_.evaluate(kernel_nodes(tried.members(cluster), {cluster}, units_, tried, index_));
    if (!made.verdict) return false;
    after_us += made.time.total_us();
  }
  if (after_us >= before_us) return false;
  clusters_ = std::move(tried);
  recomputed_.push_back({value, before_us, after_us});
  return true;
}

void Fuser::recompute_cheap() {
  for (int unit = 0; unit < units_.size(); ++unit) {
    if (units_[unit].kind != Unit::Kind::kNative) continue;
    for (const auto& result : units_[unit].node->results) try_recompute(result.get(), unit);
  }
}

Fuser::Apart Fuser::why_apart(int a, int b) const {
  Apart apart;
  apart.apart_us = evaluate(a).time.total_us() + evaluate(b).time.total_us();
  if (const int between = clusters_.between(a, b); between >= 0) {
    const Node& node = *units_[clusters_.members(between).front()].node;
    apart.why = std::string("the second also needs ") + (node.callee.empty() ? node.info().text : node.callee) +
                ", which needs the first";
    return apart;
  }
  if (clusters_.members(a).size() + clusters_.members(b).size() > kMaxUnits) {
    apart.why = "together more than " + std::to_string(kMaxUnits) + " operators";
    return apart;
  }
  const Evaluation& whole = evaluate_together(a, b);
  if (!whole.verdict) {
    apart.why = whole.verdict.why_not;
    return apart;
  }
  apart.together_us = whole.time.total_us();
  apart.why = "together it takes " + microseconds(apart.together_us) + ", apart " + microseconds(apart.apart_us);
  return apart;
}

}  // namespace tilewright
