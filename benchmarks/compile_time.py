"""Compile time of BERT with random weights, by phase of the back end, each number of layers in a process of its own.

    python benchmarks/compile_time.py [--layers 12,24] [--batch 16 --length 512] [--out FOLDER]

On the GPU where there is one, where Inductor's first call with empty caches stands beside; else for the simulator, with
inputs of 2 x 64 unless said, as a step then takes long. `first call s` is the wall time of the first call, capture by
Dynamo and AOTAutograd and the run included; the phases are the back end's own, `back end ms` their sum.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

import measure
import torch


def first_call_s(model: torch.nn.Module, tokens: torch.Tensor, **how: Any) -> float:
    begin = time.perf_counter()
    with torch.no_grad():
        torch.compile(model, **how)(tokens)
    if tokens.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def measure_layers(layers: int, batch: int, length: int, contender: str) -> dict[str, Any]:
    import transformers as hf

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = hf.BertModel(hf.BertConfig(num_hidden_layers=layers)).to(device, torch.bfloat16).eval()
    tokens = torch.randint(0, 30000, (batch, length), device=device)
    with torch.no_grad():
        model(tokens)  # PyTorch's own start is nobody's compile time
    if contender == "inductor":
        return {"inductor first call s": round(first_call_s(model, tokens), 2)}
    with tempfile.NamedTemporaryFile("r") as report:
        os.environ["TILEWRIGHT_REPORT"] = report.name
        row: dict[str, Any] = {"first call s": round(first_call_s(model, tokens, backend="tilewright"), 2)}
        graphs = [json.loads(line) for line in report]
    phases: dict[str, float] = {}
    for graph in graphs:
        for phase in graph["phases_us"]:
            phases[phase["phase"]] = phases.get(phase["phase"], 0) + phase["us"] / 1000
    distinct = {(k["name"], k["schedule"]) for g in graphs for k in g["kernels"]}
    row |= {"launches": sum(len(g["kernels"]) for g in graphs), "distinct kernels": len(distinct)}
    row |= {"back end ms": round(sum(phases.values()), 1)} | {f"{name} ms": round(ms, 1) for name, ms in phases.items()}
    return row


def main() -> None:
    has_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="12,24")
    parser.add_argument("--batch", type=int, default=16 if has_gpu else 2)
    parser.add_argument("--length", type=int, default=512 if has_gpu else 64)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print("ROW " + json.dumps(measure_layers(int(args.layers), args.batch, args.length, args.one)))
        return
    rows = []
    for layers in args.layers.split(","):
        row: dict[str, Any] = {"layers": int(layers), "batch": args.batch, "length": args.length}
        for contender in ("tilewright", "inductor") if has_gpu else ("tilewright",):
            command = [sys.executable, __file__, "--one", contender, "--layers", layers]
            command += ["--batch", str(args.batch), "--length", str(args.length)]
            with tempfile.TemporaryDirectory() as cache:
                env = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=cache, TRITON_CACHE_DIR=cache + "/triton")
                if not has_gpu:
                    env.setdefault("TILEWRIGHT_TARGET", "sim:sm_90a")
                done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
            row |= json.loads(next(line[4:] for line in done.stdout.splitlines() if line.startswith("ROW ")))
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        rows.append(row)
    measure.write_results("compile_time", measure.facts(), rows, args.out)


if __name__ == "__main__":
    main()
