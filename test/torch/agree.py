"""Runs a function eagerly and compiled, and compares everything a user can see of the two."""

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from tilewright import _C
from tilewright.backend import GraphCompiler
from tilewright.explanation import short_names
from tilewright.options import read_options
from torch.utils._pytree import tree_leaves


class Recorder:
    """A backend for torch.compile that keeps what was compiled."""

    def __init__(self, **options: Any) -> None:
        self.parts: list[Any] = []
        self.options = options

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        return GraphCompiler(read_options(self.options), self.parts.append).compile(gm, example_inputs)

    @property
    def texts(self) -> list[str]:
        return [part.text for part in self.parts]

    def operators(self) -> list[str]:
        """Names of the operators as captured, in order."""
        lines = [line.split() for text in self.texts for line in text.splitlines()]
        return [words[words.index("call") + 1].split("(")[0] for words in lines if "call" in words]


def made_and_left(report: dict[str, Any]) -> str:
    """Of a graph's report: the kernels in order with their origins, and how often each operator is left to PyTorch."""
    lines = [f"  kernel {k['name']}: {', '.join(short_names(k['origins']))}\n" for k in report["kernels"]]
    calls = Counter(f"{call['op']}: {call['why']}" for call in report["calls"] if not call["view"])
    return "".join(lines + [f"  {count} x call {call}\n" for call, count in sorted(calls.items())])


def compile_text(text: str, device: torch.device, hosts: Sequence[Any] = ()) -> _C.Compiled:
    """A graph's text as a plan of calls."""
    options = {"kernels": "call", "target": "" if device.type == "cuda" else "sim:sm_90a"}
    return _C.compile(text, options, list(hosts), str(torch.empty(0, device=device).device))


def tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def storages(values: Any) -> list[int]:
    return [t.untyped_storage().data_ptr() for t in tensors(values) if t.layout is torch.strided]


def alias_pairs(outputs: Any, inputs: Any) -> list[tuple[int, int]]:
    return [(i, j) for i, a in enumerate(storages(outputs)) for j, b in enumerate(storages(inputs)) if a == b and a]


def same_tensor(eager: torch.Tensor, compiled: torch.Tensor, what: str, **tolerance: float) -> None:
    assert eager.dtype == compiled.dtype, what
    assert eager.shape == compiled.shape, what
    assert eager.device == compiled.device, what
    assert eager.requires_grad == compiled.requires_grad, what
    assert eager.layout == compiled.layout, what
    if eager.layout is torch.strided and eager.numel() > 0:
        strides = [(a, b) for n, a, b in zip(eager.shape, eager.stride(), compiled.stride(), strict=True) if n > 1]
        assert all(a == b for a, b in strides), f"{what}: strides {eager.stride()}, compiled {compiled.stride()}"
    torch.testing.assert_close(compiled, eager, equal_nan=True, **tolerance, msg=lambda text: f"{what}: {text}")


def same(eager: Any, compiled: Any, what: str, **tolerance: float) -> None:
    left, right = tree_leaves(eager), tree_leaves(compiled)
    assert len(left) == len(right), what
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        assert type(a) is type(b), f"{what} {i}: {type(a)}, compiled {type(b)}"
        if isinstance(a, torch.Tensor):
            same_tensor(a, b, f"{what} {i}", **tolerance)
        else:
            assert a == b, f"{what} {i}: {a}, compiled {b}"


def loss_of(outputs: Any) -> torch.Tensor:
    parts = [t.double() for t in tensors(outputs) if t.requires_grad]
    return sum((t * torch.linspace(0.5, 1.5, t.numel(), device=t.device).reshape(t.shape)).sum() for t in parts)


def run(fn: Callable[..., Any], args: tuple[Any, ...], backward: bool) -> Any:
    torch.manual_seed(7)
    with nullcontext() if backward else torch.no_grad():
        outputs = fn(*args)
        if backward:
            loss_of(outputs).backward()
    return outputs


def gradients(fn: Any, args: tuple[Any, ...]) -> list[torch.Tensor | None]:
    leaves = [t for t in tensors(args) if t.requires_grad]
    return [t.grad for t in leaves + list(fn.parameters() if isinstance(fn, torch.nn.Module) else [])]


def clone_inputs(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return copy.deepcopy(args)


def agrees(
    fn: Callable[..., Any],
    *args: Any,
    backward: bool = False,
    calls: int = 2,
    dynamic: bool | None = None,
    recorder: Recorder | None = None,
    fullgraph: bool = True,
    **tolerance: float,
) -> Recorder:
    """Outputs, their dtypes, strides and aliases, inputs after the call, buffers and gradients are eager's."""
    recorder = recorder or Recorder()
    eager_fn, plain_fn = (copy.deepcopy(fn), copy.deepcopy(fn)) if isinstance(fn, torch.nn.Module) else (fn, fn)
    compiled_fn = torch.compile(plain_fn, backend=recorder, dynamic=dynamic, fullgraph=fullgraph)
    for call in range(calls):
        eager_args, compiled_args = clone_inputs(args), clone_inputs(args)
        eager = run(eager_fn, eager_args, backward)
        compiled = run(compiled_fn, compiled_args, backward)
        same(eager, compiled, f"call {call}: output", **tolerance)
        assert alias_pairs(eager, eager_args) == alias_pairs(compiled, compiled_args), "aliases with inputs"
        same(eager_args, compiled_args, f"call {call}: input", **tolerance)
        if isinstance(fn, torch.nn.Module):
            same(list(eager_fn.buffers()), list(plain_fn.buffers()), f"call {call}: buffer", **tolerance)
        if backward:
            same(
                gradients(eager_fn, eager_args),
                gradients(plain_fn, compiled_args),
                f"call {call}: gradient",
                **tolerance,
            )
    assert recorder.parts, "nothing was compiled"
    return recorder
