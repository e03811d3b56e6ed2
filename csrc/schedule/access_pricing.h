#pragma once

#include <string>

#include "schedule/element_program.h"
#include "schedule/schedule.h"

namespace tilewright {

// What the families share in choosing vectors and in writing footprints.

// Facts under which vectors of `lanes` along `axis` work, and how well.
struct VectorFacts {
  bool any_vector = false;                          // some access becomes wider than one element
  int64_t alignment = 1;                            // bytes that every pointer must be a multiple of
  std::vector<std::pair<Expr, int64_t>> divisible;  // beyond what the symbol table knows
  bool holds_at_hint = true;
};
VectorFacts vector_facts(const ElementProgram& program, const std::string& axis, int lanes);

// Elements of the iteration space that differ for this index, at the hints: the product of the sizes of its axes.
double elements_touched(const ElementProgram& program, const Expr& index);

// Lanes for 16-byte accesses of the element type that moves most bytes consecutively along `axis`; 1 if none does.
int preferred_lanes(const ElementProgram& program, const std::string& axis);

// Whether all byte offsets of the kernel are below 2^31: for all sizes, at the hint.
struct IndexRange {
  bool always_32bit = false;
  bool hint_32bit = false;
};
IndexRange index_range(const ElementProgram& program);

// How the threads of a warp lie over the axes: neighbours take the first `count` vectors along `axis`, a vector each,
// then the next step of the second entry, and so on. Entries after the first count elements, `step` apart.
struct WalkEntry {
  std::string axis;
  int64_t count = 1;
  int64_t step = 1;  // of the first entry: elements a vector
};
using WarpWalk = std::vector<WalkEntry>;

// Write accesses and operations into a footprint, with the sectors that warps touch at the hints.
void price_accesses(const ElementProgram& program, const WarpWalk& walk, Footprint& footprint);
void price_load(const ElementProgram& program, int step, const WarpWalk& walk, Footprint& footprint);
void price_store(const ElementProgram& program, int store, const WarpWalk& walk, Footprint& footprint);
void price_operations(const ElementProgram& program, Footprint& footprint);
// The operations of one step for `times` elements.
void price_step(const ElementProgram& program, int step, double times, Footprint& footprint);
// Registers that hold the live values of one thread: `lanes` elements, `fragments` vectors of each input at once.
int estimate_registers(const ElementProgram& program, int lanes, int fragments);

}  // namespace tilewright
