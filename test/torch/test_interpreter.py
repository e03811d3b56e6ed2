"""The interpreter, which kernels are tested against, is itself held against eager PyTorch, on a GPU where one is.

CPU eager rounds as CUDA eager does: each operator computes 16-bit floats in float32 and rounds once.
"""

import math
from collections.abc import Callable

import pytest
import torch
from tilewright import _C

NAMES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-6, -7.0, 300.0, 6e4, math.inf, -math.inf, math.nan]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def eager(function: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> torch.Tensor:
    return function(*(t.to(DEVICE) for t in tensors)).cpu()


def type_of(tensor: torch.Tensor) -> str:
    return f"{NAMES[tensor.dtype]}[{', '.join(map(str, tensor.shape))}]"


def interpret(line: str, *tensors: torch.Tensor, mode: str = "eager") -> torch.Tensor:
    """Runs one statement over the tensors, which it calls %a, %b, %c."""
    head = ", ".join(f"%{'abc'[i]}: {type_of(t)}" for i, t in enumerate(tensors))
    (result,) = _C.interpret(f"graph @g({head}) {{ %r = {line} return %r }}", list(tensors), {}, mode)
    return result


def samples(dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.rand(64, generator=generator) < 0.5
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        small = torch.randint(0 if limits.min == 0 else -9, 10, (64,), generator=generator)
        return torch.cat([small, torch.tensor([limits.min, limits.max])]).to(dtype)
    values = torch.randn(256, generator=generator, dtype=torch.float64) * 3
    return torch.cat([values, torch.tensor(EDGES, dtype=torch.float64)]).to(dtype)


def pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = samples(dtype, 1), samples(dtype, 2)
    return a.repeat_interleave(8), b[torch.arange(len(a) * 8) * 7 % len(b)]


def assert_same(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Bit by bit, but for the sign of NaN."""
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    if expected.dtype.is_floating_point:
        numbers = ~expected.isnan()
        assert torch.equal(found.signbit()[numbers], expected.signbit()[numbers])


def assert_near(found: torch.Tensor, expected: torch.Tensor, units: int, absolute: float = 0) -> None:
    """Within some units in the last place: library functions differ in their last bits, and so may a rounding after."""
    kind = torch.finfo(expected.dtype)
    absolute = max(absolute, units * kind.smallest_normal * kind.eps)
    torch.testing.assert_close(found, expected, rtol=units * kind.eps, atol=absolute, equal_nan=True)


EXACT_UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "neg": torch.neg,
    "abs": torch.abs,
    "sign": torch.sign,
    "ceil": torch.ceil,
    "floor": torch.floor,
    "round": torch.round,
    "trunc": torch.trunc,
    "reciprocal": torch.reciprocal,
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "signbit": torch.signbit,
    "copy": torch.clone,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("op", EXACT_UNARY)
def test_exact_functions_of_floats(op: str, dtype: torch.dtype) -> None:
    x = samples(dtype, 0)
    assert_same(interpret(f"{op} %a", x), eager(EXACT_UNARY[op], x))


NEAR_UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    name: getattr(torch, name)
    for name in [
        "sqrt",
        "rsqrt",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "erf",
        "erfc",
        "erfinv",
        "sigmoid",
    ]
}


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("op", NEAR_UNARY)
def test_functions_of_floats(op: str, dtype: torch.dtype) -> None:
    x = samples(dtype, 0)
    units = 64 if op == "erfinv" else 4
    absolute = (
        1e-7 if op == "erf" and DEVICE == "cpu" and dtype is not torch.float64 else 0
    )  # PyTorch's on the CPU is no better near zero
    assert_near(interpret(f"{op} %a", x), eager(NEAR_UNARY[op], x), units, absolute)


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
def test_lgamma(dtype: torch.dtype) -> None:
    """CUDA documents 6 units for float (4 for double), the C library 7 (4) for ours, but none around the zeros at
    negative numbers: what lgamma(x) is made of there, lgamma(-x) among it, cancels."""
    x = samples(dtype, 0)
    found, expected = interpret("lgamma %a", x), eager(torch.lgamma, x)
    begin, units = (-23.0001, 4 + 4) if dtype is torch.float64 else (-10.001, 6 + 7)
    cancels = (x > begin) & (x < -2.2637)
    assert_near(found[~cancels], expected[~cancels], units)
    terms = math.lgamma(-begin) + math.log(math.pi)
    computed = torch.finfo(dtype if dtype is torch.float64 else torch.float32)
    assert_near(found[cancels], expected[cancels], units, units * computed.eps * terms)


EXACT_BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "floor_div": torch.floor_divide,
    "mod": torch.remainder,
    "fmod": torch.fmod,
    "copysign": torch.copysign,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("op", EXACT_BINARY)
def test_exact_operators_of_floats(op: str, dtype: torch.dtype) -> None:
    a, b = pairs(dtype)
    if op in ("maximum", "minimum", "fmax", "fmin"):  # which of two zeros is the greater one is the machine's choice
        a, b = a + 0.0, b + 0.0
    found, expected = interpret(f"{op} %a, %b", a, b), eager(EXACT_BINARY[op], a, b)
    if op == "floor_div" and DEVICE == "cpu" and dtype in (torch.float16, torch.bfloat16):
        # CPU eager rounds between the steps of a 16-bit floor division, CUDA eager does not.
        wide = EXACT_BINARY[op](a.float(), b.float()).to(dtype)
        return assert_same(found, wide)
    assert_same(found, expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("op", ["pow", "atan2", "hypot"])
def test_operators_of_floats(op: str, dtype: torch.dtype) -> None:
    a, b = pairs(dtype)
    assert_near(interpret(f"{op} %a, %b", a, b), eager(getattr(torch, op), a, b), 4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=NAMES.get)
def test_nextafter(dtype: torch.dtype) -> None:
    a, b = pairs(dtype)
    assert_same(interpret("nextafter %a, %b", a, b), eager(torch.nextafter, a, b))


EXACT_INTEGER = {
    **{k: EXACT_BINARY[k] for k in ["add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"]},
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "pow": torch.pow,
}


@pytest.mark.parametrize("dtype", INTEGERS, ids=NAMES.get)
@pytest.mark.parametrize("op", EXACT_INTEGER)
def test_operators_of_integers(op: str, dtype: torch.dtype) -> None:
    a, b = pairs(dtype)
    if op == "pow":
        b = b.clamp(0, 9)
    assert_same(interpret(f"{op} %a, %b", a, b), eager(EXACT_INTEGER[op], a, b))


DIVISIONS = {
    "div": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "floor_div": torch.floor_divide,
    "mod": torch.remainder,
    "fmod": torch.fmod,
}


@pytest.mark.parametrize("dtype", INTEGERS, ids=NAMES.get)
@pytest.mark.parametrize("op", DIVISIONS)
def test_divisions_of_integers(op: str, dtype: torch.dtype) -> None:
    a, b = pairs(dtype)
    defined = b != 0
    if torch.iinfo(dtype).min < 0:
        defined &= ~((a == torch.iinfo(dtype).min) & (b == -1))  # the quotient does not fit
    a, b = a[defined], b[defined]
    assert_same(interpret(f"{op} %a, %b", a, b), eager(DIVISIONS[op], a, b))


@pytest.mark.parametrize("dtype", INTEGERS, ids=NAMES.get)
def test_unary_operators_and_shifts_of_integers(dtype: torch.dtype) -> None:
    a, b = pairs(dtype)
    for op, function in [("neg", torch.neg), ("abs", torch.abs), ("sign", torch.sign), ("not", torch.bitwise_not)]:
        assert_same(interpret(f"{op} %a", a), eager(function, a))
    b = b.clamp(0, torch.iinfo(dtype).bits - 1)
    assert_same(interpret("shl %a, %b", a, b), eager(torch.bitwise_left_shift, a, b))
    assert_same(interpret("shr %a, %b", a, b), eager(torch.bitwise_right_shift, a, b))


def test_operators_of_bool() -> None:
    a, b = pairs(torch.bool)
    for op, function in [
        ("and", torch.logical_and),
        ("or", torch.logical_or),
        ("xor", torch.logical_xor),
        ("add", torch.add),
        ("mul", torch.mul),
        ("lt", torch.lt),
        ("maximum", torch.maximum),
    ]:
        assert_same(interpret(f"{op} %a, %b", a, b), eager(function, a, b))
    assert_same(interpret("not %a", a), eager(torch.logical_not, a))


@pytest.mark.parametrize("to", NAMES, ids=NAMES.get)
@pytest.mark.parametrize("dtype", NAMES, ids=NAMES.get)
def test_casts(dtype: torch.dtype, to: torch.dtype) -> None:
    x = samples(dtype, 3)
    to_integer = dtype.is_floating_point and not to.is_floating_point and to is not torch.bool
    if to_integer and DEVICE == "cpu":  # C++ leaves conversions out of range open
        x = x[(x.double().abs() < 127) & ((x > -1) | (torch.iinfo(to).min < 0))]
    assert_same(interpret(f"cast %a to {NAMES[to]}", x), eager(lambda t: t.to(to), x))


REDUCTIONS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "prod": None,
    "max": torch.amax,
    "min": torch.amin,
    "argmax": torch.argmax,
    "argmin": torch.argmin,
}


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32], ids=NAMES.get)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions(op: str, dtype: torch.dtype) -> None:
    if op == "mean" and not dtype.is_floating_point:
        pytest.skip("means are of floats")
    generator = torch.Generator().manual_seed(5)
    x = (torch.rand(6, 7, 5, generator=generator, dtype=torch.float64) * 4).to(dtype)
    there = x.to(DEVICE)
    for dim in range(3):
        for keepdim in (False, True):
            found = interpret(f"{op} %a dims [{dim}] keepdim {str(keepdim).lower()}", x)
            function = REDUCTIONS[op]
            if function is None:
                expected = torch.prod(there, dim, keepdim=keepdim, dtype=dtype)
            elif op == "sum":
                expected = torch.sum(there, dim, keepdim=keepdim, dtype=dtype)
            else:
                expected = function(there, dim, keepdim=keepdim)
            if dtype.is_floating_point and op in ("sum", "mean", "prod"):
                assert_near(found, expected.cpu(), 8)
            else:
                assert_same(found, expected.cpu())


def test_reductions_over_several_dimensions() -> None:
    x = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(6))
    assert_near(interpret("sum %a dims [0, 2] keepdim false", x), x.sum((0, 2)), 8)
    assert_same(interpret("max %a dims [0, 2] keepdim true", x), x.amax((0, 2), keepdim=True))
    assert_same(interpret("argmax %a dims [0, 1, 2] keepdim false", x), x.argmax())
    assert_same(interpret("any %a dims [1] keepdim false", x > 1), (x > 1).any(1))
    assert_same(interpret("all %a dims [1] keepdim false", x > -1), (x > -1).all(1))


@pytest.mark.parametrize(
    ("line", "function"),
    [
        ("permute %a dims [2, 0, 1]", lambda x: x.permute(2, 0, 1)),
        ("reshape %a shape [6, 10]", lambda x: x.reshape(6, 10)),
        ("slice %a dim 1 start 1 end 4 step 2", lambda x: x[:, 1:4:2]),
        ("flip %a dims [0, 2]", lambda x: x.flip(0, 2)),
        ("select %a dim 1 index 3", lambda x: x[:, 3]),
        ("unsqueeze %a dims [1]", lambda x: x.unsqueeze(1)),
        ("expand %a shape [2, 3, 4, 5]", lambda x: x.expand(2, 3, 4, 5)),
        ("concat %a, %a dim 2", lambda x: torch.cat([x, x], 2)),
    ],
)
def test_index_maps(line: str, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.arange(60.0).reshape(3, 4, 5)
    assert_same(interpret(line, x), function(x))


def test_calls_run_in_pytorch() -> None:
    text = """graph @g(%x: f32[s0, 4], %n: int = s0) {
      %y = call aten.mm.default(%x, %x) : f32[s0, 4]
      %v, %i = call aten.topk.default(%y, 2, dim=-1) : f32[s0, 2], i64[s0, 2]
      %z = call aten.cat.default([%v, %v], 1) : f32[s0, 4]
      %r = add %z, %x
      return %r, %i, s0
    }"""
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(7))
    values, indices = torch.topk(x @ x, 2)
    found = _C.interpret(text, [x, 4], {}, "eager")
    assert_same(found[0], torch.cat([values, values], 1) + x)
    assert_same(found[1], indices)
    assert found[2] == 4


def test_exact_mode_does_not_round() -> None:
    a, b = torch.tensor([1.0], dtype=torch.float32), torch.tensor([1e-9], dtype=torch.float32)
    text = "graph @g(%a: f32[1], %b: f32[1]) { %s = add %a, %b %r = sub %s, %a return %r }"
    assert _C.interpret(text, [a, b], {}, "eager")[0].item() == 0
    assert _C.interpret(text, [a, b], {}, "exact")[0].item() == pytest.approx(1e-9)


def test_inputs_that_do_not_fit() -> None:
    with pytest.raises(_C.UserError, match=r"%a is f32\[2\], given is f32\[3\]"):
        _C.interpret("graph @g(%a: f32[2]) { return %a }", [torch.zeros(3)], {}, "eager")
    with pytest.raises(_C.UserError, match="mode 'double', expected eager or exact"):
        _C.interpret("graph @g(%a: f32[2]) { return %a }", [torch.zeros(2)], {}, "double")
