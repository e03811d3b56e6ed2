#include "schedule/access_pricing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

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

AccessView load_view(const ProgramStep& s) {
  return {s.index, s.guard, s.dtype, s.value->type, s.value->name, false, false};
}

AccessView store_view(const ElementProgram& p, const ProgramStore& s) {
  static const Guard kNoGuard;
  const Value* v = p.body->outputs()[s.output].tensor();
  return {s.index, kNoGuard, s.dtype, s.into ? s.into->type : v->type, v->name, true, s.per_row};
}

template <typename F>
void for_each_access(const ElementProgram& p, F visit) {
  for (const ProgramStep& s : p.steps) {
    if (s.kind == Kind::kLoad) visit(load_view(s));
  }
  for (const ProgramStore& s : p.stores) visit(store_view(p, s));
}

double hint(const ElementProgram& p, const Expr& e) { return static_cast<double>(p.space.table().hint(e)); }

constexpr int kWarp = 32;
constexpr int64_t kSectorBytes = 32;
// Runs of this many bytes waste nothing to speak of at their ends.
constexpr double kLongRunBytes = 1024;

// Byte offsets of one access of the first warp, at the hints: [thread][element of its vector].
std::vector<std::vector<int64_t>> warp_offsets(const ElementProgram& p, const AccessView& a, const WarpWalk& walk) {
  std::map<std::string, int64_t> at;
  for (const Symbol& s : p.space.table().symbols()) at[s.name] = s.hint;
  for (const ProgramAxis& axis : p.axes) at[axis.symbol] = 0;
  const std::optional<Expr> per_lane = p.space.coefficient(a.index, walk.front().axis);
  std::vector<std::vector<int64_t>> offsets;
  for (int thread = 0; thread < kWarp; ++thread) {
    int64_t rest = thread;
    for (const WalkEntry& entry : walk) {
      const int64_t count = std::max<int64_t>(entry.count, 1);
      at[entry.axis] = rest % count * entry.step;
      rest /= count;
    }
    if (rest > 0) break;  // all the threads there are
    const int64_t first = a.index.evaluate(at);
    std::vector<int64_t> of_thread;
    for (int64_t lane = 0; lane < walk.front().step; ++lane) {
      int64_t offset = first;
      if (per_lane) {
        offset += lane * per_lane->evaluate(at);
      } else if (lane > 0) {
        std::map<std::string, int64_t> lane_at = at;
        lane_at[walk.front().axis] += lane;
        offset = a.index.evaluate(lane_at);
      }
      of_thread.push_back(offset * bytes(a.dtype));
    }
    offsets.push_back(std::move(of_thread));
  }
  return offsets;
}

// Bytes that a warp uses, over those of the 32-byte sectors that it touches. Sectors that a thread's loads touch
// several times come from the first-level cache; each store goes out by itself.
double sector_efficiency(const ElementProgram& p, const AccessView& a, const WarpWalk& walk) {
  if (walk.empty() || walk.front().axis.empty() || !p.space.depends_on(a.index, walk.front().axis)) return 1;
  const auto size = static_cast<double>(bytes(a.dtype));
  const std::optional<Expr> c = p.space.coefficient(a.index, walk.front().axis);
  const bool is_dense = c && c->is_constant(1);
  if (is_dense && hint(p, p.space.size(walk.front().axis)) * size >= kLongRunBytes) return 1;
  std::set<int64_t> elements, sectors;
  size_t moved = 0;
  const std::vector<std::vector<int64_t>> offsets = warp_offsets(p, a, walk);
  const bool together = !a.is_store || is_dense;
  for (size_t lane = 0; lane < offsets.front().size(); ++lane) {
    if (!together) sectors.clear();
    for (const std::vector<int64_t>& of_thread : offsets) {
      elements.insert(of_thread[lane]);
      sectors.insert(of_thread[lane] / kSectorBytes);
    }
    moved = together ? sectors.size() : moved + sectors.size();
  }
  return std::min(1.0, static_cast<double>(elements.size()) * size / static_cast<double>(moved * kSectorBytes));
}

void price_access(const ElementProgram& p, const AccessView& a, const WarpWalk& walk, Footprint& footprint) {
  Footprint::Access access;
  access.value = a.name;
  access.is_store = a.is_store;
  const auto size = static_cast<double>(bytes(a.dtype));
  double unique = elements_touched(p, a.index);
  if (!a.guard.empty()) unique = std::min(unique, std::max(hint(p, a.memory.numel()), 0.0));
  access.unique_bytes = std::min(unique, std::max(hint(p, a.memory.numel()), 0.0)) * size;
  access.bytes = std::max(access.unique_bytes, unique * size);
  access.efficiency = sector_efficiency(p, a, walk);
  footprint.accesses.push_back(access);
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

double elements_touched(const ElementProgram& p, const Expr& index) {
  double n = 1;
  for (const ProgramAxis& a : p.axes) {
    if (p.space.depends_on(index, a.symbol)) n *= std::max(hint(p, a.size), 1.0);
  }
  return n;
}

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
    if (consecutive) traffic[bytes(a.dtype)] += elements_touched(p, a.index) * bytes(a.dtype);
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
  const Expr elements = p.has_products() ? p.rows() : p.rows() * p.row_length();
  range.always_32bit = table.range(elements).upper < kLimit;
  range.hint_32bit = table.hint(elements) < kLimit;
  for_each_access(p, [&](const AccessView& a) {
    range.always_32bit = range.always_32bit && saturating_byte_bound(p, a.memory, false) < kLimit;
    range.hint_32bit = range.hint_32bit && saturating_byte_bound(p, a.memory, true) < kLimit;
  });
  return range;
}

void price_accesses(const ElementProgram& p, const WarpWalk& walk, Footprint& footprint) {
  for_each_access(p, [&](const AccessView& a) { price_access(p, a, walk, footprint); });
}

void price_load(const ElementProgram& p, int step, const WarpWalk& walk, Footprint& footprint) {
  price_access(p, load_view(p.steps[step]), walk, footprint);
}

void price_store(const ElementProgram& p, int store, const WarpWalk& walk, Footprint& footprint) {
  price_access(p, store_view(p, p.stores[store]), walk, footprint);
}

namespace {

void price_times(CostClass cost, DType dtype, double times, Footprint& footprint) {
  double& fma = dtype == DType::kF64 ? footprint.fma_f64 : footprint.fma_f32;
  switch (cost) {
    case CostClass::kFree:
      break;
    case CostClass::kMove:
      footprint.alu += times;
      break;
    case CostClass::kAlu:
      (is_float(dtype) ? fma : footprint.alu) += times;
      break;
    case CostClass::kMul:
      fma += times;
      break;
    case CostClass::kSfu:
      fma += 6 * times;
      footprint.sfu += times;
      break;
    case CostClass::kTranscendental:
      fma += 20 * times;
      footprint.sfu += 2 * times;
      break;
    case CostClass::kDivision:
      fma += 8 * times;
      footprint.sfu += times;
      break;
    case CostClass::kReduce:
      fma += times;
      break;
    case CostClass::kContract:  // families price products by the unit that computes them
    case CostClass::kOpaque:
      break;
  }
  // Conversions to and from the 16-bit type.
  if (dtype == DType::kF16 || dtype == DType::kBF16) footprint.alu += times;
}

}  // namespace

void price_step(const ElementProgram& p, int step, double times, Footprint& footprint) {
  const ProgramStep& s = p.steps[step];
  if (s.kind == Kind::kPointwise) {
    const Type& operand = s.node->operand(0)->type;
    price_times(s.node->info().cost, operand.is_tensor() ? operand.dtype : s.dtype, times, footprint);
  }
  if (s.kind == Kind::kSelect) footprint.alu += times;
}

void price_operations(const ElementProgram& p, Footprint& footprint) {
  double rows = 1, elements = 1;
  for (const ProgramAxis& a : p.axes) {
    elements *= hint(p, a.size);
    if (!a.reduced) rows *= hint(p, a.size);
  }
  for (size_t i = 0; i < p.steps.size(); ++i)
    price_step(p, static_cast<int>(i), p.steps[i].uses_reduced || !p.has_reductions() ? elements : rows, footprint);
  for (const ProgramReduction& r : p.reductions)
    price_times(CostClass::kReduce, compute_type(p.steps[r.operand].dtype), elements, footprint);
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
