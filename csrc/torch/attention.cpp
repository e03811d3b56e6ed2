// tilewright::attention: PyTorch's attention as one operator of a captured graph. It takes the way that eager takes
// when it runs: a fused kernel, or matrix products where `sdpa_kernel` or the inputs ask for them.
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/library.h>

#include <optional>

namespace tilewright {
namespace {

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const std::optional<at::Tensor>& mask, double dropout, bool causal, std::optional<double> scale,
                     bool grouped) {
  return at::scaled_dot_product_attention(query, key, value, mask, dropout, causal, scale, grouped);
}

TORCH_LIBRARY_FRAGMENT(tilewright, library) {
  library.def(
      "attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, "
      "bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor");
}

TORCH_LIBRARY_IMPL(tilewright, CompositeExplicitAutograd, library) { library.impl("attention", TORCH_FN(attention)); }

}  // namespace
}  // namespace tilewright
