"""Python values as Graph IR text (docs/graph-ir.md): types, literals, size expressions, locations."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import sympy
import torch
from torch.utils._sympy.functions import CeilDiv, CleanDiv, FloorDiv, Identity, Max, Min, Mod, PowByNatural, PythonMod
from torch.utils._sympy.singleton_int import SingletonInt

ELEMENT_TYPES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "f8e4m3",
    torch.float8_e5m2: "f8e5m2",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
    torch.complex32: "c32",
    torch.complex64: "c64",
    torch.complex128: "c128",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
}
LONGEST_POWER = 8
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class Inexpressible(Exception):
    """A value that the text has no form for; its user becomes a host step."""


ESCAPES = str.maketrans(
    {chr(code): f"\\x{code:02x}" for code in (*range(32), 127)}
    | {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
)


def quoted(text: str) -> str:
    return f'"{text.translate(ESCAPES)}"'


def float_text(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(float(value))


def int_text(value: int) -> str:
    if not INT64_MIN <= value <= INT64_MAX:
        raise Inexpressible(f"integer {value} does not fit into 64 bits")
    return str(value)


def literal_text(value: Any) -> str:
    """A constant argument of a call."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int_text(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, complex):
        return f"complex({float_text(value.real)}, {float_text(value.imag)})"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, torch.dtype):
        return f"dtype({ELEMENT_TYPES.get(value) or str(value).removeprefix('torch.')})"
    if isinstance(value, torch.device):
        return f"device({quoted(str(value))})"
    if isinstance(value, (torch.layout, torch.memory_format)):
        return f"{type(value).__name__}({str(value).removeprefix('torch.')})"
    raise Inexpressible(f"an argument of type {type(value).__name__}")


def expr_text(expr: sympy.Expr) -> str:
    """A size expression; raises Inexpressible for what the text has no form for (rationals, conditions, floats)."""
    if isinstance(expr, sympy.Integer):
        return int_text(int(expr))
    if isinstance(expr, sympy.Symbol):
        return symbol_name(expr)
    if isinstance(expr, sympy.Add):
        return " + ".join(expr_text(term) for term in sorted_terms(expr.args))
    if isinstance(expr, sympy.Mul):
        return "*".join(factor_text(factor) for factor in sorted_terms(expr.args))
    if isinstance(expr, (sympy.Pow, PowByNatural)):
        base, exponent = expr.args
        if isinstance(exponent, sympy.Integer) and 1 <= int(exponent) <= LONGEST_POWER:
            return "*".join([factor_text(base)] * int(exponent))
    if isinstance(expr, (FloorDiv, CleanDiv)):
        return f"floordiv({expr_text(expr.args[0])}, {expr_text(expr.args[1])})"
    if isinstance(expr, CeilDiv):
        a, b = (factor_text(arg) for arg in expr.args)
        return f"floordiv({a} + {b} + -1, {b})"
    if isinstance(expr, (Mod, PythonMod)):
        return f"mod({expr_text(expr.args[0])}, {expr_text(expr.args[1])})"
    if isinstance(expr, (Max, Min, sympy.Max, sympy.Min)):
        name = "max" if isinstance(expr, (Max, sympy.Max)) else "min"
        first, *rest = (expr_text(arg) for arg in sorted_terms(expr.args))
        for arg in rest:
            first = f"{name}({first}, {arg})"
        return first
    if isinstance(expr, Identity):
        return expr_text(expr.args[0])
    raise Inexpressible(f"the size {expr}")


def symbol_name(symbol: sympy.Symbol) -> str:
    """PyTorch's name of a symbol, unless it is an element type's, as `u8` is."""
    name = str(symbol.name)
    return f"{name}_" if name in ELEMENT_TYPES.values() else name


def factor_text(expr: sympy.Expr) -> str:
    text = expr_text(expr)
    return f"({text})" if isinstance(expr, sympy.Add) else text


def sorted_terms(args: Sequence[sympy.Expr]) -> list[sympy.Expr]:
    """SymPy's order of arguments depends on hashes; the text's does not."""
    return sorted(args, key=sympy.default_sort_key)


def int_expr(value: int | torch.SymInt) -> sympy.Expr:
    return value.node.expr if isinstance(value, torch.SymInt) else sympy.Integer(value)


def is_size(value: Any) -> bool:
    """An integer with a value; the length of a nested tensor's ragged dimension has none."""
    if isinstance(value, bool) or not isinstance(value, (int, torch.SymInt)):
        return False
    return not isinstance(value, torch.SymInt) or not isinstance(value.node._hint, (torch.SymInt, SingletonInt))


def is_plain_tensor(value: Any) -> TypeGuard[torch.Tensor]:
    """A tensor whose memory is described by sizes and strides: not sparse, nested, quantized or of a subclass."""
    return (
        isinstance(value, torch.Tensor)
        and value.layout is torch.strided
        and not value.is_quantized
        and not value.is_nested
        and value.dtype in ELEMENT_TYPES
        and not value.is_conj()
        and not value.is_neg()
        and value.device.type != "meta"
    )


@dataclass(frozen=True)
class TypePrinter:
    """Types of values, for a graph whose target is `device`; sizes go through `size_text`. With `origin`, the place in
    its storage from which offsets count, a type says where the tensor starts."""

    device: torch.device
    size_text: Callable[[int | torch.SymInt], str]

    def text(self, value: Any, *, origin: int | torch.SymInt | None = None) -> str:
        if value is None:
            return "none"
        if isinstance(value, torch.Tensor):
            return self.tensor(value, origin) if is_plain_tensor(value) else "opaque"
        if isinstance(value, (bool, torch.SymBool)):
            return "bool"
        if is_size(value):
            return f"int = {self.size_text(value)}"
        if isinstance(value, (float, torch.SymFloat)):
            return "float"
        return "str" if isinstance(value, str) else "opaque"

    def tensor(self, value: torch.Tensor, origin: int | torch.SymInt | None) -> str:
        shape = ", ".join(self.size_text(size) for size in value.shape)
        text = f"{ELEMENT_TYPES[value.dtype]}[{shape}]"
        if value.dim() > 0:
            text += f" strides [{', '.join(self.size_text(stride) for stride in value.stride())}]"
        if origin is not None and (start := self.size_text(value.storage_offset() - origin)) != "0":
            text += f" offset {start}"
        return text + self.place(value.device)

    def place(self, device: torch.device) -> str:
        if device.type == self.device.type and (device.index or 0) == (self.device.index or 0):
            return ""
        return " host" if device.type == "cpu" else f" device {quoted(str(device))}"


@dataclass(frozen=True)
class Location:
    """Where an operator stands in the user's program."""

    file: str
    line: int
    code: str

    def text(self, op: str) -> str:
        return f"{quoted(self.file)}:{self.line} {quoted(self.code)} {op}"


FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in .*\n(?P<code>.*)$', re.MULTILINE)
TORCH_FOLDER = str(Path(torch.__file__).parent)


def user_location(stack_trace: str | None) -> Location:
    """The innermost line outside PyTorch itself, or the innermost one."""
    frames = [m for m in FRAME.finditer(stack_trace or "")]
    if not frames:
        return Location("", 0, "")
    own = [frame for frame in frames if not frame["file"].startswith(TORCH_FOLDER)]
    frame = (own or frames)[-1]
    return Location(frame["file"], int(frame["line"]), frame["code"].strip())
