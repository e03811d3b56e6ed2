"""Attention stays one operator while our graphs are captured, where no gradient is wanted.

`scaled_dot_product_attention` is a composite: left alone, capture takes it apart by the rules for the example inputs,
before any pass could see that a mask hides nothing. Dynamo hides it inside other functions, so the place to catch it
is the operator itself: a Python kernel for its composite key, there only while AOTAutograd runs for us. It acts in our
own thread alone, and leaves alone tensor subclasses, vmap, and attention that is differentiated: there PyTorch's
fused operators and their backwards come whole already.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DispatchKey
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

import tilewright._C  # noqa: F401  (defines the operator)

COMPOSITE = DispatchKey.CompositeImplicitAutograd
PLAIN = (torch.Tensor, torch.nn.Parameter, FakeTensor, FunctionalTensor)
# Where the fused kernels want a mask whose last stride is 1; PyTorch's kernel for CPUs takes any.
NEED_READABLE_MASKS = {"cuda"}
lock = threading.RLock()
capturing = threading.local()


@contextmanager
def whole_attention() -> Iterator[None]:
    """Within it, graphs captured in this thread keep attention as `tilewright::attention`."""
    op = torch.ops.aten.scaled_dot_product_attention.default
    with lock:
        outer = op.py_kernels.get(COMPOSITE)
        op.py_kernels[COMPOSITE] = attention
        op._dispatch_cache.clear()
        capturing.depth = getattr(capturing, "depth", 0) + 1
        try:
            yield
        finally:
            capturing.depth -= 1
            if outer is None:
                del op.py_kernels[COMPOSITE]
            else:
                op.py_kernels[COMPOSITE] = outer
            op._dispatch_cache.clear()


def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The composite kernel of `scaled_dot_product_attention` while a graph of ours is captured."""
    tensors = [t for t in (query, key, value, attn_mask) if t is not None]
    if not is_ours(tensors):
        return composite(query, key, value, attn_mask, *args, **kwargs)
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        result = composite(query, key, value, readable(attn_mask), *args, **kwargs)
    else:
        result = torch.ops.tilewright.attention.default(query, key, value, attn_mask, *args, **kwargs)
    return laid_out_as_eager(result, attn_mask)


def is_ours(tensors: list[Any]) -> bool:
    return (
        getattr(capturing, "depth", 0) > 0
        and all(type(t) in PLAIN for t in tensors)
        and torch._C._functorch.peek_interpreter_stack() is None
    )


def readable(mask: Any) -> Any:
    """The mask as PyTorch's fused kernels take it: they refuse one whose last dimension is expanded."""
    return mask.contiguous() if repeats_its_last_dimension(mask) else mask


def repeats_its_last_dimension(mask: Any) -> bool:
    return mask is not None and mask.dim() > 0 and mask.stride(-1) == 0


def laid_out_as_eager(result: Any, mask: Any) -> Any:
    """On a GPU eager computes attention with such a mask by matrix products, whose result is dense, where the fused
    kernels leave the heads of one row side by side. Where nobody sees the difference, fusion makes nothing of it."""
    if result.device.type in NEED_READABLE_MASKS and repeats_its_last_dimension(mask):
        return result.contiguous()
    return result


def composite(*args: Any, **kwargs: Any) -> Any:
    """PyTorch's own kernel, which takes attention apart."""
    return torch.ops.aten.scaled_dot_product_attention.default._op_dk(COMPOSITE, *args, **kwargs)


def fake_attention(query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Sizes and strides of the result: those of the operator that eager picks for a mask as passes leave it."""
    return composite(query, key, value, readable(attn_mask), *args, **kwargs)


torch.library.register_fake("tilewright::attention", fake_attention)
