#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <unordered_map>
#include <vector>

#include "simulator/machine.h"

namespace tilewright::sim {

// The asynchronous copies of a cluster that have been issued and have not moved their bytes yet. Hardware may move them
// at any moment until they are waited for; Completion says when they move here.
class AsyncCopies {
 public:
  using Group = Watch::Group;
  AsyncCopies(Completion when, uint64_t seed) : when_(when), random_(seed) {}
  void restart(uint64_t seed) {
    random_.seed(seed);
    pending_.clear();
    groups_.clear();
  }

  // `run` moves the bytes and tells `mbarrier`, when there is one.
  void issue(const Warp& w, int lane, Group group, const std::byte* mbarrier, std::function<void()> run);
  // What waits for all earlier copies of the lane's cp.async group, and then tells `mbarrier`.
  void issue_after_copies(const Warp& w, int lane, const std::byte* mbarrier, std::function<void()> run);
  void commit(const Warp& w, Group group, uint32_t lanes);
  void wait(const Warp& w, Group group, uint32_t lanes, uint32_t pending_groups);
  void wait_all(const Warp& w, Group group, uint32_t lanes);
  // Whether there was something left that `mbarrier` counts: it has now happened.
  bool finish_for(const std::byte* mbarrier);
  void finish_some();  // when completion is random
  void finish_all(const Block& block);

 private:
  struct Copy {
    const Warp* warp;
    int lane;
    Group group;
    bool after_copies;
    uint32_t number;  // of the lane's group
    const std::byte* mbarrier;
    std::function<void()> run;
  };
  using Groups = std::array<std::array<uint32_t, kLanes>, 2>;  // committed ones of each lane
  template <typename Which>
  bool finish_if(Which which);

  Completion when_;
  std::mt19937_64 random_;
  std::vector<Copy> pending_;
  std::unordered_map<const Warp*, Groups> groups_;
};

}  // namespace tilewright::sim
