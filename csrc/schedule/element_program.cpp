#include "schedule/element_program.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "schedule/program_maker.h"
#include "support/error.h"

namespace tilewright {
namespace {

using Kind = ProgramStep::Kind;

// Applies `change` to every expression over axes that the program holds.
template <typename F>
void for_each_index(ElementProgram& p, F change) {
  auto guard = [&](Guard& g) {
    for (Bound& b : g) change(b.index);
  };
  for (ProgramStep& s : p.steps) {
    if (s.kind == Kind::kLoad || s.kind == Kind::kIndex) change(s.index);
    guard(s.guard);
    for (Guard& g : s.choices) guard(g);
  }
  for (ProgramStore& s : p.stores) change(s.index);
  for (ProgramReduction& r : p.reductions) {
    if (r.node->op == Op::kArgmax || r.node->op == Op::kArgmin) change(r.position);
  }
}

// Whether e sees the axes `outer` and `inner` only through outer * size(inner) + inner.
bool collapses(const IndexSpace& space, const Expr& e, const std::string& outer, const std::string& inner) {
  Expr outer_factor = 0, inner_factor = 0;
  const Expr o = Expr::symbol(outer), i = Expr::symbol(inner);
  for (const Expr& term : sum_terms(e)) {
    const bool on_outer = space.depends_on(term, outer), on_inner = space.depends_on(term, inner);
    if (!on_outer && !on_inner) continue;
    Expr factor = 1;
    int axes = 0;
    bool nested = false;
    for (const Expr& f : product_factors(term)) {
      if (f == o || f == i) {
        ++axes;
        continue;
      }
      factor = factor * f;
      if (!space.depends_on(f, outer) && !space.depends_on(f, inner)) continue;
      nested = true;
      for (const Expr& operand : f.operands()) {
        if (!collapses(space, operand, outer, inner)) return false;
      }
    }
    if (nested) {
      if (axes != 0) return false;
      continue;
    }
    if (axes != 1) return false;
    (on_outer ? outer_factor : inner_factor) = (on_outer ? outer_factor : inner_factor) + factor;
  }
  return outer_factor == inner_factor * space.size(inner);
}

// Order of axes in memory: those of the access that moves most come first by stride. Returns the index expression whose
// strides decide.
Expr leading_index(const ElementProgram& p) {
  if (!p.has_reductions()) return p.stores.front().index;
  const Expr* best = nullptr;
  int64_t most = -1;
  auto offer = [&](const Expr& index, DType dtype) {
    int64_t elements = 1;
    for (const ProgramAxis& axis : p.axes) {
      if (p.space.depends_on(index, axis.symbol)) elements *= std::max<int64_t>(p.space.table().hint(axis.size), 1);
    }
    if (elements * bytes(dtype) > most) {
      most = elements * bytes(dtype);
      best = &index;
    }
  };
  for (const ProgramStep& s : p.steps) {
    if (s.kind == Kind::kLoad) offer(s.index, s.dtype);
  }
  for (const ProgramStore& s : p.stores) offer(s.index, s.dtype);
  return *best;
}

void order_axes(ElementProgram& p) {
  if (p.has_products()) return;  // batches, m, n, k
  const Expr index = leading_index(p);
  std::map<std::string, int64_t> stride;
  for (const ProgramAxis& axis : p.axes) {
    const std::optional<Expr> c = p.space.coefficient(index, axis.symbol);
    if (!c) return;  // keep the order of the dimensions
    bool pure = true;
    for (const ProgramAxis& other : p.axes) pure = pure && !p.space.depends_on(*c, other.symbol);
    if (!pure) return;
    stride[axis.symbol] = std::abs(p.space.table().hint(*c));
  }
  std::stable_sort(p.axes.begin(), p.axes.end(), [&](const ProgramAxis& a, const ProgramAxis& b) {
    if (a.reduced != b.reduced) return !a.reduced;
    // A broadcast axis has stride 0 and stays where it is.
    if (stride[a.symbol] == 0 || stride[b.symbol] == 0) return false;
    return stride[a.symbol] > stride[b.symbol];
  });
}

void collapse_axes(ElementProgram& p) {
  for (size_t a = 0; a + 1 < p.axes.size();) {
    const ProgramAxis outer = p.axes[a], inner = p.axes[a + 1];
    bool all = outer.reduced == inner.reduced && !p.is_of_matrix(outer.symbol) && !p.is_of_matrix(inner.symbol);
    for_each_index(p, [&](Expr& e) { all = all && collapses(p.space, e, outer.symbol, inner.symbol); });
    if (!all) {
      ++a;
      continue;
    }
    const Expr size = outer.size * inner.size;
    const Expr merged = p.space.add_axis(size);
    const std::map<std::string, Expr> values = {{outer.symbol, 0}, {inner.symbol, merged}};
    for_each_index(p, [&](Expr& e) { e = p.space.rewrite(e, values); });
    p.axes[a] = {merged.symbol_name(), size, outer.reduced};
    p.axes.erase(p.axes.begin() + a + 1);
    if (a > 0) --a;
  }
}

void mark_uses(ElementProgram& p) {
  auto mark = [&](ProgramStep& s, const Expr& e) {
    for (const ProgramAxis& axis : p.axes) {
      if (p.space.depends_on(e, axis.symbol)) (axis.reduced ? s.uses_reduced : s.uses_kept) = true;
    }
  };
  for (ProgramStep& s : p.steps) {
    if (s.kind == Kind::kLoad || s.kind == Kind::kIndex) mark(s, s.index);
    for (const Bound& b : s.guard) mark(s, b.index);
    for (const Guard& g : s.choices) {
      for (const Bound& b : g) mark(s, b.index);
    }
    for (int o : s.operands) {
      s.uses_kept |= p.steps[o].uses_kept;
      s.uses_reduced |= p.steps[o].uses_reduced;
    }
  }
}

void find_online_sums(ElementProgram& p) {
  auto is = [&](int step, Op op) { return p.steps[step].kind == Kind::kPointwise && p.steps[step].node->op == op; };
  for (ProgramReduction& r : p.reductions) {
    const DType type = p.steps[r.operand].dtype;
    if (r.node->op != Op::kSum || (type != DType::kF32 && type != DType::kF64) || !is(r.operand, Op::kExp)) continue;
    const int difference = p.steps[r.operand].operands[0];
    if (!is(difference, Op::kSub)) continue;
    const int x = p.steps[difference].operands[0];
    const ProgramStep& subtracted = p.steps[p.steps[difference].operands[1]];
    if (subtracted.kind != Kind::kReduced) continue;
    const ProgramReduction& maximum = p.reductions[subtracted.reduction];
    if (maximum.node->op == Op::kMax && maximum.operand == x) r.maximum = subtracted.reduction;
  }
}

// A parameter that is written may be read only at the element that is written, by whoever writes it.
void check_in_place(const ElementProgram& p) {
  for (const ProgramStore& store : p.stores) {
    if (!store.into) continue;
    for (const ProgramStep& s : p.steps) {
      if (s.kind != Kind::kLoad || p.parameter(s.parameter) != store.into) continue;
      if (s.index != store.index)
        throw ProgramRefusal{"%" + store.into->name + " is written in place and read at other elements"};
      if (!store.per_row) continue;
      // Every thread of a row would read it, at any time before or after the one that writes.
      std::vector<int> roots;
      roots.reserve(p.reductions.size() + p.stores.size());
      for (const ProgramReduction& r : p.reductions) roots.push_back(r.operand);
      for (const ProgramStore& other : p.stores) {
        if (!other.per_row) roots.push_back(other.step);
      }
      if (p.needed_by(roots)[&s - p.steps.data()])
        throw ProgramRefusal{"%" + store.into->name + " is written once a row and read by the whole row"};
    }
  }
}

}  // namespace

ElementProgram flatten_axes(const ElementProgram& program) {
  ElementProgram p = program;
  const Expr size = p.rows(), whole = p.space.add_axis(size);
  std::map<std::string, Expr> values;
  Expr rest = whole;
  for (size_t a = p.axes.size(); a-- > 1;) {
    values.emplace(p.axes[a].symbol, p.space.mod(rest, p.axes[a].size));
    rest = p.space.div(rest, p.axes[a].size);
  }
  values.emplace(p.axes[0].symbol, rest);
  for_each_index(p, [&](Expr& e) { e = p.space.recombine(p.space.rewrite(e, values)); });
  p.axes = {{whole.symbol_name(), size, /*reduced=*/false}};
  return p;
}

std::vector<Expr> memory_strides(const Type& type) { return type.strides ? *type.strides : type.contiguous_strides(); }

bool ElementProgram::is_of_matrix(const std::string& axis) const {
  return has_products() && (axis == matrix.m || axis == matrix.n || axis == matrix.k);
}

std::vector<ProgramAxis> ElementProgram::kept() const {
  std::vector<ProgramAxis> result;
  std::copy_if(axes.begin(), axes.end(), std::back_inserter(result), [](const ProgramAxis& a) { return !a.reduced; });
  return result;
}

std::vector<ProgramAxis> ElementProgram::reduced() const {
  std::vector<ProgramAxis> result;
  std::copy_if(axes.begin(), axes.end(), std::back_inserter(result), [](const ProgramAxis& a) { return a.reduced; });
  return result;
}

Expr ElementProgram::rows() const {
  Expr size = 1;
  for (const ProgramAxis& a : axes) size = a.reduced ? size : size * a.size;
  return size;
}

Expr ElementProgram::row_length() const {
  Expr size = 1;
  for (const ProgramAxis& a : axes) size = a.reduced ? size * a.size : size;
  return size;
}

int ElementProgram::stages() const {
  int stages = 0;
  for (const ProgramReduction& r : reductions) stages = std::max(stages, r.stage + 1);
  return stages;
}

void ElementProgram::set_online(bool value) {
  online = value;
  for (ProgramStep& s : steps) {
    s.stage = 0;
    for (int o : s.operands) s.stage = std::max(s.stage, steps[o].stage);
    if (s.kind != Kind::kReduced) continue;
    ProgramReduction& r = reductions[s.reduction];
    r.stage = is_online(r) ? reductions[r.maximum].stage : steps[r.operand].stage;
    s.stage = r.stage + 1;
  }
}

std::vector<bool> ElementProgram::varying(const std::string& axis) const {
  std::vector<bool> result(steps.size(), false);
  auto on = [&](const Guard& guard) {
    return std::any_of(guard.begin(), guard.end(), [&](const Bound& b) { return space.depends_on(b.index, axis); });
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    const ProgramStep& s = steps[i];
    result[i] = space.depends_on(s.index, axis) || on(s.guard) || std::any_of(s.choices.begin(), s.choices.end(), on) ||
                std::any_of(s.operands.begin(), s.operands.end(), [&](int o) { return result[o]; });
  }
  return result;
}

std::vector<bool> ElementProgram::needed_by(const std::vector<int>& roots) const {
  std::vector<bool> needed(steps.size(), false);
  for (int r : roots) needed[r] = true;
  for (size_t i = steps.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (int o : steps[i].operands) needed[o] = true;
  }
  return needed;
}

int ElementProgram::times_needed(int step) const {
  int times = 0;
  for (int stage = 0; stage <= stages(); ++stage) {
    std::vector<int> roots;
    for (const ProgramReduction& r : reductions) {
      if (r.stage == stage) roots.push_back(input_of(r));
    }
    if (stage == stages()) {
      for (const ProgramStore& s : stores) {
        if (!s.per_row) roots.push_back(s.step);
      }
    }
    times += needed_by(roots)[step];
  }
  return times;
}

ProgramResult make_element_program(const Graph& body) {
  ProgramResult result;
  try {
    ElementProgram program = make_program(body);
    order_axes(program);
    collapse_axes(program);
    mark_uses(program);
    find_online_sums(program);
    check_in_place(program);
    result.program = std::move(program);
  } catch (const ProgramRefusal& refusal) {
    result.why_not = refusal.why;
  }
  return result;
}

}  // namespace tilewright
