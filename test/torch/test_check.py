"""tilewright.check: errors of eager and of Tilewright against float64, and the operator where they part."""

import dataclasses

import pytest
import tilewright
import tilewright.backend
import torch
from tilewright import checking


def small(x, w):
    y = torch.nn.functional.gelu(x @ w)
    return torch.softmax(y * 3, -1), y.sum(), 7


def inputs(device, dtype=torch.float32):
    return torch.randn(4, 8, device=device, dtype=dtype), torch.randn(8, 8, device=device, dtype=dtype)


def test_results_that_agree(device):
    found = tilewright.check(small)(*inputs(device))
    assert [o.output for o in found.outputs] == [0, 1]
    assert all(o.eager < 1e-5 and o.tilewright < 1e-5 for o in found.outputs)
    assert found.parting is None
    assert "No operator differs from eager's." in str(found)


def test_narrow_types_are_measured_against_float64(device):
    found = tilewright.check(small)(*inputs(device, torch.bfloat16))
    assert all(1e-5 < o.eager < 0.1 and 1e-5 < o.tilewright < 0.1 for o in found.outputs)


def test_a_module_is_left_as_it_was(device):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5)).to(device)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = torch.randn(16, 8, device=device)
    drawn = torch.get_rng_state()
    found = tilewright.check(model)(x)
    assert found.parting is None
    assert torch.equal(drawn, torch.get_rng_state())
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_what_float64_cannot_compute(device):
    """The function has a float32 tensor of its own, which a float64 product refuses."""
    w = torch.randn(8, 8, device=device)
    found = tilewright.check(lambda x: x @ w)(torch.randn(2, 8, device=device))
    assert found.outputs[0].eager != found.outputs[0].eager
    assert found.parting is None


def wrong_exponentials(import_fx):
    """Every exp becomes exp2, as if its kernel were wrong."""

    def imported(*args):
        graph = import_fx(*args)
        return dataclasses.replace(graph, text=graph.text.replace("call aten.exp.default", "call aten.exp2.default"))

    return imported


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_operator_that_differs_is_named(dynamic, device, monkeypatch):
    for module in (checking, tilewright.backend):
        monkeypatch.setattr(module, "import_fx", wrong_exponentials(module.import_fx))

    def fn(x):
        y = x.sin() * 2
        return y.exp().log1p() + y

    x = torch.randn(4, 8, device=device)
    if dynamic:
        torch._dynamo.mark_dynamic(x, 0)
    found = tilewright.check(fn)(x)
    assert found.outputs[0].tilewright > 100 * found.outputs[0].eager
    assert found.parting.operator == "aten.exp.default"
    assert "test_check.py" in found.parting.place and "y.exp().log1p() + y" in found.parting.place
    assert "not close" in found.parting.difference
    assert "They part at aten.exp.default  " in str(found)
