#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph.h"
#include "ir/host_tensor.h"

namespace tilewright {

// The meaning of Graph IR, executed: the oracle of tests where PyTorch is absent.
//
//   eager  each operator computes in its compute type (float32 for f16, bf16, f8, f32) with that type's functions, and
//   rounds
//          once to its result's type
//   exact  floats are float64 throughout and never rounded; integers as in eager
//
// Reductions of floats accumulate in float64 in both modes; eager rounds the result. A kernel adds in another order and
// in float32, so sums are compared with a tolerance. Products of matrices: exact accumulates in float64 and knows no
// tf32, eager in the compute type in the order of k.
enum class InterpMode : uint8_t { kEager, kExact };

// A value as the graph sees it: what a parameter takes, an argument of a call is, an output gives.
struct InterpValue {
  using Tensor = std::shared_ptr<const HostTensor>;
  using List = std::vector<InterpValue>;
  std::variant<Arg::None, Tensor, int64_t, double, bool, std::string, Arg::Tagged, Arg::Complex, List> data;

  static InterpValue tensor(HostTensor t) { return {std::make_shared<const HostTensor>(std::move(t))}; }
  const HostTensor& tensor() const;  // throws InternalError where it is none
};

// Runs a call or host step: its arguments by position and by name; one value for each result.
using InterpCall =
    std::function<std::vector<InterpValue>(const Node& node, const std::vector<InterpValue>& args,
                                           const std::vector<std::pair<std::string, InterpValue>>& kwargs)>;

struct InterpOptions {
  InterpMode mode = InterpMode::kEager;
  // Values of symbols that no size of a parameter and no `int` parameter gives.
  std::map<std::string, int64_t> symbols;
  InterpCall call;  // none: a call is an error
};

// The outputs of the graph, in order; what `-> into` writes is the output's value. Throws UserError where inputs do not
// fit the parameters or a call has nobody to run it.
std::vector<InterpValue> interpret(const Graph& graph, const std::vector<InterpValue>& inputs,
                                   const InterpOptions& options = {});

// The values that symbols take when the parameters have these inputs.
std::map<std::string, int64_t> bind_symbols(const Graph& graph, const std::vector<InterpValue>& inputs,
                                            std::map<std::string, int64_t> known = {});
// Random inputs at these values of the symbols; parameter i has the seed `seed + i`.
std::vector<InterpValue> random_inputs(const Graph& graph, const std::map<std::string, int64_t>& symbols,
                                       uint64_t seed);

}  // namespace tilewright
