#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tilewright {

// Graphs from a seed, for tests that compare two ways of running a graph. The same seed gives the same graph
// everywhere.
struct RandomGraphOptions {
  int nodes = 12;  // about; some steps need helpers
  int parameters = 3;
  bool views = true;
  bool reductions = true;
  bool products = false;        // of matrices
  bool symbols = true;          // some sizes are symbols
  bool odd_strides = true;      // parameters that are permuted, broadcast or have gaps
  bool writes = true;           // an output may go `-> into` a parameter
  int64_t max_elements = 4096;  // of a value, at the sizes
  std::vector<DType> dtypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
                               DType::kI32, DType::kI16, DType::kI8,  DType::kU8,   DType::kBool};
};

struct RandomGraph {
  Graph graph;
  std::map<std::string, int64_t> sizes;  // values of the symbols: their hints
  // How far output i of two correct implementations may be apart: 0 where every operator before it is exact. Operators
  // that jump (comparisons, rounding, casts to integers) take exact operands only, so that a small difference stays
  // small.
  std::vector<double> output_errors;
};

// Inputs are those of random_inputs: floats of magnitude 3, integers of magnitude 16. Outputs and parameters carry
// strides.
RandomGraph random_graph(uint64_t seed, const RandomGraphOptions& options = {});

}  // namespace tilewright
