#pragma once

#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "run.h"

// Calls of kernels kept as PTX beside the tests, as C++ calls: vectors are memory, all else is passed by value.
namespace tilewright::sim {

inline std::shared_ptr<const Module> parse_file(const std::string& path) {
  std::ifstream in(std::string(TILEWRIGHT_SOURCE_DIR) + "/test/core/simulator/" + path);
  EXPECT_TRUE(in.good()) << "no test data " << path;
  std::ostringstream text;
  text << in.rdbuf();
  return parse(text.str());
}

inline LaunchConfig config_of(std::array<uint32_t, 3> grid, std::array<uint32_t, 3> block, uint64_t smem_bytes = 0) {
  LaunchConfig c;
  c.grid = grid;
  c.block = block;
  c.dynamic_smem_bytes = smem_bytes;
  return c;
}

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

template <typename... Args>
LaunchResult call(const Module& module, const std::string& entry, LaunchConfig config, Args&&... args) {
  config.check_races = config.check_uninitialized = config.check_registers = true;
  std::vector<std::vector<std::byte>> values;
  std::vector<Allocation> memory;
  const auto add = [&](auto& a) {
    using T = std::remove_cvref_t<decltype(a)>;
    if constexpr (IsVector<T>::value) {
      values.push_back(pointer(a));
      memory.push_back({reinterpret_cast<uint64_t>(a.data()), a.size() * sizeof(typename T::value_type),
                        "argument " + std::to_string(values.size() - 1),
                        !std::is_const_v<std::remove_reference_t<decltype(a)>>});
    } else {
      values.push_back(arg(a));
    }
  };
  (add(args), ...);
  return launch(module, entry, config, values, memory);
}

// Reproducible inputs.
inline std::vector<float> normal_floats(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> v(n);
  for (float& x : v) x = normal(random);
  return v;
}
template <typename T>
std::vector<T> integers(size_t n, int64_t low, int64_t high, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> v(n);
  for (T& x : v) x = static_cast<T>(low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1)));
  return v;
}

}  // namespace tilewright::sim
