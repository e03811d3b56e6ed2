#include "runtime/executor.h"

#include <algorithm>
#include <sstream>

#include "runtime/launch.h"
#include "runtime/small_array.h"

namespace tilewright {

namespace {

// A symbol's source made ready: symbol = (read - constant) / factor.
struct Binding {
  int symbol;
  Slot slot;
  SymbolBinding::Source source;
  int dim;
  int64_t factor, constant;
};

int64_t read(const Binding& binding, Caller& caller) {
  switch (binding.source) {
    case SymbolBinding::Source::kInt:
      return caller.integer(binding.slot);
    case SymbolBinding::Source::kSize:
      return caller.tensor(binding.slot).sizes[binding.dim];
    default:
      return caller.tensor(binding.slot).strides[binding.dim];
  }
}

// A tensor that the plan did not make itself and whose memory kernels or views read by these sizes and strides.
struct MemoryCheck {
  Slot slot;
  DType dtype;
  std::vector<SizeProgram> sizes, strides;
  bool may_copy;
};

std::string list_text(std::span<const int64_t> values) {
  std::ostringstream out;
  out << "[";
  for (size_t i = 0; i < values.size(); ++i) out << (i ? ", " : "") << values[i];
  out << "]";
  return out.str();
}

}  // namespace

struct Executor::Prepared {
  std::vector<Binding> at_entry;
  std::vector<std::vector<Binding>> after_step;
  std::vector<MemoryCheck> checks_at_entry;
  std::vector<std::vector<MemoryCheck>> checks_after_step;
  std::vector<std::unique_ptr<LaunchRunner>> launches;  // by step; null for other steps
  struct PreparedView {
    std::vector<SizeProgram> sizes, strides;
    SizeProgram offset;
  };
  std::vector<PreparedView> views;  // by step

  static void check(const std::vector<MemoryCheck>& checks, const Plan& plan, Caller& caller,
                    std::span<const int64_t> symbols);
};

namespace {

// Slots whose memory somebody else may look at: written, returned, or read by a call or host step, whose results may
// share it.
std::vector<bool> shared_slots(const Plan& plan) {
  std::vector<bool> is_shared(plan.slots(), false);
  for (const Step& step : plan.steps) {
    if (const auto* launch = std::get_if<Launch>(&step)) {
      for (const LaunchOutput& output : launch->outputs) {
        if (output.into != kNoSlot) is_shared[output.into] = true;
      }
    } else if (const auto* copy = std::get_if<Copy>(&step)) {
      is_shared[copy->into] = true;
    } else if (std::holds_alternative<Call>(step) || std::holds_alternative<Host>(step)) {
      for (Slot slot : reads(step)) is_shared[slot] = true;
    }
  }
  for (const PlanArg& output : plan.outputs) {
    if (const PlanArg::SlotRef* ref = output.slot()) is_shared[ref->slot] = true;
  }
  return is_shared;
}

// Slots that a copy may replace before they are viewed: neither they nor their views are shared.
std::vector<bool> copyable_with_views(const Plan& plan) {
  std::vector<bool> may_copy = shared_slots(plan);
  may_copy.flip();
  for (auto step = plan.steps.rbegin(); step != plan.steps.rend(); ++step) {
    const auto* view = std::get_if<View>(&*step);
    if (view && !may_copy[view->result]) may_copy[view->base] = false;
  }
  return may_copy;
}

// Slots that a copy may replace at any time: not shared, and viewed by none.
std::vector<bool> copyable_alone(const Plan& plan) {
  std::vector<bool> may_copy = shared_slots(plan);
  may_copy.flip();
  for (const Step& step : plan.steps) {
    if (const auto* view = std::get_if<View>(&step)) may_copy[view->base] = false;
  }
  return may_copy;
}

Binding prepare(const SymbolBinding& binding, const SymbolIndex& index) {
  const auto at = [&](int64_t value) { return binding.value.evaluate({{binding.symbol, value}}); };
  return {index.find(binding.symbol), binding.slot, binding.source, binding.dim, at(1) - at(0), at(0)};
}

void bind_values(const std::vector<Binding>& bindings, Caller& caller, std::span<int64_t> symbols) {
  for (const Binding& binding : bindings) {
    const int64_t value = read(binding, caller) - binding.constant;
    if (value % binding.factor != 0) {
      throw UserError("$" + std::to_string(binding.slot) + ": " + std::to_string(value + binding.constant) +
                      " is not " + std::to_string(binding.factor) + " times a size plus " +
                      std::to_string(binding.constant));
    }
    symbols[binding.symbol] = value / binding.factor;
  }
}

}  // namespace

Executor::Executor(std::shared_ptr<const Plan> plan, std::shared_ptr<KernelSource> kernels,
                   std::shared_ptr<Device> device)
    : plan_(std::move(plan)),
      kernels_(std::move(kernels)),
      device_(std::move(device)),
      prepared_(std::make_unique<Prepared>()) {
  if (const std::vector<std::string> errors = verify(*plan_); !errors.empty()) {
    std::string text = "the plan is not valid:";
    for (const std::string& error : errors) text += "\n  " + error;
    throw InternalError(text);
  }
  for (const SymbolBinding& binding : plan_->symbols) symbols_.add(binding.symbol);

  prepared_->after_step.resize(plan_->steps.size());
  prepared_->checks_after_step.resize(plan_->steps.size());
  prepared_->launches.resize(plan_->steps.size());
  prepared_->views.resize(plan_->steps.size());
  std::vector<int> filled_by(plan_->slots(), -1);
  const std::vector<bool> may_copy = copyable_alone(*plan_);
  for (size_t i = 0; i < plan_->steps.size(); ++i) {
    const Step& step = plan_->steps[i];
    for (Slot slot : fills(step)) filled_by[slot] = static_cast<int>(i);
    if (const auto* view = std::get_if<View>(&step)) {
      prepared_->views[i] = {size_programs(view->type.shape, symbols_),
                             size_programs(view->type.strides.value(), symbols_),
                             SizeProgram(view->type.offset.value_or(Expr(0)), symbols_)};
    } else if (const auto* launch = std::get_if<Launch>(&step)) {
      prepared_->launches[i] =
          std::make_unique<LaunchRunner>(*launch, symbols_, kernels_.get(), device_.get(), may_copy);
    }
  }
  add_checks(filled_by, copyable_with_views(*plan_));
  for (const SymbolBinding& binding : plan_->symbols) {
    const int step = filled_by[binding.slot];
    (step < 0 ? prepared_->at_entry : prepared_->after_step[step]).push_back(prepare(binding, symbols_));
  }
}

// Each is checked once, when it has its value: parameters at entry, what PyTorch made after its step. What kernels and
// views made has its type's sizes and strides.
void Executor::add_checks(const std::vector<int>& filled_by, const std::vector<bool>& may_copy) {
  const std::vector<const Type*> types = slot_types(*plan_);
  std::vector<bool> is_checked(plan_->slots(), false);
  for (const Step& step : plan_->steps) {
    for (Slot slot : read_by_type(step)) {
      const Type& type = *types[slot];
      if (is_checked[slot] || !type.is_tensor() || !type.strides) continue;
      is_checked[slot] = true;
      const int made_by = filled_by[slot];
      const bool is_parameter = made_by < 0;
      if (!is_parameter) {
        const Step& maker = plan_->steps[made_by];
        if (!std::holds_alternative<Call>(maker) && !std::holds_alternative<Host>(maker)) continue;
      }
      auto& checks = is_parameter ? prepared_->checks_at_entry : prepared_->checks_after_step[made_by];
      checks.push_back({slot, type.dtype, size_programs(type.shape, symbols_), size_programs(*type.strides, symbols_),
                        may_copy[slot]});
    }
  }
}

Executor::~Executor() = default;

// Types and sizes must be those that the plan was made for; other strides are met with a copy where nobody else looks
// at the memory. Strides of dimensions of size 1 do not count.
void Executor::Prepared::check(const std::vector<MemoryCheck>& checks, const Plan& plan, Caller& caller,
                               std::span<const int64_t> symbols) {
  for (const MemoryCheck& check : checks) {
    const TensorView tensor = caller.tensor(check.slot);
    const size_t rank = check.sizes.size();
    SmallArray<int64_t, 16> sizes(rank), strides(rank);
    bool same_sizes = tensor.sizes.size() == rank, same_strides = true, is_empty = false;
    for (size_t d = 0; same_sizes && d < rank; ++d) {
      sizes[d] = check.sizes[d](symbols);
      strides[d] = check.strides[d](symbols);
      same_sizes = tensor.sizes[d] == sizes[d];
      is_empty |= sizes[d] == 0;
      same_strides &= sizes[d] == 1 || tensor.strides[d] == strides[d];
    }
    const bool is_parameter = check.slot < static_cast<Slot>(plan.parameters.size());
    const auto who = [&] { return (is_parameter ? "input " : "$") + std::to_string(check.slot); };
    if (tensor.dtype != check.dtype) {
      throw UserError(who() + " is " + name(tensor.dtype) + ", the graph was compiled for " + name(check.dtype));
    }
    if (!same_sizes) {
      for (size_t d = 0; d < rank; ++d) sizes[d] = check.sizes[d](symbols);
      throw UserError(who() + " has the sizes " + list_text(tensor.sizes) + ", the graph was compiled for " +
                      list_text(sizes));
    }
    if (same_strides || is_empty) continue;
    if (!check.may_copy) {
      throw UserError(who() + " has the strides " + list_text(tensor.strides) + ", the graph was compiled for " +
                      list_text(strides) + " and shares its memory with the result");
    }
    caller.restride(check.slot, strides);
  }
}

void Executor::run(Caller& caller, std::vector<int64_t>& symbols) const {
  symbols.assign(symbols_.size(), 0);
  bind_values(prepared_->at_entry, caller, symbols);
  Prepared::check(prepared_->checks_at_entry, *plan_, caller, symbols);
  for (size_t i = 0; i < plan_->steps.size(); ++i) {
    const Step& step = plan_->steps[i];
    if (prepared_->launches[i]) {
      prepared_->launches[i]->run(caller, symbols);
    } else if (const auto* call = std::get_if<Call>(&step)) {
      caller.call(i, *call, symbols);
    } else if (const auto* free = std::get_if<Free>(&step)) {
      for (Slot slot : free->slots) caller.drop(slot);
    } else if (const auto* view = std::get_if<View>(&step)) {
      const Prepared::PreparedView& prepared = prepared_->views[i];
      const size_t rank = prepared.sizes.size();
      SmallArray<int64_t, 16> sizes(rank), strides(rank);
      for (size_t d = 0; d < rank; ++d) {
        sizes[d] = prepared.sizes[d](symbols);
        strides[d] = prepared.strides[d](symbols);
      }
      caller.view(view->result, view->base, sizes, strides, prepared.offset(symbols));
    } else if (const auto* copy = std::get_if<Copy>(&step)) {
      caller.copy(copy->from, copy->into);
    } else {
      caller.host(i, std::get<Host>(step), symbols);
    }
    if (!prepared_->after_step[i].empty()) bind_values(prepared_->after_step[i], caller, symbols);
    if (!prepared_->checks_after_step[i].empty()) {
      Prepared::check(prepared_->checks_after_step[i], *plan_, caller, symbols);
    }
  }
}

std::vector<Executor::VariantCount> Executor::counts() const {
  std::vector<VariantCount> result;
  for (size_t i = 0; i < prepared_->launches.size(); ++i) {
    if (!prepared_->launches[i]) continue;
    for (const LaunchRunner::Count& count : prepared_->launches[i]->counts()) {
      result.push_back({i, count.key, count.launches});
    }
  }
  return result;
}

}  // namespace tilewright
