#include "schedule/program_maker.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "support/error.h"

namespace tilewright {
namespace {

using Coords = std::vector<Expr>;
using Kind = ProgramStep::Kind;

std::string shown(const Value* v) {
  std::ostringstream text;
  text << "%" << v->name << ": " << v->type;
  return text.str();
}

std::vector<int64_t> reduced_dims(const Node& node) { return node.attr_ints("dims"); }

bool contains(const std::vector<int64_t>& dims, int64_t d) {
  return std::find(dims.begin(), dims.end(), d) != dims.end();
}

// Kept and reduced parts of something with an entry a dimension of a reduction's operand.
struct Parts {
  std::vector<Expr> kept, reduced;
};
Parts split_dims(const std::vector<Expr>& all, const std::vector<int64_t>& dims) {
  Parts parts;
  for (size_t d = 0; d < all.size(); ++d) (contains(dims, d) ? parts.reduced : parts.kept).push_back(all[d]);
  return parts;
}
std::vector<Expr> join_dims(const Parts& parts, const std::vector<int64_t>& dims) {
  std::vector<Expr> all;
  all.reserve(parts.kept.size() + parts.reduced.size());
  size_t kept = 0, reduced = 0;
  for (size_t d = 0; d < parts.kept.size() + parts.reduced.size(); ++d) {
    all.push_back(contains(dims, d) ? parts.reduced[reduced++] : parts.kept[kept++]);
  }
  return all;
}

class ProgramMaker {
 public:
  explicit ProgramMaker(const Graph& body) : p_(body.symbols()) { p_.body = &body; }

  ElementProgram make() {
    for (size_t i = 0; i < p_.body->parameters().size(); ++i) parameter_index_[p_.body->parameters()[i]] = i;
    const std::vector<Node*> nodes = p_.body->nodes();
    check_types(nodes);
    auto reduction = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const Node* n) { return n->category() == Category::kReduction && !pick_of(*n); });
    const auto product = std::find_if(nodes.begin(), nodes.end(), [](const Node* n) { return n->op == Op::kMatmul; });
    const bool has_product = product != nodes.end();
    if (has_product && reduction != nodes.end())
      refuse("%" + (*reduction)->result()->name + " is a reduction beside a product of matrices");
    const Value* root = has_product                ? make_matrix_axes(**product)
                        : reduction == nodes.end() ? make_pointwise_axes()
                                                   : make_row_axes(**reduction);
    if (has_product || std::any_of(nodes.begin(), nodes.end(), [](const Node* n) { return n->op == Op::kPermute; }))
      relate(nodes, root);
    const std::vector<Output>& outputs = p_.body->outputs();
    for (size_t i = 0; i < outputs.size(); ++i) make_store(i, outputs[i]);
    return std::move(p_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const { throw ProgramRefusal{why}; }

  void check_types(const std::vector<Node*>& nodes) const {
    auto check = [&](const Value* v) {
      if (!v->type.is_tensor()) return;
      const DType t = v->type.dtype;
      if (!has_kernels(t) || t == DType::kF8E4M3 || t == DType::kF8E5M2)
        refuse(shown(v) + ": kernels do not take this element type");
    };
    for (const Value* v : p_.body->parameters()) check(v);
    for (const Node* n : nodes) {
      if (n->category() == Category::kCall || n->category() == Category::kHost)
        refuse(std::string(n->info().text) + " is not part of kernels");
      for (const auto& r : n->results) check(r.get());
    }
    if (p_.body->outputs().empty()) refuse("the group has no outputs");
    for (const Output& o : p_.body->outputs()) {
      if (!o.tensor() || !o.tensor()->type.is_tensor()) refuse("an output is not a tensor");
    }
  }

  Expr new_axis(const Expr& size, bool reduced) {
    if (size.is_constant(1)) return 0;
    const Expr axis = p_.space.add_axis(size);
    p_.axes.push_back({axis.symbol_name(), size, reduced});
    return axis;
  }

  // Makes axes for the elements of a value, and returns it.
  const Value* make_pointwise_axes() {
    // The output with most elements gives the space; ties go to the first.
    const Value* largest = nullptr;
    for (const Output& o : p_.body->outputs()) {
      const Value* v = o.tensor();
      if (!largest || hint(v->type.numel()) > hint(largest->type.numel())) largest = v;
    }
    root_shape_ = largest->type.shape;
    for (const Expr& size : root_shape_) root_coords_.push_back(new_axis(size, /*reduced=*/false));
    return largest;
  }

  const Value* make_row_axes(const Node& reduction) {
    root_shape_ = reduction.operand(0)->type.shape;
    const std::vector<int64_t> dims = reduced_dims(reduction);
    row_shape_ = split_dims(root_shape_, dims);
    for (const Expr& size : row_shape_.kept) row_coords_.kept.push_back(new_axis(size, false));
    for (const Expr& size : row_shape_.reduced) row_coords_.reduced.push_back(new_axis(size, true));
    root_coords_ = join_dims(row_coords_, dims);
    root_reduction_ = &reduction;
    return reduction.operand(0);
  }

  // Axes that exist for sizes of 1 too: m, n and k.
  Expr new_matrix_axis(const Expr& size, bool reduced, std::string& symbol) {
    const Expr axis = p_.space.add_axis(size);
    symbol = axis.symbol_name();
    p_.axes.push_back({symbol, size, reduced});
    return axis;
  }

  const Value* make_matrix_axes(const Node& product) {
    root_shape_ = product.type().shape;
    const size_t batches = root_shape_.size() - 2;
    for (size_t d = 0; d < batches; ++d) root_coords_.push_back(new_axis(root_shape_[d], /*reduced=*/false));
    root_coords_.push_back(new_matrix_axis(root_shape_[batches], false, p_.matrix.m));
    root_coords_.push_back(new_matrix_axis(root_shape_[batches + 1], false, p_.matrix.n));
    new_matrix_axis(product.operand(0)->type.shape.back(), /*reduced=*/true, p_.matrix.k);
    return product.result();
  }

  // Follows pointwise operators and one-to-one views from the value whose elements are iterated over, both up and down:
  // an output among the values met, the nearest way first, is stored where its elements are computed in any case, in
  // whatever order that leaves it.
  void relate(const std::vector<Node*>& nodes, const Value* root) {
    std::map<const Value*, std::vector<const Node*>> users;
    for (const Node* n : nodes) {
      for (const Value* operand : n->operands) users[operand].push_back(n);
    }
    std::vector<const Value*> queue = {root};
    related_.emplace(root, root_coords_);
    const auto meet = [&](const Value* v, const Coords& coords) {
      if (related_.emplace(v, coords).second) queue.push_back(v);
    };
    for (size_t i = 0; i < queue.size(); ++i) {
      const Value* v = queue[i];
      const Coords coords = related_.at(v);
      const auto is_alike = [&](const Value* other) {
        return other->type.is_tensor() && other->type.shape == v->type.shape;
      };
      if (v->node && v->node->category() == Category::kPointwise) {
        for (const Value* operand : v->node->operands) {
          if (is_alike(operand)) meet(operand, coords);
        }
      } else if (is_one_to_one(v->node)) {
        meet(v->node->operand(0), source_coords(*v->node, coords));
      }
      for (const Node* user : users[v]) {
        if (user->category() == Category::kPointwise && is_alike(user->result())) meet(user->result(), coords);
        if (is_one_to_one(user)) meet(user->result(), forward(*user, coords));
      }
    }
  }

  static bool is_one_to_one(const Node* n) {
    return n && (n->op == Op::kPermute || n->op == Op::kReshape || n->op == Op::kSqueeze || n->op == Op::kUnsqueeze);
  }

  int64_t hint(const Expr& e) const { return p_.body->symbols().hint(e); }

  // ---- outputs

  // Coordinates of `v` where the iteration is at `coords` in `shape`: through the index maps below `v`, as far as one
  // of `shape` lies under them, else in row-major order.
  std::optional<Coords> coords_of(const Value* v, const std::vector<Expr>& shape, const Coords& coords) const {
    std::vector<const Node*> maps;
    const Value* base = v;
    while (base->type.shape != shape && is_one_to_one(base->node)) {
      maps.push_back(base->node);
      base = base->node->operand(0);
    }
    if (base->type.shape != shape) {
      if (v->type.numel() != product(shape)) return std::nullopt;
      return reshape_coords(p_.space, coords, shape, v->type.shape);
    }
    Coords at = coords;
    for (auto it = maps.rbegin(); it != maps.rend(); ++it) at = forward(**it, at);
    return at;
  }

  // Where an element of a one-to-one view's operand goes.
  Coords forward(const Node& view, const Coords& at) const {
    if (view.op != Op::kPermute) return reshape_coords(p_.space, at, view.operand(0)->type.shape, view.type().shape);
    Coords result;
    for (int64_t d : view.attr_ints("dims")) result.push_back(at[d]);
    return result;
  }

  void make_store(int i, const Output& output) {
    const Value* v = output.tensor();
    ProgramStore store;
    store.output = i;
    store.dtype = v->type.dtype;
    store.into = output.into;
    const auto related = related_.find(v);
    std::optional<Coords> coords =
        related == related_.end() ? coords_of(v, root_shape_, root_coords_) : std::optional(related->second);
    if (root_reduction_) {
      const bool row_shaped = v->type.numel() == product(row_shape_.kept) && v->type.shape != root_shape_;
      if (row_shaped) coords = coords_of(v, row_shape_.kept, row_coords_.kept);
      store.per_row = row_shaped;
    }
    if (!coords) refuse("output " + shown(v) + " has another number of elements than the kernel iterates over");
    store.step = element(v, *coords, {});
    const Type& memory = output.into ? output.into->type : v->type;
    if (output.into && output.into->type.shape != v->type.shape)
      refuse("output " + shown(v) + " and " + shown(output.into) + ", which it is written into, differ in shape");
    store.index = offset(memory, *coords);
    p_.stores.push_back(store);
  }

  static Expr offset(const Type& type, const Coords& coords) {
    const std::vector<Expr> strides = memory_strides(type);
    Expr sum = 0;
    for (size_t d = 0; d < coords.size(); ++d) sum = sum + coords[d] * strides[d];
    return sum;
  }

  // ---- steps

  int add(ProgramStep step) {
    for (int o : step.operands) {
      const ProgramStep& operand = p_.steps[o];
      step.stage = std::max(step.stage, operand.stage);
    }
    p_.steps.push_back(std::move(step));
    return static_cast<int>(p_.steps.size()) - 1;
  }

  template <typename T>
  static int intern(std::map<T, int>& table, const T& key) {
    return table.emplace(key, static_cast<int>(table.size())).first->second;
  }

  int element(const Value* v, const Coords& coords, const Guard& guard) {
    TW_CHECK(static_cast<int>(coords.size()) == v->type.rank())
        << "%" << v->name << ": " << coords.size() << " coordinates";
    std::vector<std::tuple<Expr, Expr, Expr>> guard_key;
    for (const Bound& b : guard) guard_key.emplace_back(b.index, b.low, b.high);
    const auto key = std::make_tuple(v, intern(coords_ids_, coords), intern(guard_ids_, guard_key));
    auto it = known_.find(key);
    if (it != known_.end()) return it->second;
    const int step = make_element(v, coords, guard);
    known_.emplace(key, step);
    return step;
  }

  ProgramStep step_of(Kind kind, const Value* v) const {
    ProgramStep step;
    step.kind = kind;
    step.value = v;
    step.node = v->node;
    step.dtype = v->type.is_tensor() ? v->type.dtype : v->type.kind == TypeKind::kFloat ? DType::kF64 : DType::kI64;
    return step;
  }

  int make_element(const Value* v, const Coords& coords, const Guard& guard) {
    const auto parameter = parameter_index_.find(v);
    if (parameter != parameter_index_.end()) return make_parameter(v, parameter->second, coords, guard);
    const Node& node = *v->node;
    switch (node.category()) {
      case Category::kConstant: {
        if (node.op == Op::kConstant) return add(step_of(Kind::kConstant, v));
        ProgramStep step = step_of(Kind::kIndex, v);
        step.index = node.attr_expr("value");
        return add(step);
      }
      case Category::kPointwise: {
        ProgramStep step = step_of(Kind::kPointwise, v);
        for (const Value* operand : node.operands) {
          const bool rank0 = !operand->type.is_tensor() || operand->type.rank() == 0;
          step.operands.push_back(element(operand, rank0 ? Coords{} : coords, guard));
        }
        return add(step);
      }
      case Category::kView:
        return make_view(v, coords, guard);
      case Category::kReduction: {
        const std::optional<Pick> pick = pick_of(node);
        return pick ? make_picked(v, *pick, coords, guard) : make_reduced(v, coords);
      }
      case Category::kContraction:
        return make_product(v, coords);
      default:
        refuse(std::string(node.info().text) + " is not part of kernels");
    }
  }

  int make_parameter(const Value* v, int index, const Coords& coords, const Guard& guard) {
    const bool by_value = !v->type.is_tensor() || v->type.device == "host";
    ProgramStep step = step_of(by_value ? Kind::kScalar : Kind::kLoad, v);
    step.parameter = index;
    if (by_value) {
      if (v->type.is_tensor() && v->type.rank() != 0) refuse(shown(v) + " lies in CPU memory");
      return add(step);
    }
    step.index = offset(v->type, coords);
    step.guard = guard;
    for (const auto& [symbol, target] : picks_) {
      if (!p_.space.depends_on(step.index, symbol)) continue;
      if (!step.picked.empty()) refuse(shown(v) + " is read at two computed indices");
      step.picked = symbol;
      step.operands = {target};
    }
    // A row of an empty tensor has an index where the empty dimension has the stride 0, but no element.
    const std::vector<Expr> strides = memory_strides(v->type);
    for (size_t d = 0; d < strides.size(); ++d) {
      const Bound exists{0, 0, v->type.shape[d]};
      if (strides[d].is_constant(0) && decide(exists) != true) step.guard = joined(step.guard, {exists});
    }
    return add(step);
  }

  int make_view(const Value* v, const Coords& coords, const Guard& guard) {
    const Node& node = *v->node;
    if (node.op == Op::kConcat) return make_concat(v, coords, guard);
    if (node.op == Op::kPad) return make_pad(v, coords, guard);
    if (node.op == Op::kIota) {
      ProgramStep step = step_of(Kind::kIndex, v);
      step.index = coords[node.attr_int("dim")];
      return add(step);
    }
    if (node.op == Op::kFull) return element(node.operand(0), {}, guard);
    return element(node.operand(0), source_coords(node, coords), guard);
  }

  // Where an element of a view comes from.
  Coords source_coords(const Node& node, const Coords& coords) const {
    const std::vector<Expr>& from = node.operand(0)->type.shape;
    Coords result;
    switch (node.op) {
      case Op::kReshape:
        return reshape_coords(p_.space, coords, node.type().shape, from);
      case Op::kPermute: {
        const std::vector<int64_t> dims = node.attr_ints("dims");
        result.assign(dims.size(), 0);
        for (size_t i = 0; i < dims.size(); ++i) result[dims[i]] = coords[i];
        return result;
      }
      case Op::kExpand: {
        const size_t lead = coords.size() - from.size();
        for (size_t d = 0; d < from.size(); ++d) {
          const bool repeats = from[d].is_constant(1) && !node.type().shape[lead + d].is_constant(1);
          result.push_back(repeats ? Expr(0) : coords[lead + d]);
        }
        return result;
      }
      case Op::kSlice: {
        result = coords;
        Expr& at = result[node.attr_int("dim")];
        at = node.attr_expr("start") + at * node.attr_expr("step");
        return result;
      }
      case Op::kFlip:
        result = coords;
        for (int64_t d : node.attr_ints("dims")) result[d] = from[d] - 1 - result[d];
        return result;
      case Op::kSelect:
        result = coords;
        result.insert(result.begin() + node.attr_int("dim"), node.attr_expr("index"));
        return result;
      case Op::kSqueeze:
        result = coords;
        for (int64_t d : sorted_dims(node)) result.insert(result.begin() + d, Expr(0));
        return result;
      case Op::kUnsqueeze: {
        const std::vector<int64_t> dims = sorted_dims(node);
        for (size_t d = 0; d < coords.size(); ++d) {
          if (!contains(dims, d)) result.push_back(coords[d]);
        }
        return result;
      }
      default:
        refuse(std::string(node.info().text) + " is an index map without code");
    }
  }

  static std::vector<int64_t> sorted_dims(const Node& node) {
    std::vector<int64_t> dims = node.attr_ints("dims");
    std::sort(dims.begin(), dims.end());
    return dims;
  }

  // True, false, or not known before running.
  std::optional<bool> decide(const Bound& b) const {
    if (p_.space.below(b.index, b.low) || p_.space.below(b.high - 1, b.index)) return false;
    if (p_.space.not_negative(b.index - b.low) && p_.space.below(b.index, b.high)) return true;
    return std::nullopt;
  }

  static Guard joined(Guard a, const Guard& b) {
    for (const Bound& bound : b) {
      if (std::find(a.begin(), a.end(), bound) == a.end()) a.push_back(bound);
    }
    return a;
  }

  int make_concat(const Value* v, const Coords& coords, const Guard& guard) {
    const Node& node = *v->node;
    const int64_t dim = node.attr_int("dim");
    ProgramStep step = step_of(Kind::kSelect, v);
    Expr start = 0;
    for (const Value* operand : node.operands) {
      const Expr end = start + operand->type.shape[dim];
      const Bound inside{coords[dim], start, end};
      const std::optional<bool> known = decide(inside);
      Coords at = coords;
      at[dim] = coords[dim] - start;
      if (known == true) return element(operand, at, guard);
      start = end;
      if (known == false || operand->type.shape[dim].is_constant(0)) continue;
      step.operands.push_back(element(operand, at, joined(guard, {inside})));
      step.choices.push_back({inside});
    }
    // Of nothing but empty operands no element is ever asked for.
    if (step.operands.empty()) return element(node.operand(0), coords, joined(guard, {Bound{0, 0, 0}}));
    step.choices.pop_back();
    if (step.operands.size() == 1) return step.operands[0];
    return add(step);
  }

  int make_pad(const Value* v, const Coords& coords, const Guard& guard) {
    const Node& node = *v->node;
    const std::vector<Expr>&low = node.attr_exprs("low"), &high = node.attr_exprs("high");
    const std::vector<Expr>& from = node.operand(0)->type.shape;
    Guard inside;
    Coords at = coords;
    for (size_t d = 0; d < from.size(); ++d) {
      if (low[d].is_constant(0) && high[d].is_constant(0)) continue;
      at[d] = coords[d] - low[d];
      const Bound bound{coords[d], low[d], low[d] + from[d]};
      const std::optional<bool> known = decide(bound);
      if (known == false) return element(node.operand(1), {}, guard);
      if (!known) inside.push_back(bound);
    }
    if (inside.empty()) return element(node.operand(0), at, guard);
    ProgramStep step = step_of(Kind::kSelect, v);
    step.operands = {element(node.operand(0), at, joined(guard, inside)), element(node.operand(1), {}, guard)};
    step.choices = {inside};
    return add(step);
  }

  // ---- picks

  // sum over `dim` of where(iota along dim == target, value, 0).
  struct Pick {
    int64_t dim = 0;
    const Value *target = nullptr, *value = nullptr;
  };

  std::optional<Pick> pick_of(const Node& sum) const {
    if (sum.op != Op::kSum || sum.attr_ints("dims").size() != 1 || !is_float(sum.type().dtype)) return std::nullopt;
    const Pick at{sum.attr_ints("dims")[0], nullptr, nullptr};
    const Node* where = maker(sum.operand(0), Op::kWhere);
    const Node* equal = where ? maker(where->operand(0), Op::kEq) : nullptr;
    const Node* zero = where ? maker(where->operand(2), Op::kConstant) : nullptr;
    const auto* number = zero ? std::get_if<double>(zero->find_attr("value")) : nullptr;
    if (!equal || !number || *number != 0 || where->operand(1)->type.shape != where->type().shape) return std::nullopt;
    if (p_.body->symbols().range(where->type().shape[at.dim]).lower < 1) return std::nullopt;
    for (int i : {0, 1}) {
      const Node* index = maker(equal->operand(i), Op::kIota);
      const Value* target = equal->operand(1 - i);
      const bool fits = index && index->type().shape == where->type().shape && index->attr_int("dim") == at.dim;
      if (fits && repeats_along(target, at.dim) && may_be_picked(where->operand(1)))
        return Pick{at.dim, target, where->operand(1)};
    }
    return std::nullopt;
  }

  const Node* maker(const Value* v, Op op) const {
    return !parameter_index_.count(v) && v->node && v->node->op == op ? v->node : nullptr;
  }

  bool repeats_along(const Value* v, int64_t dim) const {
    if (v->type.rank() == 0) return true;
    const Node* expand = maker(v, Op::kExpand);
    if (!expand) return false;
    const std::vector<Expr>& from = expand->operand(0)->type.shape;
    const auto lead = static_cast<int64_t>(v->type.shape.size() - from.size());
    return dim < lead || from[dim - lead].is_constant(1);
  }

  // Whether only loads of it depend on where it is.
  bool may_be_picked(const Value* v) const {
    if (parameter_index_.count(v) || !v->type.is_tensor() || v->type.rank() == 0) return true;
    const Node& node = *v->node;
    const bool is_map = node.op == Op::kReshape || node.op == Op::kPermute || node.op == Op::kExpand ||
                        node.op == Op::kSlice || node.op == Op::kFlip || node.op == Op::kSelect ||
                        node.op == Op::kSqueeze || node.op == Op::kUnsqueeze || node.op == Op::kFull;
    if (node.category() == Category::kReduction) return true;
    if (!is_map && node.category() != Category::kPointwise) return false;
    return std::all_of(node.operands.begin(), node.operands.end(),
                       [&](const Value* operand) { return may_be_picked(operand); });
  }

  int make_picked(const Value* v, const Pick& pick, const Coords& coords, const Guard& guard) {
    const Expr& size = pick.value->type.shape[pick.dim];
    Coords at = coords;
    if (v->type.rank() == pick.value->type.rank()) at.erase(at.begin() + pick.dim);  // keepdim
    at.insert(at.begin() + pick.dim, Expr(0));
    ProgramStep step = step_of(Kind::kPicked, v);
    step.index = size;
    const int target = element(pick.target, pick.target->type.rank() == 0 ? Coords{} : at, guard);
    const Expr place = p_.space.add_axis(size);
    picks_.emplace_back(place.symbol_name(), target);
    at[pick.dim] = place;
    step.operands = {target, element(pick.value, at, guard)};
    return add(step);
  }

  // ---- products of matrices

  int make_product(const Value* v, const Coords& coords) {
    const Node& node = *v->node;
    if (v->type.shape != root_shape_ || coords != root_coords_)
      refuse("%" + v->name + " is used at other elements than it is computed in");
    const Expr m = Expr::symbol(p_.matrix.m), n = Expr::symbol(p_.matrix.n), k = Expr::symbol(p_.matrix.k);
    Coords left = coords, right = coords;
    left.back() = k;
    right[right.size() - 2] = k;
    ProgramProduct product;
    product.node = &node;
    product.dtype = node.operand(0)->type.dtype;
    product.tf32 = node.attr_string("precision") == "tf32";
    product.lhs = element(node.operand(0), left, {});
    product.rhs = element(node.operand(1), right, {});
    if (p_.products.size() == 2) refuse("three products of matrices");
    if (!p_.products.empty() && (p_.products[0].lhs != product.lhs || p_.products[0].tf32 != product.tf32))
      refuse("two products of matrices have unlike left operands");
    ProgramStep step = step_of(Kind::kProduct, v);
    step.product = static_cast<int>(p_.products.size());
    step.uses_kept = true;
    product.result = add(step);
    p_.products.push_back(product);
    return product.result;
  }

  // ---- reductions

  int make_reduced(const Value* v, const Coords& coords) {
    const Node& node = *v->node;
    const std::vector<int64_t> dims = reduced_dims(node);
    const std::vector<Expr>& shape = node.operand(0)->type.shape;
    const Parts parts = split_dims(shape, dims);
    if (product(parts.kept) != product(row_shape_.kept) || product(parts.reduced) != product(row_shape_.reduced)) {
      refuse("%" + v->name + " reduces other dimensions than %" + root_reduction_->result()->name);
    }
    Parts row;
    row.kept = reshape_coords(p_.space, row_coords_.kept, row_shape_.kept, parts.kept);
    row.reduced = reshape_coords(p_.space, row_coords_.reduced, row_shape_.reduced, parts.reduced);
    Coords kept = coords;
    if (node.attr_bool("keepdim")) kept = split_dims(coords, dims).kept;
    if (kept != row.kept) refuse("%" + v->name + " is used at other rows than it is computed in");
    ProgramStep step = step_of(Kind::kReduced, v);
    step.reduction = reduction_of(node, join_dims(row, dims), linearize(row.reduced, parts.reduced));
    step.result = v->index;
    step.stage = p_.reductions[step.reduction].stage + 1;
    step.uses_kept = true;
    return add(step);
  }

  int reduction_of(const Node& node, const Coords& operand_coords, const Expr& position) {
    auto it = reduction_ids_.find(&node);
    if (it != reduction_ids_.end()) return it->second;
    ProgramReduction r;
    r.node = &node;
    r.operand = element(node.operand(0), operand_coords, {});
    r.stage = p_.steps[r.operand].stage;
    r.position = position;
    p_.reductions.push_back(r);
    const int id = static_cast<int>(p_.reductions.size()) - 1;
    reduction_ids_.emplace(&node, id);
    return id;
  }

  ElementProgram p_;
  std::map<const Value*, int> parameter_index_;
  std::vector<Expr> root_shape_;
  Coords root_coords_;
  Parts row_shape_, row_coords_;
  const Node* root_reduction_ = nullptr;
  std::vector<std::pair<std::string, int>> picks_;  // symbols of places, the steps that say where
  std::map<const Value*, Coords> related_;          // coordinates of values in terms of the axes
  std::map<Coords, int> coords_ids_;
  std::map<std::vector<std::tuple<Expr, Expr, Expr>>, int> guard_ids_;
  std::map<std::tuple<const Value*, int, int>, int> known_;
  std::map<const Node*, int> reduction_ids_;
};

}  // namespace

ElementProgram make_program(const Graph& body) { return ProgramMaker(body).make(); }

}  // namespace tilewright
