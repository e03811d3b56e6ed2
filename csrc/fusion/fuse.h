#pragma once

#include <string>
#include <vector>

#include "fusion/evaluator.h"

namespace tilewright {

// Merges clusters of native units into kernels.
//
// First what came from one product of matrices (the sum, the bias that PyTorch adds, the rounding) becomes one, as only
// the whole can be PyTorch's call. Then greedy, by the bytes that a merge keeps out of memory: first producers with
// consumers, then neighbours that read the same large value. A merge is made where no way between the two leads through
// a third, a family takes the whole, and T falls (`must_gain`) or may do what it likes. Last, cheap pointwise values
// that other kernels read from memory are recomputed there where that makes T fall.
class Fuser {
 public:
  Fuser(const SourceIndex& index, const Units& units, Clusters& clusters, Evaluator& evaluator, const Context& ctx)
      : index_(index), units_(units), clusters_(clusters), evaluator_(evaluator), ctx_(ctx) {}

  void fuse();

  // A value that was recomputed rather than read, and T of the kernels concerned before and after.
  struct Recomputed {
    const Value* value;
    double before_us, after_us;
  };
  const std::vector<Recomputed>& recomputed() const { return recomputed_; }

  bool is_native(int cluster) const;
  // PyTorch's calls of the products of matrices that the cluster computes; sorted.
  std::vector<int> products_of(int cluster) const { return products_in(clusters_.members(cluster)); }
  // T of those calls, and of the rest of the cluster as kernels between them: what one kernel with all of it replaces.
  Time beside_calls(int cluster) const { return beside_calls(clusters_.members(cluster)); }
  const Evaluation& evaluate(int cluster) const;
  KernelNodes nodes_of(int cluster) const;

  // Why the two stay apart, with T of both and of the whole (0 where there is none).
  struct Apart {
    std::string why;
    double apart_us = 0, together_us = 0;
  };
  Apart why_apart(int a, int b) const;

 private:
  void gather_products();
  void fuse_neighbours(bool siblings);
  bool try_merge(int a, int b, bool must_gain);
  std::vector<int> products_in(const std::vector<int>& members) const;
  Time beside_calls(const std::vector<int>& members) const;
  // T of the cluster as a kernel, or of PyTorch's products and the rest as kernels where these are faster and allowed.
  struct Price {
    Time time;
    bool is_calls = false;
  };
  Price price(int cluster) const;
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
  const Context& ctx_;
  std::vector<int> version_;
  std::vector<Recomputed> recomputed_;
};

// Whether a kernel with a product of matrices in it beats calls of PyTorch: by T, and by the GPU's time alone, since T
// counts the host's launches, which large kernels hide.
bool beats_calls(const Time& kernel, const Time& calls);

// "12.3 us", as reasons say it.
std::string microseconds(double us);

}  // namespace tilewright
