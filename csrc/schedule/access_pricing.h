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

// Lanes for 16-byte accesses of the element type that moves most bytes consecutively along `axis`; 1 if none does.
int preferred_lanes(const ElementProgram& program, const std::string& axis);

// Whether all byte offsets of the kernel are below 2^31: for all sizes, at the hint.
struct IndexRange {
  bool always_32bit = false;
  bool hint_32bit = false;
};
IndexRange index_range(const ElementProgram& program);

// Writes accesses and operations into a footprint. `vector_axis` is the axis along which consecutive threads work.
void price_accesses(const ElementProgram& program, const std::string& vector_axis, Footprint& footprint);
void price_operations(const ElementProgram& program, Footprint& footprint);
// Registers that hold the live values of one thread: `lanes` elements, `fragments` vectors of each input at once.
int estimate_registers(const ElementProgram& program, int lanes, int fragments);

}  // namespace tilewright
