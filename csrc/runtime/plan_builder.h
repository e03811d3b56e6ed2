#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan.h"

namespace tilewright {

// Builds a plan step by step from nodes of graphs. Values of the same name, also of different graphs, share a slot: a
// graph before and after `decompose` may both give steps.
class PlanBuilder {
 public:
  // The parameters of `graph` fill the first slots.
  explicit PlanBuilder(const Graph& graph);

  Slot slot_of(const Value* value);
  // A call or host step.
  void add_call(const Node& node);
  // View steps in place of a call whose results view its first operand. False, and nothing added, where the types do
  // not say where in the operand's memory the results lie.
  bool add_views(const Node& node);
  void add(Launch launch);
  // Copies the outputs that are written into parameters, but those in `written` (a kernel wrote them already), returns
  // all outputs, and places the frees. What a parameter held before is copied on before the parameter is written;
  // `may_share` says whether a node's result may lie in an operand's memory.
  Plan finish(
      const std::vector<Output>& outputs, const std::vector<const Value*>& written = {},
      const std::function<bool(const Node&)>& may_share = [](const Node& node) {
        return node.category() == Category::kView;
      });

 private:
  struct Write {
    const Value* from;
    const Value* into;
    Slot slot;  // that holds the value
  };
  void copy_in_order(std::vector<Write> writes, const std::function<bool(const Node&)>& may_share);
  Slot clone(const Value* value);
  // A slot whose value other slots view, and where they start in it.
  struct Root {
    Slot slot;
    Expr offset;
  };
  Root root_of(Slot slot) const;
  bool is_bound(const Type& type) const;
  PlanArg plan_arg(const Arg& arg);
  std::vector<PlanArg> plan_args(const std::vector<Arg>& args);

  Plan plan_;
  std::map<std::string, Slot> slots_;  // by the values' names
  size_t clones_ = 0;                  // their slots follow
  std::map<Slot, Type> types_;         // of the slots filled so far
  std::map<Slot, Root> roots_;         // of the slots that view steps fill
};

}  // namespace tilewright
