#pragma once

#include <algorithm>
#include <set>
#include <string>

#include "schedule/schedule.h"

namespace tilewright {

// A stand-in for the kernel families, so that tests of decisions do not change with the schedules: one kernel reads
// each input and writes each output once. Reductions must all run along the same dimensions; a value that a body reads
// in two orders of its dimensions is fetched without coalescing. Products run in tiles of 64 x 64, one of them or two
// of the same left operand, without reductions.
inline double fake_bytes(const Type& type, const SymbolTable& symbols) {
  double count = static_cast<double>(bytes(type.dtype));
  for (const Expr& size : type.shape) count *= static_cast<double>(symbols.hint(size));
  return type.is_tensor() ? count : 0;
}

inline Proposal fake_propose(const Graph& body, const Context&) {
  Proposal proposal;
  const SymbolTable& symbols = body.symbols();
  Footprint f;
  std::set<std::string> reduced;
  double elements = 1;
  bool permutes = false;
  std::set<const Value*> lefts;
  int products = 0;
  for (const Node* node : body.nodes()) {
    if (node->category() == Category::kContraction) {
      ++products;
      lefts.insert(node->operand(0));
      const std::vector<Expr>& shape = node->result()->type.shape;
      const auto size = [&](size_t from_last) { return symbols.hint(shape[shape.size() - from_last]); };
      const int64_t depth = symbols.hint(node->operand(0)->type.shape.back());
      f.tensor_flops += 2.0 * static_cast<double>(size(2) * size(1) * depth);
      f.blocks = ((size(2) + 63) / 64) * ((size(1) + 63) / 64);
    }
    if (node->category() == Category::kReduction) {
      std::string dims = std::to_string(node->operand(0)->type.rank()) + ":";
      for (int64_t dim : node->attr_ints("dims")) dims += std::to_string(dim) + ",";
      reduced.insert(dims);
    }
    permutes |= node->op == Op::kPermute;
    for (const auto& result : node->results) {
      const double count = fake_bytes(result->type, symbols) / static_cast<double>(bytes(result->type.dtype));
      elements = std::max(elements, count);
      if (node->info().cost != CostClass::kFree) f.alu += count;
    }
  }
  if (reduced.size() > 1) {
    proposal.why_none.push_back("its reductions run along different dimensions");
    return proposal;
  }
  if (products > 0 && (!reduced.empty() || products > 2 || lefts.size() > 1)) {
    proposal.why_none.push_back("a product beside reductions or other products");
    return proposal;
  }
  for (const Value* parameter : body.parameters()) {
    const double size = fake_bytes(parameter->type, symbols);
    if (size > 0) elements = std::max(elements, size / static_cast<double>(bytes(parameter->type.dtype)));
  }
  const auto access = [&](const Value* value, bool is_store) {
    const double all = fake_bytes(value->type, symbols);
    const double efficiency = permutes && products == 0 && value->type.rank() > 1 ? 0.125 : 1;
    f.accesses.push_back({value->name, is_store, all, all, efficiency});
  };
  for (const Value* parameter : body.parameters()) {
    if (parameter->type.device != "host" && !parameter->users.empty()) access(parameter, false);
  }
  for (const Output& output : body.outputs()) access(output.tensor(), true);
  f.threads_per_block = 256;
  if (products == 0) f.blocks = static_cast<int64_t>(elements / 2048) + 1;
  f.registers_per_thread = 32;
  f.bytes_in_flight_per_thread = products > 0 ? 128 : 32;
  const std::string family = products > 0 ? "matmul" : reduced.empty() ? "pointwise" : "reduction";
  proposal.candidates.push_back({{family, {{"threads", 256}}}, {}, f});
  return proposal;
}

}  // namespace tilewright
