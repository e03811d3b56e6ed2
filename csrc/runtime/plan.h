#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/condition.h"
#include "ir/graph.h"
#include "ir/type.h"

namespace tilewright {

// What a compiled graph runs, all of it, in order: kernel launches, calls of PyTorch's operators, views, copies into
// parameters, and where each value dies. Values live in numbered slots; parameters fill the first ones.
//
//   plan @softmax($0: bf16[s0, 768] strides [768, 1], $1: f32[768] strides [1], $2: int)
//     symbols (s0 = size($0, 0), s1 = $2)
//   {
//     $3 = launch "mul_amax"($0, $1) symbols (s0 = s0)
//       variant "a41c" if align 16 index32 divisible (s0, 8) at_most (s0, 4096)
//       variant "77e0"
//       lines (3 @ 0, 4 @ 1)
//       : f32[s0] strides [1]
//     free $1
//     $4, $5 = call aten.topk.default($3, 2) : f32[2], i64[2] @ 2
//     copy $4 -> $0
//     return $5, 2*s0, none
//   }
//   loc 0 = "model.py":212 "q * scale" aten.mul.Tensor
//
// parse_plan(print(p)) == p.

using Slot = int;
inline constexpr Slot kNoSlot = -1;

// Argument of a call or a value of `return`: as ir's Arg, with slots in place of values.
struct PlanArg {
  struct SlotRef {
    Slot slot = kNoSlot;
    friend bool operator==(SlotRef, SlotRef) = default;
  };
  using List = std::vector<PlanArg>;
  std::variant<Arg::None, SlotRef, Expr, double, bool, std::string, Arg::Tagged, Arg::Complex, List> data;

  const SlotRef* slot() const { return std::get_if<SlotRef>(&data); }
  friend bool operator==(const PlanArg&, const PlanArg&);
};

// Where a symbol's value comes from, read as soon as the slot has its value: `value` is the symbol or a linear
// function of it (2*s0 + 1), equal to the number read.
struct SymbolBinding {
  enum class Source : uint8_t { kInt, kSize, kStride };
  std::string symbol;
  Expr value;
  Slot slot = kNoSlot;
  Source source = Source::kInt;
  int dim = 0;
  friend bool operator==(const SymbolBinding&, const SymbolBinding&) = default;
};

// One parameter of the kernel's body, in its order.
struct LaunchInput {
  // kPointer: a tensor's address; kInt, kFloat: a number in a slot; kHostTensor: a rank-0 tensor in CPU memory, whose
  // element is read at launch and widened to f64 or s64.
  enum class Kind : uint8_t { kPointer, kInt, kFloat, kHostTensor };
  Slot slot = kNoSlot;
  Kind kind = Kind::kPointer;
  friend bool operator==(const LaunchInput&, const LaunchInput&) = default;
};

// One output of the kernel's body, in its order. With `into` the kernel writes to the memory of a tensor that is one of
// the inputs, and `slot` (if any) becomes that tensor; else the step allocates `type`, whose strides are given.
struct LaunchOutput {
  Slot slot = kNoSlot;
  Type type;
  Slot into = kNoSlot;
  friend bool operator==(const LaunchOutput&, const LaunchOutput&) = default;
};

struct Variant {
  std::string key;      // of the artifact, for KernelSource
  Condition condition;  // over the body's symbols; the last variant's always holds
  friend bool operator==(const Variant&, const Variant&) = default;
};

// One kernel. Conditions, grid and workspaces are expressions over the body's symbols, to which `symbols` gives values
// in terms of the plan's, in the order of the kernel's parameters.
struct Launch {
  std::string name;  // display name
  std::vector<LaunchInput> inputs;
  std::vector<LaunchOutput> outputs;
  std::vector<std::pair<std::string, Expr>> symbols;
  std::vector<Variant> variants;              // the first whose condition holds runs
  std::vector<std::pair<int, LocPtr>> lines;  // `.loc` line of the kernel -> the user's line
};

// An operator of PyTorch, "aten.addmm.default". Results that are tuples or lists are flattened in order, unless the one
// result's type is a list.
struct Call {
  std::string op;
  std::vector<PlanArg> args;
  std::vector<std::pair<std::string, PlanArg>> kwargs;
  std::vector<Slot> results;
  std::vector<Type> types;
  LocPtr loc;
};

// A piece of the captured graph that only Python can run, by the importer's number.
struct Host {
  int number = 0;
  std::vector<PlanArg> args;
  std::vector<Slot> results;
  std::vector<Type> types;
  LocPtr loc;
};

// A tensor over the memory of another: sizes, strides and the offset, in elements, from the base's first element.
struct View {
  Slot base = kNoSlot;
  Slot result = kNoSlot;
  Type type;
};

// Writes a tensor's elements to the memory of another.
struct Copy {
  Slot from = kNoSlot;
  Slot into = kNoSlot;
};

// Slots whose values no later step needs.
struct Free {
  std::vector<Slot> slots;
};

bool operator==(const Launch&, const Launch&);
bool operator==(const Call&, const Call&);
bool operator==(const Host&, const Host&);
bool operator==(const View&, const View&);
bool operator==(const Copy&, const Copy&);
bool operator==(const Free&, const Free&);

using Step = std::variant<Launch, Call, Host, View, Copy, Free>;

struct Plan {
  std::string name = "plan";
  std::vector<Type> parameters;        // parameter i is slot i
  std::vector<SymbolBinding> symbols;  // a symbol may have several; the first whose slot is filled counts
  std::vector<Step> steps;
  std::vector<PlanArg> outputs;

  int slots() const;  // one more than the largest slot in use
};
bool operator==(const Plan&, const Plan&);

std::string print(const Plan& plan);
// Throws UserError: `file:line:column: text`.
Plan parse_plan(std::string_view text, std::string_view file = "<text>");

// Every broken rule, one string each: slots read before they are filled or after they are freed or filled twice,
// symbols without a source, a step whose last variant has a condition. Empty: the plan is valid.
std::vector<std::string> verify(const Plan& plan);

// Slots that a step reads (symbols' sources apart) and those that it fills.
std::vector<Slot> reads(const Step& step);
std::vector<Slot> fills(const Step& step);
// The type of each slot: a parameter's or that of the step that fills it; null for slots not in use.
std::vector<const Type*> slot_types(const Plan& plan);

// The slots whose memory a step reads by their types' sizes and strides: what kernels and views read.
std::vector<Slot> read_by_type(const Step& step);

// By slot: whether a step reads it so. A call's result that is not keeps the strides that PyTorch's operator gives it,
// which capture may not have known.
std::vector<bool> slots_read_by_type(const Plan& plan);

// Drops the views that nothing reads: neither a step, nor a symbol's source, nor `return`.
void drop_unused_views(Plan& plan);

// Puts a Free step after the last use of each slot that is not returned; parameters too, so that a caller that gave up
// its inputs has their memory back. Free steps already there are replaced.
void plan_frees(Plan& plan);

// Sources for `symbols` in the parameters' types, sizes before strides: an `int` parameter with a value, a dimension,
// or a stride that is a symbol or a linear function of one. `slot_of` is the first slot of `types`.
void bind_symbols(Plan& plan, const std::vector<Type>& types, const std::vector<Slot>& slots);

// The plan of a graph of calls and host steps only, which launches no kernel.
Plan plan_of_calls(const Graph& graph);

}  // namespace tilewright
