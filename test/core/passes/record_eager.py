"""Records what eager PyTorch gives on a GPU for the operators that `decompose` has rules for.

    python test/core/passes/record_eager.py test/core/passes/inputs/eager.jsonl      (on a machine with a GPU)

Each line is one case: a graph of one call, the bits of its inputs and of eager's outputs. eager_test.cpp decomposes the
graph and runs it in the interpreter.
"""

from __future__ import annotations

import json
import math
import sys
import types
from pathlib import Path
from typing import Any

import torch
from torch import fx

SOURCE = Path(__file__).resolve().parents[3]
package = types.ModuleType("tilewright")
package.__path__ = [str(SOURCE / "python" / "tilewright")]
sys.modules["tilewright"] = package  # the importer needs no build

from tilewright.graph_text import ELEMENT_TYPES  # noqa: E402
from tilewright.importer import import_fx  # noqa: E402

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
aten = torch.ops.aten
bf16, f16, f32, f64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
i64, i32, u8, i8, bool_ = torch.int64, torch.int32, torch.uint8, torch.int8, torch.bool

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0, 6.0, 21.0, math.inf, -math.inf, math.nan, 0.1, -2.5, 1e-3]


def random(shape: tuple[int, ...], dtype: torch.dtype, seed: int, scale: float = 1.5) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype is bool_:
        return torch.randint(0, 2, shape, generator=generator).to(bool_)
    if not dtype.is_floating_point:
        low = 0 if dtype is u8 else -9
        return torch.randint(low, 10, shape, generator=generator).to(dtype)
    return (torch.randn(shape, generator=generator) * scale).to(dtype)


def special(dtype: torch.dtype, seed: int, turn: int = 0) -> torch.Tensor:
    """A vector with the values at which formulas differ, then random ones; `turn` makes pairs of vectors meet."""
    values = random((24,), dtype, seed)
    if dtype.is_floating_point:
        values[: len(SPECIAL)] = torch.tensor(SPECIAL[turn:] + SPECIAL[:turn]).to(dtype)
    return values


def positive(dtype: torch.dtype, seed: int, shape: tuple[int, ...] = (24,)) -> torch.Tensor:
    return (random(shape, f32, seed).abs() + 0.01).to(dtype)


def unit(dtype: torch.dtype, seed: int, shape: tuple[int, ...] = (24,)) -> torch.Tensor:
    return torch.sigmoid(random(shape, f32, seed)).to(dtype)


cases: list[tuple[str, Any, tuple[Any, ...], dict[str, Any]]] = []


def add(op: Any, *args: Any, label: str = "", **kwargs: Any) -> None:
    cases.append((f"{str(op).removeprefix('aten.')}{label and '-' + label}", op, args, kwargs))


def words(text: str) -> list[str]:
    return text.split()


UNARY = words("""
    abs neg sign sgn ceil floor round trunc frac reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan
    asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv lgamma sigmoid sinc isnan isinf isposinf isneginf
    signbit nan_to_num relu silu mish hardswish hardsigmoid hardtanh elu celu selu leaky_relu softplus hardshrink
    softshrink logit clone logical_not deg2rad rad2deg
""")
INTEGER_UNARY = words("""
    abs neg sign ceil floor round trunc exp sqrt sigmoid isnan signbit relu bitwise_not logical_not clone
""")
BINARY = words("add sub rsub mul div true_divide remainder fmod eq ne lt le gt ge xlogy copysign")
SAME = words(
    "maximum minimum fmax fmin atan2 hypot logaddexp heaviside logical_and logical_or logical_xor floor_divide"
)


def overload(name: str, kind: str) -> Any:
    return getattr(getattr(aten, name), kind)


def pointwise_cases(t: torch.dtype) -> None:
    label = ELEMENT_TYPES[t]
    x, y, z = special(t, 1), special(t, 2, turn=5), special(t, 3, turn=9)
    for name in UNARY:
        add(overload(name, "default"), x, label=label)
    for name in BINARY:
        add(overload(name, "Tensor"), x, y, label=label)
    for name in SAME:
        add(overload(name, "default"), x, y, label=label)
    for name in words("add sub mul div remainder fmod eq ne lt le gt ge"):
        add(overload(name, "Scalar"), x, 0.3, label=label)
    for name in words("add sub mul div"):
        add(overload(name, "Tensor"), x, 3, label=f"{label}-int")
    for mode in (None, "floor", "trunc"):
        add(aten.div.Tensor_mode, x, y, rounding_mode=mode, label=f"{label}-{mode}")
        add(aten.div.Tensor_mode, x, 0.7, rounding_mode=mode, label=f"{label}-{mode}-number")
    for exponent in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 1.7, 4):
        add(aten.pow.Tensor_Scalar, x, exponent, label=f"{label}-{exponent}")
    add(aten.pow.Tensor_Tensor, x, y, label=label)
    add(aten.pow.Scalar, 2.3, y, label=label)
    add(aten.add.Tensor, x, y, alpha=0.3, label=f"{label}-alpha")
    add(aten.sub.Tensor, x, y, alpha=0.3, label=f"{label}-alpha")
    add(aten.addcmul.default, x, y, z, label=label)
    add(aten.addcmul.default, x, y, z, value=0.3, label=f"{label}-value")
    add(aten.addcdiv.default, x, y, z, label=label)
    add(aten.addcdiv.default, x, y, z, value=0.3, label=f"{label}-value")
    for weight in (0.3, 0.7):
        add(aten.lerp.Scalar, x, y, weight, label=f"{label}-{weight}")
    add(aten.lerp.Tensor, x, y, unit(t, 4), label=label)
    add(aten.clamp.default, x, -0.3, 1.1, label=label)
    add(aten.clamp.default, x, None, 1.1, label=f"{label}-max")
    add(aten.clamp.Tensor, x, y, z, label=label)
    add(aten.clamp_min.default, x, 0.3, label=label)
    add(aten.where.self, random((24,), bool_, 5), x, y, label=label)
    add(aten.masked_fill.Scalar, x, random((24,), bool_, 5), 0.3, label=label)
    add(aten.round.decimals, x, decimals=2, label=label)
    add(aten.logit.default, unit(t, 6), 0.1, label=f"{label}-eps")
    add(aten.gelu.default, x, label=label)
    add(aten.gelu.default, x, approximate="tanh", label=f"{label}-tanh")
    add(aten._prelu_kernel.default, x, y, label=label)
    add(aten.threshold.default, x, 0.3, 0.7, label=label)
    add(aten.log_sigmoid_forward.default, x, label=label)
    add(aten.native_dropout_backward.default, x, random((24,), bool_, 5), 1.25, label=label)
    add(aten._to_copy.default, x, dtype=f32 if t is not f32 else bf16, label=label)
    add(aten._to_copy.default, random((24,), t, 7, 8.0), dtype=i32, label=f"{label}-i32")
    add(aten._to_copy.default, x, dtype=bool_, label=f"{label}-bool")
    gradients(t, label, x, y)


def gradients(t: torch.dtype, label: str, x: torch.Tensor, g: torch.Tensor) -> None:
    add(aten.sigmoid_backward.default, g, unit(t, 8), label=label)
    add(aten.tanh_backward.default, g, torch.tanh(x.float()).to(t), label=label)
    add(aten.silu_backward.default, g, x, label=label)
    add(aten.gelu_backward.default, g, x, label=label)
    add(aten.gelu_backward.default, g, x, approximate="tanh", label=f"{label}-tanh")
    add(aten.hardswish_backward.default, g, x, label=label)
    add(aten.hardsigmoid_backward.default, g, x, label=label)
    add(aten.hardtanh_backward.default, g, x, -1, 1, label=label)
    add(aten.threshold_backward.default, g, x, 0, label=label)
    add(aten.leaky_relu_backward.default, g, x, 0.01, False, label=label)
    add(aten.elu_backward.default, g, 1.0, 1.0, 1.0, False, x, label=label)
    add(aten.elu_backward.default, g, 0.7, 1.1, 0.9, True, x, label=f"{label}-result")
    add(aten.softplus_backward.default, g, x, 1, 20, label=label)
    add(aten.mish_backward.default, g, x, label=label)
    add(aten.log_sigmoid_backward.default, g, x, torch.empty(0, dtype=t), label=label)
    add(aten.hardshrink_backward.default, g, x, 0.5, label=label)
    add(aten.softshrink_backward.default, g, x, 0.5, label=label)
    add(aten.logit_backward.default, g, unit(t, 6), label=label)
    add(aten._prelu_kernel_backward.default, g, x, random((24,), t, 9), label=label)


def mixed_cases() -> None:
    """Promotion: dimensions before none, kinds before widths; integers."""
    h, w = special(bf16, 1), special(f32, 2)
    n, m, b = random((24,), i32, 3), random((24,), i64, 4), random((24,), u8, 5)
    scalar = torch.tensor(0.3)
    for op in (aten.add.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.gt.Tensor):
        for label, x, y in (
            ("bf16-f32", h, w),
            ("bf16-f32scalar", h, scalar),
            ("i32-f32scalar", n, scalar),
            ("i32-bf16", n, h),
            ("i32-i64", n, m),
            ("u8-i32", b, n),
            ("i32-number", n, 0.7),
            ("bool-i32", random((24,), bool_, 6), n),
        ):
            add(aten.gt.Scalar if op is aten.gt.Tensor and isinstance(y, float) else op, x, y, label=label)
    for name in INTEGER_UNARY:
        add(overload(name, "default"), n, label="i32")
    nonzero = torch.where(n == 0, 3, n)
    for mode in ("floor", "trunc"):
        add(aten.div.Tensor_mode, m, nonzero, rounding_mode=mode, label=f"i64-{mode}")
    add(aten.remainder.Tensor, m, nonzero, label="i64")
    add(aten.fmod.Tensor, m, nonzero, label="i64")
    add(aten.floor_divide.default, m, nonzero, label="i64")
    for name in words("bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift"):
        add(overload(name, "Tensor"), n, random((24,), i32, 7) * 5, label="i32")
    add(aten.bitwise_and.Tensor, random((24,), bool_, 6), random((24,), bool_, 7), label="bool")
    add(aten.add.Tensor, n, n, alpha=3, label="i32-alpha")
    add(aten.pow.Tensor_Scalar, n, 2, label="i32")
    add(aten.where.self, random((24,), bool_, 6), n, m, label="i32-i64")
    for t in (i8, u8, i64):
        add(aten._to_copy.default, random((24,), f32, 8, 50.0), dtype=t, label=f"f32-{ELEMENT_TYPES[t]}")
        add(aten._to_copy.default, n * 30, dtype=t, label=f"i32-{ELEMENT_TYPES[t]}")


def view_cases() -> None:
    x = random((4, 6, 8), bf16, 1)
    add(aten.view.default, x, [24, 8])
    add(aten.permute.default, x, [2, 0, -2])
    add(aten.transpose.int, x, -1, 0)
    add(aten.t.default, random((3, 5), f32, 1))
    add(aten.expand.default, random((6, 1), f32, 1), [2, 6, 4])
    add(aten.expand.default, torch.tensor(2.0), [3, 4], label="number")
    add(aten.unsqueeze.default, x, -2)
    add(aten.squeeze.dim, random((4, 1, 3), f32, 1), 1)
    add(aten.slice.Tensor, x, 1, 1, -2)
    add(aten.slice.Tensor, x, 2, 1, 9223372036854775807, 3, label="step")
    add(aten.select.int, x, 1, -2)
    add(aten.split.Tensor, x, 4, 1)
    add(aten.split_with_sizes.default, x, [1, 5, 2], 2)
    add(aten.unbind.int, random((3, 5), f32, 1), 0)
    add(aten.flip.default, x, [0, -1])
    add(aten.roll.default, x, [2, -3], [1, 2])
    add(aten.cat.default, [random((2, 5), f32, 1), random((2, 3), bf16, 2)], -1)
    add(aten.stack.default, [random((2, 5), f32, 1), random((2, 5), f32, 2)], 1)
    add(aten.repeat.default, random((2, 3), f32, 1), [2, 3, 2])
    add(aten.constant_pad_nd.default, random((4, 5), f32, 1), [1, 2, -1, 3], 0.3)
    add(aten.constant_pad_nd.default, random((4, 5), f32, 1), [-1, -2], label="negative")
    add(aten.slice_backward.default, random((4, 3), f32, 1), [4, 8], 1, 2, 5, 1)
    add(aten.select_backward.default, random((4,), f32, 1), [4, 8], 1, -3)
    add(aten.slice_scatter.default, random((4, 8), f32, 1), random((4, 3), f32, 2), 1, 2, 5)
    add(aten.select_scatter.default, random((4, 8), f32, 1), random((4,), f32, 2), 1, 7)
    add(aten.glu.default, x, 1)
    add(aten.glu_backward.default, random((4, 3, 8), bf16, 2), x, 1)
    add(aten.tril.default, random((4, 6), f32, 1), 1)
    add(aten.triu.default, random((2, 4, 6), bf16, 1), -1)


def creation_cases() -> None:
    place = {"device": DEVICE, "pin_memory": False}
    add(aten.full.default, [3, 4], 0.3, dtype=bf16, **place)
    add(aten.full.default, [3], 7, dtype=i32, label="i32", **place)
    add(aten.zeros.default, [3], dtype=f32, **place)
    add(aten.ones.default, [3], dtype=bool_, **place)
    add(aten.full_like.default, random((3,), f32, 1), 0.3)
    add(aten.scalar_tensor.default, -math.inf, dtype=bf16, **place)
    add(aten.arange.default, 7, **place)
    add(aten.arange.start, 3, 9, dtype=f32, **place)
    add(aten.arange.start_step, 1, 9, 2, **place)
    add(aten.arange.start_step, 0.1, 2.0, 0.3, label="f32", **place)
    add(aten.eye.default, 4, **place)
    add(aten.eye.m, 3, 5, dtype=i64, label="i64", **place)


def reduction_cases(t: torch.dtype) -> None:
    label = ELEMENT_TYPES[t]
    x = random((4, 6, 8), t, 1)
    ties = random((5, 9), i32, 2).to(t)
    ties[1, 3] = math.nan
    for name in words("sum mean prod max min argmax argmin"):
        add(overload(name, "default"), x, label=label)
    for keepdim in (False, True):
        add(aten.sum.dim_IntList, x, [0, -1], keepdim, label=f"{label}-{keepdim}")
        add(aten.mean.dim, x, [1], keepdim, label=f"{label}-{keepdim}")
        add(aten.max.dim, ties, -1, keepdim, label=f"{label}-{keepdim}")
        add(aten.min.dim, ties, 0, keepdim, label=f"{label}-{keepdim}")
    add(aten.sum.dim_IntList, x, None, dtype=f32, label=f"{label}-to-f32")
    add(aten.amax.default, ties, [0], label=label)
    add(aten.amin.default, ties, label=label)
    add(aten.aminmax.default, x, dim=1, label=label)
    add(aten.argmax.default, ties, 1, label=f"{label}-dim")
    add(aten.any.dim, ties, 1, label=label)
    add(aten.all.default, ties, label=label)
    add(aten.nansum.default, ties, [1], label=label)
    for correction in (None, 0, 2):
        add(aten.var.correction, x, [0, 2], correction=correction, label=f"{label}-{correction}")
    add(aten.std.correction, x, label=label)
    add(aten.var_mean.correction, x, [1], keepdim=True, label=label)
    for order in (2, 1, math.inf, 0, 3):
        add(aten.linalg_vector_norm.default, x, order, [1], label=f"{label}-{order}")
    add(aten.logsumexp.default, x, [1, 2], label=label)


def norm_cases(t: torch.dtype) -> None:
    label = ELEMENT_TYPES[t]
    x, g = random((4, 6, 8), t, 1), random((4, 6, 8), t, 2)
    w, b = random((8,), t, 3), random((8,), t, 4)
    add(aten._softmax.default, x, 1, False, label=label)
    add(aten._log_softmax.default, x, -1, False, label=label)
    if t is f16:
        add(aten._softmax.default, x, -1, True, label="f16-to-f32")
    masked = x.clone()
    masked[1, 2] = -math.inf
    add(aten._safe_softmax.default, masked, -1, label=label)
    add(aten._softmax_backward_data.default, g, torch.softmax(x.float(), -1).to(t), -1, t, label=label)
    add(aten._log_softmax_backward_data.default, g, torch.log_softmax(x.float(), 1).to(t), 1, t, label=label)
    for name, weight, bias in (("affine", w, b), ("plain", None, None)):
        add(aten.native_layer_norm.default, x, [8], weight, bias, 1e-5, label=f"{label}-{name}")
        mean = x.float().mean(-1, keepdim=True)
        rstd = (x.float().var(-1, unbiased=False, keepdim=True) + 1e-5).rsqrt()
        add(
            aten.native_layer_norm_backward.default,
            g,
            x,
            [8],
            mean,
            rstd,
            weight,
            bias,
            [True, bias is not None, bias is not None],
            label=f"{label}-{name}",
        )
        add(aten._fused_rms_norm.default, x, [8], weight, None if weight is None else 1e-6, label=f"{label}-{name}")
        square = (x.float().pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
        add(
            aten._fused_rms_norm_backward.default,
            g,
            x,
            [8],
            square,
            weight,
            [True, weight is not None],
            label=f"{label}-{name}",
        )
    channels = random((6,), t, 5), random((6,), t, 6)
    for name, weight, bias in (("affine", *channels), ("plain", None, None)):
        add(aten.native_group_norm.default, x, weight, bias, 4, 6, 8, 3, 1e-5, label=f"{label}-{name}")
        flat = x.float().reshape(4, 3, 16)
        mean, rstd = flat.mean(-1).to(t), (flat.var(-1, unbiased=False) + 1e-5).rsqrt().to(t)
        add(
            aten.native_group_norm_backward.default,
            g,
            x,
            mean,
            rstd,
            weight,
            4,
            6,
            8,
            3,
            [True, weight is not None, weight is not None],
            label=f"{label}-{name}",
        )
    batch_norm_cases(t, label)


def batch_norm_cases(t: torch.dtype, label: str) -> None:
    x, g = random((4, 3, 2, 5), t, 1), random((4, 3, 2, 5), t, 2)
    w, b = random((3,), f32, 3), random((3,), f32, 4)
    mean, var = random((3,), f32, 5), positive(f32, 6, (3,))
    add(aten._native_batch_norm_legit_functional.default, x, w, b, mean, var, True, 0.1, 1e-5, label=label)
    add(aten._native_batch_norm_legit.no_stats, x, w, b, True, 0.1, 1e-5, label=label)
    add(aten._native_batch_norm_legit_no_training.default, x, w, b, mean, var, 0.1, 1e-5, label=label)
    saved = x.float().mean([0, 2, 3]), (x.float().var([0, 2, 3], unbiased=False) + 1e-5).rsqrt()
    mask = [True, True, True]
    add(aten.native_batch_norm_backward.default, g, x, w, mean, var, *saved, True, 1e-5, mask, label=f"{label}-train")
    add(aten.native_batch_norm_backward.default, g, x, w, mean, var, *saved, False, 1e-5, mask, label=f"{label}-eval")


def loss_cases(t: torch.dtype) -> None:
    label = ELEMENT_TYPES[t]
    x, y = random((5, 7), t, 1), random((5, 7), t, 2)
    p, q = unit(t, 3, (5, 7)), unit(t, 4, (5, 7))
    for reduction in (0, 1, 2):
        g = random((5, 7) if reduction == 0 else (), t, 5)
        tag = f"{label}-{reduction}"
        add(aten.mse_loss.default, x, y, reduction, label=tag)
        add(aten.mse_loss_backward.default, g, x, y, reduction, label=tag)
        add(aten.smooth_l1_loss.default, x, y, reduction, 0.7, label=tag)
        add(aten.smooth_l1_loss_backward.default, g, x, y, reduction, 0.7, label=tag)
        add(aten.huber_loss.default, x, y, reduction, 0.7, label=tag)
        add(aten.huber_loss_backward.default, g, x, y, reduction, 0.7, label=tag)
        add(aten.binary_cross_entropy.default, p, q, None, reduction, label=tag)
        add(aten.binary_cross_entropy_backward.default, g, p, q, None, reduction, label=tag)
        add(aten.binary_cross_entropy_with_logits.default, x, q, None, p, reduction, label=tag)
    scores = torch.log_softmax(random((5, 7), f32, 6), -1).to(t)
    target = torch.tensor([0, 6, -100, 3, 2])
    weight = unit(t, 7, (7,))
    for reduction in (0, 1, 2):
        for name, w in (("plain", None), ("weight", weight)):
            add(aten.nll_loss_forward.default, scores, target, w, reduction, -100, label=f"{label}-{reduction}-{name}")
            g = random((5,) if reduction == 0 else (), t, 8)
            add(
                aten.nll_loss_backward.default,
                g,
                scores,
                target,
                w,
                reduction,
                -100,
                torch.tensor(3.5, dtype=t),
                label=f"{label}-{reduction}-{name}",
            )


def foreach_cases() -> None:
    x, y, z = ([random((n,), f32, seed + n) for n in (5, 9)] for seed in (1, 2, 3))
    y = [t.abs() + 0.1 for t in y]
    add(aten._foreach_add.List, x, y)
    add(aten._foreach_add.List, x, y, alpha=0.3, label="alpha")
    add(aten._foreach_add.Scalar, x, 0.3)
    add(aten._foreach_sub.List, x, y)
    add(aten._foreach_mul.List, x, y)
    add(aten._foreach_mul.Scalar, x, 0.3)
    add(aten._foreach_div.List, x, y)
    add(aten._foreach_div.ScalarList, x, [0.3, 0.7])
    add(aten._foreach_sqrt.default, y)
    add(aten._foreach_neg.default, x)
    add(aten._foreach_addcmul.Scalar, x, z, y, 0.3)
    add(aten._foreach_addcdiv.Scalar, x, z, y, 0.3)
    add(aten._foreach_addcdiv.ScalarList, x, z, y, [0.3, 0.7])
    add(aten._foreach_lerp.Scalar, x, y, 0.1)


def all_cases() -> None:
    for t in (f32, bf16, f16):
        pointwise_cases(t)
    for t in (f32, bf16):
        reduction_cases(t)
        norm_cases(t)
        loss_cases(t)
    norm_cases(f16)
    mixed_cases()
    view_cases()
    creation_cases()
    foreach_cases()
    add(aten.pixel_shuffle.default, random((2, 8, 3, 5), f32, 1), 2)
    add(aten.count_nonzero.dim_IntList, random((4, 6), i32, 1), [1], label="i32")
    add(aten.sum.dim_IntList, random((4, 6), i32, 1), [1], label="i32")
    add(aten.prod.dim_int, random((4, 6), bool_, 1), 1, label="bool")
    add(aten.any.default, random((4, 6), u8, 1), label="u8")
    add(aten.mean.dim, random((4, 6), f64, 1), [1], label="f64")
    add(aten.exp.default, random((24,), f64, 1), label="f64")


def record(name: str, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    graph = fx.Graph()
    inputs: list[torch.Tensor] = []

    def parameter(value: Any) -> Any:
        if isinstance(value, list):
            return [parameter(v) for v in value]
        if not isinstance(value, torch.Tensor):
            return value
        inputs.append(value.to(DEVICE))
        node = graph.placeholder(f"x{len(inputs) - 1}")
        node.meta["val"] = inputs[-1]
        return node

    def tensor_of(node: fx.Node) -> torch.Tensor:
        return node.meta["val"]

    call_args = tuple(parameter(a) for a in args)
    real_args = fx.node.map_arg(call_args, tensor_of)
    found = op(*real_args, **kwargs)
    node = graph.call_function(op, call_args, kwargs)
    node.meta["val"] = found
    results = [node]
    outputs = [found]
    if isinstance(found, (tuple, list)):
        results, outputs = [], []
        for i, value in enumerate(found):
            if isinstance(value, torch.Tensor):
                part = graph.call_function(__import__("operator").getitem, (node, i))
                part.meta["val"] = value
                results.append(part)
                outputs.append(value)
    graph.output(tuple(results))
    text = import_fx(fx.GraphModule(torch.nn.Module(), graph), DEVICE, "case").text
    return {
        "name": name,
        "graph": text,
        "inputs": [encoded(t) for t in inputs],
        "outputs": [encoded(t) for t in outputs],
    }


def encoded(tensor: torch.Tensor) -> dict[str, Any]:
    data = tensor.detach().cpu().contiguous()
    bits = data.reshape(-1).view(u8).numpy().tobytes().hex() if data.numel() else ""
    return {"dtype": ELEMENT_TYPES[tensor.dtype], "shape": list(tensor.shape), "bits": bits}


def main() -> None:
    all_cases()
    failed = []
    with Path(sys.argv[1]).open("w") as file:
        for name, op, args, kwargs in cases:
            try:
                file.write(json.dumps(record(name, op, args, kwargs), separators=(",", ":")) + "\n")
            except (RuntimeError, NotImplementedError) as error:
                failed.append(f"{name}: {str(error).splitlines()[0]}")
    print(f"{len(cases) - len(failed)} cases on {DEVICE}, PyTorch {torch.__version__}")
    print("\n".join(failed))


if __name__ == "__main__":
    main()
