"""What a user can see of two runs of one function, compared."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tilewright.backend import CompiledPart, GraphCompiler
from tilewright.options import read_options


class Recorder:
    """A backend for torch.compile that keeps what was compiled."""

    def __init__(self, **options: Any) -> None:
        self.parts: list[CompiledPart] = []
        self.options = options

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        return GraphCompiler(read_options(self.options), self.parts.append).compile(gm, example_inputs)

    @property
    def texts(self) -> list[str]:
        return [part.text for part in self.parts]

    def operators(self) -> list[str]:
        """Names of the operators as captured, in order."""
        lines = [line.split() for text in self.texts for line in text.splitlines()]
        return [words[words.index("call") + 1].split("(")[0] for words in lines if "call" in words]


def tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def storages(values: Any) -> list[int]:
    return [t.untyped_storage().data_ptr() for t in tensors(values) if t.layout is torch.strided]


def alias_pairs(outputs: Any, inputs: Any) -> list[tuple[int, int]]:
    """Places of tensors that share memory."""
    return [(i, j) for i, a in enumerate(storages(outputs)) for j, b in enumerate(storages(inputs)) if a == b and a]


def same_tensor(eager: torch.Tensor, compiled: torch.Tensor, what: str, values: bool = True, **tolerance: Any) -> None:
    """Raises AssertionError where two tensors differ in type, form, or (`values`) by more than the tolerance."""
    assert eager.dtype == compiled.dtype, f"{what}: dtype {eager.dtype}, compiled {compiled.dtype}"
    assert eager.shape == compiled.shape, f"{what}: shape {eager.shape}, compiled {compiled.shape}"
    assert eager.device == compiled.device, f"{what}: device {eager.device}, compiled {compiled.device}"
    assert eager.requires_grad == compiled.requires_grad, f"{what}: requires_grad {eager.requires_grad} in eager"
    assert eager.layout == compiled.layout, f"{what}: layout {eager.layout}, compiled {compiled.layout}"
    if eager.layout is torch.strided and eager.numel() > 0:
        strides = [(a, b) for n, a, b in zip(eager.shape, eager.stride(), compiled.stride(), strict=True) if n > 1]
        assert all(a == b for a, b in strides), f"{what}: strides {eager.stride()}, compiled {compiled.stride()}"
    if values:
        torch.testing.assert_close(compiled, eager, equal_nan=True, **tolerance, msg=lambda text: f"{what}: {text}")


def same(eager: Any, compiled: Any, what: str, values: bool = True, **tolerance: Any) -> None:
    """Raises AssertionError where two trees of values differ in form, in a tensor, or in another value."""
    left, right = tree_leaves(eager), tree_leaves(compiled)
    assert len(left) == len(right), f"{what}: {len(left)} values, compiled {len(right)}"
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        assert type(a) is type(b), f"{what} {i}: {type(a)}, compiled {type(b)}"
        if isinstance(a, torch.Tensor):
            same_tensor(a, b, f"{what} {i}", values, **tolerance)
        else:
            assert a == b or (a != a and b != b), f"{what} {i}: {a}, compiled {b}"
