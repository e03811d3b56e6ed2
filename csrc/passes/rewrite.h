#pragma once

#include <optional>
#include <set>
#include <vector>

#include "ir/graph.h"

namespace tilewright {

// What rewrites share: keeping names, strides and origins where one node takes over from another.

// Sorted union.
std::vector<int> join_origins(const std::vector<int>& a, const std::vector<int>& b);

// The only result of `with`, a new node, becomes the only result of `node` and takes its name, strides and offset; the
// new node's origins are joined by those of `node`, which is erased.
void take_over(Graph& g, Node* node, Node* with);

// Uses of the only result of `node` become uses of `with`, an older value; `node` is erased. The users compute what
// `node` did, so its origins are theirs too.
void forward(Graph& g, Node* node, Value* with);

// Values that leave the graph, and what they are views of: two of them must not become one tensor. For asking only:
// its order is that of addresses.
std::set<const Value*> escaping_values(const Graph& g);

// As `forward`, where the result is a tensor of its own and not a view: if it leaves the graph, a copy of `with` takes
// over, so that eager's two tensors stay two.
void forward_new(Graph& g, Node* node, Value* with, std::set<const Value*>& escaping);

// The value of a constant node (a number, 0 or 1 for a bool); nothing for other nodes and sizes.
std::optional<double> constant_value(const Value* v);

}  // namespace tilewright
