#pragma once

#include <string>
#include <vector>

#include "fusion/evaluator.h"

namespace tilewright {

// Merges clusters of native units into kernels.
//
// Greedy, by the bytes that a merge keeps out of memory: first producers with consumers, then neighbours that read the
// same large value. A merge is made where no way between the two leads through a third, a family takes the whole, and T
// falls (`must_gain`) or may do what it likes. Last, cheap pointwise values that other kernels read from memory are
// recomputed there where that makes T fall.
class Fuser {
 public:
  Fuser(const SourceIndex& index, const Units& units, Clusters& clusters, Evaluator& evaluator, bool must_gain)
      : index_(index), units_(units), clusters_(clusters), evaluator_(evaluator), must_gain_(must_gain) {}

  void fuse();

  // A value that was recomputed rather than read, and T of the kernels concerned before and after.
  struct Recomputed {
    const Value* value;
    double before_us, after_us;
  };
  const std::vector<Recomputed>& recomputed() const { return recomputed_; }

  bool is_native(int cluster) const;
  const Evaluation& evaluate(int cluster) const;
  KernelNodes nodes_of(int cluster) const;

  // Why the two stay apart, with T of both and of the whole (0 where there is none).
  struct Apart {
    std::string why;
    double apart_us = 0, together_us = 0;
  };
  Apart why_apart(int a, int b) const;

 private:
  void fuse_neighbours(bool siblings);
  bool try_merge(int a, int b, bool must_gain);
  double apart_us(int a, int b) const;
  const Evaluation& evaluate_together(int a, int b) const;
  double bytes_between(int from, int to) const;
  void recompute_cheap();
  bool try_recompute(const Value* value, int unit);
  bool may_save_bytes(const Value* value, const std::vector<int>& cone, const std::set<int>& targets) const;
  std::vector<int> useless_units(const Clusters& tried, int home, const std::vector<int>& cone) const;
  bool cheap_cone(const Value* value, int cluster, std::vector<int>& cone) const;

  const SourceIndex& index_;
  const Units& units_;
  Clusters& clusters_;
  Evaluator& evaluator_;
  bool must_gain_;
  std::vector<int> version_;
  std::vector<Recomputed> recomputed_;
};

}  // namespace tilewright
