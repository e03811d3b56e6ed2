#include <algorithm>
#include <cstring>

#include "simulator/atomic_functions.h"
#include "simulator/machine.h"

namespace tilewright::sim {
namespace {

template <typename T, auto F>
void combine(std::byte* to, const std::byte* from, bool global) {
  T value, old;
  std::memcpy(&value, from, sizeof value);
  if (global) {
    atomics::update_global<T, F>(reinterpret_cast<T*>(to), value, T{});
    return;
  }
  std::memcpy(&old, to, sizeof old);
  const T result = F(old, value, T{}, /*global=*/false);
  std::memcpy(to, &result, sizeof result);
}

using Row = std::pair<std::string, CombineElement>;

const std::vector<Row>& table() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all;
    atomics::each_reduction(
        [&]<typename T, auto F>(const std::string& name) { all.emplace_back(name, &combine<T, F>); });
    return all;
  }();
  return rows;
}

}  // namespace

uint32_t find_combine(std::string_view name) {
  const auto it = std::find_if(table().begin(), table().end(), [&](const Row& r) { return r.first == name; });
  return it == table().end() ? 0 : static_cast<uint32_t>(it - table().begin()) + 1;
}

CombineElement combine_at(uint32_t number) { return table()[number - 1].second; }

}  // namespace tilewright::sim
