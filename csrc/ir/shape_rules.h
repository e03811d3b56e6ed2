#pragma once

#include <vector>

#include "ir/graph.h"

namespace tilewright {

// The result types of a native operator's node from its operands and attributes, which it also checks; throws UserError
// "add: operand 1 has f32, operand 0 has bf16". Used by Graph::add and by the verifier.
std::vector<Type> infer_types(const Node& node, const SymbolTable& symbols);

// Throws UserError where the attributes are not the table's, in its order and of its kinds.
void check_attrs(const Node& node);

}  // namespace tilewright
