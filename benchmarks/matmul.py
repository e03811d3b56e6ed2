"""Products of matrices and their surroundings: eager (cuBLAS), Inductor and Tilewright, timed in turn in one run.

    python benchmarks/matmul.py [--only TEXT,TEXT] [--contenders NAME,NAME] [--budget-s SECONDS] [--out FOLDER]

Each case checks its results against float64 first. Contenders: `eager`; `inductor`, its default mode; `autotune`, its
max-autotune mode without CUDA graphs; `generate` and `auto`, Tilewright with that option `matmul`. Decoding cases run
in a CUDA graph that goes over several sets of weights, so that none is still in L2: their times are of one set, beside
the time that the weights take at a copy's bandwidth.
`--dry` runs every case on the CPU at a sixteenth of its sizes, Tilewright on the simulator, and checks results only.
"""

from __future__ import annotations

import argparse
import pathlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import measure
import torch
import torch.nn.functional as F

CONTENDERS = ("eager", "inductor", "autotune", "generate", "auto")
ROTATING_BYTES = 400e6  # eight times an H200's L2
CALLS_A_REPLAY = 24  # so that the start of a graph is lost among them
GRAPH_CALLS = 40  # of a graph at least, beside which the start of its replay is little


@dataclass
class Case:
    """`run(x, *weights)`; sizes are scaled by `--dry`. `decode`: in a graph over rotating weights."""

    name: str
    run: Callable[..., Any]
    x: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]
    dtype: torch.dtype = torch.bfloat16
    decode: bool = False
    flops: float = field(default=0.0)


def product(m: int, n: int, k: int, batch: int = 0) -> Case:
    lead = (batch,) if batch else ()
    name = "x".join(str(size) for size in (*lead, m, n, k)) if not m == n == k or batch else f"{m}^3"
    return Case(f"product {name}", torch.matmul, (*lead, m, k), ((*lead, k, n),), flops=2.0 * max(batch, 1) * m * n * k)


def linear_gelu(m: int, n: int, k: int) -> Case:
    return Case(
        f"linear+bias+gelu {m}x{n}x{k}",
        lambda x, w, b: F.gelu(F.linear(x, w, b)),
        (m, k),
        ((n, k), (n,)),
        flops=2.0 * m * n * k,
    )


def decode(m: int, n: int, k: int) -> Case:
    return Case(f"decode linear {m}x{n}x{k}", F.linear, (m, k), ((n, k),), decode=True, flops=2.0 * m * n * k)


def decode_pair(m: int, n: int, k: int) -> Case:
    def gated(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return F.silu(F.linear(x, gate)) * F.linear(x, up)

    return Case(
        f"decode silu(gate)*up {m}x{n}x{k}", gated, (m, k), ((n, k), (n, k)), decode=True, flops=4.0 * m * n * k
    )


def cases() -> list[Case]:
    bare = [(1024, 1024, 1024), (4096, 4096, 4096), (4096, 4096, 1024), (8192, 8192, 8192), (4096, 14336, 4096)]
    bare += [(4096, 4096, 14336), (512, 512, 8192), (1024, 1024, 8192), (128, 4096, 4096)]
    linears = [(768, 768), (3072, 768), (768, 3072), (1024, 1024), (2048, 768), (2048, 2048)]
    return [
        *(decode(1, n, k) for n, k in ((4096, 14336), (14336, 4096), (2048, 2048), (128256, 2048))),
        decode_pair(1, 14336, 4096),
        *(decode(m, 4096, 14336) for m in (2, 4, 8, 16)),
        *(linear_gelu(m, n, k) for m in (64, 128, 256, 512) for n, k in linears),
        *(product(*size) for size in bare),
        product(512, 512, 1024, batch=64),
    ]


def scaled(case: Case) -> Case:
    """The case at a sixteenth of its sizes."""

    def small(shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(size if size <= 64 else size // 16 for size in shape)

    return Case(case.name, case.run, small(case.x), tuple(map(small, case.weights)), case.dtype, case.decode)


def normal(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
    return torch.randn(*shape, device=device, dtype=dtype)


def compiled(name: str, run: Callable[..., Any], device: str) -> Callable[..., Any]:
    match name:
        case "eager":
            return run
        case "inductor":
            return torch.compile(run)
        case "autotune":
            return torch.compile(run, mode="max-autotune-no-cudagraphs")
    options: dict[str, Any] = {"matmul": name, "strict": True}
    if device == "cpu":
        options["target"] = "sim:sm_90a"
    return torch.compile(run, backend="tilewright", options=options)


def check(
    case: Case, calls: dict[str, Callable[..., Any]], x: torch.Tensor, weights: list[torch.Tensor]
) -> dict[str, float]:
    """Relative error of each contender against float64; more than eager's, and a rounding, is wrong."""
    reference = case.run(x.double(), *(w.double() for w in weights)).cpu()
    errors = {}
    for name, call in calls.items():
        errors[name] = measure.relative_error(call(x, *weights).cpu(), reference)
        limit = 2 * errors["eager"] + torch.finfo(case.dtype).eps / 8
        if not errors[name] <= limit:
            raise SystemExit(
                f"{case.name}: {name} is wrong, relative error {errors[name]:.2e}, eager's {errors['eager']:.2e}"
            )
    return errors


def rotating_graph(call: Callable[..., Any], x: torch.Tensor, sets: list[list[torch.Tensor]]) -> Callable[[], None]:
    """One replay calls the function once with each set of weights."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for weights in sets:
            call(x, *weights)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for weights in sets:
            call(x, *weights)
    return graph.replay


def timed(
    case: Case, calls: dict[str, Callable[..., Any]], x: torch.Tensor, weights: list[torch.Tensor], rounds: int
) -> dict[str, float]:
    if not case.decode:
        return measure.interleaved_us({n: (lambda call=call: call(x, *weights)) for n, call in calls.items()}, rounds)
    size = sum(w.numel() * w.element_size() for w in weights)
    sets = [weights] + [[torch.randn_like(w) for w in weights] for _ in range(max(3, round(ROTATING_BYTES / size)))]
    sets *= -(-CALLS_A_REPLAY // len(sets))
    sets *= max(1, round(GRAPH_CALLS / len(sets)))
    with torch.no_grad():
        replays = {name: rotating_graph(call, x, sets) for name, call in calls.items()}
    return {name: us / len(sets) for name, us in measure.interleaved_us(replays, rounds).items()}


def measure_case(case: Case, contenders: list[str], bandwidth: float, rounds: int, device: str) -> dict[str, Any]:
    torch._dynamo.reset()
    x = normal(case.x, case.dtype, device)
    weights = [normal(shape, case.dtype, device) / shape[-1] ** 0.5 for shape in case.weights]
    calls = {name: compiled(name, case.run, device) for name in contenders}
    with torch.no_grad():
        errors = check(case, calls, x, weights)
        if device == "cpu":
            return {"case": case.name, **{f"{name}_error": error for name, error in errors.items()}}
        times = timed(case, calls, x, weights, rounds)
    row: dict[str, Any] = {"case": case.name, **{f"{name}_us": us for name, us in times.items()}}
    others = [times[name] for name in ("eager", "inductor", "autotune") if name in times]
    for name in ("generate", "auto"):
        if name in times:
            row[f"{name}_over_eager"] = times["eager"] / times[name]
            row[f"{name}_over_best"] = min(others) / times[name]
            row[f"{name}_error"] = errors[name]
            if case.decode:
                bytes_read = sum(w.numel() * w.element_size() for w in weights)
                row["weights_us"] = bytes_read / bandwidth * 1e6
                row[f"{name}_of_weights"] = times[name] / row["weights_us"]
            else:
                row[f"{name}_TFLOPs"] = case.flops / times[name] / 1e6
    row["eager_error"] = errors["eager"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--only", default="", help="cases whose name has one of these texts")
    parser.add_argument("--contenders", default="eager,inductor,generate,auto")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--budget-s", type=float, default=550)
    parser.add_argument("--dry", action="store_true")
    args = parser.parse_args()
    contenders = args.contenders.split(",")
    if unknown := set(contenders) - set(CONTENDERS):
        parser.error(f"unknown contenders {', '.join(sorted(unknown))}; there are {', '.join(CONTENDERS)}")
    if contenders[0] != "eager":
        contenders = ["eager", *(name for name in contenders if name != "eager")]
    torch.manual_seed(0)
    device = "cpu" if args.dry else "cuda"
    bandwidth = 0.0 if args.dry else measure.copy_bandwidth()
    head = {**measure.facts(), "copy_TB_per_s": bandwidth / 1e12}
    end = time.monotonic() + args.budget_s
    rows: list[dict[str, Any]] = []
    for case in cases():
        if not any(text in case.name for text in args.only.split(",")):
            continue
        if time.monotonic() > end:
            print(f"no time left for {case.name}")
            break
        rows.append(measure_case(scaled(case) if args.dry else case, contenders, bandwidth, args.rounds, device))
        shown = "_error" if args.dry else ("_us", "_over_best", "_of_weights")
        figures = (f"{key} {value:.3g}" for key, value in rows[-1].items() if key.endswith(shown))
        print(f"{case.name:36s} " + "  ".join(figures), flush=True)
        if not args.dry:
            measure.write_results("matmul", head, rows, args.out)


if __name__ == "__main__":
    main()
