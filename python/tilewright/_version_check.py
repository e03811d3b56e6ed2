"""A build of Tilewright is for one minor version of PyTorch and one of Python; this says so where another runs."""

from __future__ import annotations

import sys


def minor_of(version: str) -> str:
    """`2.13` of `2.13.0+cpu`."""
    return ".".join(version.split(".")[:2])


def mismatch(built: dict[str, str], running: dict[str, str]) -> str | None:
    """The sentence for the first of the named versions whose minor differs from the build's, or None."""
    for name, version in built.items():
        if minor_of(version) != minor_of(running[name]):
            wanted, found = minor_of(version), minor_of(running[name])
            return (
                f"this build of tilewright is for {name} {wanted}, and this is {name} {found}: install the wheel "
                f"for {name} {found}, or build it here with pip install --no-build-isolation ."
            )
    return None


def require_matching_build() -> None:
    """Raises ImportError, with one sentence, unless the running PyTorch and Python are those of the build."""
    try:
        from tilewright import _build_info
    except ImportError:
        raise ImportError("tilewright is not built: run ./dev build, or pip install --no-build-isolation .") from None
    from torch.version import __version__ as torch_version

    running = {"PyTorch": torch_version, "Python": "{}.{}".format(*sys.version_info[:2])}
    built = {"PyTorch": _build_info.TORCH_VERSION, "Python": _build_info.PYTHON_VERSION}
    if sentence := mismatch(built, running):
        raise ImportError(sentence)
