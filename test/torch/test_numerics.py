"""The contract of docs/numerics.md: where results round, by default and with numerics="fast"."""

import math

import pytest
import torch
from agree import Recorder, same

NARROW = [torch.bfloat16, torch.float16]
F = torch.nn.functional


def compiled(fn, **options):
    torch._dynamo.reset()
    return torch.compile(fn, backend=Recorder(**options), fullgraph=True)


def bits(values):
    """Equal where the bits are, NaN included."""
    return [v.contiguous().view(torch.int16 if v.element_size() == 2 else torch.int32) for v in values]


def chain(x, y):
    a = x * y + 1
    b = F.gelu(a) - y
    c = torch.where(b > 0, b.exp(), b * 3)
    return a, b, c / (y.abs() + 1)


# ---- the default ----


@pytest.mark.parametrize("dtype", [*NARROW, torch.float32])
def test_pointwise_results_do_not_depend_on_the_plan(dtype, device):
    """What is fused with what, which values are returned, which GPU is priced for, and for which one is generated."""
    x, y = (torch.randn(4, 500, device=device, dtype=dtype) for _ in range(2))
    want = bits(compiled(chain)(x, y))
    same(want[2:], bits([compiled(lambda x, y: chain(x, y)[2])(x, y)]), "alone")
    same(want, bits(compiled(chain, kernels="auto")(x, y)), "auto")
    same(want, bits([w.t() for w in compiled(chain)(x.t(), y.t())]), "transposed")
    one_by_one = [compiled(lambda x, y: x * y + 1)(x, y)]
    one_by_one += [compiled(lambda a, y: F.gelu(a) - y)(one_by_one[0], y)]
    same(want[:2], bits(one_by_one), "one operator after another")
    if device.type == "cpu":
        for target, gpu in (("sim:sm_80", "a100"), ("sim:sm_89", "l4"), ("sim:sm_90a", "h100")):
            same(want, bits(compiled(chain, target=target, gpu=gpu)(x, y)), target)


@pytest.mark.parametrize("dtype", NARROW)
def test_each_operator_rounds(dtype, device):
    """Operators that every machine rounds alike: eager's bits, also in fused kernels."""

    def fn(x, y):
        a = x * y
        b = a + x
        c = (b - y) * 0.3
        return c / y, torch.maximum(a, b) * c, (c * c).relu(), x.sqrt() + y

    x, y = (torch.randn(4096, device=device).abs().to(dtype) + 0.1 for _ in range(2))
    same(bits(fn(x, y)), bits(compiled(fn)(x, y)), "bits")


@pytest.mark.parametrize("length", [1, 7, 32, 1000, 4096, 20000])
@pytest.mark.parametrize("dim", [0, 1])
def test_sums_are_as_near_to_float64_as_stated(length, dim, device):
    """|error| <= (12 + length / 1024) * 2^-24 * sum |x|, and not above eager's but by roundings of the result."""
    x = torch.randn((3, length) if dim == 1 else (length, 3), device=device)
    exact = x.double().sum(dim)
    found, eager = (run(x).double() for run in (compiled(lambda x: x.sum(dim)), lambda x: x.sum(dim)))
    magnitude = x.double().abs().sum(dim)
    unit = 2.0**-24
    assert ((found - exact).abs() <= (12 + length / 1024) * unit * magnitude).all()
    # A few roundings of partial sums, whose size is that of the root of the sum of squares.
    slack = 8 * unit * x.double().square().sum(dim).sqrt()
    assert ((found - exact).abs() <= (eager - exact).abs() + slack).all()


@pytest.mark.parametrize("dtype", NARROW)
def test_sums_of_narrow_types_round_once(dtype, device):
    """They accumulate in float32: the result is the exact sum rounded, or its neighbour at a tie."""
    x = torch.randn(5, 1000, device=device, dtype=dtype)
    found, exact = compiled(lambda x: x.sum(1))(x), x.double().sum(1)
    spacing = torch.nextafter(exact.to(dtype).abs(), torch.tensor(torch.inf, dtype=dtype, device=device))
    spacing = spacing.double() - exact.to(dtype).abs().double()
    assert ((found.double() - exact).abs() <= 0.5001 * spacing + 1e-4).all()


# ---- numerics="fast" ----


@pytest.mark.parametrize("dtype", NARROW)
def test_fast_keeps_float32_between_operators(dtype, device):
    """A chain is computed in float32 and rounded at its end."""

    def fn(x, y):
        return ((x * y + x) * 0.3 - y) / (y + 2)

    x, y = (torch.rand(4096, device=device).to(dtype) + 0.5 for _ in range(2))
    same(bits([fn(x.float(), y.float()).to(dtype)]), bits([compiled(fn, numerics="fast")(x, y)]), "bits")
    assert not torch.equal(fn(x, y), compiled(fn, numerics="fast")(x, y)), "by default each step rounds"


def test_fast_gives_each_reader_one_number(device):
    """A value that is returned, or that PyTorch's operators read, is rounded for all who read it."""

    def fn(x, w):
        y = x * 0.3
        return y, y * 8, torch.cumsum(y, 0), (y * w) * 4

    x, w = (torch.randn(256, device=device, dtype=torch.bfloat16) for _ in range(2))
    y, by_8, sums, product = compiled(fn, numerics="fast")(x, w)
    assert torch.equal(by_8, y * 8)
    assert torch.equal(sums, torch.cumsum(y, 0))
    assert torch.equal(product, ((y.float() * w.float()) * 4).bfloat16())

    def inner(x):
        y = x * 0.3
        return y * 8, y * 16

    by_8, by_16 = compiled(inner, numerics="fast")(x)
    assert torch.equal(by_8, (x.float() * 0.3 * 8).bfloat16())
    assert torch.equal(by_16, by_8 * 2)


def test_fast_keeps_the_programs_casts(device):
    def fn(x, h):
        a = (x * 0.3).to(torch.bfloat16).to(torch.float32)
        b = (h * 0.3).to(torch.float32)
        return a * 1.0, b * 1.0

    x = torch.randn(256, device=device)
    a, b = compiled(fn, numerics="fast")(x, x.bfloat16())
    assert torch.equal(a, (x * 0.3).bfloat16().float())
    # The product is narrow in the program, and the program widens it.
    assert torch.equal(b, (x.bfloat16() * 0.3).float())


def test_fast_is_nearer_to_float64(device):
    x = torch.randn(64, 256, device=device, dtype=torch.bfloat16)

    def fn(x):
        return F.layer_norm(F.gelu(x * 1.7 + 0.3) * x, (256,)).tanh()

    exact = fn(x.double())
    errors = [float((compiled(fn, numerics=n)(x).double() - exact).square().mean()) for n in ("eager", "fast")]
    assert math.sqrt(errors[1]) < 0.8 * math.sqrt(errors[0])
