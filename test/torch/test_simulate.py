"""`tilewright.simulate` on NumPy arrays and tensors, with PTX of nvcc and Triton."""

import json
import pathlib

import numpy as np
import pytest
import tilewright
import torch
from tilewright._C import DeviceError, UserError

DATA = pathlib.Path(__file__).parents[1] / "core/simulator"


def ptx(name: str) -> str:
    return (DATA / f"{name}.ptx").read_text()


def test_arrays_and_tensors_are_written_in_place():
    x = np.arange(1000, dtype=np.float32)
    y = torch.full((1000,), 0.5)
    out = torch.zeros(1000)
    report = tilewright.simulate(ptx("data/kernels_sm90a"), x, y, out, 1000, entry="vector_add", grid=4, block=256)
    assert torch.equal(out, torch.from_numpy(x) + y)
    assert report.counters["blocks"] == 4
    assert report.counters["memory"]["global_load"]["bytes"] == 8000
    assert json.loads(report.to_json()) == report.counters
    assert "ld.global.f32" in str(report)
    assert "sectors" in report.listing()


def test_a_tritons_kernel():
    x = torch.randn(3, 700)
    out = torch.empty_like(x)
    tilewright.simulate(ptx("triton/softmax"), x, out, 700, None, None, grid=3, block=256, shared_bytes=32)
    torch.testing.assert_close(out, torch.softmax(x, -1))


def test_numbers_of_all_kinds_and_printing():
    report = tilewright.simulate(ptx("cuda/functions"), np.int32(2), entry="prints", block=32)
    assert report.printed.splitlines()[:2] == ["plain", "plain"]
    prices = [np.linspace(10, 30, 64, dtype=np.float32) for _ in range(3)] + [
        np.zeros(64, np.float32) for _ in range(2)
    ]
    tilewright.simulate(ptx("cuda/functions"), *prices, 64, entry="black_scholes", block=64)
    assert (prices[3] > 0).all()


def test_faults_and_misuse():
    text = ptx("data/kernels_sm90a")
    x = np.zeros(60, np.float32)
    with pytest.raises(DeviceError, match=r"out-of-bounds global load.*'argument [012]'"):
        tilewright.simulate(text, x, x.copy(), x.copy(), 64, entry="vector_add", block=64)
    with pytest.raises(UserError, match="takes 4 arguments, found 1"):
        tilewright.simulate(text, x, entry="vector_add")
    with pytest.raises(UserError, match="choose one by `entry`"):
        tilewright.simulate(text)
    with pytest.raises(UserError, match="not a contiguous array"):
        tilewright.simulate(text, x[::2], x, x, 3, entry="vector_add")
    with pytest.raises(UserError, match="unknown check 'race'"):
        tilewright.simulate(text, x, x, x, 3, entry="vector_add", check="race")
    with pytest.raises(UserError, match=r"1:1: found no \.version"):
        tilewright.simulate("")


RACE = """
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
  .shared .align 4 .b8 s[4];
  .reg .b32 %t, %v;
  .reg .b64 %o;
  mov.u32 %t, %tid.x;
  st.shared.u32 [s], %t;
  ld.shared.u32 %v, [s];
  ld.param.u64 %o, [out];
  st.global.u32 [%o], %v;
  ret;
}
"""


def test_checks_are_asked_for():
    out = np.zeros(1, np.uint32)
    tilewright.simulate(RACE, out, block=64)
    with pytest.raises(DeviceError, match="race"):
        tilewright.simulate(RACE, out, block=64, check=["races"])
