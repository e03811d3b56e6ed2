// Transposing kernels (schedule/transpose.h has the parameters and the phases).
//
//   block -> tile, those along x next to each other
//   1. for this thread's vectors along y:   load, compute, store; put values that cross into shared memory
//   barrier
//   2. for this thread's blocks of vec_y vectors along x:
//        take a column of chunks from shared memory: its elements are the lanes of the block's vectors
//        load, compute, store; put values that cross back into shared memory
//   barrier
//   3. for this thread's blocks of vec_x vectors along y: take, store
//
// Beyond the ends of the axes vectors are those at the end: they are loaded and computed, but not stored; so loads need
// no branches.

#include "schedule/transpose.h"

#include <algorithm>

#include "codegen/expression.h"
#include "codegen/families/families.h"

namespace tilewright {
namespace {

class TransposeKernel {
 public:
  TransposeKernel(llvm::LLVMContext& context, const ElementProgram& p, const Schedule& schedule)
      : p_(p),
        s_(TransposeParams::of(schedule)),
        t_(transpose_phases(p)),
        k_(context, *p.body, {"tw_transpose", s_.threads, 0, s_.index_bits, 0}),
        ir_(k_.ir()),
        emit_(k_, p, s_.align),
        x_{t_.x, s_.tile_x, s_.vec_x},
        y_{t_.y, s_.tile_y, s_.vec_y} {}

  std::unique_ptr<llvm::Module> build() {
    place_block();
    const std::vector<Crossing> into_x = make_crossings(t_.into_x, y_, x_);
    const std::vector<Crossing> into_y = make_crossings(t_.into_y, x_, y_);
    first_phase(into_x);
    if (!into_x.empty()) k_.barrier();
    later_phase(x_, y_, into_x, t_.stores[1], into_y);
    if (!into_y.empty()) {
      k_.barrier();
      later_phase(y_, x_, into_y, t_.stores[2], {});
    }
    return k_.finish();
  }

 private:
  struct Side {
    std::string axis;
    int tile, vec;
    Reg first = nullptr;  // of the tile
    Reg size = nullptr;
    int chunks() const { return tile / vec; }
  };
  // A step's value on its way through shared memory.
  struct Crossing {
    int step;
    DType dtype;
    SharedTile tile;
    std::vector<Reg> arrays;
  };
  // vec(`lanes`) x vec(`across`) elements of the tile, or a single vector.
  struct Place {
    Reg along, across;  // first element within the tile, in `lanes`' and the other axis
    KernelBuilder::Bindings axes;
    Reg exists;
  };

  Reg size(const Expr& e) {
    return k_.expression(e, {}, [](const Expr&) { return true; });
  }
  const Side& other(const Side& side) const { return &side == &x_ ? y_ : x_; }

  void place_block() {
    Reg rest = k_.block();
    const auto take = [&](const Expr& count) {
      const Reg n = size(count), at = ir_.CreateURem(rest, n);
      rest = ir_.CreateUDiv(rest, n);
      return at;
    };
    for (Side* side : {&x_, &y_}) {
      const Expr& extent = p_.space.size(side->axis);
      side->size = size(extent);
      side->first = ir_.CreateMul(take(ceildiv(extent, side->tile)), k_.index(side->tile));
    }
    for (size_t a = p_.axes.size(); a-- > 0;) {
      const ProgramAxis& axis = p_.axes[a];
      if (axis.symbol != x_.axis && axis.symbol != y_.axis) block_axes_[axis.symbol] = take(axis.size);
    }
  }

  std::vector<Crossing> make_crossings(const std::vector<int>& steps, const Side& from, const Side& to) {
    std::vector<Crossing> crossings;
    for (int step : steps) {
      Crossing c{step, p_.steps[step].dtype, {}, {}};
      c.tile = shared_tile(from.tile, from.vec, to.tile, to.vec, static_cast<int>(bytes(c.dtype)));
      for (int part = 0; part < c.tile.parts; ++part)
        c.arrays.push_back(k_.shared_bytes(c.tile.bytes() / c.tile.parts, "tile"));
      crossings.push_back(std::move(c));
    }
    return crossings;
  }

  // ---- where a thread works

  // A vector along a side, counted in vectors, and how many rows of vectors (or of blocks) into the tile it lies.
  struct Spot {
    Reg vector, row;
  };

  // Runs `body` for the thread's share of the vectors along `side` in `rows` rows, some at once.
  void for_each_spot(const Side& side, int64_t rows, int at_once,
                     const std::function<void(const std::vector<Spot>&)>& body) {
    const int64_t total = rows * side.chunks(), turns = total / s_.threads;
    const int64_t together = std::min<int64_t>(turns, at_once);
    const auto spots = [&](Reg first) {
      std::vector<Spot> all;
      const Reg chunks = k_.index(side.chunks());
      for (int64_t i = 0; i < together; ++i) {
        // A thread that goes on by whole rows stays where it is along the side.
        const bool whole = s_.threads % side.chunks() == 0;
        const Reg at = whole ? first : ir_.CreateAdd(first, k_.index(i * s_.threads));
        const Reg row = ir_.CreateUDiv(at, chunks);
        all.push_back(
            {ir_.CreateURem(at, chunks), whole ? ir_.CreateAdd(row, k_.index(i * s_.threads / side.chunks())) : row});
      }
      body(all);
    };
    if (together == turns) {
      spots(k_.thread());
      return;
    }
    k_.loop(k_.thread(), k_.index(total), k_.index(together * s_.threads), {}, [&](Reg first, Regs) {
      spots(first);
      return Regs{};
    });
  }

  // The place of `vec` elements `at` elements into the tile; those beyond the end become the last ones.
  Reg clamp(const Side& side, Reg at, int vec, Reg& exists) {
    const Reg wanted = ir_.CreateAdd(side.first, at);
    if (p_.space.table().is_divisible(p_.space.size(side.axis), side.tile)) return wanted;
    exists = ir_.CreateAnd(exists, ir_.CreateICmpULT(wanted, side.size));
    return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, wanted, ir_.CreateSub(side.size, k_.index(vec)));
  }

  // The elements at a spot, `vec` of them across.
  Place place(const Side& side, const Spot& spot, int vec) {
    const Side& across = other(side);
    Place result;
    result.along = ir_.CreateMul(spot.vector, k_.index(side.vec));
    result.across = ir_.CreateMul(spot.row, k_.index(vec));
    result.exists = ir_.getTrue();
    result.axes = block_axes_;
    result.axes[side.axis] = clamp(side, result.along, side.vec, result.exists);
    result.axes[across.axis] = clamp(across, result.across, vec, result.exists);
    return result;
  }

  // Where what is read is also written, nothing is read twice: another thread writes it meanwhile.
  Reg mask(const Place& place) const {
    const bool in_place = std::any_of(p_.stores.begin(), p_.stores.end(), [](const ProgramStore& s) { return s.into; });
    return in_place ? place.exists : nullptr;
  }

  // ---- shared memory

  // SharedTile::place, in bytes.
  Reg byte_offset(const SharedTile& tile, Reg row, Reg chunk) {
    const Reg count = k_.index(tile.xor_count);
    const Reg block = ir_.CreateURem(ir_.CreateUDiv(row, k_.index(tile.xor_rows)), count);
    const Reg turned = ir_.CreateMul(block, k_.index(tile.xor_turn));
    const Reg rotated = ir_.CreateAdd(ir_.CreateURem(turned, count), ir_.CreateUDiv(turned, count));
    const Reg straight = ir_.CreateAdd(ir_.CreateMul(row, k_.index(tile.chunks)), chunk);
    return ir_.CreateMul(ir_.CreateXor(straight, ir_.CreateMul(rotated, k_.index(tile.xor_step))),
                         k_.index(tile.chunk_bytes));
  }

  // A vector along the axis that the value comes from.
  void put(const Crossing& c, int from_vec, Reg along, Reg row, Regs values) {
    if (values.size() == 1) values.assign(from_vec, values[0]);
    const Reg at = byte_offset(c.tile, row, ir_.CreateUDiv(along, k_.index(from_vec)));
    const auto width = values.size() / c.arrays.size();
    for (size_t part = 0; part < c.arrays.size(); ++part) {
      k_.store_shared(c.arrays[part], at, c.dtype,
                      Regs(values.begin() + part * width, values.begin() + (part + 1) * width));
    }
  }

  // A block: for each element along the axis that the value comes from, a vector along the other one.
  std::vector<Regs> take(const Crossing& c, int from_vec, Reg along, Reg row) {
    std::vector<Regs> vectors(from_vec);
    const Reg chunk = ir_.CreateUDiv(along, k_.index(from_vec));
    for (int r = 0; r < c.tile.block_rows; ++r) {
      const Reg at = byte_offset(c.tile, ir_.CreateAdd(row, k_.index(r)), chunk);
      size_t element = 0;
      for (Reg array : c.arrays) {
        for (Reg value : k_.load_shared(array, at, c.dtype, from_vec / c.tile.parts))
          vectors[element++].push_back(value);
      }
    }
    return vectors;
  }

  // ---- phases

  int64_t bytes_of(const std::vector<int>& steps) const {
    int64_t sum = 0;
    for (int s : steps) sum += bytes(p_.steps[s].dtype);
    return sum;
  }

  std::vector<int> steps_of(const std::vector<int>& stores) const {
    std::vector<int> steps;
    steps.reserve(stores.size());
    for (int s : stores) steps.push_back(p_.stores[s].step);
    return steps;
  }

  void first_phase(const std::vector<Crossing>& crossings) {
    std::vector<int> roots = steps_of(t_.stores[0]);
    roots.insert(roots.end(), t_.into_x.begin(), t_.into_x.end());
    if (roots.empty()) return;
    for_each_spot(y_, x_.tile, vectors_at_once(y_.vec * bytes_of(t_.loads_along_y)), [&](const std::vector<Spot>& all) {
      std::vector<Place> places;
      std::vector<Frame> frames;
      for (const Spot& at : all) {
        places.push_back(place(y_, at, 1));
        frames.push_back(emit_.frame(places.back().axes, y_.axis, y_.vec, mask(places.back())));
      }
      emit_.load_ahead(frames, roots);
      for (size_t i = 0; i < frames.size(); ++i) {
        for (const Crossing& c : crossings)
          put(c, y_.vec, places[i].along, places[i].across, emit_.value(frames[i], c.step));
        if (t_.stores[0].empty()) continue;
        k_.if_then(places[i].exists, [&] {
          for (int s : t_.stores[0]) emit_.store(frames[i], p_.stores[s]);
        });
      }
    });
  }

  // Blocks of vectors along `side`: what crossed into it, the stores, and what crosses back.
  void later_phase(const Side& side, const Side& across, const std::vector<Crossing>& in,
                   const std::vector<int>& stores, const std::vector<Crossing>& out) {
    std::vector<int> roots = steps_of(stores);
    for (const Crossing& c : out) roots.push_back(c.step);
    if (roots.empty()) return;
    const std::vector<int> loads = &side == &x_ ? t_.loads_along_x : std::vector<int>{};
    const int64_t block_bytes =
        int64_t{side.vec} * across.vec * (bytes_of(loads) + (&side == &x_ ? bytes_of(t_.into_x) : 0));
    for_each_spot(side, across.chunks(), vectors_at_once(block_bytes), [&](const std::vector<Spot>& all) {
      std::vector<Place> places;
      std::vector<std::vector<Frame>> frames;
      for (const Spot& at : all) {
        places.push_back(place(side, at, across.vec));
        frames.push_back(block_frames(side, across, places.back()));
        emit_.load_ahead(frames.back(), loads);
      }
      for (size_t i = 0; i < places.size(); ++i) {
        for (const Crossing& c : in) {
          const std::vector<Regs> vectors = take(c, across.vec, places[i].across, places[i].along);
          for (int v = 0; v < across.vec; ++v) frames[i][v].values[c.step] = vectors[v];
        }
      }
      for (size_t i = 0; i < places.size(); ++i) {
        k_.if_then(places[i].exists, [&] { finish_block(side, across, places[i], frames[i], roots, stores, out); });
      }
    });
  }

  std::vector<Frame> block_frames(const Side& side, const Side& across, const Place& place) {
    std::vector<Frame> frames;
    for (int v = 0; v < across.vec; ++v) {
      KernelBuilder::Bindings axes = place.axes;
      axes[across.axis] = ir_.CreateAdd(axes[across.axis], k_.index(v));
      frames.push_back(emit_.frame(axes, side.axis, side.vec, mask(place)));
    }
    return frames;
  }

  void finish_block(const Side& side, const Side& across, const Place& place, std::vector<Frame>& frames,
                    const std::vector<int>& roots, const std::vector<int>& stores, const std::vector<Crossing>& out) {
    for (size_t v = 0; v < frames.size(); ++v) {
      if (v > 0) share(frames[0], frames[v], across.axis);
      for (int r : roots) emit_.value(frames[v], r);
      for (int s : stores) emit_.store(frames[v], p_.stores[s]);
      for (const Crossing& c : out) {
        const Reg row = ir_.CreateAdd(place.across, k_.index(static_cast<int64_t>(v)));
        put(c, side.vec, place.along, row, emit_.value(frames[v], c.step));
      }
    }
  }

  // What the first vector of a block knows and the others are no different in.
  void share(const Frame& first, Frame& frame, const std::string& axis) {
    const std::vector<bool> varies = p_.varying(axis);
    for (size_t i = 0; i < varies.size(); ++i) {
      if (!varies[i] && frame.values[i].empty()) frame.values[i] = first.values[i];
    }
  }

  const ElementProgram& p_;
  const TransposeParams s_;
  const TransposePhases t_;
  KernelBuilder k_;
  llvm::IRBuilder<>& ir_;
  ExpressionEmitter emit_;
  Side x_, y_;
  KernelBuilder::Bindings block_axes_;
};

}  // namespace

std::unique_ptr<llvm::Module> build_transpose(llvm::LLVMContext& context, const ElementProgram& program,
                                              const Schedule& schedule, const GpuFacts&) {
  return TransposeKernel(context, program, schedule).build();
}

}  // namespace tilewright
