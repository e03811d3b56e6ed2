"""Memory-bound operators: eager, Inductor and Tilewright against the copy limit and against each other.

    python benchmarks/memory_bound.py [--out FOLDER] [--only TEXT] [--rounds N]

Each case checks its result against float64 first. `limit` is the case's bytes over the bandwidth of a 2 GiB copy,
`same bytes` the time of a copy (for pure reductions: of a read, as a row sum by PyTorch cannot beat it) that moves as
many bytes in the same protocol.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import measure
import torch
import torch.nn.functional as F


@dataclass
class Case:
    """One operator: `make` gives fresh inputs; `bytes` counts each input read once and each output written once."""

    name: str
    run: Callable[..., Any]
    make: Callable[[], tuple[torch.Tensor, ...]]
    bytes: int
    reads_only: bool = False


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def residual_rmsnorm(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    h = x + r
    wide = h.float() if h.dtype != torch.float64 else h
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (wide * scale).to(h.dtype) * w, h


def causal_softmax(q: torch.Tensor) -> torch.Tensor:
    n = q.shape[-1]
    mask = torch.ones(n, n, device=q.device, dtype=torch.bool).triu(1)
    return torch.softmax((q * 0.125).masked_fill(mask, float("-inf")), -1)


def cases() -> list[Case]:
    n, m = 16384, 4096
    size = n * m * 2
    nhwc = 64 * 56 * 56 * 256
    channel = lambda: normal(256, dtype=torch.float32).abs()  # noqa: E731
    image = lambda: normal(64, 56, 56, 256).permute(0, 3, 1, 2)  # noqa: E731
    return [
        Case(
            "bias+gelu+residual 16384x4096",
            lambda x, b, z: F.gelu(x + b) + z,
            lambda: (normal(n, m), normal(m), normal(n, m)),
            3 * size,
        ),
        Case(
            "gelu(tanh)*up 16384x4096",
            lambda x, z: F.gelu(x, approximate="tanh") * z,
            lambda: (normal(n, m), normal(n, m)),
            3 * size,
        ),
        Case("silu*up 16384x4096", lambda x, z: F.silu(x) * z, lambda: (normal(n, m), normal(n, m)), 3 * size),
        Case("gelu 16384x4096", F.gelu, lambda: (normal(n, m),), 2 * size),
        Case("softmax 16384x4096", lambda x: torch.softmax(x, -1), lambda: (normal(n, m),), 2 * size),
        Case(
            "layernorm 16384x4096",
            lambda x, w, b: F.layer_norm(x, (m,), w, b),
            lambda: (normal(n, m), normal(m), normal(m)),
            2 * size,
        ),
        Case(
            "residual+rmsnorm 16384x4096", residual_rmsnorm, lambda: (normal(n, m), normal(n, m), normal(m)), 4 * size
        ),
        Case(
            "cross-entropy 4096x128256",
            lambda v, t: F.cross_entropy(v if v.dtype == torch.float64 else v.float(), t),
            lambda: (normal(4096, 128256), torch.randint(0, 128256, (4096,), device="cuda")),
            4096 * 128256 * 2,
            reads_only=True,
        ),
        Case("sum rows 16384x4096", lambda x: x.sum(-1), lambda: (normal(n, m),), size, reads_only=True),
        Case("sum columns 16384x4096", lambda x: x.sum(0), lambda: (normal(n, m),), size, reads_only=True),
        Case("sum of all 64M", lambda x: x.sum(), lambda: (normal(n, m),), size, reads_only=True),
        Case("transpose+relu 16384x4096", lambda x: F.relu(x.t()).contiguous(), lambda: (normal(n, m),), 2 * size),
        Case(
            "batch norm (eval)+relu NHWC",
            lambda s, mu, va, w, b: F.relu(
                F.batch_norm(
                    s,
                    mu.to(s.dtype) if s.dtype == torch.float64 else mu,
                    va.to(s.dtype) if s.dtype == torch.float64 else va,
                    w,
                    b,
                )
            ),
            lambda: (image(), channel(), channel(), channel(), channel()),
            2 * nhwc * 2,
        ),
        Case("NHWC to NCHW 64x256x56x56", lambda s: s.contiguous(), lambda: (image(),), 2 * nhwc * 2),
        Case(
            "masked softmax+scale 32x12x512x512",
            causal_softmax,
            lambda: (normal(32, 12, 512, 512),),
            2 * 32 * 12 * 512 * 512 * 2,
        ),
    ]


def flat(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def check(case: Case, inputs: tuple[torch.Tensor, ...], contenders: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Relative error of each contender against float64; one above 1e-2 is wrong (bfloat16: 8 bits)."""
    wide = tuple(t.double() if t.is_floating_point() else t for t in inputs)
    reference = [r.cpu() for r in flat(case.run(*wide))]
    del wide
    errors = {}
    for name, call in contenders.items():
        worst = max(measure.relative_error(r.cpu(), e) for r, e in zip(flat(call()), reference, strict=True))
        if not worst < 1e-2:
            raise SystemExit(f"{case.name}: {name} is wrong, relative error {worst:.2e}")
        errors[name] = worst
    return errors


def same_bytes_call(case: Case) -> Callable[[], Any]:
    """A copy, or for pure reductions a read, of as many bytes as the case moves."""
    if case.reads_only:
        rows = normal(case.bytes // 2 // 4096, 4096)
        return lambda: rows.sum(-1)
    source = normal(case.bytes // 4)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def measure_case(case: Case, bandwidth: float, rounds: int) -> dict[str, Any]:
    torch._dynamo.reset()
    inputs = case.make()
    inductor = torch.compile(case.run, mode="max-autotune-no-cudagraphs")
    ours = torch.compile(case.run, backend="tilewright")
    contenders: dict[str, Callable[[], Any]] = {
        "eager": lambda: case.run(*inputs),
        "inductor": lambda: inductor(*inputs),
        "tilewright": lambda: ours(*inputs),
    }
    errors = check(case, inputs, contenders)
    times = measure.interleaved_us({**contenders, "same bytes": same_bytes_call(case)}, rounds)
    limit = case.bytes / bandwidth * 1e6
    mine = times["tilewright"]
    row: dict[str, Any] = {"case": case.name, "limit_us": limit}
    row.update({f"{k}_us": v for k, v in times.items()})
    row.update(
        {
            "of_limit": limit / mine,
            "of_same_bytes": times["same bytes"] / mine,
            "over_eager": times["eager"] / mine,
            "over_inductor": times["inductor"] / mine,
            "error": errors["tilewright"],
            "eager_error": errors["eager"],
        }
    )
    print(
        f"{case.name:38s} limit {limit:7.1f}  copy {times['same bytes']:7.1f}  eager {times['eager']:7.1f}  "
        f"inductor {times['inductor']:7.1f}  tilewright {mine:7.1f}  of same-bytes {row['of_same_bytes']:.2f}",
        flush=True,
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(0)
    bandwidth = measure.copy_bandwidth()
    head = {**measure.facts(), "copy_TB_per_s": bandwidth / 1e12}
    rows: list[dict[str, Any]] = []
    for case in cases():
        if args.only in case.name:
            rows.append(measure_case(case, bandwidth, args.rounds))
            measure.write_results("memory_bound", head, rows, args.out)


if __name__ == "__main__":
    main()
