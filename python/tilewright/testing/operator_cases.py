"""Samples of PyTorch's operator database, each run eagerly and compiled and compared in all that a user can see."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import set_rng_seed
from torch.utils._pytree import tree_map

from tilewright.backend import CompiledPart, GraphCompiler
from tilewright.options import Options
from tilewright.testing.agreement import alias_pairs, same, tensors
from tilewright.testing.text_runs import DTYPES

ELEMENT_TYPES = ("f32", "bf16", "f16", "i64", "i32", "u8", "bool", "c64")
WAYS = ("forward", "backward", "in place", "error")
DEVICE = "cpu"
# What memory held before: of these only the form is compared.
UNINITIALIZED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
}


@dataclass(frozen=True, order=True)
class Case:
    """One operator of the database (with its variant), one element type, one way to run it."""

    operator: str
    dtype: str
    way: str


@dataclass(frozen=True)
class Finding:
    """What came of one sample. `result` is "same" (as eager), "as aot_eager" (which differs from eager itself),
    "near float64" (see `near_float64`), "known" (all kernels had run before, so that only the plan around them was
    compared), or "differs", with the reason in `why`."""

    result: str
    why: str = ""
    kernels: list[str] = field(default_factory=list)  # keys of those that ran
    launches: int = 0  # kernel launches in the compiled graphs
    views: int = 0  # operators that are views of inputs
    calls: list[str] = field(default_factory=list)  # operators left to PyTorch, with the reason


def operators() -> dict[str, Any]:
    """The database by name; an operator's variants are told apart behind a point."""
    return {op.full_name: op for op in op_db}


def cases(ops: dict[str, Any], dtypes: Iterable[str] = ELEMENT_TYPES, ways: Iterable[str] = WAYS) -> Iterator[Case]:
    dtypes, ways = tuple(dtypes), tuple(ways)
    for name, op in ops.items():
        for dtype in dtypes:
            if DTYPES[dtype] in op.supported_dtypes(DEVICE):
                yield from (Case(name, dtype, way) for way in ways if has_way(op, DTYPES[dtype], way))


def has_way(op: Any, dtype: torch.dtype, way: str) -> bool:
    if way == "backward":
        return bool(op.supports_autograd) and dtype in op.supported_backward_dtypes(DEVICE)
    if way == "error":  # bad input, which the database has for one type
        return op.error_inputs_func is not None and dtype is torch.float32
    return way == "forward" or op.get_inplace() is not None


def samples(op: Any, case: Case) -> list[Any]:
    """The same ones in every process."""
    set_rng_seed(0)  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case.way == "error":
            return [bad.sample_input for bad in op.error_inputs(DEVICE)]
        found = list(op.sample_inputs(DEVICE, DTYPES[case.dtype], requires_grad=case.way == "backward"))
    if case.way == "in place":
        found = [sample for sample in found if isinstance(sample.input, torch.Tensor) and not sample.broadcasts_input]
    return found


def chosen(count: int, wanted: int, case: Case, seed: int) -> list[int]:
    """Positions of `wanted` of an operator's samples, drawn by seed; of all where `wanted` is 0."""
    if wanted == 0 or wanted >= count:
        return list(range(count))
    return sorted(random.Random(f"{seed} {case}").sample(range(count), wanted))


# ---- one run ----


@dataclass
class Observed:
    """What a user sees of one run."""

    outputs: Any = None
    arguments: Any = None  # after the run
    gradients: Any = None
    error: Exception | None = None


def copied(values: Any) -> Any:
    """Leaves of autograd with the same values, strides and shared memory."""
    storages: dict[int, torch.Tensor] = {}

    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return copy_values(value.detach(), storages).requires_grad_(value.requires_grad)

    return tree_map(copy, values)


def copy_values(value: torch.Tensor, storages: dict[int, torch.Tensor]) -> torch.Tensor:
    if value.layout is not torch.strided or value.is_conj() or value.is_neg() or value.is_quantized:
        return value.clone()
    storage = value.untyped_storage()
    if storage.nbytes() % value.element_size() != 0:
        return value.clone()
    count = storage.nbytes() // value.element_size()
    whole = storages.setdefault(storage.data_ptr(), value.as_strided((count,), (1,), 0).clone())
    return whole.view(value.dtype).as_strided(value.shape, value.stride(), value.storage_offset())


def observe(run: Callable[..., Any], sample: Any, way: str, widen: bool = False) -> Observed:
    """`widen`: on the same values as float64, without a comparison in mind of anything else."""
    arguments = (sample.input, sample.args, sample.kwargs)
    if widen:
        arguments = tree_map(widened, arguments)
    seen = Observed(arguments=copied(arguments))
    set_rng_seed(1)  # type: ignore[no-untyped-call]
    try:
        with torch.set_grad_enabled(way == "backward"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen.outputs = run(*seen.arguments)
            if way == "backward":
                seen.gradients = gradients(sample.output_process_fn_grad(seen.outputs), seen.arguments)
    except Exception as error:
        seen.error = error
    return seen


def widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16, torch.float32):
        return value.detach().double().requires_grad_(value.requires_grad)
    return value


def gradients(outputs: Any, arguments: Any) -> list[torch.Tensor | None]:
    """Of a sum of all outputs with weights around 1."""
    wanted = [out for out in tensors(outputs) if out.requires_grad]
    leaves = [leaf for leaf in tensors(arguments) if leaf.requires_grad]
    if not wanted or not leaves:
        return []
    return list(torch.autograd.grad(wanted, leaves, [weights_of(out) for out in wanted], allow_unused=True))


def weights_of(out: torch.Tensor) -> torch.Tensor:
    if out.layout is not torch.strided:
        return torch.ones_like(out)
    return torch.linspace(0.5, 1.5, out.numel()).reshape(out.shape).to(out.dtype)


# ---- comparison ----


def difference(eager: Observed, compiled: Observed, values: bool) -> str:
    """Empty where they agree. An error must be of eager's type or below it."""
    if eager.error is not None or compiled.error is not None:
        if eager.error is not None and isinstance(compiled.error, type(eager.error)):
            return ""
        return f"eager: {in_short(eager.error)}; compiled: {in_short(compiled.error)}"
    try:
        same(eager.outputs, compiled.outputs, "output", values)
        same(eager.arguments, compiled.arguments, "argument afterwards", values)
        same(eager.gradients, compiled.gradients, "gradient", values)
        for what, others in (("argument", "arguments"), ("output", "outputs")):
            pairs = [alias_pairs(seen.outputs, getattr(seen, others)) for seen in (eager, compiled)]
            assert pairs[0] == pairs[1], f"memory shared with {what}s: {pairs[0]}, compiled {pairs[1]}"
    except AssertionError as error:
        return str(error)
    return ""


def in_short(error: Exception | None) -> str:
    if error is None:
        return "no error"
    error = getattr(error, "inner_exception", error)  # of a back end, below Dynamo's
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def near_float64(eager: Observed, compiled: Observed, exact: Observed) -> bool:
    """Whether all but values of floats agrees, and those are at most as far from float64 as eager's. Narrow types may
    be two units further in the last place of the sample's largest number: on a CPU eager rounds them in other places
    than on a GPU, as we do."""
    if difference(eager, compiled, values=False) or exact.error is not None:
        return False
    seen = [tensors((run.outputs, run.arguments, run.gradients)) for run in (eager, compiled, exact)]
    if not len(seen[0]) == len(seen[1]) == len(seen[2]):
        return False
    largest = max((float(finite_values(t).abs().max()) for t in seen[2] if finite_values(t).numel()), default=0.0)
    return all(is_near(*three, largest=largest) for three in zip(seen[0], seen[1], seen[2], strict=True))


def finite_values(values: torch.Tensor) -> torch.Tensor:
    if not values.is_floating_point() or values.layout is not torch.strided:
        return torch.empty(0)
    values = values.detach().double()
    return values[values.isfinite()]


def is_near(eager: torch.Tensor, compiled: torch.Tensor, exact: torch.Tensor, largest: float) -> bool:
    if not eager.is_floating_point() or eager.layout is not torch.strided or eager.shape != exact.shape:
        return torch.equal(eager, compiled)
    slack = 2 * torch.finfo(eager.dtype).eps * largest if eager.dtype.itemsize == 2 else 0.0
    eager, compiled, exact = eager.detach().double(), compiled.detach().double(), exact.detach().double()
    finite = exact.isfinite() & eager.isfinite()
    if not torch.equal(eager[~finite].nan_to_num(), compiled[~finite].nan_to_num()):
        return False
    errors = [float((values - exact)[finite].abs().max()) if finite.any() else 0.0 for values in (eager, compiled)]
    return errors[1] <= errors[0] + slack


# ---- one sample ----


@dataclass
class KnownKernels(GraphCompiler):
    """A graph all of whose kernels have run before runs as calls, so that no kernel is simulated twice."""

    ran: set[str] = field(default_factory=set)  # keys of kernels
    parts: list[CompiledPart] = field(default_factory=list)
    known: list[CompiledPart] = field(default_factory=list)  # those that run as calls

    def compile_part(self, device: Any, kind: str, gm: Any, example_inputs: Any) -> Any:
        compiler = GraphCompiler(self.options, self.parts.append)
        compiled = compiler.compile_part(device, kind, gm, example_inputs)
        steps: dict[int, set[str]] = {}
        for step, key, _ in self.parts[-1].executable.launches():
            steps.setdefault(step, set()).add(key)
        if not steps or not all(keys & self.ran for keys in steps.values()):
            return compiled
        self.known.append(self.parts[-1])
        calls = GraphCompiler(replace(self.options, kernels="call"))
        return calls.compile_part(device, kind, gm, example_inputs)


def check_sample(
    op: Any, case: Case, sample: Any, options: Options, ran: set[str], dynamic: bool | None = None
) -> Finding:
    """Compares one sample; `ran` holds the keys of kernels that have been held against eager, `dynamic` is
    torch.compile's."""
    operator = op.get_inplace() if case.way == "in place" else op.get_op()

    def run(value: Any, args: Any, kwargs: Any) -> Any:
        return operator(value, *args, **kwargs)

    values = op.name not in UNINITIALIZED
    compiler = KnownKernels(options, ran=ran)
    eager = observe(run, sample, case.way)
    compiled = observe(compiled_function(run, compiler.compile, dynamic), sample, case.way)
    why = difference(eager, compiled, values)
    if not why:
        result = "known" if compiler.known else "same"
    elif near_float64(eager, compiled, observe(run, sample, case.way, widen=True)):
        result = "near float64"
    elif not difference(observe(compiled_function(run, "aot_eager", dynamic), sample, case.way), compiled, values):
        result = "as aot_eager"
    else:
        result = "differs"
    return finding(compiler.parts, result, why)


def compiled_function(run: Callable[..., Any], backend: Any, dynamic: bool | None = None) -> Any:
    torch._dynamo.reset()
    return torch.compile(run, backend=backend, dynamic=dynamic)


def finding(parts: list[CompiledPart], result: str, why: str) -> Finding:
    reports = [part.report() for part in parts]
    calls = [call for report in reports for call in report.get("calls", ())]
    return Finding(
        result,
        why,
        sorted({key for part in parts for _, key, count in part.executable.launches() if count > 0}),
        sum(len(report.get("kernels", ())) for report in reports),
        sum(bool(call["view"]) for call in calls),
        sorted({re.sub(r"%\w+", "a value", f"{call['op']}: {call['why']}") for call in calls if not call["view"]}),
    )
