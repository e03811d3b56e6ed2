#pragma once

#include <set>
#include <vector>

#include "fusion/units.h"

namespace tilewright {

// Units gathered into clusters: one cluster becomes one kernel or call. The clusters always have an order in which they
// can run; merging two of them keeps one.
//
// The order is kept as positions and mended locally (Pearce and Kelly, "A dynamic topological sort algorithm for
// directed acyclic graphs", 2006): whether a merge would close a cycle is a search between the two positions only.
class Clusters {
 public:
  explicit Clusters(const Units& units);

  int of(int unit) const { return homes_[unit].front(); }
  bool is_alive(int cluster) const { return !members_[cluster].empty(); }
  // Units of the cluster in their order, recomputed ones included.
  const std::vector<int>& members(int cluster) const { return members_[cluster]; }
  bool has(int cluster, int unit) const;
  const std::set<int>& before(int cluster) const { return before_[cluster]; }
  const std::set<int>& after(int cluster) const { return after_[cluster]; }
  int position(int cluster) const { return position_[cluster]; }
  std::vector<int> in_order() const;

  // No way leads from one to the other through a third.
  bool can_merge(int a, int b) const;
  // A cluster on a way from one to the other through others; -1 if none.
  int between(int a, int b) const;
  // `a` becomes both; `b` is no more. Needs can_merge.
  void merge(int a, int b);

  // Clusters that compute the unit: first the one that hands its results on, then those that recompute it.
  const std::vector<int>& homes(int unit) const { return homes_[unit]; }
  // `cluster` computes these units itself as well. What they read comes before the clusters they are of, hence before
  // it.
  void recompute(const std::vector<int>& units, int cluster);
  // The cluster no longer computes these units; other clusters that do keep them.
  void drop(const std::vector<int>& units, int cluster);
  // An order between clusters that share no value: `first` before `second`. False where it would close a cycle.
  bool put_before(int first, int second);

 private:
  // What `from` reaches among the positions up to `last`, without going through `except`.
  std::vector<int> reached(int from, int last, int except) const;
  void relink(int cluster);
  // Positions low to high get the clusters there that are not late, then `middle` (if any), then the late ones.
  void mend(int low, int high, const std::set<int>& late, int middle, int gone);

  const Units* units_;
  std::vector<int> position_, order_;
  std::vector<std::vector<int>> members_, homes_;
  std::vector<std::set<int>> before_, after_;
};

}  // namespace tilewright
