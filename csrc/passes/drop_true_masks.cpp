#include <array>

#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/value_ranges.h"

namespace tilewright {
namespace {

// Operators that take a mask as their argument 3: whole attention, and the fused operators that training keeps, whose
// backwards take the same statistics with and without a mask that hides nothing.
constexpr std::array<std::string_view, 4> kAttentions = {
    "tilewright.attention.default", "aten.scaled_dot_product_attention.default",
    "aten._scaled_dot_product_efficient_attention.default", "aten._scaled_dot_product_cudnn_attention.default"};
constexpr size_t kMaskArgument = 3;

bool takes_mask(const Node& node) {
  for (std::string_view name : kAttentions) {
    if (node.is_call() && node.callee == name) return true;
  }
  return false;
}

// The mask of an attention call: its fourth argument or a keyword.
Arg* mask_argument(std::vector<Arg>& args, std::vector<std::pair<std::string, Arg>>& kwargs) {
  for (auto& [name, arg] : kwargs) {
    if (name == "attn_mask" || name == "attn_bias") return &arg;
  }
  return args.size() > kMaskArgument ? &args[kMaskArgument] : nullptr;
}

// A truth value masks where it is false; a number is added to the scores.
bool hides_nothing(const Value& mask, ValueRanges& ranges) {
  return ranges.of(&mask).is(mask.type.dtype == DType::kBool ? 1 : 0);
}

bool repeats_last_dimension(const Type& t) {
  if (!t.strides || t.strides->empty()) return false;
  return t.strides->back().is_constant(0) && !t.shape.back().is_constant(1);
}

// The same call with another mask.
void change_mask(Graph& g, Node* node, Arg mask) {
  std::vector<Arg> args = node->args;
  std::vector<std::pair<std::string, Arg>> kwargs = node->kwargs;
  *mask_argument(args, kwargs) = std::move(mask);
  std::vector<Type> types;
  std::vector<std::string> names;
  for (const auto& r : node->results) {
    types.push_back(r->type);
    names.push_back(r->name);
  }
  Node* changed = g.add_call(node->callee, std::move(args), std::move(kwargs), std::move(types), node->loc, node);
  changed->origins = node->origins;
  for (size_t i = 0; i < names.size(); ++i)
    g.replace_all_uses(node->result(static_cast<int>(i)), changed->result(static_cast<int>(i)));
  g.erase(node);
  for (size_t i = 0; i < names.size(); ++i) g.rename(changed->result(static_cast<int>(i)), names[i]);
}

Value* contiguous(Graph& g, Value* mask, Node* before) {
  Type type = mask->type;
  type.strides = type.contiguous_strides();
  type.offset.reset();
  std::vector<std::pair<std::string, Arg>> kwargs;
  kwargs.emplace_back("memory_format", Arg{Arg::Tagged{"memory_format", "contiguous_format"}});
  return g.add_call("aten.clone.default", {Arg{mask}}, std::move(kwargs), {type}, before->loc, before)->result();
}

}  // namespace

void drop_true_masks(Graph& g, const Context&) {
  ValueRanges ranges(g);
  std::map<const Value*, Value*> copies;  // one for all the calls that share a mask
  for (Node* node : g.nodes()) {
    if (!takes_mask(*node)) continue;
    Arg* arg = mask_argument(node->args, node->kwargs);
    Value** mask = arg ? std::get_if<Value*>(&arg->data) : nullptr;
    if (!mask || !(*mask)->type.is_tensor()) continue;
    if (hides_nothing(**mask, ranges)) {
      change_mask(g, node, Arg{Arg::None{}});
    } else if (repeats_last_dimension((*mask)->type)) {
      Value*& copy = copies[*mask];
      if (!copy) copy = contiguous(g, *mask, node);
      change_mask(g, node, Arg{copy});
    }
  }
}

}  // namespace tilewright
