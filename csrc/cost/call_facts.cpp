#include "cost/call_facts.h"

#include <algorithm>
#include <array>

namespace tilewright {
namespace {

struct Row {
  std::string_view name;  // namespace and operator, without the overload
  CallFacts facts;
};

constexpr CallFacts view() {
  return {.kind = CallKind::kView, .efficiency = 1, .passes = 0, .kernels = 0, .may_alias = true};
}
constexpr CallFacts memory(double efficiency, double passes = 1, int kernels = 1) {
  return {.kind = CallKind::kMemory, .efficiency = efficiency, .passes = passes, .kernels = kernels};
}
// cost/product_time.cpp has the rate that it reaches.
constexpr CallFacts matmul() { return {.kind = CallKind::kMatmul, .efficiency = 1}; }
constexpr CallFacts convolution(double passes = 1, int kernels = 1) {
  return {.kind = CallKind::kConvolution, .efficiency = 0.5, .passes = passes, .kernels = kernels};
}
// It may drop out, which draws random numbers.
constexpr CallFacts attention() { return {.kind = CallKind::kAttention, .efficiency = 0.5, .pure = false}; }
constexpr CallFacts attention_backward() {
  return {.kind = CallKind::kAttention, .efficiency = 0.5, .passes = 2.5, .kernels = 2};
}
constexpr CallFacts gather() { return {.kind = CallKind::kGather, .efficiency = 0.6}; }
constexpr CallFacts random(double efficiency = 0.6) { return {.efficiency = efficiency, .pure = false}; }
constexpr CallFacts host_read() { return {.kind = CallKind::kHostRead, .efficiency = 1, .kernels = 0, .pure = false}; }
constexpr CallFacts assertion() { return {.efficiency = 1, .kernels = 0, .pure = false}; }
// A copy, or the operand itself where it already is what was asked for.
constexpr CallFacts maybe_copy() { return {.efficiency = 0.9, .may_alias = true}; }

// Sorted by name. Efficiencies are those of PyTorch's kernels on an H200 against a copy of the same bytes: softmax of
// 16384 x 4096 in bf16 takes 212 us where the bytes need 63, layer_norm 108, a row sum 47 where they need 31.
constexpr auto kRows = std::to_array<Row>({
    {"aten._assert_async", assertion()},
    {"aten._assert_scalar", assertion()},
    {"aten._assert_tensor_metadata", assertion()},
    {"aten._batch_norm_with_update", memory(0.4, 1.5)},
    {"aten._batch_norm_with_update_functional", memory(0.4, 1.5)},
    {"aten._efficient_attention_backward", attention_backward()},
    {"aten._efficient_attention_forward", attention()},
    {"aten._flash_attention_backward", attention_backward()},
    {"aten._flash_attention_forward", attention()},
    {"aten._functional_assert_async", assertion()},
    {"aten._functional_assert_scalar", assertion()},
    {"aten._functional_sym_constrain_range", assertion()},
    {"aten._functional_sym_constrain_range_for_size", assertion()},
    {"aten._fused_dropout", random()},
    {"aten._fused_rms_norm", memory(0.6)},
    {"aten._fused_rms_norm_backward", memory(0.5, 1, 2)},
    {"aten._local_scalar_dense", host_read()},
    {"aten._log_softmax", memory(0.35)},
    {"aten._log_softmax_backward_data", memory(0.4)},
    {"aten._native_batch_norm_legit", memory(0.4, 1.5)},
    {"aten._native_batch_norm_legit_functional", memory(0.4, 1.5)},
    {"aten._native_batch_norm_legit_no_training", memory(0.7)},
    {"aten._print", assertion()},
    {"aten._reshape_alias", view()},
    {"aten._sample_dirichlet", random(0.2)},
    {"aten._scaled_dot_product_cudnn_attention", attention()},
    {"aten._scaled_dot_product_cudnn_attention_backward", attention_backward()},
    {"aten._scaled_dot_product_efficient_attention", attention()},
    {"aten._scaled_dot_product_efficient_attention_backward", attention_backward()},
    {"aten._scaled_dot_product_flash_attention", attention()},
    {"aten._scaled_dot_product_flash_attention_backward", attention_backward()},
    {"aten._scaled_dot_product_flash_attention_for_cpu", attention()},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward", attention_backward()},
    {"aten._scaled_mm", matmul()},
    {"aten._softmax", memory(0.35)},
    {"aten._softmax_backward_data", memory(0.4)},
    {"aten._standard_gamma", random(0.2)},
    {"aten._to_copy", memory(0.9)},
    {"aten._unsafe_index", gather()},
    {"aten._unsafe_view", view()},
    {"aten.addbmm", matmul()},
    {"aten.addmm", matmul()},
    {"aten.addmv", matmul()},
    {"aten.alias", view()},
    {"aten.alpha_dropout", random()},
    {"aten.as_strided", view()},
    {"aten.baddbmm", matmul()},
    {"aten.bernoulli", random()},
    {"aten.binomial", random(0.2)},
    {"aten.bmm", matmul()},
    {"aten.cat", memory(0.85)},
    {"aten.cauchy", random()},
    {"aten.chunk", view()},
    {"aten.contiguous", maybe_copy()},
    {"aten.conv1d", convolution()},
    {"aten.conv2d", convolution()},
    {"aten.conv3d", convolution()},
    {"aten.convolution", convolution()},
    {"aten.convolution_backward", convolution(2, 3)},
    {"aten.cudnn_batch_norm", memory(0.5, 1.5)},
    {"aten.cudnn_batch_norm_backward", memory(0.5, 1.5)},
    {"aten.cudnn_convolution", convolution()},
    {"aten.cumprod", memory(0.5)},
    {"aten.cumsum", memory(0.5)},
    {"aten.detach", view()},
    {"aten.diagonal", view()},
    {"aten.dot", matmul()},
    {"aten.dropout", random()},
    {"aten.embedding", gather()},
    {"aten.embedding_dense_backward", memory(0.3, 1, 3)},
    {"aten.expand", view()},
    {"aten.expand_as", view()},
    {"aten.exponential", random()},
    {"aten.feature_dropout", random()},
    {"aten.gather", gather()},
    {"aten.gelu", memory(0.55)},
    {"aten.gelu_backward", memory(0.55)},
    {"aten.geometric", random()},
    {"aten.imag", view()},
    {"aten.index", gather()},
    {"aten.index_select", gather()},
    {"aten.item", host_read()},
    {"aten.lift_fresh", view()},
    {"aten.linear", matmul()},
    {"aten.log_normal", random()},
    {"aten.logsumexp", memory(0.8, 6, 7)},  // max, x - max, exp and sum each read it, two write as much
    {"aten.matmul", matmul()},
    {"aten.mean", memory(0.68)},
    {"aten.miopen_batch_norm", memory(0.5, 1.5)},
    {"aten.mm", matmul()},
    {"aten.movedim", view()},
    {"aten.multinomial", random()},
    {"aten.mv", matmul()},
    {"aten.narrow", view()},
    {"aten.native_batch_norm", memory(0.4, 1.5)},
    {"aten.native_batch_norm_backward", memory(0.4, 1.5)},
    {"aten.native_dropout", random()},
    {"aten.native_group_norm", memory(0.4, 1, 2)},
    {"aten.native_group_norm_backward", memory(0.4, 1, 3)},
    {"aten.native_layer_norm", memory(0.58)},
    {"aten.native_layer_norm_backward", memory(0.45, 1, 2)},
    {"aten.nonzero", {.kind = CallKind::kHostRead, .efficiency = 0.3, .kernels = 3, .pure = false}},
    {"aten.normal", random()},
    {"aten.normal_functional", random()},
    {"aten.permute", view()},
    {"aten.poisson", random(0.2)},
    {"aten.rand", random()},
    {"aten.rand_like", random()},
    {"aten.randint", random()},
    {"aten.randint_like", random()},
    {"aten.randn", random()},
    {"aten.randn_like", random()},
    {"aten.random", random()},
    {"aten.randperm", random(0.2)},
    {"aten.real", view()},
    {"aten.reshape", maybe_copy()},
    {"aten.rrelu_with_noise", random()},
    {"aten.rrelu_with_noise_functional", random()},
    {"aten.scaled_dot_product_attention", attention()},
    {"aten.select", view()},
    {"aten.slice", view()},
    {"aten.sort", memory(0.05, 1, 6)},
    {"aten.split", view()},
    {"aten.split_with_sizes", view()},
    {"aten.squeeze", view()},
    {"aten.sum", memory(0.68)},
    {"aten.swapaxes", view()},
    {"aten.sym_constrain_range", assertion()},
    {"aten.sym_constrain_range_for_size", assertion()},
    {"aten.t", view()},
    {"aten.tensor_split", view()},
    {"aten.topk", memory(0.1, 1, 3)},
    {"aten.transpose", view()},
    {"aten.unbind", view()},
    {"aten.unflatten", view()},
    {"aten.unfold", view()},
    {"aten.uniform", random()},
    {"aten.unsqueeze", view()},
    {"aten.var", memory(0.5)},
    {"aten.var_mean", memory(0.5)},
    {"aten.view", view()},
    {"aten.view_as", view()},
    {"aten.view_as_complex", view()},
    {"aten.view_as_real", view()},
    {"tilewright.attention", attention()},
    {"tilewright.attention_backward", attention_backward()},
});
static_assert(std::is_sorted(kRows.begin(), kRows.end(), [](const Row& a, const Row& b) { return a.name < b.name; }));

// The operator writes to an argument: its name ends with an underscore.
bool is_in_place(std::string_view name) {
  return name.size() > 1 && name.back() == '_' && name[name.size() - 2] != '_';
}

std::string_view without_overload(std::string_view callee) {
  const size_t first = callee.find('.');
  const size_t second = first == callee.npos ? callee.npos : callee.find('.', first + 1);
  return callee.substr(0, second);
}

}  // namespace

const CallFacts& call_facts(std::string_view callee) {
  static constexpr CallFacts kPyTorch{};
  static constexpr CallFacts kInPlace{.pure = false, .may_alias = true};
  static constexpr CallFacts kForeign{.efficiency = 0.7, .pure = false, .may_alias = true};
  const std::string_view name = without_overload(callee);
  const auto at = std::lower_bound(kRows.begin(), kRows.end(), name,
                                   [](const Row& row, std::string_view wanted) { return row.name < wanted; });
  if (at != kRows.end() && at->name == name) return at->facts;
  const std::string_view overload = callee.substr(std::min(name.size(), callee.size()));
  if (is_in_place(name) || overload == ".out") return kInPlace;
  return name.starts_with("aten.") || name.starts_with("prims.") ? kPyTorch : kForeign;
}

bool has_effects(const Node& node) {
  const bool gives_nothing = std::all_of(node.results.begin(), node.results.end(),
                                         [](const auto& result) { return result->type.kind == TypeKind::kNone; });
  return !node.is_call() || gives_nothing || !call_facts(node.callee).pure;
}

std::string base_name(std::string_view callee) {
  const std::string_view name = without_overload(callee);
  const size_t dot = name.find('.');
  return std::string(dot == name.npos ? name : name.substr(dot + 1));
}

}  // namespace tilewright
