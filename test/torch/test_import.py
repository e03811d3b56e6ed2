"""The imported text: operators whole, sizes as expressions, writes into parameters, host steps for Python's own."""

import re

import torch
from agree import Recorder


def captured(fn, *args, dynamic=None) -> str:
    """The text without locations, whose paths depend on the machine."""
    recorder = Recorder(kernels="call")
    with torch.no_grad():
        torch.compile(fn, backend=recorder, fullgraph=True, dynamic=dynamic)(*args)
    (text,) = recorder.texts
    return re.sub(r" @ \d+$", "", text.split("\nloc ")[0], flags=re.MULTILINE) + "\n"


def test_operators_arrive_whole(golden, device):
    norm = torch.nn.LayerNorm(8).to(device)
    weight = torch.randn(8, 8, device=device)

    def fn(x):
        return torch.softmax(torch.nn.functional.gelu(norm(x) @ weight), dim=-1)

    golden("whole_operators.tw", captured(fn, torch.randn(4, 8, device=device)))


def test_sizes_become_expressions(golden, device):
    def fn(x, y):
        rows, columns = x.shape
        flat = torch.cat([x, y]).reshape(columns * 2, -1)
        return flat[: rows // 2], rows * 3 - 1

    golden("size_expressions.tw", captured(fn, *(torch.randn(6, 4, device=device) for _ in range(2)), dynamic=True))


def test_writes_into_parameters(golden, device):
    def fn(cache, x, step):
        cache[:, step : step + 1] = x
        return cache.sum()

    golden("writes.tw", captured(fn, torch.zeros(3, 5, device=device), torch.ones(3, 1, device=device), 2))


def test_lists_are_flattened(golden, device):
    def fn(x):
        first, _, third = torch.split(x, [1, 2, 3])
        values, _ = torch.topk(third, 2)
        return first, values

    golden("lists.tw", captured(fn, torch.arange(6.0, device=device)))


def test_numbers_of_the_data(golden, device):
    def fn(x):
        kept = x[x > 0]
        return kept, kept.shape[0] * 2

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        golden("data_dependent.tw", captured(fn, torch.tensor([1.0, -1.0, 2.0], device=device)))


def test_python_arithmetic_on_floats_is_a_host_step(device):
    def fn(x, t):
        return x * 2, (t.item() * 0.1) ** 2

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        text = captured(fn, torch.ones(4, device=device), torch.tensor(3.0))
    assert "call aten._local_scalar_dense.default" in text
    assert re.search(r"%\w+ = host \d+\(%\w+\) : float", text)


def test_constants_are_parameters_at_the_end(device):
    text = captured(lambda x: x * torch.tensor([1.0, 2.0], device=device), torch.ones(2, device=device))
    assert re.search(r"graph @inference\(%arg0_1: f32\[2\] strides \[1\], %_tensor_constant0: f32\[2\]", text)


def test_locations_are_the_users(device):
    recorder = Recorder(kernels="call")

    def fn(x):
        y = torch.nn.functional.softplus(x)
        return y * 3

    torch.compile(fn, backend=recorder)(torch.ones(2, device=device))
    locations = [line for line in recorder.texts[0].splitlines() if line.startswith("loc ")]
    assert len(locations) == 2
    assert re.fullmatch(
        r'loc 0 = ".*test_import.py":\d+ "y = torch.nn.functional.softplus\(x\)" aten.softplus.default', locations[0]
    )
    assert locations[1].endswith('"return y * 3" aten.mul.Tensor')


def test_names_of_symbols_are_no_element_types(device):
    def fn(x):
        parts = [x[x > i] for i in range(10)]
        return [part.sum() for part in parts]

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        text = captured(fn, torch.arange(12.0, device=device))
    assert "f32[u8_]" in text and "f32[u8]" not in text


def test_the_same_graph_gives_the_same_text(device):
    def fn(x, y):
        return torch.cat([x, y]).relu().sum(0), x.shape[0] + y.shape[0]

    args = (torch.ones(5, 3, device=device), torch.ones(7, 3, device=device))
    first = captured(fn, *args, dynamic=True)
    torch._dynamo.reset()
    assert captured(fn, *args, dynamic=True) == first
