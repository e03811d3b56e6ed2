// Kernels for products of matrices (schedule/matmul.h has the parameters and the layouts in shared memory).
//
//   block -> tile; blocks in groups of kGroup tiles along m, so that neighbours share what they read
//   fill stages - 1 stages of the ring; wait for the first; barrier; its first fragments
//   for each step of k, round by round:
//     the fragments of the next round; fill the stage that was used last
//     (in the last round: wait for the next stage; barrier; its first fragments)
//     multiply this round's fragments into the sums
//   with split > 1: the block that comes last to a tile adds the sums of all
//   sums -> shared memory -> vectors along n: what follows the product; stores
//
// Beyond the ends of the axes operands are zero, and nothing is stored.

#include "schedule/matmul.h"

#include <algorithm>
#include <optional>

#include "codegen/expression.h"
#include "codegen/families/families.h"

namespace tilewright {
namespace {

constexpr int kGroup = 8;

class MatmulKernel {
 public:
  MatmulKernel(llvm::LLVMContext& context, const ElementProgram& p, const Schedule& schedule)
      : p_(p),
        s_(MatmulParams::of(schedule)),
        unit_(matrix_unit(p.products[0])),
        dtype_(p.products[0].dtype),
        k_(context, *p.body, {"tw_matmul", s_.threads(), 0, s_.index_bits, s_.split > 1 ? 2 : 0}),
        ir_(k_.ir()),
        emit_(k_, p, s_.align) {}

  std::unique_ptr<llvm::Module> build() {
    place_block();
    make_operands();
    const Regs sums = multiply();
    if (s_.split == 1) {
      finish(sums);
    } else {
      join_runs(sums);
    }
    return k_.finish();
  }

 private:
  struct Operand {
    OperandTile tile;
    int step = 0;
    bool copies = false, is_left = false;
    int offset = 0;       // bytes in a stage
    std::string axis;     // m or n
    Reg first = nullptr;  // of the block's tile along it
    Reg warp = nullptr;   // of the warp's, from there; i32
    Regs fragments;       // byte offsets in the tile at which this lane reads, see fragment_offsets
  };
  // A chunk on its way to shared memory through registers.
  struct Chunk {
    Reg place;
    Regs values;
  };
  int products() const { return static_cast<int>(p_.products.size()); }

  Reg size(const Expr& e) {
    return k_.expression(e, {}, [](const Expr&) { return true; });
  }
  Reg i32(int64_t value) { return ir_.getInt32(static_cast<uint32_t>(value)); }
  Reg in_shared(Reg byte_offset) { return ir_.CreateGEP(ir_.getInt8Ty(), shared_, byte_offset); }
  // `a` and `b`, either of which may be null: holds.
  Reg both(Reg a, Reg b) { return !a ? b : !b ? a : ir_.CreateAnd(a, b); }

  // ---- where the block, the warp and the lane are

  void place_block() {
    shared_ = k_.dynamic_shared();
    const Expr &m = p_.space.size(p_.matrix.m), &n = p_.space.size(p_.matrix.n);
    const Reg tiles_m = size(ceildiv(m, s_.tile_m)), tiles_n = size(ceildiv(n, s_.tile_n));
    const Reg of_batch = ir_.CreateMul(tiles_m, tiles_n);
    Reg batch = ir_.CreateUDiv(k_.block(), of_batch);
    const Reg tile = ir_.CreateURem(k_.block(), of_batch);
    for (size_t a = p_.axes.size(); a-- > 0;) {
      const ProgramAxis& axis = p_.axes[a];
      if (p_.is_of_matrix(axis.symbol)) continue;
      const Reg count = size(axis.size);
      axes_[axis.symbol] = ir_.CreateURem(batch, count);
      batch = ir_.CreateUDiv(batch, count);
    }
    const Reg group_tiles = ir_.CreateMul(tiles_n, k_.index(kGroup));
    const Reg first_row = ir_.CreateMul(ir_.CreateUDiv(tile, group_tiles), k_.index(kGroup));
    const Reg in_group = ir_.CreateURem(tile, group_tiles);
    const Reg rows =
        ir_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, ir_.CreateSub(tiles_m, first_row), k_.index(kGroup));
    const Reg row = ir_.CreateAdd(first_row, ir_.CreateURem(in_group, rows)), column = ir_.CreateUDiv(in_group, rows);
    first_m_ = ir_.CreateMul(row, k_.index(s_.tile_m));
    first_n_ = ir_.CreateMul(column, k_.index(s_.tile_n));
    size_m_ = size(m), size_n_ = size(n);

    const Reg steps = size(matmul_steps(p_, s_)), size_k = size(p_.space.size(p_.matrix.k));
    first_step_ = k_.index(0), end_step_ = steps, end_k_ = size_k;
    if (s_.split > 1) {
      const Reg run = ir_.CreateUDiv(ir_.CreateAdd(steps, k_.index(s_.split - 1)), k_.index(s_.split));
      first_step_ = ir_.CreateMul(k_.block(1), run);
      end_step_ = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, ir_.CreateAdd(first_step_, run), steps);
      end_k_ = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, ir_.CreateMul(end_step_, k_.index(s_.tile_k)), size_k);
    }
    thread_ = k_.thread_i32();
    lane_ = ir_.CreateAnd(thread_, 31);
    warp_ = ir_.CreateLShr(thread_, 5);
    warp_m_ = ir_.CreateMul(ir_.CreateUDiv(warp_, i32(s_.warps_n)), i32(s_.warp_m()));
    warp_n_ = ir_.CreateMul(ir_.CreateURem(warp_, i32(s_.warps_n)), i32(s_.warp_n()));
    group_ = ir_.CreateLShr(lane_, 2);
    member_ = ir_.CreateAnd(lane_, 3);
  }

  void make_operands() {
    const auto add = [&](const ProgramProduct& product, bool is_left) {
      Operand o;
      o.tile = operand_tile(p_, product, s_, is_left);
      o.step = is_left ? product.lhs : product.rhs;
      o.copies = is_left ? s_.copy_a : s_.copy_b;
      o.is_left = is_left;
      o.offset = stage_bytes_;
      o.axis = is_left ? p_.matrix.m : p_.matrix.n;
      o.first = is_left ? first_m_ : first_n_;
      o.warp = is_left ? warp_m_ : warp_n_;
      o.fragments = fragment_offsets(o);
      stage_bytes_ += o.tile.bytes();
      operands_.push_back(std::move(o));
    };
    add(p_.products[0], true);
    for (const ProgramProduct& product : p_.products) add(product, false);
  }

  // ---- filling a stage

  Reg swap_of(const OperandTile& tile, Reg line) {
    const Reg block = ir_.CreateURem(ir_.CreateUDiv(line, i32(tile.xor_divisor)), i32(tile.xor_count));
    return ir_.CreateMul(block, i32(tile.xor_factor));
  }
  // Byte offset of a chunk in its tile.
  Reg place(const OperandTile& tile, Reg line, Reg chunk) {
    return ir_.CreateAdd(ir_.CreateMul(line, i32(tile.line_bytes())),
                         ir_.CreateMul(ir_.CreateXor(chunk, swap_of(tile, line)), i32(16)));
  }

  // Starts to bring the tiles of step `step` of k to the stage at byte offset `stage`; what comes through registers is
  // returned.
  std::vector<Chunk> fill(Reg step, Reg stage) {
    std::vector<Chunk> chunks;
    const Reg first_k = ir_.CreateMul(step, k_.index(s_.tile_k));
    for (const Operand& o : operands_) {
      // A thread goes on by whole lines, whose chunks are permuted alike.
      const int turns = o.tile.lines * o.tile.chunks / s_.threads(), lines = s_.threads() / o.tile.chunks;
      TW_CHECK(turns * s_.threads() == o.tile.lines * o.tile.chunks && lines * o.tile.chunks == s_.threads() &&
               lines % (o.tile.xor_divisor * o.tile.xor_count) == 0)
          << o.tile.lines << " lines of " << o.tile.chunks << " chunks for " << s_.threads() << " threads";
      const Reg chunk = ir_.CreateURem(thread_, i32(o.tile.chunks));
      const Reg first_line = ir_.CreateUDiv(thread_, i32(o.tile.chunks));
      const Reg first_place = ir_.CreateAdd(stage, place(o.tile, first_line, chunk));
      KernelBuilder::Bindings first_axes;
      for (int turn = 0; turn < turns; ++turn) {
        const Reg line = ir_.CreateAdd(first_line, i32(int64_t{turn} * lines));
        const Reg at = ir_.CreateAdd(first_place, i32(o.offset + int64_t{turn} * lines * o.tile.line_bytes()));
        const Reg across = ir_.CreateZExt(line, k_.index_type());
        const Reg along = ir_.CreateZExt(ir_.CreateMul(chunk, i32(o.tile.lanes)), k_.index_type());
        KernelBuilder::Bindings axes = axes_;
        axes[o.axis] = ir_.CreateAdd(o.first, o.tile.along_k ? across : along);
        axes[p_.matrix.k] = ir_.CreateAdd(first_k, o.tile.along_k ? along : across);
        const Reg inside =
            both(is_whole(o) ? nullptr : ir_.CreateICmpULT(axes[o.axis], o.is_left ? size_m_ : size_n_),
                 is_whole_k() ? ir_.CreateICmpULT(step, end_step_) : ir_.CreateICmpULT(axes[p_.matrix.k], end_k_));
        if (o.copies) {
          if (turn == 0) first_axes = axes;
          copy(o, line_distance(o) ? first_axes : axes, turn * lines, at, inside);
        } else {
          chunks.push_back({at, computed(o, axes, inside)});
        }
      }
    }
    if (copies()) k_.commit_copies();
    return chunks;
  }

  // Whether no tile hangs over the end of the axis.
  bool is_whole(const Operand& o) const {
    return p_.space.table().is_divisible(p_.space.size(o.axis), o.is_left ? s_.tile_m : s_.tile_n);
  }
  bool is_whole_k() const { return p_.space.table().is_divisible(p_.space.size(p_.matrix.k), s_.tile_k); }

  bool copies() const { return s_.copy_a || s_.copy_b; }

  // How far the lines of the operand lie apart in global memory, in elements, where that is one distance.
  std::optional<Expr> line_distance(const Operand& o) const {
    const std::optional<Expr> distance =
        p_.space.coefficient(p_.steps[o.step].index, o.tile.along_k ? o.axis : p_.matrix.k);
    if (!distance || !p_.space.not_negative(*distance)) return std::nullopt;  // addresses are sums without signs
    const bool varies = std::any_of(p_.axes.begin(), p_.axes.end(), [&](const ProgramAxis& axis) {
      return p_.space.depends_on(*distance, axis.symbol);
    });
    return varies ? std::nullopt : distance;
  }

  // One chunk, `lines` behind the one at `axes` where lines have a distance, else at `axes`.
  void copy(const Operand& o, const KernelBuilder::Bindings& axes, int lines, Reg at, Reg inside) {
    const ProgramStep& load = p_.steps[o.step];
    const std::optional<Expr> distance = line_distance(o);
    const Frame frame = emit_.frame(axes, o.tile.axis, o.tile.lanes);
    k_.copy_async(in_shared(at), k_.input(load.parameter), emit_.index(frame, load.index, 0),
                  distance ? size(*distance * lines) : k_.index(0), dtype_, inside);
  }

  // The elements of a chunk, zero where there are none.
  Regs computed(const Operand& o, const KernelBuilder::Bindings& axes, Reg inside) {
    Frame frame = emit_.frame(axes, o.tile.axis, o.tile.lanes, inside);
    if (!p_.space.table().is_divisible(p_.space.size(o.tile.axis), o.tile.lanes)) {
      const Reg end = o.tile.along_k ? end_k_ : o.is_left ? size_m_ : size_n_;
      const Reg left = ir_.CreateSub(end, axes.at(o.tile.axis));
      for (int lane = 0; lane < o.tile.lanes; ++lane)
        frame.lane_exists.push_back(ir_.CreateICmpUGT(left, k_.index(lane)));
      frame.whole = frame.lane_exists.back();
    }
    Regs values = emit_.value(frame, o.step);
    if (values.size() == 1) values.assign(o.tile.lanes, values[0]);
    for (int lane = 0; lane < o.tile.lanes; ++lane) {
      const Reg exists = both(inside, frame.whole ? frame.lane_exists[lane] : nullptr);
      values[lane] = ir_.CreateSelect(exists, values[lane], llvm::Constant::getNullValue(values[lane]->getType()));
    }
    return values;
  }

  void put(const std::vector<Chunk>& chunks) {
    for (const Chunk& c : chunks) k_.store_shared(shared_, c.place, dtype_, c.values);
  }

  // ---- fragments

  // Elements of k that one round of multiplications takes: two chunks, or one where they are multiplied one by one.
  int round_k() const { return (unit_ == MatrixUnit::kFma ? 1 : 2) * 16 / static_cast<int>(bytes(dtype_)); }

  // Whether ldmatrix brings the operand's fragments: it transposes elements of 16 bits only.
  bool by_ldmatrix(const OperandTile& tile) const {
    return unit_ == MatrixUnit::kTensor16 || (unit_ == MatrixUnit::kTensor32 && tile.along_k);
  }

  // Where this lane reads, in bytes from the tile's start: for chunks along k one offset a round (the 16 rows or
  // columns of a fragment are a constant further each), else one for each fragment (each round is a constant further).
  Regs fragment_offsets(const Operand& o) {
    const OperandTile& tile = o.tile;
    const int extent = o.is_left ? s_.warp_m() : s_.warp_n();
    Regs offsets;
    if (by_ldmatrix(tile)) {
      // Matrices 1 and 2 of four lie either below and beside the first one, or the other way round.
      const bool below = o.is_left == tile.along_k;
      const Reg in_matrix = ir_.CreateAnd(lane_, 7), bit3 = ir_.CreateAnd(ir_.CreateLShr(lane_, 3), 1),
                bit4 = ir_.CreateLShr(lane_, 4);
      const Reg line = ir_.CreateAdd(in_matrix, ir_.CreateMul(below ? bit3 : bit4, i32(8)));
      const Reg chunk = below ? bit4 : bit3, swap = swap_of(tile, line);
      const int rounds = tile.along_k ? s_.tile_k / round_k() : extent / 16;
      for (int i = 0; i < rounds; ++i) {
        const Reg start = tile.along_k ? chunk : ir_.CreateAdd(chunk, ir_.CreateUDiv(o.warp, i32(tile.lanes)));
        const int further = tile.along_k ? 2 : 16 / tile.lanes;
        const Reg at = ir_.CreateXor(ir_.CreateAdd(start, i32(int64_t{i} * further)), swap);
        const Reg lines = tile.along_k ? ir_.CreateAdd(line, o.warp) : line;
        offsets.push_back(ir_.CreateAdd(ir_.CreateMul(lines, i32(tile.line_bytes())), ir_.CreateMul(at, i32(16))));
      }
    } else if (unit_ == MatrixUnit::kTensor32) {
      // Element (k = member, column = group) of each 8 columns.
      for (int v = 0; v < extent / 8; ++v) {
        const Reg column = ir_.CreateAdd(ir_.CreateAdd(o.warp, i32(8 * v)), group_);
        offsets.push_back(ir_.CreateAdd(place(tile, member_, ir_.CreateLShr(column, 2)),
                                        ir_.CreateMul(ir_.CreateAnd(column, 3), i32(4))));
      }
    }
    return offsets;
  }

  // Words of 16 rows or columns of an operand for round `round`: four, as ldmatrix orders them.
  Regs fragment(const Operand& o, Reg stage, int round, int number) {
    const OperandTile& tile = o.tile;
    Regs words;
    if (by_ldmatrix(tile)) {
      const Reg lane_offset = o.fragments[tile.along_k ? round : number];
      const int64_t constant = o.offset + int64_t{tile.line_bytes()} * (tile.along_k ? 16 * number : round_k() * round);
      const Reg at = in_shared(ir_.CreateAdd(stage, lane_offset));
      words = k_.load_matrices(ir_.CreateGEP(ir_.getInt8Ty(), at, i32(constant)), !tile.along_k);
    } else {
      for (int i = 0; i < 4; ++i) {
        const int eighth = o.is_left ? i % 2 : i / 2, half = o.is_left ? i / 2 : i % 2;
        const int64_t constant = o.offset + int64_t{tile.line_bytes()} * (8 * round + 4 * half);
        const Reg at = in_shared(ir_.CreateAdd(stage, o.fragments[2 * number + eighth]));
        words.push_back(
            ir_.CreateAlignedLoad(ir_.getInt32Ty(), ir_.CreateGEP(ir_.getInt8Ty(), at, i32(constant)), llvm::Align(4)));
      }
    }
    if (unit_ == MatrixUnit::kTensor32) {
      for (Reg& word : words) word = k_.round_to_tf32(ir_.CreateBitCast(word, ir_.getFloatTy()));
    }
    return words;
  }

  // ---- the sums: of product q, 16 rows i, 8 columns j four values: rows group and group + 8, columns 2 * member + 0,
  // 1

  int row_blocks() const { return s_.warp_m() / 16; }
  int column_blocks() const { return s_.warp_n() / 8; }
  size_t sum_at(int q, int i, int j) const {
    return 4 * ((static_cast<size_t>(q) * row_blocks() + i) * column_blocks() + j);
  }
  size_t sum_count() const { return sum_at(products(), 0, 0); }

  Regs multiply() {
    const Reg zero = llvm::ConstantFP::get(ir_.getFloatTy(), 0.0);
    for (int stage = 0; stage + 1 < s_.stages; ++stage)
      put(fill(ir_.CreateAdd(first_step_, k_.index(stage)), i32(int64_t{stage} * stage_bytes_)));
    const Regs sums =
        unit_ == MatrixUnit::kFma ? sum_singly(Regs(sum_count(), zero)) : sum_fragments(Regs(sum_count(), zero));
    if (copies()) k_.wait_copies(0);
    k_.barrier();
    return sums;
  }

  // The stage behind this one in the ring.
  Reg next(Reg stage) {
    const Reg further = ir_.CreateAdd(stage, i32(stage_bytes_));
    return ir_.CreateSelect(ir_.CreateICmpEQ(further, i32(int64_t{s_.stages} * stage_bytes_)), i32(0), further);
  }
  Reg last_stage() { return i32(int64_t{s_.stages - 1} * stage_bytes_); }

  // All but the last `later` stages that were filled are there, for all threads.
  void wait(int later) {
    if (copies()) k_.wait_copies(later);
    k_.barrier();
  }

  // Takes the last values off.
  static Reg pop(Regs& values) {
    const Reg last = values.back();
    values.pop_back();
    return last;
  }

  Regs sum_singly(Regs carried) {
    carried.push_back(i32(0));
    carried.push_back(last_stage());
    Regs sums = k_.loop(first_step_, end_step_, k_.index(1), carried, [&](Reg step, Regs now) {
      const Reg write = pop(now), read = pop(now);
      wait(s_.stages - 2);
      const std::vector<Chunk> chunks = fill(ir_.CreateAdd(step, k_.index(s_.stages - 1)), write);
      multiply_singly(read, now);
      put(chunks);
      now.push_back(next(read));
      now.push_back(next(write));
      return now;
    });
    sums.resize(sum_count());
    return sums;
  }

  // What a warp multiplies in one round.
  struct Fragments {
    std::vector<Regs> left;
    std::vector<std::vector<Regs>> right;  // by product
  };

  Fragments load(Reg stage, int round) {
    Fragments f;
    for (int i = 0; i < row_blocks(); ++i) f.left.push_back(fragment(operands_[0], stage, round, i));
    for (int q = 0; q < products(); ++q) {
      f.right.emplace_back();
      for (int j = 0; j < column_blocks() / 2; ++j)
        f.right.back().push_back(fragment(operands_[1 + q], stage, round, j));
    }
    return f;
  }

  static void append(Regs& values, const Fragments& f) {
    for (const Regs& words : f.left) values.insert(values.end(), words.begin(), words.end());
    for (const auto& of_product : f.right)
      for (const Regs& words : of_product) values.insert(values.end(), words.begin(), words.end());
  }
  Fragments taken_from(const Regs& values, size_t at) const {
    const auto four = [&] {
      const auto from = values.begin() + static_cast<std::ptrdiff_t>(at);
      at += 4;
      return Regs(from, from + 4);
    };
    Fragments f;
    for (int i = 0; i < row_blocks(); ++i) f.left.push_back(four());
    for (int q = 0; q < products(); ++q) {
      f.right.emplace_back();
      for (int j = 0; j < column_blocks() / 2; ++j) f.right.back().push_back(four());
    }
    return f;
  }

  // Fragments of the next round are on their way while those of this one are multiplied. In the last round of a step
  // they are the next stage's, for which the warps wait there.
  Regs sum_fragments(Regs carried) {
    const int rounds = s_.tile_k / round_k();
    wait(s_.stages - 2);
    append(carried, load(i32(0), 0));
    carried.push_back(i32(0));
    carried.push_back(last_stage());
    Regs sums = k_.loop(first_step_, end_step_, k_.index(1), carried, [&](Reg step, Regs now) {
      const Reg write = pop(now), read = pop(now), after = next(read);
      Fragments fragments = taken_from(now, sum_count());
      now.resize(sum_count());
      std::vector<Chunk> chunks;
      for (int round = 0; round < rounds; ++round) {
        Fragments following;
        if (round + 1 < rounds) following = load(read, round + 1);
        if (round == 0) chunks = fill(ir_.CreateAdd(step, k_.index(s_.stages - 1)), write);
        if (round + 1 == rounds) {
          if (s_.stages == 2) put(chunks);  // they are the next stage
          wait(s_.stages - 2);
          following = load(after, 0);
        }
        multiply_fragments(fragments, now);
        fragments = std::move(following);
      }
      if (s_.stages > 2) put(chunks);
      append(now, fragments);
      now.push_back(after);
      now.push_back(next(write));
      return now;
    });
    sums.resize(sum_count());
    return sums;
  }

  void multiply_fragments(const Fragments& f, Regs& sums) {
    for (int q = 0; q < products(); ++q) {
      for (int i = 0; i < row_blocks(); ++i) {
        for (int j = 0; j < column_blocks(); ++j) {
          const Regs& pair = f.right[q][j / 2];
          const auto c = sums.begin() + static_cast<std::ptrdiff_t>(sum_at(q, i, j));
          const Regs sum =
              k_.multiply_matrices(dtype_, f.left[i], {pair[j % 2 * 2], pair[j % 2 * 2 + 1]}, Regs(c, c + 4));
          std::copy(sum.begin(), sum.end(), c);
        }
      }
    }
  }

  // Four elements of k of one row or column, or four of its neighbours' at one k.
  Regs floats(const Operand& o, Reg stage, Reg line, Reg chunk, Reg in_chunk, int width) {
    const Reg at = ir_.CreateAdd(ir_.CreateAdd(stage, place(o.tile, line, chunk)), i32(o.offset));
    return k_.load_shared(shared_, ir_.CreateAdd(at, ir_.CreateMul(in_chunk, i32(4))), DType::kF32, width);
  }

  // Values [k][position] of `count` rows or columns, `width` neighbours every eight, from `first` of each eight on.
  std::vector<Regs> single_fragments(const Operand& o, Reg stage, Reg round, Reg first, int count, int width) {
    std::vector<Regs> values(4);
    for (int v = 0; v < count; ++v) {
      const Reg position = ir_.CreateAdd(ir_.CreateAdd(o.warp, i32(8 * v)), first);
      if (o.tile.along_k) {
        for (int w = 0; w < width; ++w) {
          const Regs run = floats(o, stage, ir_.CreateAdd(position, i32(w)), round, i32(0), 4);
          for (int k = 0; k < 4; ++k) values[k].push_back(run[k]);
        }
      } else {
        for (int k = 0; k < 4; ++k) {
          const Reg line = ir_.CreateAdd(ir_.CreateMul(round, i32(4)), i32(k));
          const Regs run = floats(o, stage, line, ir_.CreateLShr(position, 2), ir_.CreateAnd(position, 3), width);
          values[k].insert(values[k].end(), run.begin(), run.end());
        }
      }
    }
    return values;
  }

  void multiply_singly(Reg stage, Regs& sums) {
    const int rounds = s_.tile_k / round_k();
    sums = k_.loop(i32(0), i32(rounds), i32(1), sums, [&](Reg round, Regs now) {
      const std::vector<Regs> left = single_fragments(operands_[0], stage, round, group_, 2 * row_blocks(), 1);
      for (int q = 0; q < products(); ++q) {
        const std::vector<Regs> right =
            single_fragments(operands_[1 + q], stage, round, ir_.CreateMul(member_, i32(2)), column_blocks(), 2);
        for (int k = 0; k < 4; ++k) {
          for (int i = 0; i < row_blocks(); ++i) {
            for (int j = 0; j < column_blocks(); ++j) {
              for (int e = 0; e < 4; ++e) {
                Reg& sum = now[sum_at(q, i, j) + e];
                sum = ir_.CreateIntrinsic(llvm::Intrinsic::fma, {sum->getType()},
                                          {left[k][2 * i + e / 2], right[k][2 * j + e % 2], sum});
              }
            }
          }
        }
      }
      return now;
    });
  }

  // ---- runs of k of several blocks

  // Where four sums of this thread lie in the workspace: neighbouring threads side by side.
  Reg cell(Reg run, size_t sum) {
    const auto quads = static_cast<int64_t>(sum_count() / 4);
    Reg at = ir_.CreateAdd(ir_.CreateMul(k_.block(), k_.index(s_.split)), run);
    at = ir_.CreateAdd(ir_.CreateMul(at, k_.index(quads)), k_.index(static_cast<int64_t>(sum / 4)));
    at = ir_.CreateAdd(ir_.CreateMul(at, k_.index(s_.threads())), k_.thread());
    return ir_.CreateMul(at, k_.index(4));
  }

  void join_runs(const Regs& sums) {
    for (size_t i = 0; i < sums.size(); i += 4) {
      const auto at = sums.begin() + static_cast<std::ptrdiff_t>(i);
      k_.store_partials(k_.workspace(1), cell(k_.block(1), i), Regs(at, at + 4));
    }
    const Reg is_last = k_.is_last_block(ir_.CreateGEP(ir_.getInt32Ty(), k_.workspace(0), k_.block()), s_.split);
    k_.if_then(is_last, [&] {
      k_.fence_gpu();
      const Regs zeros(sums.size(), llvm::ConstantFP::get(ir_.getFloatTy(), 0.0));
      finish(k_.loop(k_.index(0), k_.index(s_.split), k_.index(1), zeros, [&](Reg run, Regs now) {
        for (size_t i = 0; i < now.size(); i += 4) {
          const Regs part = k_.load_partials(k_.workspace(1), ir_.getFloatTy(), cell(run, i), 4);
          for (size_t e = 0; e < 4; ++e) now[i + e] = ir_.CreateFAdd(now[i + e], part[e]);
        }
        return now;
      }));
    });
  }

  // ---- what follows the product

  // Byte offset of a float that the warp hands over.
  Reg handed_at(int product, Reg row, Reg column) {
    const int product_floats = handed_row(s_) * s_.warp_m();
    // Of eight lanes that read eight floats each, those of the second half read the other chunk of their two first.
    const Reg chunk = ir_.CreateLShr(column, 2);
    const Reg eighth = ir_.CreateAdd(ir_.CreateMul(row, i32(s_.warp_n() / 8)), ir_.CreateLShr(chunk, 1));
    const Reg swap = ir_.CreateAnd(ir_.CreateLShr(eighth, 2), 1);
    const Reg at = ir_.CreateAdd(ir_.CreateMul(ir_.CreateXor(chunk, swap), i32(4)), ir_.CreateAnd(column, 3));
    const Reg in_product = ir_.CreateAdd(ir_.CreateMul(row, i32(handed_row(s_))), at);
    const Reg start = ir_.CreateAdd(ir_.CreateMul(warp_, i32(int64_t{products()} * product_floats)),
                                    i32(int64_t{product} * product_floats));
    return ir_.CreateMul(ir_.CreateAdd(start, in_product), i32(4));
  }

  void hand(const Regs& sums) {
    for (int q = 0; q < products(); ++q) {
      for (int i = 0; i < row_blocks(); ++i) {
        for (int j = 0; j < column_blocks(); ++j) {
          const size_t sum = sum_at(q, i, j);
          const Reg column = ir_.CreateAdd(ir_.CreateMul(member_, i32(2)), i32(8 * j));
          for (int half = 0; half < 2; ++half) {
            const Reg row = ir_.CreateAdd(group_, i32(16 * i + 8 * half));
            k_.store_shared(shared_, handed_at(q, row, column), DType::kF32,
                            {sums[sum + 2 * half], sums[sum + 2 * half + 1]});
          }
        }
      }
    }
  }

  void finish(const Regs& sums) {
    hand(sums);
    k_.warp_barrier();
    store_vectors();
  }

  // Vectors along n of the warp's rows.
  void store_vectors() {
    const int a_row = s_.warp_n() / s_.vec, turns = s_.warp_m() * a_row / 32;
    const int together = std::min(turns, s_.vec >= 4 ? 2 : 4);
    std::vector<int> roots;
    std::transform(p_.stores.begin(), p_.stores.end(), std::back_inserter(roots),
                   [](const ProgramStore& s) { return s.step; });
    k_.loop(lane_, i32(32 * turns), i32(32 * together), {}, [&](Reg first, Regs) {
      std::vector<Frame> frames;
      for (int t = 0; t < together; ++t) {
        const Reg number = ir_.CreateAdd(first, i32(32 * t));
        const Reg row = ir_.CreateUDiv(number, i32(a_row));
        frames.push_back(vector_frame(row, ir_.CreateMul(ir_.CreateURem(number, i32(a_row)), i32(s_.vec))));
      }
      emit_.load_ahead(frames, roots);
      for (Frame& frame : frames) {
        for (const ProgramStore& store : p_.stores) emit_.value(frame, store.step);
      }
      for (Frame& frame : frames) {
        for (const ProgramStore& store : p_.stores) emit_.store(frame, store);
      }
      return Regs{};
    });
  }

  Frame vector_frame(Reg row, Reg column) {
    const auto along = [&](Reg first, Reg warp, Reg at) {
      return ir_.CreateAdd(first, ir_.CreateZExt(ir_.CreateAdd(warp, at), k_.index_type()));
    };
    KernelBuilder::Bindings axes = axes_;
    const Reg m = axes[p_.matrix.m] = along(first_m_, warp_m_, row);
    const Reg n = axes[p_.matrix.n] = along(first_n_, warp_n_, column);
    const Reg inside = ir_.CreateAnd(ir_.CreateICmpULT(m, size_m_), ir_.CreateICmpULT(n, size_n_));
    Frame frame = emit_.frame(axes, p_.matrix.n, s_.vec, inside);
    for (int q = 0; q < products(); ++q) {
      Regs& values = frame.values[p_.products[q].result];
      for (int done = 0; done < s_.vec; done += 4) {
        const Regs part = k_.load_shared(shared_, handed_at(q, row, ir_.CreateAdd(column, i32(done))), DType::kF32,
                                         std::min(s_.vec, 4));
        values.insert(values.end(), part.begin(), part.end());
      }
    }
    return frame;
  }

  const ElementProgram& p_;
  const MatmulParams s_;
  const MatrixUnit unit_;
  const DType dtype_;
  KernelBuilder k_;
  llvm::IRBuilder<>& ir_;
  ExpressionEmitter emit_;
  std::vector<Operand> operands_;  // the left one first
  int stage_bytes_ = 0;
  KernelBuilder::Bindings axes_;  // of batches
  Reg shared_ = nullptr;
  Reg first_m_ = nullptr, first_n_ = nullptr, size_m_ = nullptr, size_n_ = nullptr;
  Reg first_step_ = nullptr, end_step_ = nullptr, end_k_ = nullptr;
  Reg thread_ = nullptr, lane_ = nullptr, warp_ = nullptr, warp_m_ = nullptr, warp_n_ = nullptr;
  Reg group_ = nullptr, member_ = nullptr;  // lane / 4, lane % 4
};

}  // namespace

std::unique_ptr<llvm::Module> build_matmul(llvm::LLVMContext& context, const ElementProgram& program,
                                           const Schedule& schedule, const GpuFacts&) {
  return MatmulKernel(context, program, schedule).build();
}

}  // namespace tilewright
