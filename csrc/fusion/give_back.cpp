#include "fusion/give_back.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "cost/call_facts.h"
#include "cost/call_time.h"

namespace tilewright {
namespace {

// Gathers clusters that share an origin.
class Components {
 public:
  explicit Components(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0); }
  int find(int x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  void join(int a, int b) { parent_[std::max(find(a), find(b))] = std::min(find(a), find(b)); }

 private:
  std::vector<int> parent_;
};

bool is_view(const Node& call) { return call.is_call() && call_facts(call.callee).kind == CallKind::kView; }

}  // namespace

std::vector<int> origins_of(int cluster, const Units& units, const Clusters& clusters, const SourceIndex& index) {
  std::set<int> views, calls;
  for (int unit : clusters.members(cluster)) {
    for (int origin : units[unit].node->origins) {
      (is_view(*index.source_nodes()[origin]) ? views : calls).insert(origin);
    }
  }
  const std::set<int>& chosen = calls.empty() ? views : calls;
  return {chosen.begin(), chosen.end()};
}

std::vector<GivenBack> find_given_back(const SourceIndex& index, const Units& units, const Clusters& clusters,
                                       const Fuser& fuser, const GpuFacts& gpu, bool must_gain) {
  std::vector<GivenBack> found;
  Components components(units.size());
  std::map<int, int> cluster_of_origin;
  std::vector<int> kernels;
  for (int cluster : clusters.in_order()) {
    if (!fuser.is_native(cluster)) continue;
    const std::vector<int> origins = origins_of(cluster, units, clusters, index);
    const Evaluation& evaluation = fuser.evaluate(cluster);
    if (!evaluation.verdict) {
      const Node& node = *units[clusters.members(cluster).front()].node;
      TW_CHECK(!origins.empty()) << "no kernel for " << node.info().text << " (%" << node.results[0]->name
                                 << "), which came from no call: " << evaluation.verdict.why_not;
      found.push_back({origins, evaluation.verdict.why_not});
      for (int origin : origins) {
        found.back().eager_us +=
            price_call(*index.source_nodes()[origin], index.source().symbols(), gpu).time.total_us();
      }
      continue;
    }
    kernels.push_back(cluster);
    for (int origin : origins) {
      const auto [at, is_new] = cluster_of_origin.emplace(origin, cluster);
      if (!is_new) components.join(at->second, cluster);
    }
  }
  if (!must_gain) return found;

  std::map<int, GivenBack> sums;
  for (int cluster : kernels) sums[components.find(cluster)].kernels_us += fuser.evaluate(cluster).time.total_us();
  for (const auto& [origin, cluster] : cluster_of_origin) {
    GivenBack& sum = sums[components.find(cluster)];
    sum.origins.push_back(origin);
    sum.eager_us += price_call(*index.source_nodes()[origin], index.source().symbols(), gpu).time.total_us();
  }
  for (auto& [root, sum] : sums) {
    if (sum.origins.empty() || sum.kernels_us <= sum.eager_us) continue;
    sum.why = "its kernels are slower than PyTorch's own";
    found.push_back(std::move(sum));
  }
  return found;
}

}  // namespace tilewright
