"""Graphs captured on a GPU (test/corpus): all are compiled, and run on the simulator against the interpreter."""

import json
import re
from pathlib import Path

import pytest
import torch
from agree import made_and_left
from tilewright.options import read_options
from tilewright.testing import compile_text, run_text

CORPUS = sorted((Path(__file__).parents[1] / "corpus").glob("*.tw"))
each_graph = pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)


@each_graph
@pytest.mark.parametrize("size", [None, 5], ids=["captured", "other"])
def test_kernels_agree_with_the_interpreter(path: Path, size: int | None) -> None:
    """Both run the same calls, of PyTorch on the CPU, so what differs is the kernels' order of additions."""
    text = path.read_text()
    sizes = {name: size for name in re.findall(r"(s\d+) = ", text) if size}
    # BERT's smallest table has two rows, GPT-2's more.
    ran = run_text(text, sizes, integers=16 if "gpt2" in path.stem else 2)
    assert ran.kernels
    for i, (got, expected) in enumerate(zip(ran.outputs, ran.expected, strict=True)):
        if not isinstance(expected, torch.Tensor):
            assert got == expected
            continue
        assert not expected.is_floating_point() or expected.isfinite().all(), f"output {i} compares nothing"
        torch.testing.assert_close(got, expected, rtol=2e-2, atol=2e-2, msg=lambda text, i=i: f"output {i}: {text}")


@each_graph
@pytest.mark.parametrize("kernels", ["generate", "auto"])
def test_what_is_made_and_what_is_left(path: Path, kernels: str, golden) -> None:
    options = read_options({"target": "sim:sm_90a", "kernels": kernels, "strict": True})
    report = json.loads(compile_text(path.read_text(), options).report_json())
    golden(f"corpus/{path.stem}_{kernels}.txt", made_and_left(report))
