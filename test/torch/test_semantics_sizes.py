"""Sizes, offsets and strides that change from call to call: right each time, and without a compile that Dynamo alone
would not make."""

import pytest
import torch
from agree import Recorder, agrees, same

F = torch.nn.functional
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def work(x):
    y = F.softmax(x * 2, -1)
    return y, (y - x).sum(0), F.gelu(x.t()), torch.cat([x, y], 0)[1:]


@pytest.mark.parametrize("dynamic", [None, True])
def test_offsets_share_one_compile(dynamic, device):
    """The alignment of what comes is tested at each call."""
    recorder = Recorder()
    compiled = torch.compile(work, backend=recorder, dynamic=dynamic, fullgraph=True)
    memory = torch.randn(4000, device=device)
    for offset in (0, 1, 3, 4, 8, 17):
        x = memory[offset : offset + 320].view(10, 32)
        same(work(x), compiled(x), f"offset {offset}", **CLOSE)
    assert len(recorder.parts) == 1


@pytest.mark.parametrize("backward", [False, True])
def test_sizes_0_1_and_more(backward, device):
    """No more graphs than with a back end that adds nothing."""
    shapes = [(3, 8), (5, 8), (1, 8), (0, 8), (64, 8), (4, 1), (4, 0), (4, 513), (1, 1), (2, 2)]

    def fn(x):
        return F.gelu(x) * 2, x.sum(0), x.flip(0), torch.where(x > 0, x, x.mean()) if x.numel() else x

    counts = []
    for make in (Recorder, Eager):
        torch._dynamo.reset()
        backend = make()
        compiled = torch.compile(fn, backend=backend, dynamic=True)
        for shape in shapes:
            results = []
            for run in (fn, compiled):
                torch.manual_seed(1)
                x = torch.randn(shape, device=device, requires_grad=backward)
                outputs = run(x)
                if backward:
                    sum(out.sum() for out in outputs).backward()
                results.append((outputs, x.grad))
            same(*results, str(shape), **CLOSE)
        counts.append(len(backend.parts))
    assert counts[0] == counts[1]


class Eager:
    """aot_eager, which counts the graphs that Dynamo asks for."""

    def __init__(self):
        self.parts = []

    def __call__(self, gm, example_inputs):
        from torch._dynamo.backends.common import aot_autograd

        def count(gm, _):
            self.parts.append(gm)
            return gm

        from torch._functorch.partitioners import min_cut_rematerialization_partition

        return aot_autograd(
            fw_compiler=count,
            bw_compiler=count,
            partition_fn=min_cut_rematerialization_partition,
            keep_inference_input_mutations=True,
        )(gm, example_inputs)


def test_strides_that_change(device):
    recorder = Recorder()
    compiled = torch.compile(work, backend=recorder, dynamic=True)
    whole = torch.randn(40, 64, device=device)
    for x in (whole[:10, :32], whole[::2, ::2], whole.t()[:33, :20], whole[:, :1].expand(40, 7)):
        same(work(x), compiled(x), f"{tuple(x.shape)} {x.stride()}", **CLOSE)


@pytest.mark.parametrize("kept", [0, 1, 2, 9])
def test_sizes_known_when_it_runs(kept, device):
    """Sizes from nonzero, boolean masks and items, also none and one."""

    def fn(x, mask, n):
        rows = x[mask] * 2
        count = n.item()
        torch._check(count >= 0)
        torch._check(count <= 16)
        more = torch.arange(count, device=device).float() * 0.5
        return rows.tanh() + 1, rows.sum(), mask.nonzero() * 3, more, more.sum() + rows.amax(-1).sum(), x[mask].t()

    x, mask = torch.randn(9, 4, device=device), torch.arange(9, device=device) < kept
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        agrees(fn, x, mask, torch.tensor(kept, device=device), **CLOSE)


def test_a_size_known_when_it_runs_serves_all(device):
    recorder = Recorder()

    def fn(x):
        i = (x > 0).nonzero().squeeze(1)
        return x[i].exp().sum(), i + 1

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(fn, backend=recorder, fullgraph=True)
        for shift in (-10, 0, 0.5, 10):
            x = torch.randn(12, device=device) + shift
            same(fn(x), compiled(x), str(shift), **CLOSE)
    assert len(recorder.parts) == 1
