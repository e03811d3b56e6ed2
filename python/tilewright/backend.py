"""The door: `torch.compile(model, backend="tilewright")`, through the entry point of the package."""

from __future__ import annotations

import functools
import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters

from tilewright import _C
from tilewright.attention import whole_attention
from tilewright.importer import import_fx
from tilewright.options import OptionError, Options, nearest, read_options
from tilewright.partition import partition

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def tilewright_backend(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compiles one graph that Dynamo captured."""
    check_mode(mode)
    return GraphCompiler(read_options(options)).compile(gm, example_inputs)


@dataclass
class CompiledPart:
    """One compiled graph of a call: forward, backward or inference."""

    kind: str
    text: str
    executable: Any  # of tilewright._C
    import_us: float  # time to write the text

    def report(self) -> dict[str, Any]:
        """What was made, what stayed PyTorch's and why, with the launches of each kernel up to now."""
        report: dict[str, Any] = json.loads(self.executable.report_json() or "{}")
        report["graph"] = self.kind
        phases = [("import", self.import_us), *self.executable.phases_us]
        report["phases_us"] = [{"phase": name, "us": us} for name, us in phases]
        report["launches"] = sum(count for _, _, count in self.executable.launches())
        return report


@dataclass
class GraphCompiler:
    """The compiler of one captured graph: forward and, in training, backward. `on_compiled` is told each part."""

    options: Options
    on_compiled: Callable[[CompiledPart], None] = field(default=lambda part: None)

    def compile(self, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        device = self.target_device(gm, example_inputs)
        if device is None:
            warn_once("no-gpu", NO_GPU)
            return gm.forward
        # Backward is compiled later, when PyTorch may be set otherwise.
        compile_part = functools.partial(replace(self, options=as_pytorch_is_set(self.options)).compile_part, device)
        capture = aot_autograd(
            fw_compiler=functools.partial(compile_part, "forward"),
            bw_compiler=functools.partial(compile_part, "backward"),
            inference_compiler=functools.partial(compile_part, "inference"),
            partition_fn=partition,
            keep_inference_input_mutations=True,
        )
        with whole_attention():
            return capture(gm, example_inputs)

    def target_device(self, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> torch.device | None:
        """Where the graph's kernels run: the simulator, the first GPU of the graph, or nowhere."""
        if self.options.simulated:
            return torch.device("cpu")
        for value in (*example_inputs, *gm.parameters(), *gm.buffers(), *captured_values(gm)):
            if isinstance(value, torch.Tensor) and value.device.type == "cuda":
                return value.device
        return None

    def compile_part(
        self, device: torch.device, kind: str, gm: fx.GraphModule, example_inputs: Sequence[Any]
    ) -> Callable[[list[Any]], Sequence[Any]]:
        try:
            start = time.perf_counter()
            graph = import_fx(gm, device, kind)
            import_us = (time.perf_counter() - start) * 1e6
            executable = _C.compile(graph.text, self.options.as_strings(), list(graph.hosts), str(device))
        except Exception as error:
            if self.options.strict:
                raise
            return left_to_pytorch(kind, gm, error)
        part = CompiledPart(kind, graph.text, executable, import_us)
        counters["tilewright"]["graphs"] += 1
        if self.options.report:
            append_report(Path(self.options.report), part)
        self.on_compiled(part)
        return executable.boxed(graph.constants, graph.outputs)


NO_GPU = (
    "tilewright: the graph has no tensor on a GPU, so PyTorch runs it; move the model to a GPU, or compile for the "
    'simulator with options={"target": "sim:sm_90a"} or TILEWRIGHT_TARGET=sim:sm_90a'
)


def as_pytorch_is_set(options: Options) -> Options:
    """The options with those that follow PyTorch's switches settled."""
    if options.float32_matmul:
        return options
    allows_tf32 = torch.backends.cuda.matmul.fp32_precision == "tf32"
    return replace(options, float32_matmul="tf32" if allows_tf32 else "ieee")


def captured_values(gm: fx.GraphModule) -> list[Any]:
    """Example values of the operators, for a graph whose inputs do not say where it runs."""
    return [node.meta.get("example_value") for node in gm.graph.nodes]


def left_to_pytorch(kind: str, gm: fx.GraphModule, error: Exception) -> Callable[[list[Any]], Sequence[Any]]:
    """The graph as PyTorch runs it, operator by operator, with one warning."""
    counters["tilewright"]["left_to_pytorch"] += 1
    warn_once(
        f"failed {error}",
        f"tilewright: compiling the {kind} graph failed, so PyTorch runs it; TILEWRIGHT_STRICT=1 makes this an error\n"
        f"  {type(error).__name__}: {error}",
    )

    def run(args: list[Any]) -> Sequence[Any]:
        values = list(args)
        args.clear()
        return gm(*values)  # type: ignore[no-any-return]

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def append_report(path: Path, part: CompiledPart) -> None:
    with path.open("a") as file:
        file.write(json.dumps(part.report()) + "\n")


def check_mode(mode: str | None) -> None:
    if mode is None or mode == "default":
        return
    if mode not in MODES:
        raise OptionError(f"tilewright: unknown mode {mode!r}{nearest(mode, MODES)}")
    warn_once(f"mode {mode}", f'tilewright: mode="{mode}" runs as the default for now')


_warned: set[str] = set()


def warn_once(key: str, text: str) -> None:
    if key not in _warned:
        _warned.add(key)
        warnings.warn(text, stacklevel=2)
