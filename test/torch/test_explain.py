"""explain: records of what was made, what stayed and why, and a table of them."""

import json

import pytest
import tilewright
import torch
from models import MLP


def test_records_and_table(device):
    model = MLP().to(device)
    with torch.no_grad():
        explanation = tilewright.explain(model, kernels="auto", matmul="call")(torch.randn(4, 16, device=device))
    assert [kernel["name"] for kernel in explanation.kernels] == ["gelu"]
    (origin,) = [o for o in explanation.kernels[0]["origins"] if o["op"] == "aten.gelu.default"]
    assert origin["file"].endswith("models.py") and "F.gelu" in origin["code"]
    assert [call["op"] for call in explanation.calls] == ["aten.addmm.default"] * 2
    assert all(call["why"] for call in explanation.calls)
    assert explanation.decisions and all(d["what"] and d["why"] for d in explanation.decisions)
    assert json.loads(explanation.to_json())["graphs"][0]["graph"] == "inference"
    text = str(explanation)
    assert text.startswith("1 kernels and 2 calls of PyTorch in 1 graph; predicted ")
    for part in ("Kernels", "Left to PyTorch", "Decisions", "Compile time", "aten.addmm.default", "models.py:"):
        assert part in text


def test_backward_is_explained_and_gradients_are_not_kept(device):
    model = MLP().to(device)
    explanation = tilewright.explain(model)(torch.randn(4, 16, device=device))
    assert [graph["graph"] for graph in explanation.graphs] == ["forward", "backward"]
    assert all(parameter.grad is None for parameter in model.parameters())


def test_nothing_is_made_where_nothing_shall_be(device):
    explanation = tilewright.explain(torch.relu, kernels="call")(torch.randn(4, device=device))
    assert explanation.kernels == []


def test_options_are_checked(device):
    with pytest.raises(Exception, match="did you mean 'kernels'"):
        tilewright.explain(torch.relu, kernel="call")(torch.randn(4, device=device))


def test_a_report_a_graph_is_appended_to_the_file(device, tmp_path):
    path = tmp_path / "reports.jsonl"
    for fn in (lambda x: x.sin() + 1, lambda x: x.cos() * 2):
        torch.compile(fn, backend="tilewright", options={"report": str(path)})(torch.ones(4, device=device))
    reports = [json.loads(line) for line in path.read_text().splitlines()]
    assert [report["graph"] for report in reports] == ["inference"] * 2
    assert all(len(report["kernels"]) == 1 for report in reports)
