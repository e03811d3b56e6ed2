"""Tilewright: a compiler back end for PyTorch. `torch.compile(model, backend="tilewright")` needs no import.

`tilewright.explain(model)(*inputs)` tells what becomes kernels, what stays PyTorch's, and why.
"""

from typing import TYPE_CHECKING, Any

from tilewright._version_check import require_matching_build

require_matching_build()

if TYPE_CHECKING:
    from tilewright.explanation import explain

__all__ = ["explain"]


def __getattr__(name: str) -> Any:
    # Dynamo takes a second to import, which those who only import the package need not wait for.
    if name == "explain":
        from tilewright.explanation import explain

        return explain
    raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
