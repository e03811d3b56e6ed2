// The family `pointwise`: each thread computes `unroll` vectors of `vec` elements along the innermost axis.
//
//   pointwise vec=8 unroll=1 threads=256 index_bits=32 align=16
//
// vec         elements a vector; where there are outer axes the innermost one is a multiple of it
// unroll      vectors a thread, a block's width apart
// align       bytes that every tensor's address is a multiple of

#include <algorithm>

#include "schedule/access_pricing.h"
#include "schedule/family.h"

namespace tilewright {
namespace {

Schedule make_schedule(int vec, int unroll, int threads, int index_bits, int64_t align) {
  return {"pointwise", {{"vec", vec}, {"unroll", unroll}, {"threads", threads}, {"index_bits", index_bits}, {"align", align}}};
}

std::string innermost(const ElementProgram& p) { return p.axes.empty() ? "" : p.axes.back().symbol; }

Footprint make_footprint(const ElementProgram& p, const Schedule& s, const LaunchShape& shape) {
  Footprint f;
  const int vec = static_cast<int>(s.param("vec")), unroll = static_cast<int>(s.param("unroll"));
  price_accesses(p, innermost(p), f);
  price_operations(p, f);
  f.blocks = p.body->symbols().hint(shape.grid[0]);
  f.threads_per_block = shape.block[0];
  f.registers_per_thread = estimate_registers(p, vec, unroll);
  for (const ProgramStep& step : p.steps) {
    if (step.kind == ProgramStep::Kind::kLoad) f.bytes_in_flight_per_thread += static_cast<double>(vec * unroll * bytes(step.dtype));
  }
  return f;
}

// The widest vectors whose conditions the hints fulfil.
std::pair<int, VectorFacts> choose_vector(const ElementProgram& p) {
  const std::string axis = innermost(p);
  const SymbolTable& table = p.body->symbols();
  for (int vec = preferred_lanes(p, axis); vec > 1; vec /= 2) {
    VectorFacts facts = vector_facts(p, axis, vec);
    if (!facts.any_vector || !facts.holds_at_hint) continue;
    if (p.axes.size() > 1) {
      const Expr& size = p.axes.back().size;
      if (table.hint(size) % vec != 0) continue;
      if (!table.is_divisible(size, vec)) {
        const std::pair<Expr, int64_t> fact{size, vec};
        if (std::find(facts.divisible.begin(), facts.divisible.end(), fact) == facts.divisible.end()) facts.divisible.push_back(fact);
      }
    }
    return {vec, facts};
  }
  return {1, {}};
}

}  // namespace

Proposal propose_pointwise(const ElementProgram& p, const Context& ctx) {
  Proposal proposal;
  if (p.has_reductions()) {
    proposal.why_none.push_back("the group has a reduction");
    return proposal;
  }
  const SymbolTable& table = p.body->symbols();
  const IndexRange range = index_range(p);
  const int64_t elements = std::max<int64_t>(table.hint(p.rows()), 1);
  auto offer = [&](int vec, int unroll, const VectorFacts& facts, bool index_32bit) {
    // Small outputs get smaller blocks, so that more SMs have one.
    const int threads = elements / (vec * unroll) < int64_t{256} * ctx.gpu.sms ? 128 : 256;
    Candidate c;
    c.schedule = make_schedule(vec, unroll, threads, index_32bit ? 32 : 64, facts.alignment);
    c.condition.pointer_alignment = facts.alignment;
    c.condition.index_32bit = index_32bit && !range.always_32bit;
    c.condition.divisible = facts.divisible;
    c.footprint = make_footprint(p, c.schedule, launch_pointwise(p, c.schedule, ctx.gpu));
    proposal.candidates.push_back(std::move(c));
  };
  const auto [vec, facts] = choose_vector(p);
  const int scalar_unroll = elements >= 4096 ? 4 : 1;
  if (vec > 1) offer(vec, 1, facts, range.hint_32bit);
  if (range.hint_32bit && !range.always_32bit) offer(1, scalar_unroll, {}, true);
  offer(1, scalar_unroll, {}, range.always_32bit);
  return proposal;
}

LaunchShape launch_pointwise(const ElementProgram& p, const Schedule& s, const GpuFacts&) {
  LaunchShape shape;
  Expr vectors = 1;
  for (size_t a = 0; a < p.axes.size(); ++a) {
    const bool inner = a + 1 == p.axes.size();
    vectors = vectors * (inner ? ceildiv(p.axes[a].size, s.param("vec")) : p.axes[a].size);
  }
  shape.grid[0] = ceildiv(vectors, s.param("threads") * s.param("unroll"));
  shape.block[0] = static_cast<int>(s.param("threads"));
  return shape;
}

}  // namespace tilewright
