"""torch.compile's ways of use: modes, options, dynamic sizes, grad modes, autocast, graph breaks."""

import warnings

import pytest
import torch
from agree import Recorder, agrees, run, same
from tilewright import backend
from torch._dynamo.utils import counters


def gelu_norm(x):
    return torch.nn.functional.layer_norm(torch.nn.functional.gelu(x), x.shape[-1:])


def test_by_name_without_an_import(device):
    x = torch.randn(4, 8, device=device)
    before = counters["tilewright"]["graphs"]
    compiled = torch.compile(gelu_norm, backend="tilewright", options={"kernels": "call"}, fullgraph=True)
    same(gelu_norm(x), compiled(x), "output")
    assert counters["tilewright"]["graphs"] == before + 1
    assert "tilewright" in torch._dynamo.list_backends()


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_modes_run_as_the_default_and_say_so_once(mode, device, monkeypatch):
    monkeypatch.setattr(backend, "_warned", set())
    x = torch.randn(4, 8, device=device)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for fn in (lambda x: x + 1, lambda x: x * 2):
            same(fn(x), torch.compile(fn, backend="tilewright", mode=mode)(x), "output")
    assert [str(w.message) for w in caught if "tilewright" in str(w.message)] == [
        f'tilewright: mode="{mode}" runs as the default for now'
    ]


def test_one_compile_serves_all_sizes(device):
    recorder = Recorder()
    compiled = torch.compile(gelu_norm, backend=recorder, dynamic=True, fullgraph=True)
    for shape in [(2, 8), (5, 16), (64, 3), (7, 129)]:
        x = torch.randn(shape, device=device)
        same(gelu_norm(x), compiled(x), str(shape), rtol=1e-4, atol=1e-5)
    assert len(recorder.parts) == 1


def test_sizes_become_dynamic_by_themselves(device):
    recorder = Recorder()
    compiled = torch.compile(gelu_norm, backend=recorder, fullgraph=True)
    for rows in (3, 5, 9, 17):
        x = torch.randn(rows, 8, device=device)
        same(gelu_norm(x), compiled(x), str(rows), rtol=1e-4, atol=1e-5)
    assert len(recorder.parts) == 2


def test_inference_mode(device):
    with torch.inference_mode():
        x = torch.randn(4, 8, device=device)
        same(gelu_norm(x), torch.compile(gelu_norm, backend=Recorder())(x), "output", rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backward", [False, True])
def test_autocast(device, backward):
    linear = torch.nn.Linear(8, 4).to(device)

    def fn(x):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            y = linear(x)
            assert y.dtype == torch.bfloat16
            return torch.softmax(y, -1), y

    x = torch.randn(3, 8, device=device, requires_grad=backward)
    agrees(fn, x, backward=backward, rtol=2e-2, atol=1e-2)


def test_graph_breaks(device):
    recorder = Recorder()

    def fn(x):
        y = torch.relu(x) * 2
        torch._dynamo.graph_break()
        return y.sum(-1)

    agrees(fn, torch.randn(4, 8, device=device), recorder=recorder, fullgraph=False)
    assert len(recorder.parts) == 2


def test_two_functions_do_not_share_a_compiler(device):
    x = torch.randn(4, device=device)
    for fn in (lambda x: x.exp(), lambda x: x.tanh()):
        recorder = Recorder()
        same(fn(x), torch.compile(fn, backend=recorder)(x), "output")
        assert len(recorder.parts) == 1


def test_the_empty_graph(device):
    def fn(x):
        return x

    x = torch.randn(3, device=device)
    assert torch.compile(fn, backend=Recorder())(x) is x
    recorder = Recorder()
    gm = torch.fx.symbolic_trace(lambda a: (a, None, 3))
    assert run(recorder(gm, [x]), (x,), backward=False)[0].data_ptr() == x.data_ptr()


def test_compiled_twice_in_one_process_with_other_backends(device):
    """Nothing of ours is left behind for other backends."""
    x = torch.randn(4, 8, device=device)
    same(gelu_norm(x), torch.compile(gelu_norm, backend=Recorder())(x), "ours", rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()
    seen = []

    def other(gm, inputs):
        seen.extend(node.target for node in gm.graph.nodes)
        return gm.forward

    torch.compile(gelu_norm, backend=other)(x)
    assert torch.nn.functional.gelu in seen or torch._C._nn.gelu in seen


@pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without a GPU")
def test_cpu_tensors_run_in_pytorch_with_one_warning(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_TARGET", "")
    monkeypatch.setattr(backend, "_warned", set())
    x = torch.randn(3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for fn in (lambda x: x + 1, lambda x: x * 2):
            same(fn(x), torch.compile(fn, backend="tilewright")(x), "output")
    (message,) = [str(w.message) for w in caught if "tilewright" in str(w.message)]
    assert "no tensor on a GPU" in message and "sim:sm_90a" in message
