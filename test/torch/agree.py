"""Runs a function eagerly and compiled, and compares everything a user can see of the two."""

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from tilewright import _C
from tilewright.explanation import short_names
from tilewright.testing.agreement import Recorder, alias_pairs, same, tensors


def made_and_left(report: dict[str, Any]) -> str:
    """Of a graph's report: the kernels in order with their origins, and how often each operator is left to PyTorch."""
    lines = [f"  kernel {k['name']}: {', '.join(short_names(k['origins']))}\n" for k in report["kernels"]]
    calls = Counter(f"{call['op']}: {call['why']}" for call in report["calls"] if not call["view"])
    return "".join(lines + [f"  {count} x call {call}\n" for call, count in sorted(calls.items())])


def compile_text(text: str, device: torch.device, hosts: Sequence[Any] = ()) -> _C.Compiled:
    """A graph's text as a plan of calls."""
    options = {"kernels": "call", "target": "" if device.type == "cuda" else "sim:sm_90a"}
    return _C.compile(text, options, list(hosts), str(torch.empty(0, device=device).device))


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
