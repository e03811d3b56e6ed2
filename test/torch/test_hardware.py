"""The simulator against what an H200 gave, kept as data (test/core/simulator/hardware)."""

import importlib.util
import json
import pathlib
import sys
from types import ModuleType

import numpy as np
import pytest
import tilewright

FOLDER = pathlib.Path(__file__).parents[1] / "core/simulator/hardware"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"hardware_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded  # dataclasses look their module up
    spec.loader.exec_module(loaded)
    return loaded


cases, matrix_products, special_values = map(module, ("cases", "matrix_products", "special_values"))


@pytest.mark.parametrize("how", matrix_products.DRAWS)
@pytest.mark.parametrize("name", matrix_products.PRODUCTS)
def test_matrix_products_to_the_bit(name: str, how: str):
    product = matrix_products.PRODUCTS[name]
    expected = np.load(FOLDER / "matrix_products.npz")[f"{name} {how}"]
    a, b, c = (fragments[: matrix_products.KEPT] for fragments in matrix_products.draw(product, how))
    d = np.zeros_like(c)
    tilewright.simulate(matrix_products.ptx(product), a, b, c, d, grid=len(d), block=32)
    assert np.array_equal(d, expected), f"{(d != expected).sum()} of {d.size} registers differ"


@pytest.mark.parametrize("operation", special_values.operations(), ids=lambda op: op.opcode)
def test_special_values(operation):
    """To the bit; the approximations' finite results within 2^-16 of themselves."""
    expected = np.load(FOLDER / "special_values.npz")[operation.opcode]
    values = special_values.arguments(operation)
    tilewright.simulate(special_values.ptx(operation), *values, grid=len(values[-1]) // 32, block=32)
    same = values[-1] == expected
    if "approx" in operation.opcode or "full" in operation.opcode:
        got, right = values[-1].view(np.float32), expected.view(np.float32)
        same |= np.isfinite(right) & (right != 0) & np.isclose(got, right, rtol=2**-16, atol=0)
    operands = [[hex(v[i]) for v in values] + [hex(expected[i])] for i in np.flatnonzero(~same)[:5]]
    assert same.all(), f"operands, simulated, on the GPU: {operands}"


COUNTERS = json.loads((FOLDER / "counters.json").read_text())["counters"]


@pytest.mark.parametrize("case", cases.cases(), ids=lambda case: case.name)
def test_memory_counters(case):
    """Requests and sectors of global memory, passes over the banks of shared memory."""
    measured = COUNTERS[case.name]
    args = [cases.aligned(a) if isinstance(a, np.ndarray) else a for a in case.args]
    report = tilewright.simulate(
        case.ptx, *args, grid=case.grid, block=case.block, entry=case.entry, shared_bytes=case.shared_bytes
    )
    memory = report.counters["memory"]
    load, store = memory["global_load"], memory["global_store"]
    assert load["requests"] == measured["global_load_requests"]
    assert store["requests"] == measured["global_store_requests"]
    assert store["sectors"] == measured["global_store_sectors"]
    copies = memory["shared_store"]["passes"] - measured["shared_store_wavefronts"]
    if case.name.startswith("async copy 4 "):  # split sectors: 30 passes here, 28 on the GPU
        assert copies == pytest.approx(measured["async_copy_wavefronts"], rel=0.08)
    else:
        assert copies == measured["async_copy_wavefronts"]
    if (
        measured["async_copy_instructions"] == 0
        or memory["shared_store"]["passes"] == memory["shared_store"]["ideal_passes"]
    ):
        assert load["sectors"] == measured["global_load_sectors"]
    else:  # a sector that goes to two sectors of shared memory is counted again
        assert load["sectors"] <= measured["global_load_sectors"]
    loads = memory["shared_load"]
    wavefronts = measured["shared_load_wavefronts"] + measured["ldmatrix_wavefronts"]
    if loads["requests"] == measured["shared_load_instructions"] + measured["ldmatrix_instructions"]:
        assert loads["passes"] == wavefronts
    else:  # the assembler has made vectors of single loads
        assert case.name == "nvcc gemm_shared"
        assert loads["passes"] > wavefronts
