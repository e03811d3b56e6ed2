"""How a benchmark measures: interleaved medians with a cold L2, and one JSON and one Markdown table a run.

Every figure is a ratio within one run: contenders are timed in turn, round by round, so that clock and heat are the
same for all. A time is the median over rounds of the device time between two events around the call, after a 256 MB
fill that evicts the L2. The GPU spins for a while before the first event, so that the host has enqueued the call by the
time it is reached: what the host takes is `wall_us`.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

RESULTS = pathlib.Path(__file__).parent / "results"
FLUSH_BYTES = 256 << 20
SPIN_CLOCKS = 400_000  # about 0.2 ms at 2 GHz


def interleaved_us(calls: Mapping[str, Callable[[], Any]], rounds: int = 30, warmup: int = 3) -> dict[str, float]:
    """Median device time of each call in microseconds, timed in turn, `rounds` times each."""
    flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
    for call in calls.values():
        for _ in range(warmup):
            call()
    torch.cuda.synchronize()
    events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            flush.zero_()
            torch.cuda._sleep(SPIN_CLOCKS)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            events[name].append((begin, end))
        torch.cuda.synchronize()
    return {n: statistics.median(b.elapsed_time(e) * 1e3 for b, e in pairs) for n, pairs in events.items()}


def wall_us(call: Callable[[], Any], repeats: int = 30) -> float:
    """Mean wall time of back-to-back calls in microseconds, the host's part included."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / repeats * 1e6


def relative_error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """Norm of the difference over the norm of the float64 reference; NaN and infinities must agree in place."""
    result, reference = result.detach().double(), reference.detach().double()
    finite = torch.isfinite(reference)
    if not torch.equal(torch.nan_to_num(result[~finite]), torch.nan_to_num(reference[~finite])):
        return float("inf")
    result, reference = result[finite], reference[finite]
    scale = reference.norm().item() or 1.0
    return (result - reference).norm().item() / scale


def copy_bandwidth(gib: float = 2.0) -> float:
    """Bytes per second, read plus write, of a large device copy."""
    n = int(gib * 2**30) // 2
    source = torch.randn(n // 2, device="cuda", dtype=torch.float32)
    target = torch.empty_like(source)
    us = interleaved_us({"copy": lambda: target.copy_(source)}, rounds=10)["copy"]
    return 2 * source.numel() * 4 / us * 1e6


def facts() -> dict[str, Any]:
    """Date, GPU, versions and the command of this run."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M"),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else f"none; {os.cpu_count()} CPU cores",
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "tilewright": importlib.metadata.version("tilewright"),
        "commit": commit.stdout.strip() or "unknown",
        "command": " ".join(["python", *sys.argv]),
    }


def write_results(
    name: str, head: Mapping[str, Any], rows: list[dict[str, Any]], folder: pathlib.Path | None = None
) -> None:
    """Writes `<name>-<date>.json` and `.md`: `head` (see `facts`), then one row a case with the columns of all rows."""
    name = f"{name}-{head['date'].replace(' ', '-').replace(':', '')}"
    folder = folder or RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({**head, "rows": rows}, indent=1) + "\n")
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [f"# {name}", ""]
    lines += [f"- {key}: {value}" for key, value in head.items()]
    lines += ["", "| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    for row in rows:
        cells = (row.get(c, "") for c in columns)
        lines.append("| " + " | ".join(f"{c:.3g}" if isinstance(c, float) else str(c) for c in cells) + " |")
    (folder / f"{name}.md").write_text("\n".join(lines) + "\n")
