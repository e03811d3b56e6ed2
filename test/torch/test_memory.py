"""Mutation, aliasing and memory layout: what a user can see of it is eager's."""

import pytest
import torch
from agree import Recorder, agrees


def test_in_place_on_an_input(device):
    recorder = agrees(lambda x: x.mul_(2).add_(1).sum(), torch.randn(4, 5, device=device))
    assert "-> into %arg0_1" in recorder.texts[0]


def test_the_written_input_is_returned(device):
    agrees(lambda x: x.add_(1), torch.randn(4, device=device))
    agrees(lambda x: (x.add_(1), x * 2, x), torch.randn(4, device=device))


def test_a_write_through_a_view(device):
    def fn(x):
        x[1:3].zero_()
        x.view(-1)[::2] += 1
        return x.sum(0)

    agrees(fn, torch.randn(4, 6, device=device))


def test_a_write_to_a_strided_input(device):
    base = torch.randn(6, 8, device=device)

    def fn(x):
        x.t()[0] = 3
        return x * 2

    agrees(lambda base: fn(base[::2, 1::3]), base)


def test_a_cache_is_written_in_place(device):
    def fn(cache, new, at):
        cache.index_copy_(1, at, new)
        return cache[:, :3].sum()

    agrees(fn, torch.zeros(2, 6, device=device), torch.ones(2, 1, device=device), torch.tensor([3], device=device))


def test_two_inputs_written_from_each_other(device):
    def fn(x, y):
        old = x.clone()
        x.copy_(y)
        y.copy_(old)

    agrees(fn, torch.randn(5, device=device), torch.randn(5, device=device))


def test_buffers_of_a_module(device):
    class Counted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    agrees(Counted().to(device), torch.randn(3, device=device))


def test_views_of_inputs_alias(device):
    agrees(lambda x: (x.t(), x[1:], x.reshape(-1), x.expand(2, 3, 4)), torch.randn(3, 4, device=device))


def test_outputs_that_are_one_tensor(device):
    def fn(x):
        y = x * 2
        return y, y, y.t(), y.view(-1)

    recorder = Recorder()
    x = torch.randn(3, 4, device=device)
    a, b, c, d = torch.compile(fn, backend=recorder)(x)
    assert a is b
    assert {t.untyped_storage().data_ptr() for t in (a, c, d)} == {a.untyped_storage().data_ptr()}


def test_a_clone_stays_apart(device):
    agrees(lambda x: (x.clone(), x.contiguous().clone().add_(1)), torch.randn(3, device=device))


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.randn(2, 3, 4, 5, device=d).to(memory_format=torch.channels_last),
        lambda d: torch.randn(3, 4, device=d).t(),
        lambda d: torch.randn(3, 8, device=d)[:, ::2],
        lambda d: torch.randn(3, 1, device=d).expand(3, 4),
        lambda d: torch.empty(0, 4, device=d),
        lambda d: torch.randn((), device=d),
    ],
    ids=["channels_last", "transposed", "step", "expanded", "empty", "scalar"],
)
def test_strides_of_outputs(device, make):
    agrees(lambda x: (x * 2, x.exp() + 1, torch.zeros_like(x), x.clone()), make(device))


def test_type_promotion(device):
    def fn(i, h, b):
        return i + h, h * 2.5, b + i, i / 2, (i > 1) & b, h + torch.tensor(3.0, dtype=torch.float64)

    agrees(
        fn,
        torch.arange(4, device=device),
        torch.randn(4, device=device, dtype=torch.float16),
        torch.tensor([True, False, True, True], device=device),
    )


def test_overlapping_inputs(device):
    base = torch.arange(8.0, device=device)

    def fn(base):
        a, b = base[:5], base[3:]
        a.add_(1)
        return b * 2

    agrees(fn, base)


def test_a_set_of_mutations_in_training(device):
    class Average(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            with torch.no_grad():
                self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            return x - self.mean

    agrees(Average().to(device), torch.randn(4, 3, device=device, requires_grad=True), backward=True)
