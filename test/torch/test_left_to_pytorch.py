"""What Tilewright makes no kernels for runs as calls or host steps, with eager's results: nothing of it is an error."""

import pytest
import torch
from agree import Recorder, agrees, same


def test_complex(device):
    x = torch.randn(4, 8, device=device)

    def fn(x):
        spectrum = torch.fft.rfft(x)
        return torch.fft.irfft(spectrum * (1 + 2j)), spectrum.conj(), torch.view_as_real(spectrum) * 2

    agrees(fn, x)


def test_sparse(device):
    def fn(x, y):
        return torch.sparse.mm(x, y) * 2

    sparse = torch.eye(4, device=device).to_sparse()
    x = torch.randn(4, 3, device=device)
    same(fn(sparse, x), torch.compile(fn, backend=Recorder())(sparse, x), "output")


def test_nested(device):
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged, device=device)

    def fn(x):
        return x * 2 + 1

    found = torch.compile(fn, backend=Recorder())(nested)
    same(fn(nested).values(), found.values(), "output")


@pytest.mark.skipif(torch.cuda.is_available(), reason="quantized tensors are for the CPU")
def test_quantized():
    def fn(x):
        q = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
        return q.dequantize() * 2

    agrees(fn, torch.randn(6), fullgraph=False)


def test_random_numbers_are_eagers(device):
    def fn(x):
        y = torch.rand_like(x) + torch.randn(3, device=device)
        return (
            torch.nn.functional.dropout(y, 0.5),
            torch.randint(0, 9, (5,), device=device),
            torch.bernoulli(x.sigmoid()),
        )

    agrees(fn, torch.randn(4, 3, device=device))


def test_data_dependent_sizes(device):
    def fn(x):
        index = torch.nonzero(x > 0)
        return index, x[x > 0].sum(), torch.unique(x.sign())

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        agrees(fn, torch.randn(9, device=device))


def test_numbers_read_from_tensors(device):
    def fn(x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= 4)
        return torch.full((k,), 2.0, device=device).sum() + x * (n.float().item() * 0.1)

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        agrees(fn, torch.randn(4, device=device), torch.tensor(3, device=device))


def test_control_flow(device):
    def fn(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos(), (x,))

    recorder = agrees(fn, torch.ones(3, device=device))
    assert " = host 0(" in recorder.texts[0]
    agrees(fn, -torch.ones(3, device=device))


def test_effects_keep_their_order(device, capfd):
    def fn(x):
        torch.ops.aten._print("first")
        y = x * 2
        torch.ops.aten._print("second")
        return y

    agrees(fn, torch.randn(3, device=device), calls=1)
    assert capfd.readouterr().out.split() == ["first", "second"] * 2


def test_loops(device):
    def fn(x):
        from torch._higher_order_ops.while_loop import while_loop

        return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0, device=device), x))

    agrees(fn, torch.randn(3, device=device))


@pytest.mark.parametrize("make", [torch.optim.AdamW, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)])
def test_an_optimizers_step(device, make):
    """Lists of tensors, written in place."""
    models = [torch.nn.Linear(4, 3).to(device) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    recorder = Recorder()
    optimizers = [make(model.parameters()) for model in models]
    steps = [optimizers[0].step, torch.compile(optimizers[1].step, backend=recorder)]
    for _ in range(3):
        for model, step in zip(models, steps, strict=True):
            for parameter in model.parameters():
                parameter.grad = torch.full_like(parameter, 0.5)
            step()
    same([p.detach() for p in models[0].parameters()], [p.detach() for p in models[1].parameters()], "parameter")
    assert all("-> into " in text for text in recorder.texts)


def test_tensor_subclasses(device):
    from torch.testing._internal.two_tensor import TwoTensor

    x = TwoTensor(torch.randn(3, device=device), torch.randn(3, device=device))
    found = torch.compile(lambda x: x * 2 + 1, backend=Recorder())(x)
    assert type(found) is TwoTensor
    same(x.b * 2 + 1, found.b, "second part")


def test_a_users_operator(device):
    @torch.library.custom_op("tilewright_test::scaled", mutates_args=())
    def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by

    scaled.register_fake(lambda x, by: torch.empty_like(x))
    recorder = agrees(lambda x: scaled(x, 2.5) + 1, torch.randn(3, device=device))
    assert "call tilewright_test.scaled.default(%arg0_1, 2.5)" in recorder.texts[0]


def test_a_users_operator_that_writes(device):
    @torch.library.custom_op("tilewright_test::count", mutates_args=("counter",))
    def count(counter: torch.Tensor, by: int) -> None:
        counter.add_(by)

    def fn(counter, x):
        count(counter, 2)
        return x + counter

    agrees(fn, torch.zeros(3, device=device), torch.randn(3, device=device))


def test_two_devices(device):
    """A tensor of one element in CPU memory, and a copy back to it."""

    def fn(x, factor):
        return x * factor, (x + 1).cpu()

    agrees(fn, torch.randn(3, device=device), torch.tensor(2.5))


def test_lists_optionals_and_flags(device):
    def fn(x, i):
        a, b, c = torch.unbind(x)
        picked = x[i, :, None]
        values, order = torch.sort(x, dim=-1, descending=True, stable=True)
        return torch.stack([a, c, b]), picked, values, order, torch.std(x, dim=[0, 1], correction=0)

    agrees(fn, torch.randn(3, 4, device=device), torch.tensor([2, 0], device=device))


def test_errors_of_operators_are_eagers(device):
    def fn(x, i):
        return torch.index_select(x, 0, i)

    x, bad = torch.randn(3, device=device), torch.tensor([7], device=device)
    if device.type == "cuda":
        pytest.skip("an index out of bounds is a device assertion on a GPU")
    with pytest.raises(IndexError) as eager:
        fn(x, bad)
    with pytest.raises(IndexError) as compiled:
        torch.compile(fn, backend=Recorder())(x, bad)
    assert str(eager.value).splitlines()[0] == str(compiled.value).splitlines()[0]
