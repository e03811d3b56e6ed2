"""`tilewright.check(model)(*inputs)`: how far eager and Tilewright are from float64, and where they part first."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves, tree_map

from tilewright import _C
from tilewright.backend import GraphCompiler
from tilewright.explanation import table
from tilewright.graph_text import is_plain_tensor, user_location
from tilewright.importer import import_fx, target_name
from tilewright.options import read_options

RESULT_OF_WRITING = {torch.ops.aten.copy_.default}


@dataclass(frozen=True)
class OutputError:
    """Largest distances from float64, as parts of the output's largest float64 value. NaN where float64 could not be
    computed or has another shape."""

    output: int
    eager: float
    tilewright: float


@dataclass(frozen=True)
class Parting:
    """The first operator, in the order of the program, whose result differs by more than PyTorch's tolerances."""

    operator: str
    place: str  # of the user's program
    difference: str


@dataclass(frozen=True)
class Check:
    outputs: tuple[OutputError, ...]
    parting: Parting | None

    def __str__(self) -> str:
        rows = [[f"{o.eager:.2e}", f"{o.tilewright:.2e}", str(o.output)] for o in self.outputs]
        lines = ["Largest error against float64, of the largest value", *table(["eager", "Tilewright", "output"], rows)]
        if self.parting is None:
            return "\n".join([*lines, "", "No operator differs from eager's."])
        where = f"They part at {self.parting.operator}{self.parting.place}:"
        return "\n".join([*lines, "", where, self.parting.difference])

    __repr__ = __str__


@dataclass
class InputRecorder(GraphCompiler):
    """Keeps each compiled graph with what it was called with."""

    runs: list[tuple[Any, fx.GraphModule, list[Any]]] = field(default_factory=list)

    def compile_part(self, device: Any, kind: str, gm: fx.GraphModule, example_inputs: Any) -> Any:
        compiled = super().compile_part(device, kind, gm, example_inputs)
        graph = copy.deepcopy(gm.graph)

        def run(args: list[Any]) -> Any:
            self.runs.append((device, fx.GraphModule(gm, graph), [copied(arg) for arg in args]))
            return compiled(args)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run


def check(fn: Callable[..., Any], **options: Any) -> Callable[..., Check]:
    """Runs `fn` without gradients: eagerly, compiled, and in float64, each from the same random state and on copies of
    the inputs (and of `fn`, where it is a module)."""

    def run(*inputs: Any, **named: Any) -> Check:
        compiler = InputRecorder(read_options(options))
        runs = [
            outputs_of(fn, inputs, named, wrap)
            for wrap in (lambda f: f, lambda f: torch.compile(f, backend=compiler.compile))
        ]
        exact = exact_outputs(fn, inputs, named)
        errors = [
            OutputError(i, error_of(eager, wide), error_of(compiled, wide))
            for i, (eager, compiled, wide) in enumerate(zip(*runs, exact or runs[0], strict=True))
            if isinstance(eager, torch.Tensor)
        ]
        if exact is None:
            errors = [OutputError(e.output, float("nan"), float("nan")) for e in errors]
        with torch.no_grad():
            partings = (parting_of(compiler, *recorded) for recorded in compiler.runs)
            return Check(tuple(errors), next((parting for parting in partings if parting), None))

    return run


# ---- outputs ----


@contextmanager
def same_random_state() -> Iterator[None]:
    with torch.random.fork_rng(), torch.no_grad():
        yield


def outputs_of(fn: Any, inputs: Any, named: Any, wrap: Callable[[Any], Any]) -> list[Any]:
    own = copy.deepcopy(fn) if isinstance(fn, torch.nn.Module) else fn
    args, kwargs = tree_map(copied, (inputs, named))
    with same_random_state():
        return tree_leaves(wrap(own)(*args, **kwargs))


def exact_outputs(fn: Any, inputs: Any, named: Any) -> list[Any] | None:
    """In float64; nothing where `fn` mixes float64 with narrower tensors of its own, which PyTorch may refuse."""
    try:
        widen = (lambda f: f.double()) if isinstance(fn, torch.nn.Module) else (lambda f: f)
        wide_inputs, wide_named = tree_map(widened, (inputs, named))
        return outputs_of(fn, wide_inputs, wide_named, widen)
    except RuntimeError:
        return None


def copied(value: Any) -> Any:
    return value.detach().clone() if is_plain_tensor(value) else value


def widened(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def error_of(found: Any, exact: Any) -> float:
    if not isinstance(exact, torch.Tensor) or found.shape != exact.shape or found.numel() == 0:
        return float("nan")
    wide = exact.to(torch.complex128 if exact.is_complex() else torch.float64)
    both = wide.isfinite() & found.isfinite()
    if not torch.equal(wide.isnan(), found.isnan()) or not both.any():
        return float("nan")
    largest = wide[both].abs().max()
    return float((found.to(wide.dtype) - wide)[both].abs().max() / (largest if largest > 0 else 1))


# ---- operators ----


def parting_of(compiler: GraphCompiler, device: Any, gm: fx.GraphModule, inputs: list[Any]) -> Parting | None:
    """Every operator's result, by PyTorch and by a graph that returns them all. What a result is does not depend on
    which others are returned."""
    watched = [node for node in gm.graph.nodes if is_watched(node)]
    gm.graph.output_node().args = (tuple(watched),)
    imported = import_fx(gm, device, "check")
    executable = _C.compile(imported.text, compiler.options.as_strings(), list(imported.hosts), str(device))
    with same_random_state():
        found = executable.boxed(imported.constants, imported.outputs)([copied(value) for value in inputs])
    with same_random_state():
        eager = fx.Interpreter(gm).run(*(copied(value) for value in inputs))
    for node, ours, theirs in zip(watched, found, eager, strict=True):
        try:
            torch.testing.assert_close(ours, theirs, equal_nan=True)
        except AssertionError as error:
            return Parting(target_name(node), place_of(node), str(error).strip())
    return None


def is_watched(node: fx.Node) -> bool:
    computes = node.op == "call_function" and node.target not in RESULT_OF_WRITING
    return computes and is_plain_tensor(node.meta.get("val"))


def place_of(node: fx.Node) -> str:
    location = user_location(node.meta.get("stack_trace"))
    return f"  {location.file}:{location.line}  {location.code}" if location.file else ""
