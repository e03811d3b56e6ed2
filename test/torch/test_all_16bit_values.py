"""Functions of one value, for every 16-bit value there is and a sample of float32: on a GPU eager's very bits."""

import pytest
import torch
import torch.nn.functional as F
from agree import agrees

FUNCTIONS = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "exp": torch.exp,
    "log1p": torch.log1p,
    "reciprocal": torch.reciprocal,
    "rsqrt": torch.rsqrt,
    "softplus": F.softplus,
    "mish": F.mish,
    "elu": F.elu,
    "hardswish": F.hardswish,
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_value(name, dtype, device):
    x = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32, device=device).to(torch.int16).view(dtype)
    if device.type == "cuda":
        agrees(FUNCTIONS[name], x, rtol=0, atol=0)
    else:
        # Eager's functions are other ones on the CPU: its gelu doubles x before it halves it, and cancellation makes
        # 2^-24 of x of each bit of erf.
        x = x[~(x.abs() > 1e38)]
        agrees(FUNCTIONS[name], x, rtol=2**-6 if dtype is torch.bfloat16 else 2**-9, atol=2e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sampled_float32(name, device):
    """Random bits: all magnitudes alike, with subnormals, infinities and NaN."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randint(-(1 << 31), 1 << 31, (1 << 13,), dtype=torch.int64, generator=generator)
    x = x.to(torch.int32).view(torch.float32).to(device)
    if device.type == "cuda":
        agrees(FUNCTIONS[name], x, rtol=0, atol=0)
    else:
        agrees(FUNCTIONS[name], x[~(x.abs() > 1e38)], rtol=4e-6, atol=2e-6)
