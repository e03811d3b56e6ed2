"""Forward and backward both go through Tilewright; gradients are eager's."""

import copy

import pytest
import torch
from agree import Recorder, agrees
from models import GPT2, MLP, BertLayer, ResNetBlock
from torch.utils.checkpoint import checkpoint

CLOSE = {"rtol": 1e-3, "atol": 1e-4}


def test_both_graphs_are_compiled(device):
    recorder = agrees(MLP().to(device), torch.randn(4, 16, device=device, requires_grad=True), backward=True, **CLOSE)
    assert [part.kind for part in recorder.parts] == ["forward", "backward"]


def test_gradients_only_where_wanted(device):
    x, y = torch.randn(3, 4, device=device, requires_grad=True), torch.randn(3, 4, device=device)
    agrees(lambda x, y: (x * y).tanh(), x, y, backward=True, **CLOSE)


def test_backward_twice(device):
    x = torch.randn(3, device=device, requires_grad=True)
    y = torch.compile(lambda x: (x * 2).sin(), backend=Recorder())(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    torch.testing.assert_close(x.grad, 4 * torch.cos(2 * x.detach()))


def saved_values(forward: str) -> list[str]:
    """What forward returns after the one output."""
    return forward.split("return ")[1].split("\n")[0].split(", ")[1:]


def test_a_norm_between_pointwise_work_is_computed_again(device):
    """Backward of gelu reads the norm's result: one kernel makes it again from the input that is saved anyway."""
    norm, weight = torch.nn.LayerNorm(64).to(device), torch.randn(64, 64, device=device, requires_grad=True)
    recorder = Recorder()
    x = torch.randn(32, 64, device=device, requires_grad=True)
    torch.compile(lambda x: torch.nn.functional.gelu(norm(x)) @ weight, backend=recorder)(x).sum().backward()
    forward, backward = recorder.texts
    assert not any(name.startswith("%native_layer_norm_0") for name in saved_values(forward))
    assert "aten.native_layer_norm.default" in backward


def test_a_norm_that_a_product_reads_is_saved(device):
    """The product's backward reads the norm's result from memory: forward has written it, so it stays."""
    norm, weight = torch.nn.LayerNorm(64).to(device), torch.randn(64, 64, device=device, requires_grad=True)
    recorder = Recorder()
    x = torch.randn(32, 64, device=device, requires_grad=True)
    torch.compile(lambda x: norm(x) @ weight, backend=recorder)(x).sum().backward()
    assert "aten.native_layer_norm.default" not in recorder.texts[1]


def test_the_memory_budget_is_obeyed(device):
    layers = torch.nn.Sequential(*(MLP() for _ in range(3))).to(device)
    x = torch.randn(8, 16, device=device, requires_grad=True)
    saved = {}
    for budget in (0.0, 1.0):
        torch._dynamo.reset()
        recorder = Recorder(kernels="call")
        with torch._functorch.config.patch(activation_memory_budget=budget):
            torch.compile(layers, backend=recorder)(x).sum().backward()
        saved[budget] = len([name for name in saved_values(recorder.texts[0]) if "primals" not in name])
    assert saved[0.0] < saved[1.0]


def test_checkpoint_tags_are_obeyed(device):
    layer = MLP().to(device)
    recorder = Recorder()

    def fn(x):
        return checkpoint(layer, x, use_reentrant=False)

    agrees(fn, torch.randn(4, 16, device=device, requires_grad=True), backward=True, recorder=recorder, **CLOSE)
    assert sum("aten.addmm.default" in line for line in recorder.texts[1].splitlines() if "call" in line) >= 1


def test_dropout_draws_eagers_numbers(device):
    dropout = torch.nn.Dropout(0.5)
    agrees(dropout, torch.randn(64, device=device, requires_grad=True), backward=True)


@pytest.mark.parametrize("dynamic", [None, True])
def test_batch_norm_block(device, dynamic):
    agrees(
        ResNetBlock().to(device),
        torch.randn(2, 8, 6, 6, device=device, requires_grad=True),
        backward=True,
        dynamic=dynamic,
        rtol=2e-3,
        atol=5e-4,
    )


@pytest.mark.parametrize("dynamic", [None, True])
def test_bert_layer(device, dynamic):
    x, mask = (
        torch.randn(2, 6, 32, device=device, requires_grad=True),
        torch.ones(2, 6, device=device, dtype=torch.bool),
    )
    mask[1, 4:] = False
    agrees(BertLayer().to(device), x, mask, backward=True, dynamic=dynamic, **CLOSE)


def step_losses(model, tokens, dtype=None, compiled=None, steps=5):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run = model if compiled is None else compiled
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast(tokens.device.type, dtype=torch.bfloat16, enabled=dtype is torch.bfloat16):
            loss = run(tokens)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("dynamic", [None, True])
def test_gpt2_steps(device, dynamic):
    """Five optimizer steps: the loss within twice the difference between eager in bfloat16 and in float32."""
    model = GPT2().to(device)
    tokens = torch.randint(0, 64, (2, 16), device=device)
    wide = step_losses(copy.deepcopy(model), tokens)
    narrow = step_losses(copy.deepcopy(model), tokens, torch.bfloat16)
    ours = copy.deepcopy(model)
    compiled = torch.compile(ours, backend=Recorder(), dynamic=dynamic)
    found = step_losses(ours, tokens, torch.bfloat16, compiled)
    allowed = 2 * max(abs(a - b) for a, b in zip(wide, narrow, strict=True))
    assert max(abs(a - b) for a, b in zip(wide, found, strict=True)) <= allowed, (wide, narrow, found)
