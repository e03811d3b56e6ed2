#include "schedule/access_pricing.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tilewright {
namespace {

using Kind = ProgramStep::Kind;

// One access of the program: a load, or the store of an output.
struct AccessView {
  const Expr& index;
  const Guard& guard;
  DType dtype;
  const Type& memory;
  const std::string& name;
  bool is_store;
  bool per_row;
};

template <typename F>
void for_each_access(const ElementProgram& p, F visit) {
  static const Guard kNoGuard;
  for (const ProgramStep& s : p.steps) {
    if (s.kind == Kind::kLoad) visit(AccessView{s.index, s.guard, s.dtype, s.value->type, s.value->name, false, false});
  }
  for (const ProgramStore& s : p.stores) {
    const Value* v = p.body->outputs()[s.output].tensor();
    visit(AccessView{s.index, kNoGuard, s.dtype, s.into ? s.into->type : v->type, v->name, true, s.per_row});
  }
}

double hint(const ElementProgram& p, const Expr& e) { return static_cast<double>(p.space.table().hint(e)); }

// Elements of the iteration space that differ for this index: the product of the sizes of its axes.
double touched(const ElementProgram& p, const Expr& index) {
  double n = 1;
  for (const ProgramAxis& a : p.axes) {
    if (p.space.depends_on(index, a.symbol)) n *= std::max(hint(p, a.size), 1.0);
  }
  return n;
}

// Bytes of 32-byte sectors that the elements use, where consecutive threads step along `axis`.
double sector_efficiency(const ElementProgram& p, const AccessView& a, const std::string& axis) {
  if (axis.empty() || !p.space.depends_on(a.index, axis)) return 1;
  const std::optional<Expr> c = p.space.coefficient(a.index, axis);
  const double size = static_cast<double>(bytes(a.dtype));
  double stride = c ? std::abs(hint(p, *c)) : 1;
  if (stride < 1) stride = 1;
  // Short runs along the axis waste the ends of their sectors.
  const double run = std::max(hint(p, p.space.size(axis)), 1.0) * size;
  const double ends = stride > 1 ? 1 : run / (std::ceil(run / 32) * 32);
  return std::max(std::min(1.0, 1 / stride), size / 32) * (run < 128 ? ends : 1);
}

int64_t saturating_byte_bound(const ElementProgram& p, const Type& memory, bool at_hint) {
  const std::vector<Expr> strides = memory_strides(memory);
  __int128 last = 0;
  for (size_t d = 0; d < memory.shape.size(); ++d) {
    const SymbolTable& t = p.body->symbols();
    const int64_t size = at_hint ? t.hint(memory.shape[d]) : t.range(memory.shape[d]).upper;
    const int64_t stride = at_hint ? t.hint(strides[d]) : t.range(strides[d]).upper;
    last += static_cast<__int128>(std::max<int64_t>(size - 1, 0)) * stride;
    if (last > INT64_MAX / 16) return INT64_MAX;
  }
  return static_cast<int64_t>(last + 1) * bytes(memory.dtype);
}

}  // namespace

VectorFacts vector_facts(const ElementProgram& p, const std::string& axis, int lanes) {
  VectorFacts facts;
  if (axis.empty() || lanes == 1) return facts;
  for_each_access(p, [&](const AccessView& a) {
    if (a.per_row) return;
    const LaneAccess access = lane_access(p, a.index, a.guard, axis, lanes, a.dtype, /*alignment=*/16);
    if (access.kind != LaneAccess::Kind::kVector || access.width == 1) return;
    facts.any_vector = true;
    facts.alignment = std::max<int64_t>(facts.alignment, access.width * bytes(a.dtype));
    for (const Expr& e : access.assumed) {
      const std::pair<Expr, int64_t> fact{e, access.width};
      if (std::find(facts.divisible.begin(), facts.divisible.end(), fact) == facts.divisible.end())
        facts.divisible.push_back(fact);
      if (p.body->symbols().hint(e) % access.width != 0) facts.holds_at_hint = false;
    }
  });
  return facts;
}

int preferred_lanes(const ElementProgram& p, const std::string& axis) {
  std::map<int64_t, double> traffic;  // by element size
  for_each_access(p, [&](const AccessView& a) {
    if (a.per_row || axis.empty()) return;
    const LaneAccess access = lane_access(p, a.index, a.guard, axis, 2, a.dtype, 16);
    const bool consecutive =
        access.kind == LaneAccess::Kind::kVector || (access.kind == LaneAccess::Kind::kStrided && access.stride == 1);
    if (consecutive) traffic[bytes(a.dtype)] += touched(p, a.index) * bytes(a.dtype);
  });
  if (traffic.empty()) return 1;
  const auto most =
      std::max_element(traffic.begin(), traffic.end(), [](auto& a, auto& b) { return a.second < b.second; });
  return static_cast<int>(16 / most->first);
}

IndexRange index_range(const ElementProgram& p) {
  constexpr int64_t kLimit = int64_t{1} << 31;
  IndexRange range{true, true};
  const SymbolTable& table = p.body->symbols();
  // The iteration count itself is an index too.
  const Expr elements = p.rows() * p.row_length();
  range.always_32bit = table.range(elements).upper < kLimit;
  range.hint_32bit = table.hint(elements) < kLimit;
  for_each_access(p, [&](const AccessView& a) {
    range.always_32bit = range.always_32bit && saturating_byte_bound(p, a.memory, false) < kLimit;
    range.hint_32bit = range.hint_32bit && saturating_byte_bound(p, a.memory, true) < kLimit;
  });
  return range;
}

void price_accesses(const ElementProgram& p, const std::string& vector_axis, Footprint& footprint) {
  const int stages = p.stages();
  (void)stages;
  for_each_access(p, [&](const AccessView& a) {
    Footprint::Access access;
    access.value = a.name;
    access.is_store = a.is_store;
    const double size = static_cast<double>(bytes(a.dtype));
    double unique = touched(p, a.index);
    if (!a.guard.empty()) unique = std::min(unique, std::max(hint(p, a.memory.numel()), 0.0));
    access.unique_bytes = std::min(unique, std::max(hint(p, a.memory.numel()), 0.0)) * size;
    access.bytes = std::max(access.unique_bytes, unique * size);
    access.efficiency = sector_efficiency(p, a, vector_axis);
    footprint.accesses.push_back(access);
  });
}

void price_operations(const ElementProgram& p, Footprint& footprint) {
  double rows = 1, elements = 1;
  for (const ProgramAxis& a : p.axes) {
    elements *= hint(p, a.size);
    if (!a.reduced) rows *= hint(p, a.size);
  }
  auto count = [&](CostClass cost, DType dtype, double n) {
    const bool is_f64 = dtype == DType::kF64;
    double& fma = is_f64 ? footprint.fma_f64 : footprint.fma_f32;
    switch (cost) {
      case CostClass::kFree:
        break;
      case CostClass::kMove:
        footprint.alu += n;
        break;
      case CostClass::kAlu:
        (is_float(dtype) ? fma : footprint.alu) += n;
        break;
      case CostClass::kMul:
        fma += n;
        break;
      case CostClass::kSfu:
        fma += 6 * n;
        footprint.sfu += n;
        break;
      case CostClass::kTranscendental:
        fma += 20 * n;
        footprint.sfu += 2 * n;
        break;
      case CostClass::kDivision:
        fma += 8 * n;
        footprint.sfu += n;
        break;
      case CostClass::kReduce:
        fma += n;
        break;
      case CostClass::kOpaque:
        break;
    }
    // Conversions to and from the 16-bit type.
    if (dtype == DType::kF16 || dtype == DType::kBF16) footprint.alu += n;
  };
  for (const ProgramStep& s : p.steps) {
    const double n = s.uses_reduced || !p.has_reductions() ? elements : rows;
    if (s.kind == Kind::kPointwise)
      count(s.node->info().cost, s.node->operand(0)->type.is_tensor() ? s.node->operand(0)->type.dtype : s.dtype, n);
    if (s.kind == Kind::kSelect) footprint.alu += n;
  }
  for (const ProgramReduction& r : p.reductions)
    count(CostClass::kReduce, compute_type(p.steps[r.operand].dtype), elements);
}

int estimate_registers(const ElementProgram& p, int lanes, int fragments) {
  double live = 0;
  for (const ProgramStep& s : p.steps) {
    if (s.kind != Kind::kLoad) continue;
    live += std::max(1.0, static_cast<double>(lanes * bytes(s.dtype)) / 4);
  }
  // Inputs wait in packed form; one fragment at a time is unpacked into 32-bit registers, two values a lane.
  return static_cast<int>(std::min(255.0, 20 + live * fragments + 2 * lanes));
}

}  // namespace tilewright
