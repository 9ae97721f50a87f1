"""Functions are as exact over their whole range as the tolerances say, near 0 and for large numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.backends import BACKENDS, cases, get, put
from tests.backend.laws import Array, assert_means
from tests.backend.scalars import SCALARS

from einloom.backend.catalogue import CATALOGUE, infer
from einloom.backend.dtypes import real_of
from einloom.backend.spec import ArraySpec, compute_dtype, dtype_from_name

COUNT = 160
LARGEST = {  # exponents of two: beyond them results leave the range of float32
    **dict.fromkeys(("exp", "expm1", "sinh", "cosh"), 6),
    **dict.fromkeys(("sin", "cos", "tan"), 8),
    "power": 4,
}
SMALLEST = {"power": -4, "divide": -8, "remainder": -4}  # exponents of two


def spread(rng: np.random.Generator, op: str, dtype: Any) -> Array:
    """Numbers of both signs and of every magnitude in the range of an op."""
    real = real_of(dtype)
    half = compute_dtype(real) != real
    low, high = SMALLEST.get(op, -12 if half else -40), LARGEST.get(op, 8 if half else 30)
    if dtype.kind == "c":
        low, high = max(low, -30), min(high, 3)

    def part() -> Array:
        size = np.exp2(rng.uniform(low, high, COUNT)).astype(np.longdouble)
        size = size * (1 + rng.random(COUNT) * np.longdouble(2) ** -53)
        return np.asarray((size * rng.choice([-1, 1], COUNT)).astype(real))

    if dtype.kind != "c":
        return part()
    x = np.empty(COUNT, dtype)
    x.real, x.imag = part(), part()
    return x


OPS = [
    op
    for op, row in CATALOGUE.items()
    if row.group == "elementwise" and row.dtypes & {"float", "complex"} and op in SCALARS
]
INEXACT = ("float16", "bfloat16", "float32", "float64", "longdouble", "complex64", "complex128",
           "clongdouble")  # fmt: skip


@pytest.mark.parametrize(
    ("backend", "op", "name"),
    [case for case in cases(OPS) if case[2] in INEXACT and case[1] != "select"],
)
def test_range(backend: str, op: str, name: str, rng: np.random.Generator) -> None:
    dtype = dtype_from_name(name)
    arrays = [spread(rng, op, dtype) for _ in CATALOGUE[op].operands]
    if op in ("asin", "acos") and dtype.kind != "c":
        arrays = [np.asarray(np.clip(x, -1, 1), dtype) for x in arrays]
    if op == "power" and dtype.kind != "c":
        arrays[0] = abs(arrays[0])
    outputs = infer(op, {}, tuple(ArraySpec(x.dtype, x.shape) for x in arrays))
    got = get(backend, BACKENDS[backend].apply(op, {}, *put(backend, *arrays)))
    assert_means(got, op, {}, arrays, outputs)
