#include <algorithm>
#include <cmath>

#include "ir/interp_ops.h"

namespace tilewright {
namespace {

// The elements that one result takes: their offsets from its first one, in row-major order of the reduced dimensions.
struct Slices {
  std::vector<size_t> starts;   // for each result
  std::vector<size_t> offsets;  // for each of its elements
};

std::vector<size_t> offsets_of(const Sizes& shape, const Sizes& strides, const std::vector<size_t>& dims) {
  std::vector<size_t> out = {0};
  for (const size_t d : dims) {
    std::vector<size_t> next;
    next.reserve(out.size() * static_cast<size_t>(shape[d]));
    for (const size_t base : out) {
      for (int64_t i = 0; i < shape[d]; ++i) next.push_back(base + static_cast<size_t>(i * strides[d]));
    }
    out = std::move(next);
  }
  return out;
}

Slices slices_of(const Node& node, const HostTensor& from) {
  std::vector<bool> is_reduced(from.shape.size(), false);
  for (const int64_t dim : node.attr_ints("dims")) is_reduced[static_cast<size_t>(dim)] = true;
  std::vector<size_t> kept, reduced;
  for (size_t d = 0; d < is_reduced.size(); ++d) (is_reduced[d] ? reduced : kept).push_back(d);
  const Sizes strides = dense_strides(from.shape);
  return {offsets_of(from.shape, strides, kept), offsets_of(from.shape, strides, reduced)};
}

class Reduction {
 public:
  Reduction(const Node& node, const HostTensor& from, const Sizes& shape, InterpMode mode)
      : node_(node), from_(from), mode_(mode), slices_(slices_of(node, from)), out_(node.type().dtype, shape) {
    const bool needs_element =
        node.op == Op::kMax || node.op == Op::kMin || node.op == Op::kArgmax || node.op == Op::kArgmin;
    if (needs_element && slices_.offsets.empty() && !slices_.starts.empty()) {
      throw UserError(std::string(node.info().text) + " of zero elements");
    }
  }

  std::vector<HostTensor> run() {
    if (node_.op == Op::kWelford) return welford();
    for (size_t i = 0; i < slices_.starts.size(); ++i) {
      if (node_.info().rule == Rule::kReduceIndex)
        out_.ints[i] = index_of_extreme(slices_.starts[i]);
      else if (out_.is_float())
        out_.floats[i] = reduce_floats(slices_.starts[i]);
      else
        out_.ints[i] = wrapped(out_.dtype, reduce_ints(slices_.starts[i]));
    }
    return {std::move(out_)};
  }

 private:
  size_t count() const { return slices_.offsets.size(); }

  // The compute type's value, where eager rounds an accumulator.
  double computed(double x) const {
    return mode_ == InterpMode::kEager && from_.dtype != DType::kF64 ? static_cast<float>(x) : x;
  }
  double rounded_result(double x) const { return mode_ == InterpMode::kEager ? round_to(out_.dtype, computed(x)) : x; }

  double reduce_floats(size_t start) const {
    const double* x = from_.floats.data() + start;
    double sum = 0, product = 1;
    switch (node_.op) {
      case Op::kSum:
        for (const size_t at : slices_.offsets) sum += x[at];
        return rounded_result(sum);
      case Op::kMean:
        for (const size_t at : slices_.offsets) sum += x[at];
        if (mode_ == InterpMode::kExact) return sum / static_cast<double>(count());
        return rounded_result(computed(sum) * computed(1.0 / static_cast<double>(count())));  // as PyTorch scales it
      case Op::kProd:
        for (const size_t at : slices_.offsets) product *= x[at];
        return rounded_result(product);
      default:
        return extreme(x);
    }
  }

  double extreme(const double* x) const {
    double best = x[slices_.offsets[0]];
    for (const size_t at : slices_.offsets) {
      if (std::isnan(best)) break;
      if (std::isnan(x[at]) || (node_.op == Op::kMax ? x[at] > best : x[at] < best)) best = x[at];
    }
    return best;
  }

  int64_t reduce_ints(size_t start) const {
    const int64_t* x = from_.ints.data() + start;
    uint64_t sum = 0, product = 1;
    bool any = false, all = true;
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (const size_t at : slices_.offsets) {
      sum += static_cast<uint64_t>(x[at]);
      product *= static_cast<uint64_t>(x[at]);
      any = any || x[at] != 0;
      all = all && x[at] != 0;
      low = std::min(low, x[at]);
      high = std::max(high, x[at]);
    }
    switch (node_.op) {
      case Op::kSum:
        return static_cast<int64_t>(sum);
      case Op::kProd:
        return static_cast<int64_t>(product);
      case Op::kAny:
        return any;
      case Op::kAll:
        return all;
      case Op::kMin:
        return low;
      default:
        return high;
    }
  }

  template <typename Element>
  int64_t index_of_extreme(const Element* x) const {
    const auto is_nan = [](Element e) { return e != e; };
    size_t best = 0;
    for (size_t i = 1; i < count(); ++i) {
      const Element a = x[slices_.offsets[i]], b = x[slices_.offsets[best]];
      if (is_nan(b)) break;
      if (is_nan(a) || (node_.op == Op::kArgmax ? a > b : a < b)) best = i;
    }
    return static_cast<int64_t>(best);
  }
  int64_t index_of_extreme(size_t start) const {
    return from_.is_float() ? index_of_extreme(from_.floats.data() + start)
                            : index_of_extreme(from_.ints.data() + start);
  }

  std::vector<HostTensor> welford() {
    HostTensor deviations = out_;
    for (size_t i = 0; i < slices_.starts.size(); ++i) {
      const double* x = from_.floats.data() + slices_.starts[i];
      double sum = 0, squares = 0;
      for (const size_t at : slices_.offsets) sum += x[at];
      const double mean = sum / static_cast<double>(count());
      for (const size_t at : slices_.offsets) squares += (x[at] - mean) * (x[at] - mean);
      out_.floats[i] = computed(mean);
      deviations.floats[i] = computed(squares);
    }
    return {std::move(out_), std::move(deviations)};
  }

  const Node& node_;
  const HostTensor& from_;
  InterpMode mode_;
  Slices slices_;
  HostTensor out_;
};

}  // namespace

std::vector<HostTensor> interp_reduction(const Node& node, const HostTensor& from, const Sizes& shape,
                                         InterpMode mode) {
  return Reduction(node, from, shape, mode).run();
}

}  // namespace tilewright
