"""Launches whose memory counters are read on a GPU (counters.py) and compared with the simulator's.

Kernels of nvcc and Triton kept beside this folder, and small ones written here for one access pattern each. Memory is
aligned to 256 bytes on both.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FOLDER = pathlib.Path(__file__).parents[1]


@dataclass(frozen=True)
class Case:
    name: str
    ptx: str
    entry: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: Sequence[np.ndarray | np.generic | None]
    """Arrays are memory, None a null pointer."""
    shared_bytes: int = 0


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy in memory whose address is a multiple of 256 bytes."""
    buffer = np.empty(array.nbytes + 256, np.uint8)
    begin = -buffer.ctypes.data % 256
    copy = buffer[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


def global_pattern(instruction: str, stride: int, offset: int, threads: int = 128, blocks: int = 2) -> Case:
    """Thread t of the grid executes `instruction` (its vector's registers in {}) at in + stride * t + offset."""
    opcode, _, width = instruction.partition("/")
    count = int(width or 1)
    kind = opcode.split(".")[-1]
    registers = [f"%v{i}" for i in range(count)]
    operand = registers[0] if count == 1 else "{" + ", ".join(registers) + "}"
    is_store = opcode.startswith("st")
    access = f"{opcode} [%a+{offset}], {operand};" if is_store else f"{opcode} {operand}, [%a+{offset}];"
    made = "".join(f"  cvt.u{kind[1:]}.u32 {r}, %t;\n" if kind != "u32" else f"  mov.u32 {r}, %t;\n" for r in registers)
    used = "".join(
        f"  st.global.{kind} [%o+{i * int(kind[1:]) // 8 * threads * blocks}], {r};\n" for i, r in enumerate(registers)
    )
    size = int(kind[1:]) // 8
    ptx = HEADER + (
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
        "  .reg .b64 %a, %o, %d;\n  .reg .b32 %t, %b, %n;\n"
        f"  .reg .u{max(16, int(kind[1:]))} {', '.join(registers)};\n"
        "  ld.param.u64 %a, [in];\n  ld.param.u64 %o, [out];\n"
        "  cvta.to.global.u64 %a, %a;\n  cvta.to.global.u64 %o, %o;\n"
        "  mov.u32 %t, %tid.x;\n  mov.u32 %b, %ctaid.x;\n  mov.u32 %n, %ntid.x;\n  mad.lo.u32 %t, %b, %n, %t;\n"
        f"  mul.wide.u32 %d, %t, {stride};\n  add.u64 %a, %a, %d;\n"
        f"  mul.wide.u32 %d, %t, {size};\n  add.u64 %o, %o, %d;\n"
        + (made + "  " + access + "\n" if is_store else "  " + access + "\n" + used)
        + "  ret;\n}\n"
    )
    total = threads * blocks
    memory = np.zeros(stride * total + offset + count * size + 16, np.uint8)
    out = np.zeros(count * size * total, np.uint8)
    name = f"{'store' if is_store else 'load'} {kind}x{count} stride {stride} offset {offset} threads {threads}"
    return Case(name, ptx, "k", (blocks,), (threads,), (memory, out))


def shared_pattern(kind: str, count: int, store_stride: int, load_stride: int, threads: int = 64) -> Case:
    """Thread t stores a vector at store_stride * t of shared memory and loads one at load_stride * t."""
    size = int(kind[1:]) // 8
    registers = [f"%v{i}" for i in range(count)]
    operand = registers[0] if count == 1 else "{" + ", ".join(registers) + "}"
    vector = "" if count == 1 else f".v{count}"
    need = max(store_stride, load_stride) * (threads - 1) + count * size
    made = "".join(f"  cvt.u{kind[1:]}.u32 {r}, %t;\n" if kind != "u32" else f"  mov.u32 {r}, %t;\n" for r in registers)
    used = "".join(f"  st.global.{kind} [%o+{i * size * threads}], {r};\n" for i, r in enumerate(registers))
    ptx = HEADER + (
        ".visible .entry k(.param .u64 out)\n{\n"
        f"  .shared .align 128 .b8 s[{-(-need // 128) * 128}];\n"
        "  .reg .b64 %o, %d;\n  .reg .b32 %t, %a, %c;\n"
        f"  .reg .u{max(16, int(kind[1:]))} {', '.join(registers)};\n"
        "  ld.param.u64 %o, [out];\n  cvta.to.global.u64 %o, %o;\n  mov.u32 %t, %tid.x;\n  mov.u32 %a, s;\n"
        f"  mad.lo.u32 %c, %t, {store_stride}, %a;\n{made}  st.shared{vector}.{kind} [%c], {operand};\n"
        "  bar.sync 0;\n"
        f"  mad.lo.u32 %c, %t, {load_stride}, %a;\n  ld.shared{vector}.{kind} {operand}, [%c];\n"
        f"  mul.wide.u32 %d, %t, {size};\n  add.u64 %o, %o, %d;\n{used}  ret;\n}}\n"
    )
    out = np.zeros(count * size * threads, np.uint8)
    return Case(f"shared {kind}x{count} store {store_stride} load {load_stride}", ptx, "k", (1,), (threads,), (out,))


def ldmatrix_pattern(matrices: int, pitch: int, transposed: bool = False) -> Case:
    """A warp loads 8x8 matrices whose 16-byte rows lie `pitch` bytes apart."""
    registers = [f"%v{i}" for i in range(matrices)]
    rows = 8 * matrices
    trans = ".trans" if transposed else ""
    used = "".join(f"  st.global.u32 [%o+{i * 128}], {r};\n" for i, r in enumerate(registers))
    ptx = HEADER + (
        ".visible .entry k(.param .u64 out)\n{\n"
        f"  .shared .align 128 .b8 s[{-(-(pitch * (rows - 1) + 16) // 128) * 128}];\n"
        f"  .reg .b64 %o, %d;\n  .reg .b32 %t, %a, %c, %r, {', '.join(registers)};\n"
        "  ld.param.u64 %o, [out];\n  cvta.to.global.u64 %o, %o;\n  mov.u32 %t, %tid.x;\n  mov.u32 %a, s;\n"
        f"  rem.u32 %r, %t, {rows};\n  mad.lo.u32 %c, %r, {pitch}, %a;\n"
        "  st.shared.v4.u32 [%c], {%t, %t, %t, %t};\n  bar.sync 0;\n"
        f"  ldmatrix.sync.aligned.m8n8.x{matrices}{trans}.shared.b16 {{{', '.join(registers)}}}, [%c];\n"
        f"  mul.wide.u32 %d, %t, 4;\n  add.u64 %o, %o, %d;\n{used}  ret;\n}}\n"
    )
    name = f"ldmatrix x{matrices}{trans} pitch {pitch}"
    return Case(name, ptx, "k", (1,), (32,), (np.zeros(128 * matrices, np.uint8),))


def async_copy_pattern(size: int, a_row: int, pitch: int, shared_pitch: int, swap: int = 0) -> Case:
    """Threads copy `size` bytes each to shared memory: `a_row` neighbours a row, rows `pitch` bytes apart, in shared
    memory `shared_pitch`. Chunk c of row r goes to place c ^ (r / `swap` mod `a_row`) there, if `swap` is not 0."""
    threads = 128
    rows = threads // a_row
    cache = "cg" if size == 16 else "ca"
    swapped = (
        f"  div.u32 %x, %r, {swap};\n  rem.u32 %x, %x, {a_row};\n  xor.b32 %x, %x, %c;\n"
        if swap
        else "  mov.u32 %x, %c;\n"
    )
    ptx = HEADER + (
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
        f"  .shared .align 128 .b8 s[{-(-(rows * shared_pitch) // 128) * 128}];\n"
        "  .reg .b64 %i, %o, %d;\n  .reg .b32 %t, %r, %c, %a, %x, %v;\n"
        "  ld.param.u64 %i, [in];\n  ld.param.u64 %o, [out];\n"
        "  cvta.to.global.u64 %i, %i;\n  cvta.to.global.u64 %o, %o;\n"
        f"  mov.u32 %t, %tid.x;\n  mov.u32 %a, s;\n  div.u32 %r, %t, {a_row};\n  rem.u32 %c, %t, {a_row};\n"
        f"  mul.wide.u32 %d, %r, {pitch};\n  add.u64 %i, %i, %d;\n"
        f"  mul.wide.u32 %d, %c, {size};\n  add.u64 %i, %i, %d;\n"
        f"{swapped}  mad.lo.u32 %a, %r, {shared_pitch}, %a;\n  mad.lo.u32 %a, %x, {size}, %a;\n"
        f"  cp.async.{cache}.shared.global [%a], [%i], {size};\n  cp.async.wait_all;\n  bar.sync 0;\n"
        "  ld.shared.u32 %v, [%a];\n"
        "  mul.wide.u32 %d, %t, 4;\n  add.u64 %o, %o, %d;\n  st.global.u32 [%o], %v;\n  ret;\n}\n"
    )
    memory, out = np.zeros(rows * pitch + size, np.uint8), np.zeros(4 * threads, np.uint8)
    name = f"async copy {size} rows of {a_row} pitch {pitch} to {shared_pitch} swap {swap}"
    return Case(name, ptx, "k", (1,), (threads,), (memory, out))


def nvcc(file: str, entry: str, grid: tuple[int, ...], block: tuple[int, ...], *args: np.ndarray | np.generic) -> Case:
    return Case(f"nvcc {entry}", (FOLDER / f"cuda/{file}.ptx").read_text(), entry, grid, block, args)


def triton(name: str, grid: tuple[int, ...], *args: np.ndarray | np.generic) -> Case:
    # The version that Triton writes is newer than some drivers, and newer than the kernels need.
    ptx = re.sub(r"\.version \S+", ".version 8.0", (FOLDER / f"triton/{name}.ptx").read_text())
    first = ptx.splitlines()[0].split()  # "// 4 warps, 256 bytes of shared memory"
    # Triton's kernels take two pointers more than they declare, for scratch memory.
    return Case(
        f"triton {name}", ptx, name, grid, (32 * int(first[1]),), (*args, None, None), shared_bytes=int(first[3])
    )


def cases() -> list[Case]:
    random = np.random.default_rng(1)
    i32 = np.int32

    def floats(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, np.float32)

    def halves(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, np.float32).astype(np.float16).view(np.uint16)

    def out(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.float32)

    rows, cols = 67, 95
    return [
        global_pattern("ld.global.u32", 4, 0),
        global_pattern("ld.global.u32", 4, 4),
        global_pattern("ld.global.u32", 8, 0),
        global_pattern("ld.global.u32", 16, 0),
        global_pattern("ld.global.u32", 36, 0),
        global_pattern("ld.global.u32", 128, 0),
        global_pattern("ld.global.u32", 0, 0),
        global_pattern("ld.global.u32", 4, 0, threads=21),
        global_pattern("ld.global.u16", 2, 0),
        global_pattern("ld.global.u16", 2, 2),
        global_pattern("ld.global.u64", 8, 0),
        global_pattern("ld.global.v4.u32/4", 16, 0),
        global_pattern("ld.global.v4.u32/4", 16, 16),
        global_pattern("ld.global.v2.u64/2", 32, 0),
        global_pattern("ld.global.v4.u32/4", 48, 0),
        global_pattern("st.global.u32", 4, 0),
        global_pattern("st.global.u32", 4, 8),
        global_pattern("st.global.u32", 32, 0),
        global_pattern("st.global.u16", 2, 0),
        global_pattern("st.global.u16", 6, 0),
        global_pattern("st.global.v4.u32/4", 16, 0),
        global_pattern("st.global.v4.u32/4", 64, 0),
        shared_pattern("u32", 1, 4, 4),
        shared_pattern("u32", 1, 8, 12),
        shared_pattern("u32", 1, 128, 132),
        shared_pattern("u32", 1, 16, 0),
        shared_pattern("u16", 1, 2, 4),
        shared_pattern("u16", 1, 64, 6),
        shared_pattern("u64", 1, 8, 16),
        shared_pattern("u64", 1, 24, 256),
        shared_pattern("u32", 2, 8, 24),
        shared_pattern("u32", 4, 16, 32),
        shared_pattern("u32", 4, 48, 64),
        shared_pattern("u32", 4, 80, 128),
        *[ldmatrix_pattern(4, pitch) for pitch in (16, 32, 64, 80, 128, 144)],
        ldmatrix_pattern(4, 128, transposed=True),
        ldmatrix_pattern(2, 32),
        ldmatrix_pattern(1, 64),
        async_copy_pattern(16, 32, 512, 512),
        async_copy_pattern(16, 4, 64, 64),
        async_copy_pattern(16, 4, 192, 80),
        async_copy_pattern(16, 4, 256, 64),
        async_copy_pattern(16, 4, 256, 64, swap=2),
        async_copy_pattern(16, 8, 256, 128),
        async_copy_pattern(16, 8, 256, 128, swap=1),
        async_copy_pattern(16, 1, 128, 128),
        async_copy_pattern(8, 8, 256, 64),
        async_copy_pattern(4, 32, 128, 128),
        async_copy_pattern(4, 8, 256, 132),
        *[
            nvcc(
                "memory",
                f"transpose_{kind}",
                (3, 3),
                (32, 8),
                floats(rows, cols),
                out(cols, rows),
                i32(rows),
                i32(cols),
            )
            for kind in ("padded", "conflicting", "swizzled")
        ],
        nvcc("memory", "copy_vector4", (3,), (128,), floats(1000, 4), out(1000, 4), i32(1000)),
        nvcc(
            "memory",
            "gather",
            (4,),
            (256,),
            floats(500).astype(np.float64),
            random.integers(0, 500, 1000),
            np.zeros(1000),
            i32(1000),
        ),
        nvcc("memory", "stencil_1d", (3,), (256,), floats(700), out(700), i32(700)),
        nvcc("memory", "stencil_2d", (2, 6), (32, 4), floats(21, 45), out(21, 45), i32(21), i32(45)),
        nvcc(
            "matrix",
            "gemm_shared",
            (4, 3),
            (16, 16),
            floats(45, 50),
            floats(50, 60),
            out(45, 60),
            i32(45),
            i32(60),
            i32(50),
        ),
        nvcc(
            "matrix",
            "gemm_mma",
            (2, 2),
            (128,),
            halves(128, 96),
            halves(128, 96),
            out(128, 128),
            i32(128),
            i32(128),
            i32(96),
        ),
        triton("vector_add", (2,), floats(1500), floats(1500), out(1500), i32(1500)),
        triton("softmax", (3,), floats(3, 700), out(3, 700), i32(700)),
        triton("matmul", (2, 2), halves(70, 72), halves(72, 100), out(70, 100), i32(70), i32(100), i32(72)),
        triton("transpose", (2, 3), halves(45, 72), halves(72, 45), i32(45), i32(72)),
        triton("attention", (2, 2), *[halves(2, 128, 32) for _ in range(4)], i32(128), np.float32(0.17677669)),
        triton("arg_max_rows", (5,), floats(5, 345), out(5), np.zeros(5, i32), i32(345)),
    ]
