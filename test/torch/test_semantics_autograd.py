"""Gradients and what surrounds them, as in eager: grad modes, hooks, custom functions, autocast, random numbers."""

import pytest
import torch
from agree import Recorder, agrees, loss_of, same
from torch.utils.checkpoint import checkpoint

F = torch.nn.functional


# ---- random numbers ----


def test_random_state_is_consumed_as_in_eager(device):
    """What is drawn after a compiled function is what would be drawn after eager's."""

    def fn(x):
        return F.dropout(x, 0.5) + torch.rand_like(x), torch.randn(3, device=device), torch.randperm(5, device=device)

    x = torch.randn(4, device=device)
    compiled = torch.compile(fn, backend=Recorder(), fullgraph=True)
    drawn = []
    for run in (fn, compiled, compiled):
        torch.manual_seed(11)
        drawn.append((run(x), run(x), torch.rand(2, device=device)))
    same(drawn[0], drawn[1], "first call")
    same(drawn[0], drawn[2], "after the same seed")


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_has_one_mask_forward_and_backward(p, device):
    x = torch.ones(256, device=device, requires_grad=True)
    y = torch.compile(lambda x: F.gelu(F.dropout(x * 2, p)) * 3, backend=Recorder())(x)
    y.sum().backward()
    assert torch.equal(y == 0, x.grad == 0)
    assert 0 < int((y == 0).sum()) < 256


# ---- grad modes ----


def test_regions_without_gradients(device):
    def fn(x, w):
        with torch.no_grad():
            scale = (x * w).abs().max()
        y = x / scale
        with torch.no_grad(), torch.enable_grad():
            z = y * w
        return y + z, scale, (x * w).detach()

    x = torch.randn(4, device=device, requires_grad=True)
    agrees(fn, x, torch.randn(4, device=device, requires_grad=True), backward=True)
    agrees(fn, x.detach(), torch.randn(4, device=device))


def test_grad_modes_outside_are_obeyed(device):
    x = torch.randn(4, device=device, requires_grad=True)
    compiled = torch.compile(lambda x: x.sin() * 2, backend=Recorder())
    assert compiled(x).requires_grad
    with torch.no_grad():
        assert not compiled(x).requires_grad
    with torch.inference_mode():
        assert compiled(x).is_inference()
    assert compiled(x).requires_grad


def test_inputs_of_which_some_want_gradients(device):
    def fn(x, y, i):
        return x * y + i, (x.detach() * y).sum(), y > 0, i * 2

    for wanted in ((True, False), (False, True), (True, True)):
        x, y = (torch.randn(4, device=device, requires_grad=w) for w in wanted)
        agrees(fn, x, y, torch.arange(4, device=device), backward=True)


# ---- backward ----


def test_outputs_used_twice_and_a_graph_kept(device):
    """Two losses over shared results: gradients add up, in the order in which they are asked for."""

    def fn(x):
        y = x.tanh()
        return y, y * x

    grads = []
    x = torch.randn(4, device=device)
    for run in (fn, torch.compile(fn, backend=Recorder(), fullgraph=True)):
        leaf = x.clone().requires_grad_()
        a, b = run(leaf)
        (a.sum() + (a * b).sum()).backward(retain_graph=True)
        b.sum().backward()
        grads.append(leaf.grad)
    same(*grads, "gradient")


def test_gradients_accumulate(device):
    eager, plain = torch.nn.Linear(4, 3).to(device), torch.nn.Linear(4, 3).to(device)
    plain.load_state_dict(eager.state_dict())
    compiled = torch.compile(plain, backend=Recorder())
    for _ in range(3):
        x = torch.randn(2, 4, device=device)
        for run in (eager, compiled):
            run(x).square().mean().backward()
    same([p.grad for p in eager.parameters()], [p.grad for p in plain.parameters()], "gradient")


def test_backward_a_second_time_without_a_graph_kept(device):
    x = torch.randn(4, device=device, requires_grad=True)
    y = torch.compile(lambda x: x.sin().exp(), backend=Recorder())(x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_a_saved_tensor_that_was_written(device):
    """Backward needs x as it was: an error, as in eager."""
    x = torch.randn(4, device=device, requires_grad=True)
    w = torch.randn(4, device=device)
    y = torch.compile(lambda x, w: x * w, backend=Recorder())(x, w)
    w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_gradients_of_gradients_are_refused_as_by_aot(device):
    x = torch.randn(4, device=device, requires_grad=True)
    y = torch.compile(lambda x: x.sin().sum(), backend=Recorder())(x)
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        first.sum().backward()


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant, device):
    # On CUDA AOTAutograd draws what is computed again from generators of its own, so that masks are not eager's.
    dropout = torch.nn.Dropout(0.3 if device.type == "cpu" else 0.0)
    layer = torch.nn.Sequential(torch.nn.Linear(8, 8), dropout, torch.nn.GELU()).to(device)

    def fn(x):
        return checkpoint(layer, checkpoint(layer, x, use_reentrant=reentrant), use_reentrant=reentrant)

    x = torch.randn(4, 8, device=device, requires_grad=True)
    agrees(fn, x, backward=True, fullgraph=False, rtol=1e-4, atol=1e-5)


def test_activations_saved_by_the_users_hooks(device):
    """Saved tensors pass through hooks that are set around the call."""
    packed = []

    def pack(x):
        packed.append(tuple(x.shape))
        return x.to(torch.float64)

    x = torch.randn(4, device=device, requires_grad=True)
    compiled = torch.compile(lambda x: x.sin().exp(), backend=Recorder())
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x.to(torch.float32)):
        y = compiled(x)
    y.sum().backward()
    assert packed
    same(torch.cos(x.detach()) * torch.exp(torch.sin(x.detach())), x.grad, "gradient")


# ---- hooks ----


def test_hooks_on_tensors_and_modules(device):
    """Hooks of inputs, results, inner tensors, modules and accumulated gradients."""

    def make(seen):
        layer = torch.nn.Linear(4, 4).to(device)
        torch.nn.init.constant_(layer.weight, 0.25)
        torch.nn.init.zeros_(layer.bias)
        layer.register_forward_hook(lambda module, args, out: out * 2)
        layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        layer.register_full_backward_hook(lambda module, grads, out: (grads[0] * 0.5,))
        layer.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
        return layer

    seen, results = ([], []), []
    x = torch.randn(3, 4, device=device)
    for i, wrap in enumerate((lambda f: f, lambda f: torch.compile(f, backend=Recorder()))):
        layer = make(seen[i])

        def fn(x, layer=layer):
            y = layer(x)
            if y.requires_grad:
                y.register_hook(lambda g: g * 3)
            return y.tanh()

        leaf = x.clone().requires_grad_()
        leaf.register_hook(lambda g: g + 1)
        out = wrap(fn)(leaf)
        out.register_hook(lambda g: g * 0.25)
        loss_of(out).backward()
        results.append((out, leaf.grad, layer.weight.grad))
    same(results[0], results[1], "result", rtol=1e-4, atol=1e-5)
    same(seen[0], seen[1], "seen by the hook", rtol=1e-4, atol=1e-5)


# ---- custom functions and operators ----


class Rounded(torch.autograd.Function):
    """Straight through: its backward is not the derivative."""

    @staticmethod
    def forward(ctx, x, step):
        ctx.save_for_backward(x)
        ctx.step = step
        inside = x.abs() < 1
        ctx.mark_non_differentiable(inside)
        return (x / step).round() * step, inside

    @staticmethod
    def backward(ctx, grad, _):
        (x,) = ctx.saved_tensors
        return torch.where(x.abs() < 1, grad * 3, 0.0), None


def test_a_custom_function(device):
    def fn(x):
        y, inside = Rounded.apply(x * 2, 0.25)
        return y.exp() * inside, inside

    agrees(fn, torch.randn(8, device=device, requires_grad=True), backward=True)
    agrees(fn, torch.randn(8, device=device))


def test_a_users_operator_with_a_gradient(device):
    """Left whole: its result has the type that its kernel gives."""

    @torch.library.custom_op("tilewright_test::halved", mutates_args=())
    def halved(x: torch.Tensor) -> torch.Tensor:
        return (x * 0.5).to(torch.bfloat16)

    halved.register_fake(lambda x: torch.empty_like(x, dtype=torch.bfloat16))
    halved.register_autograd(lambda ctx, grad: grad.float() * 4)
    recorder = agrees(lambda x: halved(x.sin()) * 2, torch.randn(6, device=device, requires_grad=True), backward=True)
    assert "tilewright_test.halved.default" in recorder.operators()


# ---- autocast ----


def test_autocast_regions(device):
    """A region on, a region off inside it, and none: results and gradients have eager's types."""

    def fn(x, w):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            a = x @ w
            b = (a.softmax(-1) + 1).tanh()
            with torch.autocast(device.type, enabled=False):
                c = (a.float() @ w).sum(0)
            d = F.layer_norm(a, a.shape[-1:])
        return a, b, c, d, (x @ w).relu()

    x, w = (torch.randn(4, 4, device=device, requires_grad=True) for _ in range(2))
    agrees(fn, x, w, backward=True, rtol=2e-2, atol=2e-2)


def test_autocast_around_the_call(device):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).to(device)
    compiled = torch.compile(model, backend=Recorder())
    x = torch.randn(4, 8, device=device)
    for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
        with torch.autocast(device.type, dtype=dtype):
            same(model(x), compiled(x), str(dtype), rtol=2e-2, atol=2e-2)
    same(model(x), compiled(x), "outside", rtol=1e-4, atol=1e-5)
