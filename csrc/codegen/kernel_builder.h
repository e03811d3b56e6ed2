#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tilewright {

using Reg = llvm::Value*;  // a value in registers
using Regs = std::vector<Reg>;

// A small typed layer over IRBuilder, in which a family's file reads like the kernel that it writes.
//
// Elements in registers have their compute type: float for f32, f16 and bf16, i1 for bool, else the type itself.
// Indices are i32 or i64, as the schedule says.
class KernelBuilder {
 public:
  struct Shape {
    std::string entry;
    int threads = 0;
    int min_blocks_per_sm = 0;  // 0: not said
    int index_bits = 32;
    int workspaces = 0;
  };
  KernelBuilder(llvm::LLVMContext& context, const Graph& body, const Shape& shape);

  llvm::IRBuilder<>& ir() { return ir_; }
  llvm::Module& module() { return *module_; }
  // Ends the kernel; the builder is empty afterwards.
  std::unique_ptr<llvm::Module> finish();

  // ---- parameters of the entry (codegen.h)
  Reg input(int i) const { return inputs_[i]; }
  Reg output(int i) const { return outputs_[i]; }  // the memory that output i is written to
  Reg workspace(int i) const { return workspaces_[i]; }
  Reg symbol(const std::string& name);  // as an index

  // ---- where this thread is
  Reg thread();  // index
  Reg block(int axis = 0);
  Reg lane();  // 0..31, i32
  Reg thread_i32();

  // ---- values
  llvm::Type* index_type() { return ir_.getIntNTy(shape_.index_bits); }
  Reg index(int64_t value) { return llvm::ConstantInt::get(index_type(), value, /*IsSigned=*/true); }
  llvm::Type* element_type(DType dtype);  // in registers
  // An expression over symbols and axes, given the axes' values. Floor division for signed operands; unsigned where
  // `not_negative` answers yes.
  using Bindings = std::map<std::string, Reg>;
  Reg expression(const Expr& e, const Bindings& axes, const std::function<bool(const Expr&)>& not_negative);

  // ---- global memory: `width` consecutive elements from base[index], in one access of up to 16 bytes
  // `streamed`: the first-level cache is told not to keep what was read.
  Regs load(Reg base, Reg index, int64_t offset, DType dtype, int width, bool streamed = false);
  void store(Reg base, Reg index, int64_t offset, DType dtype, const Regs& values);
  // Rounds values of the compute type to what `dtype` holds; 16-bit types go in pairs.
  void round(Regs& values, DType dtype);

  // ---- control
  // Runs `then` where the condition holds; the values that it returns, else zeros of the same types.
  Regs if_else_zero(Reg condition, const std::function<Regs()>& then);
  Regs if_else(Reg condition, const std::function<Regs()>& then, const std::function<Regs()>& otherwise);
  void if_then(Reg condition, const std::function<void()>& then);
  // for (i = first; i < end; i += step) with values carried from one turn to the next; returns the last ones.
  // `last_i`: becomes the i at which it ended.
  Regs loop(Reg first, Reg end, Reg step, Regs carried, const std::function<Regs(Reg, Regs)>& turn,
            Reg* last_i = nullptr);
  llvm::BasicBlock* new_block(const char* name);

  // ---- threads together
  void barrier();
  void fence_gpu();
  // The value of lane ^ mask; 1, 8, 16, 32 and 64-bit values.
  Reg shuffle_xor(Reg value, int mask);
  // An array of elements of a register type in shared memory (bool as i8).
  Reg shared_array(llvm::Type* type, int64_t count, const char* name);
  void store_shared(Reg array, Reg index, Reg value);
  Reg load_shared(Reg array, llvm::Type* type, Reg index);
  // The shared memory that the launch adds, aligned to 128 bytes.
  Reg dynamic_shared();
  // Consecutive elements of the memory type `dtype` in shared memory, in one access of up to 16 bytes. What is stored
  // has been rounded to that type.
  Reg shared_bytes(int64_t bytes, const char* name);
  void store_shared(Reg array, Reg byte_offset, DType dtype, const Regs& values);
  Regs load_shared(Reg array, Reg byte_offset, DType dtype, int width);
  // Waits for the other lanes of the warp.
  void warp_barrier();

  // ---- copies to shared memory that run beside the kernel
  // 16 bytes from base[index + further], elements of `dtype`, to a place in shared memory; zeros where `present` does
  // not hold.
  void copy_async(Reg shared, Reg base, Reg index, Reg further, DType dtype, Reg present);
  // Ends a group of copies, and waits until so many of the thread's groups, or fewer, are under way.
  void commit_copies();
  void wait_copies(int pending);

  // ---- fragments of matrices (PTX ISA, "Warp-level matrix instructions")
  // Four 8x8 matrices of 16-bit elements, or 8x4 of 32-bit ones; lane i gives the address of row i % 8 of matrix i / 8.
  Regs load_matrices(Reg shared, bool transposed);
  // c + a * b of 16x16 by 16x8 elements (tf32: 16x8 by 8x8): a in 4 words, b in 2, c in 4 floats.
  Regs multiply_matrices(DType dtype, const Regs& a, const Regs& b, const Regs& c);
  // To 10 bits of fraction, ties away from zero; as a word.
  Reg round_to_tf32(Reg value);

  // Partial results in global memory that another block reads, past caches that may be stale (bool as i8).
  // `index` is a multiple of their number.
  void store_partials(Reg base, Reg index, const Regs& values);
  Regs load_partials(Reg base, llvm::Type* type, Reg index, int count);
  // Adds 1 to a counter in global memory; its old value.
  Reg atomic_increment(Reg address);
  // Counts this block at `counter`, a word in global memory; whether it is the last one of `blocks`, which leaves the
  // counter zero and may read what the others have written before.
  Reg is_last_block(Reg counter, int blocks);

  // Line of the body's text that the next instructions come from.
  void set_line(int line);
  int line_of(const Node* node) const;
  int return_line() const { return return_line_; }

  Reg call_libdevice(const std::string& name, llvm::Type* type, const Regs& args);

 private:
  void make_entry(const Graph& body);
  void make_debug_info(const Graph& body);
  Reg address(Reg base, Reg index, int64_t byte_offset, int64_t size);
  llvm::Type* memory_type(DType dtype, int width, llvm::Align& align);
  Reg streamed_load(llvm::Type* type, Reg at);
  Regs unpack(Reg raw, DType dtype, int width);
  Reg packed_pair(Reg low, Reg high, DType dtype) const;
  // `rounded`: the values are of the type already, so that packing what was unpacked folds away.
  Reg pack(const Regs& values, DType dtype, bool rounded = false);
  Reg pack_element(Reg value, DType dtype, bool rounded);

  Shape shape_;
  std::unique_ptr<llvm::Module> module_;
  llvm::IRBuilder<> ir_;
  llvm::Function* function_ = nullptr;
  llvm::DISubprogram* scope_ = nullptr;
  Regs inputs_, outputs_, workspaces_;
  std::map<std::string, Reg> symbols_;
  // Where a value of a 16-bit type was unpacked from: a word, which half of it, the type.
  struct Half {
    Reg word = nullptr;
    int half = 0;
    DType dtype = DType::kF32;
  };
  std::map<Reg, Half> halves_;
  std::map<const Node*, int> lines_;
  int return_line_ = 1;
};

}  // namespace tilewright
