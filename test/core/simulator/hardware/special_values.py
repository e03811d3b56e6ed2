"""What a GPU gives for special values: NaN of all kinds, infinities, zeros, subnormal and extreme numbers.

usage: python special_values.py [--out special_values.npz]     needs a GPU and PyTorch with CUDA

Results are kept as special_values.npz beside this file; test_hardware.py runs the same instructions on the simulator.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
from dataclasses import dataclass

import numpy as np

# Bits by type; b: integers that are read as bits.
VALUES = {
    "f64": [
        *[0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0xFFF4000012345678, 0x7FFFFFFFFFFFFFFF],
        *[0x7FF0000000000000, 0xFFF0000000000000, 0, 0x8000000000000000, 0x3FF0000000000000, 0xBFF8000000000000],
        *[1, 0x800FFFFFFFFFFFFF, 0x7FEFFFFFFFFFFFFF, 0x41E0000000000000, 0xC3E0000000000001, 0x36A0000000000000],
    ],
    "f32": [
        *[0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFA12345, 0x7FFFFFFF, 0x7F800000, 0xFF800000, 0, 0x80000000],
        *[0x3F800000, 0xBFC00000, 1, 0x807FFFFF, 0x7F7FFFFF, 0x4F000000, 0xDF000001, 0x00800000],
    ],
    "f16": [
        0x7E00,
        0xFE00,
        0x7C01,
        0xFD23,
        0x7FFF,
        0x7C00,
        0xFC00,
        0,
        0x8000,
        0x3C00,
        0xBE00,
        1,
        0x83FF,
        0x7BFF,
        0x0400,
    ],
    "bf16": [
        0x7FC0,
        0xFFC0,
        0x7F81,
        0xFFA1,
        0x7FFF,
        0x7F80,
        0xFF80,
        0,
        0x8000,
        0x3F80,
        0xBFC0,
        1,
        0x807F,
        0x7F7F,
        0x80,
    ],
    "s32": [0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 31, 32, 33, 256, 257, 0x101, 0x1F1F, 5],
    "s64": [0, 1, 0xFFFFFFFFFFFFFFFF, 0x8000000000000000, 0x7FFFFFFFFFFFFFFF, 63, 64, 65, 1 << 40],
}
BYTES = {"f64": 8, "s64": 8, "u64": 8, "f32": 4, "s32": 4, "u32": 4, "b32": 4, "f16": 2, "bf16": 2}


@dataclass(frozen=True)
class Operation:
    opcode: str
    result: str
    operands: tuple[str, ...]


def operations() -> list[Operation]:
    found = []
    for t, rounding in (("f64", ".rn"), ("f32", ".rn"), ("f16", ".rn"), ("bf16", ".rn")):
        for name in ("add", "sub", "mul"):
            found.append(Operation(f"{name}{rounding}.{t}", t, (t, t)))
        found.append(Operation(f"fma{rounding}.{t}", t, (t, t, t)))
        found += [Operation(f"{name}.{t}", t, (t, t)) for name in ("min", "max")]
        found += [Operation(f"{name}.{t}", t, (t,)) for name in ("neg", "abs")]
    for t in ("f32", "f16", "bf16"):
        found += [Operation(f"{name}.NaN.{t}", t, (t, t)) for name in ("min", "max")]
    for t in ("f64", "f32"):
        found += [
            Operation(f"div.rn.{t}", t, (t, t)),
            Operation(f"sqrt.rn.{t}", t, (t,)),
            Operation(f"rcp.rn.{t}", t, (t,)),
        ]
    for t in ("f32", "f16"):
        found += [Operation(f"{name}.rn.sat.{t}", t, (t, t)) for name in ("add", "mul")]
    found += [Operation(f"{name}.rn.ftz.f32", "f32", ("f32", "f32")) for name in ("add", "mul")]
    for source, result in (("f64", "f32"), ("f64", "f16"), ("f32", "f16"), ("f32", "bf16")):
        found.append(Operation(f"cvt.rn.{result}.{source}", result, (source,)))
    for source, result in (("f32", "f64"), ("f16", "f32"), ("f16", "f64"), ("bf16", "f32")):
        found.append(Operation(f"cvt.{result}.{source}", result, (source,)))
    found.append(Operation("cvt.rni.f32.f32", "f32", ("f32",)))
    found.append(Operation("cvt.rni.f64.f64", "f64", ("f64",)))
    found.append(Operation("cvt.sat.f32.f32", "f32", ("f32",)))
    found.append(Operation("cvt.rna.tf32.f32", "b32", ("f32",)))
    for source, result in itertools.product(("f64", "f32", "f16"), ("s32", "u32", "s64", "u64")):
        found.append(Operation(f"cvt.rzi.{result}.{source}", result, (source,)))
    for name in ("ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos", "tanh"):
        found.append(Operation(f"{name}.approx.f32", "f32", ("f32",)))
    found += [Operation("div.approx.f32", "f32", ("f32", "f32")), Operation("div.full.f32", "f32", ("f32", "f32"))]
    for t in ("s32", "u32", "s64", "u64"):
        wide = "s64" if t.endswith("64") else "s32"
        found += [Operation(f"{name}.{t}", wide, (wide, wide)) for name in ("div", "rem")]
    for bits, name in itertools.product((32, 64), ("shl.b", "shr.u", "shr.s")):
        found.append(Operation(f"{name}{bits}", f"s{bits}", (f"s{bits}", "s32")))
    for t in ("s32", "u32", "s64", "u64"):
        wide = "s64" if t.endswith("64") else "s32"
        found.append(Operation(f"bfe.{t}", wide, (wide, "s32", "s32")))
    found.append(Operation("bfi.b32", "s32", ("s32", "s32", "s32", "s32")))
    return found


def register_type(t: str) -> str:
    return {"f16": "b16", "bf16": "b16"}.get(t, t)


def ptx(op: Operation) -> str:
    loads = "".join(
        f"  .reg .{register_type(t)} %v{i};\n  ld.param.u64 %p, [p{i}];\n  mad.wide.u32 %p, %t, {BYTES[t]}, %p;\n"
        f"  ld.global.{register_type(t)} %v{i}, [%p];\n"
        for i, t in enumerate(op.operands)
    )
    parameters = "".join(f".param .u64 p{i}, " for i in range(len(op.operands)))
    operands = ", ".join(f"%v{i}" for i in range(len(op.operands)))
    kind = register_type(op.result)
    return (
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        f".visible .entry k({parameters}.param .u64 out)\n{{\n"
        "  .reg .b64 %p;\n  .reg .b32 %t, %b;\n"
        "  mov.u32 %t, %tid.x;\n  mov.u32 %b, %ctaid.x;\n  mad.lo.u32 %t, %b, 32, %t;\n"
        f"{loads}  .reg .{kind} %r;\n  {op.opcode} %r, {operands};\n"
        f"  ld.param.u64 %p, [out];\n  mad.wide.u32 %p, %t, {BYTES[op.result]}, %p;\n"
        f"  st.global.{kind} [%p], %r;\n  ret;\n}}\n"
    )


def arguments(op: Operation) -> list[np.ndarray]:
    """All combinations of the special values, in whole warps; the last one is room for the results."""
    combinations = list(itertools.product(*[VALUES[t] for t in op.operands]))
    count = -(-len(combinations) // 32) * 32
    columns = list(zip(*combinations, strict=True))
    operands = [
        np.resize(np.array(column, np.uint64), count).astype(f"u{BYTES[t]}")
        for column, t in zip(columns, op.operands, strict=True)
    ]
    return [*operands, np.zeros(count, f"u{BYTES[op.result]}")]


def main() -> None:
    from gpu import Kernel

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "special_values.npz")
    args = parser.parse_args()
    results = {}
    for op in operations():
        values = arguments(op)
        Kernel(ptx(op), "k")(values, (len(values[-1]) // 32,), (32,))
        results[op.opcode] = values[-1]
    np.savez_compressed(args.out, **results)


if __name__ == "__main__":
    main()
