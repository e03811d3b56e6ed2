#include <algorithm>
#include <bit>
#include <numeric>

#include "schedule/element_program.h"

namespace tilewright {
namespace {

// The space with a symbol q for which axis = lanes * q, so that residues below `lanes` fall out of divisions.
struct LaneSpace {
  LaneSpace(const ElementProgram& program, const std::string& axis, int lanes) : space(program.space), axis(axis) {
    first = space.add_axis(program.space.size(axis), lanes);
  }
  Expr at(const Expr& e, int64_t lane) const { return space.rewrite(e, {{axis, first + lane}}); }

  IndexSpace space;
  std::string axis;
  Expr first = 0;
};

// Factors that must divide by `width` for `start` to do so; nothing where a term never will.
std::optional<std::vector<Expr>> alignment_facts(const IndexSpace& space, const Expr& start, int64_t width) {
  std::vector<Expr> facts;
  for (const Expr& term : sum_terms(start)) {
    if (space.table().is_divisible(term, width)) continue;
    Expr sizes = 1;
    bool symbolic = false;
    for (const Expr& f : product_factors(term)) {
      const std::vector<std::string> symbols = f.symbols();
      const bool on_axis =
          std::any_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return space.is_axis(s); });
      if (on_axis) continue;
      sizes = sizes * f;
      symbolic = symbolic || !f.constant();
    }
    if (!symbolic) return std::nullopt;
    if (std::find(facts.begin(), facts.end(), sizes) == facts.end()) facts.push_back(sizes);
  }
  return facts;
}

// Makes consecutive elements one access of the greatest width to which `start`, the index at lane 0 but for multiples
// of `lanes`, is aligned.
void widen(LaneAccess& access, const IndexSpace& space, const Expr& start, int lanes, DType dtype, int64_t alignment) {
  const int64_t most = std::min<int64_t>({lanes, 16 / bytes(dtype), alignment / bytes(dtype)});
  for (int64_t width = std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(most, 1))); width > 1; width /= 2) {
    if (lanes % width != 0) continue;
    auto facts = alignment_facts(space, start, width);
    if (!facts) continue;
    access.kind = LaneAccess::Kind::kVector;
    access.width = static_cast<int>(width);
    access.assumed = *facts;
    return;
  }
}

}  // namespace

bool uniform_guard(const ElementProgram& program, const Guard& guard, const std::string& axis, int lanes) {
  if (lanes == 1 || guard.empty()) return true;
  const LaneSpace lane_space(program, axis, lanes);
  for (const Bound& b : guard) {
    if (!program.space.depends_on(b.index, axis)) continue;
    const Expr first = lane_space.at(b.index, 0);
    if (lane_space.at(b.index, lanes - 1) - first != Expr(lanes - 1)) return false;
    // index = lanes*k .. lanes*k + lanes-1 against multiples of lanes.
    const SymbolTable& table = lane_space.space.table();
    if (!table.is_divisible(first - b.low, lanes) || !table.is_divisible(first - b.high, lanes)) return false;
  }
  return true;
}

LaneAccess lane_access(const ElementProgram& program, const Expr& index, const Guard& guard, const std::string& axis,
                       int lanes, DType dtype, int64_t alignment) {
  LaneAccess access;
  if (axis.empty() || !program.space.depends_on(index, axis)) {
    // One element for all lanes, provided that it may be read for all of them or for none.
    access.kind = uniform_guard(program, guard, axis, lanes) || axis.empty() ? LaneAccess::Kind::kUniform
                                                                             : LaneAccess::Kind::kStrided;
    return access;
  }
  if (lanes == 1) {
    access.kind = LaneAccess::Kind::kVector;
    return access;
  }
  const bool guards_agree = uniform_guard(program, guard, axis, lanes);
  const std::optional<Expr> factor = program.space.coefficient(index, axis);
  if (factor && factor->constant()) {  // the common case, without rewriting
    access.kind = LaneAccess::Kind::kStrided;
    access.stride = *factor->constant();
    if (access.stride != 1 || !guards_agree) return access;
    widen(access, program.space, index - Expr::symbol(axis), lanes, dtype, alignment);
    return access;
  }
  const LaneSpace lane_space(program, axis, lanes);
  const Expr first = lane_space.at(index, 0);
  std::vector<int64_t> distance;
  for (int lane = 0; lane < lanes; ++lane) {
    const std::optional<int64_t> d = (lane_space.at(index, lane) - first).constant();
    if (!d) return access;  // scattered
    distance.push_back(*d);
  }
  const bool uniform = std::all_of(distance.begin(), distance.end(), [](int64_t d) { return d == 0; });
  if (uniform && guards_agree) {
    access.kind = LaneAccess::Kind::kUniform;
    return access;
  }
  access.stride = distance[1];
  for (int lane = 0; lane < lanes; ++lane) {
    if (distance[lane] != access.stride * lane) return access;
  }
  access.kind = LaneAccess::Kind::kStrided;
  if (access.stride != 1 || !guards_agree) return access;
  widen(access, lane_space.space, first, lanes, dtype, alignment);
  return access;
}

}  // namespace tilewright
