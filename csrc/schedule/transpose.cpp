#include "schedule/transpose.h"

#include <algorithm>
#include <bit>
#include <map>

#include "schedule/access_pricing.h"
#include "schedule/family.h"

namespace tilewright {
namespace {

using Kind = ProgramStep::Kind;

// Measured: 16 KB of loads a block, runs of 128 bytes along y, and neighbouring blocks along x.
constexpr int64_t kTileBytes = 16 * 1024;
constexpr int64_t kRunBytes = 128;
constexpr int64_t kMaxSharedBytes = 32 * 1024;
constexpr int kMaxBlockElements = 128;  // vec_x * vec_y: a thread's block is unrolled
constexpr int kMaxUnrolledSteps = 4096;
constexpr int64_t kBytesAtOnce = 256;
constexpr int64_t kVectorsAtOnce = 8;

int64_t ceil_power(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

bool is_consecutive(const ElementProgram& p, const Expr& index, const Guard& guard, DType dtype,
                    const std::string& axis) {
  if (!p.space.depends_on(index, axis)) return false;
  if (const std::optional<Expr> stride = p.space.coefficient(index, axis)) return stride->is_constant(1);
  const LaneAccess access = lane_access(p, index, guard, axis, 2, dtype, 16);
  return access.kind == LaneAccess::Kind::kVector || (access.kind == LaneAccess::Kind::kStrided && access.stride == 1);
}

bool is_consecutive(const ElementProgram& p, const ProgramStep& load, const std::string& axis) {
  return load.picked.empty() && is_consecutive(p, load.index, load.guard, load.dtype, axis);
}

bool is_consecutive(const ElementProgram& p, const ProgramStore& store, const std::string& axis) {
  return is_consecutive(p, store.index, {}, store.dtype, axis);
}

double hint(const ElementProgram& p, const Expr& e) { return static_cast<double>(p.space.table().hint(e)); }

double bytes_touched(const ElementProgram& p, const Expr& index, DType dtype) {
  return static_cast<double>(bytes(dtype)) * elements_touched(p, index);
}

// Bytes of accesses that are consecutive along an axis, of those that also vary along `also`.
struct Traffic {
  double loads = 0, stores = 0;
};
std::map<std::string, Traffic> traffic_by_axis(const ElementProgram& p, const std::string& also) {
  std::map<std::string, Traffic> traffic;
  const auto is_other = [&](const Expr& index) { return !also.empty() && !p.space.depends_on(index, also); };
  for (const ProgramAxis& axis : p.axes) {
    Traffic& of_axis = traffic[axis.symbol];
    for (const ProgramStep& s : p.steps) {
      if (s.kind != Kind::kLoad || is_other(s.index)) continue;
      if (is_consecutive(p, s, axis.symbol)) of_axis.loads += bytes_touched(p, s.index, s.dtype);
    }
    for (const ProgramStore& s : p.stores) {
      if (is_other(s.index)) continue;
      if (is_consecutive(p, s, axis.symbol)) of_axis.stores += bytes_touched(p, s.index, s.dtype);
    }
  }
  return traffic;
}

// How a step depends on loads: on some along y; on some that want to be made along x.
struct Reach {
  bool along_y = false, along_x = false;
};

std::vector<Reach> reach_of_steps(const ElementProgram& p, const std::string& x, const std::string& y) {
  std::vector<Reach> reach(p.steps.size());
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const ProgramStep& s = p.steps[i];
    for (int o : s.operands) {
      reach[i].along_y |= reach[o].along_y;
      reach[i].along_x |= reach[o].along_x;
    }
    const bool varies = s.kind == Kind::kLoad && p.space.depends_on(s.index, x) && p.space.depends_on(s.index, y);
    if (!varies) continue;
    (is_consecutive(p, s, y) ? reach[i].along_y : reach[i].along_x) = true;
  }
  return reach;
}

// Where the steps under `roots` are cut: at the loads along y, or as late as they depend on nothing else.
std::vector<int> cut(const ElementProgram& p, const std::vector<Reach>& reach, const std::vector<int>& roots,
                     bool late) {
  std::vector<bool> needed(p.steps.size(), false);
  for (int r : roots) needed[r] = true;
  std::vector<int> steps;
  for (size_t i = p.steps.size(); i-- > 0;) {
    if (!needed[i]) continue;
    const bool is_made_along_y = reach[i].along_y && !reach[i].along_x;
    if (is_made_along_y && (late || p.steps[i].kind == Kind::kLoad)) {
      steps.push_back(static_cast<int>(i));
      continue;
    }
    for (int o : p.steps[i].operands) needed[o] = true;
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

int64_t bytes_of(const ElementProgram& p, const std::vector<int>& steps) {
  int64_t sum = 0;
  for (int s : steps) sum += bytes(p.steps[s].dtype);
  return sum;
}

std::vector<int> loads_under(const ElementProgram& p, const std::vector<int>& roots, const std::vector<int>& stop) {
  std::vector<bool> needed(p.steps.size(), false), known(p.steps.size(), false);
  for (int s : stop) known[s] = true;
  for (int r : roots) needed[r] = true;
  std::vector<int> loads;
  for (size_t i = p.steps.size(); i-- > 0;) {
    if (!needed[i] || known[i]) continue;
    if (p.steps[i].kind == Kind::kLoad) loads.push_back(static_cast<int>(i));
    for (int o : p.steps[i].operands) needed[o] = true;
  }
  std::sort(loads.begin(), loads.end());
  return loads;
}

void add_once(std::vector<int>& all, int step) {
  if (std::find(all.begin(), all.end(), step) == all.end()) all.push_back(step);
}

void assign_phases(const ElementProgram& p, TransposePhases& t) {
  const std::vector<Reach> reach = reach_of_steps(p, t.x, t.y);
  std::vector<int> first_roots, second_roots;
  for (size_t i = 0; i < p.stores.size(); ++i) {
    const ProgramStore& s = p.stores[i];
    const Reach& r = reach[s.step];
    int phase = 1;
    if (p.space.depends_on(s.index, t.x) && is_consecutive(p, s, t.y)) phase = r.along_x ? 2 : 0;
    t.stores[phase].push_back(static_cast<int>(i));
    if (phase == 2) add_once(t.into_y, s.step);
    add_once(phase == 0 ? first_roots : second_roots, s.step);
  }
  t.into_x = cut(p, reach, second_roots, /*late=*/false);
  std::vector<int> late = cut(p, reach, second_roots, /*late=*/true);
  if (bytes_of(p, late) < bytes_of(p, t.into_x)) t.into_x = std::move(late);
  for (int s : t.into_x) add_once(first_roots, s);
  t.loads_along_y = loads_under(p, first_roots, {});
  t.loads_along_x = loads_under(p, second_roots, t.into_x);
}

// ---- choosing parameters

struct Choice {
  TransposeParams params;
  Condition condition;
};

struct Vector {
  int lanes = 1;
  VectorFacts facts;
};

// The widest vectors along an axis, up to `most`, whose conditions the hints fulfil.
Vector choose_vector(const ElementProgram& p, const std::string& axis, int most) {
  const SymbolTable& table = p.space.table();
  const Expr& size = p.space.size(axis);
  for (int lanes = std::min(most, preferred_lanes(p, axis)); lanes > 1; lanes /= 2) {
    VectorFacts facts = vector_facts(p, axis, lanes);
    if (!facts.any_vector || !facts.holds_at_hint || table.hint(size) % lanes != 0) continue;
    const std::pair<Expr, int64_t> fact{size, lanes};
    if (!table.is_divisible(size, lanes) &&
        std::find(facts.divisible.begin(), facts.divisible.end(), fact) == facts.divisible.end())
      facts.divisible.push_back(fact);
    return {lanes, facts};
  }
  return {};
}

// 32-bit registers of a thread: the vectors of phase 1, or the block of phase 2 with its own loads.
int registers(const ElementProgram& p, const TransposePhases& t, const TransposeParams& s) {
  const int64_t block = int64_t{s.vec_x} * s.vec_y;
  const int64_t held = block * (bytes_of(p, t.into_x) + bytes_of(p, t.loads_along_x)) / 4;
  const int64_t read = block * bytes_of(p, t.loads_along_y) / 4;
  return static_cast<int>(std::min<int64_t>(255, 24 + std::max(held + 2 * s.vec_x, read)));
}

void choose_tile(const ElementProgram& p, const TransposePhases& t, const GpuFacts& gpu, TransposeParams& s) {
  std::vector<int> crossing = t.into_x;
  crossing.insert(crossing.end(), t.into_y.begin(), t.into_y.end());
  int64_t widest = 1;
  for (int step : crossing) widest = std::max(widest, bytes(p.steps[step].dtype));
  const int64_t most =
      std::min(kTileBytes / widest,
               static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(kMaxSharedBytes / bytes_of(p, crossing)))));
  const SymbolTable& table = p.space.table();
  const int64_t size_x = table.hint(p.space.size(t.x)), size_y = table.hint(p.space.size(t.y));
  int64_t y = std::max<int64_t>(s.vec_y, std::min(kRunBytes / widest, ceil_power(size_y)));
  int64_t x = std::max<int64_t>(s.vec_x, std::min(most / y, ceil_power(size_x)));
  y = std::max<int64_t>(y, std::min(most / x, ceil_power(size_y)));
  const auto blocks = [&] { return x / s.vec_x * (y / s.vec_y); };
  // Smaller tiles where there are few; a warp's lanes each have a block of their own in any case.
  int64_t others = 1;
  for (const ProgramAxis& a : p.axes) {
    if (a.symbol != t.x && a.symbol != t.y) others *= std::max<int64_t>(table.hint(a.size), 1);
  }
  const auto tiles = [&] { return (size_x + x - 1) / x * ((size_y + y - 1) / y) * others; };
  while (tiles() < gpu.sms && blocks() > 32 && x * widest > kRunBytes / 2 && x > s.vec_x) x /= 2;
  while (tiles() < gpu.sms && blocks() > 32 && y * widest > kRunBytes / 2 && y > s.vec_y) y /= 2;
  while (blocks() < 32) x *= 2;
  s.tile_x = static_cast<int>(x);
  s.tile_y = static_cast<int>(y);
  s.threads = static_cast<int>(std::min<int64_t>(blocks(), s.vec_x * s.vec_y > 8 ? 128 : 256));
}

void add_facts(Condition& condition, const VectorFacts& facts) {
  condition.pointer_alignment = std::max(condition.pointer_alignment, facts.alignment);
  for (const auto& fact : facts.divisible) {
    if (std::find(condition.divisible.begin(), condition.divisible.end(), fact) == condition.divisible.end())
      condition.divisible.push_back(fact);
  }
}

Choice with_vectors(const ElementProgram& p, const TransposePhases& t, const GpuFacts& gpu) {
  Choice c;
  Vector y = choose_vector(p, t.y, 16);
  Vector x = choose_vector(p, t.x, kMaxBlockElements / y.lanes);
  const auto steps = static_cast<int64_t>(p.steps.size());
  const double elements = hint(p, p.rows());
  const auto is_too_much = [&] {
    c.params.vec_x = x.lanes;
    c.params.vec_y = y.lanes;
    const int block = x.lanes * y.lanes;
    // Every SM gets a warp, as far as there are elements for them.
    return elements < 32.0 * block * gpu.sms || steps * block > kMaxUnrolledSteps || registers(p, t, c.params) > 200;
  };
  while (is_too_much() && std::max(x.lanes, y.lanes) > 2) {
    Vector& wider = y.lanes >= x.lanes ? y : x;
    wider = choose_vector(p, &wider == &y ? t.y : t.x, wider.lanes / 2);
  }
  add_facts(c.condition, x.facts);
  add_facts(c.condition, y.facts);
  c.params.align = c.condition.pointer_alignment;
  choose_tile(p, t, gpu, c.params);
  return c;
}

Choice general(const ElementProgram& p, const TransposePhases& t, const GpuFacts& gpu) {
  Choice c;
  choose_tile(p, t, gpu, c.params);
  return c;
}

// ---- footprint

Footprint make_footprint(const ElementProgram& p, const TransposePhases& t, const TransposeParams& s,
                         const LaunchShape& shape) {
  Footprint f;
  const auto walk = [](const std::string& along, int64_t tile, int64_t vec, const std::string& across) {
    return WarpWalk{{along, tile / vec, vec}, {across, 32, 1}};
  };
  const WarpWalk along_x = walk(t.x, s.tile_x, s.vec_x, t.y), along_y = walk(t.y, s.tile_y, s.vec_y, t.x);
  for (int load : t.loads_along_y) price_load(p, load, along_y, f);
  for (int load : t.loads_along_x) price_load(p, load, along_x, f);
  for (int phase : {0, 1, 2}) {
    for (int store : t.stores[phase]) price_store(p, store, phase == 1 ? along_x : along_y, f);
  }
  price_operations(p, f);
  f.blocks = p.body->symbols().hint(shape.grid[0]);
  f.threads_per_block = s.threads;
  f.registers_per_thread = registers(p, t, s);
  const double elements = static_cast<double>(s.tile_x) * s.tile_y;
  const int64_t loaded = bytes_of(p, t.into_x.empty() ? t.loads_along_x : t.loads_along_y);
  const int64_t vector = loaded * (t.into_x.empty() ? s.vec_x * s.vec_y : s.vec_y);
  f.bytes_in_flight_per_thread = std::min(static_cast<double>(loaded) * elements / s.threads,
                                          static_cast<double>(vector * vectors_at_once(vector)));
  const auto cross = [&](const std::vector<int>& steps, int from, int from_vec, int to, int to_vec) {
    for (int step : steps) {
      const SharedTile tile = shared_tile(from, from_vec, to, to_vec, static_cast<int>(bytes(p.steps[step].dtype)));
      f.smem_bytes += tile.bytes();
      f.smem_bytes_moved += 2.0 * static_cast<double>(tile.bytes() * f.blocks);
    }
    f.barriers += steps.empty() ? 0 : 1;
  };
  cross(t.into_x, s.tile_y, s.vec_y, s.tile_x, s.vec_x);
  cross(t.into_y, s.tile_x, s.vec_x, s.tile_y, s.vec_y);
  return f;
}

}  // namespace

TransposeParams TransposeParams::of(const Schedule& s) {
  TransposeParams p;
  p.tile_x = static_cast<int>(s.param("tile_x"));
  p.tile_y = static_cast<int>(s.param("tile_y"));
  p.vec_x = static_cast<int>(s.param("vec_x"));
  p.vec_y = static_cast<int>(s.param("vec_y"));
  p.threads = static_cast<int>(s.param("threads"));
  p.index_bits = static_cast<int>(s.param("index_bits"));
  p.align = s.param("align");
  return p;
}

Schedule TransposeParams::schedule() const {
  return {"transpose",
          {{"tile_x", tile_x},
           {"tile_y", tile_y},
           {"vec_x", vec_x},
           {"vec_y", vec_y},
           {"threads", threads},
           {"index_bits", index_bits},
           {"align", align}}};
}

int vectors_at_once(int64_t bytes) {
  const int64_t fit = kBytesAtOnce / std::max<int64_t>(bytes, 1);
  return static_cast<int>(std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(fit, 1, kVectorsAtOnce))));
}

TransposePhases transpose_phases(const ElementProgram& p) {
  TransposePhases t;
  if (p.has_reductions()) {
    t.why_not = "the group has a reduction";
    return t;
  }
  if (p.axes.size() < 2) {
    t.why_not = "all accesses are consecutive along the same axis";
    return t;
  }
  double most = 0;
  for (const auto& [axis, traffic] : traffic_by_axis(p, "")) {
    if (traffic.stores > most) most = traffic.stores, t.x = axis;
  }
  if (t.x.empty()) {
    t.why_not = "no output is consecutive along an axis";
    return t;
  }
  most = 0;
  for (const auto& [axis, traffic] : traffic_by_axis(p, t.x)) {
    if (axis != t.x && traffic.loads + traffic.stores > most) most = traffic.loads + traffic.stores, t.y = axis;
  }
  if (t.y.empty()) {
    t.why_not = "all accesses are consecutive along the same axis";
    return t;
  }
  assign_phases(p, t);
  if (t.into_x.empty() && t.into_y.empty()) t.why_not = "no value is needed along both axes";
  const int64_t crossing = bytes_of(p, t.into_x) + bytes_of(p, t.into_y);
  if (crossing > 64) t.why_not = std::to_string(crossing) + " bytes an element cross in shared memory";
  return t;
}

int64_t SharedTile::place(int64_t row, int64_t chunk) const {
  const int64_t turned = row / xor_rows % xor_count * xor_turn;
  return (row * chunks + chunk) ^ ((turned % xor_count + turned / xor_count) * xor_step);
}

SharedTile shared_tile(int from, int from_vec, int to, int to_vec, int element_bytes) {
  SharedTile t;
  t.parts = std::max(1, from_vec * element_bytes / 16);
  t.chunk_bytes = from_vec * element_bytes / t.parts;
  t.rows = to;
  t.chunks = from / from_vec;
  t.block_rows = to_vec;
  // Lanes that go over the banks together, and chunks in a bank's word.
  const int64_t together = t.chunk_bytes <= 4 ? 32 : 128 / t.chunk_bytes;
  const int64_t in_word = std::max(1, 4 / t.chunk_bytes);
  // Readers that go together are in so many blocks, and take so many neighbouring chunks of each, which the flipped
  // bits leave alone. Writers take as many neighbouring chunks as there are, of few blocks: the blocks' low bits flip
  // what is above those.
  const int64_t blocks = std::min(together, t.rows / t.block_rows), neighbours = together / blocks;
  t.xor_step = static_cast<int>(neighbours * in_word);
  // Blocks that do not fill the banks lie in different ones to begin with.
  const int64_t block_bytes = t.block_rows * t.chunks * t.chunk_bytes, apart = std::max<int64_t>(1, 128 / block_bytes);
  t.xor_rows = t.block_rows * apart;
  t.xor_count = static_cast<int>(std::max<int64_t>(1, blocks / apart));
  t.xor_turn = static_cast<int>(std::clamp<int64_t>(std::min(together, t.chunks) / neighbours, 1, t.xor_count));
  return t;
}

Proposal propose_transpose(const ElementProgram& p, const Context& ctx) {
  Proposal proposal;
  const TransposePhases t = transpose_phases(p);
  if (!t.why_not.empty()) {
    proposal.why_none.push_back(t.why_not);
    return proposal;
  }
  const IndexRange range = index_range(p);
  const auto offer = [&](Choice choice, bool index_32bit) {
    Candidate c;
    choice.params.index_bits = index_32bit ? 32 : 64;
    c.condition = std::move(choice.condition);
    c.condition.index_32bit = index_32bit && !range.always_32bit;
    c.schedule = choice.params.schedule();
    c.footprint = make_footprint(p, t, choice.params, launch_transpose(p, c.schedule, ctx.gpu));
    proposal.candidates.push_back(std::move(c));
  };
  const Choice wide = with_vectors(p, t, ctx.gpu);
  if (wide.params.vec_x > 1 || wide.params.vec_y > 1) offer(wide, range.hint_32bit);
  if (range.hint_32bit && !range.always_32bit) offer(general(p, t, ctx.gpu), true);
  offer(general(p, t, ctx.gpu), range.always_32bit);
  return proposal;
}

LaunchShape launch_transpose(const ElementProgram& p, const Schedule& schedule, const GpuFacts&) {
  const TransposeParams s = TransposeParams::of(schedule);
  const TransposePhases t = transpose_phases(p);
  LaunchShape shape;
  for (const ProgramAxis& a : p.axes)
    shape.grid[0] = shape.grid[0] * ceildiv(a.size, a.symbol == t.x ? s.tile_x : a.symbol == t.y ? s.tile_y : 1);
  shape.block[0] = s.threads;
  return shape;
}

}  // namespace tilewright
