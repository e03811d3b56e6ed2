"""Pointwise work between memory orders: transposed operands, permuted copies, channels last and back."""

import pytest
import torch
from agree import agrees

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int16, torch.int8, torch.bool]


def families(recorder) -> list[str]:
    return [kernel["family"] for part in recorder.parts for kernel in part.report()["kernels"]]


def make(shape, dtype, device) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape, dtype=dtype, device=device)
    return torch.randint(0, 2 if dtype is torch.bool else 50, shape, device=device).to(dtype)


def transposed_sum(x, y):
    return x.t() + y


def permuted_copy(x):
    return torch.where(x.permute(2, 0, 1) > 0, 1, 2).contiguous()


def channels_last(x, scale):
    return (x * scale[:, None, None]).to(memory_format=torch.channels_last)


def channels_first(x, scale):
    return torch.relu(x.permute(0, 3, 1, 2) - scale[:, None, None]).contiguous()


def both_orders(x, y):
    z = x * 2 + y.t()
    return z, z.t().contiguous(), y.exp()


def concatenated(x, y):
    return torch.cat([x.t(), y.t() * 3], 0).contiguous()


def narrowed(x):
    return x.t().contiguous().to(torch.bfloat16) + 1


class TestNumbers:
    """Against eager, on every variant that the sizes allow."""

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_transposed_sum(self, device, dtype):
        recorder = agrees(transposed_sum, make((96, 64), dtype, device), make((64, 96), dtype, device))
        assert families(recorder) == ["transpose"]

    @pytest.mark.parametrize("dynamic", [None, True])
    @pytest.mark.parametrize("shape", [(1, 1), (1, 70), (33, 1), (33, 70), (128, 64), (0, 5)], ids=str)
    def test_sizes(self, device, shape, dynamic):
        x, y = make(shape, torch.bfloat16, device), make(shape[::-1], torch.bfloat16, device)
        agrees(transposed_sum, x, y, dynamic=dynamic)

    def test_unaligned_and_strided(self, device):
        x, y = make((65, 130), torch.bfloat16, device), make((128, 129), torch.bfloat16, device)
        agrees(transposed_sum, x[1:, 1:-1], y[:, 1::2])

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
    def test_permuted_copy(self, device, dtype):
        recorder = agrees(permuted_copy, make((12, 20, 48), dtype, device))
        assert families(recorder) == ["transpose"]

    @pytest.mark.parametrize("dynamic", [None, True])
    @pytest.mark.parametrize("channels", [3, 24, 64])
    def test_images(self, device, channels, dynamic):
        scale = make((channels,), torch.bfloat16, device)
        first = make((2, channels, 10, 12), torch.bfloat16, device)
        last = make((2, 10, 12, channels), torch.bfloat16, device)
        agrees(channels_last, first, scale, dynamic=dynamic)
        recorder = agrees(channels_first, last, scale, dynamic=dynamic)
        if channels == 64:
            assert families(recorder) == ["transpose"]

    def test_both_orders(self, device):
        x, y = make((64, 96), torch.float32, device), make((96, 64), torch.float32, device)
        recorder = agrees(both_orders, x, y, rtol=1e-6, atol=1e-6)
        assert "transpose" in families(recorder)

    def test_concatenated(self, device):
        agrees(concatenated, make((64, 40), torch.float16, device), make((64, 24), torch.float16, device))

    def test_narrowed(self, device):
        recorder = agrees(narrowed, make((64, 128), torch.float32, device))
        assert families(recorder) == ["transpose"]

    def test_gradients(self, device):
        x = torch.randn(64, 48, device=device, requires_grad=True)
        y = torch.randn(48, 64, device=device, requires_grad=True)
        agrees(lambda x, y: torch.tanh(x.t() * y), x, y, backward=True, rtol=1e-5, atol=1e-6)
