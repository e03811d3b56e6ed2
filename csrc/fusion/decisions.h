#pragma once

#include <string>
#include <vector>

#include "fusion/fuse.h"
#include "fusion/give_back.h"
#include "fusion/in_place.h"

namespace tilewright {

// The records of a partition, as `explain` shows them.

// One for each kernel made of several operators, with T of the calls that it replaces.
std::vector<Decision> fuse_decisions(const SourceIndex& index, const Units& units, const Clusters& clusters,
                                     const Fuser& fuser, const Context& ctx);
// One for each kernel with products of matrices, with T of the calls and of the neighbours' own kernels beside them.
std::vector<Decision> product_decisions(const SourceIndex& index, const Clusters& clusters, const Fuser& fuser);
// One for each two kernels of which one reads what the other writes.
std::vector<Decision> refuse_decisions(const Units& units, const Clusters& clusters, const Fuser& fuser);
std::vector<Decision> recompute_decisions(const Fuser& fuser);
std::vector<Decision> give_back_decisions(const SourceIndex& index, const std::vector<GivenBack>& given_back);
// One for each call that stays PyTorch's or is only a view. `why` may be empty: then by what kind of operator it is.
Decision call_decision(const Node& call, const Time& time, const std::string& why);
Decision in_place_decision(const InPlaceWrite& write);
Decision copy_decision(const InPlaceRefusal& refusal, double copy_us);

// "add_native_layer_norm": the user's operators, those of views only where there are no others.
std::string display_name(const std::vector<int>& origins, const SourceIndex& index);

}  // namespace tilewright
