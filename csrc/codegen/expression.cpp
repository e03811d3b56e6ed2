#include "codegen/expression.h"

#include <algorithm>

#include "codegen/scalar_ops.h"
#include "support/error.h"

namespace tilewright {

using Kind = ProgramStep::Kind;

Frame ExpressionEmitter::frame(KernelBuilder::Bindings axes, std::string lane_axis, int lanes, Reg mask) const {
  Frame frame;
  frame.axes = std::move(axes);
  frame.lane_axis = std::move(lane_axis);
  frame.lanes = lanes;
  frame.mask = mask;
  frame.values.resize(p_.steps.size());
  return frame;
}

const Regs& ExpressionEmitter::value(Frame& frame, int step) {
  Regs& known = frame.values[step];
  if (known.empty()) {
    const ProgramStep& s = p_.steps[step];
    for (int o : s.operands) value(frame, o);
    known = make(frame, s);
  }
  return known;
}

Reg ExpressionEmitter::lane_value(Frame& frame, int step, int lane) {
  const Regs& all = value(frame, step);
  return all.size() == 1 ? all[0] : all[lane];
}

Reg ExpressionEmitter::index(const Frame& frame, const Expr& e, int lane) {
  auto not_negative = [this](const Expr& x) { return p_.space.not_negative(x); };
  if (lane == 0 || !p_.space.depends_on(e, frame.lane_axis)) return k_.expression(e, frame.axes, not_negative);
  KernelBuilder::Bindings axes = frame.axes;
  Reg& at = axes.at(frame.lane_axis);
  at = k_.ir().CreateAdd(at, k_.index(lane));
  return k_.expression(e, axes, not_negative);
}

Reg ExpressionEmitter::holds(const Frame& frame, const Guard& guard, int lane) {
  Reg all = k_.ir().getTrue();
  for (const Bound& b : guard) {
    const Reg at = index(frame, b.index, lane);
    if (!p_.space.not_negative(b.index - b.low))
      all = k_.ir().CreateAnd(all, k_.ir().CreateICmpSGE(at, index(frame, b.low, lane)));
    if (!p_.space.below(b.index, b.high))
      all = k_.ir().CreateAnd(all, k_.ir().CreateICmpSLT(at, index(frame, b.high, lane)));
  }
  return all;
}

Reg ExpressionEmitter::with_mask(const Frame& frame, Reg condition) {
  return frame.mask ? k_.ir().CreateAnd(frame.mask, condition) : condition;
}

Regs ExpressionEmitter::make(Frame& frame, const ProgramStep& step) {
  k_.set_line(k_.line_of(step.node));
  switch (step.kind) {
    case Kind::kLoad:
      return make_load(frame, step);
    case Kind::kScalar:
      return make_scalar(step);
    case Kind::kConstant:
      return {emit_constant(k_, *step.node, step.dtype)};
    case Kind::kIndex: {
      Regs values;
      const int lanes = p_.space.depends_on(step.index, frame.lane_axis) ? frame.lanes : 1;
      for (int lane = 0; lane < lanes; ++lane)
        values.push_back(emit_index_as(k_, index(frame, step.index, lane), step.dtype));
      k_.round(values, step.dtype);
      return values;
    }
    case Kind::kPointwise:
      return make_pointwise(frame, step);
    case Kind::kSelect:
      return make_select(frame, step);
    case Kind::kPicked:
      return make_picked(frame, step);
    case Kind::kReduced:
    case Kind::kProduct:
      break;
  }
  throw InternalError("%" + step.value->name + " is used before it is computed");
}

// The index that a lane picks, in 64 bits, and whether there is such an element among `size`.
std::pair<Reg, Reg> ExpressionEmitter::picked_target(const Regs& targets, size_t lane, Reg size) {
  llvm::IRBuilder<>& ir = k_.ir();
  const Reg target = ir.CreateSExt(targets[targets.size() > 1 ? lane : 0], ir.getInt64Ty());
  return {target, ir.CreateICmpULT(target, ir.CreateZExt(size, ir.getInt64Ty()))};
}

// One element a lane, wherever its index is; element 0 for an index that is none.
Regs ExpressionEmitter::make_picked_load(const Frame& frame, const ProgramStep& step) {
  llvm::IRBuilder<>& ir = k_.ir();
  const Regs& targets = frame.values[step.operands[0]];
  const bool varies = targets.size() > 1 || p_.space.depends_on(step.index, frame.lane_axis);
  const Reg size = k_.expression(p_.space.size(step.picked), {}, [](const Expr&) { return true; });
  Regs values;
  for (int lane = 0; lane < (varies ? frame.lanes : 1); ++lane) {
    Frame place = frame;
    const auto [target, exists] = picked_target(targets, lane, size);
    place.axes[step.picked] = ir.CreateTrunc(ir.CreateSelect(exists, target, ir.getInt64(0)), k_.index_type());
    const Reg may_read = with_mask(frame, holds(place, step.guard, lane));
    values.push_back(k_.if_else_zero(may_read, [&] {
      return k_.load(k_.input(step.parameter), index(place, step.index, lane), 0, step.dtype, 1);
    })[0]);
  }
  return values;
}

Regs ExpressionEmitter::make_picked(const Frame& frame, const ProgramStep& step) {
  llvm::IRBuilder<>& ir = k_.ir();
  const Regs &targets = frame.values[step.operands[0]], &elements = frame.values[step.operands[1]];
  const Reg size = k_.expression(step.index, {}, [](const Expr&) { return true; });
  Regs values;
  for (size_t lane = 0; lane < std::max(targets.size(), elements.size()); ++lane) {
    const Reg exists = picked_target(targets, lane, size).second;
    const Reg element = elements[elements.size() > 1 ? lane : 0];
    const Reg zero = llvm::Constant::getNullValue(element->getType());
    // A sum with zeros is never -0.
    values.push_back(ir.CreateSelect(exists, ir.CreateFAdd(element, zero), zero));
  }
  return values;
}

LaneAccess ExpressionEmitter::access_of(const Frame& frame, const Expr& index, const Guard& guard, DType dtype) const {
  if (!is_aligned_ || frame.lanes == 1 || !p_.space.depends_on(index, frame.lane_axis))
    return lane_access(p_, index, guard, frame.lane_axis, frame.lanes, dtype, alignment_);
  LaneAccess access;
  if (is_aligned_(index)) {
    access.kind = LaneAccess::Kind::kVector;
    access.width = static_cast<int>(std::min<int64_t>(frame.lanes, 16 / bytes(dtype)));
  } else {
    access.kind = LaneAccess::Kind::kStrided;
    access.stride = *p_.space.coefficient(index, frame.lane_axis)->constant();
  }
  return access;
}

// All lanes of a load whose guard, if any, holds for all of them.
Regs ExpressionEmitter::load_lanes(const Frame& frame, const ProgramStep& step, const LaneAccess& access) {
  Regs values;
  const Reg base = k_.input(step.parameter), first = index(frame, step.index, 0);
  const bool vector = access.kind == LaneAccess::Kind::kVector;
  const bool near = vector || (access.kind == LaneAccess::Kind::kStrided && access.stride >= 0);
  const int width = vector ? access.width : 1;
  for (int lane = 0; lane < frame.lanes; lane += width) {
    const Regs part = near ? k_.load(base, first, vector ? lane : access.stride * lane, step.dtype, width, streamed_)
                           : k_.load(base, index(frame, step.index, lane), 0, step.dtype, width);
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

Regs ExpressionEmitter::make_load(Frame& frame, const ProgramStep& step) {
  if (!step.picked.empty()) return make_picked_load(frame, step);
  const LaneAccess access = access_of(frame, step.index, step.guard, step.dtype);
  auto guarded = [&](int lane, const std::function<Regs()>& load) {
    return k_.if_else_zero(with_mask(frame, holds(frame, step.guard, lane)), load);
  };
  auto one = [&](int lane) {
    return k_.load(k_.input(step.parameter), index(frame, step.index, lane), 0, step.dtype, 1);
  };
  if (access.kind == LaneAccess::Kind::kUniform) return guarded(0, [&] { return one(0); });
  auto element_by_element = [&](bool is_guarded) {
    Regs values;
    for (int lane = 0; lane < frame.lanes; ++lane) {
      auto load = [&] { return one(lane); };
      auto existing = [&] { return frame.whole ? k_.if_else_zero(frame.lane_exists[lane], load) : load(); };
      values.push_back(is_guarded ? existing()[0] : guarded(lane, existing)[0]);
    }
    return values;
  };
  if (!is_aligned_ && !uniform_guard(p_, step.guard, frame.lane_axis, frame.lanes)) return element_by_element(false);
  auto all = [&] { return load_lanes(frame, step, access); };
  if (!frame.whole) return guarded(0, all);
  return guarded(0, [&] { return k_.if_else(frame.whole, all, [&] { return element_by_element(true); }); });
}

// A parameter that is passed by value, widened to 64 bits.
Regs ExpressionEmitter::make_scalar(const ProgramStep& step) {
  const Reg wide = k_.input(step.parameter);
  const DType from = wide->getType()->isDoubleTy() ? DType::kF64 : DType::kI64;
  Regs values = {emit_cast(k_, wide, from, step.dtype)};
  return values;
}

Regs ExpressionEmitter::make_pointwise(Frame& frame, const ProgramStep& step) {
  std::vector<DType> dtypes;
  size_t lanes = 1;
  for (int o : step.operands) {
    dtypes.push_back(p_.steps[o].dtype);
    lanes = std::max(lanes, frame.values[o].size());
  }
  const Form form = forms_[&step - p_.steps.data()];
  Regs values;
  for (size_t lane = 0; lane < lanes; ++lane) {
    Regs operands;
    for (int o : step.operands)
      operands.push_back(frame.values[o].size() == 1 ? frame.values[o][0] : frame.values[o][lane]);
    values.push_back(emit_pointwise(k_, *step.node, dtypes, operands, form));
  }
  if (!is_exact(step.node->op)) k_.round(values, step.dtype);
  return values;
}

Regs ExpressionEmitter::make_select(Frame& frame, const ProgramStep& step) {
  bool uniform = true;
  size_t lanes = 1;
  for (const Guard& g : step.choices) {
    uniform = uniform && uniform_guard(p_, g, frame.lane_axis, frame.lanes);
  }
  for (int o : step.operands) lanes = std::max(lanes, frame.values[o].size());
  if (!uniform) lanes = frame.lanes;
  Regs values;
  std::vector<Reg> conditions(step.choices.size());
  for (size_t lane = 0; lane < lanes; ++lane) {
    auto operand = [&](int i) {
      const Regs& all = frame.values[step.operands[i]];
      return all.size() == 1 ? all[0] : all[lane];
    };
    Reg value = operand(static_cast<int>(step.operands.size()) - 1);
    for (size_t c = step.choices.size(); c-- > 0;) {
      if (lane == 0 || !uniform) conditions[c] = holds(frame, step.choices[c], static_cast<int>(lane));
      value = k_.ir().CreateSelect(conditions[c], operand(static_cast<int>(c)), value);
    }
    values.push_back(value);
  }
  return values;
}

// The loads that steps need, those that move most bytes a lane first: broadcast ones (weights, biases) follow the data.
std::vector<int> ExpressionEmitter::loads_of(const std::vector<int>& steps) const {
  std::vector<bool> needed(p_.steps.size(), false);
  for (int s : steps) needed[s] = true;
  std::vector<int> loads;
  for (size_t i = p_.steps.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (int o : p_.steps[i].operands) needed[o] = true;
    if (p_.steps[i].kind == Kind::kLoad) loads.push_back(static_cast<int>(i));
  }
  auto axes_used = [&](int step) {
    int n = 0;
    for (const ProgramAxis& a : p_.axes) n += p_.space.depends_on(p_.steps[step].index, a.symbol);
    return n;
  };
  std::sort(loads.begin(), loads.end());
  std::stable_sort(loads.begin(), loads.end(), [&](int a, int b) { return axes_used(a) > axes_used(b); });
  return loads;
}

void ExpressionEmitter::load_ahead(Frame& frame, const std::vector<int>& steps) {
  for (int load : loads_of(steps)) value(frame, load);
}

void ExpressionEmitter::load_ahead(std::vector<Frame>& frames, const std::vector<int>& steps) {
  for (int load : loads_of(steps)) {
    for (Frame& frame : frames) value(frame, load);
  }
}

void ExpressionEmitter::values_sharing(std::vector<Frame>& frames, const std::vector<int>& steps,
                                       const std::string& axis) {
  const std::vector<bool> varies = p_.varying(axis), needed = p_.needed_by(steps);
  auto make = [&](int step) {
    for (Frame& frame : frames) {
      if (varies[step] || &frame == &frames[0]) {
        value(frame, step);
      } else {
        frame.values[step] = frames[0].values[step];
      }
    }
  };
  for (int load : loads_of(steps)) make(load);
  for (size_t i = 0; i < p_.steps.size(); ++i) {
    if (needed[i]) make(static_cast<int>(i));
  }
}

void ExpressionEmitter::store_lanes(const Frame& frame, const ProgramStore& store, const LaneAccess& access,
                                    const Regs& values) {
  const Reg base = k_.output(store.output), first = index(frame, store.index, 0);
  const bool vector = access.kind == LaneAccess::Kind::kVector;
  const bool near = vector || (access.kind == LaneAccess::Kind::kStrided && access.stride >= 0);
  const int width = vector ? access.width : 1;
  for (int lane = 0; lane < frame.lanes; lane += width) {
    const Regs part(values.begin() + lane, values.begin() + lane + width);
    if (near) {
      k_.store(base, first, vector ? lane : access.stride * lane, store.dtype, part);
    } else {
      k_.store(base, index(frame, store.index, lane), 0, store.dtype, part);
    }
  }
}

void ExpressionEmitter::store(Frame& frame, const ProgramStore& store) {
  Regs values = value(frame, store.step);
  k_.set_line(k_.return_line());
  auto masked = [&](const std::function<void()>& write) { frame.mask ? k_.if_then(frame.mask, write) : write(); };
  const LaneAccess access = access_of(frame, store.index, {}, store.dtype);
  auto one = [&](int lane) {
    k_.store(k_.output(store.output), index(frame, store.index, lane), 0, store.dtype, {values[lane]});
  };
  if (access.kind == LaneAccess::Kind::kUniform) {
    masked([&] { one(0); });
    return;
  }
  if (values.size() == 1) values.assign(frame.lanes, values[0]);
  masked([&] {
    if (!frame.whole) {
      store_lanes(frame, store, access, values);
      return;
    }
    auto all = [&] {
      store_lanes(frame, store, access, values);
      return Regs{};
    };
    k_.if_else(frame.whole, all, [&] {
      for (int lane = 0; lane < frame.lanes; ++lane) k_.if_then(frame.lane_exists[lane], [&] { one(lane); });
      return Regs{};
    });
  });
}

}  // namespace tilewright
