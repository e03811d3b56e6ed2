#pragma once

#include <string>

namespace tilewright {

// What a compile depends on, read once at the edge (Python's options dict and the environment). options.def is the one
// table: name, type, default, environment variable, whether it is part of the kernel key.
struct Options {
#define TW_OPTION(type, name, default_value, env, key, doc) type name = default_value;
#include "support/options.def"
#undef TW_OPTION
};

}  // namespace tilewright
