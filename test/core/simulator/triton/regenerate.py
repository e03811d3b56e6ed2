"""Writes the PTX of kernels.py beside it, with what a launch needs in the first line. Needs `pip install triton`."""

import pathlib
import re

import kernels
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HERE = pathlib.Path(__file__).parent

# kernel: (types of its arguments, constants, capability, warps)
KERNELS = {
    "vector_add": ("*fp32 *fp32 *fp32 i32", {"BLOCK": 1024}, 80, 4),
    "softmax": ("*fp32 *fp32 i32", {"BLOCK": 1024}, 90, 8),
    "layer_norm": ("*fp16 *fp32 *fp32 *fp16 *fp32 i32 fp32", {"BLOCK": 512}, 80, 4),
    "matmul": ("*bf16 *bf16 *fp32 i32 i32 i32", {"BM": 64, "BN": 64, "BK": 32}, 80, 4),
    "attention": ("*fp16 *fp16 *fp16 *fp16 i32 fp32", {"BM": 64, "BN": 32, "D": 32}, 80, 4),
    "histogram": ("*i32 *i32 i32", {"BINS": 64, "BLOCK": 512}, 90, 4),
    "scan_rows": ("*i32 *i32 i32", {"BLOCK": 512}, 80, 4),
    "transpose": ("*fp16 *fp16 i32 i32", {"B": 32}, 90, 4),
    "arg_max_rows": ("*fp32 *fp32 *i32 i32", {"BLOCK": 512}, 80, 4),
    "dropout": ("*fp32 *fp32 i32 fp32 i32", {"BLOCK": 512}, 90, 4),
    "sort_rows": ("*i32 *i32", {"BLOCK": 256}, 80, 2),
    "gelu_erf": ("*bf16 *bf16 i32", {"BLOCK": 512}, 90, 4),
    "matmul_int8": ("*i8 *i8 *i32 i32", {"BM": 32, "BN": 32, "BK": 64}, 80, 2),
    "matmul_fp8": ("*fp8e4nv *fp8e4nv *fp32 i32", {"BM": 32, "BN": 32, "BK": 64}, 89, 2),
}

for name, (types, constants, capability, warps) in KERNELS.items():
    fn = getattr(kernels, name)
    signature = dict(zip(fn.arg_names, types.split(), strict=False)) | dict.fromkeys(constants, "constexpr")
    attributes = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(types.split()) if t[0] == "*"}
    source = ASTSource(fn=fn, signature=signature, constexprs=constants, attrs=attributes)
    kernel = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps})
    ptx = re.sub(r"\s*//.*|^\s*\.section[^{]*\{[^}]*\}", "", kernel.asm["ptx"], flags=re.MULTILINE)
    ptx = re.sub(r"^\s*(\.loc|\.file|\$L__(tmp|func)\w*:).*\n", "", ptx, flags=re.MULTILINE)
    shared = kernel.metadata.shared
    (HERE / f"{name}.ptx").write_text(f"// {warps} warps, {shared} bytes of shared memory\n{ptx.strip()}\n")
