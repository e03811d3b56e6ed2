"""Plans of calls: PyTorch's operators run from C++ with the arguments that a graph's text gives."""

import gc
import weakref

import pytest
import torch
from agree import compile_text
from tilewright import _C
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode


def run(text, args, hosts=()):
    return compile_text(text, next(a.device for a in args if isinstance(a, torch.Tensor)), hosts)(list(args))


def one_call(call, parameters, types):
    """A graph that returns all results of one call."""
    names = ", ".join(f"%r{i}" for i in range(len(types)))
    types = ", ".join(types)
    return f"graph @g({parameters}) -> ({types})\n{{\n  {names} = call {call} : {types}\n  return {names}\n}}\n"


X = "%x: f32[4, 6] strides [6, 1]"


@pytest.mark.parametrize(
    ("call", "result", "expected"),
    [
        ("aten.add.Tensor(%x, 0.125)", "f32[4, 6]", lambda x: x + 0.125),
        ("aten.add.Tensor(%x, %x, alpha=2)", "f32[4, 6]", lambda x: torch.add(x, x, alpha=2)),
        ("aten.pow.Tensor_Scalar(%x, 2)", "f32[4, 6]", lambda x: x**2),
        ("aten.sum.dim_IntList(%x, [1], true)", "f32[4, 1]", lambda x: x.sum(1, True)),
        ("aten.sum.dim_IntList(%x, [-1], dtype=dtype(f64))", "f64[4]", lambda x: x.sum(-1, dtype=torch.float64)),
        ("aten.clamp.default(%x, none, 0.5)", "f32[4, 6]", lambda x: x.clamp(max=0.5)),
        ('aten.div.Tensor_mode(%x, 3, rounding_mode="floor")', "f32[4, 6]", lambda x: torch.floor_divide(x, 3)),
        (
            'aten.full.default([2, 3], true, dtype=dtype(bool), layout=layout(strided), device=device("cuda"))',
            "bool[2, 3]",
            lambda x: torch.ones(2, 3, dtype=torch.bool, device=x.device),
        ),
        (
            "aten.clone.default(%x, memory_format=memory_format(contiguous_format))",
            "f32[4, 6]",
            lambda x: x.clone(),
        ),
        ("aten.cat.default([%x, %x], 1)", "f32[4, 12]", lambda x: torch.cat([x, x], 1)),
        ("aten.mul.Scalar(%x, complex(0.0, 1.0))", "c64[4, 6]", lambda x: x * 1j),
        (
            "aten.constant_pad_nd.default(%x, [1, 2], -inf)",
            "f32[4, 9]",
            lambda x: torch.nn.functional.pad(x, (1, 2), value=-torch.inf),
        ),
        ("aten.avg_pool1d.default(%x, 2)", "f32[4, 3]", lambda x: torch.nn.functional.avg_pool1d(x, 2)),
    ],
)
def test_argument_kinds(device, call, result, expected):
    x = torch.randn(4, 6, device=device)
    (found,) = run(one_call(call, X, [result]), [x])
    want = expected(x)
    assert found.dtype == want.dtype
    assert torch.equal(found, want)


def test_results_are_flattened(device):
    x = torch.randn(4, 6, device=device)
    values, indices = run(one_call("aten.topk.default(%x, 2)", X, ["f32[4, 2]", "i64[4, 2]"]), [x])
    assert torch.equal(values, x.topk(2).values)
    assert torch.equal(indices, x.topk(2).indices)
    parts = run(one_call("aten.split.Tensor(%x, 3)", X, ["f32[3, 6]", "f32[1, 6]"]), [x])
    assert [tuple(p.shape) for p in parts] == [(3, 6), (1, 6)]
    assert parts[0].data_ptr() == x.data_ptr()


def test_optional_tensors(device):
    x = torch.randn(4, 6, device=device)
    index = torch.tensor([2, 0], device=device)
    text = one_call("aten.index.Tensor(%x, [none, %i])", X + ", %i: i64[2]", ["f32[4, 2]"])
    assert torch.equal(run(text, [x, index])[0], x[:, index])


def test_a_result_that_nothing_reads_keeps_the_operators_strides(device):
    """Capture may have been wrong about them; what a user sees is what eager's operator gives."""
    x = torch.randn(4, 6, device=device)
    (found,) = run(one_call("aten.clone.default(%x)", X, ["f32[4, 6] strides [1, 4]"]), [x])
    assert found.stride() == (6, 1)
    assert torch.equal(found, x)


def test_a_result_that_is_viewed_has_the_recorded_strides(device):
    x = torch.randn(4, 6, device=device)
    text = """graph @g(%x: f32[4, 6] strides [6, 1]) -> (f32[6, 4])
{
  %r = call aten.clone.default(%x) : f32[4, 6] strides [1, 4]
  %t = call aten.t.default(%r) : f32[6, 4] strides [4, 1]
  return %t
}
"""
    (found,) = run(text, [x])
    assert found.stride() == (4, 1)
    assert torch.equal(found, x.t())


def test_a_result_of_another_type_than_captured_is_converted_for_kernels(device):
    """Some of PyTorch's fake kernels promise float32 where the operator gives a narrow type."""
    text = """graph @g(%x: f16[4, 6] strides [6, 1]) -> (f32[4, 6])
{
  %r = call aten.cumsum.default(%x, 0) : f32[4, 6] strides [6, 1]
  %t = call aten.mul.Tensor(%r, 2.0) : f32[4, 6] strides [6, 1]
  return %t
}
"""
    x = torch.randn(4, 6, device=device, dtype=torch.float16)
    target = {} if device.type == "cuda" else {"target": "sim:sm_90a"}
    compiled = _C.compile(text, {"kernels": "generate", **target}, [], str(torch.empty(0, device=device).device))
    assert "launch" in compiled.plan_text()
    (found,) = compiled([x])
    assert torch.equal(found, x.cumsum(0).float() * 2)


def test_a_view_is_not_copied_for_its_strides(device):
    x = torch.randn(4, 6, device=device)
    text = one_call("aten.as_strided.default(%x, [4, 3], [6, 1], 0)", X, ["f32[4, 3] strides [3, 1]"])
    (found,) = run(text, [x])
    assert found.data_ptr() == x.data_ptr()
    assert found.stride() == (6, 1)


def test_symbols_reach_arguments(device):
    text = """graph @g(%x: f32[s0, 2*s1] strides [2*s1, 1]) -> (f32[s1, 2, s0], int)
  symbols (s0 = 4 in [2, 64], s1 = 3 in [2, 64])
{
  %r = call aten.reshape.default(%x, [s1, 2, s0]) : f32[s1, 2, s0]
  return %r, s0 + s1
}
"""
    compiled = compile_text(text, device)
    for rows, half in ((4, 3), (5, 7)):
        x = torch.randn(rows, 2 * half, device=device)
        found, number = compiled([x])
        assert torch.equal(found, x.reshape(half, 2, rows))
        assert number == rows + half


def test_writes_into_an_input(device):
    text = """graph @g(%x: f32[4] strides [1], %y: f32[4] strides [1]) -> (f32[4])
{
  %r = call aten.add.Tensor(%x, %y) : f32[4] strides [1]
  return %r -> into %y
}
"""
    x, y = torch.randn(4, device=device), torch.randn(4, device=device)
    want = x + y
    (found,) = run(text, [x, y])
    assert found is y
    assert torch.equal(y, want)


def test_inputs_die_at_their_last_use(device):
    text = """graph @g(%x: f32[4] strides [1], %y: f32[4] strides [1]) -> (f32[4])
{
  %a = call aten.neg.default(%x) : f32[4] strides [1]
  %b = host 0(%a) : f32[4]
  %r = call aten.add.Tensor(%b, %y) : f32[4] strides [1]
  return %r
}
"""
    alive = []

    def look(a):
        gc.collect()
        alive.extend(ref() is not None for ref in refs)
        return (a * 2,)

    args = [torch.ones(4, device=device), torch.ones(4, device=device)]
    refs = [weakref.ref(a) for a in args]
    compiled = compile_text(text, device, [look])
    (found,) = compiled(args)
    assert args == []
    assert alive == [False, True]
    assert torch.equal(found, torch.full((4,), -1.0, device=device))


def test_random_numbers_follow_the_generator(device):
    text = one_call("aten.native_dropout.default(%x, 0.5, true)", X, ["f32[4, 6]", "bool[4, 6]"])
    x = torch.ones(4, 6, device=device)
    compiled = compile_text(text, device)
    torch.manual_seed(3)
    want = [torch.ops.aten.native_dropout(x, 0.5, True)[0] for _ in range(2)]
    torch.manual_seed(3)
    found = [compiled([x])[0] for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(found, want, strict=True))
    assert not torch.equal(found[0], found[1])


def test_runs_below_autograd_and_autocast(device):
    text = one_call("aten.mm.default(%x, %y)", X + ", %y: f32[6, 2] strides [2, 1]", ["f32[4, 2]"])
    x, y = torch.randn(4, 6, device=device, requires_grad=True), torch.randn(6, 2, device=device)
    with torch.autocast(device.type, torch.bfloat16):
        (found,) = run(text, [x, y])
    assert found.dtype == torch.float32
    assert not found.requires_grad
    assert found.grad_fn is None


def test_errors_are_those_of_eager(device):
    x = torch.randn(4, 6, device=device)
    with pytest.raises(IndexError):
        run(one_call("aten.select.int(%x, 5, 0)", X, ["f32[4]"]), [x])
    with pytest.raises(_C.UserError, match=r"no operator aten\.does_not\.exist"):
        compile_text(one_call("aten.does_not.exist(%x)", X, ["f32[4]"]), device)
    with pytest.raises(_C.UserError, match="argument other is missing"):
        compile_text(one_call("aten.mul.Tensor(%x)", X, ["f32[4]"]), device)
    with pytest.raises(_C.UserError, match="takes 2 arguments, found 3"):
        compile_text(one_call("aten.mul.Tensor(%x, %x, %x)", X, ["f32[4]"]), device)
    with pytest.raises(_C.UserError, match="keyword argument"):
        compile_text(one_call("aten.mul.Tensor(%x, %x, beta=1)", X, ["f32[4]"]), device)
    with pytest.raises(_C.UserError, match="found 2 inputs, the graph was compiled for 1"):
        compile_text(one_call("aten.neg.default(%x)", X, ["f32[4, 6]"]), device)([x, x])


class Failed(Exception):
    pass


def test_a_host_step_raises_what_python_raises(device):
    def fail(x):
        raise Failed("in the host step")

    text = "graph @g(%x: f32[4]) -> (f32[4])\n{\n  %r = host 0(%x) : f32[4]\n  return %r\n}\n"
    with pytest.raises(Failed, match="in the host step"):
        run(text, [torch.ones(4, device=device)], [fail])


TWO_RESULTS = """graph @g(%n: int = s0, %x: f32[s0, 4] strides [4, 1], %y: f32[s0, 4] strides [4, 1])
  -> (f32[s0, 4], int, f32[s0, 4], none)
  symbols (s0 = 8 in [2, 64])
{
  %a = call aten.add.Tensor(%x, %y, alpha=2) : f32[s0, 4] strides [4, 1]
  %b = call aten.mul.Tensor(%a, 2.0) : f32[s0, 4] strides [4, 1]
  return %b -> into %y, 2*s0, %a, none
}
"""


def test_modes_see_one_operator(device):
    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    x, y = torch.ones(3, 4, device=device), torch.ones(3, 4, device=device)
    compiled = compile_text(TWO_RESULTS, device)
    with Log():
        written, size, a, nothing = compiled([3, x, y])
    assert seen == ["tilewright.run.default"]
    assert written is y
    assert torch.equal(y, torch.full_like(x, 6))
    assert torch.equal(a, torch.full_like(x, 3))
    assert (size, nothing) == (6, None)


def test_a_graph_without_inputs_runs_under_a_mode(device):
    call = 'aten.ones.default([3], device=device("cuda"))'
    text = one_call(call, "", ["f32[3]"])
    compiled = compile_text(text, device)

    class Silent(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    with Silent():
        (found,) = compiled([])
    assert torch.equal(found, torch.ones(3, device=device))


def test_fake_tensors_get_types_only(device):
    compiled = compile_text(TWO_RESULTS, device)
    with FakeTensorMode() as mode:
        x, y = (mode.from_tensor(torch.ones(3, 4, device=device)) for _ in range(2))
        written, size, a, _ = compiled([3, x, y])
    assert written is y
    assert size == 6
    assert (a.shape, a.dtype, a.device.type) == ((3, 4), torch.float32, device.type)


def test_tracing_keeps_the_plan_as_a_node(device):
    compiled = compile_text(TWO_RESULTS, device)
    traced = make_fx(lambda x, y: compiled([x.shape[0], x, y])[2] + 1, tracing_mode="symbolic")(
        torch.ones(5, 4, device=device), torch.ones(5, 4, device=device)
    )
    assert "torch.ops.tilewright.run.default" in traced.code
    x, y = torch.ones(7, 4, device=device), torch.ones(7, 4, device=device)
    assert torch.equal(traced(x, y), torch.full_like(x, 4))
    assert torch.equal(y, torch.full_like(x, 6))


def test_none_for_a_tensor_is_an_undefined_tensor(device):
    """As in eager, and as PyTorch's attention backwards take what their forwards left undefined."""
    library = torch.library.Library("tilewright_test", "FRAGMENT")
    library.define("sum_if_given(Tensor x, Tensor y) -> Tensor")
    library.impl("sum_if_given", lambda x, y: x.clone() if y is None else x + y, "CompositeExplicitAutograd")
    x = torch.randn(4, 6, device=device)
    call = "tilewright_test.sum_if_given.default"
    (alone,) = run(one_call(f"{call}(%x, none)", X, ["f32[4, 6]"]), [x.clone()])
    torch.testing.assert_close(alone, x)
    (carried,) = run(one_call(f"{call}(%x, %y)", X + ", %y: none", ["f32[4, 6]"]), [x.clone(), None])
    torch.testing.assert_close(carried, x)


class TestBoxedFunction:
    """What AOTAutograd holds."""

    TEXT = """graph @g(%x: f32[4] strides [1], %c: f32[4] strides [1]) -> (f32[4], f32[4])
{
  %a = call aten.add.Tensor(%x, %c) : f32[4] strides [1]
  %b = call aten.neg.default(%a) : f32[4] strides [1]
  return %a, %b
}
"""

    def test_constants_follow_the_inputs_and_extra_results_are_dropped(self, device):
        x, constant = torch.randn(4, device=device), torch.randn(4, device=device)
        boxed = compile_text(self.TEXT, device).boxed([constant], 1)
        for _ in range(2):
            args = [x]
            (found,) = boxed(args)
            assert torch.equal(found, x + constant)
            assert args == []

    def test_dynamos_wrappers_see_that_it_is_boxed(self, device):
        boxed = compile_text(self.TEXT, device).boxed([], 2)
        assert boxed._boxed_call and torch._dynamo.disable(boxed)._boxed_call
        assert boxed.__name__ == "g"

    def test_it_takes_one_list(self, device):
        boxed = compile_text(self.TEXT, device).boxed([], 2)
        for args in ([], [()], [[], []]):
            with pytest.raises(TypeError, match="takes its inputs in one list"):
                boxed(*args)
        with pytest.raises(TypeError):
            boxed([], other=1)
        with pytest.raises(_C.UserError, match="found 1 inputs, the graph was compiled for 2"):
            boxed([torch.zeros(4, device=device)])

    def test_it_frees_what_it_holds(self, device):
        constant = torch.zeros(4, device=device)
        gone = weakref.ref(constant)
        boxed = compile_text(self.TEXT, device).boxed([constant], 2)
        del constant
        assert gone() is not None
        del boxed
        gc.collect()
        assert gone() is None
