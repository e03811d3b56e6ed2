#include "fusion/report.h"

#include <map>
#include <nlohmann/json.hpp>

#include "cost/call_facts.h"
#include "cost/call_time.h"

namespace tilewright {
namespace {

using Json = nlohmann::ordered_json;

ReportOperator operator_of(const Node& node) {
  ReportOperator op;
  op.op = node.is_call() ? node.callee : "host " + node.callee;
  if (node.loc) {
    op.file = node.loc->file;
    op.line = node.loc->line;
    op.code = node.loc->code;
  }
  return op;
}

std::vector<std::string> names(const std::vector<Value*>& values) {
  std::vector<std::string> out;
  out.reserve(values.size());
  for (const Value* value : values) out.push_back(value->name);
  return out;
}

ReportKernel kernel_record(const Kernel& kernel, const Graph& source) {
  const Candidate& runs = kernel.variants[kernel.priced];
  ReportKernel record;
  record.name = kernel.group.name;
  const std::vector<Node*> calls = source.nodes();
  for (int origin : kernel.group.origins) record.origins.push_back(operator_of(*calls[origin]));
  record.family = runs.schedule.family;
  record.schedule = print(runs.schedule);
  record.variants = static_cast<int>(kernel.variants.size());
  record.predicted = kernel.time;
  record.parts = kernel.parts;
  for (const Footprint::Access& access : runs.footprint.accesses) {
    (access.is_store ? record.written_bytes : record.read_bytes) += access.bytes;
  }
  record.registers = runs.footprint.registers_per_thread;
  record.smem_bytes = runs.footprint.smem_bytes;
  record.blocks = runs.footprint.blocks;
  record.threads = runs.footprint.threads_per_block;
  record.inputs = names(kernel.group.inputs);
  record.outputs = names(kernel.group.outputs);
  return record;
}

// Each operator's eager time goes to the kernels that have a part of it, in equal parts; views are nobody's.
void add_eager_times(const Partition& partition, const Graph& source, const Context& ctx, Report& report) {
  std::map<int, std::vector<size_t>> kernels_of;
  for (size_t i = 0; i < partition.kernels.size(); ++i) {
    for (int origin : partition.kernels[i].group.origins) kernels_of[origin].push_back(i);
  }
  const std::vector<Node*> calls = source.nodes();
  for (size_t i = 0; i < calls.size(); ++i) {
    const double eager_us = price_call(*calls[i], source.symbols(), ctx).time.total_us();
    report.eager_us += eager_us;
    const auto at = kernels_of.find(static_cast<int>(i));
    const bool is_view = calls[i]->is_call() && call_facts(calls[i]->callee).kind == CallKind::kView;
    if (at == kernels_of.end() || is_view) continue;
    for (size_t kernel : at->second) {
      report.kernels[kernel].eager_us += eager_us / static_cast<double>(at->second.size());
    }
  }
}

Json to_json(const Time& time) {
  return {{"launch_us", time.launch_us},
          {"kernel_us", time.kernel_us},
          {"transfer_us", time.transfer_us},
          {"total_us", time.total_us()}};
}

Json to_json(const ReportOperator& op) {
  return {{"op", op.op}, {"file", op.file}, {"line", op.line}, {"code", op.code}};
}

Json to_json(const KernelTime& t) {
  return {{"bound", t.bound},
          {"dram_us", t.dram_us},
          {"l2_us", t.l2_us},
          {"alu_us", t.alu_us},
          {"sfu_us", t.sfu_us},
          {"smem_us", t.smem_us},
          {"tensor_us", t.tensor_us},
          {"latency_us", t.latency_us},
          {"blocks_us", t.blocks_us},
          {"fixed_us", t.fixed_us},
          {"phases_us", t.phases_us},
          {"waves", t.waves},
          {"occupancy", t.occupancy.fraction},
          {"occupancy_limit", t.occupancy.limit}};
}

Json to_json(const ReportKernel& kernel) {
  Json origins = Json::array();
  for (const ReportOperator& op : kernel.origins) origins.push_back(to_json(op));
  return {{"name", kernel.name},
          {"origins", std::move(origins)},
          {"family", kernel.family},
          {"schedule", kernel.schedule},
          {"variants", kernel.variants},
          {"predicted", to_json(kernel.predicted)},
          {"parts", to_json(kernel.parts)},
          {"eager_us", kernel.eager_us},
          {"read_bytes", kernel.read_bytes},
          {"written_bytes", kernel.written_bytes},
          {"registers", kernel.registers},
          {"smem_bytes", kernel.smem_bytes},
          {"blocks", kernel.blocks},
          {"threads", kernel.threads},
          {"inputs", kernel.inputs},
          {"outputs", kernel.outputs}};
}

Json to_json(const ReportCall& call) {
  return {{"op", call.op.op},
          {"file", call.op.file},
          {"line", call.op.line},
          {"code", call.op.code},
          {"why", call.why},
          {"view", call.is_view},
          {"predicted", to_json(call.predicted)}};
}

Json to_json(const Decision& d) {
  return {{"what", d.what},
          {"why", d.why},
          {"nodes", d.nodes},
          {"before_us", d.before_us},
          {"after_us", d.after_us},
          {"file", d.loc ? d.loc->file : ""},
          {"line", d.loc ? d.loc->line : 0}};
}

template <typename T>
Json to_json_list(const std::vector<T>& all) {
  Json out = Json::array();
  for (const T& one : all) out.push_back(to_json(one));
  return out;
}

}  // namespace

Report make_report(const Partition& partition, const Graph& source, const Context& ctx) {
  Report report;
  report.graph = source.name();
  report.gpu = ctx.gpu.name;
  report.kernels_option = ctx.options.kernels;
  report.predicted = partition.time();
  for (const Kernel& kernel : partition.kernels) report.kernels.push_back(kernel_record(kernel, source));
  add_eager_times(partition, source, ctx, report);
  for (const PartitionStep& step : partition.steps) {
    if (step.kind == PartitionStep::Kind::kGroup) continue;
    report.calls.push_back({operator_of(*step.node), step.why, step.is_view, step.time});
  }
  report.decisions = partition.decisions;
  return report;
}

std::string to_json(const Report& report) {
  const Json all = {{"graph", report.graph},
                    {"gpu", report.gpu},
                    {"kernels_option", report.kernels_option},
                    {"predicted", to_json(report.predicted)},
                    {"eager_us", report.eager_us},
                    {"kernels", to_json_list(report.kernels)},
                    {"calls", to_json_list(report.calls)},
                    {"decisions", to_json_list(report.decisions)}};
  // User's source lines may hold anything: what is not UTF-8 is replaced.
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tilewright
