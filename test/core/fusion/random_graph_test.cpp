// Partitions of random graphs, run by the interpreter step by step: every step finds its operands with the values that
// they have in the whole graph, every kernel's results are the graph's, and the graph's outputs come about. A family
// that refuses and prices at random tries the ways that a good one rarely takes.

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <random>
#include <set>

#include "fake_family.h"
#include "fusion/partition.h"
#include "ir/interp.h"

namespace tilewright {
namespace {

// Random graphs: `graph` of native nodes and opaque calls, and `source` with a call for each of its nodes.
class RandomGraphs {
 public:
  explicit RandomGraphs(uint64_t seed) : random_(seed) {}

  void make(int nodes) {
    // Priced at the hints, where bytes count; run at small sizes.
    for (Graph* made : {&graph, &source}) {
      made->symbols().add({.name = "s0", .hint = 4096, .lower = 2});
      made->symbols().add({.name = "s1", .hint = 6144, .lower = 2});
    }
    for (int i = 0; i < 4; ++i) add_parameter(i % 2 ? std::vector<Expr>{s1_, s0_} : std::vector<Expr>{s0_, s1_});
    add_parameter({s0_, 1});
    small_ = graph.add_parameter("small", Type::tensor(DType::kI8, {s0_, s1_}, std::vector<Expr>{s1_, 1}));
    source.add_parameter("small", small_->type);
    for (int i = 0; i < nodes; ++i) add_node();
    add_outputs();
  }

  Graph graph{"graph"}, source{"source"};

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  Value* any() { return values_[static_cast<size_t>(below(static_cast<int>(values_.size())))]; }
  Value* any_like(const Value* other) {
    for (int i = 0; i < 8; ++i) {
      Value* found = any();
      if (found->type.shape == other->type.shape) return found;
    }
    return const_cast<Value*>(other);
  }

  void add_parameter(std::vector<Expr> shape) {
    Type type = Type::tensor(DType::kI32, std::move(shape));  // exact in any order
    type.strides = type.contiguous_strides();
    const std::string name = "p" + std::to_string(values_.size());
    source.add_parameter(name, type);
    values_.push_back(graph.add_parameter(name, type));
  }

  // The same in source, as a call of PyTorch.
  void mirror(Node* node, const std::string& callee) {
    std::vector<Arg> args;
    args.reserve(node->operands.size());
    for (const Value* operand : node->operands) args.push_back({source.find(operand->name)});
    std::vector<Type> types;
    types.reserve(node->results.size());
    for (const auto& result : node->results) types.push_back(result->type);
    const int index = static_cast<int>(source.size());
    source.add_call(callee, std::move(args), {}, std::move(types), nullptr, nullptr, Op::kCall, {node->result()->name});
    node->origins = {index};
    values_.push_back(node->result());
  }

  void add_node() {
    const std::string name = "v" + std::to_string(source.size());
    Value* x = any();
    const int kind = below(22);
    const int rank = x->type.rank();
    const auto native = [&](Op op, std::vector<Value*> operands, std::vector<std::pair<std::string, Attr>> attrs,
                            const char* callee, bool is_view) {
      Node* node = graph.add(op, std::move(operands), std::move(attrs), nullptr, nullptr, name);
      Type& type = node->result()->type;
      type.strides = is_view ? view_strides(*node) : type.contiguous_strides();
      if (!type.strides) type.strides = type.contiguous_strides();
      mirror(node, callee);
    };
    if (kind < 6) return native(Op::kAdd, {x, any_like(x)}, {}, "aten.add.Tensor", false);
    if (kind < 8) return native(Op::kNeg, {x}, {}, "aten.neg.default", false);
    if (kind < 9) return native(Op::kCopy, {x}, {}, "aten.clone.default", false);
    if (kind < 12 && rank == 2) {
      const std::vector<Expr> dims = {below(2)};
      return native(below(2) ? Op::kSum : Op::kMax, {x}, {{"dims", dims}, {"keepdim", true}}, "aten.sum.dim", false);
    }
    if (kind < 14 && rank == 2) {
      return native(Op::kPermute, {x}, {{"dims", std::vector<Expr>{1, 0}}}, "aten.permute.default", true);
    }
    if (kind < 16 && rank == 2 && x->type.shape[1] == Expr(1)) {
      const std::vector<Expr> shape = {x->type.shape[0], s1_};
      return native(Op::kExpand, {x}, {{"shape", shape}}, "aten.expand.default", true);
    }
    if (kind < 17 && rank == 2) {
      return native(Op::kUnsqueeze, {x}, {{"dims", std::vector<Expr>{0}}}, "aten.unsqueeze.default", true);
    }
    // Cheap to recompute: it is read at a byte an element.
    if (kind < 19) return native(Op::kCast, {small_}, {{"to", DType::kI32}}, "aten._to_copy.default", false);
    const bool is_random = below(3) == 0;
    const char* callee = is_random ? "aten.bernoulli.p" : "aten.mm.default";
    Type type = x->type;
    type.strides = type.contiguous_strides();
    std::vector<Arg> args = {{x}, {any_like(x)}};
    mirror(graph.add_call(callee, std::move(args), {}, {type}, nullptr, nullptr, Op::kCall, {name}), callee);
  }

  static std::optional<std::vector<Expr>> view_strides(const Node& node) {
    std::vector<Expr> from = *node.operand(0)->type.strides;
    if (node.op == Op::kPermute) return std::vector<Expr>{from[1], from[0]};
    if (node.op == Op::kExpand) return std::vector<Expr>{from[0], 0};
    from.insert(from.begin(), node.operand(0)->type.numel());
    return from;
  }

  void add_outputs() {
    std::vector<Output> outputs, of_source;
    std::set<const Value*> bound;
    for (int i = 0; i < 5; ++i) {
      Value* value = any();
      Value* into = nullptr;
      Value* parameter = graph.parameters()[static_cast<size_t>(below(4))];
      if (below(2) && value->node && value->node->op != Op::kParameter && value->type.shape == parameter->type.shape &&
          bound.insert(parameter).second) {
        into = parameter;
      }
      outputs.push_back({Arg{value}, into});
      of_source.push_back({Arg{source.find(value->name)}, into ? source.find(into->name) : nullptr});
    }
    graph.set_outputs(std::move(outputs));
    source.set_outputs(std::move(of_source));
  }

  std::mt19937_64 random_;
  const Expr s0_ = Expr::symbol("s0"), s1_ = Expr::symbol("s1");
  std::vector<Value*> values_;
  Value* small_ = nullptr;
};

// What a call gives: any function of its arguments' elements.
std::vector<InterpValue> opaque(const Node&, const std::vector<InterpValue>& args,
                                const std::vector<std::pair<std::string, InterpValue>>&) {
  HostTensor out = args[0].tensor();
  for (size_t i = 0; i < out.ints.size(); ++i) {
    out.ints[i] = wrapped(DType::kI32, 3 * args[1].tensor().ints[i] - args[0].tensor().ints[out.ints.size() - 1 - i]);
  }
  return {InterpValue::tensor(std::move(out))};
}

// Every value of the graph, by name.
std::map<std::string, InterpValue> all_values(const Graph& graph, const std::vector<InterpValue>& inputs) {
  Graph whole = graph.clone();
  std::vector<Output> outputs;
  std::vector<std::string> names;
  for (Value* parameter : whole.parameters()) names.push_back(parameter->name), outputs.push_back({Arg{parameter}});
  for (Node* node : whole.nodes()) {
    for (const auto& result : node->results) names.push_back(result->name), outputs.push_back({Arg{result.get()}});
  }
  whole.set_outputs(std::move(outputs));
  const std::vector<InterpValue> values =
      interpret(whole, inputs, {.mode = InterpMode::kEager, .symbols = {}, .call = opaque});
  std::map<std::string, InterpValue> by_name;
  for (size_t i = 0; i < names.size(); ++i) by_name[names[i]] = values[i];
  return by_name;
}

// Runs the steps over values in memory, which views share.
class Runner {
 public:
  Runner(const RandomGraphs& graphs, const Partition& partition, uint64_t seed)
      : graphs_(graphs), partition_(partition), inputs_(random_inputs(graphs.graph, {{"s0", 4}, {"s1", 6}}, seed)) {
    expected_ = all_values(graphs.graph, inputs_);
  }

  void run() {
    for (const Value* parameter : graphs_.graph.parameters()) written_.insert(parameter->name);
    for (const PartitionStep& step : partition_.steps) {
      if (step.kind == PartitionStep::Kind::kGroup) {
        run_kernel(step.kernel);
      } else {
        run_call(*step.node, step.is_view);
      }
    }
    for (const Output& output : graphs_.graph.outputs()) {
      const std::string& name = output.tensor()->name;
      EXPECT_TRUE(written_.count(name)) << "output %" << name << " is not made";
    }
    check_random_calls();
  }

 private:
  void expect_readable(const std::string& name) {
    EXPECT_TRUE(written_.count(name)) << "%" << name << " is read before it is made";
    EXPECT_FALSE(overwritten_.count(base_of(name))) << "%" << name << " is read after its memory is overwritten";
  }

  std::string base_of(const std::string& name) const {
    const auto at = base_.find(name);
    return at == base_.end() ? name : base_of(at->second);
  }

  void run_kernel(int index) {
    const Group& group = partition_.kernels[static_cast<size_t>(index)].group;
    EXPECT_EQ(verify(group.body), std::vector<std::string>{}) << print(group.body);
    std::vector<InterpValue> inputs;
    for (const Value* input : group.inputs) {
      const bool is_only_written = group.body.parameters()[inputs.size()]->users.empty();
      if (!is_only_written) expect_readable(input->name);
      inputs.push_back(expected_.at(input->name));
    }
    InterpOptions options;
    for (size_t i = 0; i < group.symbols.size(); ++i) {
      options.symbols["s" + std::to_string(i)] = group.symbols[i] == "s0" ? 4 : 6;
    }
    const std::vector<InterpValue> found = interpret(group.body, inputs, options);
    for (size_t i = 0; i < found.size(); ++i) {
      const std::string& name = group.outputs[i]->name;
      const Verdict same = all_close(found[i].tensor(), expected_.at(name).tensor(), {});
      EXPECT_TRUE(same) << "%" << name << ": " << same.why_not << "\n" << print(group.body);
      EXPECT_TRUE(written_.insert(name).second) << "%" << name << " is made twice";
    }
    for (const InPlace& in_place : partition_.in_place) {
      if (in_place.kernel != index) continue;
      EXPECT_TRUE(overwritten_.insert(in_place.parameter->name).second);
      base_[in_place.value->name] = "new " + in_place.parameter->name;
    }
  }

  void run_call(const Node& node, bool is_view) {
    for (const Value* operand : node.operands) expect_readable(operand->name);
    for (const auto& result : node.results) {
      EXPECT_TRUE(written_.insert(result->name).second) << "%" << result->name << " is made twice";
      if (is_view) base_[result->name] = node.operands[0]->name;
    }
    if (node.callee == "aten.bernoulli.p") random_calls_.push_back(node.result()->name);
  }

  void check_random_calls() {
    std::vector<std::string> captured;
    for (const Node* node : graphs_.source.nodes()) {
      if (node->callee == "aten.bernoulli.p") captured.push_back(node->result()->name);
    }
    EXPECT_EQ(random_calls_, captured) << "random numbers are drawn in another order";
  }

  const RandomGraphs& graphs_;
  const Partition& partition_;
  std::vector<InterpValue> inputs_;
  std::map<std::string, InterpValue> expected_;
  std::set<std::string> written_, overwritten_;
  std::map<std::string, std::string> base_;  // of a view: whose memory it has
  std::vector<std::string> random_calls_;
};

// Refuses some bodies and prices the rest without reason, but equal bodies equally.
Proposal capricious_propose(const Graph& body, const Context& ctx) {
  const size_t mood = std::hash<std::string>()(print(body)) % 97;
  if (mood < 15) return {{}, {"it is not in the mood"}};
  Proposal proposal = fake_propose(body, ctx);
  for (Candidate& candidate : proposal.candidates) {
    candidate.footprint.alu *= static_cast<double>(mood * mood) * 100;
    candidate.footprint.accesses.resize(mood % 3);
  }
  return proposal;
}

class RandomGraph : public testing::TestWithParam<int> {};

TEST_P(RandomGraph, StepsComputeTheGraph) {
  std::set<std::string> decided;
  for (int i = 0; i < 120; ++i) {
    const auto seed = static_cast<uint64_t>(GetParam()) * 1000 + static_cast<uint64_t>(i);
    RandomGraphs graphs(seed);
    graphs.make(/*nodes=*/5 + i % 40);
    for (const char* mode : {"auto", "generate"}) {
      for (const bool capricious : {false, true}) {
        Context ctx;
        ctx.options.kernels = mode;
        ctx.gpu = gpu_named("h200");
        const Partition found =
            partition(graphs.graph, graphs.source, ctx, capricious ? Proposer(capricious_propose) : fake_propose);
        SCOPED_TRACE("seed " + std::to_string(seed) + " " + mode + (capricious ? " capricious" : ""));
        Runner(graphs, found, seed).run();
        if (testing::Test::HasFailure()) {
          std::cout << print(graphs.source) << print(graphs.graph) << found;
          return;
        }
        for (const Decision& decision : found.decisions) decided.insert(decision.what);
        EXPECT_EQ(print(found), print(partition(graphs.graph, graphs.source, ctx,
                                                capricious ? Proposer(capricious_propose) : fake_propose)));
      }
    }
  }
  const std::set<std::string> all = {"copy into", "fuse",      "generate", "give back", "in place",
                                     "keep call", "recompute", "refuse",   "view"};
  EXPECT_EQ(decided, all) << "the graphs no longer try every kind of decision";
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraph, testing::Range(0, 3));

}  // namespace
}  // namespace tilewright
