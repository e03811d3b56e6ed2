#include "fusion/clusters.h"

#include <algorithm>
#include <queue>

namespace tilewright {

Clusters::Clusters(const Units& units) : units_(&units) {
  const int n = units.size();
  homes_.resize(n);
  members_.resize(n);
  before_.resize(n);
  after_.resize(n);
  position_.assign(n, -1);
  std::vector<size_t> waits_for(n);
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int unit = 0; unit < n; ++unit) {
    homes_[unit] = {unit};
    members_[unit] = {unit};
    before_[unit].insert(units[unit].before.begin(), units[unit].before.end());
    after_[unit].insert(units[unit].after.begin(), units[unit].after.end());
    waits_for[unit] = units[unit].before.size();
    if (waits_for[unit] == 0) ready.push(unit);
  }
  while (!ready.empty()) {
    const int unit = ready.top();
    ready.pop();
    position_[unit] = static_cast<int>(order_.size());
    order_.push_back(unit);
    for (int next : after_[unit]) {
      if (--waits_for[next] == 0) ready.push(next);
    }
  }
  TW_CHECK(static_cast<int>(order_.size()) == n) << "steps of the partition wait for each other: " << n - order_.size();
}

bool Clusters::has(int cluster, int unit) const {
  return std::binary_search(members_[cluster].begin(), members_[cluster].end(), unit);
}

std::vector<int> Clusters::in_order() const {
  std::vector<int> out;
  for (int cluster : order_) {
    if (cluster >= 0) out.push_back(cluster);
  }
  return out;
}

std::vector<int> Clusters::reached(int from, int last, int except) const {
  std::vector<int> found;
  std::set<int> seen;
  std::vector<int> work = {from};
  while (!work.empty()) {
    const int cluster = work.back();
    work.pop_back();
    for (int next : after_[cluster]) {
      if (next == except || position_[next] > last || !seen.insert(next).second) continue;
      found.push_back(next);
      work.push_back(next);
    }
  }
  return found;
}

int Clusters::between(int a, int b) const {
  if (position_[a] > position_[b]) std::swap(a, b);
  for (int cluster : reached(a, position_[b], b)) {
    if (after_[cluster].count(b)) return cluster;
  }
  return -1;
}

bool Clusters::can_merge(int a, int b) const { return between(a, b) < 0; }

void Clusters::mend(int low, int high, const std::set<int>& late, int middle, int gone) {
  std::vector<int> early, moved;
  for (int at = low; at <= high; ++at) {
    const int cluster = order_[at];
    if (cluster < 0 || cluster == middle || cluster == gone) continue;
    (late.count(cluster) ? moved : early).push_back(cluster);
  }
  if (middle >= 0) early.push_back(middle);
  early.insert(early.end(), moved.begin(), moved.end());
  early.resize(high - low + 1, -1);
  for (int at = low; at <= high; ++at) {
    order_[at] = early[at - low];
    if (order_[at] >= 0) position_[order_[at]] = at;
  }
}

void Clusters::merge(int a, int b) {
  const int low = std::min(position_[a], position_[b]);
  const int high = std::max(position_[a], position_[b]);
  const int first = position_[a] == low ? a : b;
  const std::vector<int> late = reached(first, high, first == a ? b : a);
  mend(low, high, {late.begin(), late.end()}, /*middle=*/a, /*gone=*/b);

  std::vector<int> both;
  std::set_union(members_[a].begin(), members_[a].end(), members_[b].begin(), members_[b].end(),
                 std::back_inserter(both));
  for (int unit : members_[b]) {
    std::vector<int>& homes = homes_[unit];
    if (has(a, unit)) {
      // Owned by one and recomputed by the other: now owned.
      if (homes.front() == b) homes.front() = a;
      homes.erase(std::remove(homes.begin() + 1, homes.end(), a), homes.end());
      homes.erase(std::remove(homes.begin() + 1, homes.end(), b), homes.end());
    } else {
      std::replace(homes.begin(), homes.end(), b, a);
    }
  }
  members_[a] = std::move(both);
  members_[b].clear();
  for (int other : before_[b]) {
    after_[other].erase(b);
    if (other != a) after_[other].insert(a), before_[a].insert(other);
  }
  for (int other : after_[b]) {
    before_[other].erase(b);
    if (other != a) before_[other].insert(a), after_[a].insert(other);
  }
  before_[a].erase(b);
  after_[a].erase(b);
  before_[b].clear();
  after_[b].clear();
}

void Clusters::relink(int cluster) {
  for (int other : before_[cluster]) after_[other].erase(cluster);
  before_[cluster].clear();
  for (int unit : members_[cluster]) {
    for (int from : (*units_)[unit].before) {
      if (has(cluster, from)) continue;
      before_[cluster].insert(of(from));
      after_[of(from)].insert(cluster);
    }
  }
}

void Clusters::recompute(const std::vector<int>& units, int cluster) {
  std::vector<int>& members = members_[cluster];
  for (int unit : units) {
    if (has(cluster, unit)) continue;
    members.insert(std::lower_bound(members.begin(), members.end(), unit), unit);
    homes_[unit].push_back(cluster);
  }
  relink(cluster);
}

void Clusters::drop(const std::vector<int>& units, int cluster) {
  std::vector<int>& members = members_[cluster];
  for (int unit : units) {
    members.erase(std::lower_bound(members.begin(), members.end(), unit));
    std::erase(homes_[unit], cluster);
    TW_CHECK(!homes_[unit].empty()) << "nothing computes unit " << unit;
  }
  relink(cluster);
  if (members.empty()) order_[position_[cluster]] = -1;
}

bool Clusters::put_before(int first, int second) {
  if (first == second) return false;
  if (before_[second].count(first)) return true;
  if (position_[first] > position_[second]) {
    const std::vector<int> found = reached(second, position_[first], /*except=*/-1);
    std::set<int> late(found.begin(), found.end());
    if (late.count(first)) return false;
    late.insert(second);
    mend(position_[second], position_[first], late, /*middle=*/-1, /*gone=*/-1);
  }
  before_[second].insert(first);
  after_[first].insert(second);
  return true;
}

}  // namespace tilewright
