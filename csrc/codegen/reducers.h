#pragma once

#include "codegen/kernel_builder.h"
#include "schedule/element_program.h"

namespace tilewright {

// The algebra of one reduction over states in registers (schedule's state_types names the parts): where a state comes
// from, how two are joined, and what the last one means. Joining is commutative to the bit, so that all lanes of a
// butterfly end with the same state.
class Reducer {
 public:
  Reducer(KernelBuilder& k, const ElementProgram& program, const ProgramReduction& reduction);

  const ProgramReduction& reduction() const { return r_; }
  const std::vector<DType>& parts() const { return parts_; }

  Regs identity() const;
  // The state of one element; `position` (argmax, argmin) is its index.
  Regs of_element(Reg value, Reg position) const;
  Regs join(const Regs& a, const Regs& b) const;
  // One state of many elements, where `present[i]` (null: all) holds.
  struct Element {
    Reg value = nullptr, position = nullptr, present = nullptr;
  };
  Regs of_elements(const std::vector<Element>& elements) const;
  // join(state, of_elements(elements)), where that takes fewer instructions.
  Regs extend(const Regs& state, const std::vector<Element>& elements) const;
  // The reduction's results, rounded to their types; `count` elements were reduced.
  Regs finish(const Regs& state, Reg count) const;

  // The step whose elements are reduced.
  int input() const { return p_.input_of(r_); }
  // Parts that are equal for all lanes of a vector whose lanes have states of their own: Welford's count.
  bool is_shared(size_t part) const { return is_welford() && part == 2; }
  bool needs_position() const;
  bool is_welford() const;
  Reg count_as_float(Reg count) const;

 private:
  Reg join_one(Reg a, Reg b) const;
  Regs join_best(const Regs& a, const Regs& b) const;
  Regs join_welford(const Regs& a, const Regs& b) const;
  Regs welford_of(const std::vector<Element>& elements) const;
  Regs join_online(const Regs& a, const Regs& b) const;
  Regs extend_online(const Regs& state, const std::vector<Element>& elements) const;
  Reg exp(Reg x) const;
  Reg finite_maximum(Reg maximum) const;
  Reg zero() const;
  Reg worst(bool is_max) const;

  KernelBuilder& k_;
  const ElementProgram& p_;
  const ProgramReduction& r_;
  DType compute_;
  std::vector<DType> parts_;
};

// Sum of values as a balanced tree.
Reg tree_sum(KernelBuilder& k, Regs values);

}  // namespace tilewright
