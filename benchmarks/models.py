"""Whole models with random weights: eager, Inductor's modes and Tilewright, timed in turn in one process a model.

    python benchmarks/models.py [--only NAME,NAME] [--modes default,reduce-overhead] [--matmul auto,call] [--out FOLDER]

Each model's output (training: loss and gradients) is checked first: a contender may differ from float32 eager by
at most twice what eager in bfloat16 does, plus a rounding. Compile times are those of the first call with empty caches.
With several values of `--matmul` Tilewright is a contender with each; the first one's times are compared.
`llama-decode`, bound by the host, is also timed as a CUDA graph of each contender.
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
from collections.abc import Callable
from typing import Any

import measure
import torch

DTYPE = torch.bfloat16
TIMM = ("resnet50", "vit_base_patch16_224", "convnext_tiny", "mixer_b16_224")
MODELS = ("mlp", "bert", "llama-prefill", "llama-decode", "gpt2", "gpt2-train", *TIMM)


def build(name: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The model in float32 on the GPU, and its inputs."""
    torch.manual_seed(0)
    if name == "mlp":
        layers = [layer for _ in range(32) for layer in (torch.nn.Linear(256, 256), torch.nn.GELU())]
        return torch.nn.Sequential(*layers).cuda(), (torch.randn(16, 256, device="cuda"),)
    if name in TIMM:
        import timm

        model = timm.create_model(name).cuda().to(memory_format=torch.channels_last)
        images = torch.randn(64, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
        return model, (images,)
    import transformers as hf

    if name == "bert":
        return hf.BertModel(hf.BertConfig()).cuda(), (torch.randint(0, 30000, (16, 512), device="cuda"),)
    if name.startswith("gpt2"):
        model = hf.GPT2LMHeadModel(hf.GPT2Config(use_cache=False))
        return model.cuda(), (torch.randint(0, 50000, (8, 1024), device="cuda"),)
    config = hf.LlamaConfig(
        hidden_size=2048,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        intermediate_size=8192,
        vocab_size=32000,
        use_cache=False,
    )
    length = 1 if name == "llama-decode" else 2048
    return hf.LlamaForCausalLM(config).cuda(), (torch.randint(0, 32000, (1, length), device="cuda"),)


def main_output(result: Any) -> torch.Tensor:
    if isinstance(result, torch.Tensor):
        return result
    for key in ("logits", "last_hidden_state"):
        if hasattr(result, key):
            return getattr(result, key)
    return result[0]


def step_of(name: str, model: torch.nn.Module) -> Callable[[Callable[..., Any], tuple[Any, ...]], torch.Tensor]:
    """One step: inference, or loss and backward for a training model."""
    if not name.endswith("-train"):

        def infer(call: Callable[..., Any], inputs: tuple[Any, ...]) -> torch.Tensor:
            with torch.no_grad():
                return main_output(call(*inputs))

        return infer

    def train(call: Callable[..., Any], inputs: tuple[Any, ...]) -> torch.Tensor:
        for parameter in model.parameters():
            parameter.grad = None
        loss = main_output(call(*inputs)).float().square().mean()
        loss.backward()
        return loss.detach()

    return train


def graph_of(call: Callable[[], Any]) -> Callable[[], None]:
    """A CUDA graph of one call, which has run before."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def measure_model(name: str, modes: list[str], products: list[str]) -> dict[str, Any]:
    wide, inputs = build(name)
    wide = wide.train() if name.endswith("-train") else wide.eval()
    reference = step_of(name, wide)(wide, inputs).float().clone()
    model = wide.to(DTYPE)
    del wide
    inputs = tuple(t.to(DTYPE) if t.is_floating_point() else t for t in inputs)
    step = step_of(name, model)
    row: dict[str, Any] = {"model": name}
    eager_error = measure.relative_error(step(model, inputs), reference)
    calls: dict[str, Callable[[], Any]] = {"eager": lambda: step(model, inputs)}

    compiled = {f"inductor {m}": (lambda m=m: torch.compile(model, mode=None if m == "default" else m)) for m in modes}
    for product in products:
        contender = "tilewright" if product == products[0] else f"tilewright matmul={product}"
        compiled[contender] = lambda product=product: torch.compile(
            model, backend="tilewright", options={"matmul": product}
        )
    for contender, make in compiled.items():
        torch._dynamo.reset()
        begin = time.perf_counter()
        call = make()
        torch.cuda.reset_peak_memory_stats()
        result = step(call, inputs)
        torch.cuda.synchronize()
        row[f"{contender} first call s"] = round(time.perf_counter() - begin, 2)
        error = measure.relative_error(result, reference)
        row[f"{contender} error"] = error
        if not error <= 2 * eager_error + 4e-3:
            raise SystemExit(f"{name}: {contender} is wrong: error {error:.2e}, eager's {eager_error:.2e}")
        torch.cuda.reset_peak_memory_stats()
        step(call, inputs)
        row[f"{contender} peak GiB"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
        calls[contender] = lambda call=call: step(call, inputs)
    torch.cuda.reset_peak_memory_stats()
    step(model, inputs)
    row["eager peak GiB"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    row["eager error"] = eager_error

    for contender, us in measure.interleaved_us(calls, rounds=15).items():
        row[f"{contender} us"] = round(us, 1)
    for contender in ("eager", "tilewright"):
        row[f"{contender} wall us"] = round(measure.wall_us(calls[contender]), 1)
    if name == "llama-decode":
        graphs = {contender: graph_of(call) for contender, call in calls.items() if "reduce-overhead" not in contender}
        for contender, us in measure.interleaved_us(graphs, rounds=15).items():
            row[f"{contender} graph us"] = round(us, 1)
    best = min(row[f"inductor {m} us"] for m in modes)
    row["over eager"] = row["eager us"] / row["tilewright us"]
    row["over inductor"] = best / row["tilewright us"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--modes", default="default")
    parser.add_argument("--matmul", default="auto", help="values of Tilewright's option, each a contender")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--budget-s", type=float, default=500)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    modes = args.modes.split(",")
    if args.one:
        print("ROW " + json.dumps(measure_model(args.one, modes, args.matmul.split(","))), flush=True)
        return
    end = time.time() + args.budget_s
    rows: list[dict[str, Any]] = []
    head = measure.facts()
    for name in args.only.split(","):
        left = end - time.time()
        if left < 20:
            print(f"no time left for {name}")
            break
        with tempfile.TemporaryDirectory() as cache:
            env = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=cache, TRITON_CACHE_DIR=cache + "/triton")
            command = [sys.executable, __file__, "--one", name, "--modes", args.modes, "--matmul", args.matmul]
            try:
                done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=left, check=False)
            except subprocess.TimeoutExpired:
                print(f"{name}: no result in {left:.0f} s", flush=True)
                continue
        found = [line[4:] for line in done.stdout.splitlines() if line.startswith("ROW ")]
        if not found:
            print(f"{name}: failed: " + " | ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]))
            continue
        row = json.loads(found[0])
        rows.append(row)
        print(
            f"{name:24s} " + "  ".join(f"{k} {v:.4g}" for k, v in row.items() if k.endswith((" us", "over eager"))),
            flush=True,
        )
        measure.write_results("models", head, rows, args.out)


if __name__ == "__main__":
    main()
