"""What a compile depends on, read once at the door: `torch.compile`'s `options` over the environment."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

TARGETS = ("sim:sm_80", "sim:sm_86", "sim:sm_89", "sim:sm_90a")
GPUS = ("a100", "rtx3090", "l4", "rtx4090", "h100", "h200")
TRUE_WORDS, FALSE_WORDS = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


class OptionError(ValueError):
    """An option of the user's that does not exist or cannot have this value."""


def option(default: str | bool, env: str, *, key: bool, choices: tuple[str, ...] = (), doc: str) -> Any:
    return field(default=default, metadata={"env": env, "key": key, "choices": choices, "doc": doc})


@dataclass(frozen=True)
class Options:
    """The Python side of csrc/support/options.def; a test holds the two equal. Fields marked key are hashed into the
    kernel cache key."""

    target: str = option(
        "",
        "TILEWRIGHT_TARGET",
        key=True,
        choices=("", *TARGETS),
        doc="empty: the GPU of the inputs; sim:sm_80, sim:sm_86, sim:sm_89, sim:sm_90a: the simulator",
    )
    gpu: str = option(
        "",
        "TILEWRIGHT_GPU",
        key=True,
        choices=("", *GPUS),
        doc="row of the GPU table to price for on the simulator: a100, rtx3090, l4, rtx4090, h100, h200",
    )
    kernels: str = option(
        "auto",
        "TILEWRIGHT_KERNELS",
        key=False,
        choices=("auto", "generate", "call"),
        doc="auto: by predicted time; generate: every group a family can take; call: none",
    )
    numerics: str = option(
        "eager",
        "TILEWRIGHT_NUMERICS",
        key=True,
        choices=("eager", "fast"),
        doc="eager: every operator rounds as eager does; fast: float32 between fused operators",
    )
    matmul: str = option(
        "auto",
        "TILEWRIGHT_MATMUL",
        key=False,
        choices=("auto", "generate", "call"),
        doc="products of matrices: auto: by predicted time; generate: every one a family can take; call: none",
    )
    float32_matmul: str = option(
        "",
        "TILEWRIGHT_FLOAT32_MATMUL",
        key=True,
        choices=("", "ieee", "tf32"),
        doc="products of float32: ieee; tf32: of operands rounded to 10 bits of fraction; empty: as PyTorch is set",
    )
    strict: bool = option(
        False,
        "TILEWRIGHT_STRICT",
        key=False,
        doc="raise on internal errors instead of leaving the operators to PyTorch",
    )
    check_kernels: bool = option(
        False,
        "TILEWRIGHT_CHECK_KERNELS",
        key=False,
        doc="on the simulator: look for races and reads of shared memory that nobody has written, at every launch",
    )
    dump: str = option("", "TILEWRIGHT_DUMP", key=False, doc="folder that receives every stage's text")
    report: str = option(
        "",
        "TILEWRIGHT_REPORT",
        key=False,
        doc="file to which each compiled graph's report is appended as a line of JSON",
    )

    @property
    def simulated(self) -> bool:
        return self.target.startswith("sim:")

    def as_strings(self) -> dict[str, str]:
        """Names and values as the C++ side reads them."""
        return {f.name: as_text(getattr(self, f.name)) for f in fields(self)}


def as_text(value: str | bool) -> str:
    return value if isinstance(value, str) else str(int(value))


def read_options(given: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ) -> Options:
    """The user's options over the environment over the defaults; raises OptionError for what is not one."""
    known = {f.name: f for f in fields(Options)}
    values: dict[str, str | bool] = {}
    for f in fields(Options):
        if (text := environ.get(f.metadata["env"])) is not None:
            values[f.name] = checked_choice(f.name, from_environment(f, text), f.metadata)
    for name, value in (given or {}).items():
        if name not in known:
            raise OptionError(f"tilewright: unknown option {name!r}{nearest(name, known)}")
        wanted: type = type(known[name].default)
        if type(value) is not wanted:
            raise OptionError(
                f"tilewright: option {name!r} takes {article(wanted)}, found {type(value).__name__} {value!r}"
            )
        values[name] = checked_choice(name, value, known[name].metadata)
    return Options(**values)  # type: ignore[arg-type]


def from_environment(f: Field[Any], text: str) -> str | bool:
    if type(f.default) is not bool:
        return text
    if text.lower() in TRUE_WORDS or text.lower() in FALSE_WORDS:
        return text.lower() in TRUE_WORDS
    raise OptionError(f"tilewright: {f.metadata['env']} takes 0 or 1, found {text!r}")


def checked_choice(name: str, value: Any, metadata: Mapping[str, Any]) -> Any:
    choices: tuple[str, ...] = metadata["choices"]
    if choices and value not in choices:
        valid = ", ".join(choice for choice in choices if choice)
        raise OptionError(
            f"tilewright: unknown {name} {value!r}{nearest(str(value), choices)} (there are {valid}; "
            f"option {name!r} or {metadata['env']})"
        )
    return value


def nearest(word: str, known: Any) -> str:
    """`; did you mean 'kernels'?`, where one of the known words is near."""
    close = difflib.get_close_matches(word, [k for k in known if k], n=1, cutoff=0.4)
    return f"; did you mean {close[0]!r}?" if close else ""


def article(kind: type) -> str:
    return {"str": "a string", "bool": "True or False"}.get(kind.__name__, kind.__name__)
