#include "schedule/matmul.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <optional>
#include <sstream>

#include "cost/occupancy.h"
#include "schedule/access_pricing.h"
#include "schedule/family.h"

namespace tilewright {
namespace {

using Kind = ProgramStep::Kind;

constexpr int kChunkBytes = 16;
// For the sums of runs of k.
constexpr int64_t kMostWorkspaceBytes = int64_t{1} << 28;
// What mma.sync reaches of the Tensor Cores' rate on the newest GPUs, and FMA loops of theirs.
constexpr double kUnitEfficiency = 0.6;

int64_t ceil_quotient(int64_t a, int64_t b) { return (a + b - 1) / b; }

// ---- operands

// The axis along which most of the operand's elements lie side by side; k where that is no other one.
std::string contiguous_axis(const ElementProgram& p, int step, const std::string& other) {
  const std::vector<bool> needed = p.needed_by({step});
  double best = 0;
  std::string axis = p.matrix.k;
  for (const std::string& candidate : {p.matrix.k, other}) {
    double moved = 0;
    for (size_t i = 0; i < p.steps.size(); ++i) {
      const ProgramStep& s = p.steps[i];
      if (!needed[i] || s.kind != Kind::kLoad || !p.space.depends_on(s.index, candidate)) continue;
      const LaneAccess access = lane_access(p, s.index, s.guard, candidate, 2, s.dtype, bytes(s.dtype));
      if (access.stride == 1 || access.kind == LaneAccess::Kind::kVector)
        moved += elements_touched(p, s.index) * static_cast<double>(bytes(s.dtype));
    }
    if (moved > best) best = moved, axis = candidate;
  }
  return axis;
}

using Facts = std::vector<std::pair<Expr, int64_t>>;  // expressions that are multiples

// Adds that `e` is a multiple of `lanes`; false where it is not at the hints.
bool add_fact(const ElementProgram& p, const Expr& e, int64_t lanes, Facts& facts) {
  const std::pair<Expr, int64_t> fact{e, lanes};
  const SymbolTable& table = p.space.table();
  if (!table.is_divisible(e, lanes) && std::find(facts.begin(), facts.end(), fact) == facts.end())
    facts.push_back(fact);
  return table.hint(e) % lanes == 0;
}

// Facts under which 16-byte copies bring the operand as it is; nothing where it is computed or lies otherwise.
std::optional<Facts> copy_facts(const ElementProgram& p, int step, const OperandTile& tile, DType dtype) {
  const ProgramStep& s = p.steps[step];
  if (s.kind != Kind::kLoad || !s.guard.empty() || !s.picked.empty() || s.dtype != dtype) return std::nullopt;
  const LaneAccess access = lane_access(p, s.index, s.guard, tile.axis, tile.lanes, dtype, kChunkBytes);
  if (access.kind != LaneAccess::Kind::kVector || access.width != tile.lanes) return std::nullopt;
  Facts facts;
  bool holds = add_fact(p, p.space.size(tile.axis), tile.lanes, facts);
  for (const Expr& e : access.assumed) holds = add_fact(p, e, tile.lanes, facts) && holds;
  return holds ? std::optional(facts) : std::nullopt;
}

// Facts under which threads may load what an operand is computed from in vectors; nothing where they do not hold at the
// hints.
std::optional<Facts> load_facts(const ElementProgram& p, int step, const OperandTile& tile) {
  const std::vector<bool> needed = p.needed_by({step});
  Facts facts;
  bool holds = true;
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const ProgramStep& s = p.steps[i];
    if (!needed[i] || s.kind != Kind::kLoad) continue;
    const LaneAccess access = lane_access(p, s.index, s.guard, tile.axis, tile.lanes, s.dtype, kChunkBytes);
    for (const Expr& e : access.assumed) holds = add_fact(p, e, access.width, facts) && holds;
  }
  return holds ? std::optional(facts) : std::nullopt;
}

// ---- choosing parameters

struct Tile {
  int m, n, warps_m, warps_n;
};
constexpr Tile kTensorTiles[] = {
    {128, 256, 2, 4}, {128, 128, 2, 2}, {128, 128, 4, 2}, {128, 64, 2, 2}, {128, 64, 4, 2},
    {64, 128, 2, 2},  {64, 64, 2, 2},   {64, 64, 1, 2},   {32, 128, 1, 4}, {32, 64, 1, 2},
};
constexpr Tile kFmaTiles[] = {{128, 64, 2, 2}, {64, 64, 2, 2}, {32, 64, 1, 2}};
// Two products have twice the sums.
constexpr Tile kPairTiles[] = {{128, 64, 2, 2}, {64, 64, 2, 2}, {32, 64, 1, 2}};

struct Sizes {
  int64_t batches = 1, m = 1, n = 1, k = 1;
};
Sizes sizes_of(const ElementProgram& p) {
  const auto hint = [&](const std::string& axis) {
    return std::max<int64_t>(p.space.table().hint(p.space.size(axis)), 1);
  };
  Sizes s{1, hint(p.matrix.m), hint(p.matrix.n), hint(p.matrix.k)};
  for (const ProgramAxis& a : p.axes) {
    if (!p.is_of_matrix(a.symbol)) s.batches *= hint(a.symbol);
  }
  return s;
}

double multiply_adds_a_clock(const ProgramProduct& product, const GpuFacts& gpu) {
  switch (matrix_unit(product)) {
    case MatrixUnit::kTensor16:
      return gpu.tensor_bf16 / 2;
    case MatrixUnit::kTensor32:
      return gpu.tensor_bf16 / 4;
    case MatrixUnit::kFma:
      break;
  }
  return gpu.fma_f32;
}

// As the assembler gives them: sums, two rounds of fragments, addresses; 12 off on average.
int estimated_registers(const ElementProgram& p, const MatmulParams& s) {
  const int sums = static_cast<int>(p.products.size()) * s.warp_m() * s.warp_n() / 32;
  return std::min(255, 70 + 3 * sums / 2);
}

// Passes over the banks for a copied 128 bytes of a tile: two where it takes half lines of global memory.
double copy_passes(int line_elements, DType dtype) { return line_elements * bytes(dtype) < 128 ? 2 : 1; }

// Which operands lie along k.
struct Lines {
  bool left_along_k = true, right_along_k = true;
};
Lines lines_of(const ElementProgram& p) {
  const ProgramProduct& product = p.products[0];
  return {contiguous_axis(p, product.lhs, p.matrix.m) == p.matrix.k,
          contiguous_axis(p, product.rhs, p.matrix.n) == p.matrix.k};
}

// Clocks of a kernel with these parameters. Fitted to 800 kernels on an H200, of products from 1 x 4096 x 14336 to
// 4096 x 4096 x 4096: 17 % off on average, and the choice by it at most 9 % slower than the best.
double clocks(const ElementProgram& p, const MatmulParams& s, const Sizes& sizes, const Lines& lines,
              const GpuFacts& gpu) {
  constexpr double kAround = 3300;       // first loads, stores
  constexpr double kStepLatency = 474;   // of a step that nothing else hides
  constexpr double kReached = 0.82;      // of what a unit can do
  constexpr double kSharedShare = 0.44;  // of the shared memory's time that multiplying does not hide
  constexpr double kFewWarps = 1.05;     // over the warps of an SM: what they lose by waiting
  constexpr double kSmemBytesPerClock = 128;
  constexpr double kJoin = 1400;  // blocks of a tile waiting for each other
  constexpr double kJoinBytesPerClock = 2300;
  constexpr double kRoundsThatFlow = 4;
  const double products = static_cast<double>(p.products.size());
  const double size = static_cast<double>(bytes(p.products[0].dtype));
  const int64_t blocks = sizes.batches * ceil_quotient(sizes.m, s.tile_m) * ceil_quotient(sizes.n, s.tile_n) * s.split;
  const auto steps = static_cast<double>(ceil_quotient(ceil_quotient(sizes.k, s.tile_k), s.split));
  const double multiplying =
      s.tile_m * s.tile_n * s.tile_k * products / (multiply_adds_a_clock(p.products[0], gpu) * kReached);
  const double read = (s.warp_m() + products * s.warp_n()) * s.warps();
  const DType dtype = p.products[0].dtype;
  const double written = s.tile_m * copy_passes(lines.left_along_k ? s.tile_k : s.tile_m, dtype) +
                         products * s.tile_n * copy_passes(lines.right_along_k ? s.tile_k : s.tile_n, dtype);
  const double moving = (read + written) * s.tile_k * size / kSmemBytesPerClock;
  const Occupancy fitting = occupancy(s.threads(), estimated_registers(p, s), matmul_smem_bytes(p, s), gpu);
  if (fitting.blocks_per_sm == 0) return std::numeric_limits<double>::infinity();
  const double a_sm = std::ceil(static_cast<double>(blocks) / std::max(gpu.sms, 1));
  const double together = std::min<double>(a_sm, fitting.blocks_per_sm);
  const double rounds = a_sm > kRoundsThatFlow * together
                            ? static_cast<double>(blocks) / std::max(gpu.sms, 1) / together
                            : std::ceil(a_sm / together);
  const double waiting = 1 + kFewWarps / (together * s.warps());
  const double step = std::max(together * (multiplying + kSharedShare * moving) * waiting, kStepLatency);
  double total = kAround + rounds * steps * step;
  if (s.split > 1)
    total += kJoin + 8 * products * static_cast<double>(blocks) * s.tile_m * s.tile_n / kJoinBytesPerClock;
  return total;
}

// `copied`: both operands come by copies; computed ones take registers of their own, which the largest tiles have not.
MatmulParams choose_tile(const ElementProgram& p, const Context& ctx, bool copied) {
  const Sizes sizes = sizes_of(p);
  const Lines lines = lines_of(p);
  const bool is_fma = matrix_unit(p.products[0]) == MatrixUnit::kFma;
  const auto size = static_cast<int>(bytes(p.products[0].dtype));
  const auto products = static_cast<int64_t>(p.products.size());
  MatmulParams best;
  double fewest = std::numeric_limits<double>::infinity();
  const auto consider = [&](MatmulParams s) {
    if (s.split > 1 && sizes.k / s.tile_k < 4 * s.split) return;
    const int64_t tiles = sizes.batches * ceil_quotient(sizes.m, s.tile_m) * ceil_quotient(sizes.n, s.tile_n);
    if (s.split > 1 && tiles * s.split * s.tile_m * s.tile_n * products > kMostWorkspaceBytes / 4) return;
    const double taken = clocks(p, s, sizes, lines, ctx.gpu);
    if (taken >= fewest * 0.999) return;
    fewest = taken;
    best = s;
  };
  const auto consider_all = [&](const auto& tiles) {
    for (const Tile& tile : tiles) {
      MatmulParams s;
      s.tile_m = tile.m, s.tile_n = tile.n, s.warps_m = tile.warps_m, s.warps_n = tile.warps_n;
      if (!copied && products * s.warp_m() * s.warp_n() / 32 > 64) continue;
      // Bytes along k that a stage holds of each row.
      for (const int stage_bytes : {128, 64}) {
        if (stage_bytes == 128 && (is_fma || !copied)) continue;
        s.tile_k = stage_bytes / size;
        for (s.stages = 4; s.stages > 2; --s.stages)
          for (s.split = 1; s.split <= 32; s.split *= 2) consider(s);
      }
    }
  };
  if (p.products.size() > 1) {
    consider_all(kPairTiles);
  } else if (is_fma) {
    consider_all(kFmaTiles);
  } else {
    consider_all(kTensorTiles);
  }
  TW_CHECK(fewest < std::numeric_limits<double>::infinity()) << "no tile fits " << ctx.gpu.name;
  return best;
}

// Why an operand is better computed by a kernel of its own; "" where it is not. Each tile along the product's other
// axis computes its elements again.
std::string why_not_computed(const ElementProgram& p, const ProgramProduct& product, bool is_left,
                             const MatmulParams& params, const GpuFacts& gpu) {
  constexpr double kMostOfProduct = 0.5;
  const int step = is_left ? product.lhs : product.rhs;
  const Sizes s = sizes_of(p);
  const int64_t tiles = is_left ? ceil_quotient(s.n, params.tile_n) : ceil_quotient(s.m, params.tile_m);
  const double elements = static_cast<double>(s.batches * s.k * (is_left ? s.m : s.n));
  const std::vector<bool> needed = p.needed_by({step});
  Footprint again;
  for (size_t i = 0; i < p.steps.size(); ++i) {
    if (needed[i]) price_step(p, static_cast<int>(i), elements * static_cast<double>(tiles - 1), again);
  }
  const double again_clocks = again.fma_f32 / gpu.fma_f32 + again.alu / gpu.alu + again.sfu / gpu.sfu;
  const auto products = static_cast<double>(is_left ? p.products.size() : 1);
  const double multiply_adds = products * static_cast<double>(s.batches * s.m * s.n) * static_cast<double>(s.k);
  const double product_clocks = multiply_adds / (multiply_adds_a_clock(product, gpu) * kUnitEfficiency);
  if (again_clocks <= kMostOfProduct * product_clocks) return "";
  std::ostringstream text;
  text << "%" << product.node->operand(is_left ? 0 : 1)->name << " would be computed for each of " << tiles
       << " tiles, which takes " << std::setprecision(2) << again_clocks / product_clocks << " of its product's time";
  return text.str();
}

// The most tiles whose sums of runs of k fit into the workspace; any number where k is not split.
int64_t most_split_tiles(const ElementProgram& p, const MatmulParams& s) {
  if (s.split == 1) return std::numeric_limits<int64_t>::max();
  return kMostWorkspaceBytes / (int64_t{4} * s.split * s.tile_m * s.tile_n * static_cast<int64_t>(p.products.size()));
}

std::vector<std::string> reasons_against(const ElementProgram& p, const MatmulParams& params, const GpuFacts& gpu) {
  if (p.products[0].dtype == DType::kF64) return {"products of f64 are PyTorch's"};
  std::vector<std::string> reasons;
  const auto check = [&](const ProgramProduct& product, bool is_left) {
    std::string why = why_not_computed(p, product, is_left, params, gpu);
    if (!why.empty()) reasons.push_back(std::move(why));
  };
  check(p.products[0], /*is_left=*/true);
  for (const ProgramProduct& product : p.products) check(product, /*is_left=*/false);
  return reasons;
}

// Parameters with 16-byte accesses, and what they need.
struct Choice {
  MatmulParams params;
  Facts divisible;

  void need(const Facts& facts) {
    for (const auto& fact : facts) {
      if (std::find(divisible.begin(), divisible.end(), fact) == divisible.end()) divisible.push_back(fact);
    }
  }
};

// How the operands of one side come to shared memory: all by copies, or all computed. Nothing where neither holds at
// the hints.
struct Side {
  bool copied = false;
  Facts facts;
};
std::optional<Side> choose_side(const ElementProgram& p, const MatmulParams& general, bool is_left) {
  Side copied{true, {}}, computed{false, {}};
  bool may_copy = true, may_load = true;
  for (size_t i = 0; i < (is_left ? 1 : p.products.size()); ++i) {
    const ProgramProduct& product = p.products[i];
    const OperandTile tile = operand_tile(p, product, general, is_left);
    const int step = is_left ? product.lhs : product.rhs;
    const auto append = [](Facts& all, const std::optional<Facts>& more) {
      if (more) all.insert(all.end(), more->begin(), more->end());
      return more.has_value();
    };
    may_copy = append(copied.facts, copy_facts(p, step, tile, product.dtype)) && may_copy;
    may_load = append(computed.facts, load_facts(p, step, tile)) && may_load;
  }
  return may_copy ? std::optional(copied) : may_load ? std::optional(computed) : std::nullopt;
}

// Elements along n that a thread computes together: those of a 16-byte store of the narrowest output.
int preferred_vec(const ElementProgram& p) {
  int64_t narrowest = 4;
  for (const ProgramStore& s : p.stores) narrowest = std::min(narrowest, bytes(s.dtype));
  return narrowest >= 4 ? 4 : 8;
}

std::optional<Choice> choose_vectors(const ElementProgram& p, const Context& ctx, const MatmulParams& general) {
  const std::optional<Side> left = choose_side(p, general, true), right = choose_side(p, general, false);
  if (!left || !right) return std::nullopt;
  Choice choice{choose_tile(p, ctx, left->copied && right->copied), {}};
  choice.params.copy_a = left->copied, choice.params.copy_b = right->copied;
  choice.params.align = kChunkBytes;
  choice.need(left->facts);
  choice.need(right->facts);
  const Expr& n = p.space.size(p.matrix.n);
  for (int vec = preferred_vec(p); vec > 1; vec /= 2) {
    const VectorFacts facts = vector_facts(p, p.matrix.n, vec);
    if (p.space.table().hint(n) % vec != 0 || !facts.holds_at_hint) continue;
    choice.params.vec = vec;
    if (!p.space.table().is_divisible(n, vec)) choice.need({{n, vec}});
    choice.need(facts.divisible);
    break;
  }
  return choice;
}

// ---- footprint

void price_operand(const ElementProgram& p, int step, double times, Footprint& f) {
  const std::vector<bool> needed = p.needed_by({step});
  for (size_t i = 0; i < p.steps.size(); ++i) {
    if (!needed[i]) continue;
    const ProgramStep& s = p.steps[i];
    if (s.kind != Kind::kLoad) {
      price_step(p, static_cast<int>(i), times * elements_touched(p, p.steps[step].index), f);
      continue;
    }
    price_load(p, static_cast<int>(i), {}, f);
    f.accesses.back().bytes *= times;
  }
}

Footprint make_footprint(const ElementProgram& p, const MatmulParams& s, const LaunchShape& shape) {
  Footprint f;
  const Sizes sizes = sizes_of(p);
  const double tiles_m = static_cast<double>(ceil_quotient(sizes.m, s.tile_m));
  const double tiles_n = static_cast<double>(ceil_quotient(sizes.n, s.tile_n));
  const auto products = static_cast<double>(p.products.size());
  const double steps = static_cast<double>(p.body->symbols().hint(matmul_steps(p, s)));
  const double size = static_cast<double>(bytes(p.products[0].dtype));
  f.blocks = p.body->symbols().hint(shape.grid[0]) * p.body->symbols().hint(shape.grid[1]);
  f.threads_per_block = s.threads();
  f.tile_phases = s.split > 1 ? 2 : 1;
  f.smem_bytes = matmul_smem_bytes(p, s);
  price_operand(p, p.products[0].lhs, tiles_n, f);
  for (const ProgramProduct& product : p.products) price_operand(p, product.rhs, tiles_m, f);
  // What follows the products.
  std::vector<int> roots;
  std::transform(p.stores.begin(), p.stores.end(), std::back_inserter(roots),
                 [](const ProgramStore& s) { return s.step; });
  const std::vector<bool> needed = p.needed_by(roots);
  const WarpWalk walk = {{p.matrix.n, std::max(1, s.warp_n() / s.vec), s.vec}, {p.matrix.m, 32, 1}};
  const double elements = static_cast<double>(sizes.batches * sizes.m * sizes.n);
  for (size_t i = 0; i < p.steps.size(); ++i) {
    if (!needed[i]) continue;
    if (p.steps[i].kind == Kind::kLoad) {
      price_load(p, static_cast<int>(i), walk, f);
    } else {
      price_step(p, static_cast<int>(i), elements * s.split, f);  // by one of `split` blocks
    }
  }
  for (size_t i = 0; i < p.stores.size(); ++i) price_store(p, static_cast<int>(i), walk, f);
  // Multiply-adds of whole tiles, and the fragments that warps read for them.
  const double tiles = static_cast<double>(sizes.batches) * tiles_m * tiles_n;
  const double computed = tiles * s.tile_m * s.tile_n * steps * s.tile_k * products;
  if (matrix_unit(p.products[0]) == MatrixUnit::kFma) {
    f.fma_f32 += computed;
  } else {
    f.tensor_flops = 2 * computed * size / 2;
  }
  f.smem_bytes_moved += tiles * steps * s.tile_k * size *
                        ((s.warp_m() + products * s.warp_n()) * s.warps() + s.tile_m + products * s.tile_n);
  f.smem_bytes_moved += 8 * tiles * s.tile_m * s.tile_n * products;
  f.bytes_in_flight_per_thread = (s.stages - 1) * (s.tile_m + products * s.tile_n) * s.tile_k * size / s.threads();
  f.registers_per_thread = estimated_registers(p, s);
  f.barriers = static_cast<int>(steps / s.split) + 2;
  if (s.split > 1) {
    const double bytes = 4 * products * elements * s.split;
    f.accesses.push_back({"sums of runs of k", true, bytes, bytes, 1});
    f.accesses.push_back({"sums of runs of k", false, bytes, bytes, 1});
  }
  return f;
}

}  // namespace

MatmulParams MatmulParams::of(const Schedule& s) {
  const auto number = [&](const char* name) { return static_cast<int>(s.param(name)); };
  MatmulParams p;
  p.tile_m = number("tile_m"), p.tile_n = number("tile_n"), p.tile_k = number("tile_k");
  p.warps_m = number("warps_m"), p.warps_n = number("warps_n");
  p.stages = number("stages"), p.split = number("split");
  p.copy_a = number("copy_a") != 0, p.copy_b = number("copy_b") != 0;
  p.vec = number("vec"), p.index_bits = number("index_bits"), p.align = s.param("align");
  return p;
}

Schedule MatmulParams::schedule() const {
  return {"matmul",
          {{"tile_m", tile_m},
           {"tile_n", tile_n},
           {"tile_k", tile_k},
           {"warps_m", warps_m},
           {"warps_n", warps_n},
           {"stages", stages},
           {"split", split},
           {"copy_a", copy_a},
           {"copy_b", copy_b},
           {"vec", vec},
           {"index_bits", index_bits},
           {"align", align}}};
}

MatrixUnit matrix_unit(const ProgramProduct& product) {
  if (product.dtype == DType::kF16 || product.dtype == DType::kBF16) return MatrixUnit::kTensor16;
  return product.tf32 ? MatrixUnit::kTensor32 : MatrixUnit::kFma;
}

OperandTile operand_tile(const ElementProgram& p, const ProgramProduct& product, const MatmulParams& s, bool is_left) {
  OperandTile tile;
  tile.lanes = kChunkBytes / static_cast<int>(bytes(product.dtype));
  tile.axis = contiguous_axis(p, is_left ? product.lhs : product.rhs, is_left ? p.matrix.m : p.matrix.n);
  tile.along_k = tile.axis == p.matrix.k;
  const int extent = is_left ? s.tile_m : s.tile_n;
  tile.lines = tile.along_k ? extent : s.tile_k;
  tile.chunks = (tile.along_k ? s.tile_k : extent) / tile.lanes;
  if (tile.along_k || bytes(product.dtype) == 2) {
    // The eight lines that are read together lie in all banks.
    const int lines_of_banks = std::max(1, 8 / tile.chunks);
    tile.xor_divisor = lines_of_banks;
    tile.xor_count = std::min(tile.chunks, 8);
  } else {
    // Four lines are read together, eight floats of each.
    tile.xor_count = 4;
    tile.xor_factor = 2;
  }
  return tile;
}

int handed_row(const MatmulParams& s) { return s.warp_n() + 8; }

int64_t matmul_smem_bytes(const ElementProgram& p, const MatmulParams& s) {
  const auto products = static_cast<int64_t>(p.products.size());
  const int64_t stage = (s.tile_m + products * s.tile_n) * s.tile_k * bytes(p.products[0].dtype);
  const int64_t handed = int64_t{4} * handed_row(s) * s.warp_m() * s.warps() * products;
  return std::max(stage * s.stages, handed);
}

Expr matmul_tiles(const ElementProgram& p, const MatmulParams& s) {
  Expr tiles = ceildiv(p.space.size(p.matrix.m), s.tile_m) * ceildiv(p.space.size(p.matrix.n), s.tile_n);
  for (const ProgramAxis& a : p.axes) {
    if (!p.is_of_matrix(a.symbol)) tiles = tiles * a.size;
  }
  return tiles;
}

Expr matmul_steps(const ElementProgram& p, const MatmulParams& s) {
  return ceildiv(p.space.size(p.matrix.k), s.tile_k);
}

LaunchShape launch_matmul(const ElementProgram& p, const Schedule& schedule, const GpuFacts&) {
  const MatmulParams s = MatmulParams::of(schedule);
  LaunchShape shape;
  shape.grid[0] = matmul_tiles(p, s);
  shape.grid[1] = s.split;
  shape.block[0] = s.threads();
  shape.dynamic_smem_bytes = matmul_smem_bytes(p, s);
  if (s.split > 1) {
    shape.workspace_bytes = {shape.grid[0] * 4, shape.grid[0] * (int64_t{4} * s.split * s.tile_m * s.tile_n *
                                                                 static_cast<int64_t>(p.products.size()))};
    shape.zeroed_workspaces = 1;
  }
  return shape;
}

Proposal propose_matmul(const ElementProgram& p, const Context& ctx) {
  Proposal proposal;
  const MatmulParams general = choose_tile(p, ctx, /*copied=*/false);
  proposal.why_none = reasons_against(p, general, ctx.gpu);
  if (!proposal.why_none.empty()) return proposal;
  const IndexRange range = index_range(p);
  const SymbolTable& table = p.space.table();
  const auto offer = [&](MatmulParams params, bool index_32bit, Facts divisible) {
    params.index_bits = index_32bit ? 32 : 64;
    Candidate c;
    c.schedule = params.schedule();
    c.condition.pointer_alignment = params.align;
    c.condition.index_32bit = index_32bit && !range.always_32bit;
    c.condition.divisible = std::move(divisible);
    const Expr tiles = matmul_tiles(p, params);
    const int64_t most = most_split_tiles(p, params);
    if (table.range(tiles).upper > most) c.condition.at_most.emplace_back(tiles, most);
    c.footprint = make_footprint(p, params, launch_matmul(p, c.schedule, ctx.gpu));
    proposal.candidates.push_back(std::move(c));
  };
  if (auto fast = choose_vectors(p, ctx, general)) offer(fast->params, range.hint_32bit, std::move(fast->divisible));
  MatmulParams last = general;
  if (table.range(matmul_tiles(p, general)).upper > most_split_tiles(p, general)) last.split = 1;
  if (last.split != general.split || (range.hint_32bit && !range.always_32bit)) offer(general, range.hint_32bit, {});
  offer(last, range.always_32bit, {});
  return proposal;
}

}  // namespace tilewright
