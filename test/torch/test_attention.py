"""Attention stays one operator where no gradient is wanted, and nothing is left behind at PyTorch's operator."""

import threading

import pytest
import torch
from agree import Recorder, agrees
from tilewright.attention import COMPOSITE, laid_out_as_eager, whole_attention
from torch.nn.functional import scaled_dot_product_attention

ATTENTION = torch.ops.aten.scaled_dot_product_attention.default


def heads(device, length=5, number=2, **kwargs):
    return torch.randn(2, number, length, 8, device=device, **kwargs)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"is_causal": True}, {"scale": 0.3}, {"is_causal": True, "scale": 0.1}],
    ids=["plain", "causal", "scale", "both"],
)
def test_inference_keeps_it_whole(device, options, dynamic):
    def fn(q, k, v):
        return scaled_dot_product_attention(q, k, v, **options) * 2

    recorder = agrees(fn, *(heads(device) for _ in range(3)), dynamic=dynamic, rtol=1e-4, atol=1e-5)
    assert recorder.operators() == ["tilewright.attention.default", "aten.mul.Tensor"]


def test_masks_and_grouped_heads(device):
    q, k, v = heads(device, number=4), heads(device), heads(device)
    mask = torch.rand(2, 1, 5, 5, device=device) > 0.3
    mask[..., 0] = True

    def fn(q, k, v, mask):
        bias = torch.where(mask, 0.0, -1e4)
        grouped = scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return grouped, scaled_dot_product_attention(k, k, v, attn_mask=bias)

    recorder = agrees(fn, q, k, v, mask, rtol=1e-4, atol=1e-5)
    assert recorder.operators().count("tilewright.attention.default") == 2


def test_a_mask_whose_last_stride_is_0(device):
    q, k, v = (heads(device) for _ in range(3))
    column = torch.tensor([True, True, True, False, True], device=device).view(1, 1, 5, 1)

    def fn(q, k, v, column):
        return scaled_dot_product_attention(q, k, v, attn_mask=column.expand(2, 1, 5, 5))

    agrees(fn, q, k, v, column, rtol=1e-4, atol=1e-5)


def test_the_layout_where_eager_takes_matrix_products(device, monkeypatch):
    """As on a GPU, whose fused kernels give heads side by side."""
    monkeypatch.setattr("tilewright.attention.NEED_READABLE_MASKS", {device.type})
    fused = torch.zeros(2, 5, 2, 8, device=device).transpose(1, 2)
    column = torch.ones(1, 1, 5, 1, dtype=torch.bool, device=device)
    assert laid_out_as_eager(fused, column.expand(1, 1, 5, 5)).stride() == (80, 40, 8, 1)
    assert laid_out_as_eager(fused, column.expand(1, 1, 5, 5).contiguous()).stride() == fused.stride()
    assert laid_out_as_eager(fused, None).stride() == fused.stride()


def test_inside_multi_head_attention(device):
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).to(device)
    recorder = agrees(layer.train(), torch.randn(2, 5, 16, device=device), rtol=1e-4, atol=1e-5)
    assert "tilewright.attention.default" in recorder.operators()


@pytest.mark.parametrize("causal", [False, True])
def test_training_uses_pytorchs_operators(device, causal):
    q, k, v = (heads(device, requires_grad=True) for _ in range(3))

    def fn(q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=causal)

    recorder = agrees(fn, q, k, v, backward=True, rtol=1e-3, atol=1e-4)
    assert "tilewright.attention.default" not in recorder.operators()


def test_vmap_stays_pytorchs(device):
    def fn(q, k, v):
        return torch.vmap(scaled_dot_product_attention)(q, k, v)

    recorder = agrees(fn, *(heads(device) for _ in range(3)), rtol=1e-4, atol=1e-5)
    assert "tilewright.attention.default" not in recorder.operators()


def test_nothing_is_left_behind(device):
    with torch.no_grad():
        torch.compile(scaled_dot_product_attention, backend=Recorder())(*(heads(device) for _ in range(3)))
    assert COMPOSITE not in ATTENTION.py_kernels
    with pytest.raises(RuntimeError, match="on purpose"), whole_attention():
        assert COMPOSITE in ATTENTION.py_kernels
        raise RuntimeError("on purpose")
    assert COMPOSITE not in ATTENTION.py_kernels


def test_other_threads_keep_pytorchs_kernel(device):
    """A capture of another backend in another thread, while ours runs, takes attention apart as ever."""
    seen = []

    def other_capture():
        from torch.fx.experimental.proxy_tensor import make_fx

        graph = make_fx(scaled_dot_product_attention, tracing_mode="symbolic")(*(heads(device) for _ in range(3)))
        seen.extend(str(node.target) for node in graph.graph.nodes)

    with whole_attention():
        thread = threading.Thread(target=other_capture)
        thread.start()
        thread.join()
    assert seen and not any("tilewright" in target for target in seen)
