"""The simulator against what an H200 gave, kept as data (test/core/simulator/hardware)."""

import importlib.util
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
