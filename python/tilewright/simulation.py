"""`tilewright.simulate`: a PTX kernel on the CPU, whoever compiled it, with the counters of its memory accesses."""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from tilewright import _C


@dataclass(frozen=True)
class Report:
    """What a simulated launch did. `str(report)` is a table of the accesses."""

    counters: dict[str, Any]
    """All counters: totals, one entry of "accesses" a memory instruction, one of "lines" an instruction."""
    printed: str
    """What the kernel printed."""
    _texts: dict[str, str] = field(repr=False)

    def __str__(self) -> str:
        return self._texts["table"]

    def listing(self) -> str:
        """The PTX with counts, sectors and bank passes beside its lines."""
        return self._texts["listing"]

    def to_json(self) -> str:
        return self._texts["json"]


def simulate(
    ptx: str,
    *args: Any,
    grid: int | Sequence[int] = 1,
    block: int | Sequence[int] = 32,
    cluster: int | Sequence[int] = 1,
    entry: str | None = None,
    shared_bytes: int = 0,
    check: str | Sequence[str] = (),
    completion: str = "eager",
    order: str = "in-turn",
    seed: int = 0,
    threads: int = 0,
    step_budget: int = 0,
) -> Report:
    """Runs one kernel of a PTX text and waits for it.

    Arguments go to the kernel's parameters in order. NumPy arrays and CPU tensors are memory, which the kernel reads
    and writes in place and beyond which no access may reach; NumPy numbers are passed as they are, Python numbers in
    the width of their parameter, None as a null pointer. `shared_bytes` is dynamic shared memory. `check` names further
    checks ("races", "uninitialized", "registers" or "all"); `completion` says when asynchronous copies finish
    ("eager", "lazy" or "random") and `order` in which order warps run ("in-turn" or "random"), both by `seed`.
    `threads` are of the host, 0 all; `step_budget` ends a warp that runs more instructions.

    PTX that cannot be read and launches that do not fit the kernel raise `UserError` (`tilewright._C`), faults of the
    kernel `DeviceError`, with the line of the PTX and the thread.
    """
    for what, value, known in (
        ("completion", completion, ("eager", "lazy", "random")),
        ("order", order, ("in-turn", "random")),
    ):
        if value not in known:
            raise _C.UserError(f"{what} {value!r}, expected one of {', '.join(known)}")
    module = _C.SimulatedModule(ptx)
    name = entry if entry is not None else _only_entry(module)
    widths = module.param_bytes(name)
    if len(args) != len(widths):
        raise _C.UserError(f"simulate: {name} takes {len(widths)} arguments, found {len(args)}")
    parameters = [_parameter(i, a, width) for i, (a, width) in enumerate(zip(args, widths, strict=True))]
    settings = {
        "shared_bytes": shared_bytes,
        "check": check if isinstance(check, str) else ",".join(check),
        "completion": completion,
        "order": order,
        "seed": seed,
        "threads": threads,
        "step_budget": step_budget,
    }
    texts = module.launch(name, parameters, _extent(grid), _extent(block), _extent(cluster), settings)
    counters = json.loads(texts["json"])
    return Report(counters, counters["printed"], texts)


def _only_entry(module: _C.SimulatedModule) -> str:
    names = module.entries()
    if len(names) != 1:
        raise _C.UserError(f"simulate: the PTX has {len(names)} entries, choose one by `entry`: {', '.join(names)}")
    return names[0]


def _extent(given: int | Sequence[int]) -> tuple[int, int, int]:
    sizes = [given] if isinstance(given, int) else list(given)
    if not 1 <= len(sizes) <= 3:
        raise _C.UserError(f"simulate: {given!r} is not one to three sizes")
    x, y, z = [*sizes, 1, 1][:3]
    return x, y, z


def _parameter(index: int, value: Any, width: int) -> bytes | tuple[int, int, str, bool]:
    name = f"argument {index}"
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu" or not value.is_contiguous():
            raise _C.UserError(f"simulate: {name} is not a contiguous tensor on the CPU")
        return value.data_ptr(), value.nbytes, name, True
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise _C.UserError(f"simulate: {name} is not a contiguous array")
        return value.ctypes.data, value.nbytes, name, bool(value.flags.writeable)
    if value is None:
        return bytes(width)
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, float) and width in (4, 8):
        return struct.pack("<f" if width == 4 else "<d", value)
    if isinstance(value, int) and width in (1, 2, 4, 8):
        return (value & (1 << 8 * width) - 1).to_bytes(width, "little")
    raise _C.UserError(f"simulate: {name} is a {type(value).__name__}, for a parameter of {width} bytes")
