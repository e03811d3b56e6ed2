"""PyTorch's operator database against eager: a part drawn by seed. `python -m tilewright.testing.sweep` runs all."""

import random
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from tilewright.options import read_options

pytest.importorskip("expecttest", reason="PyTorch's operator database needs it")
from tilewright.testing import operator_cases, sweep
from tilewright.testing.operator_cases import Case, Finding, Observed, check_sample, chosen, difference, samples
from tilewright.testing.sweep_table import table

OPERATORS = operator_cases.operators()
PART = sorted(random.Random(0).sample(list(operator_cases.cases(OPERATORS)), 160))
GROUPS = 16

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the samples are CPU tensors")


@pytest.mark.parametrize("group", range(GROUPS))
def test_agrees_with_eager(group):
    ran: set[str] = set()
    for case in PART[group::GROUPS]:
        found = samples(OPERATORS[case.operator], case)
        for i in chosen(len(found), 1, case, seed=0):
            options = read_options({"kernels": "generate", "strict": True})
            finding = check_sample(OPERATORS[case.operator], case, found[i], options, ran)
            assert finding.result != "differs", f"{case}, sample {i}: {finding.why}"
            ran |= set(finding.kernels)


# ---- the sweep itself ----


def one_value(value, argument=None):
    return Observed(outputs=[value], arguments=argument)


X = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    "compiled, why",
    [
        (one_value(X + 1), "not close"),
        (one_value(X.double()), "dtype"),
        (one_value(X.flatten()), "shape"),
        (one_value(X.t().contiguous().t()), "strides"),
        (one_value(X, X + 1), "argument afterwards"),
        (Observed(error=ValueError("no")), "compiled: ValueError: no"),
    ],
)
def test_each_difference_is_seen(compiled, why):
    eager = one_value(X, X if compiled.arguments is not None else None)
    assert why in difference(eager, compiled, values=True)


def test_shared_memory_is_seen():
    assert "memory shared with arguments" in difference(one_value(X, X), one_value(X.clone(), X), values=True)
    assert difference(one_value(X, X), one_value(X, X), values=True) == ""


def test_an_error_may_be_of_a_type_below():
    eager = Observed(error=RuntimeError("no"))
    assert difference(eager, Observed(error=NotImplementedError("no")), values=True) == ""
    assert "no error" in difference(eager, one_value(X), values=True)
    assert "no error" in difference(one_value(X), Observed(error=RuntimeError("no")), values=True)


def test_a_result_nearer_to_float64_than_eagers_is_taken():
    exact = one_value(torch.tensor([1.0], dtype=torch.float64))
    near, far = one_value(torch.tensor([1.01])), one_value(torch.tensor([1.1]))
    assert operator_cases.near_float64(eager=far, compiled=near, exact=exact)
    assert not operator_cases.near_float64(eager=near, compiled=far, exact=exact)


@pytest.mark.parametrize("units, is_near", [(2, True), (3, False)])
def test_narrow_types_may_be_two_units_further(units, is_near):
    exact, eager = (one_value(torch.tensor([3.0, 0.25], dtype=d)) for d in (torch.float64, torch.float16))
    compiled = one_value(torch.tensor([3.0, 0.25 + units * 3 * 2**-10], dtype=torch.float16))
    assert operator_cases.near_float64(eager, compiled, exact) == is_near


def test_a_kernel_is_simulated_once():
    case = Case("add", "f32", "forward")
    sample = SimpleNamespace(input=X, args=(X,), kwargs={})
    options, ran = read_options({"kernels": "generate", "strict": True, "target": "sim:sm_90a"}), set()
    for result, kernels in (("same", 1), ("known", 0)):
        finding = check_sample(OPERATORS["add"], case, sample, options, ran)
        assert (finding.result, len(finding.kernels), finding.launches, finding.calls) == (result, kernels, 1, [])
        ran |= set(finding.kernels)


def run_sweep(folder, operators, *arguments):
    command = [sys.executable, "-m", "tilewright.testing.sweep", "--operators", operators, "--dtypes", "f32", "--ways"]
    command += ["forward", "--samples", "1", "--results", str(folder), "-v", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_it_goes_on_where_it_ended_and_limits_time(tmp_path):
    """A sample that takes too long ends its process, and is a difference; what is there is not run again."""
    code, text = run_sweep(tmp_path, "neg", "--limit", "0.001")
    assert code == 1 and "1 samples: 1 differs" in text and "neg f32 forward 0: longer than 0.001 s" in text
    code, text = run_sweep(tmp_path, "neg|sign")
    assert code == 1 and "2 samples:" in text and "1 differs" in text and "1 same" in text
    again = sweep.parse(["--operators", "neg", "--again", "differs", "--results", str(tmp_path)])
    sweep.join_files(again)
    assert [case.operator for case, _ in sweep.read_findings(tmp_path)] == ["sign"]


def test_the_table_says_what_became_of_an_operator():
    def case(operator, dtype, way="forward"):
        return Case(operator, dtype, way)

    found = {
        (case("add", "f32"), 0): Finding("same", launches=1),
        (case("add", "f32", "backward"), 0): Finding("same", views=1),
        (case("sort", "f32"), 0): Finding("same", calls=["aten.sort.default: no rule expands it"]),
        (case("sort", "i64"), 2): Finding(
            "differs", why="output 0:\n  dtype", launches=1, calls=["aten.sort.stable: no"]
        ),
        (case("sort", "f32", "error"), 0): Finding("as aot_eager", "eager: ValueError: no; compiled: IndexError: 1"),
    }
    text = table(found)
    assert "from 5 samples" in text and "3 same, 1 differs, 1 as aot_eager" in text
    assert "| `add` | native / view |  |" in text
    assert "| `sort` | call* |  |  | part! |" in text
    assert "## Differences\n\n- `sort` i64 forward: output 0: dtype\n" in text
    assert "- `sort` f32 error: eager: ValueError; compiled: IndexError\n" in text
    assert text.endswith("no rule\n\n- `aten.sort.stable`: no\n")
