"""Every kernel of the models and the corpus is assembled for all architectures: none spills or takes more registers.

golden/resources.json keeps registers and bytes of static shared memory of each, as the assembler counts them.
"""

import itertools
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from agree import Recorder, loss_of
from models import GPT2, MLP, BertLayer, LlamaBlock, ResNetBlock
from tilewright.options import read_options
from tilewright.testing import compile_text

ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90a")
CORPUS = sorted((Path(__file__).parents[1] / "corpus").glob("*.tw"))
RECORDED = Path(__file__).parent / "golden" / "resources.json"
SLACK = 8  # registers by which other versions of the assembler may differ


def model_texts(model: torch.nn.Module, *inputs: torch.Tensor, backward: bool) -> dict[str, str]:
    recorder = Recorder(kernels="call")
    with torch.set_grad_enabled(backward):
        outputs = torch.compile(model, backend=recorder, dynamic=True)(*inputs)
        if backward:
            loss_of(outputs).backward()
    return {part.kind: part.text for part in recorder.parts}


def texts_of(name: str) -> dict[str, str]:
    """Graphs by kind: a model's as captured here, or one of the corpus."""
    rows = torch.randn(2, 6, 32)
    match name:
        case "mlp":
            return model_texts(MLP(), torch.randn(5, 16), backward=False)
        case "bert_layer":
            return model_texts(BertLayer(), rows, torch.ones(2, 6, dtype=torch.bool), backward=False)
        case "llama_block":
            return model_texts(LlamaBlock(), rows, backward=False)
        case "resnet_block":
            return model_texts(ResNetBlock(), torch.randn(2, 8, 6, 6, requires_grad=True), backward=True)
        case "gpt2":
            return model_texts(GPT2(), torch.randint(0, 64, (2, 16)), backward=True)
    return {"": next(path for path in CORPUS if path.stem == name).read_text()}


def resources(text: str, arch: str) -> dict[str, dict[str, int]]:
    """Of each variant of each launch, by the launch's place and name and the variant's place; equal ones once."""
    options = read_options({"target": f"sim:{arch}", "kernels": "generate", "strict": True})
    compiled = compile_text(text, options)
    names: dict[str, str] = {}
    launches = itertools.groupby(compiled.launches(), key=lambda row: row[0])
    for (i, (_, variants)), kernel in zip(
        enumerate(launches), json.loads(compiled.report_json())["kernels"], strict=True
    ):
        for variant, (_, key, _) in enumerate(variants):
            names.setdefault(key, f"{i} {kernel['name']} {variant}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(names.values(), pool.map(compiled.resources, names), strict=True))


@pytest.fixture(scope="module")
def recorded():
    found = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    yield found
    if os.environ.get("TILEWRIGHT_BLESS") == "1":
        text = json.dumps(found, indent=1, sort_keys=True)
        RECORDED.write_text(re.sub(r"\[\s+(\d+),\s+(\d+)\s+\]", r"[\1, \2]", text) + "\n")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs no GPU, and captures on the CPU")
@pytest.mark.parametrize(
    "name", ["mlp", "bert_layer", "llama_block", "resnet_block", "gpt2", *(path.stem for path in CORPUS)]
)
def test_resources(name: str, recorded) -> None:
    for kind, text in texts_of(name).items():
        for arch in ARCHITECTURES:
            found = resources(text, arch)
            for kernel, use in found.items():
                assert use["spill_bytes"] == 0, f"{name} {kind}, kernel {kernel} spills on {arch}"
            key = " ".join(filter(None, (name, kind, arch)))
            if os.environ.get("TILEWRIGHT_BLESS") == "1":
                recorded[key] = {kernel: [use["registers"], use["smem_bytes"]] for kernel, use in found.items()}
            assert recorded.get(key, {}).keys() == found.keys(), (
                f"{key} has other kernels: TILEWRIGHT_BLESS=1 keeps them"
            )
            for kernel, (registers, smem_bytes) in recorded[key].items():
                assert found[kernel]["registers"] <= registers + SLACK, f"{key}: {kernel}"
                assert found[kernel]["smem_bytes"] <= smem_bytes, f"{key}: {kernel}"
