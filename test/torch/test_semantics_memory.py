"""What is written, what shares memory, and how results lie in it, as in eager: beyond what test_memory.py and
test_views.py say of single operators."""

import pytest
import torch
from agree import Recorder, agrees, alias_pairs, clone_inputs, same

# ---- mutation ----


def through_a_view_of_a_view(x):
    x.view(2, 2, -1)[:, 1].mul_(2)
    return x.sum(0)


def before_and_after_it_is_read(x):
    y = x * 2
    x.add_(1)
    z = x * 2
    x.t().sub_(y.t())
    return y, z


def by_a_result_of_another_type(x):
    x.copy_((x > 0).to(torch.int32))
    return x[0]


def an_intermediate_through_its_views(x):
    y = x.clone()
    a, b = y[:2], y.t()
    a.mul_(3)
    b[0] = 0.5
    return y, a, b


def a_diagonal_and_rows(x):
    x.diagonal().fill_(7.0)
    x[1:3].zero_()
    return x.diagonal()


def its_form(x):
    x.t_()
    return x + 1


def into_memory_that_is_given(x):
    y = torch.empty(4, 4, device=x.device)
    torch.add(x, 1, out=y)
    torch.mul(y, x, out=y)
    return y


@pytest.mark.parametrize(
    "fn",
    [
        through_a_view_of_a_view,
        before_and_after_it_is_read,
        by_a_result_of_another_type,
        an_intermediate_through_its_views,
        a_diagonal_and_rows,
        its_form,
        into_memory_that_is_given,
    ],
    ids=lambda fn: fn.__name__,
)
def test_an_input_is_written(fn, device):
    """Some of it Dynamo leaves to eager, behind a graph break."""
    agrees(fn, torch.randn(4, 4, device=device), fullgraph=False)
    agrees(fn, torch.randn(4, 8, device=device)[:, ::2], fullgraph=False)


def test_an_input_is_written_in_a_graph_with_gradients(device):
    def fn(x, w, seen):
        y = x * w
        seen.view(-1)[1:].add_(y.detach().flatten()[1:])
        y[0] = 0
        return y.tanh(), seen * 2

    agrees(
        fn,
        torch.randn(3, 4, device=device),
        torch.randn(4, device=device, requires_grad=True),
        torch.zeros(3, 4, device=device),
        backward=True,
    )


class Counts(torch.nn.Module):
    """Writes a parameter and buffers, one of them through a view."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("history", torch.zeros(3, 4))

    def forward(self, x):
        self.calls += 1
        self.history[1:].copy_(self.history[:-1].clone())
        self.history[0] = x.detach().mean(0)
        with torch.no_grad():
            self.weight.mul_(0.5)
        return x + self.history.sum(0)


def test_a_module_writes_its_parameters_and_buffers(device):
    eager, plain = Counts().to(device), Counts().to(device)
    compiled = torch.compile(plain, backend=Recorder(), fullgraph=True)
    for _ in range(3):
        x = torch.randn(2, 4, device=device)
        same(eager(x), compiled(x), "output")
        same(dict(eager.state_dict()), dict(plain.state_dict()), "state")


@pytest.mark.parametrize("cut", [slice(0, 4), slice(1, 3), slice(2, 6)])
def test_inputs_that_share_memory(cut, device):
    """One is written: the other shows it."""

    def fn(a, b):
        a.add_(1)
        return b * 2, a[0]

    whole, again = torch.randn(2, 6, device=device)
    whole, again = whole.clone(), whole.clone()
    compiled = torch.compile(fn, backend=Recorder(), fullgraph=True)
    for _ in range(2):
        same(fn(whole[:4], whole[cut]), compiled(again[:4], again[cut]), "output")
        same(whole, again, "memory")


def test_the_same_tensor_is_two_inputs(device):
    def fn(a, b):
        a.mul_(2)
        return a + b

    x = torch.randn(4, device=device)
    y = x.clone()
    compiled = torch.compile(fn, backend=Recorder(), fullgraph=True)
    same(fn(x, x), compiled(y, y), "output")
    same(x, y, "input")


def test_a_write_to_overlapping_memory_is_refused_as_in_eager(device):
    def fn(x):
        x.add_(1)
        return x

    x = torch.zeros(1, device=device).expand(3)
    with pytest.raises(RuntimeError, match="single memory location"):
        fn(x)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.compile(fn, backend=Recorder())(x)


def test_overlapping_windows_are_read(device):
    def fn(x):
        windows = x.as_strided((4, 3), (1, 1))
        return windows.sum(1), (windows * 2).t(), windows

    agrees(fn, torch.randn(8, device=device))


# ---- results ----


def test_results_that_share_memory_with_each_other(device):
    def fn(x):
        y = x.exp()
        return y, y[1:], y.t(), y.view(-1)[::2], x[0]

    agrees(fn, torch.randn(4, 4, device=device))
    agrees(lambda x: (x.exp()[1:], x.exp().t()), torch.randn(4, 4, device=device, requires_grad=True), backward=True)


def test_a_result_given_twice(device):
    def fn(x):
        y = x * 2
        return y, y, [y, {"again": y}], x, x

    x = torch.randn(4, device=device)
    found = torch.compile(fn, backend=Recorder(), fullgraph=True)(x)
    assert found[0] is found[1] or alias_pairs(found[0], found[1])
    assert found[3] is x and found[4] is x
    agrees(lambda x: [x * 2] * 2, torch.randn(4, device=device, requires_grad=True), backward=True)


def test_a_result_may_be_written_afterwards(device):
    """What is given to the user is the user's: not memory that a later call, or backward, reads."""

    def fn(x):
        y = x.sigmoid()
        return y, y * y

    x = torch.randn(4, device=device, requires_grad=True)
    compiled = torch.compile(fn, backend=Recorder(), fullgraph=True)
    first, _ = compiled(x)
    kept = first.detach().clone()
    second = compiled(x.detach() + 1)
    same(kept, first.detach(), "the first call's result")
    with torch.no_grad():
        second[0].zero_()
    same(fn(x)[0].detach(), compiled(x)[0].detach(), "a later call's result")


LAYOUTS = {
    "channels last": lambda x: x.to(memory_format=torch.channels_last),
    "permuted": lambda x: x.permute(3, 0, 2, 1),
    "a part": lambda x: x[:, :, ::2, 1:],
    "expanded": lambda x: x[:1].expand(3, -1, -1, -1),
    "turned": lambda x: x.transpose(1, 3)[..., ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("backward", [False, True])
def test_layouts_pass_through(layout, backward, device):
    def fn(x):
        y = x * 2 + 1
        return y, y.relu() * x, torch.empty_like(x).fill_(3.0), x.sum(1), x.clone(), x.contiguous()

    agrees(fn, LAYOUTS[layout](torch.randn(2, 4, 6, 5, device=device)).requires_grad_(backward), backward=backward)


def test_channels_last_through_a_block(device):
    block = torch.nn.Sequential(
        torch.nn.Conv2d(4, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.SiLU(), torch.nn.MaxPool2d(2)
    ).to(device, memory_format=torch.channels_last)
    x = torch.randn(2, 4, 6, 6, device=device).to(memory_format=torch.channels_last).requires_grad_()
    agrees(block, x, backward=True, rtol=1e-3, atol=1e-4)


# ---- numbers and types ----


def test_tensors_of_rank_0_and_numbers(device):
    """A tensor of rank 0 loses against a tensor with dimensions of its kind, and a Python number against both."""

    def fn(narrow, wide, whole, n):
        return (
            narrow * wide[0],
            narrow[0] * wide[0],
            whole + 1.5,
            whole[0] + n,
            n * 2.5,
            n / 2,
            narrow + n,
            torch.add(whole, n, alpha=2),
            torch.where(whole > 0, n, 1.0),
            whole // n,
            n**2,
            torch.maximum(n, whole),
        )

    agrees(
        fn,
        torch.randn(4, device=device, dtype=torch.bfloat16),
        torch.randn(4, device=device),
        torch.arange(4, device=device, dtype=torch.int32),
        torch.tensor(3, device=device),
    )


def test_numbers_of_the_program(device):
    """Integers, floats and truth values that are arguments, constants, or read off sizes."""

    def fn(x, i, f, b):
        return x * i, x + f, x * b, (x > f) & b, x / x.shape[0], x ** (i - 1), x.to(torch.int64) // i, x * (i / 2)

    for i, f, b in ((2, 0.5, True), (3, -1.5, False), (7, float("inf"), True)):
        agrees(fn, torch.randn(4, device=device), i, f, b)


def test_tensors_made_inside(device):
    def fn(x):
        n = x.shape[0]
        return (
            torch.arange(n, device=device, dtype=torch.float16),
            torch.arange(0.5, n, 0.25, device=device),
            torch.full((2, n), 3, device=device),
            torch.full((2,), 2.5, device=device, dtype=torch.float64),
            torch.zeros(n, device=device, dtype=torch.bool),
            torch.ones_like(x, dtype=torch.int32),
            x.new_full((3,), 7),
            torch.tensor([1, 2, 3], device=device) * x[:3],
            torch.tensor(2.5, device=device) + x,
            torch.linspace(0, 1, 5, device=device) * 2,
            torch.eye(n, device=device)[1],
            torch.empty(0, device=device),
        )

    agrees(fn, torch.randn(4, device=device))
    agrees(fn, torch.randn(4, device=device, dtype=torch.bfloat16))


def test_the_default_type_is_obeyed(device):
    def fn(x):
        return torch.ones(3, device=device) * x, torch.arange(3.0, device=device), x.long() / 2

    torch.set_default_dtype(torch.float64)
    try:
        agrees(fn, torch.randn(3, device=device))
    finally:
        torch.set_default_dtype(torch.float32)


def test_calls_do_not_change_what_they_are_given(device):
    """A list of inputs that PyTorch hands over is emptied; the user's is not."""
    x = [torch.randn(3, device=device), torch.randn(3, device=device)]
    kept = clone_inputs((x,))[0]
    compiled = torch.compile(lambda x: x[0] + x[1], backend=Recorder(), fullgraph=True)
    for _ in range(2):
        compiled(x)
    same(kept, x, "input")
