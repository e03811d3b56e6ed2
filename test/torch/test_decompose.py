"""Every operator with a rule, compiled to kernels and run, against what eager gave on a GPU (test/core/passes).

test/core/passes/eager_test.cpp holds the same results against the interpreter, closer: here the kernels add in
their own order.
"""

import json
import os
import re
from pathlib import Path

import pytest
import torch
from tilewright.options import read_options
from tilewright.testing import DTYPES, compile_text

CASES = Path(__file__).resolve().parents[1] / "core" / "passes" / "inputs" / "eager.jsonl"
TARGET = os.environ.get("TILEWRIGHT_TARGET", "" if torch.cuda.is_available() else "sim:sm_90a")
DEVICE = torch.device("cpu" if TARGET.startswith("sim") else "cuda")
# Relative and absolute: a few last bits, and those of terms of size 1 where sums and cancelling formulas are exact only
# to them. 16-bit results differ by one last bit where the wide result is a tie.
TOLERANCE = {
    torch.float64: (1e-12, 1e-12),
    torch.float32: (2e-6, 1e-6),
    torch.bfloat16: (2**-7, 1e-30),
    torch.float16: (2**-10, 6e-8),
}
# Eager's kernel holds partial sums in 16 bits; ours are wide.
COARSE = ("native_batch_norm_backward.default-bf16", "native_batch_norm_backward.default-f16")


def load_cases():
    for line in CASES.read_text().splitlines():
        case = json.loads(line)
        yield pytest.param(case, id=case["name"])


def decode(tensor):
    dtype, data = DTYPES[tensor["dtype"]], bytearray.fromhex(tensor["bits"])
    if not data:
        return torch.empty(tensor["shape"], dtype=dtype)
    return torch.frombuffer(data, dtype=dtype).reshape(tensor["shape"]).clone()


def is_view(op):
    namespace, name, overload = op.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), overload).is_view


@pytest.mark.parametrize("case", list(load_cases()))
def test_agrees_with_eager(case):
    options = read_options({"target": TARGET, "kernels": "generate", "strict": True})
    compiled = compile_text(re.sub(r'device\("cuda(:0)?"\)', f'device("{DEVICE}")', case["graph"]), options)
    found = compiled([decode(t).to(DEVICE) for t in case["inputs"]])
    calls = re.findall(r"(?m)^ +(?:\S.* = )?call (\S+?)\(", compiled.plan_text())
    assert all(is_view(call) for call in calls), f"left to PyTorch: {calls}"
    for result, recorded in zip(found, case["outputs"], strict=True):
        expected = decode(recorded)
        result = result.cpu()
        assert result.dtype == expected.dtype and result.shape == expected.shape
        if not expected.dtype.is_floating_point:
            assert torch.equal(result, expected)
            continue
        relative, absolute = TOLERANCE[expected.dtype]
        if case["name"].startswith(COARSE):
            absolute = 0.1
        torch.testing.assert_close(result.double(), expected.double(), rtol=relative, atol=absolute, equal_nan=True)
