#pragma once

#include <string>
#include <vector>

#include "fusion/fuse.h"

namespace tilewright {

// Calls of source whose kernels are not worth it, together: their kernels share operators, so they go back as one.
struct GivenBack {
  std::vector<int> origins;
  std::string why;
  double kernels_us = 0;  // T of the kernels made from them (0 where no family takes them)
  double eager_us = 0;    // T of PyTorch's own
};

// `already` are given back before: what is left of them in kernels replaces nothing.
// Kernels that no family takes, and, with `must_gain`, kernels that are slower than the calls they came from.
std::vector<GivenBack> find_given_back(const SourceIndex& index, const Units& units, const Clusters& clusters,
                                       const Fuser& fuser, const Context& ctx, const std::vector<char>& already,
                                       bool must_gain);

// Calls of source that a kernel replaces, views apart; sorted.
std::vector<int> origins_of(int cluster, const Units& units, const Clusters& clusters, const SourceIndex& index);

}  // namespace tilewright
