"""Triton kernels for the simulator's tests. `python regenerate.py` compiles them to PTX; no GPU is needed."""

import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask) + tl.load(y + i, mask), mask)


@triton.jit
def softmax(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < cols
    v = tl.load(x + row * cols + i, mask, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * cols + i, e / tl.sum(e, 0), mask)


@triton.jit
def layer_norm(x, weight, bias, out, mean_out, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < cols
    v = tl.load(x + row * cols + i, mask, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / cols
    d = tl.where(mask, v - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(d * d, 0) / cols + eps)
    y = d * rstd * tl.load(weight + i, mask) + tl.load(bias + i, mask)
    tl.store(out + row * cols + i, y.to(tl.float16), mask)
    tl.store(mean_out + row, mean)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        ka = k + rk
        x = tl.load(a + rm[:, None] * K + ka[None, :], (rm[:, None] < M) & (ka[None, :] < K), other=0.0)
        y = tl.load(b + ka[:, None] * N + rn[None, :], (ka[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc, (rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def attention(q, k, v, out, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    base = tl.program_id(1) * length * D
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    x = tl.load(q + base + rm[:, None] * D + rd[None, :])
    most = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for n in range(0, length, BN):
        rn = n + tl.arange(0, BN)
        kk = tl.load(k + base + rn[None, :] * D + rd[:, None])
        s = tl.dot(x, kk) * scale
        s = tl.where(rm[:, None] >= rn[None, :], s, -float("inf"))
        new = tl.maximum(most, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        factor = tl.exp(most - new)
        total = total * factor + tl.sum(p, 1)
        vv = tl.load(v + base + rn[:, None] * D + rd[None, :])
        acc = tl.dot(p.to(vv.dtype), vv, acc * factor[:, None])
        most = new
    tl.store(out + base + rm[:, None] * D + rd[None, :], (acc / total[:, None]).to(out.dtype.element_ty))


@triton.jit
def histogram(x, bins, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x + i, i < n, other=0), BINS, mask=i < n)
    tl.atomic_add(bins + tl.arange(0, BINS), counts)


@triton.jit
def combine(a, b):
    return a + b


@triton.jit
def scan_rows(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + i, i < cols, other=0)
    tl.store(out + row * cols + i, tl.associative_scan(v, 0, combine), i < cols)


@triton.jit
def transpose(x, out, rows, cols, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + r[:, None] * cols + c[None, :], (r[:, None] < rows) & (c[None, :] < cols))
    tl.store(out + c[:, None] * rows + r[None, :], tl.trans(v), (c[:, None] < cols) & (r[None, :] < rows))


@triton.jit
def arg_max_rows(x, value, index, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + i, i < cols, other=-float("inf"))
    best, at = tl.max(v, 0, return_indices=True)
    tl.store(value + row, best)
    tl.store(index + row, at)


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, i) > p
    v = tl.load(x + i, i < n)
    tl.store(out + i, tl.where(keep, v / (1 - p), 0.0), i < n)


@triton.jit
def sort_rows(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.sort(tl.load(x + i)))


@triton.jit
def gelu_erf(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n).to(tl.float32)
    tl.store(out + i, (0.5 * v * (1 + tl.math.erf(v * 0.70710678118654752440))).to(tl.bfloat16), i < n)


@triton.jit
def matmul_int8(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.int32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        y = tl.load(b + rn[None, :] * K + (k + rk)[:, None])
        acc = tl.dot(x, y, acc)
    N = BN * tl.num_programs(1)
    tl.store(c + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def matmul_fp8(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        y = tl.load(b + rn[None, :] * K + (k + rk)[:, None])
        acc = tl.dot(x, y, acc)
    N = BN * tl.num_programs(1)
    tl.store(c + rm[:, None] * N + rn[None, :], acc)
