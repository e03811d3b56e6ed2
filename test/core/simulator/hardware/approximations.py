"""The largest errors of the approximate instructions on a GPU, and where the simulator's exceptional cases differ.

usage: python approximations.py [--out approximations.json]     needs a GPU, PyTorch with CUDA, and tilewright

Errors are of float32 results against float64: in units in the last place of the exact result, and relative or absolute.
"""

from __future__ import annotations

import argparse
import json
import pathlib
from collections.abc import Callable

import numpy as np

COUNT = 1 << 20

# opcode: (exact function, ranges of inputs)
FULL, PI = (-(2.0**126), 2.0**126), np.pi
OPERATIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], list[tuple[float, float]]]] = {
    "ex2.approx.f32": (np.exp2, [(-126, 128), (-1, 1)]),
    "ex2.approx.ftz.f32": (np.exp2, [(-126, 128), (-1, 1)]),
    "lg2.approx.f32": (np.log2, [(2.0**-126, 2.0**126), (0.5, 2)]),
    "rcp.approx.f32": (lambda x: 1 / x, [FULL, (1, 2)]),
    "rcp.approx.ftz.f32": (lambda x: 1 / x, [FULL, (1, 2)]),
    "sqrt.approx.f32": (np.sqrt, [(0, 2.0**126), (1, 4)]),
    "rsqrt.approx.f32": (lambda x: 1 / np.sqrt(x), [(2.0**-126, 2.0**126), (1, 4)]),
    "sin.approx.f32": (np.sin, [(-2 * PI, 2 * PI), (-100 * PI, 100 * PI)]),
    "cos.approx.f32": (np.cos, [(-2 * PI, 2 * PI), (-100 * PI, 100 * PI)]),
    "tanh.approx.f32": (np.tanh, [(-20, 20), (-0.01, 0.01)]),
}
SPECIAL = np.array(
    [
        *[np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-40, 1.1754944e-38, 1.0, -1.0, 0.5, 2.0, 3.4028235e38],
        *[-200, 200, -127.0, -149.0, -150.0, 127.0, 128.0, 1e30, -1e30, 2.0**64, -(2.0**64), 2.0**-126],
    ],
    np.float32,
)


def ptx(opcode: str) -> str:
    return (
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 y)\n{\n"
        "  .reg .b64 %x, %y;\n  .reg .b32 %t, %b;\n  .reg .f32 %v;\n"
        "  ld.param.u64 %x, [x];\n  ld.param.u64 %y, [y];\n"
        "  mov.u32 %t, %tid.x;\n  mov.u32 %b, %ctaid.x;\n  mad.lo.u32 %t, %b, 32, %t;\n"
        "  mad.wide.u32 %x, %t, 4, %x;\n  mad.wide.u32 %y, %t, 4, %y;\n"
        f"  ld.global.f32 %v, [%x];\n  {opcode} %v, %v;\n  st.global.f32 [%y], %v;\n  ret;\n}}\n"
    )


def inputs(low: float, high: float) -> np.ndarray:
    random = np.random.default_rng(1)
    if max(abs(low), abs(high)) < 1000:
        return random.uniform(low, high, COUNT).astype(np.float32)
    # All exponents alike.
    exponents = random.uniform(-126, np.log2(high), COUNT)
    sign = random.choice([-1.0, 1.0], COUNT) if low < 0 else 1.0
    return np.asarray(sign * np.exp2(exponents), np.float32)


def main() -> None:
    import tilewright
    from gpu import Kernel

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("approximations.json"))
    args = parser.parse_args()
    report: dict[str, dict[str, object]] = {}
    for opcode, (exact, ranges) in OPERATIONS.items():
        kernel = Kernel(ptx(opcode), "k")
        report[opcode] = {}
        for low, high in ranges:
            x = inputs(low, high)
            y = np.zeros_like(x)
            kernel([x, y], (COUNT // 32,), (32,))
            right = exact(x.astype(np.float64))
            normal = np.abs(right) >= 2.0**-126
            error = np.abs(y.astype(np.float64) - right)[normal]
            size = np.abs(right)[normal]
            ulp = np.exp2(np.floor(np.log2(size)) - 23)
            report[opcode][f"{low:.4g} to {high:.4g}"] = {
                "ulp": float((error / ulp).max()),
                "relative_log2": float(np.log2((error / size).max())),
                "absolute_log2": float(np.log2(error.max())),
            }
        count = -(-len(SPECIAL) // 32) * 32
        x = np.resize(SPECIAL, count).astype(np.float32)
        on_gpu, simulated = np.zeros_like(x), np.zeros_like(x)
        kernel([x, on_gpu], (count // 32,), (32,))
        tilewright.simulate(ptx(opcode), x, simulated, grid=count // 32, block=32)
        finite = np.isfinite(on_gpu) & (on_gpu != 0)
        close = np.isclose(simulated, on_gpu, rtol=1e-4, atol=1e-6) & finite
        differs = ~close & (on_gpu.view(np.uint32) != simulated.view(np.uint32))
        report[opcode]["special cases that differ"] = [
            f"{opcode} {x[i]!r}: GPU {on_gpu[i]!r} (0x{on_gpu.view(np.uint32)[i]:08x}), simulator {simulated[i]!r}"
            for i in np.flatnonzero(differs[: len(SPECIAL)])
        ]
    args.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
