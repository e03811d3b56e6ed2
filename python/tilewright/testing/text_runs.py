"""Running Graph IR text from Python: kernels on the simulator or a GPU, held against the interpreter of Graph IR."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    "aten._scaled_dot_product_cudnn_attention.default": "tilewright_testing.cudnn_attention.default",
    "aten._scaled_dot_product_cudnn_attention_backward.default": "tilewright_testing.cudnn_attention_backward.default",
}


@dataclass(frozen=True)
class TextRun:
    """What the compiled text gave, what the interpreter gave, and what the plan runs."""

    outputs: list[Any]
    expected: list[Any]
    kernels: list[str]
    calls: list[str]


def run_text(
    text: str,
    sizes: Mapping[str, int] | None = None,
    inputs: Sequence[Any] | None = None,
    seed: int = 0,
    integers: int = 2,
    **options: Any,
) -> TextRun:
    """Compiles a graph for the simulator (or the target in `options`) with the symbols' values in `sizes`, and runs it
    on random inputs. Expected is what the interpreter makes of the graph after the passes, whose calls run through
    PyTorch on the CPU. Integer inputs lie below `integers`: they may be rows of a table."""
    chosen = read_options({"target": "sim:sm_90a", "kernels": "generate", "strict": True, **options})
    if re.search(r"= host \d+\(", text):
        raise ValueError("the text has a host step, whose Python code is not part of it")
    text = with_stand_ins(text)
    values = list(inputs) if inputs is not None else make_inputs(text, sizes or {}, seed, integers)
    torch.manual_seed(seed)
    passed = text if chosen.kernels == "call" else _C.after_passes(text, chosen.as_strings())
    expected = _C.interpret(passed, [clone(value) for value in values], {}, "eager")
    compiled = compile_text(text, chosen)
    torch.manual_seed(seed)
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


def make_inputs(text: str, sizes: Mapping[str, int], seed: int, integers: int = 2) -> list[Any]:
    """Random values for the parameters of a graph, such that products of matrices stay in range."""
    found = HEADER.search(text)
    if found is None:
        raise ValueError("the text has no line `graph @name(...) -> ...`")
    hints = {name: int(hint) for name, hint in re.findall(r"[(,] ?(\w+) = (\d+)(?: in| div|,|\))", symbols_line(text))}
    generator = torch.Generator().manual_seed(seed)
    matches = [PARAMETER.match(parameter) for parameter in split_list(found["parameters"])]
    return [make_input(match, {**hints, **sizes}, generator, integers) for match in matches if match]


def symbols_line(text: str) -> str:
    found = re.search(r"^  symbols (\(.*\))$", text, re.MULTILINE)
    return found[1] if found else ""


def make_input(parameter: re.Match[str], sizes: Mapping[str, int], generator: torch.Generator, integers: int) -> Any:
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
    # A matrix keeps the size of what it multiplies.
    scale = min(0.5, max(shape) ** -0.5) if len(shape) == 2 and 0 not in shape else 0.5
    if len(strides) != len(shape) or 0 in shape:
        return random_values(shape, dtype, generator, integers, scale)
    size = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    return random_values([size], dtype, generator, integers, scale).as_strided(shape, strides)


def random_values(
    shape: list[int], dtype: torch.dtype, generator: torch.Generator, integers: int, scale: float
) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.rand(shape, generator=generator) > 0.3
    if dtype.is_floating_point or dtype.is_complex:
        return (torch.randn(shape, generator=generator) * scale).to(dtype)
    return torch.randint(0, integers, shape, generator=generator).to(dtype)


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
StandIn = Callable[..., tuple[Any, ...]]


def stand_in(schema: str) -> Callable[[StandIn], StandIn]:
    """Makes a function the CPU kernel of an operator of this schema."""

    def register(function: StandIn) -> StandIn:
        library.define(schema)  # type: ignore[no-untyped-call]
        library.impl(schema.partition("(")[0], function, "CPU")  # type: ignore[no-untyped-call]
        return function

    return register


@stand_in(
    "cudnn_batch_norm(Tensor input, Tensor weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
    "bool training, float average, float epsilon) -> (Tensor, Tensor, Tensor, Tensor)"
)
def batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, average: float, epsilon: float
) -> tuple[Any, ...]:
    out, saved_mean, saved_scale = torch.native_batch_norm(x, weight, bias, mean, variance, training, average, epsilon)
    return out, saved_mean, saved_scale, torch.empty(0, dtype=torch.uint8)


@stand_in(
    "cudnn_batch_norm_backward(Tensor input, Tensor grad_output, Tensor weight, Tensor? running_mean, "
    "Tensor? running_var, Tensor? save_mean, Tensor? save_var, float epsilon, Tensor reserve) "
    "-> (Tensor, Tensor, Tensor)"
)
def batch_norm_backward(
    x: Any, grad: Any, weight: Any, mean: Any, variance: Any, saved_mean: Any, saved_scale: Any, epsilon: float, _: Any
) -> tuple[Any, ...]:
    result: tuple[Any, ...] = torch.ops.aten.native_batch_norm_backward(
        grad.contiguous(), x, weight, mean, variance, saved_mean, saved_scale, True, epsilon, [True, True, True]
    )
    return result


def attention_scores(query: Any, key: Any, bias: Any, causal: bool, scale: float | None) -> tuple[torch.Tensor, float]:
    """What softmax sees of attention, in float32, and the scale used; key heads serve groups of query heads."""
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query.float() @ grouped(key, query).float().transpose(-1, -2) * factor
    if bias is not None:
        scores = scores + bias.float()
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    return scores, factor


def grouped(key: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)


@stand_in(
    "cudnn_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, "
    "float dropout_p=0.0, bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) "
    "-> (Tensor, Tensor, Tensor?, Tensor?, SymInt, SymInt, Tensor, Tensor, Tensor?)"
)
def attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    _log_sums: bool,
    _dropout: float = 0.0,
    causal: bool = False,
    _debug: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """Without dropout: whose bits cuDNN drops is its own affair."""
    scores, _ = attention_scores(query, key, bias, causal, scale)
    out = (scores.softmax(-1) @ grouped(value, query).float()).to(query.dtype)
    seed = torch.zeros((), dtype=torch.int64)
    sums = scores.logsumexp(-1, keepdim=True)
    return out, sums, None, None, query.shape[2], key.shape[2], seed, seed.clone(), None


@stand_in(
    "cudnn_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, "
    "Tensor philox_seed, Tensor philox_offset, Tensor? attn_bias, Tensor? cum_seq_q, Tensor? cum_seq_k, SymInt max_q, "
    "SymInt max_k, float dropout_p, bool is_causal, *, float? scale=None) -> (Tensor, Tensor, Tensor)"
)
def attention_backward(
    grad: Any,
    query: Any,
    key: Any,
    value: Any,
    _out: Any,
    _log_sums: Any,
    _seed: Any,
    _offset: Any,
    bias: Any,
    _starts_q: Any,
    _starts_k: Any,
    _max_q: int,
    _max_k: int,
    _dropout: float,
    causal: bool,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """From the scores again, since a corpus graph's saved results are random numbers here."""
    scores, factor = attention_scores(query, key, bias, causal, scale)
    weights, grad = scores.softmax(-1), grad.float()
    by_weight = grad @ grouped(value, query).float().transpose(-1, -2)
    by_score = weights * (by_weight - (by_weight * weights).sum(-1, keepdim=True)) * factor

    def summed(by_head: torch.Tensor) -> torch.Tensor:
        batch, _, length, size = by_head.shape
        return by_head.reshape(batch, key.shape[1], -1, length, size).sum(2).to(key.dtype)

    by_query = (by_score @ grouped(key, query).float()).to(query.dtype)
    return by_query, summed(by_score.transpose(-1, -2) @ query.float()), summed(weights.transpose(-1, -2) @ grad)
