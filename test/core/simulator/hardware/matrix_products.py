"""What `mma.sync` gives for random fragments: the results of a GPU, kept as matrix_products.npz beside this file.

usage: python matrix_products.py [--out matrix_products.npz]     needs a GPU and PyTorch with CUDA

Fragments are drawn register by register from a seed, so that only results are kept; test_matrix_products.py draws them
again for the simulator.
"""

from __future__ import annotations

import argparse
import pathlib
from dataclasses import dataclass

import numpy as np

TRIALS, KEPT = 96, 24  # drawn, and kept of them
DRAWS = ("normal", "wide", "powers", "small", "special")


@dataclass(frozen=True)
class Product:
    instruction: str
    element: str
    """Of a and b: f16, bf16, tf32, e4m3, e5m2 or f64."""
    accumulator: str
    """Of c and d: f32, f16 or f64."""
    registers: tuple[int, int, int]
    """Of a, b, and c or d, in words of 32 bits (f64: of 64)."""


PRODUCTS = {
    f"{shape}.{a}.{c}": Product(f"mma.sync.aligned.{shape}.row.col.{c}.{a}.{a}.{c}", a, c, registers)
    for shape, a, c, registers in (
        ("m16n8k8", "f16", "f32", (2, 1, 4)),
        ("m16n8k16", "f16", "f32", (4, 2, 4)),
        ("m16n8k16", "f16", "f16", (4, 2, 2)),
        ("m16n8k8", "bf16", "f32", (2, 1, 4)),
        ("m16n8k16", "bf16", "f32", (4, 2, 4)),
        ("m16n8k4", "tf32", "f32", (2, 1, 4)),
        ("m16n8k8", "tf32", "f32", (4, 2, 4)),
        ("m16n8k32", "e4m3", "f32", (4, 2, 4)),
        ("m16n8k32", "e5m2", "f32", (4, 2, 4)),
        ("m8n8k4", "f64", "f64", (1, 1, 2)),
    )
}


def ptx(product: Product) -> str:
    wide = product.element == "f64"
    kind, size = ("f64", 8) if wide else ("b32", 4)
    kind_c = "f32" if product.accumulator == "f32" else kind
    lists, loads = [], []
    for name, count, k in zip("abc", product.registers, (kind, kind, kind_c), strict=True):
        registers = [f"%{name}{i}" for i in range(count)]
        lists.append("{" + ", ".join(registers) + "}")
        loads.append(f"  .reg .{k} {', '.join(registers)};\n  ld.param.u64 %p, [{name}];\n")
        loads.append(f"  mad.wide.u32 %p, %t, {size * count}, %p;\n")
        loads += [f"  ld.global.{k} {r}, [%p+{size * i}];\n" for i, r in enumerate(registers)]
    results = [f"%x{i}" for i in range(product.registers[2])]
    stores = "".join(f"  st.global.{kind_c} [%p+{size * i}], {r};\n" for i, r in enumerate(results))
    return (
        ".version 8.4\n.target sm_90\n.address_size 64\n"
        ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n{\n"
        "  .reg .b64 %p;\n  .reg .b32 %t, %b;\n"
        "  mov.u32 %t, %tid.x;\n  mov.u32 %b, %ctaid.x;\n  mad.lo.u32 %t, %b, 32, %t;\n"
        f"{''.join(loads)}  .reg .{kind_c} {', '.join(results)};\n"
        f"  {product.instruction} {{{', '.join(results)}}}, {', '.join(lists)};\n"
        f"  ld.param.u64 %p, [d];\n  mad.wide.u32 %p, %t, {size * len(results)}, %p;\n{stores}  ret;\n}}\n"
    )


def to_bits(values: np.ndarray, element: str) -> np.ndarray:
    """float64 to an element's bits, rounded to nearest (bf16, tf32: truncated, which is as good for drawing)."""
    if element == "f64":
        return values.view(np.uint64)
    if element == "f16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).view(np.uint16)
    f32 = values.astype(np.float32).view(np.uint32)
    if element == "bf16":
        return (f32 >> 16).astype(np.uint16)
    if element == "tf32":
        return f32 & np.uint32(0xFFFFE000)
    if element == "f32":
        return f32
    mantissa, bias = (3, 7) if element == "e4m3" else (2, 15)
    # Of the magnitude: the exponent moved to the small bias, clamped between zero and the largest finite value.
    sign = (f32 >> 31).astype(np.int64) << 7
    magnitude = ((f32 & 0x7FFFFFFF).astype(np.int64) >> (23 - mantissa)) - ((127 - bias) << mantissa)
    return (sign | np.clip(magnitude, 0, 0x7E if element == "e4m3" else 0x7B)).astype(np.uint8)


def draw(product: Product, how: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Registers of a, b, c for all trials."""
    seed = [ord(x) for x in f"{product.instruction} {how}"]
    random = np.random.default_rng(seed)
    word = np.uint64 if product.element == "f64" else np.uint32
    narrow = product.element in ("f16", "e4m3", "e5m2")

    def values(count: int, is_c: bool) -> np.ndarray:
        normal = random.standard_normal(count)
        reach = 4 if narrow else 12
        if how == "wide":
            return normal * 2.0 ** random.integers(-reach, reach + 1, count)
        if how == "powers":
            reach = 2 * reach if is_c else reach
            sign = random.choice([-1.0, 1.0], count)
            return sign * 2.0 ** random.integers(-reach, reach + 1, count)
        if how == "small":  # down to subnormal numbers, of the elements or of float32 sums
            low = {"f16": -18, "e4m3": -8, "e5m2": -14, "f64": -520}.get(product.element, -68)
            scale = 2.0 ** random.integers(low, low + 8, count)
            return normal * (2.0 ** random.integers(2 * low, 2 * low + 12, count) if is_c else scale)
        if how == "special":
            special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 3e4, 1e38])
            chosen = random.choice(special, count)
            return np.where(random.random(count) < (0.2 if is_c else 0.02), chosen, normal)
        return normal

    result = []
    for i, count in enumerate(product.registers):
        element = product.accumulator if i == 2 else product.element
        size = {"f64": 8, "f32": 4, "tf32": 4, "f16": 2, "bf16": 2}.get(element, 1)
        elements = TRIALS * 32 * count * word(0).itemsize // size
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            drawn = to_bits(np.ascontiguousarray(values(elements, i == 2)), element)
        result.append(drawn.view(np.uint8).view(word).reshape(TRIALS, 32, count))
    return result[0], result[1], result[2]


def main() -> None:
    from gpu import Kernel

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "matrix_products.npz")
    args = parser.parse_args()
    results = {}
    for name, product in PRODUCTS.items():
        kernel = Kernel(ptx(product), "k")
        for how in DRAWS:
            a, b, c = draw(product, how)
            d = np.zeros_like(c)
            kernel([a, b, c, d], (TRIALS,), (32,))
            results[f"{name} {how}"] = d[:KEPT]
    np.savez_compressed(args.out, **results)


if __name__ == "__main__":
    main()
