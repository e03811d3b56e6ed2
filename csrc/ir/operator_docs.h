#pragma once

#include <string>

namespace tilewright {

// docs/operators.md, from ops.def.
std::string operators_markdown();

}  // namespace tilewright
