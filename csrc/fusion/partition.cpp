#include "fusion/partition.h"

#include <algorithm>
#include <queue>

#include "cost/call_facts.h"
#include "cost/call_time.h"
#include "fusion/decisions.h"

namespace tilewright {
namespace {

bool is_view(const Node& call) { return call.is_call() && call_facts(call.callee).kind == CallKind::kView; }

// Every call of source as it stands.
Partition partition_of_calls(const Graph& source, const Context& ctx) {
  Partition result;
  result.whole_source = true;
  for (const Node* node : source.nodes()) {
    PartitionStep step{.kind = PartitionStep::Kind::kOrigin, .node = node, .is_view = is_view(*node)};
    step.time = price_call(*node, source.symbols(), ctx).time;
    result.decisions.push_back(call_decision(*node, step.time, ""));
    if (!step.is_view) result.decisions.back().why = "the option kernels=call";
    step.why = result.decisions.back().why;
    result.steps.push_back(std::move(step));
  }
  return result;
}

class Partitioner {
 public:
  Partitioner(const Graph& graph, const Graph& source, const Context& ctx, const Proposer& proposer,
              const CallReasons& reasons)
      : index_(graph, source),
        ctx_(ctx),
        reasons_(reasons),
        evaluator_(index_, ctx, proposer),
        given_back_(index_.source_nodes().size(), 0) {}

  Partition run() {
    give_back_unfit();
    Partition chosen = settle();
    if (generated_products_.empty() || product_choice(ctx_.options) != "auto") return chosen;
    // What is best for each product need not be for all: its neighbours may fuse otherwise without it.
    give_back({.origins = generated_products_, .why = "without it the whole is faster"});
    Partition without = settle();
    const Time with_us = chosen.time(), without_us = without.time();
    const bool is_better = with_us.total_us() <= without_us.total_us() && with_us.kernel_us <= without_us.kernel_us;
    return is_better ? std::move(chosen) : std::move(without);
  }

 private:
  // Giving back changes what is left to fuse; a later round rarely finds more. Where no family takes a kernel it must
  // go on, where one is only slow it need not.
  Partition settle() {
    constexpr int kRoundsForSpeed = 8;
    for (int round = 0;; ++round) {
      const Demand demanded = settled_demand();
      evaluator_.set_provided(demanded.provided);
      const Units units(index_, demanded);
      Clusters clusters(units);
      Fuser fuser(index_, units, clusters, evaluator_, ctx_);
      fuser.fuse();
      std::vector<GivenBack> found =
          find_given_back(index_, units, clusters, fuser, ctx_, given_back_, must_gain() && round < kRoundsForSpeed);
      if (found.empty()) return assemble(units, clusters, fuser);
      for (GivenBack& given : found) give_back(std::move(given));
    }
  }

  bool must_gain() const { return ctx_.options.kernels == "auto"; }

  void give_back(GivenBack given) {
    std::erase_if(given.origins, [&](int origin) { return given_back_[origin] != 0; });
    for (int origin : given.origins) given_back_[origin] = 1;
    if (!given.origins.empty()) records_.push_back(std::move(given));
  }

  // Calls with nodes that no kernel may hold, whatever the family.
  void give_back_unfit() {
    for (bool found = true; found;) {
      found = false;
      const Demand demanded = demand(index_, given_back_);
      for (size_t i = 0; i < index_.nodes().size(); ++i) {
        const Node& node = *index_.nodes()[i];
        if (!demanded.live[i] || node.category() == Category::kCall || node.category() == Category::kHost) continue;
        const Verdict verdict = fits_kernels(node);
        if (verdict) continue;
        TW_CHECK(!node.origins.empty()) << node.info().text << " came from no call, but " << verdict.why_not;
        GivenBack given{.origins = node.origins, .why = verdict.why_not};
        for (int origin : given.origins) given.eager_us += eager_us(origin);
        found |= std::any_of(node.origins.begin(), node.origins.end(), [&](int o) { return !given_back_[o]; });
        give_back(std::move(given));
      }
    }
  }

  double eager_us(int origin) const {
    return price_call(*index_.source_nodes()[origin], index_.source().symbols(), ctx_).time.total_us();
  }

  Demand settled_demand() {
    for (;;) {
      Demand demanded = demand(index_, given_back_);
      if (demanded.drawn_in.empty()) return demanded;
      for (const auto& [origin, why] : demanded.drawn_in) {
        give_back({.origins = {origin}, .why = why, .eager_us = eager_us(origin)});
      }
    }
  }

  Partition assemble(const Units& units, Clusters& clusters, const Fuser& fuser) {
    Partition result;
    generated_products_.clear();
    for (int cluster : clusters.in_order()) {
      if (!fuser.is_native(cluster)) continue;
      const std::vector<int> products = fuser.products_of(cluster);
      generated_products_.insert(generated_products_.end(), products.begin(), products.end());
    }
    append(result.decisions, product_decisions(index_, clusters, fuser));
    append(result.decisions, give_back_decisions(index_, records_));
    append(result.decisions, fuse_decisions(index_, units, clusters, fuser, ctx_));
    append(result.decisions, refuse_decisions(units, clusters, fuser));
    append(result.decisions, recompute_decisions(fuser));
    std::vector<InPlaceRefusal> refused;
    writes_ = find_in_place(index_, units, clusters, evaluator_, refused);
    for (int cluster : run_order(units, clusters)) add_step(cluster, units, clusters, fuser, result);
    for (const InPlaceRefusal& refusal : refused) {
      const double copy_us =
          2 * distinct_bytes(refusal.value->type, evaluator_.symbols()) / ctx_.gpu.dram_bytes_per_s * 1e6;
      result.decisions.push_back(copy_decision(refusal, launch_us(Launcher::kPlan, ctx_.gpu) + copy_us));
    }
    return result;
  }

  static void append(std::vector<Decision>& all, std::vector<Decision> more) {
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }

  // As near to the captured order as dependencies allow: a kernel stands where its first result stood.
  static std::vector<int> run_order(const Units& units, const Clusters& clusters) {
    std::vector<size_t> waits_for(units.size());
    std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> ready;
    const auto push = [&](int cluster) { ready.push({units[clusters.members(cluster).front()].place, cluster}); };
    for (int cluster : clusters.in_order()) {
      waits_for[cluster] = clusters.before(cluster).size();
      if (waits_for[cluster] == 0) push(cluster);
    }
    std::vector<int> order;
    while (!ready.empty()) {
      order.push_back(ready.top().second);
      ready.pop();
      for (int next : clusters.after(order.back())) {
        if (--waits_for[next] == 0) push(next);
      }
    }
    TW_CHECK(order.size() == clusters.in_order().size()) << "steps of the partition wait for each other";
    return order;
  }

  void add_step(int cluster, const Units& units, const Clusters& clusters, const Fuser& fuser, Partition& result) {
    const Unit& first = units[clusters.members(cluster).front()];
    PartitionStep step{.node = first.node};
    if (first.kind == Unit::Kind::kNative) {
      step.kind = PartitionStep::Kind::kGroup;
      step.node = nullptr;
      step.kernel = static_cast<int>(result.kernels.size());
      add_kernel(cluster, units, clusters, fuser, result);
      step.time = result.kernels.back().time;
    } else {
      const bool is_call = first.kind == Unit::Kind::kCall;
      step.kind = is_call ? PartitionStep::Kind::kCall : PartitionStep::Kind::kOrigin;
      step.is_view = is_view(*first.node);
      const Graph& graph = is_call ? index_.graph() : index_.source();
      step.time = price_call(*first.node, graph.symbols(), ctx_).time;
      result.decisions.push_back(call_decision(*first.node, step.time, why_call(*first.node, is_call)));
      step.why = result.decisions.back().why;
    }
    result.steps.push_back(std::move(step));
  }

  // "" for a call that no rule is for.
  std::string why_call(const Node& node, bool is_of_graph) const {
    if (is_of_graph) {
      const auto at = node.results.empty() ? reasons_.end() : reasons_.find(node.results[0]->name);
      return at == reasons_.end() || at->second == "no rule for this operator" ? "" : at->second;
    }
    const int source_id = index_.source_id(&node);
    for (const GivenBack& given : records_) {
      const bool is_it = std::find(given.origins.begin(), given.origins.end(), source_id) != given.origins.end();
      if (is_it) return "given back: " + given.why;
    }
    return "";
  }

  void add_kernel(int cluster, const Units& units, const Clusters& clusters, const Fuser& fuser, Partition& result) {
    const KernelNodes nodes = fuser.nodes_of(cluster);
    const std::string name = display_name(origins_of(cluster, units, clusters, index_), index_);
    const auto strides_of = [&](const Value* value) { return evaluator_.memory_strides(value); };
    const auto into = [&](const Value* value) -> Value* {
      for (const InPlaceWrite& write : writes_) {
        if (write.value == value) return write.parameter;
      }
      return nullptr;
    };
    const bool writes_parameter =
        std::any_of(nodes.outputs.begin(), nodes.outputs.end(), [&](const Value* output) { return into(output); });
    Evaluation evaluation = fuser.evaluate(cluster);
    Group group = make_group(name, nodes.nodes, nodes.outputs, evaluator_.symbols(), {strides_of, nullptr});
    if (writes_parameter) {
      Group in_place = make_group(name, nodes.nodes, nodes.outputs, evaluator_.symbols(), {strides_of, into});
      if (Evaluation other = evaluator_.evaluate_body(in_place.body); other.verdict) {
        group = std::move(in_place);
        evaluation = std::move(other);
        const int kernel = static_cast<int>(result.kernels.size());
        for (const InPlaceWrite& write : writes_) {
          if (write.cluster != cluster) continue;
          result.in_place.push_back({write.value, write.parameter, kernel});
          result.decisions.push_back(in_place_decision(write));
        }
      }
    }
    result.kernels.push_back(
        {std::move(group), std::move(evaluation.variants), evaluation.priced, evaluation.time, evaluation.kernel});
  }

  SourceIndex index_;
  const Context& ctx_;
  const CallReasons& reasons_;
  Evaluator evaluator_;
  std::vector<char> given_back_;
  std::vector<GivenBack> records_;
  std::vector<InPlaceWrite> writes_;
  std::vector<int> generated_products_;  // calls of source whose products the kernels of the last partition compute
};

}  // namespace

Time Partition::time() const {
  Time total;
  for (const PartitionStep& step : steps) total += step.time;
  return total;
}

Partition partition(const Graph& graph, const Graph& source, const Context& ctx, const Proposer& proposer,
                    const CallReasons& reasons) {
  if (ctx.options.kernels == "call") return partition_of_calls(source, ctx);
  return Partitioner(graph, source, ctx, proposer, reasons).run();
}

}  // namespace tilewright
