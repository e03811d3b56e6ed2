#include "fusion/decisions.h"

#include <algorithm>
#include <map>

#include "cost/call_facts.h"
#include "cost/call_time.h"

namespace tilewright {
namespace {

constexpr size_t kMaxNames = 5;

std::vector<std::string> callees(const std::vector<int>& origins, const SourceIndex& index) {
  std::vector<std::string> out;
  out.reserve(origins.size());
  for (int origin : origins) out.push_back(index.source_nodes()[origin]->callee);
  return out;
}

LocPtr first_loc(const std::vector<int>& units_of_cluster, const Units& units) {
  for (int unit : units_of_cluster) {
    if (units[unit].node->loc) return units[unit].node->loc;
  }
  return nullptr;
}

// Values that one kernel writes and the other reads.
std::vector<const Value*> values_between(int from, int to, const Units& units, const Clusters& clusters) {
  std::vector<const Value*> out;
  for (int unit : clusters.members(from)) {
    for (const auto& result : units[unit].node->results) {
      const std::vector<int>& readers = units.readers(result.get());
      const bool is_read = std::any_of(readers.begin(), readers.end(),
                                       [&](int reader) { return clusters.has(to, reader) && !clusters.has(to, unit); });
      if (is_read) out.push_back(result.get());
    }
  }
  return out;
}

std::string why_kept(const Node& call) {
  if (!call.is_call()) return "only Python can run it";
  switch (call_facts(call.callee).kind) {
    case CallKind::kView:
      return "no kernel: its result is a view";
    case CallKind::kMatmul:
      return "matrix products are PyTorch's";
    case CallKind::kConvolution:
      return "convolutions are PyTorch's";
    case CallKind::kAttention:
      return "attention is PyTorch's";
    case CallKind::kHostRead:
      return "it reads the GPU's memory from the host";
    default:
      return has_effects(call) ? "it has effects beside its results" : "no rule expands it";
  }
}

}  // namespace

std::string display_name(const std::vector<int>& origins, const SourceIndex& index) {
  std::vector<std::string> names;
  for (int origin : origins) {
    std::string name = base_name(index.source_nodes()[origin]->callee);
    name.erase(0, name.find_first_not_of('_'));
    if (!name.empty() && (names.empty() || names.back() != name)) names.push_back(std::move(name));
  }
  std::string out;
  for (size_t i = 0; i < names.size() && i < kMaxNames; ++i) out += (i ? "_" : "") + names[i];
  if (names.size() > kMaxNames) out += "_and_" + std::to_string(names.size() - kMaxNames);
  return out.empty() ? "kernel" : out;
}

std::vector<Decision> fuse_decisions(const SourceIndex& index, const Units& units, const Clusters& clusters,
                                     const Fuser& fuser, const Context& ctx) {
  std::map<int, int> kernels_of_origin;
  std::vector<std::pair<int, std::vector<int>>> kernels;
  for (int cluster : clusters.in_order()) {
    if (!fuser.is_native(cluster)) continue;
    kernels.emplace_back(cluster, origins_of(cluster, units, clusters, index));
    for (int origin : kernels.back().second) ++kernels_of_origin[origin];
  }
  std::vector<Decision> out;
  for (const auto& [cluster, origins] : kernels) {
    const std::vector<int>& members = clusters.members(cluster);
    Decision d;
    d.what = members.size() > 1 ? "fuse" : "generate";
    d.why = std::to_string(origins.size()) + (origins.size() == 1 ? " operator, " : " operators, ") +
            std::to_string(members.size()) + (members.size() == 1 ? " node" : " nodes") + " in one kernel (" +
            fuser.evaluate(cluster).variants[fuser.evaluate(cluster).priced].schedule.family + ")";
    d.nodes = callees(origins, index);
    for (int origin : origins) {
      const double eager_us = price_call(*index.source_nodes()[origin], index.source().symbols(), ctx).time.total_us();
      d.before_us += eager_us / kernels_of_origin[origin];
    }
    d.after_us = fuser.evaluate(cluster).time.total_us();
    d.loc = first_loc(members, units);
    out.push_back(std::move(d));
  }
  return out;
}

std::vector<Decision> product_decisions(const SourceIndex& index, const Clusters& clusters, const Fuser& fuser) {
  std::vector<Decision> out;
  for (int cluster : clusters.in_order()) {
    const std::vector<int> products = fuser.is_native(cluster) ? fuser.products_of(cluster) : std::vector<int>{};
    if (products.empty()) continue;
    const Time as_kernel = fuser.evaluate(cluster).time;
    const Time beside_calls = fuser.beside_calls(cluster);
    Decision d{.what = "product",
               .why = "",
               .nodes = callees(products, index),
               .before_us = beside_calls.total_us(),
               .after_us = as_kernel.total_us(),
               .loc = index.source_nodes()[products.front()]->loc};
    d.why = (products.size() == 1 ? "its kernel takes " : "their kernel takes ") + microseconds(as_kernel.kernel_us) +
            " on the GPU, PyTorch's " + (products.size() == 1 ? "product" : "products") +
            " and the neighbours' own kernels " + microseconds(beside_calls.kernel_us);
    out.push_back(std::move(d));
  }
  return out;
}

std::vector<Decision> refuse_decisions(const Units& units, const Clusters& clusters, const Fuser& fuser) {
  std::vector<Decision> out;
  for (int from : clusters.in_order()) {
    if (!fuser.is_native(from)) continue;
    for (int to : clusters.after(from)) {
      const std::vector<const Value*> values =
          fuser.is_native(to) ? values_between(from, to, units, clusters) : std::vector<const Value*>{};
      if (values.empty()) continue;
      const Fuser::Apart apart = fuser.why_apart(from, to);
      Decision d{.what = "refuse", .why = apart.why, .before_us = apart.apart_us, .after_us = apart.together_us};
      for (const Value* value : values) d.nodes.push_back("%" + value->name);
      d.loc = first_loc(clusters.members(to), units);
      out.push_back(std::move(d));
    }
  }
  return out;
}

std::vector<Decision> recompute_decisions(const Fuser& fuser) {
  std::vector<Decision> out;
  out.reserve(fuser.recomputed().size());
  for (const Fuser::Recomputed& r : fuser.recomputed()) {
    out.push_back({.what = "recompute",
                   .why = "cheaper to compute again than to read",
                   .nodes = {"%" + r.value->name},
                   .before_us = r.before_us,
                   .after_us = r.after_us,
                   .loc = r.value->node->loc});
  }
  return out;
}

std::vector<Decision> give_back_decisions(const SourceIndex& index, const std::vector<GivenBack>& given_back) {
  std::vector<Decision> out;
  out.reserve(given_back.size());
  for (const GivenBack& given : given_back) {
    out.push_back({.what = "give back",
                   .why = given.why,
                   .nodes = callees(given.origins, index),
                   .before_us = given.kernels_us,
                   .after_us = given.eager_us,
                   .loc = index.source_nodes()[given.origins.front()]->loc});
  }
  return out;
}

Decision call_decision(const Node& call, const Time& time, const std::string& why) {
  const bool is_view = call.is_call() && call_facts(call.callee).kind == CallKind::kView;
  Decision d{.what = is_view ? "view" : "keep call",
             .why = why_kept(call),
             .before_us = time.total_us(),
             .after_us = time.total_us(),
             .loc = call.loc};
  if (!why.empty() && !is_view) d.why = why;
  d.nodes = {call.is_call() ? call.callee : "host " + call.callee};
  return d;
}

Decision in_place_decision(const InPlaceWrite& write) {
  return {.what = "in place",
          .why = "its kernel writes the parameter's memory",
          .nodes = {"%" + write.value->name, "%" + write.parameter->name},
          .loc = write.value->node->loc};
}

Decision copy_decision(const InPlaceRefusal& refusal, double copy_us) {
  return {.what = "copy into",
          .why = refusal.why,
          .nodes = {"%" + refusal.value->name, "%" + refusal.parameter->name},
          .before_us = copy_us,
          .after_us = copy_us,
          .loc = refusal.value->node->loc};
}

}  // namespace tilewright
