#pragma once

#include <string>
#include <vector>

#include "fusion/partition.h"
#include "target/gpu.h"

namespace tilewright {

// The records behind `explain`: what became kernels, what stayed PyTorch's, what was decided, each with its predicted
// time. All times are microseconds, taken at the symbols' hints.

// An operator of the user's program.
struct ReportOperator {
  std::string op;    // "aten.gelu.default"
  std::string file;  // "": unknown
  int line = 0;
  std::string code;
};

struct ReportKernel {
  std::string name;  // as the profiler shows it
  std::vector<ReportOperator> origins;
  std::string family;
  std::string schedule;  // of the variant that runs at the hints
  int variants = 1;
  Time predicted;
  KernelTime parts;
  double eager_us = 0;  // predicted T of the operators that it replaces; of those that several kernels share, its part
  double read_bytes = 0, written_bytes = 0;
  int registers = 0;       // a thread; an estimate until the kernel is assembled
  int64_t smem_bytes = 0;  // a block
  int64_t blocks = 0;
  int threads = 0;
  std::vector<std::string> inputs, outputs;  // names in the graph
};

struct ReportCall {
  ReportOperator op;
  std::string why;  // why it stayed PyTorch's
  bool is_view = false;
  Time predicted;
};

struct Report {
  std::string graph, gpu, kernels_option;
  Time predicted;
  double eager_us = 0;                // predicted T of the captured graph run by PyTorch
  std::vector<ReportKernel> kernels;  // in the order in which they run
  std::vector<ReportCall> calls;
  std::vector<Decision> decisions;
};

Report make_report(const Partition& partition, const Graph& source, const Context& ctx);
std::string to_json(const Report& report);

}  // namespace tilewright
