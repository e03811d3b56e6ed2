#pragma once

#include <string>
#include <vector>

#include "schedule/element_program.h"
#include "schedule/schedule.h"

namespace tilewright {

// The family `transpose`: pointwise groups some of whose loads and stores are consecutive in memory along one axis, x,
// and some along another, y. A block takes a tile of both, goes over it in vectors along y for the accesses of that
// kind and in vectors along x for the others, and hands values over in shared memory:
//
//   1. along y: loads, what depends on them alone, stores      --into_x-->
//   2. along x: loads, everything else, stores                 --into_y-->
//   3. along y: stores of what phase 2 computed
//
//   transpose tile_x=128 tile_y=64 vec_x=8 vec_y=8 threads=128 index_bits=32 align=16
//
// tile_x, tile_y   elements of the tile along each axis, powers of two; a tile may hang over the end
// vec_x, vec_y     elements a vector along each axis; the axis' size is a multiple of it
// align            bytes that every tensor's address is a multiple of
struct TransposeParams {
  int tile_x = 1, tile_y = 1, vec_x = 1, vec_y = 1, threads = 32;
  int index_bits = 32;
  int64_t align = 1;

  static TransposeParams of(const Schedule& schedule);
  Schedule schedule() const;
};

// Vectors, of so many bytes in all of a thread's registers, that a thread has under way at once: a power of two.
int vectors_at_once(int64_t bytes);

// What a program does in which phase; a property of the program alone.
struct TransposePhases {
  std::string x, y;                // axes
  std::vector<int> into_x;         // steps whose values cross from phase 1 to 2
  std::vector<int> into_y;         // steps whose values cross from phase 2 to 3
  std::vector<int> loads_along_x;  // loads of phase 2
  std::vector<int> loads_along_y;  // loads of phase 1
  std::vector<int> stores[3];      // of each phase, as indices of the program's stores
  std::string why_not;             // not empty: the family does not take the program
};
TransposePhases transpose_phases(const ElementProgram& program);

// An array in shared memory through which a tile of one value crosses from vectors along one axis to vectors along the
// other. A row has `chunks` accesses of `chunk_bytes` each; whoever reads takes `block_rows` rows of one chunk. Chunks
// are swizzled by their row's block, so that neither neighbours along a row nor neighbours across blocks meet in a
// bank, whoever writes and whoever reads:
//
//   place(row, chunk) = (row * chunks + chunk) XOR rotated(row / xor_rows mod xor_count) * xor_step
//
// where rotated(b), of as many bits as xor_count - 1 has, is b times xor_turn with what overflows added at the low end.
// Law: place is one-to-one onto 0 .. rows*chunks - 1.
struct SharedTile {
  int parts = 1;  // a vector of more than 16 bytes is split over several such arrays
  int64_t rows = 1, chunks = 1;
  int chunk_bytes = 1;
  int block_rows = 1;
  int64_t xor_rows = 1;  // rows that fill the banks, a block or more
  int xor_count = 1, xor_turn = 1, xor_step = 1;

  int64_t place(int64_t row, int64_t chunk) const;
  int64_t bytes() const { return parts * rows * chunks * chunk_bytes; }
};
// Written in vectors of `from_vec` elements along an axis of `from` in the tile, read in vectors of `to_vec` along the
// other one, of `to`. All are powers of two.
SharedTile shared_tile(int from, int from_vec, int to, int to_vec, int element_bytes);

}  // namespace tilewright
