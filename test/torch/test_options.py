"""Options: one table in C++ and Python, the environment below the user's dictionary, and clear refusals."""

from dataclasses import FrozenInstanceError, fields

import pytest
import torch
from tilewright import _C
from tilewright.backend import as_pytorch_is_set
from tilewright.options import OptionError, Options, as_text, read_options


def test_the_table_is_the_one_of_cpp():
    python = [
        (f.name, f.metadata["env"], f.metadata["key"], as_text(f.default), f.metadata["doc"]) for f in fields(Options)
    ]
    table = [(r["name"], r["env"], r["key"], r["default"], r["doc"]) for r in _C.options_table()]
    booleans = {"false": "0", "true": "1"}
    assert python == [(n, e, k, booleans.get(d, d), doc) for n, e, k, d, doc in table]


def test_options_win_over_the_environment_and_defaults():
    environ = {"TILEWRIGHT_KERNELS": "call", "TILEWRIGHT_STRICT": "1"}
    assert read_options({}, {}) == Options()
    assert read_options({}, environ).kernels == "call"
    assert read_options({"kernels": "generate"}, environ) == Options(kernels="generate", strict=True)


@pytest.mark.parametrize(("precision", "wanted"), [("highest", "ieee"), ("high", "tf32"), ("medium", "tf32")])
def test_products_of_float32_follow_pytorch(precision, wanted):
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(precision)
        assert as_pytorch_is_set(Options()).float32_matmul == wanted
        assert as_pytorch_is_set(Options(float32_matmul="ieee")).float32_matmul == "ieee"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("option", ["kernels", "numerics", "matmul", "float32_matmul"])
def test_the_core_refuses_bad_values_itself(option):
    graph = "graph @f(%x: f32[4]) -> f32[4] {\n  return %x\n}\n"
    with pytest.raises(Exception, match=f'option {option}: found "bad", expected one of '):
        _C.compile(graph, {"target": "sim:sm_90a", option: "bad"}, [], "cpu")


def test_options_are_frozen():
    with pytest.raises(FrozenInstanceError):
        read_options({}, {}).strict = True


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kernel": "call"}, "unknown option 'kernel'; did you mean 'kernels'?"),
        ({"kernels": "cal"}, "unknown kernels 'cal'; did you mean 'call'?"),
        ({"matmul": "generated"}, "unknown matmul 'generated'; did you mean 'generate'?"),
        ({"float32_matmul": "tf23"}, "unknown float32_matmul 'tf23'; did you mean 'tf32'? (there are ieee, tf32;"),
        ({"target": "sim:sm_90"}, "unknown target 'sim:sm_90'; did you mean 'sim:sm_90a'?"),
        ({"gpu": "h20"}, "unknown gpu 'h20'; did you mean 'h200'?"),
        ({"strict": "yes"}, "option 'strict' takes True or False, found str 'yes'"),
        ({"dump": 3}, "option 'dump' takes a string, found int 3"),
        ({"completely_other": 1}, "unknown option 'completely_other'"),
    ],
)
def test_refusals_name_the_nearest(given, message):
    with pytest.raises(OptionError) as error:
        read_options(given, {})
    assert str(error.value).startswith("tilewright: " + message)


def test_a_bad_word_in_the_environment():
    with pytest.raises(OptionError, match="TILEWRIGHT_STRICT takes 0 or 1, found 'maybe'"):
        read_options({}, {"TILEWRIGHT_STRICT": "maybe"})


def test_a_bad_option_reaches_the_user_through_compile(device):
    compiled = torch.compile(lambda x: x + 1, backend="tilewright", options={"kernel": "call"})
    with pytest.raises(Exception, match="did you mean 'kernels'"):
        compiled(torch.ones(3, device=device))
