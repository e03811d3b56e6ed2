"""Graphs captured on a GPU (test/corpus): all are compiled, and those whose calls a CPU can run are simulated too."""

from pathlib import Path

import pytest
import torch
from tilewright.options import read_options
from tilewright.testing import compile_text, run_text

CORPUS = sorted((Path(__file__).parents[1] / "corpus").glob("*.tw"))
# The others call PyTorch's cuDNN attention, which has no CPU kernel, read words that random values do not give, or
# save statistics that PyTorch keeps in another type on a CPU.
SIMULATED = (
    "bert_layer_bf16_inference",
    "llama_block_bf16_inference",
    "mlp_bf16_inference",
    "mlp_train_bf16_backward",
    "mlp_train_bf16_forward",
)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
@pytest.mark.parametrize("kernels", ["generate", "auto"])
def test_compiles(path: Path, kernels: str) -> None:
    options = read_options({"target": "sim:sm_90a", "kernels": kernels, "strict": True})
    compiled = compile_text(path.read_text(), options)
    assert "= launch " in compiled.plan_text() or kernels == "auto"


@pytest.mark.parametrize("path", [p for p in CORPUS if p.stem in SIMULATED], ids=lambda path: path.stem)
@pytest.mark.parametrize("size", [None, 2, 33])
def test_kernels_agree_with_calls(path: Path, size: int | None) -> None:
    text = path.read_text()
    ran = run_text(text, {} if size is None else {"s77": size})
    assert ran.kernels
    for got, expected in zip(ran.outputs, ran.expected, strict=True):
        if isinstance(expected, torch.Tensor):
            torch.testing.assert_close(got, expected, rtol=2e-2, atol=2e-2, equal_nan=True)
        else:
            assert got == expected
