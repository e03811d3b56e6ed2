#include "runtime/plan.h"

#include <algorithm>
#include <set>

namespace tilewright {

namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

void collect_slots(const PlanArg& arg, std::vector<Slot>& slots) {
  if (const PlanArg::SlotRef* ref = arg.slot()) slots.push_back(ref->slot);
  if (const auto* list = std::get_if<PlanArg::List>(&arg.data)) {
    for (const PlanArg& element : *list) collect_slots(element, slots);
  }
}

bool same_loc(const LocPtr& a, const LocPtr& b) { return a == b || (a && b && *a == *b); }

}  // namespace

bool operator==(const PlanArg& a, const PlanArg& b) { return a.data == b.data; }

bool operator==(const Launch& a, const Launch& b) {
  const auto same_line = [](const auto& x, const auto& y) {
    return x.first == y.first && same_loc(x.second, y.second);
  };
  return a.name == b.name && a.inputs == b.inputs && a.outputs == b.outputs && a.symbols == b.symbols &&
         a.variants == b.variants &&
         std::equal(a.lines.begin(), a.lines.end(), b.lines.begin(), b.lines.end(), same_line);
}

bool operator==(const Call& a, const Call& b) {
  return a.op == b.op && a.args == b.args && a.kwargs == b.kwargs && a.results == b.results && a.types == b.types &&
         same_loc(a.loc, b.loc);
}

bool operator==(const Host& a, const Host& b) {
  return a.number == b.number && a.args == b.args && a.results == b.results && a.types == b.types &&
         same_loc(a.loc, b.loc);
}

bool operator==(const View& a, const View& b) { return a.base == b.base && a.result == b.result && a.type == b.type; }

bool operator==(const Copy& a, const Copy& b) { return a.from == b.from && a.into == b.into; }

bool operator==(const Free& a, const Free& b) { return a.slots == b.slots; }

bool operator==(const Plan& a, const Plan& b) {
  return a.name == b.name && a.parameters == b.parameters && a.symbols == b.symbols && a.steps == b.steps &&
         a.outputs == b.outputs;
}

std::vector<Slot> reads(const Step& step) {
  std::vector<Slot> slots;
  const auto add_args = [&](const std::vector<PlanArg>& args) {
    for (const PlanArg& arg : args) collect_slots(arg, slots);
  };
  std::visit(Overloaded{
                 [&](const Launch& launch) {
                   for (const LaunchInput& input : launch.inputs) slots.push_back(input.slot);
                   for (const LaunchOutput& output : launch.outputs) {
                     if (output.into != kNoSlot) slots.push_back(output.into);
                   }
                 },
                 [&](const Call& call) {
                   add_args(call.args);
                   for (const auto& [name, arg] : call.kwargs) collect_slots(arg, slots);
                 },
                 [&](const Host& host) { add_args(host.args); },
                 [&](const View& view) { slots.push_back(view.base); },
                 [&](const Copy& copy) {
                   slots.push_back(copy.from);
                   slots.push_back(copy.into);
                 },
                 [&](const Free&) {},
             },
             step);
  return slots;
}

std::vector<Slot> fills(const Step& step) {
  std::vector<Slot> slots;
  const auto add = [&](Slot slot) {
    if (slot != kNoSlot) slots.push_back(slot);
  };
  std::visit(Overloaded{
                 [&](const Launch& launch) {
                   for (const LaunchOutput& output : launch.outputs) add(output.slot);
                 },
                 [&](const Call& call) { std::for_each(call.results.begin(), call.results.end(), add); },
                 [&](const Host& host) { std::for_each(host.results.begin(), host.results.end(), add); },
                 [&](const View& view) { add(view.result); },
                 [&](const Copy&) {},
                 [&](const Free&) {},
             },
             step);
  return slots;
}

int Plan::slots() const {
  int count = static_cast<int>(parameters.size());
  for (const Step& step : steps) {
    for (Slot slot : fills(step)) count = std::max(count, slot + 1);
  }
  return count;
}

std::vector<const Type*> slot_types(const Plan& plan) {
  std::vector<const Type*> types(plan.slots(), nullptr);
  for (size_t i = 0; i < plan.parameters.size(); ++i) types[i] = &plan.parameters[i];
  const auto add = [&](const std::vector<Slot>& slots, const std::vector<Type>& of) {
    for (size_t i = 0; i < slots.size() && i < of.size(); ++i) {
      if (slots[i] != kNoSlot) types[slots[i]] = &of[i];
    }
  };
  for (const Step& step : plan.steps) {
    if (const auto* call = std::get_if<Call>(&step)) add(call->results, call->types);
    if (const auto* host = std::get_if<Host>(&step)) add(host->results, host->types);
    if (const auto* view = std::get_if<View>(&step)) types[view->result] = &view->type;
    if (const auto* launch = std::get_if<Launch>(&step)) {
      for (const LaunchOutput& output : launch->outputs) {
        if (output.slot != kNoSlot) types[output.slot] = &output.type;
      }
    }
  }
  return types;
}

std::vector<Slot> read_by_type(const Step& step) {
  if (const auto* view = std::get_if<View>(&step)) return {view->base};
  std::vector<Slot> slots;
  if (const auto* launch = std::get_if<Launch>(&step)) {
    for (const LaunchInput& input : launch->inputs) {
      if (input.kind == LaunchInput::Kind::kPointer) slots.push_back(input.slot);
    }
  }
  return slots;
}

std::vector<bool> slots_read_by_type(const Plan& plan) {
  std::vector<bool> is_read(plan.slots(), false);
  for (const Step& step : plan.steps) {
    for (const Slot slot : read_by_type(step)) is_read[slot] = true;
  }
  return is_read;
}

void drop_unused_views(Plan& plan) {
  std::vector<Slot> used;
  for (const PlanArg& output : plan.outputs) collect_slots(output, used);
  for (const SymbolBinding& binding : plan.symbols) used.push_back(binding.slot);
  std::vector<bool> is_used(plan.slots(), false);
  for (Slot slot : used) is_used[slot] = true;
  std::vector<Step> steps;
  for (auto step = plan.steps.rbegin(); step != plan.steps.rend(); ++step) {
    const auto* view = std::get_if<View>(&*step);
    if (view && !is_used[view->result]) continue;
    for (Slot slot : reads(*step)) is_used[slot] = true;
    steps.push_back(std::move(*step));
  }
  std::reverse(steps.begin(), steps.end());
  plan.steps = std::move(steps);
}

void plan_frees(Plan& plan) {
  std::erase_if(plan.steps, [](const Step& step) { return std::holds_alternative<Free>(step); });

  std::vector<bool> is_returned(plan.slots(), false);
  std::vector<Slot> returned;
  for (const PlanArg& output : plan.outputs) collect_slots(output, returned);
  for (Slot slot : returned) is_returned[slot] = true;

  // Step -1 stands for the entry: a parameter that nothing reads dies there.
  constexpr int kEntry = -1;
  constexpr int kNever = -2;
  std::vector<int> last(plan.slots(), kNever);
  std::fill_n(last.begin(), plan.parameters.size(), kEntry);
  for (int i = 0; i < static_cast<int>(plan.steps.size()); ++i) {
    for (Slot slot : reads(plan.steps[i])) last[slot] = i;
    for (Slot slot : fills(plan.steps[i])) last[slot] = i;
  }
  std::vector<Free> after(plan.steps.size() + 1);
  for (Slot slot = 0; slot < plan.slots(); ++slot) {
    if (!is_returned[slot] && last[slot] != kNever) after[last[slot] + 1].slots.push_back(slot);
  }

  std::vector<Step> steps;
  if (!after[0].slots.empty()) steps.emplace_back(std::move(after[0]));
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    steps.push_back(std::move(plan.steps[i]));
    if (!after[i + 1].slots.empty()) steps.emplace_back(std::move(after[i + 1]));
  }
  plan.steps = std::move(steps);
}

namespace {

struct Linear {
  std::string symbol;
  int64_t factor;
};

// `e` as factor * symbol + something constant; nothing where it is not of that form.
std::optional<Linear> linear_in_one_symbol(const Expr& e) {
  const std::vector<std::string> symbols = e.symbols();
  if (symbols.size() != 1) return std::nullopt;
  const auto at = [&](int64_t value) { return e.evaluate({{symbols[0], value}}); };
  const std::set<Expr::Kind> polynomial = {Expr::Kind::kConstant, Expr::Kind::kSymbol, Expr::Kind::kAdd,
                                           Expr::Kind::kMul};
  const auto is_polynomial = [&](const auto& self, const Expr& node) -> bool {
    if (!polynomial.count(node.kind())) return false;
    for (const Expr& operand : node.operands()) {
      if (!self(self, operand)) return false;
    }
    return true;
  };
  if (!is_polynomial(is_polynomial, e)) return std::nullopt;
  const int64_t factor = at(1) - at(0);
  if (factor == 0 || at(3) - at(2) != factor || at(2) - at(1) != factor) return std::nullopt;
  return Linear{symbols[0], factor};
}

void add_binding(Plan& plan, const Expr& value, Slot slot, SymbolBinding::Source source, int dim) {
  const std::optional<Linear> linear = linear_in_one_symbol(value);
  if (!linear) return;
  for (const SymbolBinding& known : plan.symbols) {
    if (known.symbol == linear->symbol) return;
  }
  plan.symbols.push_back({linear->symbol, value, slot, source, dim});
}

}  // namespace

void bind_symbols(Plan& plan, const std::vector<Type>& types, const std::vector<Slot>& slots) {
  TW_CHECK(types.size() == slots.size()) << types.size() << " types, " << slots.size() << " slots";
  using Source = SymbolBinding::Source;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].kind == TypeKind::kInt && types[i].value)
      add_binding(plan, *types[i].value, slots[i], Source::kInt, 0);
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (!types[i].is_tensor()) continue;
    for (int d = 0; d < types[i].rank(); ++d) add_binding(plan, types[i].shape[d], slots[i], Source::kSize, d);
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (!types[i].is_tensor() || !types[i].strides) continue;
    for (int d = 0; d < types[i].rank(); ++d) add_binding(plan, (*types[i].strides)[d], slots[i], Source::kStride, d);
  }
}

namespace {

class PlanChecker {
 public:
  explicit PlanChecker(const Plan& plan) : plan_(plan), states_(plan.slots(), State::kEmpty) {}

  std::vector<std::string> check() {
    for (size_t i = 0; i < plan_.parameters.size(); ++i) states_[i] = State::kFilled;
    check_bindings();
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      where_ = "step " + std::to_string(i);
      check_step(plan_.steps[i]);
    }
    where_ = "return";
    std::vector<Slot> slots;
    for (const PlanArg& output : plan_.outputs) collect_slots(output, slots);
    for (Slot slot : slots) check_filled(slot);
    return std::move(errors_);
  }

 private:
  enum class State : uint8_t { kEmpty, kFilled, kFreed };

  void error(const std::string& text) { errors_.push_back(where_ + ": " + text); }

  void check_filled(Slot slot) {
    const std::string name = "$" + std::to_string(slot);
    if (slot < 0 || slot >= static_cast<Slot>(states_.size()) || states_[slot] == State::kEmpty) {
      error(name + " is read before a step fills it");
    } else if (states_[slot] == State::kFreed) {
      error(name + " is read after it was freed");
    }
  }

  void check_bindings() {
    where_ = "symbols";
    for (const SymbolBinding& binding : plan_.symbols) {
      const std::optional<Linear> linear = linear_in_one_symbol(binding.value);
      if (!linear || linear->symbol != binding.symbol) {
        error(binding.symbol + " cannot be had from " + binding.value.str());
      }
      bound_.insert(binding.symbol);
    }
  }

  void check_sizes(const std::vector<Expr>& sizes) {
    for (const Expr& size : sizes) check_bound(size);
  }

  void check_bound(const Expr& e) {
    for (const std::string& symbol : e.symbols()) {
      if (!bound_.count(symbol)) error("symbol " + symbol + " has no source");
    }
  }

  void check_launch(const Launch& launch) {
    if (launch.variants.empty()) {
      error("a launch without a variant");
    } else if (launch.variants.back().condition != Condition{}) {
      error("the last variant of " + launch.name + " has a condition");
    }
    std::set<std::string> body;
    for (const auto& [name, value] : launch.symbols) {
      check_bound(value);
      body.insert(name);
    }
    for (const Variant& variant : launch.variants) {
      std::vector<Expr> used;
      used.reserve(variant.condition.divisible.size() + variant.condition.at_most.size());
      for (const auto& [e, bound] : variant.condition.divisible) used.push_back(e);
      for (const auto& [e, bound] : variant.condition.at_most) used.push_back(e);
      for (const Expr& e : used) {
        for (const std::string& symbol : e.symbols()) {
          if (!body.count(symbol))
            error("the condition of variant " + variant.key + " uses " + symbol + ", which is not the kernel's");
        }
      }
    }
    for (const LaunchOutput& output : launch.outputs) {
      if (output.into != kNoSlot) {
        const auto is_it = [&](const LaunchInput& input) { return input.slot == output.into; };
        if (std::none_of(launch.inputs.begin(), launch.inputs.end(), is_it)) {
          error("$" + std::to_string(output.into) + " is written and not an input of the kernel");
        }
      } else if (output.slot == kNoSlot || !output.type.is_tensor() || !output.type.strides) {
        error("an output of a launch needs a slot and a tensor type with strides");
      } else {
        check_sizes(output.type.shape);
        check_sizes(*output.type.strides);
      }
    }
  }

  void check_view(const View& view) {
    if (view.result == kNoSlot || !view.type.is_tensor() || !view.type.strides) {
      error("a view needs a slot and a tensor type with strides");
      return;
    }
    check_sizes(view.type.shape);
    check_sizes(*view.type.strides);
    if (view.type.offset) check_bound(*view.type.offset);
  }

  void check_step(const Step& step) {
    for (Slot slot : reads(step)) check_filled(slot);
    if (const auto* launch = std::get_if<Launch>(&step)) check_launch(*launch);
    if (const auto* view = std::get_if<View>(&step)) check_view(*view);
    if (const auto* free = std::get_if<Free>(&step)) {
      for (Slot slot : free->slots) {
        check_filled(slot);
        if (slot >= 0 && slot < static_cast<Slot>(states_.size())) states_[slot] = State::kFreed;
      }
    }
    for (Slot slot : fills(step)) {
      if (states_[slot] != State::kEmpty) error("$" + std::to_string(slot) + " is filled twice");
      states_[slot] = State::kFilled;
    }
  }

  const Plan& plan_;
  std::vector<State> states_;
  std::set<std::string> bound_;
  std::string where_;
  std::vector<std::string> errors_;
};

}  // namespace

std::vector<std::string> verify(const Plan& plan) { return PlanChecker(plan).check(); }

}  // namespace tilewright
