#include <cstdio>
#include <ostream>
#include <sstream>

#include "fusion/partition.h"

namespace tilewright {
namespace {

std::string us(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string names(const std::vector<Value*>& values) {
  std::string out;
  for (const Value* value : values) out += (out.empty() ? "%" : ", %") + value->name;
  return "(" + out + ")";
}

std::string results(const Node& node) {
  std::string out;
  for (const auto& result : node.results) out += (out.empty() ? "%" : ", %") + result->name;
  return "(" + out + ")";
}

void print_step(std::ostream& out, const PartitionStep& step, const Partition& partition) {
  if (step.kind == PartitionStep::Kind::kGroup) {
    const Kernel& kernel = partition.kernels[step.kernel];
    out << "kernel " << kernel.group.name << ' ' << names(kernel.group.inputs) << " -> " << names(kernel.group.outputs)
        << " [" << print(kernel.variants[kernel.priced].schedule) << "] bound " << kernel.parts.bound;
  } else {
    const char* what = step.is_view ? "view" : step.kind == PartitionStep::Kind::kCall ? "call" : "origin";
    const std::vector<Value*>& operands = step.node->operands;
    out << what << ' ' << (step.node->op == Op::kHost ? "host " : "") << step.node->callee << ' ' << names(operands)
        << " -> " << results(*step.node);
  }
  out << " launch " << us(step.time.launch_us) << " kernel " << us(step.time.kernel_us);
  if (step.time.transfer_us > 0) out << " transfer " << us(step.time.transfer_us);
  out << '\n';
}

void print_decision(std::ostream& out, const Decision& d) {
  out << d.what;
  for (size_t i = 0; i < d.nodes.size(); ++i) out << (i ? ", " : " ") << d.nodes[i];
  out << ": " << d.why;
  if (d.before_us > 0 || d.after_us > 0) {
    out << " (" << us(d.before_us) << " -> " << (d.after_us > 0 ? us(d.after_us) : "none") << " us)";
  }
  if (d.loc && !d.loc->file.empty()) out << " at " << d.loc->file << ':' << d.loc->line;
  out << '\n';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Partition& partition) {
  const Time total = partition.time();
  out << "steps: " << partition.steps.size() << ", kernels: " << partition.kernels.size() << ", launch "
      << us(total.launch_us) << ", kernel " << us(total.kernel_us) << ", transfer " << us(total.transfer_us)
      << ", total " << us(total.total_us()) << " us\n";
  for (const PartitionStep& step : partition.steps) {
    out << "  ";
    print_step(out, step, partition);
  }
  if (!partition.in_place.empty()) out << "in place:\n";
  for (const InPlace& in_place : partition.in_place) {
    out << "  %" << in_place.value->name << " into %" << in_place.parameter->name << '\n';
  }
  out << "decisions:\n";
  for (const Decision& decision : partition.decisions) {
    out << "  ";
    print_decision(out, decision);
  }
  return out;
}

std::string print(const Partition& partition) {
  std::ostringstream out;
  out << partition;
  return out.str();
}

}  // namespace tilewright
