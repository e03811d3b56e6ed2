#pragma once

#include <string>

#include "schedule/element_program.h"
#include "schedule/schedule.h"

namespace tilewright {

// The family `matvec`: products of a large matrix with few vectors. The matrix is read once, straight into registers,
// and multiplied there; nothing of it passes through shared memory.
//
//   matvec wide_n=1 across=0 vec=8 rows=8 columns=1 threads=128 unroll=2 index_bits=32 align=16
//
// wide_n      1: the matrix is the right operand, its rows are values of n, and the vectors are values of m; 0: the
//             other way round
// across      0: vectors of memory lie along k, and the threads of a block share k between them;
//             1: they lie along the rows, `side` threads beside each other, and the other threads share k
// vec         elements of the matrix an access; the axis that they lie along is a multiple of it
// rows        rows of the matrix a block takes: each thread has a part of all of them (across=1: of `vec`)
// columns     vectors that are multiplied at once; a block for each so many
// unroll      across=0: accesses to each row under way at once; across=1: consecutive k that a thread takes at once, of
//             which k is a multiple
struct MatvecParams {
  bool wide_n = true;
  bool across = false;
  int vec = 1, rows = 1, columns = 1, threads = 32, unroll = 1;
  int index_bits = 32;
  int64_t align = 1;

  static MatvecParams of(const Schedule& schedule);
  Schedule schedule() const;

  int side() const { return across ? rows / vec : 1; }  // threads along the rows
  int sharers() const { return threads / side(); }      // threads that share k
  // across=1: elements of shared memory from a sum of a thread's to its next: threads that write it and threads that
  // read the sums of neighbouring rows all meet other banks.
  int64_t part_stride() const { return threads + 32 / vec; }
  const std::string& wide(const ElementProgram& p) const { return wide_n ? p.matrix.n : p.matrix.m; }
  const std::string& few(const ElementProgram& p) const { return wide_n ? p.matrix.m : p.matrix.n; }
  int matrix(const ProgramProduct& product) const { return wide_n ? product.rhs : product.lhs; }  // steps
  int vectors(const ProgramProduct& product) const { return wide_n ? product.lhs : product.rhs; }
};

// Blocks along the rows and along the vectors; a batch has as many of each.
Expr wide_blocks(const ElementProgram& program, const MatvecParams& params);
Expr few_blocks(const ElementProgram& program, const MatvecParams& params);
// The axes of the batch, outermost first.
std::vector<ProgramAxis> batch_axes(const ElementProgram& program);

}  // namespace tilewright
