#include "cost/call_time.h"

#include <algorithm>
#include <cmath>

#include "cost/call_facts.h"
#include "cost/kernel_time.h"
#include "cost/product_time.h"

namespace tilewright {
namespace {

constexpr double kUs = 1e6;
// A step that only Python can run: the GIL, argument boxing, and PyTorch's eager interpreter of an FX subgraph.
constexpr double kHostStepUs = 40;
// A metadata-only operator costs no launch, but still a way through the dispatcher.
constexpr double kViewShareOfCall = 0.2;
// PyTorch's kernels between different memory orders, of the rate they reach otherwise: 496 us for a transposing relu
// of 16384 x 4096 in bf16, where two copies take 137.
constexpr double kTransposingEfficiency = 0.15;

// The part of the bandwidth that cuBLAS draws where a product is bound by it: one row times 4096 x 14336 in bf16 takes
// 31.7 us in a graph, where a copy of the bytes takes 27.5.
constexpr double kProductBandwidth = 0.87;

bool is_host(const Type& type) { return type.device == "host"; }

std::vector<const Type*> tensors(const std::vector<const Type*>& types) {
  std::vector<const Type*> out;
  for (const Type* type : types) {
    if (type->is_tensor()) out.push_back(type);
    for (const Type& element : type->elements) {
      if (element.is_tensor()) out.push_back(&element);
    }
  }
  return out;
}

struct Operands {
  std::vector<const Type*> in, out;
};

Operands operands_of(const Node& call) {
  std::vector<const Type*> in, out;
  for (const Value* value : call.operands) in.push_back(&value->type);
  for (const auto& result : call.results) out.push_back(&result->type);
  return {tensors(in), tensors(out)};
}

double elements(const Type& type, const SymbolTable& symbols) {
  double count = 1;
  for (const Expr& size : type.shape) count *= static_cast<double>(symbols.hint(size));
  return count;
}

double dim(const Type& type, int from_last, const SymbolTable& symbols) {
  const int at = type.rank() - from_last;
  return at < 0 ? 1 : static_cast<double>(symbols.hint(type.shape[at]));
}

// The dimension along which neighbours lie side by side in memory; -1 where there is none or it is not known.
int contiguous_dim(const Type& type, const SymbolTable& symbols) {
  const std::vector<Expr> strides = type.strides.value_or(type.contiguous_strides());
  for (int d = type.rank() - 1; d >= 0; --d) {
    if (symbols.hint(type.shape[d]) > 1 && symbols.hint(strides[d]) == 1) return d;
  }
  return -1;
}

bool changes_order(const Operands& o, const SymbolTable& symbols) {
  if (o.in.empty() || o.out.size() != 1 || o.in[0]->shape != o.out[0]->shape) return false;
  const int from = contiguous_dim(*o.in[0], symbols);
  const int to = contiguous_dim(*o.out[0], symbols);
  return from >= 0 && to >= 0 && from != to;
}

// The size of a product: its rows are the result's, folded into one unless the right operand has a batch too.
ProductSize product_size(std::string_view name, const Operands& o, const SymbolTable& symbols) {
  const bool adds = name.starts_with("add") || name.starts_with("badd");
  const size_t left = adds ? 1 : 0;
  if (o.out.empty() || o.in.size() <= left + 1) return {};
  const Type& result = *o.out[0];
  ProductSize size{.n = dim(result, 1, symbols), .k = dim(*o.in[left], 1, symbols)};
  if (o.in[left + 1]->rank() >= 3)
    size.batch = elements(*o.in[left], symbols) / (size.k * dim(*o.in[left], 2, symbols));
  const double columns = size.n * size.batch;
  size.m = columns > 0 ? elements(result, symbols) / columns : 0;
  return size;
}

double convolution_flops(bool backward, const Operands& o, const SymbolTable& symbols) {
  const size_t filter = backward ? 2 : 1;
  if (o.out.empty() || o.in.size() <= filter || o.in[filter]->rank() == 0) return 0;
  const double outputs = elements(backward ? *o.in[0] : *o.out[0], symbols);
  const double channels = static_cast<double>(symbols.hint(o.in[filter]->shape[0]));
  return 2 * outputs * elements(*o.in[filter], symbols) / std::max(channels, 1.0);
}

double attention_flops(bool backward, const Operands& o, const SymbolTable& symbols) {
  const size_t query = backward ? 1 : 0;
  if (o.in.size() <= query + 1) return 0;
  return 4 * elements(*o.in[query], symbols) * dim(*o.in[query + 1], 2, symbols);
}

double flops_of(const CallFacts& facts, std::string_view callee, const Operands& o, const SymbolTable& symbols) {
  const std::string name = base_name(callee);
  const bool backward = name.find("backward") != name.npos;
  switch (facts.kind) {
    case CallKind::kMatmul:
      return product_size(name, o, symbols).flops();
    case CallKind::kConvolution:
      return convolution_flops(backward, o, symbols);
    case CallKind::kAttention:
      return attention_flops(backward, o, symbols);
    default:
      return 0;
  }
}

double bytes_of(const CallFacts& facts, const Operands& o, const SymbolTable& symbols) {
  double read = 0, written = 0;
  for (size_t i = 0; i < o.in.size(); ++i) {
    const bool gathered_from = facts.kind == CallKind::kGather && i == 0;
    if (!gathered_from) read += distinct_bytes(*o.in[i], symbols);
  }
  for (const Type* type : o.out) written += distinct_bytes(*type, symbols);
  return read + written * (facts.kind == CallKind::kGather ? 2 : 1);
}

// PyTorch's memory-bound kernels: 128 threads, four vectors a thread.
Footprint eager_footprint(double bytes) {
  constexpr double kBytesPerBlock = 2 * 128 * 64;
  Footprint f;
  f.accesses.push_back({.value = "all", .bytes = bytes, .unique_bytes = bytes});
  f.blocks = static_cast<int64_t>(std::ceil(bytes / kBytesPerBlock));
  f.threads_per_block = 128;
  f.registers_per_thread = 32;
  f.bytes_in_flight_per_thread = 64;
  return f;
}

bool crosses_link(const Operands& o) {
  if (o.in.empty() || o.out.empty()) return false;
  return is_host(*o.in[0]) != is_host(*o.out[0]);
}

bool all_on_host(const Operands& o) {
  const auto on_host = [](const Type* type) { return is_host(*type); };
  return (!o.in.empty() || !o.out.empty()) && std::all_of(o.in.begin(), o.in.end(), on_host) &&
         std::all_of(o.out.begin(), o.out.end(), on_host);
}

}  // namespace

double distinct_bytes(const Type& type, const SymbolTable& symbols) {
  if (!type.is_tensor()) return 0;
  double count = 1;
  for (int d = 0; d < type.rank(); ++d) {
    const int64_t size = symbols.hint(type.shape[d]);
    const bool repeats = size > 1 && type.strides && symbols.hint((*type.strides)[d]) == 0;
    if (!repeats) count *= static_cast<double>(size);
  }
  return count * static_cast<double>(bytes(type.dtype));
}

CallTime price_call(const Node& call, const SymbolTable& symbols, const Context& ctx) {
  const GpuFacts& gpu = ctx.gpu;
  const CallFacts& facts = call_facts(call.callee);
  const Operands o = operands_of(call);
  CallTime result;
  result.time.launch_us = launch_us(Launcher::kCall, gpu);
  if (call.op == Op::kHost) {
    result.time.launch_us = kHostStepUs;
    result.bytes = bytes_of(facts, o, symbols);
    result.time.kernel_us = price_kernel(eager_footprint(result.bytes), gpu).total_us;
    result.basis = "host";
    return result;
  }
  if (facts.kind == CallKind::kView || all_on_host(o)) {
    result.time.launch_us *= facts.kind == CallKind::kView ? kViewShareOfCall : 1;
    result.basis = facts.kind == CallKind::kView ? "view" : "host";
    return result;
  }
  result.bytes = bytes_of(facts, o, symbols);
  if (facts.kind == CallKind::kHostRead || crosses_link(o)) {
    result.time.transfer_us = transfer_us(o.in.empty() ? 0 : distinct_bytes(*o.in[0], symbols), gpu);
    result.basis = "transfer";
    return result;
  }
  if (result.bytes == 0) {
    result.basis = "empty";
    return result;
  }
  const bool transposes = facts.kind == CallKind::kMemory && changes_order(o, symbols);
  const double efficiency = transposes ? kTransposingEfficiency : facts.efficiency;
  const KernelTime kernel = price_kernel(eager_footprint(result.bytes), gpu);
  const bool tf32 = ctx.options.float32_matmul == "tf32";
  const bool is_product = facts.kind == CallKind::kMatmul;
  const double draws = is_product ? kProductBandwidth : facts.kind == CallKind::kMemory ? efficiency : 1;
  const double memory_us = (kernel.total_us - kernel.fixed_us) / draws;
  result.flops = flops_of(facts, call.callee, o, symbols) * facts.passes;
  double flops_us = 0;
  if (is_product && !o.in.empty()) {
    flops_us = library_product_us(product_size(base_name(call.callee), o, symbols), o.in[0]->dtype, tf32, gpu);
  } else if (!o.in.empty()) {
    flops_us = result.flops / (matrix_rate(o.in[0]->dtype, tf32, gpu) * efficiency) * kUs;
  }
  result.basis = flops_us > memory_us ? "flops" : "memory";
  result.time.kernel_us = std::max(flops_us, memory_us * facts.passes) + facts.kernels * kernel.fixed_us;
  return result;
}

}  // namespace tilewright
