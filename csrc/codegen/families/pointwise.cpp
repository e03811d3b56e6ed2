// Pointwise kernels (schedule/pointwise.cpp has the parameters): one tile of threads * unroll vectors a block.
//
//   v = block * unroll * threads + u * threads + thread     for each u < unroll
//   axes of v: outer axes, the one outside the innermost / rows, then innermost / vec
//   load, compute, store the vector
//
// Without outer axes the last vector may hang over the end: its elements are then computed one at a time.

#include "codegen/expression.h"
#include "codegen/families/families.h"
#include "schedule/family.h"

namespace tilewright {
namespace {

class PointwiseKernel {
 public:
  PointwiseKernel(llvm::LLVMContext& context, const ElementProgram& p, const Schedule& s)
      : p_(program_for(p, s)),
        vec_(static_cast<int>(s.param("vec"))),
        rows_(static_cast<int>(s.param("rows"))),
        unroll_(static_cast<int>(s.param("unroll"))),
        threads_(s.param("threads")),
        k_(context, *p.body,
           {"tw_pointwise", static_cast<int>(threads_), 0, static_cast<int>(s.param("index_bits")), 0}),
        emit_(k_, p_, s.param("align")) {
    for (const ProgramStore& store : p_.stores) steps_.push_back(store.step);
  }

  std::unique_ptr<llvm::Module> build() {
    llvm::IRBuilder<>& ir = k_.ir();
    const Reg first = ir.CreateAdd(ir.CreateMul(k_.block(), k_.index(threads_ * unroll_)), k_.thread());
    if (rows_ > 1) {
      several_rows(first);
    } else if (unroll_ > 1) {
      several_vectors(first);
    } else {
      one_vector(first);
    }
    return k_.finish();
  }

 private:
  // Vectors in all, counting one that hangs over.
  Reg vectors() {
    Expr count = 1;
    for (size_t a = 0; a < p_.axes.size(); ++a) count = count * ceildiv(p_.axes[a].size, together(a));
    return k_.expression(count, {}, [](const Expr&) { return true; });
  }

  // Elements along an axis that one thread computes as neighbours.
  int together(size_t axis) const { return axis + 1 == p_.axes.size() ? vec_ : axis + 2 == p_.axes.size() ? rows_ : 1; }

  // Values of the axes for vector v.
  KernelBuilder::Bindings axes_of(Reg v) {
    KernelBuilder::Bindings axes;
    llvm::IRBuilder<>& ir = k_.ir();
    for (size_t a = p_.axes.size(); a-- > 0;) {
      const ProgramAxis& axis = p_.axes[a];
      Reg at = v;
      if (a > 0) {
        const bool inner = a + 1 == p_.axes.size();
        const Reg size = k_.expression(inner ? p_.space.div(axis.size, vec_) : ceildiv(axis.size, together(a)), {},
                                       [](const Expr&) { return true; });
        at = ir.CreateURem(v, size);
        v = ir.CreateUDiv(v, size);
      }
      if (together(a) > 1) at = ir.CreateMul(at, k_.index(together(a)));
      axes[axis.symbol] = at;
    }
    return axes;
  }

  std::string inner_axis() const { return p_.axes.empty() ? "" : p_.axes.back().symbol; }

  void compute(Frame& frame) {
    emit_.load_ahead(frame, steps_);
    for (int s : steps_) emit_.value(frame, s);
    for (const ProgramStore& store : p_.stores) emit_.store(frame, store);
  }

  void one_vector(Reg v) {
    llvm::IRBuilder<>& ir = k_.ir();
    const bool may_hang_over = vec_ > 1 && p_.axes.size() == 1 && !p_.space.table().is_divisible(p_.axes[0].size, vec_);
    if (!may_hang_over) {
      k_.if_then(ir.CreateICmpULT(v, vectors()), [&] {
        Frame frame = emit_.frame(axes_of(v), inner_axis(), vec_);
        compute(frame);
      });
      return;
    }
    const Reg end = k_.expression(p_.axes[0].size, {}, [](const Expr&) { return true; });
    const Reg from = ir.CreateMul(v, k_.index(vec_));
    // from + vec <= end without overflow
    const Reg whole =
        ir.CreateAnd(ir.CreateICmpULT(from, end), ir.CreateICmpUGE(ir.CreateSub(end, from), k_.index(vec_)));
    llvm::BasicBlock *vector = k_.new_block("vector"), *rest = k_.new_block("rest"), *after = k_.new_block("end");
    ir.CreateCondBr(whole, vector, rest);
    ir.SetInsertPoint(vector);
    Frame frame = emit_.frame(axes_of(v), inner_axis(), vec_);
    compute(frame);
    ir.CreateBr(after);
    ir.SetInsertPoint(rest);
    k_.loop(from, end, k_.index(1), {}, [&](Reg i, Regs) {
      Frame single = emit_.frame({{inner_axis(), i}}, inner_axis(), 1);
      compute(single);
      return Regs{};
    });
    ir.CreateBr(after);
    ir.SetInsertPoint(after);
  }

  void several_rows(Reg v) {
    llvm::IRBuilder<>& ir = k_.ir();
    const ProgramAxis& axis = p_.axes[p_.axes.size() - 2];
    const bool exact = p_.space.table().is_divisible(axis.size, rows_);
    const Reg size = k_.expression(axis.size, {}, [](const Expr&) { return true; });
    k_.if_then(ir.CreateICmpULT(v, vectors()), [&] {
      const KernelBuilder::Bindings axes = axes_of(v);
      std::vector<Frame> frames;
      for (int r = 0; r < rows_; ++r) {
        KernelBuilder::Bindings row = axes;
        row[axis.symbol] = ir.CreateAdd(axes.at(axis.symbol), k_.index(r));
        const Reg exists = exact || r == 0 ? nullptr : ir.CreateICmpULT(row[axis.symbol], size);
        frames.push_back(emit_.frame(row, inner_axis(), vec_, exists));
      }
      emit_.values_sharing(frames, steps_, axis.symbol);
      for (Frame& frame : frames) {
        for (const ProgramStore& store : p_.stores) emit_.store(frame, store);
      }
    });
  }

  void several_vectors(Reg first) {
    llvm::IRBuilder<>& ir = k_.ir();
    const Reg end = vectors();
    std::vector<Frame> frames;
    for (int u = 0; u < unroll_; ++u) {
      const Reg v = ir.CreateAdd(first, k_.index(u * threads_));
      frames.push_back(emit_.frame(axes_of(v), inner_axis(), vec_, ir.CreateICmpULT(v, end)));
    }
    emit_.load_ahead(frames, steps_);
    for (Frame& frame : frames) {
      for (int s : steps_) emit_.value(frame, s);
    }
    for (Frame& frame : frames) {
      for (const ProgramStore& store : p_.stores) emit_.store(frame, store);
    }
  }

  const ElementProgram p_;
  const int vec_, rows_, unroll_;
  const int64_t threads_;
  KernelBuilder k_;
  ExpressionEmitter emit_;
  std::vector<int> steps_;
};

}  // namespace

std::unique_ptr<llvm::Module> build_pointwise(llvm::LLVMContext& context, const ElementProgram& program,
                                              const Schedule& schedule, const GpuFacts&) {
  return PointwiseKernel(context, program, schedule).build();
}

}  // namespace tilewright
