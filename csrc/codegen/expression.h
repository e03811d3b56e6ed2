#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/kernel_builder.h"
#include "codegen/narrow_functions.h"
#include "schedule/element_program.h"

namespace tilewright {

// A fragment: `lanes` elements that one thread computes together, at consecutive values of one axis. Families make
// frames, set what comes from elsewhere (results of reductions), and never emit pointwise work themselves.
struct Frame {
  KernelBuilder::Bindings axes;  // value of every axis at lane 0; `lane_axis` is at a multiple of `lanes`
  std::string lane_axis;         // "": a single element
  int lanes = 1;
  Reg mask = nullptr;  // where it does not hold, nothing is read and values mean nothing; null: holds
  // Of vectors that may lie partly outside: whether each lane is inside (empty: they are), and whether all are.
  Regs lane_exists;
  Reg whole = nullptr;
  // Values of the program's steps so far: empty, one for all lanes, or one a lane. What a step has computed must
  // dominate its later uses.
  std::vector<Regs> values;
};

// Turns a program's steps into code, for any family: each step once a frame, 16-bit values rounded after each operator.
class ExpressionEmitter {
 public:
  // `alignment`: bytes that every tensor's address is a multiple of.
  ExpressionEmitter(KernelBuilder& k, const ElementProgram& program, int64_t alignment)
      : k_(k), p_(program), alignment_(alignment), forms_(forms_of(program)) {}

  // The lane axis starts at a multiple of the lanes before or behind which memory is aligned: an access for which
  // `is_aligned` holds is one of vectors, any other one of single elements.
  void shift_vectors(std::function<bool(const Expr&)> is_aligned) { is_aligned_ = std::move(is_aligned); }
  // Loads bypass the first-level cache: for data that is read once and never written.
  void stream_loads() { streamed_ = true; }

  Frame frame(KernelBuilder::Bindings axes, std::string lane_axis, int lanes, Reg mask = nullptr) const;
  // One value for all lanes, or one a lane.
  const Regs& value(Frame& frame, int step);
  Reg lane_value(Frame& frame, int step, int lane);
  // Issues the loads that `steps` need, largest first, so that they are in flight together.
  void load_ahead(Frame& frame, const std::vector<int>& steps);
  void load_ahead(std::vector<Frame>& frames, const std::vector<int>& steps);
  // Values of `steps` in all frames, loads first; what does not vary along `axis` is made in the first one only.
  void values_sharing(std::vector<Frame>& frames, const std::vector<int>& steps, const std::string& axis);
  // Writes an output's elements, where `frame.mask` holds.
  void store(Frame& frame, const ProgramStore& store);

  Reg index(const Frame& frame, const Expr& e, int lane);
  KernelBuilder& builder() { return k_; }
  const ElementProgram& program() const { return p_; }

 private:
  Regs make(Frame& frame, const ProgramStep& step);
  Regs make_load(Frame& frame, const ProgramStep& step);
  LaneAccess access_of(const Frame& frame, const Expr& index, const Guard& guard, DType dtype) const;
  Regs load_lanes(const Frame& frame, const ProgramStep& step, const LaneAccess& access);
  void store_lanes(const Frame& frame, const ProgramStore& store, const LaneAccess& access, const Regs& values);
  std::pair<Reg, Reg> picked_target(const Regs& targets, size_t lane, Reg size);
  Regs make_picked_load(const Frame& frame, const ProgramStep& step);
  Regs make_picked(const Frame& frame, const ProgramStep& step);
  Regs make_scalar(const ProgramStep& step);
  Regs make_pointwise(Frame& frame, const ProgramStep& step);
  Regs make_select(Frame& frame, const ProgramStep& step);
  Reg holds(const Frame& frame, const Guard& guard, int lane);
  Reg with_mask(const Frame& frame, Reg condition);
  std::vector<int> loads_of(const std::vector<int>& steps) const;

  KernelBuilder& k_;
  const ElementProgram& p_;
  int64_t alignment_;
  std::vector<Form> forms_;  // of the steps
  bool streamed_ = false;
  std::function<bool(const Expr&)> is_aligned_;
};

}  // namespace tilewright
