#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

// Vector clocks (Flanagan and Freund, "FastTrack"), with which the checks decide what happened before what.
//
// An agent is a warp of a cluster, or an asynchronous unit that works on its own, such as the copies of a warp or the
// bulk copies that one mbarrier counts. Each has a time that only grows. A clock holds a time of each agent: whoever
// has clock c knows all that agent a did up to c.at(a).
namespace tilewright::sim {

class Clock {
 public:
  uint32_t at(size_t agent) const { return agent < times_.size() ? times_[agent] : 0; }
  void raise(size_t agent, uint32_t time) {
    if (agent >= times_.size()) times_.resize(agent + 1, 0);
    times_[agent] = std::max(times_[agent], time);
  }
  void join(const Clock& other) {
    if (other.times_.size() > times_.size()) times_.resize(other.times_.size(), 0);
    for (size_t i = 0; i < other.times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
  }
  bool covers(const Clock& other) const {
    for (size_t i = 0; i < other.times_.size(); ++i)
      if (other.times_[i] > at(i)) return false;
    return true;
  }
  bool empty() const { return times_.empty(); }
  void clear() { times_.clear(); }

 private:
  std::vector<uint32_t> times_;
};

class Location;

// What other clusters have published at locations of global memory: of each location, how many of its releases.
class Seen {
 public:
  void raise(const Location* location, uint32_t releases) {
    for (auto& [at, n] : entries_) {
      if (at != location) continue;
      n = std::max(n, releases);
      return;
    }
    entries_.emplace_back(location, releases);
  }
  void join(const Seen& other) {
    for (const auto& [at, n] : other.entries_) raise(at, n);
  }
  const std::vector<std::pair<const Location*, uint32_t>>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }
  void clear() { entries_.clear(); }

 private:
  std::vector<std::pair<const Location*, uint32_t>> entries_;
};

// A clock of the own cluster, and what is known of others.
struct View {
  Clock clock;
  Seen seen;
  void join(const View& other) {
    clock.join(other.clock);
    seen.join(other.seen);
  }
  bool empty() const { return clock.empty() && seen.empty(); }
  void clear() {
    clock.clear();
    seen.clear();
  }
};

// A place through which threads synchronise: an atomic variable. Clusters leave there what they know, and take it over.
class Location {
 public:
  // Within a cluster; scope .cta is enough for it.
  Clock& local(uint32_t cluster) { return local_[cluster]; }
  const Clock* find_local(uint32_t cluster) const {
    const auto it = local_.find(cluster);
    return it == local_.end() ? nullptr : &it->second;
  }

  // Between clusters.
  void release(uint32_t cluster, const View& view) {
    std::vector<uint32_t>& own = by_cluster_[cluster];
    if (!own.empty() && releases_[own.back()].covers(view.clock) && view.seen.empty()) return;
    Clock clock = view.clock;
    if (!own.empty()) clock.join(releases_[own.back()]);
    own.push_back(static_cast<uint32_t>(releases_.size()));
    releases_.push_back(std::move(clock));
    carried_.join(view.seen);
  }
  void acquire(Seen& into) const {
    into.join(carried_);
    if (!releases_.empty()) into.raise(this, static_cast<uint32_t>(releases_.size()));
  }
  // Whether the first `releases` tell that agent `agent` of `cluster` had come to `time`.
  bool tells(uint32_t releases, uint32_t cluster, uint32_t agent, uint32_t time) const {
    const auto it = by_cluster_.find(cluster);
    if (it == by_cluster_.end()) return false;
    const auto end = std::lower_bound(it->second.begin(), it->second.end(), releases);
    return end != it->second.begin() && releases_[*(end - 1)].at(agent) >= time;
  }

 private:
  std::unordered_map<uint32_t, Clock> local_;
  std::vector<Clock> releases_;  // each holds what the same cluster released before, too
  std::unordered_map<uint32_t, std::vector<uint32_t>> by_cluster_;
  Seen carried_;
};

}  // namespace tilewright::sim
