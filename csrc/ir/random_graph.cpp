#include "ir/random_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/host_tensor.h"

namespace tilewright {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
// Inexact operators take operands up to this magnitude.
constexpr double kModerate = 1e4;

// splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) { state_ = next(); }  // seeds side by side give unlike streams

  // From low to high, both included.
  int64_t pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  template <typename T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<size_t>(pick(0, static_cast<int64_t>(list.size()) - 1))];
  }

 private:
  uint64_t next() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  uint64_t state_;
};

// A value with bounds on its elements and on the difference between two correct computations of it.
struct Known {
  Value* value = nullptr;
  double magnitude = 0;  // kUnbounded: infinities and NaN may occur
  double error = 0;

  const Type& type() const { return value->type; }
  DType dtype() const { return value->type.dtype; }
  bool exact() const { return error == 0; }
};

double unit_of(DType dtype) { return rounding_tolerance(dtype).relative; }

double greatest(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 65504;
    case DType::kF8E4M3:
      return 448;
    case DType::kF8E5M2:
      return 57344;
    case DType::kF64:
      return 1e300;
    case DType::kBool:
      return 1;
    case DType::kU8:
      return 255;
    case DType::kI8:
      return 128;
    case DType::kI16:
      return 32768;
    case DType::kI32:
      return 2147483648.0;
    case DType::kI64:
      return 9223372036854775808.0;
    default:
      return 1e38;
  }
}

class Generator {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options) : options_(options), random_(seed) {
    out_.graph.set_name("random_" + std::to_string(seed));
  }

  RandomGraph run() {
    make_parameters();
    // A step may find that its operator does not apply; steps are bounded so that a poor pool ends too.
    for (int step = 0; step < 4 * options_.nodes && graph().size() < static_cast<size_t>(options_.nodes); ++step) {
      if (options_.products && random_.chance(20)) {
        matrix_product();
        continue;
      }
      const int64_t what = random_.pick(1, 100);
      if (options_.views && what <= 25)
        view();
      else if (options_.reductions && what <= 40)
        reduction();
      else
        pointwise();
    }
    make_outputs();
    return std::move(out_);
  }

 private:
  Graph& graph() { return out_.graph; }
  int64_t hint(const Expr& e) { return graph().symbols().hint(e); }

  // ---- parameters

  // Floats more often: most operators are theirs.
  DType random_dtype() {
    DType dtype = random_.of(options_.dtypes);
    for (int attempt = 0; attempt < 3 && !is_float(dtype); ++attempt) dtype = random_.of(options_.dtypes);
    return dtype;
  }

  Expr random_size() {
    if (options_.symbols && random_.chance(35)) {
      const std::string name = "s" + std::to_string(random_.pick(0, 1));
      if (!graph().symbols().find(name)) {
        Symbol symbol;
        symbol.name = name;
        symbol.hint = random_.of(std::vector<int64_t>{2, 3, 7, 8, 16, 31, 64});
        symbol.lower = 2;
        graph().symbols().add(symbol);
        out_.sizes[name] = symbol.hint;
      }
      return Expr::symbol(name);
    }
    return random_.of(
        std::vector<int64_t>{1, 1, 2, 3, 4, 5, 7, 8, 16, 31, 33, 64, 100, 128, random_.chance(30) ? 0 : 6});
  }

  void make_parameters() {
    std::vector<Expr> base;
    for (int64_t rank = random_.pick(1, 3); rank > 0; --rank) {
      base.push_back(random_size());
      if (hint(product(base)) > options_.max_elements) base.back() = 2;
    }
    for (int i = 0; i < options_.parameters; ++i) {
      std::vector<Expr> shape = base;
      for (Expr& size : shape) {
        if (i > 0 && random_.chance(15)) size = 1;
      }
      while (i > 0 && !shape.empty() && random_.chance(15)) shape.erase(shape.begin());
      const DType dtype = random_dtype();
      Type type = Type::tensor(dtype, shape);
      type.strides = random_strides(type);
      Value* value = graph().add_parameter("p" + std::to_string(i), std::move(type));
      pool_.push_back({value, dtype == DType::kBool ? 1.0 : is_float(dtype) ? 3.0 : 16.0, 0});
    }
    base_ = base;
  }

  std::vector<Expr> random_strides(const Type& type) {
    const int64_t kind = options_.odd_strides ? random_.pick(0, 5) : 0;
    std::vector<Expr> strides(type.shape.size());
    std::vector<size_t> order(type.shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (kind == 3) std::reverse(order.begin(), order.end());
    Expr stride = kind == 4 ? 2 : 1;  // 4: every other element
    for (size_t i = order.size(); i-- > 0;) {
      const size_t d = order[i];
      strides[d] = stride;
      if (!type.shape[d].is_constant(0)) stride = stride * type.shape[d];
      if (kind == 5 && i + 1 == order.size()) stride = stride + 8;  // rows with a gap
    }
    if (kind == 2 && !strides.empty())
      strides[static_cast<size_t>(random_.pick(0, static_cast<int64_t>(strides.size()) - 1))] = 0;
    return strides;
  }

  // ---- the pool

  const Known& any() {
    // The newest values most of the time, so that chains grow.
    const auto size = static_cast<int64_t>(pool_.size());
    return pool_[static_cast<size_t>(random_.chance(60) ? random_.pick(std::max<int64_t>(0, size - 3), size - 1)
                                                        : random_.pick(0, size - 1))];
  }

  Known add(Op op, std::vector<Value*> operands, std::vector<std::pair<std::string, Attr>> attrs, double magnitude,
            double error) {
    Value* value = graph().add(op, std::move(operands), std::move(attrs))->result();
    if (is_integer(value->type.dtype))
      magnitude = std::min(magnitude, greatest(value->type.dtype));
    else if (magnitude > greatest(value->type.dtype))
      magnitude = kUnbounded;
    return {value, magnitude, error};
  }

  void keep(const Known& known) { pool_.push_back(known); }

  Known number(DType dtype, double value) {
    Value* made = graph().constant(dtype, value);
    return {made, std::fabs(is_float(dtype) ? round_to(dtype, value) : value), 0};
  }

  Known cast(const Known& from, DType to) {
    if (from.dtype() == to) return from;
    const double error = from.exact() ? 0 : from.error + unit_of(to) * from.magnitude;
    const bool wraps = is_integer(to) && from.magnitude > greatest(to);
    return add(Op::kCast, {from.value}, {{"to", to}}, wraps || to == DType::kBool ? greatest(to) : from.magnitude,
               error);
  }

  // Whether a cast keeps small differences small and finite.
  static bool can_cast(const Known& from, DType to) {
    return from.exact() || (is_float(to) && from.magnitude < greatest(to));
  }

  // A second operand for `a`: of its shape or rank 0, of type `dtype`. Null where the pool has none and a number is not
  // wanted.
  Known partner(const Known& a, DType dtype) {
    for (int attempt = 0; attempt < 6; ++attempt) {
      Known b = any();
      if (!can_cast(b, dtype)) continue;
      if (b.type().shape != a.type().shape) {
        if (!can_expand(b.type().shape, a.type().shape)) continue;
        if (b.type().rank() > 0) {
          b = add(Op::kExpand, {b.value}, {{"shape", a.type().shape}}, b.magnitude, b.error);
        }
      }
      return cast(b, dtype);
    }
    if (dtype == DType::kBool) return number(dtype, random_.chance(50));
    return number(dtype, is_float(dtype) ? static_cast<double>(random_.pick(-8, 8)) / 4
                                         : static_cast<double>(random_.pick(0, 5)));
  }

  static bool can_expand(const std::vector<Expr>& from, const std::vector<Expr>& to) {
    if (from.size() > to.size()) return false;
    for (size_t i = 0; i < from.size(); ++i) {
      if (!from[i].is_constant(1) && from[i] != to[to.size() - from.size() + i]) return false;
    }
    return true;
  }

  // ---- pointwise

  void pointwise() {
    const Known a = any();
    if (random_.chance(12)) return cast_step(a);
    if (random_.chance(10)) return where_step(a);
    if (a.dtype() == DType::kBool) return bool_step(a);
    if (is_integer(a.dtype())) return random_.chance(25) ? unary_integer(a) : binary_integer(a);
    if (random_.chance(15)) return fma_step(a);
    random_.chance(55) ? unary_float(a) : binary_float(a);
  }

  void cast_step(const Known& a) {
    const DType to = random_dtype();
    if (to != a.dtype() && can_cast(a, to)) keep(cast(a, to));
  }

  void where_step(const Known& a) {
    const Known condition = any();
    if (!condition.exact() || condition.type().shape != a.type().shape) return;
    const Known c = cast(condition, DType::kBool), b = partner(a, a.dtype());
    keep(add(Op::kWhere, {c.value, a.value, b.value}, {}, std::max(a.magnitude, b.magnitude),
             std::max(a.error, b.error)));
  }

  void bool_step(const Known& a) {
    if (random_.chance(20)) return keep(add(Op::kNot, {a.value}, {}, 1, 0));
    static const std::vector<Op> kOps = {Op::kAnd, Op::kOr,  Op::kXor, Op::kEq,      Op::kNe,     Op::kLt,
                                         Op::kGe,  Op::kAdd, Op::kMul, Op::kMaximum, Op::kMinimum};
    const Known b = partner(a, DType::kBool);
    keep(add(random_.of(kOps), {a.value, b.value}, {}, 1, 0));
  }

  void unary_integer(const Known& a) {
    static const std::vector<Op> kOps = {Op::kNeg, Op::kAbs, Op::kSign, Op::kNot, Op::kCopy};
    keep(add(random_.of(kOps), {a.value}, {},
             a.magnitude + 1 > 128 || !is_signed(a.dtype()) ? greatest(a.dtype()) : a.magnitude + 1, 0));
  }

  void binary_integer(const Known& a) {
    static const std::vector<Op> kOps = {Op::kAdd,  Op::kSub, Op::kMul,     Op::kDiv,     Op::kFloorDiv, Op::kMod,
                                         Op::kFmod, Op::kPow, Op::kMaximum, Op::kMinimum, Op::kFmax,     Op::kFmin,
                                         Op::kAnd,  Op::kOr,  Op::kXor,     Op::kShl,     Op::kShr,      Op::kEq,
                                         Op::kNe,   Op::kLt,  Op::kLe,      Op::kGt,      Op::kGe};
    const Op op = random_.of(kOps);
    Known b = partner(a, a.dtype());
    const bool divides = op == Op::kDiv || op == Op::kFloorDiv || op == Op::kMod || op == Op::kFmod;
    if (divides) {  // by 1, 3, 5 or 7: zero has no defined value, and the least integer has no quotient by -1
      b = add(Op::kAnd, {b.value, number(b.dtype(), 7).value}, {}, 7, 0);
      b = add(Op::kOr, {b.value, number(b.dtype(), 1).value}, {}, 7, 0);
    }
    const bool small = op == Op::kMaximum || op == Op::kMinimum || op == Op::kFmax || op == Op::kFmin ||
                       op == Op::kMod || op == Op::kFmod || op == Op::kDiv;
    keep(add(op, {a.value, b.value}, {}, small ? std::max(a.magnitude, b.magnitude) : greatest(a.dtype()), 0));
  }

  // a * factor with the product's magnitude at most `bound`.
  Known scaled(const Known& a, double bound) {
    if (a.magnitude <= bound) return a;
    const Known factor = number(a.dtype(), bound / a.magnitude * 0.95);
    const double error = a.exact() ? 0 : a.error * factor.magnitude + unit_of(a.dtype()) * bound;
    return add(Op::kMul, {a.value, factor.value}, {}, bound, error);
  }

  // |a| + offset.
  Known above(const Known& a, double offset) {
    const Known absolute = add(Op::kAbs, {a.value}, {}, a.magnitude, a.error);
    const double error = a.exact() ? 0 : a.error + unit_of(a.dtype()) * (a.magnitude + offset);
    return add(Op::kAdd, {absolute.value, number(a.dtype(), offset).value}, {}, a.magnitude + offset, error);
  }

  // A function that is computed inexactly: `slope` bounds its derivative, `magnitude` its result.
  void inexact(Op op, const Known& a, double slope, double magnitude) {
    const double error = a.error * slope + (4 * unit_of(compute_type(a.dtype())) + unit_of(a.dtype())) * magnitude;
    keep(add(op, {a.value}, {}, magnitude, error));
  }

  void unary_float(const Known& a) {
    if (random_.chance(35)) return exact_unary(a);
    if (a.magnitude > kModerate || unit_of(a.dtype()) > 0.1) return;
    switch (random_.pick(0, 9)) {
      case 0:
        return inexact(random_.of(std::vector<Op>{Op::kSin, Op::kCos}), scaled(a, 20), 1, 1);
      case 1:
        return inexact(random_.of(std::vector<Op>{Op::kTanh, Op::kErf, Op::kSigmoid, Op::kErfc}), a, 1.2, 2);
      case 2:
        return inexact(random_.of(std::vector<Op>{Op::kExp, Op::kExp2, Op::kExpm1, Op::kSinh, Op::kCosh}), scaled(a, 3),
                       21, 21);
      case 3:
        return inexact(random_.of(std::vector<Op>{Op::kLog, Op::kLog2, Op::kLog10, Op::kLog1p}), above(a, 1), 1.5, 14);
      case 4:
        return inexact(random_.of(std::vector<Op>{Op::kAsin, Op::kAcos, Op::kAtanh, Op::kErfinv}), scaled(a, 0.8), 4,
                       3);
      case 5:
        return inexact(random_.of(std::vector<Op>{Op::kAtan, Op::kAsinh}), a, 1, 11);
      case 6:
        return inexact(Op::kTan, scaled(a, 1), 4, 1.6);
      case 7:
        return inexact(Op::kRsqrt, above(a, 1), 0.6, 1);
      case 8:
        return inexact(Op::kAcosh, above(a, 1.5), 1.2, 11);
      default:
        return inexact(Op::kLgamma, scaled(above(a, 1), 20), 3, 40);
    }
  }

  void exact_unary(const Known& a) {
    static const std::vector<Op> kSmooth = {Op::kNeg, Op::kAbs, Op::kCopy};
    static const std::vector<Op> kAny = {Op::kCeil, Op::kFloor, Op::kRound, Op::kTrunc,   Op::kSign,
                                         Op::kSqrt, Op::kIsNan, Op::kIsInf, Op::kSignbit, Op::kReciprocal};
    if (!a.exact() || random_.chance(30)) return keep(add(random_.of(kSmooth), {a.value}, {}, a.magnitude, a.error));
    const Op op = random_.of(kAny);
    if (op == Op::kSignbit && !std::isfinite(a.magnitude)) return;  // a NaN's sign is nobody's promise
    const bool bounded = op != Op::kSqrt && op != Op::kReciprocal;
    keep(add(op, {a.value}, {}, bounded ? a.magnitude + 1 : kUnbounded, 0));
  }

  void binary_float(const Known& a) {
    const Known b = partner(a, a.dtype());
    const double unit = unit_of(a.dtype());
    const bool exact = a.exact() && b.exact();
    if (exact && random_.chance(40)) return exact_binary(a, b);
    const double sum = a.magnitude + b.magnitude, largest = std::max(a.magnitude, b.magnitude);
    const Op op = random_.of(std::vector<Op>{Op::kAdd, Op::kSub, Op::kMul, Op::kMul, Op::kMaximum, Op::kMinimum,
                                             Op::kHypot, Op::kPow, Op::kAtan2});
    const double product = a.magnitude * b.magnitude;
    const bool moderate = sum < kModerate && product < greatest(a.dtype()) / 2 && product < kModerate;
    if (!exact && !moderate) return;
    const auto lossy = [&](double error, double magnitude) { return exact ? 0 : error + unit * magnitude; };
    switch (op) {
      case Op::kMaximum:
      case Op::kMinimum:
        return keep(add(op, {a.value, b.value}, {}, largest, std::max(a.error, b.error)));
      case Op::kMul:
        return keep(
            add(op, {a.value, b.value}, {}, product, lossy(a.magnitude * b.error + b.magnitude * a.error, product)));
      case Op::kHypot: {
        if (!moderate) return;
        return keep(add(op, {a.value, b.value}, {}, sum,
                        a.error + b.error + (4 * unit_of(compute_type(a.dtype())) + unit) * sum));
      }
      case Op::kPow: {
        if (!exact || a.magnitude > 50) return;
        const Known base = above(a, 1), exponent = scaled(b, 2);
        const double power = std::pow(base.magnitude, 2);
        return keep(
            add(op, {base.value, exponent.value}, {}, power, (8 * unit_of(compute_type(a.dtype())) + unit) * power));
      }
      case Op::kAtan2: {
        if (!exact || !std::isfinite(sum)) return;
        return keep(add(op, {a.value, b.value}, {}, 3.2, (4 * unit_of(compute_type(a.dtype())) + unit) * 3.2));
      }
      default:
        return keep(add(op, {a.value, b.value}, {}, sum, lossy(a.error + b.error, sum)));
    }
  }

  void exact_binary(const Known& a, const Known& b) {
    static const std::vector<Op> kOps = {Op::kDiv,       Op::kEq,   Op::kNe,   Op::kLt,   Op::kLe,
                                         Op::kGt,        Op::kGe,   Op::kFmax, Op::kFmin, Op::kCopysign,
                                         Op::kNextafter, Op::kFmod, Op::kMod};
    const Op op = random_.of(kOps);
    const bool wild = op == Op::kDiv || op == Op::kFmod || op == Op::kMod;
    if (op == Op::kNextafter && a.dtype() == DType::kF16) return;  // PyTorch has none
    if (op == Op::kCopysign && !std::isfinite(b.magnitude)) return;
    keep(add(op, {a.value, b.value}, {}, wild ? kUnbounded : std::max(a.magnitude, b.magnitude) + 1, 0));
  }

  void fma_step(const Known& a) {
    const Known b = partner(a, a.dtype()), c = partner(a, a.dtype());
    const double magnitude = a.magnitude * b.magnitude + c.magnitude;
    const bool exact = a.exact() && b.exact() && c.exact();
    if (!exact && magnitude > kModerate) return;
    const double error =
        exact ? 0 : a.magnitude * b.error + b.magnitude * a.error + c.error + unit_of(a.dtype()) * magnitude;
    keep(add(Op::kFma, {a.value, b.value, c.value}, {}, magnitude, error));
  }

  // ---- views

  void view() {
    const Known a = any();
    if (random_.chance(8)) return generated();
    const int rank = a.type().rank();
    const auto same = [&](Op op, std::vector<std::pair<std::string, Attr>> attrs) {
      keep(add(op, {a.value}, std::move(attrs), a.magnitude, a.error));
    };
    if (rank == 0) return same(Op::kFull, {{"shape", base_}});
    const int64_t dim = random_.pick(0, rank - 1);
    const Expr& size = a.type().shape[static_cast<size_t>(dim)];
    switch (random_.pick(0, 8)) {
      case 0:
        return same(Op::kPermute, {{"dims", shuffled(rank)}});
      case 1:
        return same(Op::kFlip, {{"dims", std::vector<Expr>{dim}}});
      case 2:
        return slice(a, dim);
      case 3:
        if (hint(size) >= 2)
          same(Op::kSelect, {{"dim", Expr(dim)}, {"index", random_.chance(50) ? Expr(1) : size - 1}});
        return;
      case 4:
        return same(Op::kUnsqueeze, {{"dims", std::vector<Expr>{random_.pick(0, rank)}}});
      case 5:
        return squeeze_or_expand(a);
      case 6:
        return concat(a, dim);
      case 7:
        return pad(a);
      default:
        return reshape(a);
    }
  }

  void generated() {
    const DType dtype = random_.of(options_.dtypes);
    if (dtype == DType::kBool || base_.empty()) return;
    const int64_t dim = random_.pick(0, static_cast<int64_t>(base_.size()) - 1);
    const auto last = static_cast<double>(hint(base_[static_cast<size_t>(dim)]));
    keep(add(Op::kIota, {}, {{"dtype", dtype}, {"shape", base_}, {"dim", Expr(dim)}}, last, 0));
  }

  std::vector<Expr> shuffled(int rank) {
    std::vector<Expr> dims;
    for (int i = 0; i < rank; ++i) dims.insert(dims.begin() + random_.pick(0, i), Expr(i));
    return dims;
  }

  void slice(const Known& a, int64_t dim) {
    const Expr& size = a.type().shape[static_cast<size_t>(dim)];
    if (hint(size) < 2) return;
    const Expr start = random_.pick(0, 1), end = random_.chance(50) ? size : size - 1;
    if (hint(end) < hint(start)) return;
    keep(add(Op::kSlice, {a.value},
             {{"dim", Expr(dim)}, {"start", start}, {"end", end}, {"step", Expr(random_.pick(1, 3))}}, a.magnitude,
             a.error));
  }

  void squeeze_or_expand(const Known& a) {
    std::vector<Expr> ones, shape = a.type().shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d].is_constant(1)) ones.push_back(static_cast<int64_t>(d));
    }
    if (!ones.empty() && random_.chance(50))
      return keep(add(Op::kSqueeze, {a.value}, {{"dims", ones}}, a.magnitude, a.error));
    for (Expr& size : shape) {
      if (size.is_constant(1)) size = random_.pick(2, 5);
    }
    if (ones.empty() || random_.chance(30)) shape.insert(shape.begin(), Expr(2));
    if (hint(product(shape)) <= options_.max_elements) {
      keep(add(Op::kExpand, {a.value}, {{"shape", shape}}, a.magnitude, a.error));
    }
  }

  void concat(const Known& a, int64_t dim) {
    if (hint(a.type().shape[static_cast<size_t>(dim)]) == 0) return;
    const Known b = partner(a, a.dtype());
    const bool fits = b.type().shape == a.type().shape && 2 * hint(a.type().numel()) <= options_.max_elements;
    if (!fits) return;
    keep(add(Op::kConcat, {a.value, b.value}, {{"dim", Expr(dim)}}, std::max(a.magnitude, b.magnitude),
             std::max(a.error, b.error)));
  }

  void pad(const Known& a) {
    std::vector<Expr> low, high;
    Expr elements = 1;
    for (const Expr& size : a.type().shape) {
      low.push_back(random_.pick(0, 2));
      high.push_back(random_.pick(0, 2));
      elements = elements * (low.back() + size + high.back());
    }
    if (hint(elements) > options_.max_elements) return;
    const Known fill = number(a.dtype(), a.dtype() == DType::kBool ? 1 : 2);
    keep(add(Op::kPad, {a.value, fill.value}, {{"low", low}, {"high", high}}, std::max(a.magnitude, 2.0), a.error));
  }

  void reshape(const Known& a) {
    std::vector<Expr> shape = a.type().shape;
    const auto d = static_cast<size_t>(random_.pick(0, static_cast<int64_t>(shape.size()) - 1));
    const int64_t size = hint(shape[d]);
    if (shape[d].constant() && size % 2 == 0 && size > 2 && random_.chance(50)) {
      shape[d] = size / 2;
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d), Expr(2));
    } else if (shape.size() > 1) {
      const size_t first = d == 0 ? 1 : d;
      shape[first - 1] = shape[first - 1] * shape[first];
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(first));
    }
    keep(add(Op::kReshape, {a.value}, {{"shape", shape}}, a.magnitude, a.error));
  }

  // ---- reductions

  void reduction() {
    const Known a = any();
    if (a.type().rank() == 0) return;
    std::vector<Expr> dims;
    for (int d = 0; d < a.type().rank(); ++d) {
      if (random_.chance(50)) dims.push_back(d);
    }
    if (dims.empty()) dims.push_back(a.type().rank() - 1);
    int64_t count = 1;
    for (const Expr& d : dims) count *= hint(a.type().shape[static_cast<size_t>(*d.constant())]);
    const std::vector<std::pair<std::string, Attr>> attrs = {{"dims", dims}, {"keepdim", random_.chance(50)}};
    if (a.dtype() == DType::kBool) {
      return keep(add(random_.of(std::vector<Op>{Op::kAny, Op::kAll}), {a.value}, attrs, 1, 0));
    }
    if (is_float(a.dtype())) return float_reduction(a, attrs, count);
    const Op op = random_.of(std::vector<Op>{Op::kSum, Op::kProd, Op::kMax, Op::kMin, Op::kArgmax, Op::kArgmin});
    if (op == Op::kArgmax || op == Op::kArgmin) return index_reduction(op, a, attrs, count);
    const bool extreme = op == Op::kMax || op == Op::kMin;
    if (extreme && count == 0) return;
    keep(add(op, {a.value}, attrs, extreme ? a.magnitude : greatest(a.dtype()), 0));
  }

  void index_reduction(Op op, const Known& a, std::vector<std::pair<std::string, Attr>> attrs, int64_t count) {
    auto& dims = std::get<std::vector<Expr>>(attrs[0].second);
    if (static_cast<int>(dims.size()) != a.type().rank()) dims.resize(1);
    const int64_t reduced = static_cast<int>(dims.size()) == a.type().rank()
                                ? count
                                : hint(a.type().shape[static_cast<size_t>(*dims[0].constant())]);
    if (reduced == 0 || !a.exact()) return;
    keep(add(op, {a.value}, std::move(attrs), static_cast<double>(reduced), 0));
  }

  void float_reduction(const Known& a, const std::vector<std::pair<std::string, Attr>>& attrs, int64_t count) {
    const double n = static_cast<double>(std::max<int64_t>(count, 1));
    const double unit = unit_of(a.dtype()), fine = 8 * unit_of(compute_type(a.dtype()));
    const double total = n * a.magnitude;
    switch (random_.pick(0, 5)) {
      case 0:
      case 1:
        if (total > kModerate) return;
        return keep(add(Op::kSum, {a.value}, attrs, total, n * a.error + (fine + unit) * total));
      case 2:
        if (total > kModerate || count == 0) return;
        return keep(add(Op::kMean, {a.value}, attrs, a.magnitude, a.error + (fine + unit) * a.magnitude));
      case 3: {
        const Known small = a.magnitude <= 1 || count <= 4 ? a : scaled(a, 1);
        const double bound = std::pow(std::max(small.magnitude, 1.0), n);
        if (bound > kModerate) return;
        return keep(add(Op::kProd, {small.value}, attrs, bound, (n * small.error + n * fine + unit) * bound));
      }
      case 4:
        if (count == 0) return;
        if (random_.chance(50)) return index_reduction(random_.chance(50) ? Op::kArgmax : Op::kArgmin, a, attrs, count);
        return keep(add(random_.chance(50) ? Op::kMax : Op::kMin, {a.value}, attrs, a.magnitude, a.error));
      default:
        return welford(a, attrs, count);
    }
  }

  void welford(const Known& a, const std::vector<std::pair<std::string, Attr>>& attrs, int64_t count) {
    const auto n = static_cast<double>(count);
    const double squares = 4 * n * a.magnitude * a.magnitude;
    if (count == 0 || squares > kModerate * 10) return;
    const Node* node = graph().add(Op::kWelford, {a.value}, attrs);
    const double fine = 8 * unit_of(compute_type(a.dtype()));
    keep({node->result(0), a.magnitude, a.error + fine * a.magnitude});
    keep({node->result(1), squares, 4 * n * a.magnitude * a.error + 4 * fine * squares});
  }

  // ---- products of matrices

  // Of a value and the transpose of another one of its shape.
  void matrix_product() {
    const Known a = any();
    const int rank = a.type().rank();
    const bool multiplies = is_float(a.dtype()) && unit_of(a.dtype()) < 0.1 && rank >= 2;
    if (!multiplies) return;
    Known b = partner(a, a.dtype());
    if (b.type().rank() == 0) b = add(Op::kFull, {b.value}, {{"shape", a.type().shape}}, b.magnitude, b.error);
    std::vector<Expr> dims;
    dims.reserve(rank);
    for (int d = 0; d < rank; ++d) dims.emplace_back(d);
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    b = add(Op::kPermute, {b.value}, {{"dims", dims}}, b.magnitude, b.error);
    const std::vector<Expr>& shape = a.type().shape;
    const Expr elements = a.type().numel(), rows = shape[shape.size() - 2];
    const auto count = static_cast<double>(hint(shape.back()));
    const double total = count * a.magnitude * b.magnitude;
    if (total > kModerate || hint(elements) * hint(rows) > options_.max_elements * hint(shape.back())) return;
    const double error =
        count * (a.magnitude * b.error + b.magnitude * a.error) + 8 * unit_of(compute_type(a.dtype())) * total;
    keep(add(Op::kMatmul, {a.value, b.value}, {{"precision", std::string("ieee")}}, total, error));
  }

  // ---- outputs

  void make_outputs() {
    std::vector<Known> ends;
    for (const Known& known : pool_) {
      const bool is_end = known.value->users.empty() && known.value->node->op != Op::kParameter;
      if (is_end && ends.size() < 4) ends.push_back(known);
    }
    if (ends.empty()) ends.push_back(add(Op::kCopy, {pool_[0].value}, {}, pool_[0].magnitude, 0));
    std::vector<Output> outputs;
    // An output that shows a parameter's memory would show what another output writes there.
    for (const Known& end : ends) taken_[shown_parameter(end.value)] = true;
    for (const Known& end : ends) {
      Type& type = end.value->type;
      Value* target = options_.writes && random_.chance(25) ? writable(type) : nullptr;
      type.strides = target ? target->type.strides : std::optional(type.contiguous_strides());
      outputs.push_back({Arg{end.value}, target});
      out_.output_errors.push_back(end.error);
    }
    graph().set_outputs(std::move(outputs));
    graph().erase_dead();
  }

  // The parameter that the value is an index map of; null for values with memory of their own.
  static const Value* shown_parameter(const Value* value) {
    while (value->node->category() == Category::kView && !value->node->operands.empty())
      value = value->node->operand(0);
    return value->node->op == Op::kParameter ? value : nullptr;
  }

  // A parameter that an output of this type may be written to: each element has memory of its own.
  Value* writable(const Type& type) {
    for (Value* parameter : graph().parameters()) {
      const Type& own = parameter->type;
      const bool overlaps =
          std::any_of(own.strides->begin(), own.strides->end(), [](const Expr& e) { return e.is_constant(0); });
      if (!overlaps && own.dtype == type.dtype && own.shape == type.shape && !taken_[parameter]) {
        taken_[parameter] = true;
        return parameter;
      }
    }
    return nullptr;
  }

  const RandomGraphOptions& options_;
  Random random_;
  RandomGraph out_;
  std::vector<Expr> base_;  // the shape that parameters have, or expand to
  std::vector<Known> pool_;
  std::map<const Value*, bool> taken_;
};

}  // namespace

RandomGraph random_graph(uint64_t seed, const RandomGraphOptions& options) { return Generator(seed, options).run(); }

}  // namespace tilewright
