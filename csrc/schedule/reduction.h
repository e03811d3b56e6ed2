#pragma once

#include <optional>
#include <string>

#include "schedule/element_program.h"
#include "schedule/schedule.h"

namespace tilewright {

// The family `reduction`: `threads` threads reduce a row together, `rows` of them side by side in a block.
//
//   reduction columns=0 vec=8 threads=128 rows=1 vectors=4 looped=0 split=1 index_bits=32 align=16 stream=0
//
// columns     0: vectors lie along the innermost reduced axis, a row is one value of the kept axes;
//             1: vectors lie along the innermost kept axis, a "row" is a vector of rows side by side in memory
// vec         elements a vector; the axis that vectors lie along is a multiple of it
// vectors     vectors that a thread reads at once
// looped      0: a thread's vectors cover its share of the row and stay in registers from stage to stage;
//             1: each stage goes over the row again
// split       blocks a row; with more than one the last block of a row finishes it from partial results, and the
//             group has one stage and outputs of one element a row
// stream      1: what is read does not stay in the first-level cache
// shift       1 (else left out, columns=0 only): rows start anywhere in memory, and a row's vectors where memory is
//             aligned: up to vec - 1 elements before the row, so that its first and its last vector may be partial
struct ReductionParams {
  bool columns = false;
  int vec = 1, threads = 1, rows = 1, vectors = 1;
  bool looped = false;
  int split = 1;
  int index_bits = 32;
  int64_t align = 1;
  bool stream = false;
  bool shift = false;

  static ReductionParams of(const Schedule& schedule);
  Schedule schedule() const;
};

// The axis that vectors lie along; "" where there is none of its kind.
std::string vector_axis(const ElementProgram& program, bool columns);
// Rows (vectors of rows) that the grid covers, and steps that threads take through one: vectors or single elements.
Expr row_count(const ElementProgram& program, const ReductionParams& params);
Expr steps_per_row(const ElementProgram& program, const ReductionParams& params);

// Where a row starts, in elements of the memory of the access that moves most along its only reduced axis; nothing
// where some access is no constant number of elements a step, so that vectors cannot be shifted.
std::optional<Expr> row_start(const ElementProgram& program);
// Whether the access is consecutive and its row lies as that row does, by `vec`.
bool lies_alike(const ElementProgram& program, const Expr& index, const Expr& start, int vec);

// The program as a kernel of these parameters goes through it: looped ones keep maxima and their sums in one pass.
ElementProgram program_for(const ElementProgram& program, const ReductionParams& params);

// What one row's partial result consists of, in the order of the workspaces that hold it.
std::vector<DType> state_types(const ProgramReduction& reduction, const ElementProgram& program);

}  // namespace tilewright
