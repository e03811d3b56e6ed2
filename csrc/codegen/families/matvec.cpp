// Products with few vectors (schedule/matvec.h has the parameters).
//
//   load what the results need beside the products: a bias, a residual
//   for this thread's share of k:
//     load vectors of the matrix's rows and of the vectors, compute what stands before the product
//     multiply and add in registers: a sum for each row, vector and product
//   join the sums of the threads that share k: shuffles (across=0), then shared memory
//   one thread a result: compute what stands after the product, store
//
// Rows and vectors beyond the ends are the last ones again, and nothing is stored for them.

#include "schedule/matvec.h"

#include <algorithm>

#include "codegen/expression.h"
#include "codegen/families/families.h"

namespace tilewright {
namespace {

constexpr int kWarp = 32;

class MatvecKernel {
 public:
  MatvecKernel(llvm::LLVMContext& context, const ElementProgram& p, const Schedule& schedule)
      : p_(p),
        s_(MatvecParams::of(schedule)),
        k_(context, *p.body, {"tw_matvec", s_.threads, 0, s_.index_bits, 0}),
        ir_(k_.ir()),
        emit_matrix_(k_, p_, s_.align),
        emit_(k_, p_, s_.align),
        sum_type_(k_.element_type(p.steps[p.products[0].result].dtype)) {
    emit_matrix_.stream_loads();  // each element is read once
    for (const ProgramStore& store : p_.stores) results_.push_back(store.step);
    for (const ProgramProduct& product : p_.products) {
      matrix_steps_.push_back(s_.matrix(product));
      vector_steps_.push_back(s_.vectors(product));
    }
  }

  std::unique_ptr<llvm::Module> build() {
    place_block();
    make_result_frames();
    const Regs sums = loop_over_k();
    s_.across ? join_across(sums) : join_along(sums);
    for (Frame& frame : result_frames_) {
      for (const ProgramStore& store : p_.stores) emit_.store(frame, store);
    }
    return k_.finish();
  }

 private:
  Reg size(const Expr& e) {
    return k_.expression(e, {}, [](const Expr&) { return true; });
  }
  Reg size_of(const std::string& axis) { return size(p_.space.size(axis)); }
  Reg add(Reg a, int64_t b) { return b == 0 ? a : ir_.CreateAdd(a, k_.index(b)); }

  // ---- where this block works

  void place_block() {
    Reg at = k_.block();
    const auto take = [&](const Expr& count) {
      if (count.is_constant(1)) return k_.index(0);
      const Reg divisor = size(count);
      const Reg rest = ir_.CreateURem(at, divisor);
      at = ir_.CreateUDiv(at, divisor);
      return rest;
    };
    first_row_ = ir_.CreateMul(take(wide_blocks(p_, s_)), k_.index(s_.rows));
    first_column_ = ir_.CreateMul(take(few_blocks(p_, s_)), k_.index(s_.columns));
    const std::vector<ProgramAxis> batch = batch_axes(p_);
    for (size_t a = batch.size(); a-- > 0;) batch_[batch[a].symbol] = a == 0 ? at : take(batch[a].size);
  }

  // The place on an axis, or the last one where that is beyond the end; `count` places from a multiple of `count` on.
  Reg clamped(Reg at, const std::string& axis, int count, int64_t lanes = 1) {
    if (p_.space.table().is_divisible(p_.space.size(axis), count)) return at;
    return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, at, ir_.CreateSub(size_of(axis), k_.index(lanes)));
  }

  KernelBuilder::Bindings with(const std::string& axis, Reg at, Reg k) const {
    KernelBuilder::Bindings axes = batch_;
    axes[axis] = at;
    axes[p_.matrix.k] = k;
    return axes;
  }

  // ---- sums over this thread's share of k

  size_t sums_per_product() const { return static_cast<size_t>(s_.columns) * sums_per_column(); }
  size_t sums_per_column() const { return static_cast<size_t>(s_.across ? s_.vec : s_.rows); }
  Reg& sum_of(Regs& sums, size_t product, int column, size_t row) const {
    return sums[product * sums_per_product() + static_cast<size_t>(column) * sums_per_column() + row];
  }

  Regs loop_over_k() {
    const Regs zeros(p_.products.size() * sums_per_product(), llvm::Constant::getNullValue(sum_type_));
    const Reg end = size_of(p_.matrix.k);
    const int64_t chunk = s_.across ? s_.unroll : s_.vec;  // consecutive k of a thread
    const int64_t turn = chunk * s_.sharers();
    Reg sharer = k_.thread();
    if (s_.across) sharer = ir_.CreateUDiv(sharer, k_.index(s_.side()));
    const Reg first = ir_.CreateMul(sharer, k_.index(chunk));
    if (s_.across) {
      return k_.loop(first, end, k_.index(turn), zeros,
                     [&](Reg k, Regs sums) { return add_across(k, std::move(sums)); });
    }
    if (s_.unroll == 1) {
      return k_.loop(first, end, k_.index(turn), zeros,
                     [&](Reg k, Regs sums) { return add_along(k, 1, std::move(sums)); });
    }
    const auto whole_turn = [&](Reg k, Regs sums) { return add_along(k, s_.unroll, std::move(sums)); };
    if (p_.space.table().is_divisible(p_.space.size(p_.matrix.k), turn * s_.unroll))
      return k_.loop(first, end, k_.index(turn * s_.unroll), zeros, whole_turn);
    // Turns in which this thread has all its accesses, then single ones.
    const Reg behind = k_.index(turn * (s_.unroll - 1));
    const Reg whole_end = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, end, behind);
    Reg rest = nullptr;
    const Regs whole = k_.loop(first, whole_end, k_.index(turn * s_.unroll), zeros, whole_turn, &rest);
    return k_.loop(rest, end, k_.index(turn), whole,
                   [&](Reg k, Regs sums) { return add_along(k, 1, std::move(sums)); });
  }

  Reg multiply_add(Reg a, Reg b, Reg sum) {
    return ir_.CreateIntrinsic(llvm::Intrinsic::fma, {sum->getType()}, {a, b, sum});
  }

  // An element as it is multiplied.
  Reg factor(ExpressionEmitter& emit, Frame& frame, int step, int lane, const ProgramProduct& product) {
    const Reg value = emit.lane_value(frame, step, lane);
    return product.tf32 ? ir_.CreateBitCast(k_.round_to_tf32(value), sum_type_) : value;
  }

  std::vector<Frame> vector_frames(Reg k, int lanes) {
    std::vector<Frame> frames;
    for (int c = 0; c < s_.columns; ++c) {
      const Reg column = clamped(add(first_column_, c), s_.few(p_), s_.columns);
      frames.push_back(emit_.frame(with(s_.few(p_), column, k), p_.matrix.k, lanes));
    }
    return frames;
  }

  Regs add_along(Reg k, int accesses, Regs sums) {
    std::vector<std::vector<Frame>> rows, columns;
    for (int u = 0; u < accesses; ++u) {
      const Reg at = add(k, int64_t{u} * s_.vec * s_.threads);
      std::vector<Frame> frames;
      for (int r = 0; r < s_.rows; ++r) {
        const Reg row = clamped(add(first_row_, r), s_.wide(p_), s_.rows);
        frames.push_back(emit_matrix_.frame(with(s_.wide(p_), row, at), p_.matrix.k, s_.vec));
      }
      emit_matrix_.load_ahead(frames, matrix_steps_);
      rows.push_back(std::move(frames));
    }
    for (int u = 0; u < accesses; ++u) {
      columns.push_back(vector_frames(add(k, int64_t{u} * s_.vec * s_.threads), s_.vec));
      emit_.load_ahead(columns.back(), vector_steps_);
    }
    for (int u = 0; u < accesses; ++u) {
      for (size_t i = 0; i < p_.products.size(); ++i) {
        for (int c = 0; c < s_.columns; ++c) {
          for (int r = 0; r < s_.rows; ++r) {
            Reg& sum = sum_of(sums, i, c, static_cast<size_t>(r));
            for (int lane = 0; lane < s_.vec; ++lane) {
              sum = multiply_add(factor(emit_matrix_, rows[u][r], matrix_steps_[i], lane, p_.products[i]),
                                 factor(emit_, columns[u][c], vector_steps_[i], lane, p_.products[i]), sum);
            }
          }
        }
      }
    }
    return sums;
  }

  Regs add_across(Reg k, Regs sums) {
    const Reg side = ir_.CreateURem(k_.thread(), k_.index(s_.side()));
    const Reg row =
        clamped(ir_.CreateAdd(first_row_, ir_.CreateMul(side, k_.index(s_.vec))), s_.wide(p_), s_.rows, s_.vec);
    std::vector<Frame> rows;
    rows.reserve(static_cast<size_t>(s_.unroll));
    for (int u = 0; u < s_.unroll; ++u)
      rows.push_back(emit_matrix_.frame(with(s_.wide(p_), row, add(k, u)), s_.wide(p_), s_.vec));
    emit_matrix_.load_ahead(rows, matrix_steps_);
    std::vector<Frame> columns = vector_frames(k, s_.unroll);
    emit_.load_ahead(columns, vector_steps_);
    for (size_t i = 0; i < p_.products.size(); ++i) {
      for (int u = 0; u < s_.unroll; ++u) {
        for (int c = 0; c < s_.columns; ++c) {
          const Reg of_vector = factor(emit_, columns[c], vector_steps_[i], u, p_.products[i]);
          for (int lane = 0; lane < s_.vec; ++lane) {
            Reg& sum = sum_of(sums, i, c, static_cast<size_t>(lane));
            sum = multiply_add(factor(emit_matrix_, rows[u], matrix_steps_[i], lane, p_.products[i]), of_vector, sum);
          }
        }
      }
    }
    return sums;
  }

  // ---- results: this thread's are `threads` apart among rows * columns, rows first

  int results_per_block() const { return s_.rows * s_.columns; }
  Reg result_at(size_t frame) { return add(k_.thread(), static_cast<int64_t>(frame) * s_.threads); }
  // Kept among those that there are, so that what is read for it exists.
  Reg clamped_result(size_t frame) {
    if (results_per_block() % s_.threads == 0) return result_at(frame);
    return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, result_at(frame), k_.index(results_per_block() - 1));
  }

  void make_result_frames() {
    const int count = (results_per_block() + s_.threads - 1) / s_.threads;
    for (int f = 0; f < count; ++f) {
      const Reg at = result_at(static_cast<size_t>(f));
      const Reg row = ir_.CreateAdd(first_row_, ir_.CreateURem(at, k_.index(s_.rows)));
      const Reg column = ir_.CreateAdd(first_column_, ir_.CreateUDiv(at, k_.index(s_.rows)));
      Reg exists = ir_.CreateICmpULT(at, k_.index(results_per_block()));
      exists = ir_.CreateAnd(exists, ir_.CreateICmpULT(row, size_of(s_.wide(p_))));
      exists = ir_.CreateAnd(exists, ir_.CreateICmpULT(column, size_of(s_.few(p_))));
      KernelBuilder::Bindings axes = batch_;
      axes[s_.wide(p_)] = row;
      axes[s_.few(p_)] = column;
      result_frames_.push_back(emit_.frame(std::move(axes), "", 1, exists));
    }
    // What is read after the product arrives while the product is computed.
    emit_.load_ahead(result_frames_, results_);
  }

  void give(size_t frame, size_t product, Reg sum) {
    result_frames_[frame].values[p_.products[product].result] = {sum};
  }

  // The threads of a warp by shuffles, then the warps in their order.
  void join_along(Regs sums) {
    const int warps = s_.threads / kWarp;
    const auto count = static_cast<int64_t>(sums.size());
    for (Reg& sum : sums) {
      for (int mask = kWarp / 2; mask > 0; mask /= 2) sum = ir_.CreateFAdd(sum, k_.shuffle_xor(sum, mask));
    }
    const Reg parts = k_.shared_array(sum_type_, warps * count, "parts");
    const Reg warp = ir_.CreateUDiv(k_.thread(), k_.index(kWarp));
    k_.if_then(ir_.CreateICmpEQ(k_.lane(), ir_.getInt32(0)), [&] {
      for (int64_t i = 0; i < count; ++i)
        k_.store_shared(parts, add(ir_.CreateMul(warp, k_.index(count)), i), sums[static_cast<size_t>(i)]);
    });
    k_.barrier();
    for (size_t f = 0; f < result_frames_.size(); ++f) {
      for (size_t i = 0; i < p_.products.size(); ++i) {
        const Reg place = add(clamped_result(f), static_cast<int64_t>(i * sums_per_product()));
        Reg sum = k_.load_shared(parts, sum_type_, place);
        for (int w = 1; w < warps; ++w)
          sum = ir_.CreateFAdd(sum, k_.load_shared(parts, sum_type_, add(place, w * count)));
        give(f, i, sum);
      }
    }
  }

  // The threads that share k in their order; a sum of each thread at a time, since all are more than a block may have.
  void join_across(const Regs& made) {
    Regs sums = made;
    const Reg parts = k_.shared_array(sum_type_, s_.part_stride() * s_.vec, "parts");
    for (size_t i = 0; i < p_.products.size(); ++i) {
      for (int c = 0; c < s_.columns; ++c) {
        if (i + static_cast<size_t>(c) > 0) k_.barrier();
        for (int lane = 0; lane < s_.vec; ++lane)
          k_.store_shared(parts, add(k_.thread(), lane * s_.part_stride()),
                          sum_of(sums, i, c, static_cast<size_t>(lane)));
        k_.barrier();
        add_column(i, c, parts);
      }
    }
  }

  // Results of column c that are this thread's.
  void add_column(size_t product, int c, Reg parts) {
    for (size_t f = 0; f < result_frames_.size(); ++f) {
      const int64_t first = static_cast<int64_t>(f) * s_.threads;
      if (first + s_.threads <= int64_t{c} * s_.rows || first >= int64_t{c + 1} * s_.rows) continue;
      const Reg at = result_at(f);
      const Reg row = ir_.CreateURem(at, k_.index(s_.rows));
      const Reg lane = ir_.CreateURem(row, k_.index(s_.vec)), side = ir_.CreateUDiv(row, k_.index(s_.vec));
      const Reg place = ir_.CreateAdd(ir_.CreateMul(lane, k_.index(s_.part_stride())), side);
      const Reg first_part = k_.load_shared(parts, sum_type_, place);
      const Reg sum = k_.loop(k_.index(s_.side()), k_.index(s_.threads), k_.index(s_.side()), {first_part},
                              [&](Reg next, const Regs& now) {
                                const Reg part = k_.load_shared(parts, sum_type_, ir_.CreateAdd(place, next));
                                return Regs{ir_.CreateFAdd(now[0], part)};
                              })[0];
      Regs& known = result_frames_[f].values[p_.products[product].result];
      const Reg is_its = ir_.CreateICmpEQ(ir_.CreateUDiv(at, k_.index(s_.rows)), k_.index(c));
      known = {known.empty() ? sum : ir_.CreateSelect(is_its, sum, known[0])};
    }
  }

  const ElementProgram& p_;
  const MatvecParams s_;
  KernelBuilder k_;
  llvm::IRBuilder<>& ir_;
  ExpressionEmitter emit_matrix_, emit_;
  llvm::Type* sum_type_;
  std::vector<int> results_, matrix_steps_, vector_steps_;
  KernelBuilder::Bindings batch_;
  Reg first_row_ = nullptr, first_column_ = nullptr;
  std::vector<Frame> result_frames_;
};

}  // namespace

std::unique_ptr<llvm::Module> build_matvec(llvm::LLVMContext& context, const ElementProgram& program,
                                           const Schedule& schedule, const GpuFacts&) {
  return MatvecKernel(context, program, schedule).build();
}

}  // namespace tilewright
