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

namespace {

double eager_us(int origin, const SourceIndex& index, const Context& ctx) {
  return price_call(*index.source_nodes()[origin], index.source().symbols(), ctx).time.total_us();
}

// Kernels that share operators are weighed together against these. Where they lose, the operators of the kernel that
// loses most go back, and the next round weighs what is left: a fast kernel beside a slow one may stay.
void append_losers(const SourceIndex& index, const Units& units, const Clusters& clusters, const Fuser& fuser,
                   const Context& ctx, const std::vector<char>& already, const std::vector<int>& kernels,
                   std::vector<GivenBack>& found) {
  std::map<int, std::vector<int>> kernels_of;  // of an origin
  Components components(static_cast<size_t>(units.size()));
  const auto replaced_by = [&](int kernel) {
    std::vector<int> origins = origins_of(kernel, units, clusters, index);
    std::erase_if(origins, [&](int origin) { return already[static_cast<size_t>(origin)] != 0; });
    return origins;
  };
  for (int kernel : kernels) {
    for (int origin : replaced_by(kernel)) kernels_of[origin].push_back(kernel);
  }
  for (const auto& [origin, of] : kernels_of) {
    for (int kernel : of) components.join(of.front(), kernel);
  }
  struct Worst {
    double gain_us = 0, loss_us = 0;
    int kernel = -1;
  };
  std::map<int, Worst> of_component;
  for (int kernel : kernels) {
    const std::vector<int> origins = replaced_by(kernel);
    if (origins.empty()) continue;
    double loss_us = fuser.evaluate(kernel).time.total_us();
    for (int origin : origins) loss_us -= eager_us(origin, index, ctx) / static_cast<double>(kernels_of[origin].size());
    Worst& worst = of_component[components.find(kernel)];
    worst.gain_us -= loss_us;
    if (worst.kernel < 0 || loss_us > worst.loss_us) worst.loss_us = loss_us, worst.kernel = kernel;
  }
  for (const auto& [root, worst] : of_component) {
    if (worst.gain_us >= 0) continue;
    GivenBack given{replaced_by(worst.kernel), "its kernels are slower than PyTorch's own"};
    std::set<int> concerned;
    for (int origin : given.origins) {
      given.eager_us += eager_us(origin, index, ctx);
      concerned.insert(kernels_of[origin].begin(), kernels_of[origin].end());
    }
    for (int kernel : concerned) given.kernels_us += fuser.evaluate(kernel).time.total_us();
    found.push_back(std::move(given));
  }
}

// Products of matrices whose kernel, neighbours included, does not beat the calls with the neighbours' own kernels
// beside them: only the product goes back. Takes out of `kernels` what is not to be weighed otherwise.
void weigh_products(const Fuser& fuser, const std::string& choice, std::vector<int>& kernels,
                    std::vector<GivenBack>& found) {
  std::erase_if(kernels, [&](int kernel) {
    const std::vector<int> products = fuser.products_of(kernel);
    if (products.empty()) return false;
    if (choice == "generate") return true;
    const Time as_kernel = fuser.evaluate(kernel).time;
    const Time beside_calls = fuser.beside_calls(kernel);
    if (beats_calls(as_kernel, beside_calls)) return false;
    found.push_back({products, "PyTorch's product, and its neighbours' own kernels, are faster", as_kernel.total_us(),
                     beside_calls.total_us()});
    return true;
  });
}

}  // namespace

std::vector<GivenBack> find_given_back(const SourceIndex& index, const Units& units, const Clusters& clusters,
                                       const Fuser& fuser, const Context& ctx, const std::vector<char>& already,
                                       bool must_gain) {
  std::vector<GivenBack> found;
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
      for (int origin : origins) found.back().eager_us += eager_us(origin, index, ctx);
      continue;
    }
    kernels.push_back(cluster);
  }
  if (ctx.options.kernels == "auto") weigh_products(fuser, product_choice(ctx.options), kernels, found);
  if (!must_gain) return found;
  append_losers(index, units, clusters, fuser, ctx, already, kernels, found);
  return found;
}

}  // namespace tilewright
