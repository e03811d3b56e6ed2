#include "compiler/compile.h"

#include <chrono>
#include <set>

#include "compiler/assembled.h"
#include "compiler/build_plan.h"
#include "compiler/generated_kernels.h"
#include "compiler/pipeline.h"
#include "fusion/report.h"
#include "passes/passes.h"

namespace tilewright {

namespace {

// Names, dumps, times and verifies the stages of one compile; no stage does so itself.
class Stages {
 public:
  Stages(const Context& ctx, std::vector<std::pair<std::string, double>>& times) : ctx_(ctx), times_(times) {}

  // Runs a stage and counts its time; its text is dumped by `finish`.
  template <typename Run>
  auto run(const std::string& name, Run&& stage) {
    const auto begin = std::chrono::steady_clock::now();
    auto count = [&] {
      times_.emplace_back(name,
                          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    };
    if constexpr (std::is_void_v<decltype(stage())>) {
      stage();
      count();
    } else {
      auto result = stage();
      count();
      return result;
    }
  }

  void dump(const std::string& name, const std::string& extension, const std::string& text) {
    const std::string number = std::to_string(number_++);
    if (!ctx_.dump) return;
    const bool same = text == last_;
    ctx_.dump(std::string(number.size() < 2 ? 1 : 0, '0') + number + "_" + name + extension,
              same ? "// unchanged\n" : text);
    last_ = text;
  }

  bool dumps() const { return static_cast<bool>(ctx_.dump); }

 private:
  const Context& ctx_;
  std::vector<std::pair<std::string, double>>& times_;
  int number_ = 0;
  std::string last_;
};

template <typename Error>
void require_valid(const std::vector<std::string>& errors, const std::string& what) {
  if (errors.empty()) return;
  std::string text = what + ":";
  for (const std::string& error : errors) text += "\n  " + error;
  throw Error(text);
}

std::string what(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "unknown error";
  }
}

// The operators and lines of the user's program that a group came from, one a line.
std::string origins_text(const Group& group, const Graph& source) {
  const std::vector<Node*> nodes = source.nodes();
  std::string text;
  for (int origin : group.origins) {
    const Node& node = *nodes[origin];
    text += "\n  ";
    if (node.loc && !node.loc->file.empty()) {
      text += node.loc->file + ":" + std::to_string(node.loc->line) + "  " + node.loc->code + "  ";
    }
    text += node.callee;
  }
  return text;
}

// Partitions and makes the kernels that run at the hints. Partitions again without the groups whose kernels could not
// be made, so that their origins run as calls, and where the assembler's figures make a kernel slower than it was taken
// to be. A rejected body is known by its text, so each round learns of at least one more kernel.
class KernelMaker {
 public:
  KernelMaker(const Graph& graph, const Graph& source, const CallReasons& reasons, const Context& ctx,
              CompiledGraph& result)
      : graph_(graph), source_(source), reasons_(reasons), ctx_(ctx), result_(result) {}

  Partition run(Stages& stages) {
    auto kernels = std::make_shared<GeneratedKernels>(ctx_);
    result_.kernels = kernels;
    for (;;) {
      Partition partition = stages.run("fusion", [&] {
        return tilewright::partition(
            graph_, source_, ctx_, [this](const Graph& body, const Context& ctx) { return propose_known(body, ctx); },
            reasons_);
      });
      result_.plan = stages.run("plan", [&] { return build_plan(graph_, source_, partition, *kernels); });
      if (stages.run("kernels", [&] { return make(partition, *kernels); })) return partition;
    }
  }

 private:
  Proposal propose_known(const Graph& body, const Context& ctx) const {
    if (!rejected_.empty()) {
      if (auto it = rejected_.find(print(body)); it != rejected_.end()) return {{}, {it->second}};
    }
    Proposal proposal = propose(body, ctx);
    assembled_.correct(body, proposal);
    return proposal;
  }

  // True where every kernel could be made and is what it was taken to be.
  bool make(Partition& partition, GeneratedKernels& kernels) {
    std::vector<std::string> keys;
    keys.reserve(partition.kernels.size());
    for (const Kernel& kernel : partition.kernels) {
      keys.push_back(kernels.add(kernel.group.body, kernel.variants[kernel.priced].schedule));
    }
    const std::vector<std::exception_ptr> errors = kernels.generate_all(keys, /*threads=*/0);
    bool is_final = true;
    for (size_t i = 0; i < errors.size(); ++i) {
      Kernel& kernel = partition.kernels[i];
      if (errors[i]) {
        if (ctx_.options.strict) std::rethrow_exception(errors[i]);
        reject(kernel, errors[i]);
        is_final = false;
      } else if (!take_figures(kernel, *kernels.get(keys[i])) && ctx_.options.kernels == "auto") {
        is_final = false;
      }
    }
    if (is_final) update_times(partition);
    return is_final;
  }

  // False where the machine code is clearly slower than the kernel was taken to be.
  bool take_figures(Kernel& kernel, const Artifact& artifact) {
    const auto code = artifact.machine_code.find(ctx_.gpu.arch);
    return code == artifact.machine_code.end() || !assembled_.correct(kernel, code->second, ctx_.gpu);
  }

  static void update_times(Partition& partition) {
    for (PartitionStep& step : partition.steps) {
      if (step.kind == PartitionStep::Kind::kGroup)
        step.time = partition.kernels[static_cast<size_t>(step.kernel)].time;
    }
  }

  void reject(const Kernel& kernel, const std::exception_ptr& error) {
    const std::string reason = what(error);
    if (!rejected_.emplace(print(kernel.group.body), "no kernel could be made: " + reason).second) return;
    result_.warnings.push_back("tilewright: no kernel could be made for " + kernel.group.name + ": " + reason +
                               origins_text(kernel.group, source_) +
                               "\nleft to PyTorch; TILEWRIGHT_STRICT=1 makes this an error");
  }

  const Graph& graph_;
  const Graph& source_;
  const CallReasons& reasons_;
  const Context& ctx_;
  CompiledGraph& result_;
  std::map<std::string, std::string> rejected_;  // body text -> why
  AssembledKernels assembled_;
};

}  // namespace

std::shared_ptr<CompiledGraph> compile_graph(std::string_view text, const Context& context) {
  auto result = std::make_shared<CompiledGraph>();
  Stages parsing(context, result->phases_us);
  Graph graph = parsing.run("parse", [&] { return parse_graph(text); });

  Context ctx = context;
  ctx.dump = make_dump(ctx.options.dump, graph.name());
  Stages stages(ctx, result->phases_us);
  require_valid<UserError>(stages.run("verify", [&] { return verify(graph); }), "the graph is not valid");
  if (stages.dumps()) stages.dump("import", ".tw", print(graph));

  Graph source;  // what decompose found: calls only
  CallReasons reasons;
  if (ctx.options.kernels == "call") {
    // Only what helps PyTorch's own operators runs: nothing is decomposed.
    stages.run("drop_true_masks", [&] { find_pass("drop_true_masks")->run(graph, ctx); });
    if (stages.dumps()) stages.dump("drop_true_masks", ".tw", print(graph));
    source = graph.clone();
  } else {
    for (const GraphPass& pass : graph_passes()) {
      const bool decomposes = pass.name == std::string_view("decompose");
      if (decomposes) source = graph.clone();
      stages.run(pass.name, [&] {
        if (!decomposes) return pass.run(graph, ctx);
        for (const Refusal& refusal : decompose_with_reasons(graph, ctx)) reasons[refusal.node] = refusal.reason;
      });
      require_valid<InternalError>(stages.run("verify", [&] { return verify(graph); }),
                                   std::string("the pass ") + pass.name + " left a graph that is not valid");
      if (stages.dumps()) stages.dump(pass.name, ".tw", print(graph));
    }
  }

  KernelMaker maker(graph, source, reasons, ctx, *result);
  const Partition partition = maker.run(stages);
  require_valid<InternalError>(verify(result->plan), "the plan is not valid");
  result->report_json = to_json(make_report(partition, source, ctx));
  if (stages.dumps()) {
    stages.dump("fusion", ".txt", print(partition));
    stages.dump("plan", ".txt", print(result->plan));
  }
  return result;
}

}  // namespace tilewright
