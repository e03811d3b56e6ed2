#include "schedule/matvec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "cost/occupancy.h"
#include "schedule/access_pricing.h"
#include "schedule/family.h"

namespace tilewright {
namespace {

using Kind = ProgramStep::Kind;

constexpr int64_t kMostVectors = 16;
constexpr int kWarp = 32;
// Loads under way on an SM that suffice, as threads that add are not loading.
constexpr double kInFlightPerSm = 48 * 1024;

int64_t ceil_power(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}
int64_t ceil_quotient(int64_t a, int64_t b) { return (a + b - 1) / b; }

// What the choice of parameters is made from, at the hints.
struct Facts {
  int64_t batch = 1, wide = 1, few = 1, depth = 1, products = 1;
  int64_t element_bytes = 1;  // of the matrix, in memory
};

int64_t hint(const ElementProgram& p, const std::string& axis) { return p.space.table().hint(p.space.size(axis)); }

// Steps of one operand of every product.
std::vector<int> operand_steps(const ElementProgram& p, const MatvecParams& s,
                               int (MatvecParams::*operand)(const ProgramProduct&) const) {
  std::vector<int> steps;
  std::transform(p.products.begin(), p.products.end(), std::back_inserter(steps),
                 [&](const ProgramProduct& product) { return (s.*operand)(product); });
  return steps;
}

Facts facts_of(const ElementProgram& p, const MatvecParams& s) {
  Facts f;
  for (const ProgramAxis& a : batch_axes(p)) f.batch *= std::max<int64_t>(p.space.table().hint(a.size), 1);
  f.wide = std::max<int64_t>(hint(p, s.wide(p)), 1);
  f.few = std::max<int64_t>(hint(p, s.few(p)), 1);
  f.depth = std::max<int64_t>(hint(p, p.matrix.k), 1);
  f.products = static_cast<int64_t>(p.products.size());
  const std::vector<bool> of_matrix = p.needed_by(operand_steps(p, s, &MatvecParams::matrix));
  for (size_t i = 0; i < p.steps.size(); ++i) {
    if (of_matrix[i] && p.steps[i].kind == Kind::kLoad && p.varying(s.wide(p))[i])
      f.element_bytes = std::max<int64_t>(f.element_bytes, bytes(p.steps[i].dtype));
  }
  return f;
}

// Whether most bytes of the matrix lie side by side along its rows' axis rather than along k.
bool lies_across(const ElementProgram& p, const MatvecParams& s) {
  const std::vector<bool> of_matrix = p.needed_by(operand_steps(p, s, &MatvecParams::matrix));
  const auto consecutive = [&](const std::string& axis) {
    double traffic = 0;
    for (size_t i = 0; i < p.steps.size(); ++i) {
      const ProgramStep& step = p.steps[i];
      if (!of_matrix[i] || step.kind != Kind::kLoad) continue;
      const std::optional<Expr> c = p.space.coefficient(step.index, axis);
      if (c && c->is_constant(1)) traffic += elements_touched(p, step.index) * static_cast<double>(bytes(step.dtype));
    }
    return traffic;
  };
  return consecutive(s.wide(p)) > consecutive(p.matrix.k);
}

// ---- choosing parameters

int64_t access_bytes(const Facts& f, const MatvecParams& s) { return s.vec * f.element_bytes; }

int64_t blocks_of(const Facts& f, const MatvecParams& s) {
  return f.batch * ceil_quotient(f.wide, s.rows) * ceil_quotient(f.few, s.columns);
}

// Fitted to what the assembler gave 300 kernels; 9 off on average.
int estimated_registers(const Facts& f, const MatvecParams& s) {
  const int64_t own_rows = s.across ? 1 : s.rows;
  const int64_t raw = std::max<int64_t>(access_bytes(f, s) / 4, 1) * own_rows * f.products * s.unroll;
  const int64_t sums = f.products * s.columns * (s.across ? s.vec : s.rows);
  return static_cast<int>(std::min<int64_t>(255, 24 + raw * 2 / 5 + sums * 14 / 5 + s.columns));
}

// Loads under way on an SM that is full of blocks.
double in_flight_per_sm(const Facts& f, const MatvecParams& s, const GpuFacts& gpu) {
  const int blocks = occupancy(s.threads, estimated_registers(f, s), 0, gpu).blocks_per_sm;
  return static_cast<double>(int64_t{blocks} * s.threads * s.rows * f.products * s.unroll * access_bytes(f, s));
}

bool fits_an_sm(const Facts& f, const MatvecParams& s, const GpuFacts& gpu) {
  return occupancy(s.threads, estimated_registers(f, s), 0, gpu).blocks_per_sm > 0;
}

// Measured on an H200 over 450 schedules of nine products: small blocks with few registers that fill the SMs' threads
// are within 2 % of the best everywhere, however many waves of them there are. Where k is short, each thread takes all
// its accesses at once, to four rows; where it is long, it goes over one row (two, for several vectors), with enough
// under way on an SM.
void choose_along(const Facts& f, const GpuFacts& gpu, MatvecParams& s) {
  constexpr int64_t kLongestShort = 512;  // accesses to a row
  constexpr int64_t kRowsOfShort = 4;
  constexpr int kThreadsOfLong = 128;
  s.columns = static_cast<int>(std::min(ceil_power(f.few), kMostVectors));
  const int64_t steps = ceil_quotient(f.depth, s.vec);
  const bool is_short = steps <= kLongestShort && s.columns == 1;
  s.unroll = steps > kWarp ? 2 : 1;
  if (is_short) {
    s.rows = kRowsOfShort;
    s.threads = static_cast<int>(ceil_quotient(ceil_quotient(steps, s.unroll), kWarp) * kWarp);
  } else {
    s.rows = std::min(s.columns, 2);
    s.threads = static_cast<int>(std::min<int64_t>(kThreadsOfLong, ceil_quotient(steps, kWarp) * kWarp));
    MatvecParams single = s;
    single.unroll = 1;
    if (in_flight_per_sm(f, single, gpu) >= kInFlightPerSm) s.unroll = 1;
    // Where few blocks are left more threads share k.
    while (s.threads < 512 && blocks_of(f, s) * s.threads < int64_t{gpu.sms} * 512 &&
           steps >= int64_t{s.threads} * s.unroll * 2) {
      s.threads *= 2;
    }
  }
  // Two blocks an SM at least: fewer rows each where there are few.
  while (s.rows > 1 && blocks_of(f, s) < 2 * gpu.sms) s.rows /= 2;
}

void choose_across(const ElementProgram& p, const Facts& f, const GpuFacts& gpu, MatvecParams& s) {
  s.columns = static_cast<int>(std::min(ceil_power(f.few), kMostVectors));
  constexpr int64_t kMostSums = 64;
  while (s.vec > 1 && s.vec * s.columns * f.products > kMostSums) s.vec /= 2;
  while (s.columns > 1 && s.vec * s.columns * f.products > kMostSums) s.columns /= 2;
  // Consecutive k whose loads are under way together, as far as they are known to be there.
  const Expr& depth = p.space.size(p.matrix.k);
  s.unroll = static_cast<int>(8 / f.products);
  while (s.unroll > 1 && !p.space.table().is_divisible(depth, s.unroll)) s.unroll /= 2;
  // A warp reads 64 bytes or more of a row.
  const int64_t least = std::min<int64_t>(kWarp, std::max<int64_t>(1, 64 / access_bytes(f, s)));
  s.threads = 256;
  int64_t side = kWarp;
  const auto blocks_with = [&](int64_t count) {
    MatvecParams tried = s;
    tried.rows = static_cast<int>(count * s.vec);
    return blocks_of(f, tried);
  };
  while (side > least && blocks_with(side) < gpu.sms) side /= 2;
  side = std::min(side, ceil_power(ceil_quotient(f.wide, s.vec)));
  s.rows = static_cast<int>(side * s.vec);
  // Where few blocks are left more threads share k.
  while (s.threads < 1024 && blocks_of(f, s) * s.threads < int64_t{gpu.sms} * 512 &&
         f.depth >= int64_t{s.threads} * 2 / side * s.unroll) {
    s.threads *= 2;
  }
  while (s.threads > std::max<int64_t>(kWarp, side) &&
         (f.depth < s.threads / side * s.unroll || !fits_an_sm(f, s, gpu))) {
    s.threads /= 2;
  }
}

struct Choice {
  MatvecParams params;
  Condition condition;
};

// Accesses of `vec` elements of the matrix, if the hints allow them.
std::optional<Choice> with_vectors(const ElementProgram& p, const Context& ctx, MatvecParams params, int vec) {
  Choice c{std::move(params), {}};
  MatvecParams& s = c.params;
  s.vec = vec;
  const Facts facts = facts_of(p, s);
  s.across ? choose_across(p, facts, ctx.gpu, s) : choose_along(facts, ctx.gpu, s);
  if (s.across && s.vec < vec) return std::nullopt;  // a later try has this many
  const auto require = [&](const std::string& axis, int lanes) {
    if (lanes == 1) return true;
    const VectorFacts found = vector_facts(p, axis, lanes);
    c.condition.pointer_alignment = std::max(c.condition.pointer_alignment, found.alignment);
    std::vector<std::pair<Expr, int64_t>> facts_needed = found.divisible;
    facts_needed.emplace_back(p.space.size(axis), lanes);
    for (const auto& fact : facts_needed) {
      auto& all = c.condition.divisible;
      if (p.space.table().is_divisible(fact.first, fact.second)) continue;
      if (std::find(all.begin(), all.end(), fact) == all.end()) all.push_back(fact);
    }
    return found.holds_at_hint && hint(p, axis) % lanes == 0;
  };
  if (!require(s.across ? s.wide(p) : p.matrix.k, s.vec)) return std::nullopt;
  if (s.across && !require(p.matrix.k, s.unroll)) return std::nullopt;
  s.align = c.condition.pointer_alignment;
  return c;
}

// ---- footprint

Footprint make_footprint(const ElementProgram& p, const MatvecParams& s, const LaunchShape& shape,
                         const GpuFacts& gpu) {
  const Facts f = facts_of(p, s);
  const auto row_blocks = static_cast<double>(ceil_quotient(f.wide, s.rows));
  const auto column_blocks = static_cast<double>(ceil_quotient(f.few, s.columns));
  const int64_t lanes_along_k = std::min(kWarp, s.sharers());
  const WarpWalk along = {{p.matrix.k, lanes_along_k, s.vec}};
  const WarpWalk across = {{s.wide(p), std::min(kWarp, s.side()), s.vec},
                           {p.matrix.k, kWarp / std::min(kWarp, s.side()), s.unroll}};
  const WarpWalk of_vectors = {{p.matrix.k, lanes_along_k, s.across ? s.unroll : s.vec}};
  const WarpWalk of_results = {{s.wide(p), std::min(kWarp, s.rows), 1}};

  const std::vector<bool> in_matrix = p.needed_by(operand_steps(p, s, &MatvecParams::matrix));
  const std::vector<bool> in_vectors = p.needed_by(operand_steps(p, s, &MatvecParams::vectors));
  std::vector<int> roots;
  roots.reserve(p.stores.size());
  for (const ProgramStore& store : p.stores) roots.push_back(store.step);
  const std::vector<bool> in_results = p.needed_by(roots);

  Footprint footprint;
  std::vector<std::vector<bool>> varying;
  varying.reserve(p.axes.size());
  for (const ProgramAxis& a : p.axes) varying.push_back(p.varying(a.symbol));
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const ProgramStep& step = p.steps[i];
    double elements = 1;
    for (size_t a = 0; a < p.axes.size(); ++a) {
      if (varying[a][i]) elements *= static_cast<double>(std::max<int64_t>(p.space.table().hint(p.axes[a].size), 1));
    }
    const auto count = [&](bool is_in, double repeats, const WarpWalk& walk, double fetched) {
      if (!is_in) return;
      price_step(p, static_cast<int>(i), elements * repeats, footprint);
      if (step.kind != Kind::kLoad) return;
      price_load(p, static_cast<int>(i), walk, footprint);
      footprint.accesses.back().bytes *= std::max(fetched, 1.0);
      footprint.alu += 2 * elements * repeats / s.vec;  // the access itself, at half the rate of arithmetic
      if (step.dtype == DType::kF16 || step.dtype == DType::kBF16) footprint.alu += elements * repeats;  // unpacking
    };
    count(in_matrix[i], column_blocks, s.across ? across : along, column_blocks);
    // A vector's elements stay in the first-level cache of each SM.
    count(in_vectors[i], row_blocks, of_vectors, std::min(row_blocks, static_cast<double>(gpu.sms)));
    count(in_results[i], 1, of_results, 1);
  }
  for (size_t i = 0; i < p.stores.size(); ++i) price_store(p, static_cast<int>(i), of_results, footprint);

  const double sums = static_cast<double>(f.products * s.rows * s.columns);
  const auto blocks = static_cast<double>(p.space.table().hint(shape.grid[0]));
  const double products = blocks * sums * static_cast<double>(f.depth);
  const bool is_f64 = p.steps[p.products[0].result].dtype == DType::kF64;
  // Measured on an H200: eight more vectors add 32.5 us to 4096 x 14336, twice what the multiply-adds alone would take.
  (is_f64 ? footprint.fma_f64 : footprint.fma_f32) += 2 * products;
  const double joined = s.across ? sums * s.sharers() : sums * s.threads * 2 * 5;  // shuffles and sums over a warp
  footprint.alu += blocks * joined;
  const int64_t parts = s.across ? s.part_stride() * s.vec : static_cast<int64_t>(sums) * (s.threads / kWarp);
  const int64_t part_bytes = is_f64 ? 8 : 4;
  footprint.smem_bytes = parts * part_bytes;
  footprint.smem_bytes_moved = blocks * joined * static_cast<double>(part_bytes);
  footprint.barriers = s.across ? 2 * static_cast<int>(f.products) * s.columns : 1;
  footprint.blocks = p.space.table().hint(shape.grid[0]);
  footprint.threads_per_block = s.threads;
  footprint.registers_per_thread = estimated_registers(f, s);
  footprint.bytes_in_flight_per_thread =
      static_cast<double>((s.across ? 1 : s.rows) * f.products * s.unroll * access_bytes(f, s));
  return footprint;
}

}  // namespace

MatvecParams MatvecParams::of(const Schedule& s) {
  MatvecParams p;
  p.wide_n = s.param("wide_n") != 0;
  p.across = s.param("across") != 0;
  p.vec = static_cast<int>(s.param("vec"));
  p.rows = static_cast<int>(s.param("rows"));
  p.columns = static_cast<int>(s.param("columns"));
  p.threads = static_cast<int>(s.param("threads"));
  p.unroll = static_cast<int>(s.param("unroll"));
  p.index_bits = static_cast<int>(s.param("index_bits"));
  p.align = s.param("align");
  return p;
}

Schedule MatvecParams::schedule() const {
  return {"matvec",
          {{"wide_n", wide_n},
           {"across", across},
           {"vec", vec},
           {"rows", rows},
           {"columns", columns},
           {"threads", threads},
           {"unroll", unroll},
           {"index_bits", index_bits},
           {"align", align}}};
}

Expr wide_blocks(const ElementProgram& p, const MatvecParams& s) { return ceildiv(p.space.size(s.wide(p)), s.rows); }
Expr few_blocks(const ElementProgram& p, const MatvecParams& s) { return ceildiv(p.space.size(s.few(p)), s.columns); }

std::vector<ProgramAxis> batch_axes(const ElementProgram& p) {
  std::vector<ProgramAxis> batch;
  std::copy_if(p.axes.begin(), p.axes.end(), std::back_inserter(batch),
               [&](const ProgramAxis& a) { return !p.is_of_matrix(a.symbol); });
  return batch;
}

Proposal propose_matvec(const ElementProgram& p, const Context& ctx) {
  Proposal proposal;
  MatvecParams params;
  params.wide_n = hint(p, p.matrix.n) >= hint(p, p.matrix.m);
  if (hint(p, params.few(p)) > kMostVectors) {
    proposal.why_none.push_back("both sides of the product have more than 16 rows");
    return proposal;
  }
  params.across = lies_across(p, params);
  const IndexRange range = index_range(p);
  const auto offer = [&](MatvecParams chosen, Condition condition, bool index_32bit) {
    chosen.index_bits = index_32bit ? 32 : 64;
    condition.index_32bit = index_32bit && !range.always_32bit;
    Candidate c;
    c.schedule = chosen.schedule();
    c.condition = std::move(condition);
    c.footprint = make_footprint(p, chosen, launch_matvec(p, c.schedule, ctx.gpu), ctx.gpu);
    proposal.candidates.push_back(std::move(c));
  };
  const int most = preferred_lanes(p, params.across ? params.wide(p) : p.matrix.k);
  for (int vec = most; vec > 1; vec /= 2) {
    const std::optional<Choice> c = with_vectors(p, ctx, params, vec);
    if (!c) continue;
    offer(c->params, c->condition, range.hint_32bit);
    break;
  }
  const bool is_general = !proposal.candidates.empty() && proposal.candidates.back().condition == Condition{};
  if (is_general) return proposal;
  MatvecParams general = params;
  const Facts facts = facts_of(p, general);
  general.across ? choose_across(p, facts, ctx.gpu, general) : choose_along(facts, ctx.gpu, general);
  if (general.across) general.unroll = 1;
  if (range.hint_32bit && !range.always_32bit) offer(general, {}, true);
  offer(general, {}, range.always_32bit);
  return proposal;
}

LaunchShape launch_matvec(const ElementProgram& p, const Schedule& schedule, const GpuFacts&) {
  const MatvecParams s = MatvecParams::of(schedule);
  LaunchShape shape;
  shape.grid[0] = wide_blocks(p, s) * few_blocks(p, s);
  for (const ProgramAxis& a : batch_axes(p)) shape.grid[0] = shape.grid[0] * a.size;
  shape.block[0] = s.threads;
  return shape;
}

}  // namespace tilewright
