"""What the host pays for a call of a compiled function, by parts, with PyTorch's own operators on the CPU beside it.

    python benchmarks/call_overhead.py [--out FOLDER]

Plans of calls and views over tensors of four elements, so that nothing but the host's work is left. `plan us` is the C
callable that AOTAutograd holds, `compiled us` the function of torch.compile around it, with Dynamo's guards and
AOTAutograd's wrapper. Each is the best of several rounds; `parts` are differences of rows.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

os.environ["TILEWRIGHT_TARGET"] = "sim:sm_90a"
os.environ["TILEWRIGHT_KERNELS"] = "call"

import measure
import torch


def best_us(call: Callable[[], Any], repeats: int = 5000, rounds: int = 20) -> float:
    best = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        best = min(best, (time.perf_counter() - begin) / repeats)
    return best * 1e6


def compiled_parts(fn: Callable[..., Any], inputs: list[torch.Tensor]) -> tuple[Callable[..., Any], Any]:
    """The function as torch.compile gives it, and its plan as AOTAutograd calls it."""
    from tilewright.backend import GraphCompiler
    from tilewright.options import read_options

    parts: list[Any] = []

    def backend(gm: Any, example_inputs: Any) -> Any:
        return GraphCompiler(read_options(), parts.append).compile(gm, example_inputs)

    compiled = torch.compile(fn, backend=backend)
    found = compiled(*inputs)
    torch.testing.assert_close(found, fn(*inputs))
    return compiled, parts[0].executable.boxed([], len(found))


def negated(times: int) -> Callable[..., Any]:
    def fn(*inputs: torch.Tensor) -> list[torch.Tensor]:
        x = inputs[0]
        for _ in range(times):
            x = torch.neg(x)
        return [x]

    return fn


def sliced(times: int) -> Callable[..., Any]:
    return lambda *inputs: [torch.neg(inputs[0]), *(inputs[0][i : i + 2] for i in range(times))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    cases = {
        "1 call, 1 input": (negated(1), 1),
        "1 call and 10 inputs with a view each": (lambda *inputs: [torch.neg(inputs[0]), *(x[1:] for x in inputs)], 10),
        "11 calls, 1 input": (negated(11), 1),
        "1 call and 1 view": (sliced(1), 1),
        "1 call and 3 views": (sliced(3), 1),
    }
    rows: list[dict[str, Any]] = []
    with torch.no_grad():
        for name, (fn, count) in cases.items():
            inputs = [torch.randn(4) for _ in range(count)]
            compiled, plan = compiled_parts(fn, inputs)
            times = {
                "eager us": best_us(lambda fn=fn, inputs=inputs: fn(*inputs)),
                "plan us": best_us(lambda plan=plan, inputs=inputs: plan(list(inputs))),
                "compiled us": best_us(lambda compiled=compiled, inputs=inputs: compiled(*inputs)),
            }
            rows.append({"case": name} | {key: round(us, 2) for key, us in times.items()})
            print(rows[-1], flush=True)
    plan_us = {row["case"]: row["plan us"] for row in rows}
    per_call = (plan_us["11 calls, 1 input"] - plan_us["1 call, 1 input"]) / 10
    per_view = (plan_us["1 call and 3 views"] - plan_us["1 call and 1 view"]) / 2
    viewed = plan_us["1 call and 10 inputs with a view each"] - plan_us["1 call and 1 view"]
    parts = {
        "a call": per_call,
        "an input": viewed / 9 - per_view,
        "a view and its output": per_view,
        "the entry": plan_us["1 call, 1 input"] - per_call,
    }
    head = measure.facts() | {"parts": ", ".join(f"{name} {us:.2f} us" for name, us in parts.items())}
    print(head["parts"])
    measure.write_results("call_overhead", head, rows, args.out)


if __name__ == "__main__":
    main()
