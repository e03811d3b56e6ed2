#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "schedule/index_space.h"

namespace tilewright {

// What one element of a kernel costs to compute: the body of a group followed from its outputs back to its inputs, with
// every index map turned into an expression over the kernel's iteration axes.
//
//   kernel(%0: f32[s0, 64], %1: f32[64])        axes @a < s0, @b < 64  (collapsed where every access allows)
//     %2 = expand %1 shape [s0, 64]             load %0 at 64*@a + @b
//     %3 = add %0, %2                           load %1 at @b
//     return %3                                 add, store at 64*@a + @b
//
// A body with products of matrices iterates over the elements of the products: batches, m, n, and k, which is reduced.
// Everything before a product is steps over (batches, m, k) and (batches, k, n), everything after it over (batches, m,
// n). There is one product, or two of one left operand.
// A body with reductions iterates over rows: kept axes, then reduced axes that all its reductions share. A sum over
// where(iota == t, x, 0) is no reduction but the element of x that t picks.
// The schedule prices the program's accesses, and the expression emitter turns its steps into code: both read the same
// one.

// low <= index < high.
struct Bound {
  Expr index, low, high;
  friend bool operator==(const Bound&, const Bound&) = default;
};
using Guard = std::vector<Bound>;  // all of them

struct ProgramStep {
  enum class Kind : uint8_t {
    kLoad,       // parameter's element at `index`; executed only where `guard` holds
    kScalar,     // a parameter that is passed by value
    kConstant,   // of `node`
    kIndex,      // the integer `index`
    kPointwise,  // `node` applied to operands
    kSelect,     // operands[i] for the first choices[i] that holds, else the last operand
    kReduced,    // result `result` of reduction `reduction`
    kProduct,    // the sum over k of products of `products[product]`, in the compute type
    kPicked,     // operands[1] where the integer operands[0] is from 0 to below `index`, else 0
  };
  Kind kind;
  DType dtype = DType::kF32;
  const Value* value = nullptr;
  const Node* node = nullptr;
  std::vector<int> operands;
  int parameter = -1;
  Expr index = 0;
  Guard guard;
  std::vector<Guard> choices;
  int reduction = -1, result = 0;
  int product = -1;
  // kLoad: a symbol of the index that is no axis but the value of operands[0], an integer, or 0 where that is too small
  // or too large; "" where there is none.
  std::string picked;

  bool uses_kept = false, uses_reduced = false;  // depends on a kept, a reduced axis
  int stage = 0;                                 // reductions of lower stages come first
};

struct ProgramAxis {
  std::string symbol;
  Expr size;
  bool reduced = false;
  Expr expr() const { return Expr::symbol(symbol); }
};

struct ProgramStore {
  int output = 0;
  int step = 0;
  DType dtype = DType::kF32;
  Expr index = 0;        // offset in elements
  bool per_row = false;  // one element a row, written after all reductions
  const Value* into = nullptr;
};

struct ProgramReduction {
  const Node* node = nullptr;
  int operand = 0;  // step
  int stage = 0;
  Expr position = 0;  // argmax, argmin: the index that a hit reports
  // A sum of exp(x - max of x): the reduction that gives that maximum; -1 for others. One pass can keep both, the sum
  // always relative to the greatest x so far.
  int maximum = -1;
};

// A product of matrices: the sum over k of the elements of two steps, lhs at (batches, m, k), rhs at (batches, k, n).
struct ProgramProduct {
  const Node* node = nullptr;
  int lhs = 0, rhs = 0;
  int result = 0;             // the step that is the sum
  DType dtype = DType::kF32;  // of the factors
  bool tf32 = false;          // factors of float32 are rounded to 10 bits of fraction
};

// The symbols of the axes of products.
struct MatrixAxes {
  std::string m, n, k;
};

struct ElementProgram {
  explicit ElementProgram(const SymbolTable& symbols) : space(symbols) {}

  const Graph* body = nullptr;
  IndexSpace space;
  std::vector<ProgramAxis> axes;   // kept ones first, each group outermost first
  std::vector<ProgramStep> steps;  // operands before users
  std::vector<ProgramReduction> reductions;
  std::vector<ProgramProduct> products;
  MatrixAxes matrix;  // with products
  std::vector<ProgramStore> stores;
  bool online = false;

  bool has_reductions() const { return !reductions.empty(); }
  bool has_products() const { return !products.empty(); }
  bool is_of_matrix(const std::string& axis) const;
  std::vector<ProgramAxis> kept() const;
  std::vector<ProgramAxis> reduced() const;
  Expr rows() const;        // product of the kept sizes
  Expr row_length() const;  // product of the reduced sizes
  int stages() const;       // of the last reduction, plus one; 0 without reductions
  // One pass for maxima and their sums of exponentials, or (as made) a stage for each.
  void set_online(bool online);
  bool is_online(const ProgramReduction& r) const { return online && r.maximum >= 0; }
  int input_of(const ProgramReduction& r) const { return is_online(r) ? reductions[r.maximum].operand : r.operand; }
  // Passes over a row (stages, and the stores of elements) that a step is needed in.
  int times_needed(int step) const;
  // Which steps vary along an axis.
  std::vector<bool> varying(const std::string& axis) const;
  // Steps that `roots` need, themselves included.
  std::vector<bool> needed_by(const std::vector<int>& roots) const;
  const Value* parameter(int i) const { return body->parameters()[i]; }
};

struct ProgramResult {
  std::optional<ElementProgram> program;
  std::string why_not;
};
ProgramResult make_element_program(const Graph& body);

// The program over one axis instead of its axes, for accesses that go over all of them in memory's order: what depends
// on single ones takes them from quotients and remainders. Without reductions.
ElementProgram flatten_axes(const ElementProgram& program);

// Strides of the memory that a parameter or output has: those of its type, else dense row-major ones.
std::vector<Expr> memory_strides(const Type& type);

// Vectors along an axis: elements axis = lanes*q + 0 .. lanes*q + lanes-1.
struct LaneAccess {
  enum class Kind : uint8_t {
    kUniform,    // one element for all lanes
    kVector,     // consecutive elements, in accesses of `width`
    kStrided,    // a constant number of elements apart
    kScattered,  // each lane computes its own index
  };
  Kind kind = Kind::kScattered;
  int width = 1;       // kVector: elements an access, a power of two
  int64_t stride = 0;  // kStrided
  // kVector: symbolic factors of the index that must be multiples of `width` for alignment, and are not known to be.
  std::vector<Expr> assumed;
};
// `alignment`: bytes to which the memory is known to be aligned.
LaneAccess lane_access(const ElementProgram& program, const Expr& index, const Guard& guard, const std::string& axis,
                       int lanes, DType dtype, int64_t alignment);
// Whether a guard has one answer for all lanes of a vector.
bool uniform_guard(const ElementProgram& program, const Guard& guard, const std::string& axis, int lanes);

}  // namespace tilewright
