"""What surrounds a compiled function: transforms, control flow, subclasses, threads, resets, copies; as in eager."""

import copy
import io
import pickle
import threading

import pytest
import torch
from agree import Recorder, agrees, same

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


# ---- transforms ----


def per_sample(x, w):
    return torch.nn.functional.layer_norm(x * w, x.shape).tanh().sum()


@pytest.mark.parametrize("dynamic", [None, True])
def test_vmap_inside(dynamic, device):
    def fn(x, w):
        return torch.vmap(per_sample, in_dims=(0, None))(x, w), torch.vmap(torch.nn.functional.gelu)(x)

    agrees(fn, torch.randn(3, 8, device=device), torch.randn(8, device=device), dynamic=dynamic, **CLOSE)


def test_vmap_outside(device):
    """The compiled function is called by vmap, which Dynamo does not trace then: eager's results all the same."""
    x, w = torch.randn(3, 8, device=device), torch.randn(8, device=device)
    compiled = torch.compile(per_sample, backend=Recorder())
    same(torch.vmap(per_sample, (0, None))(x, w), torch.vmap(compiled, (0, None))(x, w), "output", **CLOSE)


def test_derivatives_inside(device):
    def fn(x, w):
        gradient, value = torch.func.grad_and_value(per_sample)(x, w)
        _, tangent = torch.func.jvp(lambda x: x.sin() * w, (x,), (w,))
        _, pull = torch.func.vjp(lambda x: x.exp() * w, x)
        by_sample = torch.vmap(torch.func.grad(lambda x: (x * x * 3).sum()))(x.view(2, 4))
        return gradient, value, tangent, pull(x)[0], by_sample, torch.func.jacrev(lambda x: x.sin())(x[:2])

    agrees(fn, torch.randn(8, device=device), torch.randn(8, device=device), fullgraph=False, **CLOSE)


def test_a_functional_call(device):
    layer = torch.nn.Linear(4, 3).to(device)

    def fn(weights, x):
        return torch.func.functional_call(layer, weights, (x,)).relu()

    weights = {name: torch.randn_like(p) for name, p in layer.named_parameters()}
    agrees(fn, weights, torch.randn(2, 4, device=device), **CLOSE)


# ---- control flow and other operators of a higher order ----


def test_branches_with_gradients(device):
    def fn(x):
        return torch.cond(x.sum() > 0, lambda x: (x.sin() * x, x + 1), lambda x: (x.cos(), x * 2), (x,))

    for sign in (1, -1):
        agrees(fn, (torch.ones(4, device=device) * sign).requires_grad_(), backward=True)


def test_scans(device):
    from torch._higher_order_ops import associative_scan, scan

    def fn(x):
        carry, rows = scan(lambda c, x: ((c * 0.5 + x).clone(), (c + x).tanh()), x[0] * 0, x)
        return carry, rows * 2, associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic")

    agrees(fn, torch.randn(4, 3, device=device), fullgraph=False, **CLOSE)


def test_flex_attention(device):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = (torch.randn(1, 2, 32, 8, device=device) for _ in range(3))
    mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 32, 32, device=device)

    def fn(q, k, v):
        return flex_attention(q * 2, k, v, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.1, block_mask=mask).relu()

    agrees(fn, q, k, v, rtol=1e-3, atol=1e-4)


# ---- tensor subclasses ----


def test_a_subclass_in_training(device):
    from torch.testing._internal.two_tensor import TwoTensor

    def fn(x):
        return (x * 2).sin() + x

    results = []
    parts = [torch.randn(4, device=device) for _ in range(2)]
    for run in (fn, torch.compile(fn, backend=Recorder(), fullgraph=True)):
        x = TwoTensor(*(p.clone() for p in parts)).requires_grad_()
        out = run(x)
        out.sum().backward()
        results.append([out.a, out.b, x.grad.a, x.grad.b])
    same(results[0], results[1], "parts")


def test_distributed_tensors(device, tmp_path):
    """A mesh of one process: DTensor's operators are those of its local part."""
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available() or distributed.is_initialized():
        pytest.skip("needs a process group of its own")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    kind = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(kind, init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        mesh = init_device_mesh(device.type, (1,))
        x = distribute_tensor(torch.randn(4, 8, device=device), mesh, [Shard(0)])

        def fn(x):
            return (torch.nn.functional.gelu(x) * 2 + x).to_local()

        same(fn(x), torch.compile(fn, backend=Recorder())(x), "local part", **CLOSE)
    finally:
        distributed.destroy_process_group()


def test_parametrized_weights(device):
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 3)).to(device)
    agrees(layer, torch.randn(2, 4, device=device, requires_grad=True), backward=True, **CLOSE)


# ---- several at once ----


def test_functions_that_share_tensors(device):
    """One writes what the other reads."""
    state = torch.zeros(4, device=device)

    def write(x):
        state.add_(x)
        return state.sum()

    def read(x):
        return state * x

    x = torch.ones(4, device=device)
    compiled_write, compiled_read = (torch.compile(fn, backend=Recorder()) for fn in (write, read))
    for i in range(1, 4):
        same(torch.tensor(4.0 * i, device=device), compiled_write(x), "sum")
        same(torch.full((4,), 2.0 * i, device=device), compiled_read(x * 2), "product")


def test_graph_breaks_pass_writes_on(device):
    def fn(x, y):
        x.mul_(2)
        torch._dynamo.graph_break()
        y = y + x
        x.view(-1)[0] = 9
        torch._dynamo.graph_break()
        return x + y

    agrees(fn, torch.randn(4, device=device), torch.randn(4, device=device), fullgraph=False)


@pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13),
    reason="PyTorch 2.11 takes a call in one thread for part of what Dynamo traces in another",
)
def test_threads_run_one_function(device):
    """Each with tensors of its own, some of which need another kernel or another compile."""
    compiled = torch.compile(lambda x: torch.nn.functional.softmax(x * 2, -1).sum(0), backend=Recorder())
    inputs = [torch.randn(4, 8 + 8 * (i % 3), device=device) for i in range(8)]
    found, errors = [None] * len(inputs), []

    def work(i):
        try:
            for _ in range(3):
                found[i] = compiled(inputs[i])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for x, y in zip(inputs, found, strict=True):
        same(torch.nn.functional.softmax(x * 2, -1).sum(0), y, "output", **CLOSE)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="streams are a GPU's")
def test_the_current_stream_is_used():
    stream = torch.cuda.Stream()
    compiled = torch.compile(lambda x: (x * 2 + 1).sum(), backend=Recorder())
    x = torch.randn(1 << 20, device="cuda")
    compiled(x)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10_000_000)
        y = x * 3
        found = compiled(y)
    stream.synchronize()
    same((x * 3 * 2 + 1).sum(), found, "output", **CLOSE)


# ---- the life of a compiled function ----


def test_a_reset_forgets(device):
    recorder = Recorder()
    compiled = torch.compile(lambda x: x * 2, backend=recorder)
    x = torch.randn(4, device=device)
    for count in (1, 2):
        same(x * 2, compiled(x), "output")
        same(x * 2, compiled(x), "output")
        assert len(recorder.parts) == count
        torch.compiler.reset()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layer, self.norm = torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(torch.nn.functional.gelu(self.layer(x)))


def make_model(device):
    return Model().to(device)


def test_a_module_compiled_in_place(device):
    model, x = make_model(device), torch.randn(2, 4, device=device)
    want = model(x)
    recorder = Recorder()
    model.compile(backend=recorder)
    same(want, model(x), "output", **CLOSE)
    assert recorder.parts
    assert list(model.state_dict()) == list(make_model(device).state_dict())


def test_a_copy_of_a_compiled_module_is_its_own(device):
    compiled, x = torch.compile(make_model(device), backend="tilewright"), torch.randn(2, 4, device=device)
    before = compiled(x).detach()
    other = copy.deepcopy(compiled)
    same(before, other(x).detach(), "the copy's output", **CLOSE)
    with torch.no_grad():
        for p in other.parameters():
            p.zero_()
    same(before, compiled(x).detach(), "output")
    assert not other(x).any()


def test_weights_move_between_a_module_and_its_compiled_form(device):
    """As PyTorch documents it: the state's names have the prefix `_orig_mod.`."""
    model = make_model(device)
    compiled, x = torch.compile(model, backend=Recorder()), torch.randn(2, 4, device=device)
    file = io.BytesIO()
    torch.save(compiled.state_dict(), file)
    file.seek(0)
    state = torch.load(file)
    assert {name.removeprefix("_orig_mod.") for name in state} == set(model.state_dict())
    fresh = torch.compile(make_model(device), backend=Recorder())
    with torch.no_grad():
        fresh.norm.weight.zero_()
    fresh.load_state_dict(state)
    same(compiled(x), fresh(x), "output")


def test_a_module_compiled_in_place_is_pickled_without_its_code(device):
    model, x = make_model(device), torch.randn(2, 4, device=device)
    model.compile(backend="tilewright")
    want = model(x)
    same(want, pickle.loads(pickle.dumps(model))(x), "output", **CLOSE)
