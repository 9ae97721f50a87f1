"""At NaN, infinity, zeros of both signs, subnormals and the ends of integers ops do what is documented.

Real functions are compared with their definitions at every special number, on every path of a kernel;
where a sign of zero or an infinity of a complex number matters, a table says what comes out.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.backend import scalars
from tests.backend.backends import BACKENDS, PATHS, cases, dtypes_of, get, path, put
from tests.backend.laws import Array, assert_near
from tests.backend.scalars import bounds
from tests.each import each
from tests.tolerance import smallest

from einloom.backend.catalogue import CATALOGUE, infer
from einloom.backend.dtypes import class_of
from einloom.backend.spec import ArraySpec, dtype_from_name

INF, NAN = float("inf"), float("nan")
ELEMENTWISE = [op for op in scalars.SCALARS if CATALOGUE[op].view == "never"]


def special(dtype: np.dtype) -> list[Any]:
    """Numbers of a dtype at which ops have rules of their own."""
    kind = class_of(dtype)
    if kind == "bool":
        return [False, True]
    if kind in ("int", "uint"):
        low, high = bounds(dtype)
        small = [n for n in (-3, -2, -1, 0, 1, 2, 3, 7) if n >= low]
        return sorted({low, low + 1, *small, high - 1, high, high // 2 + 1})
    if kind == "storage":
        return [0, 1, 2, 3]
    least = max(float(smallest(dtype)), smallest("float64"))
    signed = (0.0, 1.0, 0.5, 1.5, 2.5, 3.0, INF, least, least / 4)
    return [sign * x for x in signed for sign in (1, -1)] + [NAN]


def every(dtypes: list[np.dtype]) -> list[Array]:
    """Arrays that together hold every combination of special numbers."""
    rows = list(product(*(special(dtype) for dtype in dtypes)))
    return [filled([row[k] for row in rows], dtype) for k, dtype in enumerate(dtypes)]


def filled(numbers: list[Any], dtype: np.dtype) -> Array:
    if dtype.kind in "iu":
        return np.array(numbers, dtype)
    return np.array(numbers).astype(dtype)


def run(backend: str, op: str, *arrays: Array) -> Any:
    return get(backend, BACKENDS[backend].apply(op, {}, *put(backend, *arrays)))


REAL = [case for case in cases(ELEMENTWISE) if class_of(dtype_from_name(case[2])) in
        ("bool", "int", "uint", "float")]  # fmt: skip


@each(("backend", "op", "name"), REAL)
def test_all_combinations(backend: str, op: str, name: str) -> None:
    """Of special numbers; where the definition has a zero, its sign is right too."""
    dtype = dtype_from_name(name)
    row = CATALOGUE[op]
    arrays = every([np.dtype(bool) if apart else dtype for apart in row.classes])
    specs = tuple(ArraySpec(x.dtype, x.shape) for x in arrays)
    (output,) = infer(op, {}, specs)
    want = scalars.apply(op, arrays, output.dtype)
    for how in PATHS:
        with path(how):
            got = run(backend, op, *arrays)
        for at in np.flatnonzero(differ(got, want, op, arrays)):
            given = [x[at] for x in arrays]
            raise AssertionError(f"{op}{tuple(given)} ({how}) is {got[at]}, not {want[at]}")


def differ(got: Array, want: Array, op: str, arrays: list[Array]) -> Array:
    """Where results are not what they should be."""

    def wrong(here: slice) -> bool:
        try:
            assert_near(got[here], want[here], op, {}, [x[here] for x in arrays])
        except AssertionError:
            return True
        return False

    bad = np.zeros(len(want), bool)
    if wrong(slice(None)):
        bad[:] = [wrong(slice(k, k + 1)) for k in range(len(want))]
    if op not in ANY_ZERO and class_of(want.dtype) == "float":
        bad |= (want == 0) & (np.signbit(got) != np.signbit(want))
    return bad


ANY_ZERO = ("maximum", "minimum", "clamp", "power", "sign", "remainder")
"""Ops whose zeros may have either sign; those of the others have that of IEEE 754 and C."""


# ---- complex ------------------------------------------------------------------------------------

Z = complex
COMPLEX: list[tuple[str, list[complex], complex]] = [
    ("sign", [Z(0, 0)], Z(0, 0)),
    ("sign", [Z(3, 4)], Z(0.6, 0.8)),
    ("sqrt", [Z(-4, 0.0)], Z(0, 2)),  # above the cut, and on it
    ("sqrt", [Z(-4, -0.0)], Z(0, -2)),
    ("sqrt", [Z(0, 0)], Z(0, 0)),
    ("log", [Z(-1, 0.0)], Z(0, np.pi)),
    ("log", [Z(-1, -0.0)], Z(0, -np.pi)),
    ("log", [Z(0, 1)], Z(0, np.pi / 2)),
    ("exp", [Z(0, np.pi)], Z(-1, 0)),
    ("exp", [Z(-INF, 1)], Z(0, 0)),
    ("log1p", [Z(0, 0)], Z(0, 0)),
    ("expm1", [Z(0, 0)], Z(0, 0)),
    ("asin", [Z(0, 0)], Z(0, 0)),
    ("acos", [Z(1, 0.0)], Z(0, 0)),
    ("atan", [Z(0, 0)], Z(0, 0)),
    ("power", [Z(0, 0), Z(0, 0)], Z(1, 0)),
    ("power", [Z(2, 0), Z(3, 0)], Z(8, 0)),
    ("power", [Z(0, 1), Z(2, 0)], Z(-1, 0)),
    ("power", [Z(0, 0), Z(2, 0)], Z(0, 0)),
    ("conj", [Z(1, -2)], Z(1, 2)),
    ("negate", [Z(1, -2)], Z(-1, 2)),
    ("reciprocal", [Z(0, 2)], Z(0, -0.5)),
    ("divide", [Z(1, 1), Z(0, 1)], Z(1, -1)),
]


@pytest.mark.parametrize("name", ["complex64", "complex128", "clongdouble"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_complex(backend: str, name: str) -> None:
    dtype = np.dtype(name)
    for op, given, want in COMPLEX:
        if name not in dtypes_of(backend, op):
            continue
        arrays = [np.full((3,), x, dtype) for x in given]
        for how in PATHS:
            with path(how):
                got = run(backend, op, *arrays)
            np.testing.assert_allclose(
                got, want, rtol=1e-6, atol=4 * float(np.finfo(np.float32).eps), err_msg=op
            )


@pytest.mark.parametrize("op", ["absolute", "real", "imag", "equal", "not_equal"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_complex_nan_and_infinity(backend: str, op: str) -> None:
    """A modulus is infinite if a part is; NaN equals nothing, not itself either."""
    x = np.array([Z(INF, NAN), Z(NAN, 1), Z(3, -4), Z(-INF, 0)])
    want: dict[str, list[Any]] = {
        "absolute": [INF, NAN, 5.0, INF],
        "real": [INF, NAN, 3.0, -INF],
        "imag": [NAN, 1.0, -4.0, 0.0],
        "equal": [False, False, True, True],
        "not_equal": [True, True, False, False],
    }
    arrays = [x] * len(CATALOGUE[op].operands)
    for how in PATHS:
        with path(how):
            np.testing.assert_array_equal(run(backend, op, *arrays), want[op])


# ---- in place, and silence ----------------------------------------------------------------------


KEEPING = [
    case
    for case in cases(op for op in ELEMENTWISE if CATALOGUE[op].results == ("same",))
    if case[2] != "object" and case[1] != "select"
]


@each(("backend", "op", "name"), KEEPING)
def test_in_place(backend: str, op: str, name: str, rng: np.random.Generator) -> None:
    """`out` may be the very operand; the values are those of a fresh `out`."""
    row, dtype = CATALOGUE[op], dtype_from_name(name)
    if dtype.kind == "c":
        drawn = np.exp(1j * rng.uniform(0, 6, 30)).astype(dtype)
    else:
        drawn = filled(special(dtype) * 2, dtype)
    arrays = [rng.permutation(drawn) for _ in row.operands]
    want = run(backend, op, *arrays)
    for how in PATHS:
        for position in range(len(arrays)):
            given = put(backend, *(x.copy() for x in arrays))
            with path(how):
                BACKENDS[backend].apply(op, {}, *given, out=given[position])
            got = get(backend, given[position])
            assert got.tobytes() == want.tobytes() or np.array_equal(got, want, equal_nan=True)
