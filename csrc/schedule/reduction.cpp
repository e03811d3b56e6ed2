#include "schedule/reduction.h"

#include <algorithm>
#include <bit>

#include "schedule/access_pricing.h"
#include "schedule/family.h"

namespace tilewright {
namespace {

using Kind = ProgramStep::Kind;

constexpr int kMaxThreads = 1024;

int64_t floor_power(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}
int64_t ceil_power(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}
int64_t ceil_quotient(int64_t a, int64_t b) { return (a + b - 1) / b; }

// What the choice of parameters is made from, at the hints.
struct Facts {
  int64_t rows = 1, length = 1;  // elements
  int live = 1;                  // 32-bit registers that an element of a row occupies between stages
  bool splits = false;           // one stage, one element a row
  int looped_stages = 1;
  bool reads_only = false;  // nothing of a row's length is written
  double bytes = 0;         // read
};

Facts facts_of(const ElementProgram& p) {
  Facts f;
  const SymbolTable& table = p.space.table();
  f.rows = std::max<int64_t>(table.hint(p.rows()), 1);
  f.length = std::max<int64_t>(table.hint(p.row_length()), 1);
  f.reads_only = std::all_of(p.stores.begin(), p.stores.end(), [](const ProgramStore& s) { return s.per_row; });
  ReductionParams looped;
  looped.looped = true;
  f.looped_stages = program_for(p, looped).stages();
  f.splits = f.reads_only && f.looped_stages == 1;
  int live = 0;
  for (const ProgramStep& s : p.steps) {
    if (s.kind != Kind::kLoad || !s.uses_reduced || !(s.uses_kept || p.kept().empty())) continue;
    live += bytes(s.dtype) == 8 ? 2 : 1;
    f.bytes += static_cast<double>(f.rows * f.length * bytes(s.dtype));
  }
  f.live = std::max(live, 1);
  return f;
}

// Vectors lie along the axis on which the access that moves most is consecutive.
bool prefers_columns(const ElementProgram& p) {
  const std::string along_rows = vector_axis(p, false), along_columns = vector_axis(p, true);
  if (along_columns.empty()) return false;
  if (along_rows.empty()) return true;
  auto consecutive = [&](const std::string& axis) {
    double traffic = 0;
    for (const ProgramStep& s : p.steps) {
      if (s.kind != Kind::kLoad || !s.uses_reduced) continue;
      const std::optional<Expr> c = p.space.coefficient(s.index, axis);
      if (!c || !c->is_constant(1)) continue;
      double elements = static_cast<double>(bytes(s.dtype));
      for (const ProgramAxis& a : p.axes) {
        if (p.space.depends_on(s.index, a.symbol)) elements *= static_cast<double>(p.space.table().hint(a.size));
      }
      traffic += elements;
    }
    return traffic;
  };
  return consecutive(along_columns) > consecutive(along_rows);
}

// ---- choosing parameters

void choose_rows(const Facts& f, const GpuFacts& gpu, ReductionParams& s) {
  const int64_t steps = ceil_quotient(f.length, s.vec);
  // Registers for the row: 32-bit values that threads keep, fewer where a block is a whole SM's.
  auto fits = [&](int64_t threads) {
    const int64_t vectors = ceil_quotient(steps, threads);
    return vectors <= 8 && vectors * s.vec * f.live <= (threads >= kMaxThreads ? 24 : 64);
  };
  int64_t threads = 0;
  if (steps <= 32) {
    threads = ceil_power(steps);
  } else {
    for (int64_t t : {32, 64, 128, 256, 512, 1024}) {
      // Four vectors a thread hide latency with few threads, two do where nothing of the row is written; the longest
      // rows take more.
      const int64_t wanted = t == kMaxThreads ? 8 : f.reads_only && t <= 256 ? 2 : 4;
      if (fits(t) && ceil_quotient(steps, t) <= wanted) {
        threads = t;
        break;
      }
    }
  }
  s.looped = threads == 0;
  if (s.looped) {
    s.threads = steps >= 1024 ? 512 : 256;
    // As many bytes in flight with narrow accesses as with wide ones.
    const int64_t most = s.vec <= 2 ? 8 : f.looped_stages == 1 ? 2 : 4;
    s.vectors = static_cast<int>(std::clamp<int64_t>(ceil_quotient(steps, s.threads), 1, most));
    s.rows = 1;
  } else {
    s.threads = static_cast<int>(threads);
    s.vectors = static_cast<int>(ceil_quotient(steps, threads));
    s.rows = static_cast<int>(std::max<int64_t>(1, (threads >= 128 ? 128 : 256) / threads));
    s.rows = static_cast<int>(std::min<int64_t>(s.rows, floor_power(ceil_quotient(f.rows, gpu.sms > 0 ? gpu.sms : 1))));
    // A block of fewer threads than a warp leaves lanes idle in any case.
    while (s.rows * s.threads < 32) s.rows *= 2;
  }
}

void choose_columns(const Facts& f, const GpuFacts& gpu, ReductionParams& s) {
  const int64_t fragments = ceil_quotient(f.rows, s.vec);
  s.rows = static_cast<int>(std::min<int64_t>(32, ceil_power(fragments)));
  // Where these are few blocks narrow ones, of a line of memory, so that fewer partial results meet in each.
  if (ceil_quotient(fragments, s.rows) < gpu.sms) s.rows = std::min(s.rows, 8);
  s.threads = static_cast<int>(std::min<int64_t>({256 / s.rows, 32, ceil_power(f.length)}));
  while (s.rows * s.threads < 32) s.rows *= 2;
  const int64_t share = ceil_quotient(f.length, s.threads);
  s.looped = share > 8 || share * s.vec * f.live > 64;
  s.vectors = static_cast<int>(s.looped ? std::max<int64_t>(1, std::min<int64_t>(8, 64 / (s.vec * f.live))) : share);
}

// Blocks a row, so that few rows still fill the GPU: each block goes at least twice over its loop.
void choose_split(const Facts& f, const GpuFacts& gpu, ReductionParams& s) {
  if (!f.splits) return;
  const int64_t lanes = s.columns ? s.vec : 1;
  const int64_t blocks = ceil_quotient(ceil_quotient(f.rows, lanes), s.rows);
  // As many threads as an SM holds: loads of some wait while others add. Columns keep more in registers.
  const int threads_per_sm = s.columns ? 1024 : 2048;
  const int64_t wanted = int64_t{gpu.sms > 0 ? gpu.sms : 1} * std::max(1, threads_per_sm / (s.threads * s.rows));
  if (blocks * 2 > wanted) return;
  const int64_t steps = s.columns ? f.length : ceil_quotient(f.length, s.vec);
  const int64_t turn = int64_t{s.threads} * s.vectors;
  // Each thread of the last block joins some 16 partial results: more cost more than they save.
  const int64_t split = std::min<int64_t>({wanted / blocks, steps / (2 * turn), int64_t{16} * s.threads});
  if (split < 2) return;
  s.split = static_cast<int>(split);
  s.looped = true;
  s.rows = s.columns ? s.rows : 1;
}

// ---- conditions

struct Choice {
  ReductionParams params;
  Condition condition;
};

// Vectors of `vec`, if the hints allow them.
std::optional<Choice> with_vectors(const ElementProgram& p, const Context& ctx, bool columns, int vec) {
  Choice c;
  c.params.columns = columns;
  c.params.vec = vec;
  const SymbolTable& table = p.space.table();
  const std::string axis = vector_axis(p, columns);
  if (vec > 1) {
    const VectorFacts facts = vector_facts(p, axis, vec);
    if (!facts.any_vector || !facts.holds_at_hint) return std::nullopt;
    c.condition.pointer_alignment = c.params.align = facts.alignment;
    c.condition.divisible = facts.divisible;
    const Expr& size = p.space.size(axis);
    if (table.hint(size) % vec != 0) return std::nullopt;
    const std::pair<Expr, int64_t> fact{size, vec};
    auto& all = c.condition.divisible;
    if (!table.is_divisible(size, vec) && std::find(all.begin(), all.end(), fact) == all.end()) all.push_back(fact);
  }
  const Facts facts = facts_of(p);
  columns ? choose_columns(facts, ctx.gpu, c.params) : choose_rows(facts, ctx.gpu, c.params);
  choose_split(facts, ctx.gpu, c.params);
  // Measured: saves a tenth of the time of reading up to some 256 MB once, and costs beyond.
  c.params.stream =
      facts.reads_only && vec > 1 && facts.bytes < 256e6 && (!c.params.looped || facts.looped_stages == 1);
  if (!c.params.looped) {
    const int64_t capacity = int64_t{c.params.threads} * c.params.vectors * (columns ? 1 : vec);
    if (table.range(p.row_length()).upper > capacity) c.condition.at_most.emplace_back(p.row_length(), capacity);
  }
  return c;
}

// Vectors where memory is aligned, in rows that are not.
std::optional<Choice> with_shifted_vectors(const ElementProgram& p, const Context& ctx, int vec) {
  const std::optional<Expr> start = row_start(p);
  Facts facts = facts_of(p);
  if (!start || vec < 2 || facts.length < 8 * vec) return std::nullopt;
  Choice c;
  c.params.vec = vec;
  c.params.shift = true;
  auto align = [&](const Expr& index, DType dtype) {
    if (lies_alike(p, index, *start, vec))
      c.params.align = std::max(c.params.align, std::min<int64_t>(16, vec * bytes(dtype)));
  };
  for (const ProgramStep& s : p.steps) {
    if (s.kind == Kind::kLoad) align(s.index, s.dtype);
  }
  for (const ProgramStore& s : p.stores) align(s.index, s.dtype);
  c.condition.pointer_alignment = c.params.align;
  facts.length += vec - 1;
  choose_rows(facts, ctx.gpu, c.params);
  choose_split(facts, ctx.gpu, c.params);
  if (!c.params.looped) {
    const int64_t capacity = int64_t{c.params.threads} * c.params.vectors * vec - (vec - 1);
    if (p.space.table().range(p.row_length()).upper > capacity)
      c.condition.at_most.emplace_back(p.row_length(), capacity);
  }
  return c;
}

// Any row, any alignment.
ReductionParams general(const ElementProgram& p, const Context& ctx, bool columns) {
  ReductionParams s = with_vectors(p, ctx, columns, 1)->params;
  if (!s.looped && p.space.table().range(p.row_length()).upper <= int64_t{s.threads} * s.vectors) return s;
  s.looped = true;
  if (!columns && s.split == 1) {
    s.threads = 256;
    s.rows = 1;
    s.vectors = 4;
  }
  if (columns) s.vectors = std::max(s.vectors, 4);
  return s;
}

// ---- footprint

// Neighbouring threads take the vectors of a row, then other rows; with columns the other way round.
WarpWalk warp_walk(const ElementProgram& p, const ReductionParams& s) {
  WarpWalk walk;
  const std::string axis = vector_axis(p, s.columns);
  const auto add = [&](const std::vector<ProgramAxis>& axes, int64_t threads) {
    for (size_t a = axes.size(); a-- > 0;) {
      const int64_t step = axes[a].symbol == axis ? s.vec : 1;
      const int64_t vectors = std::max<int64_t>(p.space.table().hint(ceildiv(axes[a].size, step)), 1);
      const int64_t count = std::min(vectors, threads);
      threads /= count;
      walk.push_back({axes[a].symbol, count, step});
    }
  };
  add(s.columns ? p.kept() : p.reduced(), s.columns ? s.rows : s.threads);
  add(s.columns ? p.reduced() : p.kept(), s.columns ? s.threads : s.rows);
  return walk;
}

Footprint make_footprint(const ElementProgram& made, const Schedule& schedule, const LaunchShape& shape) {
  const ReductionParams s = ReductionParams::of(schedule);
  const ElementProgram p = program_for(made, s);
  Footprint f;
  price_accesses(p, warp_walk(p, s), f);
  price_operations(p, f);
  if (s.looped) {
    // Each stage, and the stores at the end, go over what they need again.
    size_t access = 0;
    for (size_t i = 0; i < p.steps.size(); ++i) {
      if (p.steps[i].kind != Kind::kLoad) continue;
      Footprint::Access& a = f.accesses[access++];
      a.bytes *= std::max(1, p.times_needed(static_cast<int>(i)));
    }
  }
  f.blocks = p.body->symbols().hint(shape.grid[0]) * p.body->symbols().hint(shape.grid[1]);
  f.threads_per_block = shape.block[0];
  f.registers_per_thread = estimate_registers(p, s.vec, s.vectors);
  for (const ProgramStep& step : p.steps) {
    if (step.kind == Kind::kLoad && step.uses_reduced)
      f.bytes_in_flight_per_thread += static_cast<double>(s.vec * s.vectors * bytes(step.dtype));
  }
  const bool block_wide = s.columns || s.threads > 32;
  for (const ProgramReduction& r : p.reductions) {
    if (!block_wide) continue;
    f.barriers += 1 + (r.node->op == Op::kWelford && !s.looped);
    const int64_t partials = s.columns ? int64_t{s.threads} * s.rows * s.vec : int64_t{s.threads} * s.rows / 32;
    for (DType t : state_types(r, p)) f.smem_bytes += partials * bytes(t);
    f.smem_bytes_moved += static_cast<double>(f.blocks * partials * 8);
  }
  if (s.split > 1) {
    f.barriers += 2;
    for (const ProgramReduction& r : p.reductions) {
      for (DType t : state_types(r, p)) {
        const double moved = static_cast<double>(s.split * p.body->symbols().hint(p.rows()) * bytes(t));
        f.accesses.push_back({"partials of " + r.node->result()->name, true, moved, moved, 1});
        f.accesses.push_back({"partials of " + r.node->result()->name, false, moved, moved, 1});
      }
    }
  }
  return f;
}

}  // namespace

ReductionParams ReductionParams::of(const Schedule& s) {
  ReductionParams p;
  p.columns = s.param("columns") != 0;
  p.vec = static_cast<int>(s.param("vec"));
  p.threads = static_cast<int>(s.param("threads"));
  p.rows = static_cast<int>(s.param("rows"));
  p.vectors = static_cast<int>(s.param("vectors"));
  p.looped = s.param("looped") != 0;
  p.split = static_cast<int>(s.param("split"));
  p.index_bits = static_cast<int>(s.param("index_bits"));
  p.align = s.param("align");
  p.stream = s.param("stream") != 0;
  p.shift = s.param("shift", 0) == 1;
  return p;
}

Schedule ReductionParams::schedule() const {
  Schedule s{"reduction",
             {{"columns", columns},
              {"vec", vec},
              {"threads", threads},
              {"rows", rows},
              {"vectors", vectors},
              {"looped", looped},
              {"split", split},
              {"index_bits", index_bits},
              {"align", align},
              {"stream", stream}}};
  if (shift) s.params.emplace_back("shift", 1);
  return s;
}

std::string vector_axis(const ElementProgram& p, bool columns) {
  for (size_t a = p.axes.size(); a-- > 0;) {
    if (p.axes[a].reduced != columns) return p.axes[a].symbol;
  }
  return "";
}

Expr row_count(const ElementProgram& p, const ReductionParams& s) {
  Expr count = 1;
  const std::string axis = vector_axis(p, s.columns);
  for (const ProgramAxis& a : p.kept())
    count = count * (s.columns && a.symbol == axis ? p.space.div(a.size, s.vec) : a.size);
  return count;
}

Expr steps_per_row(const ElementProgram& p, const ReductionParams& s) {
  Expr count = 1;
  const std::string axis = vector_axis(p, s.columns);
  if (s.shift) return ceildiv(p.space.size(axis) + (s.vec - 1), s.vec);
  for (const ProgramAxis& a : p.reduced())
    count = count * (!s.columns && a.symbol == axis ? p.space.div(a.size, s.vec) : a.size);
  return count;
}

bool lies_alike(const ElementProgram& p, const Expr& index, const Expr& start, int vec) {
  const std::string axis = vector_axis(p, /*columns=*/false);
  const std::optional<Expr> factor = p.space.coefficient(index, axis);
  return factor && factor->is_constant(1) && p.space.table().is_divisible(index - Expr::symbol(axis) - start, vec);
}

std::optional<Expr> row_start(const ElementProgram& p) {
  if (p.reduced().size() != 1) return std::nullopt;
  const std::string axis = vector_axis(p, /*columns=*/false);
  const auto is_plain = [&](const Expr& index) {
    const std::optional<Expr> factor = p.space.coefficient(index, axis);
    return factor && factor->constant();
  };
  const auto is_free = [&](const Guard& guard) {
    return std::none_of(guard.begin(), guard.end(), [&](const Bound& b) { return p.space.depends_on(b.index, axis); });
  };
  std::optional<Expr> start;
  double most = 0;
  for (const ProgramStep& s : p.steps) {
    if (!is_plain(s.index) || !is_free(s.guard) || !std::all_of(s.choices.begin(), s.choices.end(), is_free))
      return std::nullopt;
    if (s.kind != Kind::kLoad || !p.space.coefficient(s.index, axis)->is_constant(1)) continue;
    double moved = static_cast<double>(bytes(s.dtype));
    for (const ProgramAxis& a : p.axes) {
      if (p.space.depends_on(s.index, a.symbol)) moved *= static_cast<double>(p.space.table().hint(a.size));
    }
    if (moved <= most) continue;
    most = moved;
    start = s.index - Expr::symbol(axis);
  }
  for (const ProgramStore& s : p.stores) {
    if (!is_plain(s.index)) return std::nullopt;
  }
  for (const ProgramReduction& r : p.reductions) {
    if (!is_plain(r.position)) return std::nullopt;
  }
  return start;
}

ElementProgram program_for(const ElementProgram& p, const ReductionParams& s) {
  ElementProgram program = p;
  program.set_online(s.looped);
  return program;
}

std::vector<DType> state_types(const ProgramReduction& r, const ElementProgram& p) {
  const DType compute = compute_type(p.steps[r.operand].dtype);
  if (p.is_online(r)) return {compute, compute};  // the maximum, the sum relative to it
  switch (r.node->op) {
    case Op::kSum:
    case Op::kProd:
      return {is_float(compute) ? compute : DType::kI64};
    case Op::kMean:
      return {compute};
    case Op::kArgmax:
    case Op::kArgmin:
      return {compute, DType::kI64};
    case Op::kWelford:
      return {compute, compute, compute};  // mean, sum of squared deviations, count
    default:
      return {compute};
  }
}

Proposal propose_reduction(const ElementProgram& p, const Context& ctx) {
  Proposal proposal;
  if (!p.has_reductions()) {
    proposal.why_none.push_back("the group has no reduction");
    return proposal;
  }
  const IndexRange range = index_range(p);
  const bool bounded = std::any_of(p.steps.begin(), p.steps.end(), [&](const ProgramStep& s) {
    return s.kind == Kind::kLoad && std::all_of(p.axes.begin(), p.axes.end(), [&](const ProgramAxis& a) {
             return p.space.depends_on(s.index, a.symbol);
           });
  });
  auto offer = [&](ReductionParams params, Condition condition, bool index_32bit) {
    params.index_bits = index_32bit ? 32 : 64;
    condition.index_32bit = index_32bit && !range.always_32bit;
    // Iterations that no tensor's size bounds (a broadcast operand) are bounded by a condition of their own.
    if (condition.index_32bit && !bounded) condition.at_most.emplace_back(p.rows() * p.row_length(), INT32_MAX);
    Candidate c;
    c.schedule = params.schedule();
    c.condition = condition;
    c.footprint = make_footprint(p, c.schedule, launch_reduction(p, c.schedule, ctx.gpu));
    proposal.candidates.push_back(std::move(c));
  };
  const bool columns = prefers_columns(p);
  // Columns keep a state a lane.
  const int most = std::min(columns ? 8 : 16, preferred_lanes(p, vector_axis(p, columns)));
  for (int vec = most; vec >= 1; vec /= 2) {
    std::optional<Choice> c = with_vectors(p, ctx, columns, vec);
    // Rows of an odd length: the widest vectors, shifted, rather than ones of a fourth of that or less.
    if (!columns && vec <= most / 4) {
      if (auto shifted = with_shifted_vectors(p, ctx, most)) c = shifted;
    }
    if (!c) continue;
    offer(c->params, c->condition, range.hint_32bit);
    break;
  }
  if (range.hint_32bit && !range.always_32bit) offer(general(p, ctx, columns), {}, true);
  if (!(proposal.candidates.back().condition == Condition{})) offer(general(p, ctx, columns), {}, range.always_32bit);
  return proposal;
}

LaunchShape launch_reduction(const ElementProgram& made, const Schedule& schedule, const GpuFacts&) {
  const ReductionParams s = ReductionParams::of(schedule);
  const ElementProgram p = program_for(made, s);
  LaunchShape shape;
  const Expr rows = row_count(p, s);
  shape.grid[0] = ceildiv(rows, s.rows);
  shape.grid[1] = s.split;
  shape.block[0] = s.threads * s.rows;
  if (s.split == 1) return shape;
  // A counter for each row of blocks, then the parts of the partial results.
  shape.workspace_bytes.push_back(shape.grid[0] * 4);
  shape.zeroed_workspaces = 1;
  const Expr cells = rows * (s.columns ? s.vec : 1) * s.split;
  for (const ProgramReduction& r : p.reductions) {
    for (DType t : state_types(r, p)) shape.workspace_bytes.push_back(cells * bytes(t));
  }
  return shape;
}

}  // namespace tilewright
