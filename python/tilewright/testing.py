"""Running Graph IR text from Python: kernels on the simulator or GPU, held against PyTorch's own operators."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from tilewright import _C
from tilewright.graph_text import ELEMENT_TYPES
from tilewright.options import Options, read_options

DTYPES = {name: dtype for dtype, name in ELEMENT_TYPES.items()}
HEADER = re.compile(r"^graph @\S+?\((?P<parameters>.*?)\) -> ", re.MULTILINE | re.DOTALL)
PARAMETER = re.compile(
    r"%(?P<name>\w+): (?P<type>\w+)(?:\[(?P<shape>.*?)\])?(?: strides \[(?P<strides>.*?)\])?(?: = (?P<value>.*))?"
)
SIZE_FUNCTIONS = {"floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": min, "max": max}
# Operators of graphs captured on a GPU that have no kernel for CPU tensors, and those that stand in for them.
STAND_INS = {
    "aten.cudnn_batch_norm.default": "tilewright_testing.cudnn_batch_norm.default",
    "aten.cudnn_batch_norm_backward.default": "tilewright_testing.cudnn_batch_norm_backward.default",
}


@dataclass(frozen=True)
class TextRun:
    """What the compiled text gave, what PyTorch's operators gave, and the report of the compile."""

    outputs: list[Any]
    expected: list[Any]
    kernels: list[str]
    calls: list[str]


def run_text(
    text: str,
    sizes: Mapping[str, int] | None = None,
    inputs: Sequence[Any] | None = None,
    seed: int = 0,
    **options: Any,
) -> TextRun:
    """Compiles a graph for the simulator (or the target in `options`) with the symbols' values in `sizes`, runs it on
    random inputs, and runs the same text as calls of PyTorch only."""
    chosen = read_options({"target": "sim:sm_90a", "kernels": "generate", "strict": True, **options})
    if re.search(r"= host \d+\(", text):
        raise ValueError("the text has a host step, whose Python code is not part of it")
    text = with_stand_ins(text)
    values = list(inputs) if inputs is not None else make_inputs(text, sizes or {}, seed)
    expected = run_once(text, replace(chosen, kernels="call"), values)
    compiled = compile_text(text, chosen)
    outputs = compiled([clone(value) for value in values])
    plan = compiled.plan_text()
    return TextRun(
        outputs,
        expected,
        re.findall(r'= launch "([^"]*)"', plan),
        re.findall(r"(?m)^ +(?:\S.* = )?call (\S+?)\(", plan),
    )


def compile_text(text: str, options: Options) -> _C.Compiled:
    return _C.compile(text, options.as_strings(), [], "cpu" if options.simulated else "cuda:0")


def run_once(text: str, options: Options, values: Sequence[Any]) -> list[Any]:
    return compile_text(text, options)([clone(value) for value in values])


def clone(value: Any) -> Any:
    """A copy with the same strides, overlapping ones too, so that a run does not see another's writes."""
    if not isinstance(value, torch.Tensor):
        return value
    size = value.untyped_storage().nbytes() // value.element_size()
    whole = value.as_strided((size,), (1,), 0).clone()
    return whole.as_strided(value.shape, value.stride(), value.storage_offset())


def with_stand_ins(text: str) -> str:
    for name, stand_in in STAND_INS.items():
        text = text.replace(f"call {name}(", f"call {stand_in}(")
    return text


def size_value(text: str, sizes: Mapping[str, int]) -> int:
    """The value of a size expression, whose grammar is a part of Python's."""
    return int(eval(text, {"__builtins__": {}, **SIZE_FUNCTIONS}, dict(sizes)))


def make_inputs(text: str, sizes: Mapping[str, int], seed: int) -> list[Any]:
    """Random values for the parameters of a graph: small numbers, so that products of matrices stay in range."""
    found = HEADER.search(text)
    if found is None:
        raise ValueError("the text has no line `graph @name(...) -> ...`")
    hints = {name: int(hint) for name, hint in re.findall(r"[(,] ?(\w+) = (\d+)(?: in| div|,|\))", symbols_line(text))}
    generator = torch.Generator().manual_seed(seed)
    matches = [PARAMETER.match(parameter) for parameter in split_list(found["parameters"])]
    return [make_input(match, {**hints, **sizes}, generator) for match in matches if match]


def symbols_line(text: str) -> str:
    found = re.search(r"^  symbols (\(.*\))$", text, re.MULTILINE)
    return found[1] if found else ""


def make_input(parameter: re.Match[str], sizes: Mapping[str, int], generator: torch.Generator) -> Any:
    kind = parameter["type"]
    if kind == "int":
        return size_value(parameter["value"], sizes)
    if kind in ("float", "bool") and parameter["shape"] is None:
        return 0.5 if kind == "float" else True
    if kind not in DTYPES:
        raise ValueError(f"no random value for parameter %{parameter['name']} of type {kind}")
    dtype = DTYPES[kind]
    shape = [size_value(size, sizes) for size in split_list(parameter["shape"])]
    strides = [size_value(stride, sizes) for stride in split_list(parameter["strides"] or "")]
    if len(strides) != len(shape) or 0 in shape:
        return random_values(shape, dtype, generator)
    size = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    return random_values([size], dtype, generator).as_strided(shape, strides)


def random_values(shape: list[int], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.rand(shape, generator=generator) > 0.3
    if dtype.is_floating_point or dtype.is_complex:
        return (torch.randn(shape, generator=generator) * 0.5).to(dtype)
    return torch.randint(0, 4, shape, generator=generator).to(dtype)


def split_list(text: str) -> list[str]:
    """The elements of a list: commas inside parentheses and brackets do not count."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


# ---- stand-ins ----

library = torch.library.Library("tilewright_testing", "DEF")  # type: ignore[no-untyped-call]
library.define(  # type: ignore[no-untyped-call]
    "cudnn_batch_norm(Tensor input, Tensor weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
    "bool training, float average, float epsilon) -> (Tensor, Tensor, Tensor, Tensor)"
)
library.define(  # type: ignore[no-untyped-call]
    "cudnn_batch_norm_backward(Tensor input, Tensor grad_output, Tensor weight, Tensor? running_mean, "
    "Tensor? running_var, Tensor? save_mean, Tensor? save_var, float epsilon, Tensor reserve) "
    "-> (Tensor, Tensor, Tensor)"
)


def batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, average: float, epsilon: float
) -> tuple[torch.Tensor, ...]:
    out, saved_mean, saved_scale = torch.native_batch_norm(x, weight, bias, mean, variance, training, average, epsilon)
    return out, saved_mean, saved_scale, torch.empty(0, dtype=torch.uint8)


def batch_norm_backward(
    x: Any, grad: Any, weight: Any, mean: Any, variance: Any, saved_mean: Any, saved_scale: Any, epsilon: float, _: Any
) -> tuple[torch.Tensor, ...]:
    result: tuple[torch.Tensor, ...] = torch.ops.aten.native_batch_norm_backward(
        grad.contiguous(), x, weight, mean, variance, saved_mean, saved_scale, True, epsilon, [True, True, True]
    )
    return result


library.impl("cudnn_batch_norm", batch_norm, "CPU")  # type: ignore[no-untyped-call]
library.impl("cudnn_batch_norm_backward", batch_norm_backward, "CPU")  # type: ignore[no-untyped-call]
