#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

// What a compile depends on, read once at the edge (Python's options dict and the environment). options.def is the one
// table: name, type, default, environment variable, whether it is part of the kernel key.
struct Options {
#define TW_OPTION(type, name, default_value, env, key, doc) type name = default_value;
#include "support/options.def"
#undef TW_OPTION
};

// A row of options.def, as text.
struct OptionInfo {
  const char* name;
  const char* type;  // "string", "bool" or "int"
  std::string default_value;
  const char* env;
  bool is_key;
  const char* doc;
};
const std::vector<OptionInfo>& option_table();

// Sets an option from text; bools are "0" "1" "true" "false". Throws UserError for a name that is not in the table,
// with the nearest one, and for a value of another type.
void set_option(Options& options, std::string_view name, std::string_view value);

// The candidate with the fewest edits from `word`, of several the one that starts most like it; "" where all are far
// from it.
std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates);

// The option `matmul`, which kernels=generate and kernels=call overrule.
std::string product_choice(const Options& options);

}  // namespace tilewright
