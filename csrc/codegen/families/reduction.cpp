// Reduction kernels (schedule/reduction.h has the parameters).
//
//   for each stage:                       rows in registers: over the vectors that this thread holds
//     for this thread's vectors:          looped: reads them again
//       load, compute, join into this thread's states
//     join the states of the row's threads: shuffles within a warp, shared memory between warps
//   compute and store elements of the row; one thread stores what is one element a row
//
// With columns=1 a thread's vector holds elements of `vec` rows, each with its own state, and the row's threads lie
// across warps. With split > 1 a block writes its states to the workspaces and the last block of a row joins them, in
// their order.

#include "schedule/reduction.h"

#include <algorithm>

#include "codegen/expression.h"
#include "codegen/families/families.h"
#include "codegen/reducers.h"
#include "support/error.h"

namespace tilewright {
namespace {

using Kind = ProgramStep::Kind;
using States = std::vector<Regs>;  // of one reduction: a state for each lane that has its own (columns), else one

int workspaces_of(const ElementProgram& p, const ReductionParams& s) {
  if (s.split == 1) return 0;
  int count = 1;
  for (const ProgramReduction& r : p.reductions) count += static_cast<int>(state_types(r, p).size());
  return count;
}

class ReductionKernel {
 public:
  ReductionKernel(llvm::LLVMContext& context, const ElementProgram& p, const Schedule& schedule)
      : s_(ReductionParams::of(schedule)),
        p_(program_for(p, s_)),
        k_(context, *p.body, {"tw_reduction", s_.threads * s_.rows, 0, s_.index_bits, workspaces_of(p_, s_)}),
        ir_(k_.ir()),
        emit_(k_, p_, s_.align),
        axis_(vector_axis(p_, s_.columns)) {
    for (const ProgramReduction& r : p_.reductions) reducers_.emplace_back(k_, p_, r);
    if (s_.stream) emit_.stream_loads();
    if (s_.shift) {
      start_ = row_start(p_).value();
      emit_.shift_vectors([this](const Expr& index) { return lies_alike(p_, index, start_, s_.vec); });
    }
  }

  std::unique_ptr<llvm::Module> build() {
    place_thread();
    const bool exact = steps_per_row(p_, s_).is_constant(turn());
    if (!s_.looped) frames_ = make_frames(lane_, exact ? nullptr : steps_);
    for (int stage = 0; stage < p_.stages(); ++stage) reduce_stage(stage);
    if (s_.split > 1) {
      finish_split();
    } else {
      store_elements();
      store_rows(row_frame_);
    }
    return k_.finish();
  }

 private:
  // ---- where this thread works

  void place_thread() {
    const Reg thread = k_.thread();
    Reg side = k_.index(0);  // which of the block's rows
    lane_ = thread;          // which of the row's threads
    if (s_.columns) {
      side = ir_.CreateURem(thread, k_.index(s_.rows));
      lane_ = ir_.CreateUDiv(thread, k_.index(s_.rows));
    } else if (s_.rows > 1) {
      side = ir_.CreateUDiv(thread, k_.index(s_.threads));
      lane_ = ir_.CreateURem(thread, k_.index(s_.threads));
    }
    side_ = side;
    row_ = ir_.CreateAdd(ir_.CreateMul(k_.block(0), k_.index(s_.rows)), side);
    const Expr rows = row_count(p_, s_);
    rows_ = size(rows);
    if (!p_.space.table().is_divisible(rows, s_.rows)) row_exists_ = ir_.CreateICmpULT(row_, rows_);
    steps_ = size(steps_per_row(p_, s_));
    row_frame_ = emit_.frame(kept_axes(), s_.columns ? axis_ : "", lanes_kept(), row_exists_);
    if (s_.shift) shift_ = ir_.CreateAnd(emit_.index(row_frame_, start_, 0), k_.index(s_.vec - 1));
  }

  Reg size(const Expr& e) {
    return k_.expression(e, {}, [](const Expr&) { return true; });
  }
  int lanes_kept() const { return s_.columns ? s_.vec : 1; }

  // Splits `at` over axes, innermost first; the vector axis counts vectors.
  void spread(Reg at, const std::vector<ProgramAxis>& axes, KernelBuilder::Bindings& bindings) {
    for (size_t a = axes.size(); a-- > 0;) {
      const bool vector = axes[a].symbol == axis_;
      Reg value = at;
      if (a > 0) {
        const Reg extent = size(vector ? p_.space.div(axes[a].size, s_.vec) : axes[a].size);
        value = ir_.CreateURem(at, extent);
        at = ir_.CreateUDiv(at, extent);
      }
      bindings[axes[a].symbol] = vector ? ir_.CreateMul(value, k_.index(s_.vec)) : value;
    }
  }

  KernelBuilder::Bindings kept_axes() {
    KernelBuilder::Bindings axes;
    spread(row_, p_.kept(), axes);
    return axes;
  }

  Reg both(Reg a, Reg b) { return !a ? b : !b ? a : ir_.CreateAnd(a, b); }

  // This thread's `vectors` fragments from step `first` on, a row's threads apart; those from `end` on (null: none of
  // them) are not there.
  std::vector<Frame> make_frames(Reg first, Reg end) {
    std::vector<Frame> frames;
    present_.clear();
    for (int v = 0; v < s_.vectors; ++v) {
      const Reg step = ir_.CreateAdd(first, k_.index(int64_t{v} * s_.threads));
      present_.push_back(end ? ir_.CreateICmpULT(step, end) : nullptr);
      KernelBuilder::Bindings axes = row_frame_.axes;
      spread(step, p_.reduced(), axes);
      if (s_.shift) axes[axis_] = ir_.CreateSub(axes[axis_], shift_);
      frames.push_back(emit_.frame(axes, axis_, s_.vec, both(row_exists_, present_.back())));
      if (s_.shift) find_lanes(frames.back());
    }
    return frames;
  }

  // Steps of the row that its threads take at once.
  int64_t turn() const { return int64_t{s_.threads} * s_.vectors; }

  // Goes over the steps from `first` to `end` a turn at a time; turns in which this thread has all its vectors come
  // without conditions.
  Regs loop_over_row(Reg first, Reg end, const Regs& carried,
                     const std::function<Regs(std::vector<Frame>&, const Regs&)>& body) {
    if (s_.shift) {
      return k_.loop(first, end, k_.index(turn()), carried, [&](Reg step, const Regs& now) {
        std::vector<Frame> frames = make_frames(step, end);
        return body(frames, now);
      });
    }
    const bool exact = p_.space.table().is_divisible(steps_per_row(p_, s_), turn());
    const Reg behind = k_.index(int64_t{s_.threads} * (s_.vectors - 1));  // from a thread's first to its last vector
    const Reg whole_end = exact ? end : ir_.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, end, behind);
    Reg rest = nullptr;
    const Regs whole = k_.loop(
        first, whole_end, k_.index(turn()), carried,
        [&](Reg step, const Regs& now) {
          std::vector<Frame> frames = make_frames(step, nullptr);
          return body(frames, now);
        },
        &rest);
    if (exact) return whole;
    return k_.loop(rest, end, k_.index(turn()), whole, [&](Reg step, const Regs& now) {
      std::vector<Frame> frames = make_frames(step, s_.vectors > 1 ? end : nullptr);
      return body(frames, now);
    });
  }

  // Which lanes lie in the row.
  void find_lanes(Frame& frame) {
    const Reg length = size(p_.row_length()), first = frame.axes.at(axis_);
    for (int lane = 0; lane < frame.lanes; ++lane) {
      const Reg inside = ir_.CreateICmpULT(ir_.CreateAdd(first, k_.index(lane)), length);  // below 0 is far above
      frame.lane_exists.push_back(both(inside, present_.back()));
    }
    frame.whole = ir_.CreateAnd(frame.lane_exists.front(), frame.lane_exists.back());
  }

  // ---- values of the row

  // Makes what `roots` need of the row (not of its elements) once, before loops and branches.
  void prepare_row(const std::vector<int>& roots) {
    const std::vector<bool> needed = p_.needed_by(roots);
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      if (!needed[i] || !p_.steps[i].uses_reduced) continue;
      for (int o : p_.steps[i].operands) {
        if (!p_.steps[o].uses_reduced) emit_.value(row_frame_, o);
      }
    }
    for (int r : roots) {
      if (!p_.steps[r].uses_reduced) emit_.value(row_frame_, r);
    }
  }

  void lend_row(std::vector<Frame>& frames) {
    for (Frame& frame : frames) {
      for (size_t i = 0; i < p_.steps.size(); ++i) {
        if (!p_.steps[i].uses_reduced && frame.values[i].empty()) frame.values[i] = row_frame_.values[i];
      }
    }
  }

  // ---- reducing

  std::vector<int> reducers_of(int stage) const {
    std::vector<int> result;
    for (size_t r = 0; r < reducers_.size(); ++r) {
      if (reducers_[r].reduction().stage == stage) result.push_back(static_cast<int>(r));
    }
    return result;
  }

  void reduce_stage(int stage) {
    const std::vector<int> mine = reducers_of(stage);
    std::vector<int> roots;
    roots.reserve(mine.size());
    for (int r : mine) roots.push_back(reducers_[r].input());
    prepare_row(roots);
    std::vector<States> states = s_.looped ? reduce_loop(mine, roots) : reduce_frames(mine, roots);
    for (size_t i = 0; i < mine.size(); ++i) {
      const Reducer& reducer = reducers_[mine[i]];
      k_.set_line(k_.line_of(reducer.reduction().node));
      if (reducer.is_welford() && !s_.looped) {
        set_result(mine[i], welford_in_registers(reducer, frames_));
        continue;
      }
      join_threads(reducer, states[i]);
      if (s_.split == 1) set_result(mine[i], states[i]);
      split_states_.push_back(states[i]);
    }
  }

  // One state a reduction from the elements in registers.
  std::vector<States> reduce_frames(const std::vector<int>& mine, const std::vector<int>& roots) {
    lend_row(frames_);
    emit_.load_ahead(frames_, roots);
    std::vector<States> states;
    for (int r : mine) {
      if (reducers_[r].is_welford()) {
        for (Frame& frame : frames_) emit_.value(frame, reducers_[r].input());
        states.emplace_back();
        continue;
      }
      States of_groups;
      for (int g = 0; g < lanes_kept(); ++g) {
        const std::vector<Reducer::Element> elements = elements_of(reducers_[r], frames_, g);
        k_.set_line(k_.line_of(reducers_[r].reduction().node));
        of_groups.push_back(reducers_[r].of_elements(elements));
      }
      states.push_back(of_groups);
    }
    return states;
  }

  // States joined with the elements of some frames.
  States extend(const Reducer& reducer, const States& states, std::vector<Frame>& frames) {
    std::vector<std::vector<Reducer::Element>> elements(lanes_kept());
    for (int g = 0; g < lanes_kept(); ++g) elements[g] = elements_of(reducer, frames, g);
    k_.set_line(k_.line_of(reducer.reduction().node));
    States result;
    if (reducer.is_welford()) {  // parts are shared between lanes
      for (int g = 0; g < lanes_kept(); ++g) result.push_back(reducer.of_elements(elements[g]));
      return join_groups(reducer, states, result);
    }
    for (int g = 0; g < lanes_kept(); ++g) result.push_back(reducer.extend(states[g], elements[g]));
    return result;
  }

  // Elements of one row among a thread's frames: all lanes, or with columns lane g.
  std::vector<Reducer::Element> elements_of(const Reducer& reducer, std::vector<Frame>& frames, int g) {
    std::vector<Reducer::Element> elements;
    const ProgramReduction& r = reducer.reduction();
    for (size_t v = 0; v < frames.size(); ++v) {
      for (int lane = s_.columns ? g : 0; lane < (s_.columns ? g + 1 : frames[v].lanes); ++lane) {
        Reducer::Element e;
        e.value = emit_.lane_value(frames[v], reducer.input(), lane);
        if (reducer.needs_position()) e.position = emit_.index(frames[v], r.position, lane);
        e.present = s_.shift ? frames[v].lane_exists[lane] : present_[v];
        elements.push_back(e);
      }
    }
    return elements;
  }

  std::vector<States> reduce_loop(const std::vector<int>& mine, const std::vector<int>& roots) {
    Regs carried;
    for (int r : mine) {
      for (int g = 0; g < lanes_kept(); ++g) {
        const Regs none = reducers_[r].identity();
        carried.insert(carried.end(), none.begin(), none.end());
      }
    }
    Reg first = lane_, end = steps_;
    if (s_.split > 1) {
      // This block's share: whole turns, so that only the row's end is partial.
      const Reg turns =
          ir_.CreateUDiv(ir_.CreateAdd(steps_, k_.index(turn() * s_.split - 1)), k_.index(turn() * s_.split));
      const Reg share = ir_.CreateMul(turns, k_.index(turn()));
      const Reg begin = ir_.CreateMul(k_.block(1), share);
      first = ir_.CreateAdd(begin, lane_);
      end = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, ir_.CreateAdd(begin, share), steps_);
    }
    const Regs last = loop_over_row(first, end, carried, [&](std::vector<Frame>& frames, const Regs& now) {
      lend_row(frames);
      emit_.load_ahead(frames, roots);
      Regs next;
      size_t at = 0;
      for (int r : mine) append(next, extend(reducers_[r], take_states(reducers_[r], now, at), frames));
      return next;
    });
    std::vector<States> states;
    states.reserve(mine.size());
    size_t at = 0;
    for (int r : mine) states.push_back(take_states(reducers_[r], last, at));
    return states;
  }

  // States as a loop carries them, one part after the other.
  States take_states(const Reducer& reducer, const Regs& flat, size_t& at) {
    States states;
    for (int g = 0; g < lanes_kept(); ++g) {
      const size_t parts = reducer.parts().size();
      states.emplace_back(flat.begin() + at, flat.begin() + at + parts);
      at += parts;
    }
    return states;
  }
  static void append(Regs& flat, const States& states) {
    for (const Regs& state : states) flat.insert(flat.end(), state.begin(), state.end());
  }

  // Lane by lane; what all lanes share is taken from the first, so that its arithmetic is done once.
  States join_groups(const Reducer& reducer, States a, States b) {
    for (size_t g = 0; g < a.size(); ++g) {
      for (size_t part = 0; g > 0 && part < a[g].size(); ++part) {
        if (reducer.is_shared(part)) {
          a[g][part] = a[0][part];
          b[g][part] = b[0][part];
        }
      }
    }
    States joined;
    for (size_t g = 0; g < a.size(); ++g) joined.push_back(reducer.join(a[g], b[g]));
    return joined;
  }

  using Join = std::function<States(const States&, const States&)>;

  void join_threads(const Reducer& reducer, States& states) {
    join_threads(states, [&](const States& a, const States& b) { return join_groups(reducer, a, b); });
  }

  // Afterwards every thread of a row has the row's state.
  void join_threads(States& states, const Join& join) {
    if (s_.threads == 1) return;
    if (s_.columns) {
      join_columns(states, join);
      return;
    }
    join_lanes(states, std::min(s_.threads, 32), join);
    const Regs state = states[0];
    const int warps = s_.threads / 32;
    if (warps <= 1) return;
    // One slot a warp; the row's slots are next to each other.
    const Reg warp = ir_.CreateUDiv(k_.thread(), k_.index(32));
    std::vector<Reg> arrays;
    for (Reg part : state)
      arrays.push_back(k_.shared_array(part->getType(), int64_t{s_.threads} * s_.rows / 32, "partial"));
    k_.if_then(ir_.CreateICmpEQ(k_.lane(), ir_.getInt32(0)), [&] {
      for (size_t i = 0; i < state.size(); ++i) k_.store_shared(arrays[i], warp, state[i]);
    });
    k_.barrier();
    const Reg first = ir_.CreateMul(side_, k_.index(warps));
    auto slot = [&](Reg at) {
      Regs parts;
      for (size_t i = 0; i < state.size(); ++i) parts.push_back(k_.load_shared(arrays[i], state[i]->getType(), at));
      return parts;
    };
    if (warps <= 4) {
      states = {slot(first)};
      for (int w = 1; w < warps; ++w) states = join(states, {slot(ir_.CreateAdd(first, k_.index(w)))});
      return;
    }
    const Reg lane = ir_.CreateZExt(k_.lane(), k_.index_type());
    states = {slot(ir_.CreateAdd(first, ir_.CreateURem(lane, k_.index(warps))))};
    join_lanes(states, warps, join);
  }

  void join_lanes(States& states, int lanes, const Join& join) {
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
      States others = states;
      for (Regs& other : others) {
        for (Reg& part : other) part = k_.shuffle_xor(part, mask);
      }
      states = join(states, others);
    }
  }

  // Threads of a row lie `rows` apart. Slot (group, thread of row, row): neighbours write neighbouring words.
  void join_columns(States& states, const Join& join) {
    const int groups = static_cast<int>(states.size());
    if (!column_arrays_.empty()) k_.barrier();  // what the last join left has been read
    std::vector<Reg> arrays;
    std::map<llvm::Type*, int> of_type;
    for (Reg part : states[0]) arrays.push_back(column_array(part->getType(), of_type[part->getType()]++));
    for (int g = 0; g < groups; ++g) {
      const Reg at = ir_.CreateAdd(k_.thread(), k_.index(int64_t{g} * s_.threads * s_.rows));
      for (size_t i = 0; i < arrays.size(); ++i) k_.store_shared(arrays[i], at, states[g][i]);
    }
    k_.barrier();
    auto slot = [&](int g, Reg thread) {
      const Reg own = ir_.CreateAdd(side_, ir_.CreateMul(thread, k_.index(s_.rows)));
      return ir_.CreateAdd(own, k_.index(int64_t{g} * s_.threads * s_.rows));
    };
    auto left_by = [&](Reg thread) {
      States others = states;
      for (int g = 0; g < groups; ++g) {
        for (size_t i = 0; i < arrays.size(); ++i) {
          others[g][i] = k_.load_shared(arrays[i], states[g][i]->getType(), slot(g, thread));
        }
      }
      return others;
    };
    // Half of the threads that are left join what the other half left; whole warps drop out.
    for (int half = s_.threads / 2; half > 0; half /= 2) {
      const Reg joins = ir_.CreateICmpULT(lane_, k_.index(half));
      const Regs joined = k_.if_else_zero(joins, [&] {
        const States both = join(states, left_by(ir_.CreateAdd(lane_, k_.index(half))));
        for (int g = 0; g < groups; ++g) {
          for (size_t i = 0; i < arrays.size(); ++i) k_.store_shared(arrays[i], slot(g, lane_), both[g][i]);
        }
        Regs flat;
        append(flat, both);
        return flat;
      });
      states = unflatten(joined, states);
      k_.barrier();
    }
    states = left_by(k_.index(0));
  }

  static States unflatten(const Regs& flat, const States& like) {
    States states;
    size_t at = 0;
    for (const Regs& state : like) {
      states.emplace_back(flat.begin() + at, flat.begin() + at + state.size());
      at += state.size();
    }
    return states;
  }

  // Shared memory in which all joins of columns take turns.
  Reg column_array(llvm::Type* type, int ordinal) {
    Reg& array = column_arrays_[{type, ordinal}];
    if (!array) array = k_.shared_array(type, int64_t{s_.vec} * s_.threads * s_.rows, "partial");
    return array;
  }

  // The mean first, then the squares of distances from it: exact where one pass would cancel.
  States welford_in_registers(const Reducer& reducer, std::vector<Frame>& frames) {
    const Reg count = reducer.count_as_float(size(p_.row_length()));
    const Reg zero = llvm::Constant::getNullValue(count->getType());
    const Join add = [&](const States& a, const States& b) {
      States sums;
      for (size_t g = 0; g < a.size(); ++g) sums.push_back({ir_.CreateFAdd(a[g][0], b[g][0])});
      return sums;
    };
    std::vector<std::vector<Reducer::Element>> elements;
    States sums;
    for (int g = 0; g < lanes_kept(); ++g) {
      elements.push_back(elements_of(reducer, frames, g));
      Regs values;
      for (const auto& e : elements[g])
        values.push_back(e.present ? ir_.CreateSelect(e.present, e.value, zero) : e.value);
      sums.push_back({tree_sum(k_, values)});
    }
    join_threads(sums, add);
    States squares;
    Regs means;
    for (int g = 0; g < lanes_kept(); ++g) {
      means.push_back(ir_.CreateFDiv(sums[g][0], count));
      Regs values;
      for (const auto& e : elements[g]) {
        const Reg distance = ir_.CreateFSub(e.value, means[g]);
        const Reg square = ir_.CreateFMul(distance, distance);
        values.push_back(e.present ? ir_.CreateSelect(e.present, square, zero) : square);
      }
      squares.push_back({tree_sum(k_, values)});
    }
    join_threads(squares, add);
    States states;
    for (int g = 0; g < lanes_kept(); ++g) states.push_back({means[g], squares[g][0], count});
    return states;
  }

  // Makes a reduction's results known to the row.
  void set_result(int reducer, const States& states) {
    const Reg count = size(p_.row_length());
    std::vector<Regs> results;
    for (const Regs& state : states) {
      const Regs finished = reducers_[reducer].finish(state, count);
      results.resize(finished.size());
      for (size_t i = 0; i < finished.size(); ++i) results[i].push_back(finished[i]);
    }
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      const ProgramStep& step = p_.steps[i];
      if (step.kind == Kind::kReduced && step.reduction == reducer) row_frame_.values[i] = results[step.result];
    }
  }

  // ---- storing

  void store_elements() {
    std::vector<int> roots;
    for (const ProgramStore& s : p_.stores) {
      if (!s.per_row) roots.push_back(s.step);
    }
    if (roots.empty()) return;
    prepare_row(roots);
    if (!s_.looped) {
      store_frames(frames_, roots);
      return;
    }
    loop_over_row(lane_, steps_, {}, [&](std::vector<Frame>& frames, const Regs&) {
      store_frames(frames, roots);
      return Regs{};
    });
  }

  void store_frames(std::vector<Frame>& frames, const std::vector<int>& roots) {
    lend_row(frames);
    emit_.load_ahead(frames, roots);
    for (Frame& frame : frames) {
      for (int r : roots) emit_.value(frame, r);
    }
    for (Frame& frame : frames) {
      for (const ProgramStore& s : p_.stores) {
        if (!s.per_row) emit_.store(frame, s);
      }
    }
  }

  // By the first thread of the row, which alone reads what is read for these outputs only.
  void store_rows(Frame& row) {
    const bool any = std::any_of(p_.stores.begin(), p_.stores.end(), [](const ProgramStore& s) { return s.per_row; });
    if (!any) return;
    const Reg first = s_.threads == 1 ? nullptr : ir_.CreateICmpEQ(lane_, k_.index(0));
    const Reg condition = both(row_exists_, first);
    auto write = [&] {
      Frame frame = row;
      frame.mask = nullptr;
      for (const ProgramStore& s : p_.stores) {
        if (s.per_row) emit_.store(frame, s);
      }
    };
    condition ? k_.if_then(condition, write) : write();
  }

  // ---- several blocks a row

  // First element in a workspace for row `row_` and a block of the row: blocks next to each other where the last
  // block's threads walk over blocks, rows next to each other where they walk over rows.
  Reg cell(Reg split) {
    if (!s_.columns) return ir_.CreateAdd(ir_.CreateMul(row_, k_.index(s_.split)), split);
    return ir_.CreateMul(ir_.CreateAdd(ir_.CreateMul(split, rows_), row_), k_.index(s_.vec));
  }

  void finish_split() {
    const Reg leader = ir_.CreateICmpEQ(lane_, k_.index(0));
    k_.if_then(both(row_exists_, leader), [&] {
      int workspace = 1;
      for (size_t r = 0; r < reducers_.size(); ++r) {
        for (size_t part = 0; part < reducers_[r].parts().size(); ++part, ++workspace) {
          Regs values;
          for (const Regs& state : split_states_[r]) values.push_back(state[part]);
          k_.store_partials(k_.workspace(workspace), cell(k_.block(1)), values);
        }
      }
    });
    // The block that arrives last sees all partial results.
    const Reg counter = ir_.CreateGEP(ir_.getInt32Ty(), k_.workspace(0), k_.block(0));
    k_.if_then(k_.is_last_block(counter, s_.split), [&] {
      k_.fence_gpu();
      join_blocks();
      store_rows(row_frame_);
    });
  }

  // Each thread joins every threads-th block's result, several at a time; then as in a stage.
  void join_blocks() {
    int workspace = 1;
    for (size_t r = 0; r < reducers_.size(); ++r) {
      const Reducer& reducer = reducers_[r];
      // Reads in flight together, as registers allow.
      const size_t values = reducer.parts().size() * static_cast<size_t>(lanes_kept());
      const int batch = std::clamp(s_.split / s_.threads, 1, values > 16 ? 1 : values > 8 ? 2 : 4);
      Regs none;
      for (int g = 0; g < lanes_kept(); ++g) append(none, {reducer.identity()});
      const Regs joined =
          k_.loop(lane_, k_.index(s_.split), k_.index(int64_t{s_.threads} * batch), none, [&](Reg first, Regs now) {
            std::vector<States> read;
            read.reserve(batch);
            for (int i = 0; i < batch; ++i)
              read.push_back(read_partials(reducer, workspace, ir_.CreateAdd(first, k_.index(i * s_.threads)), i > 0));
            size_t at = 0;
            States states = take_states(reducer, now, at);
            for (const States& other : read) states = join_groups(reducer, states, other);
            Regs next;
            append(next, states);
            return next;
          });
      size_t at = 0;
      States states = take_states(reducer, joined, at);
      join_threads(reducer, states);
      set_result(static_cast<int>(r), states);
      workspace += static_cast<int>(reducer.parts().size());
    }
  }

  // What block `split` of the row left; nothing (the identity) where there is no such block.
  States read_partials(const Reducer& reducer, int workspace, Reg split, bool may_be_past) {
    const Regs none = reducer.identity();
    const Reg exists = may_be_past ? ir_.CreateICmpULT(split, k_.index(s_.split)) : nullptr;
    States states(lanes_kept());
    for (size_t part = 0; part < none.size(); ++part) {
      auto read = [&] {
        return k_.load_partials(k_.workspace(workspace + part), none[part]->getType(), cell(split), lanes_kept());
      };
      const Reg condition = both(row_exists_, exists);
      const Regs values = condition ? k_.if_else_zero(condition, read) : read();
      for (int g = 0; g < lanes_kept(); ++g)
        states[g].push_back(exists ? ir_.CreateSelect(exists, values[g], none[part]) : values[g]);
    }
    return states;
  }

  const ReductionParams s_;
  const ElementProgram p_;
  KernelBuilder k_;
  llvm::IRBuilder<>& ir_;
  ExpressionEmitter emit_;
  const std::string axis_;  // that vectors lie along
  std::vector<Reducer> reducers_;

  Reg lane_ = nullptr, side_ = nullptr, row_ = nullptr, rows_ = nullptr, steps_ = nullptr;
  Reg row_exists_ = nullptr;  // null: always
  Expr start_ = 0;            // with `shift`: where the row starts in memory, and by how much not at a vector
  Reg shift_ = nullptr;
  Frame row_frame_;
  std::vector<Frame> frames_;
  std::vector<Reg> present_;          // whether each of the frames made last lies in the row; null: always
  std::vector<States> split_states_;  // this block's, by reduction
  std::map<std::pair<llvm::Type*, int>, Reg> column_arrays_;
};

}  // namespace

std::unique_ptr<llvm::Module> build_reduction(llvm::LLVMContext& context, const ElementProgram& program,
                                              const Schedule& schedule, const GpuFacts&) {
  return ReductionKernel(context, program, schedule).build();
}

}  // namespace tilewright
