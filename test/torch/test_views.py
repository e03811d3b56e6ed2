"""Views are steps of the plan, not calls of PyTorch, and eager's in memory, sizes and strides."""

import re

import pytest
import torch
from agree import Recorder, agrees, compile_text, same
from tilewright import _C

VIEWS = {
    "view": lambda x: x.view(-1),
    "reshape": lambda x: x.reshape(x.shape[0], 2, -1),
    "permute": lambda x: x.permute(1, 0),
    "transpose": lambda x: x.transpose(0, 1)[1:],
    "t": lambda x: x.t(),
    "expand": lambda x: x[:1].expand(3, -1),
    "slice": lambda x: x[1:, 2::3],
    "slice from the end": lambda x: x[-2:, :-1],
    "select": lambda x: x[-1],
    "element": lambda x: x[0, 1],
    "squeeze": lambda x: x[:1].squeeze(0),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "detach": lambda x: x.detach(),
    "alias": torch.ops.aten.alias.default,
    "narrow": lambda x: x.narrow(1, 2, 3),
    "diagonal": lambda x: x.diagonal(1),
    "split": lambda x: x.split(2, dim=1)[1:],
    "chunk": lambda x: x.chunk(2, dim=1),
    "unbind": lambda x: x.unbind(1)[1::2],
    "unfold": lambda x: x.unfold(1, 3, 2),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 3)),
    "several": lambda x: x.view(x.shape[0], 2, -1).transpose(1, 2)[:, 1:].unsqueeze(0),
}


def plan_steps(recorder: Recorder, kind: str) -> list[str]:
    plans = [part.executable.plan_text() for part in recorder.parts]
    return re.findall(rf"(?m)^ +(?:\S.* = )?{kind} .*$", "\n".join(plans))


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_eager_views(device, view, dynamic):
    """Of an input, a call's result and a kernel's."""

    def fn(x):
        return view(x), view(torch.sort(x)[0]), view(x.sin())

    recorder = agrees(fn, torch.randn(4, 6, device=device), dynamic=dynamic)
    assert all("aten.sort" in call for call in plan_steps(recorder, "call"))
    assert len(plan_steps(recorder, "view")) >= 3


def test_views_of_views_are_one_step(device):
    def fn(x, w):
        heads = torch.mm(x, w).view(2, 3, 2, 4).transpose(1, 2)
        return torch.bmm(heads[:, 0], heads[:, 1].transpose(1, 2))

    recorder = Recorder(kernels="auto", matmul="call")
    agrees(fn, torch.randn(6, 5, device=device), torch.randn(5, 8, device=device), recorder=recorder)
    assert len(plan_steps(recorder, "view")) == 2
    assert len(plan_steps(recorder, "call")) == 2


@pytest.mark.parametrize("dynamic", [None, True])
def test_an_input_may_start_anywhere_in_its_storage(device, dynamic):
    """Nothing guards an input's offset, so the plan holds for others than capture's."""

    def fn(x):
        return x[1:], x.as_strided((2,), (1,), 1), x.view(2, -1)[1] * 2

    memory = torch.randn(40, device=device)
    compiled = torch.compile(fn, backend=Recorder(), dynamic=dynamic)
    for start in (3, 0, 7):
        x = memory[start : start + 8]
        same(fn(x), compiled(x), f"start {start}")


def test_an_output_is_an_alias(device):
    def fn(x):
        y = x.view(3, 2).t()
        return y, y[1:]

    x = torch.randn(6, device=device)
    found = torch.compile(fn, backend=Recorder())(x)
    x += 1
    same(fn(x), found, "after a write to the input")


def test_gradients_pass_through_views(device):
    def fn(x, w):
        return (x.view(3, -1) @ w.t()).transpose(0, 1)[1:]

    x = torch.randn(12, device=device, requires_grad=True)
    recorder = agrees(fn, x, torch.randn(5, 4, device=device, requires_grad=True), backward=True)
    assert all("aten.mm" in call for call in plan_steps(recorder, "call"))


TEXT = """graph @g(%x: f32[4, 6] strides [6, 1]) -> (f32[6, 4])
{
  %v = call aten.permute.default(%x, [1, 0]) : f32[6, 4] strides [1, 6]
  %r = call aten.RESULT.default(%v) : f32[6, 4] strides [1, 6]
  return %r
}
"""


def test_an_input_with_other_strides(device):
    """A view step reads memory by the type's strides: others are an error where a call sees the memory."""
    other = torch.randn(6, 4, device=device).t()
    compiled = compile_text(TEXT.replace("RESULT", "neg"), device)
    assert torch.equal(compiled([other.contiguous()])[0], -other.t())
    with pytest.raises(_C.UserError, match=r"input 0 has the strides \[1, 4\], the graph was compiled for \[6, 1\]"):
        compiled([other])


def test_a_view_beyond_the_storage(device):
    text = TEXT.replace("RESULT", "alias").replace("strides [1, 6]", "strides [1, 60]")
    with pytest.raises(RuntimeError, match="out of bounds"):
        compile_text(text, device)([torch.randn(4, 6, device=device)])
