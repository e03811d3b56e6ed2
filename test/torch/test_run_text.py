"""tilewright.testing.run_text: graphs as text, run on the simulator against PyTorch's own operators."""

import pytest
import torch
from tilewright.testing import make_inputs, run_text

ROWS = """graph @rows(%x: f32[s0, 8] strides [8, 1], %n: int = s0, %bias: bf16[8] strides [1]) -> (f32[s0, 8], int)
  symbols (s0 = 4 in [2, inf])
{
  %soft = call aten._softmax.default(%x, -1, false) : f32[s0, 8] strides [8, 1]
  %add = call aten.add.Tensor(%soft, %bias) : f32[s0, 8] strides [8, 1]
  %mm = call aten.mm.default(%add, %add) : f32[s0, 8] strides [8, 1]
  return %mm, 2*s0
}
"""


def test_kernels_against_pytorch():
    result = run_text(ROWS, {"s0": 8})
    assert result.kernels == ["softmax_add"] and result.calls == ["aten.mm.default"]
    torch.testing.assert_close(result.outputs[0], result.expected[0])
    assert result.outputs[1] == result.expected[1] == 16


def test_inputs_have_the_types_of_the_parameters():
    text = """graph @inputs(%a: i64[3, 1], %b: bool[s0] strides [1], %c: f16[2, s0] strides [0, 1], %d: float,
  %e: int = floordiv(s0, 2) + 1, %f: f32[max(s0, 3), mod(s0, 4)], %g: f64[]) -> (i64[3, 1])
  symbols (s0 = 6 in [2, inf])
{
  return %a
}
"""
    a, b, c, d, e, f, g = make_inputs(text.replace(",\n ", ","), {}, seed=0)
    assert a.dtype == torch.int64 and a.shape == (3, 1)
    assert b.dtype == torch.bool and b.shape == (6,)
    assert c.dtype == torch.float16 and c.stride() == (0, 1)
    assert (d, e) == (0.5, 4)
    assert f.shape == (6, 2)
    assert g.shape == ()


def test_operators_of_the_gpu_have_stand_ins():
    text = """graph @norm(%x: f32[4, 3, 5] strides [15, 5, 1], %w: f32[3] strides [1]) -> (f32[4, 3, 5])
{
  %y, %mean, %scale, %rest = call aten.cudnn_batch_norm.default(%x, %w, none, none, none, true, 0.1, 1e-05) : f32[4, 3, 5] strides [15, 5, 1], f32[3] strides [1], f32[3] strides [1], u8[0] strides [1]
  return %y
}
"""  # noqa: E501
    result = run_text(text, kernels="call")
    torch.testing.assert_close(result.outputs[0].mean((0, 2)), torch.zeros(3), atol=1e-5, rtol=0)


def test_host_steps_cannot_be_run():
    text = "graph @host(%x: f32[2]) -> (f32[2])\n{\n  %y = host 0(%x) : f32[2]\n  return %y\n}\n"
    with pytest.raises(ValueError, match="host step"):
        run_text(text)
