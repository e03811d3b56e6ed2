"""Tests of the whole package with PyTorch: on the simulator where there is no GPU, else on the GPU, from one source.

They run strict: an internal failure is an error, not a return to PyTorch. Tests about falling back say so themselves.
"""

import os
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]
os.environ.setdefault("TILEWRIGHT_STRICT", "1")
os.environ.setdefault("TILEWRIGHT_KERNELS", "generate")
os.environ.setdefault("TILEWRIGHT_CHECK_KERNELS", "1")
if not torch.cuda.is_available():
    os.environ.setdefault("TILEWRIGHT_TARGET", "sim:sm_90a")


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture
def golden(request):
    """Compares a text with test/torch/golden/<name>; TILEWRIGHT_BLESS=1 rewrites the file instead."""

    def compare(name: str, text: str) -> None:
        path = HERE / "golden" / name
        if os.environ.get("TILEWRIGHT_BLESS") == "1":
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no golden {path}; TILEWRIGHT_BLESS=1 writes it"
        assert text == path.read_text()

    return compare
