// The family `pointwise`: each thread computes `unroll` or `rows` vectors of `vec` elements along the innermost axis.
//
//   pointwise vec=8 rows=1 unroll=1 threads=128 index_bits=32 align=16
//
// vec         elements a vector; where there are outer axes the innermost one is a multiple of it
// rows        neighbours along the axis outside the innermost one that a thread computes, so that what does not vary
//             along it (a bias, a norm's parameters) is read and computed once for them
// unroll      vectors a thread, a block's width apart; 1 where rows > 1
// align       bytes that every tensor's address is a multiple of
// flat        1 (else left out): one axis in place of all, where the innermost one is no multiple of vec but the
// outputs
//             lie in memory's order; what varies along single axes is read element by element

#include <algorithm>
#include <optional>

#include "schedule/access_pricing.h"
#include "schedule/family.h"

namespace tilewright {
namespace {

Schedule make_schedule(int vec, int rows, int unroll, int threads, int index_bits, int64_t align) {
  return {"pointwise",
          {{"vec", vec},
           {"rows", rows},
           {"unroll", unroll},
           {"threads", threads},
           {"index_bits", index_bits},
           {"align", align}}};
}

bool is_flat(const Schedule& s) { return s.param("flat", 0) == 1; }

std::string innermost(const ElementProgram& p) { return p.axes.empty() ? "" : p.axes.back().symbol; }

Footprint make_footprint(const ElementProgram& p, const Schedule& s, const LaunchShape& shape) {
  Footprint f;
  const int vec = static_cast<int>(s.param("vec")), unroll = static_cast<int>(s.param("unroll") * s.param("rows"));
  WarpWalk walk;
  for (size_t a = p.axes.size(); a-- > 0;) {
    const int64_t step = a + 1 == p.axes.size() ? vec : a + 2 == p.axes.size() ? s.param("rows") : 1;
    walk.push_back({p.axes[a].symbol, p.space.table().hint(ceildiv(p.axes[a].size, step)), step});
  }
  price_accesses(p, walk, f);
  price_operations(p, f);
  f.blocks = p.body->symbols().hint(shape.grid[0]);
  f.threads_per_block = shape.block[0];
  f.registers_per_thread = estimate_registers(p, vec, unroll);
  for (const ProgramStep& step : p.steps) {
    if (step.kind == ProgramStep::Kind::kLoad)
      f.bytes_in_flight_per_thread += static_cast<double>(vec * unroll * bytes(step.dtype));
  }
  return f;
}

// The widest vectors whose conditions the hints fulfil.
std::pair<int, VectorFacts> choose_vector(const ElementProgram& p) {
  const std::string axis = innermost(p);
  const SymbolTable& table = p.body->symbols();
  for (int vec = preferred_lanes(p, axis); vec > 1; vec /= 2) {
    if (estimate_registers(p, vec, 1) > 200) continue;  // would spill
    VectorFacts facts = vector_facts(p, axis, vec);
    if (!facts.any_vector || !facts.holds_at_hint) continue;
    if (p.axes.size() > 1) {
      const Expr& size = p.axes.back().size;
      if (table.hint(size) % vec != 0) continue;
      if (!table.is_divisible(size, vec)) {
        const std::pair<Expr, int64_t> fact{size, vec};
        if (std::find(facts.divisible.begin(), facts.divisible.end(), fact) == facts.divisible.end())
          facts.divisible.push_back(fact);
      }
    }
    return {vec, facts};
  }
  return {1, {}};
}

// Rows that share what is read along the innermost axis only.
int choose_rows(const ElementProgram& p, int vec) {
  if (p.axes.size() < 2) return 1;
  const ProgramAxis& outer = p.axes[p.axes.size() - 2];
  const std::vector<bool> inner = p.varying(p.axes.back().symbol), varies = p.varying(outer.symbol);
  int shared = 0, own = 0;  // registers of what is read
  for (size_t i = 0; i < p.steps.size(); ++i) {
    if (p.steps[i].kind != ProgramStep::Kind::kLoad) continue;
    const int words = static_cast<int>((inner[i] ? vec : 1) * bytes(p.steps[i].dtype) + 3) / 4;
    (varies[i] ? own : shared) += inner[i] || varies[i] ? words : 0;
  }
  if (shared == 0 || p.space.table().hint(outer.size) < 64) return 1;
  for (int rows : {4, 2}) {
    if (20 + shared + rows * own + 2 * vec <= 128) return rows;  // an SM still holds four blocks or more
  }
  return 1;
}

// The program over one axis, where then each output has vectors, and each input but small ones.
std::optional<ElementProgram> flat_program(const ElementProgram& p) {
  if (p.axes.size() < 2) return std::nullopt;
  ElementProgram flat = flatten_axes(p);
  const SymbolTable& table = p.body->symbols();
  const auto is_whole = [&](const Expr& index) { return index == flat.axes[0].expr(); };
  const bool stores =
      std::all_of(flat.stores.begin(), flat.stores.end(), [&](const ProgramStore& s) { return is_whole(s.index); });
  const bool loads = std::all_of(flat.steps.begin(), flat.steps.end(), [&](const ProgramStep& s) {
    return s.kind != ProgramStep::Kind::kLoad || is_whole(s.index) ||
           8 * table.hint(s.value->type.numel()) <= table.hint(flat.axes[0].size);
  });
  return stores && loads ? std::optional(std::move(flat)) : std::nullopt;
}

}  // namespace

ElementProgram program_for(const ElementProgram& p, const Schedule& s) { return is_flat(s) ? flatten_axes(p) : p; }

Proposal propose_pointwise(const ElementProgram& p, const Context& ctx) {
  Proposal proposal;
  if (p.has_reductions()) {
    proposal.why_none.push_back("the group has a reduction");
    return proposal;
  }
  const SymbolTable& table = p.body->symbols();
  const IndexRange range = index_range(p);
  const int64_t elements = std::max<int64_t>(table.hint(p.rows()), 1);
  auto offer = [&](int vec, int rows, int unroll, const VectorFacts& facts, bool index_32bit,
                   const ElementProgram* flat = nullptr) {
    // A block moves at least 4 KB: blocks do not start faster than that is moved.
    const int threads = vec > 1 ? 128 : 256;
    Candidate c;
    c.schedule = make_schedule(vec, rows, unroll, threads, index_32bit ? 32 : 64, facts.alignment);
    if (flat) c.schedule.params.emplace_back("flat", 1);
    c.condition.pointer_alignment = facts.alignment;
    c.condition.index_32bit = index_32bit && !range.always_32bit;
    c.condition.divisible = facts.divisible;
    c.footprint = make_footprint(flat ? *flat : p, c.schedule, launch_pointwise(p, c.schedule, ctx.gpu));
    proposal.candidates.push_back(std::move(c));
  };
  auto [vec, facts] = choose_vector(p);
  std::optional<ElementProgram> flat;
  if (vec <= preferred_lanes(p, innermost(p)) / 4 && (flat = flat_program(p))) {
    const auto [flat_vec, flat_facts] = choose_vector(*flat);
    if (flat_vec > vec) {
      offer(flat_vec, 1, 1, flat_facts, range.hint_32bit, &*flat);
      vec = 1;
    }
  }
  const int scalar_unroll = elements >= 4096 ? 4 : 1;
  // Where every SM has work in any case.
  const bool many = elements >= int64_t{8} * 128 * vec * ctx.gpu.sms;
  if (vec > 1) offer(vec, many ? choose_rows(p, vec) : 1, 1, facts, range.hint_32bit);
  if (range.hint_32bit && !range.always_32bit) offer(1, 1, scalar_unroll, {}, true);
  offer(1, 1, scalar_unroll, {}, range.always_32bit);
  return proposal;
}

LaunchShape launch_pointwise(const ElementProgram& made, const Schedule& s, const GpuFacts&) {
  const ElementProgram p = program_for(made, s);
  LaunchShape shape;
  Expr vectors = 1;
  for (size_t a = 0; a < p.axes.size(); ++a) {
    const bool inner = a + 1 == p.axes.size(), row = a + 2 == p.axes.size();
    vectors = vectors * ceildiv(p.axes[a].size, inner ? s.param("vec") : row ? s.param("rows") : 1);
  }
  shape.grid[0] = ceildiv(vectors, s.param("threads") * s.param("unroll"));
  shape.block[0] = static_cast<int>(s.param("threads"));
  return shape;
}

}  // namespace tilewright
