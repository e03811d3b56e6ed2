#include "support/options.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "support/error.h"

namespace tilewright {

namespace {

const char* type_name(const std::string&) { return "string"; }
const char* type_name(bool) { return "bool"; }
[[maybe_unused]] const char* type_name(int64_t) { return "int"; }

std::string text_of(const std::string& value) { return value; }
std::string text_of(bool value) { return value ? "true" : "false"; }
[[maybe_unused]] std::string text_of(int64_t value) { return std::to_string(value); }

bool read_value(std::string_view text, std::string& value) {
  value = text;
  return true;
}

bool read_value(std::string_view text, bool& value) {
  value = text == "1" || text == "true" || text == "True";
  return value || text.empty() || text == "0" || text == "false" || text == "False";
}

[[maybe_unused]] bool read_value(std::string_view text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

const std::vector<OptionInfo>& option_table() {
  static const std::vector<OptionInfo> kTable = [] {
    const Options defaults;
    return std::vector<OptionInfo>{
#define TW_OPTION(type, name, default_value, env, key, doc) \
  {#name, type_name(defaults.name), text_of(defaults.name), env, key, doc},
#include "support/options.def"
#undef TW_OPTION
    };
  }();
  return kTable;
}

void set_option(Options& options, std::string_view name, std::string_view value) {
  const auto refuse = [&](const char* type) {
    throw UserError("option " + std::string(name) + " is a " + type + ", found '" + std::string(value) + "'");
  };
#define TW_OPTION(type, field, default_value, env, key, doc)                 \
  if (name == #field) {                                                      \
    if (!read_value(value, options.field)) refuse(type_name(options.field)); \
    return;                                                                  \
  }
#include "support/options.def"
#undef TW_OPTION
  std::vector<std::string> names;
  for (const OptionInfo& row : option_table()) names.emplace_back(row.name);
  const std::string nearest = nearest_name(name, names);
  throw UserError("no option '" + std::string(name) + "'" +
                  (nearest.empty() ? "" : ", did you mean '" + nearest + "'?"));
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates) {
  const auto shared_start = [&](const std::string& candidate) {
    const size_t most = std::min(word.size(), candidate.size());
    return std::mismatch(word.begin(), word.begin() + most, candidate.begin()).first - word.begin();
  };
  std::string best;
  int best_distance = static_cast<int>(word.size()) / 2 + 2;
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    const bool better = distance < best_distance ||
                        (distance == best_distance && !best.empty() && shared_start(candidate) > shared_start(best));
    if (!better) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string product_choice(const Options& options) {
  return options.kernels == "auto" ? options.matmul : options.kernels;
}

}  // namespace tilewright
