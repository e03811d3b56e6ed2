"""Tilewright: a compiler back end for PyTorch. `torch.compile(model, backend="tilewright")` needs no import.

`tilewright.explain(model)(*inputs)` tells what becomes kernels, what stays PyTorch's, and why.
`tilewright.check(model)(*inputs)` tells how far eager and the compiled model are from float64, and where they part.
`tilewright.simulate(ptx, ...)` runs any PTX kernel on the CPU and reports what it does to memory.
"""

from typing import TYPE_CHECKING, Any

from tilewright._version_check import require_matching_build

require_matching_build()

if TYPE_CHECKING:
    from tilewright.checking import check
    from tilewright.explanation import explain
    from tilewright.simulation import simulate

__all__ = ["check", "explain", "simulate"]


def __getattr__(name: str) -> Any:
    # Dynamo takes a second to import, which those who only import the package need not wait for.
    if name == "check":
        from tilewright.checking import check

        return check
    if name == "explain":
        from tilewright.explanation import explain

        return explain
    if name == "simulate":
        from tilewright.simulation import simulate

        return simulate
    raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
