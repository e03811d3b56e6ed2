"""`tilewright.explain(fn)(*inputs)`: what becomes kernels, what stays PyTorch's, why, and how long each should take."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tilewright.backend import CompiledPart, GraphCompiler
from tilewright.options import read_options

Record = dict[str, Any]


@dataclass(frozen=True)
class Explanation:
    """The reports of all graphs that one call compiled. `print` it, or read the records."""

    graphs: tuple[Record, ...]

    @property
    def kernels(self) -> list[Record]:
        """One record a kernel launch, in the order in which they run."""
        return self.gather("kernels")

    @property
    def calls(self) -> list[Record]:
        """One record an operator that stayed PyTorch's and moves data; views are left out."""
        return [call for call in self.gather("calls") if not call.get("view")]

    @property
    def decisions(self) -> list[Record]:
        """One record a fusion made or refused."""
        return self.gather("decisions")

    def gather(self, key: str) -> list[Record]:
        return [{"graph": graph["graph"], **record} for graph in self.graphs for record in graph.get(key, ())]

    def phases_us(self) -> dict[str, float]:
        """Compile time by phase over all graphs."""
        total: dict[str, float] = {}
        for graph in self.graphs:
            for row in graph.get("phases_us", ()):
                total[row["phase"]] = total.get(row["phase"], 0.0) + row["us"]
        return total

    def to_json(self) -> str:
        return json.dumps({"graphs": self.graphs}, indent=1)

    def __str__(self) -> str:
        parts = [self.headline(), *self.kernel_rows(), *self.call_rows(), *self.decision_rows(), *self.phase_rows()]
        return "\n".join(parts)

    __repr__ = __str__

    # ---- the table ----

    def headline(self) -> str:
        ours = sum(graph.get("predicted", {}).get("total_us", 0.0) for graph in self.graphs)
        eager = sum(graph.get("eager_us", 0.0) for graph in self.graphs)
        gpus = sorted({graph["gpu"] for graph in self.graphs if "gpu" in graph})
        graphs = f"{len(self.graphs)} graph" + ("" if len(self.graphs) == 1 else "s")
        text = f"{len(self.kernels)} kernels and {len(self.calls)} calls of PyTorch in {graphs}"
        if gpus:
            text += f"; predicted {ours:.1f} us, PyTorch alone {eager:.1f} us ({', '.join(gpus)})"
        return text

    def kernel_rows(self) -> list[str]:
        if not self.kernels:
            return []
        measured = any("measured_us" in kernel for kernel in self.kernels)
        head = [
            "predicted us",
            *(["measured us"] if measured else []),
            "PyTorch us",
            "",
            "kernel",
            "family",
            "made from",
        ]
        rows = [
            [
                f"{total(kernels, 'predicted'):.2f}",
                *([f"{total(kernels, 'measured_us'):.2f}"] if measured else []),
                f"{total(kernels, 'eager_us'):.2f}",
                f"{len(kernels)} x",
                name,
                family,
                f"{made_from}{place(kernels[0]['origins'])}",
            ]
            for (name, family, made_from), kernels in self.equal_kernels().items()
        ]
        return ["", "Kernels", *table(head, rows)]

    def equal_kernels(self) -> dict[tuple[str, str, str], list[Record]]:
        groups: dict[tuple[str, str, str], list[Record]] = {}
        for kernel in self.kernels:
            key = (kernel["name"], kernel["family"], ", ".join(short_names(kernel["origins"])))
            groups.setdefault(key, []).append(kernel)
        return groups

    def call_rows(self) -> list[str]:
        groups: dict[tuple[str, str], list[Record]] = {}
        for call in self.calls:
            groups.setdefault((call["op"], call["why"]), []).append(call)
        rows = [[f"{total(calls, 'predicted'):.2f}", f"{len(calls)} x", op, why] for (op, why), calls in groups.items()]
        return ["", "Left to PyTorch", *table(["predicted us", "", "operator", "why"], rows)] if rows else []

    def decision_rows(self) -> list[str]:
        """Fusions made and refused; why an operator stayed a call stands in the table above."""
        groups: dict[tuple[str, str, str], list[Record]] = {}
        for decision in self.decisions:
            if decision["what"] not in ("view", "keep call"):
                groups.setdefault((decision["what"], decision["why"], place([decision])), []).append(decision)
        rows = [
            [
                f"{total(same, 'before_us'):.2f}",
                "-" if what == "refuse" and not total(same, "after_us") else f"{total(same, 'after_us'):.2f}",
                f"{len(same)} x",
                what,
                why + line,
            ]
            for (what, why, line), same in groups.items()
        ]
        return ["", "Decisions", *table(["before us", "after us", "", "what", "why"], rows)] if rows else []

    def phase_rows(self) -> list[str]:
        phases = self.phases_us()
        largest = sorted(phases.items(), key=lambda item: -item[1])[:6]
        text = ", ".join(f"{phase} {us / 1000:.1f}" for phase, us in largest)
        return ["", f"Compile time {sum(phases.values()) / 1000:.1f} ms: {text}"] if phases else []


def total(records: Iterable[Mapping[str, Any]], key: str) -> float:
    values = (record.get(key, 0.0) for record in records)
    return sum(float(value["total_us"] if isinstance(value, dict) else value) for value in values)


def short_names(origins: Iterable[Mapping[str, Any]]) -> list[str]:
    """Operators without namespace and overload, each once, in order."""
    return list(dict.fromkeys(origin["op"].split(".")[1] for origin in origins if origin["op"].count(".")))


def place(origins: Iterable[Mapping[str, Any]]) -> str:
    """The first user's line that is known."""
    for origin in origins:
        if origin.get("file"):
            return f"  {origin['file'].rsplit('/', 1)[-1]}:{origin['line']}"
    return ""


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Columns as wide as their texts; numbers, which come first, to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    numbers = sum(title.endswith(" us") for title in head)

    def line(row: list[str]) -> str:
        cells = [c.rjust(w) if i < numbers else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        return "  ".join(cells).rstrip()

    return [line(head), *map(line, rows)]


def explain(fn: Callable[..., Any], **options: Any) -> Callable[..., Explanation]:
    """Compiles and runs `fn` once, and backward where its result has gradients (which are thrown away)."""

    def run(*inputs: Any, **named: Any) -> Explanation:
        parts: list[CompiledPart] = []
        compiled = torch.compile(fn, backend=GraphCompiler(read_options(options), parts.append).compile)
        call_with_gradients(compiled, fn, inputs, named)
        reports = [part.report() for part in parts]
        if parts and torch.cuda.is_available() and not read_options(options).simulated:
            add_measured_times(reports, lambda: call_with_gradients(compiled, fn, inputs, named))
        return Explanation(tuple(reports))

    return run


def call_with_gradients(compiled: Callable[..., Any], fn: Any, inputs: Any, named: Any) -> None:
    outputs = tree_leaves(compiled(*inputs, **named))
    wanted = [out for out in outputs if isinstance(out, torch.Tensor) and out.requires_grad]
    leaves = [leaf for leaf in tree_leaves((inputs, named)) if isinstance(leaf, torch.Tensor)]
    leaves += list(fn.parameters()) if isinstance(fn, torch.nn.Module) else []
    leaves = [leaf for leaf in leaves if leaf.requires_grad]
    if wanted and leaves:
        torch.autograd.grad(wanted, leaves, [torch.ones_like(out) for out in wanted], allow_unused=True)


def add_measured_times(reports: list[Record], run: Callable[[], None]) -> None:
    """The mean time of each kernel on the GPU beside its prediction, by the name under which it is launched."""
    runs = 5
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(runs):
            run()
        torch.cuda.synchronize()
    times = {event.key: event.device_time for event in profile.key_averages()}
    for report in reports:
        for kernel in report.get("kernels", ()):
            if kernel["name"] in times:
                kernel["measured_us"] = times[kernel["name"]]
