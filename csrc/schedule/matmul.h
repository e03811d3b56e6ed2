#pragma once

#include <string>
#include <vector>

#include "schedule/element_program.h"
#include "schedule/schedule.h"

namespace tilewright {

// The family `matmul`: a block computes a tile of a product of matrices, and what follows it for these elements.
//
//   matmul tile_m=128 tile_n=128 tile_k=32 warps_m=2 warps_n=2 stages=4 split=1 copy_a=1 copy_b=1 vec=8 index_bits=32
//          align=16
//
// tile_m, tile_n, tile_k   elements of the tile (of each of two products), and of k that a stage of the ring holds
// warps_m, warps_n         how the block's warps lie over the tile
// stages                   of the ring in shared memory that holds the operands' tiles
// split                    blocks a tile: each sums a run of k, the last one to arrive adds their sums in order
// copy_a, copy_b           1: an operand is copied to shared memory in pieces of 16 bytes while the block computes;
//                          0: threads load and compute its elements
// vec                      elements along n that a thread computes together after the product; n is a multiple of it
struct MatmulParams {
  int tile_m = 1, tile_n = 1, tile_k = 1, warps_m = 1, warps_n = 1, stages = 2, split = 1;
  bool copy_a = false, copy_b = false;
  int vec = 1;
  int index_bits = 32;
  int64_t align = 1;

  static MatmulParams of(const Schedule& schedule);
  Schedule schedule() const;
  int warps() const { return warps_m * warps_n; }
  int threads() const { return 32 * warps(); }
  int warp_m() const { return tile_m / warps_m; }
  int warp_n() const { return tile_n / warps_n; }
};

// How the factors of a product are multiplied.
enum class MatrixUnit : uint8_t {
  kTensor16,  // mma.sync of 16-bit elements, 16 of k at once
  kTensor32,  // mma.sync of tf32, 8 of k at once
  kFma,       // in float32, one by one
};
MatrixUnit matrix_unit(const ProgramProduct& product);

// A stage's tile of one operand in shared memory: lines of 16-byte chunks, along k or along the operand's other axis,
// as in global memory. Chunks of a line are permuted, so that neither rows of fragments nor copies meet in a bank.
struct OperandTile {
  std::string axis;  // the one that chunks lie along
  bool along_k = true;
  int lines = 1, chunks = 1;  // chunks a line
  int lanes = 1;              // elements a chunk
  // chunk c of line l stands at place(l, c) of the line: c ^ (l / xor_divisor % xor_count * xor_factor).
  int xor_divisor = 1, xor_count = 1, xor_factor = 1;

  int line_bytes() const { return 16 * chunks; }
  int bytes() const { return lines * line_bytes(); }
};
// `is_left`: of the left operand.
OperandTile operand_tile(const ElementProgram& program, const ProgramProduct& product, const MatmulParams& params,
                         bool is_left);

// After the products each warp hands its sums over through shared memory, where a row takes so many floats, with a gap
// so that the four rows that are written together lie in all banks.
int handed_row(const MatmulParams& params);

int64_t matmul_smem_bytes(const ElementProgram& program, const MatmulParams& params);
// Tiles of all batches.
Expr matmul_tiles(const ElementProgram& program, const MatmulParams& params);
// Steps of tile_k over the whole of k.
Expr matmul_steps(const ElementProgram& program, const MatmulParams& params);

}  // namespace tilewright
