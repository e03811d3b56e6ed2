#include "fusion/partition.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "fake_family.h"
#include "fusion/report.h"

namespace tilewright {
namespace {

struct Pair {
  Graph source, graph;
};

// A text with the graph before decompose, then the one after.
Pair read(const std::string& text) {
  std::vector<Graph> graphs = parse_graphs(text);
  TW_CHECK(graphs.size() == 2) << graphs.size() << " graphs";
  return {std::move(graphs[0]), std::move(graphs[1])};
}

Context context(const std::string& kernels = "auto") {
  Context ctx;
  ctx.options.kernels = kernels;
  ctx.gpu = gpu_named("h200");
  return ctx;
}

Proposal slow_propose(const Graph& body, const Context& ctx) {
  Proposal proposal = fake_propose(body, ctx);
  for (Candidate& candidate : proposal.candidates) candidate.footprint.sfu = 1e9;
  return proposal;
}

std::vector<std::string> whys(const Partition& partition, const std::string& what) {
  std::vector<std::string> out;
  for (const Decision& decision : partition.decisions) {
    if (decision.what == what) out.push_back(decision.why);
  }
  return out;
}

const char* kAbsNeg = R"tw(
graph @source(%x: f32[1024]) -> f32[1024]
{
  %a = call aten.abs.default(%x) : f32[1024] strides [1] @ 0
  %b = call aten.neg.default(%a) : f32[1024] strides [1] @ 1
  return %b
}
loc 0 = "model.py":3 "x.abs()" aten.abs.default
loc 1 = "model.py":4 "-y" aten.neg.default

graph @g(%x: f32[1024]) -> f32[1024]
{
  %a = abs %x : f32[1024] strides [1] @ 0 from [0]
  %b = neg %a : f32[1024] strides [1] @ 1 from [1]
  return %b
}
loc 0 = "model.py":3 "x.abs()" aten.abs.default
loc 1 = "model.py":4 "-y" aten.neg.default
)tw";

TEST(Partition, AutoGivesBackWhatIsSlowerThanPyTorch) {
  const Pair pair = read(kAbsNeg);
  const Partition p = partition(pair.graph, pair.source, context(), slow_propose);
  EXPECT_TRUE(p.kernels.empty());
  ASSERT_EQ(p.steps.size(), 2U);
  EXPECT_EQ(p.steps[0].node->callee, "aten.abs.default");
  EXPECT_EQ(p.steps[0].why, "given back: its kernels are slower than PyTorch's own");
  ASSERT_EQ(whys(p, "give back").size(), 1U);
  const Decision& d = p.decisions.front();
  EXPECT_EQ(d.nodes, (std::vector<std::string>{"aten.abs.default", "aten.neg.default"}));
  EXPECT_GT(d.before_us, d.after_us);
  EXPECT_EQ(d.loc->line, 3);
}

TEST(Partition, GenerateMakesKernelsThatAreSlower) {
  const Pair pair = read(kAbsNeg);
  const Partition p = partition(pair.graph, pair.source, context("generate"), slow_propose);
  ASSERT_EQ(p.kernels.size(), 1U);
  EXPECT_TRUE(whys(p, "give back").empty());
  EXPECT_GT(p.kernels[0].time.kernel_us, 100);
  EXPECT_EQ(p.kernels[0].group.nodes.size(), 2U);
}

TEST(Partition, AutoFormsAGroupOnlyWhereTFalls) {
  const Pair pair = read(kAbsNeg);
  const Proposer two_nodes_are_slow = [](const Graph& body, const Context& ctx) {
    return body.size() > 1 ? slow_propose(body, ctx) : fake_propose(body, ctx);
  };
  const Partition apart = partition(pair.graph, pair.source, context(), two_nodes_are_slow);
  EXPECT_EQ(apart.kernels.size(), 2U);
  ASSERT_EQ(whys(apart, "refuse").size(), 1U);
  EXPECT_EQ(partition(pair.graph, pair.source, context("generate"), two_nodes_are_slow).kernels.size(), 1U);
}

TEST(Partition, WhatNoFamilyTakesGoesBackInEveryMode) {
  const Pair pair = read(kAbsNeg);
  const Proposer no_neg = [](const Graph& body, const Context& ctx) -> Proposal {
    for (const Node* node : body.nodes()) {
      if (node->op == Op::kNeg) return {{}, {"pointwise: no neg", "reduction: no reduction"}};
    }
    return fake_propose(body, ctx);
  };
  const Partition p = partition(pair.graph, pair.source, context("generate"), no_neg);
  ASSERT_EQ(p.kernels.size(), 1U);
  ASSERT_EQ(p.steps.size(), 2U);
  EXPECT_EQ(p.steps[1].kind, PartitionStep::Kind::kOrigin);
  EXPECT_EQ(whys(p, "give back"), std::vector<std::string>{"pointwise: no neg; reduction: no reduction"});
}

TEST(Partition, ANodeThatCameFromNoCallNeedsAFamily) {
  const Pair pair = read(R"(
graph @source(%x: f32[8]) -> f32[8]
{
  %a = call aten.abs.default(%x) : f32[8]
  return %a
}
graph @g(%x: f32[8]) -> f32[8]
{
  %a = abs %x : f32[8]
  return %a
}
)");
  const Proposer none = [](const Graph&, const Context&) -> Proposal { return {{}, {"no family"}}; };
  EXPECT_THROW(partition(pair.graph, pair.source, context(), none), InternalError);
}

TEST(Partition, ACallWhoseOperandNoKernelMakesDrawsInItsMaker) {
  // The passes left nothing of %a; the call given back needs it.
  const Pair pair = read(R"(
graph @source(%x: f32[8]) -> f32[8]
{
  %a = call aten.abs.default(%x) : f32[8] strides [1]
  %b = call aten.neg.default(%a) : f32[8] strides [1]
  return %b
}
graph @g(%x: f32[8]) -> f32[8]
{
  %q = abs %x : f32[8] from [0, 1]
  %b = neg %q : f32[8] strides [1] from [0, 1]
  return %b
}
)");
  const Proposer none = [](const Graph&, const Context&) -> Proposal { return {{}, {"no family"}}; };
  const Partition p = partition(pair.graph, pair.source, context(), none);
  ASSERT_EQ(p.steps.size(), 2U);
  EXPECT_EQ(p.steps[0].node->callee, "aten.abs.default");
  EXPECT_EQ(p.steps[1].node->callee, "aten.neg.default");
}

TEST(Partition, CallsWithoutUseAndEffectAreDropped) {
  const Pair pair = read(R"(
graph @source(%x: f32[8, 8]) -> f32[8, 8]
{
  %m = call aten.mm.default(%x, %x) : f32[8, 8] strides [8, 1]
  %r = call aten.bernoulli.p(%x, 0.5) : f32[8, 8] strides [8, 1]
  %a = call aten.abs.default(%x) : f32[8, 8] strides [8, 1]
  return %a
}
graph @g(%x: f32[8, 8]) -> f32[8, 8]
{
  %m = call aten.mm.default(%x, %x) : f32[8, 8] strides [8, 1] from [0]
  %r = call aten.bernoulli.p(%x, 0.5) : f32[8, 8] strides [8, 1] from [1]
  %a = abs %x : f32[8, 8] strides [8, 1] from [2]
  return %a
}
)");
  const Partition p = partition(pair.graph, pair.source, context(), fake_propose);
  ASSERT_EQ(p.steps.size(), 2U);
  EXPECT_EQ(p.steps[0].node->callee, "aten.bernoulli.p");
}

TEST(Partition, CallsWithoutResultRunInOrder) {
  const Pair pair = read(R"(
graph @source(%x: f32[8]) -> f32[8]
{
  %r = call aten.bernoulli.p(%x, 0.5) : f32[8] strides [1]
  call aten._assert_async.msg(%r, "no")
  %q = call aten.bernoulli.p(%x, 0.5) : f32[8] strides [1]
  return %q
}
graph @g(%x: f32[8]) -> f32[8]
{
  %r = call aten.bernoulli.p(%x, 0.5) : f32[8] strides [1] from [0]
  call aten._assert_async.msg(%r, "no") from [1]
  %q = call aten.bernoulli.p(%x, 0.5) : f32[8] strides [1] from [2]
  return %q
}
)");
  const Partition p = partition(pair.graph, pair.source, context(), fake_propose);
  ASSERT_EQ(p.steps.size(), 3U);
  EXPECT_EQ(p.steps[1].node->callee, "aten._assert_async.msg");
}

TEST(Partition, SizesBoundByCallsAreKnownBefore) {
  // %f reads nothing of the call, but is as large as it says; %m, which is in front of it, must not pull it there.
  const Pair pair = read(R"(
graph @source(%x: f32[8], %w: f32[8, 8]) -> (f32[8, 8], f32[u0])
  symbols (u0 = 4 in [0, 8] unbacked)
{
  %m = call aten.mm.default(%w, %w) : f32[8, 8] strides [8, 1]
  %n = call aten.count_nonzero.default(%x) : i64[] strides []
  %u = call aten._local_scalar_dense.default(%n) : int = u0
  %f = call aten.full.default([u0], 1.0) : f32[u0] strides [1]
  return %m, %f
}
graph @g(%x: f32[8], %w: f32[8, 8]) -> (f32[8, 8], f32[u0])
  symbols (u0 = 4 in [0, 8] unbacked)
{
  %c = constant dtype f32 value 1.0 from [3]
  %f = full %c shape [u0] : f32[u0] strides [1] from [3]
  %m = call aten.mm.default(%w, %w) : f32[8, 8] strides [8, 1] from [0]
  %n = call aten.count_nonzero.default(%x) : i64[] strides [] from [1]
  %u = call aten._local_scalar_dense.default(%n) : int = u0 from [2]
  return %m, %f
}
)");
  // Where the maker stands after its user, the text is not valid in that order; a pass may still leave it so.
  const Partition p = partition(pair.graph, pair.source, context("generate"), fake_propose);
  ASSERT_EQ(p.steps.size(), 4U);
  EXPECT_EQ(p.steps[3].kind, PartitionStep::Kind::kGroup);
}

TEST(Partition, VariantsKeepTheFamilysOrderWithoutTheBeaten) {
  const Pair pair = read(kAbsNeg);
  const Proposer three = [](const Graph& body, const Context& ctx) {
    Proposal proposal = fake_propose(body, ctx);
    const Candidate base = proposal.candidates[0];
    Candidate fast = base, faster = base, slow = base, other_size = base;
    fast.schedule.params = {{"threads", 1}};
    fast.condition.divisible = {{Expr(1024), 8}};
    fast.footprint.sfu = 1e7;
    faster = fast;
    faster.schedule.params = {{"threads", 2}};
    faster.footprint.sfu = 0;
    other_size.schedule.params = {{"threads", 3}};
    other_size.condition.at_most = {{Expr(1024), 512}};
    slow.footprint.sfu = 1e8;
    proposal.candidates = {fast, other_size, faster, slow};
    return proposal;
  };
  const Partition p = partition(pair.graph, pair.source, context("generate"), three);
  ASSERT_EQ(p.kernels.size(), 1U);
  std::vector<int64_t> threads;
  for (const Candidate& candidate : p.kernels[0].variants) threads.push_back(candidate.schedule.param("threads"));
  EXPECT_EQ(threads, (std::vector<int64_t>{3, 2, 256})) << "the slow first one has the same condition as a faster one";
  EXPECT_EQ(p.kernels[0].priced, 1);
}

TEST(Partition, EqualLayersAreAskedForOnce) {
  std::string source = "graph @source(%x: f32[64, 64], %w: f32[64, 64]) -> f32[64, 64]\n{\n";
  std::string graph = source;
  std::string last = "x";
  int origin = 0;
  for (int layer = 0; layer < 12; ++layer) {
    const std::string n = std::to_string(layer);
    const auto add = [&](const std::string& result, const std::string& native, const std::string& call) {
      source += "  %" + result + n + " = call " + call + " : f32[64, 64] strides [64, 1]\n";
      graph += "  %" + result + n + " = " + (native.empty() ? "call " + call : native) +
               " : f32[64, 64] strides [64, 1] from [" + std::to_string(origin++) + "]\n";
    };
    add("m", "", "aten.mm.default(%" + last + ", %w)");
    add("a", "abs %m" + n, "aten.abs.default(%m" + n + ")");
    add("b", "add %a" + n + ", %" + last, "aten.add.Tensor(%a" + n + ", %" + last + ")");
    last = "b" + n;
  }
  source += "  return %" + last + "\n}\n";
  graph += "  return %" + last + "\n}\n";
  const Pair pair = read(source + graph);
  int asked = 0;
  const Proposer counting = [&](const Graph& body, const Context& ctx) {
    ++asked;
    return fake_propose(body, ctx);
  };
  const Partition p = partition(pair.graph, pair.source, context(), counting);
  ASSERT_EQ(p.kernels.size(), 12U);
  for (const Kernel& kernel : p.kernels) EXPECT_EQ(print(kernel.group.body), print(p.kernels[0].group.body));
  EXPECT_EQ(asked, 3) << "abs, add, and both";
}

TEST(Partition, GroupsNameTheirMemory) {
  // Eager's strides bind where a value crosses to PyTorch; a value that eager would only view is laid out row-major.
  const Pair pair = read(R"(
graph @source(%x: f32[8, 4] strides [1, 8]) -> (f32[8, 4], f32[4])
{
  %a = call aten.abs.default(%x) : f32[8, 4] strides [1, 8]
  %s = call aten.sum.dim_IntList(%a, [0]) : f32[4] strides [1]
  return %a, %s
}
graph @g(%x: f32[8, 4] strides [1, 8]) -> (f32[8, 4], f32[4])
{
  %a = abs %x : f32[8, 4] strides [1, 8] from [0]
  %s = sum %a dims [0] keepdim false : f32[4] strides [1] from [1]
  return %a, %s
}
)");
  const Partition p = partition(pair.graph, pair.source, context("generate"), fake_propose);
  ASSERT_EQ(p.kernels.size(), 1U);
  EXPECT_EQ(print(p.kernels[0].group.body), R"(graph @kernel(%0: f32[8, 4] strides [1, 8]) -> (f32[8, 4], f32[4]) {
  %1 = abs %0 : f32[8, 4] strides [1, 8]
  %2 = sum %1 dims [0] keepdim false : f32[4] strides [1]
  return %1, %2
}
)");
}

TEST(Partition, ReportIsJsonOfItsRecords) {
  const Pair pair = read(kAbsNeg);
  const Context ctx = context();
  const Partition p = partition(pair.graph, pair.source, ctx, fake_propose);
  const auto json = nlohmann::json::parse(to_json(make_report(p, pair.source, ctx)));
  EXPECT_EQ(json["gpu"], "h200");
  ASSERT_EQ(json["kernels"].size(), 1U);
  const auto& kernel = json["kernels"][0];
  EXPECT_EQ(kernel["name"], "abs_neg");
  EXPECT_EQ(kernel["origins"][1]["op"], "aten.neg.default");
  EXPECT_EQ(kernel["origins"][1]["line"], 4);
  EXPECT_EQ(kernel["read_bytes"], 4096);
  EXPECT_NEAR(kernel["eager_us"], json["eager_us"], 1e-9);
  EXPECT_NEAR(json["predicted"]["total_us"], p.time().total_us(), 1e-9);
  EXPECT_EQ(json["decisions"][0]["what"], "fuse");
  EXPECT_TRUE(json["calls"].empty());
}

}  // namespace
}  // namespace tilewright
