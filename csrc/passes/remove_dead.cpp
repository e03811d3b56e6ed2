#include "passes/passes.h"

namespace tilewright {

void remove_dead(Graph& g, const Context&) { g.erase_dead(); }

}  // namespace tilewright
