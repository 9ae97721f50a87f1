"""Numbers that are known beforehand: wide accumulation, saturation, NaN, rounding, padding."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import BACKENDS, PATHS, get, path, put

from einloom._base.errors import ProgramError
from einloom.backend.spec import dtype_from_name

INF, NAN = float("inf"), float("nan")
PAIRS = [(backend, how) for backend in BACKENDS for how in ("as shipped", "kernels forced")]
each = pytest.mark.parametrize(("backend", "how"), PAIRS)
every_path = pytest.mark.parametrize(
    ("backend", "how"), [(b, how) for b in BACKENDS for how in PATHS]
)
Array = np.ndarray[Any, Any]


def run(backend: str, how: str, op: str, attrs: dict[str, Any], *arrays: Array) -> Any:
    with path(how):
        return get(backend, BACKENDS[backend].apply(op, attrs, *put(backend, *arrays)))


def array(values: Any, name: str) -> Array:
    return np.asarray(values).astype(dtype_from_name(name))


# ---- sums are accumulated wide --------------------------------------------------------------------

N = 1 << 25


@every_path
@pytest.mark.parametrize(
    ("shape", "axes", "order"),
    [
        ((N,), (0,), "C"),
        ((2, N // 2), (1,), "C"),
        ((2, N // 2), (1,), "F"),
        ((N // 2, 2), (0,), "C"),
        ((N // 2, 2), (0, 1), "C"),
        ((4, N // 16, 4), (1,), "C"),
        ((4, N // 16, 4), (0, 2, 1), "C"),
        ((1 << 12, 1 << 13), (0, 1), "F"),
    ],
    ids=str,
)
def test_ones(backend: str, how: str, shape: Any, axes: Any, order: str) -> None:
    """2**25 float32 ones: one accumulator of float32 would stop at 2**24."""
    count = int(np.prod([shape[axis] for axis in axes]))
    ones = np.broadcast_to(np.float32(1), shape)
    for x in (ones, np.ones(shape, np.float32, order)) if how == "as shipped" else (ones,):
        for op, want in (("reduce_sum", count), ("reduce_mean", 1)):
            got = run(backend, how, op, {"axes": axes}, x)
            assert got.dtype == np.float32
            np.testing.assert_array_equal(got, want)


@each
@pytest.mark.parametrize(
    ("name", "count"), [("float16", 4096), ("bfloat16", 512), ("float16", 65504), ("int8", 300)]
)
@pytest.mark.parametrize("axis", [0, 1])
def test_short_ones(backend: str, how: str, name: str, count: int, axis: int) -> None:
    """Half precisions add in float32; integers wrap."""
    ones = array(np.ones((count, 3) if axis == 0 else (3, count)), name)
    want = array(np.full(3, count), "int64").astype(ones.dtype)
    np.testing.assert_array_equal(
        run(backend, how, "reduce_sum", {"axes": (axis,)}, ones).astype("f8"), want.astype("f8")
    )
    if name != "int8":
        mean = run(backend, how, "reduce_mean", {"axes": (axis,)}, ones)
        np.testing.assert_array_equal(mean.astype("f8"), 1)


@each
def test_means_do_not_overflow(backend: str, how: str) -> None:
    """The sum of these is beyond the dtype, their mean is not."""
    for name, value in (("float16", 60000.0), ("float32", 3e38)):
        x = array(np.full((4, 8), value), name)
        for axes in ((0,), (1,), (0, 1)):
            got = run(backend, how, "reduce_mean", {"axes": axes}, x)
            np.testing.assert_array_equal(got, x[0, 0])


@each
def test_dots_accumulate_half_precisions_wide(backend: str, how: str) -> None:
    for name, count in (("float16", 4096), ("bfloat16", 512)):
        x = array(np.ones((2, count)), name)
        got = run(backend, how, "matmul", {}, x, x.T)
        np.testing.assert_array_equal(got.astype("f8"), count)


# ---- conversions saturate -------------------------------------------------------------------------

CASTS: list[tuple[str, list[Any], str, list[Any]]] = [
    ("float64", [300.0, -5.0, 255.9, 255.0, NAN, INF, -INF], "uint8", [255, 0, 255, 255, 0, 255, 0]),
    ("float32", [300.0, -5.0, NAN, -0.9], "uint8", [255, 0, 0, 0]),
    ("float64", [127.5, 128.0, -128.9, -129.0, 1e300], "int8", [127, 127, -128, -128, 127]),
    ("float32", [INF, -INF, NAN, 2.0**31, -(2.0**31)], "int32",
     [2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31)]),
    ("float64", [2.0**63, -(2.0**63), 2.0**63 - 1024, INF, 1e19], "int64",
     [2**63 - 1, -(2**63), 2**63 - 1024, 2**63 - 1, 2**63 - 1]),
    ("float32", [2.0**63, 2.0**64], "int64", [2**63 - 1, 2**63 - 1]),
    ("float64", [2.0**64, 2.0**63, -1.0, NAN], "uint64", [2**64 - 1, 2**63, 0, 0]),
    ("float16", [65504.0, INF, -INF, NAN], "int16", [32767, 32767, -32768, 0]),
    ("float16", [65504.0, INF, -1.0], "uint16", [65504, 65535, 0]),
    ("bfloat16", [1e30, -1e30, NAN, 2.75], "int32", [2**31 - 1, -(2**31), 0, 2]),
    ("bfloat16", [300.0, -3.0], "uint8", [255, 0]),
    ("longdouble", [2.0**64, -(2.0**63), 1e30, NAN], "int64",
     [2**63 - 1, -(2**63), 2**63 - 1, 0]),
    ("float64", [9.0, -9.0, NAN, 3.7], "int4", [7, -8, 0, 3]),
    ("float32", [99.0, -1.0, 3.5], "uint4", [15, 0, 3]),
    ("complex128", [300 + 4j, NAN * 1j, -1.5 + 2j], "uint8", [255, 0, 0]),
    ("int64", [300, -1, 2**62], "uint8", [44, 255, 0]),
    ("int64", [-1, 2**31], "int32", [-1, -(2**31)]),
    ("uint64", [2**64 - 1, 2**63], "int64", [-1, -(2**63)]),
    ("int32", [9, -9, 17], "int4", [-7, 7, 1]),
    ("int16", [0, -1, 256], "bool", [False, True, True]),
    ("float64", [0.0, -0.0, NAN, 1e-300, INF], "bool", [False, False, True, True, True]),
    ("complex64", [0j, 1j, -1], "bool", [False, True, True]),
    ("bool", [True, False], "float32", [1.0, 0.0]),
    ("bool", [True, False], "complex64", [1, 0]),
    ("complex128", [1 + 2j, -3j], "float64", [1.0, 0.0]),
    ("complex128", [1e300 + 1j], "float32", [INF]),
    ("float64", [1e300, -1e300, NAN, 1e-300], "float32", [INF, -INF, NAN, 0.0]),
    ("float64", [65520.0, 65519.0, 1e-9], "float16", [INF, 65504.0, 0.0]),
    ("float32", [3.4e38, 1.00390625], "bfloat16", [INF, 1.0]),
    ("int64", [2**53 + 1, -(2**53) - 1], "float64", [2.0**53, -(2.0**53)]),
    ("uint64", [2**64 - 1], "float32", [2.0**64]),
    ("float32", [500.0, 1.0625, -NAN], "float8_e5m2", [512.0, 1.0, NAN]),
    ("float32", [1e6], "float8_e5m2", [INF]),
    ("float64", [1.5], "complex128", [1.5 + 0j]),
    # previously failed
    ("object", [2**70, -(2**70), INF, -INF, NAN, 2.9, -2.9, True, Fraction(7, 2), 3 + 4j], "int64",
     [2**63 - 1, -(2**63), 2**63 - 1, -(2**63), 0, 2, -2, 1, 3, 3]),
    ("object", [2**70, -1, NAN, Decimal("Infinity"), np.float32(7.5)], "uint8", [255, 0, 0, 255, 7]),
    ("object", [2**64 - 1, 2**64], "uint64", [2**64 - 1, 2**64 - 1]),
    ("object", [99, -99, NAN], "int4", [7, -8, 0]),
    ("object", [10**400, -(10**400), 3 + 4j, NAN, Fraction(1, 2)], "float64",
     [INF, -INF, 3.0, NAN, 0.5]),
    ("object", [10**400, 1e300, np.longdouble(2)], "float32", [INF, INF, 2.0]),
    ("object", [10**400, 1 + 2j, 3], "complex64", [INF, 1 + 2j, 3]),
    ("object", [0, 0.0, NAN, 10**400, 1j], "bool", [False, False, True, True, True]),
]  # fmt: skip


@each
@pytest.mark.parametrize(
    ("source", "given", "target", "want"), CASTS, ids=[f"{row[0]} to {row[2]}" for row in CASTS]
)
def test_cast(backend: str, how: str, source: str, given: Any, target: str, want: Any) -> None:
    x = (
        np.array(given, dtype=source)
        if source in ("int64", "uint64", "object")
        else array(given, source)
    )
    got = run(backend, how, "cast", {"dtype": target}, x)
    assert got.dtype == dtype_from_name(target)
    if got.dtype.kind == "V" or target.startswith("float8"):
        got = got.astype(np.float64)
    np.testing.assert_array_equal(got, np.array(want, got.dtype))


# ---- NaN, ties and order --------------------------------------------------------------------------

EXTREMES: list[tuple[str, list[Any], Any]] = [
    ("reduce_max", [1.0, NAN, 3.0], NAN),
    ("reduce_min", [1.0, NAN, -3.0], NAN),
    ("reduce_max", [NAN, NAN], NAN),
    ("reduce_max", [-INF, -INF], -INF),
    ("reduce_max", [-INF, 3.0, INF], INF),
    ("reduce_min", [INF, INF], INF),
    ("argmax", [1.0, NAN, 3.0, NAN], 1),
    ("argmin", [1.0, NAN, -3.0, NAN], 1),
    ("argmax", [1.0, 3.0, 3.0, 2.0], 1),
    ("argmin", [2.0, 1.0, 1.0, 3.0], 1),
    ("argmax", [-INF, -INF], 0),
    ("argmin", [0.0, -0.0], 0),
    ("argmax", [0.0, 0.0], 0),
]


FLOATS = ("float16", "bfloat16", "float32", "float64", "longdouble")
HOWS = [  # reductions are compiled for each dtype, which takes seconds
    (backend, how, name)
    for backend, how in PAIRS
    for name in (FLOATS if how == "as shipped" else ("float16", "float32", "longdouble"))
]


@pytest.mark.parametrize(("backend", "how", "name"), HOWS)
@pytest.mark.parametrize("layout", ["last", "first"])
def test_extremes(backend: str, how: str, name: str, layout: str) -> None:
    """NaN wins, the first of equals is found, along either axis and in every place of a long run."""
    for op, given, want in EXTREMES:
        for more in (0, 70):  # beyond the width of vector instructions
            x = array([*given, *[given[-1]] * more], name)
            rows = np.stack([x, x, x])
            axis = 1 if layout == "last" else 0
            rows = rows if layout == "last" else np.ascontiguousarray(rows.T)
            attrs = {"axis": axis} if op.startswith("arg") else {"axes": (axis,), "initial": None}
            got = run(backend, how, op, attrs, rows)
            np.testing.assert_array_equal(got.astype("f8"), want, err_msg=f"{op} {given}")


@each
def test_extremes_of_integers(backend: str, how: str) -> None:
    """Unsigned ones compare as unsigned."""
    for name in ("uint32", "uint64", "int64") if how == "as shipped" else ("uint64",):
        info = np.iinfo(name)
        x = np.array([info.max, 0, info.max // 2 + 1, info.min], name)
        for op, want in (("argmax", 0), ("argmin", 3 if info.min else 1)):
            assert run(backend, how, op, {"axis": 0}, x) == want
        attrs = {"axes": (0,), "initial": None}
        assert run(backend, how, "reduce_max", attrs, x) == info.max
        assert run(backend, how, "reduce_min", attrs, x) == info.min


@each
@pytest.mark.parametrize("name", ["bool", "int8", "uint64", "float16", "float32", "object"])
def test_empty_reductions(backend: str, how: str, name: str) -> None:
    x = array(np.ones((0, 3)), name)
    for op, want in (("reduce_sum", 0), ("reduce_prod", 1)):
        got = run(backend, how, op, {"axes": (0,)}, x)
        np.testing.assert_array_equal(got, array([want] * 3, name))
    for op in ("reduce_max", "reduce_min"):
        with pytest.raises(ProgramError, match=rf"{op}.*initial"):
            run(backend, how, op, {"axes": (0,), "initial": None}, x)
        got = run(backend, how, op, {"axes": (0,), "initial": 1}, x)
        np.testing.assert_array_equal(got, array([1] * 3, name))
        got = run(backend, how, op, {"axes": (1,), "initial": None}, x)
        assert got.shape == (0,)
    for op in ("argmax", "argmin"):
        with pytest.raises(ProgramError, match=op):
            run(backend, how, op, {"axis": 0}, x)
        assert run(backend, how, op, {"axis": 1}, x).shape == (0,)
    if name.startswith("float"):
        got = run(backend, how, "reduce_mean", {"axes": (0,)}, x)
        assert np.isnan(got.astype("f8")).all()


# ---- integers and rounding ------------------------------------------------------------------------

LOW, HIGH = -(2**31), 2**31 - 1
KNOWN: list[tuple[str, str, list[list[Any]], list[Any]]] = [
    ("divide", "int32", [[7, -7, 7, -7, LOW, 5, LOW], [2, 2, -2, -2, -1, 0, 0]],
     [3, -3, -3, 3, LOW, 0, 0]),
    ("divide", "uint64", [[2**64 - 1, 2**63, 3], [2, 2**63, 0]], [2**63 - 1, 1, 0]),
    ("remainder", "int32", [[7, -7, 7, -7, LOW, 5], [3, 3, -3, -3, -1, 0]], [1, -1, 1, -1, 0, 0]),
    ("remainder", "float64", [[7.5, -7.5, 7.5, 1.0, INF, 5.0], [2.0, 2.0, -2.0, INF, 2.0, 0.0]],
     [1.5, -1.5, 1.5, 1.0, NAN, NAN]),
    ("power", "int32", [[0, 2, 2, 2, -1, -1, 1, 2, 0, 3], [0, 31, 32, 10, -3, -4, -9, -1, -1, 20]],
     [1, LOW, 0, 1024, -1, 1, 1, 0, 0, 3**20 - 2**32 if 3**20 % 2**32 >= 2**31 else 3**20 % 2**32]),
    ("power", "uint8", [[2, 2, 3, 255], [7, 8, 5, 2]], [128, 0, 243, 1]),
    ("power", "float64", [[0.0, -8.0, -2.0, 4.0, 1.0], [0.0, 1 / 3, 3.0, -0.5, NAN]],
     [1.0, NAN, -8.0, 0.5, 1.0]),
    ("reciprocal", "int32", [[0, 1, -1, 2, LOW]], [0, 1, -1, 0, 0]),
    ("reciprocal", "uint8", [[0, 1, 255]], [0, 1, 0]),
    ("reciprocal", "float64", [[0.0, -0.0, INF, 4.0]], [INF, -INF, 0.0, 0.25]),
    ("negate", "int32", [[LOW, 5, HIGH]], [LOW, -5, -HIGH]),
    ("negate", "uint8", [[0, 1, 255]], [0, 255, 1]),
    ("absolute", "int32", [[LOW, -5, HIGH]], [LOW, 5, HIGH]),
    ("sign", "float64", [[NAN, -0.0, -3.0, INF]], [NAN, 0.0, -1.0, 1.0]),
    ("sign", "int8", [[-128, 0, 5]], [-1, 0, 1]),
    ("add", "int32", [[HIGH, LOW], [1, -1]], [LOW, HIGH]),
    ("multiply", "int32", [[2**16, LOW, 3], [2**16, -1, 5]], [0, LOW, 15]),
    ("subtract", "uint8", [[0, 255], [1, 255]], [255, 0]),
    ("add", "bool", [[0, 0, 1, 1], [0, 1, 0, 1]], [False, True, True, True]),
    ("multiply", "bool", [[0, 0, 1, 1], [0, 1, 0, 1]], [False, False, False, True]),
    ("maximum", "bool", [[0, 0, 1, 1], [0, 1, 0, 1]], [False, True, True, True]),
    ("minimum", "bool", [[0, 0, 1, 1], [0, 1, 0, 1]], [False, False, False, True]),
    ("bitwise_not", "bool", [[0, 1]], [True, False]),
    ("bitwise_not", "int8", [[0, -1, 127]], [-1, 0, -128]),
    ("bitwise_xor", "bool", [[0, 0, 1, 1], [0, 1, 0, 1]], [False, True, True, False]),
    ("maximum", "float64", [[NAN, 1.0, 2.0], [1.0, NAN, 3.0]], [NAN, NAN, 3.0]),
    ("minimum", "float64", [[NAN, 1.0, 2.0], [1.0, NAN, 3.0]], [NAN, NAN, 2.0]),
    ("clamp", "float64", [[NAN, 5.0, -5.0, 0.5, 0.0], [0.0] * 4 + [NAN], [1.0] * 5],
     [NAN, 1.0, 0.0, 0.5, NAN]),
    ("clamp", "int8", [[5, 0], [3, 1], [2, 9]], [2, 1]),  # low > high: high wins
    ("round", "float64", [[0.5, 1.5, 2.5, -0.5, -1.5, 0.49999999999999994, 4503599627370497.5]],
     [0.0, 2.0, 2.0, -0.0, -2.0, 0.0, 4503599627370498.0]),
    ("round_half_away", "float64",
     [[0.5, 1.5, 2.5, -0.5, -1.5, 0.49999999999999994, -0.49999999999999994, 4503599627370497.5]],
     [1.0, 2.0, 3.0, -1.0, -2.0, 0.0, -0.0, 4503599627370498.0]),
    ("round_half_away", "float32", [[0.5, 0.49999997, 8388609.0, -2.5, INF, NAN]],
     [1.0, 0.0, 8388609.0, -3.0, INF, NAN]),
    ("round_half_away", "float16", [[0.5, 0.4998, -2.5, 1025.0]], [1.0, 0.0, -3.0, 1025.0]),
    ("trunc", "float64", [[1.9, -1.9, -0.5]], [1.0, -1.0, -0.0]),
    ("floor", "float64", [[1.9, -1.9, -0.0]], [1.0, -2.0, -0.0]),
    ("ceil", "float64", [[1.1, -1.9, -0.5]], [2.0, -1.0, -0.0]),
    ("round", "int64", [[2**63 - 1, -(2**63)]], [2**63 - 1, -(2**63)]),
    ("atan2", "float64", [[0.0, -0.0, 0.0, -0.0, 1.0], [-1.0, -1.0, 1.0, 1.0, 0.0]],
     [np.pi, -np.pi, 0.0, -0.0, np.pi / 2]),
    ("expm1", "float64", [[1e-300, -INF]], [1e-300, -1.0]),
    ("log1p", "float64", [[1e-300, -1.0, -2.0]], [1e-300, -INF, NAN]),
    ("log1p", "complex128", [[1e-20 + 1e-20j]], [1e-20 + 1e-20j]),
    ("erf", "float64", [[0.0, INF, -INF, NAN, 1e-300]],
     [0.0, 1.0, -1.0, NAN, 2 / np.sqrt(np.pi) * 1e-300]),
    ("rsqrt", "float64", [[0.0, -0.0, 4.0, -1.0, INF]], [INF, -INF, 0.5, NAN, 0.0]),
    ("less", "uint64", [[2**63], [1]], [False]),
    ("equal", "float64", [[NAN, 0.0], [NAN, -0.0]], [False, True]),
    # previously failed: 1 / modulus, or the modulus itself, is beyond the largest number
    ("sign", "complex128", [[5e-324, 5e-324j, -1e-310j, 1e-310, 1 + 5e-324j]],
     [1, 1j, -1j, 1, 1 + 5e-324j]),
    ("sign", "complex64", [[1e-45, -1e-40, 1e-40j, 0]], [1, -1, 1j, 0]),
    ("sign", "complex128", [[INF, -INF, complex(2, INF), complex(INF, INF), 5e-324]],
     [1, -1, 1j, complex(NAN, NAN), 1]),
    ("not_equal", "float64", [[NAN, 0.0], [NAN, -0.0]], [True, False]),
]  # fmt: skip


@each
@pytest.mark.parametrize(
    ("op", "name", "given", "want"), KNOWN, ids=[f"{row[0]} {row[1]}" for row in KNOWN]
)
def test_known(backend: str, how: str, op: str, name: str, given: Any, want: list[Any]) -> None:
    """Zeros with their signs."""
    arrays = [np.array(x, name) for x in given]
    got = run(backend, how, op, {}, *arrays)
    np.testing.assert_array_equal(got, np.array(want, got.dtype))
    if got.dtype.kind == "f":
        known = got == got
        signs = np.signbit(np.array(want, got.dtype))
        np.testing.assert_array_equal(np.signbit(got)[known], signs[known])


# ---- padding --------------------------------------------------------------------------------------

PADDED: list[tuple[list[int], int, int, int, list[int]]] = [
    # x, low, high, interior, out (9 is the value)
    ([1, 2, 3], 1, 2, 0, [9, 1, 2, 3, 9, 9]),
    ([1, 2, 3], 0, 0, 2, [1, 9, 9, 2, 9, 9, 3]),
    ([1, 2, 3], -1, 0, 0, [2, 3]),
    ([1, 2, 3], -2, -1, 0, []),
    ([1, 2, 3], -1, -1, 1, [9, 2, 9]),
    ([1, 2, 3], -2, 3, 1, [2, 9, 3, 9, 9, 9]),
    ([1, 2, 3], -3, 5, 0, [9, 9, 9, 9, 9]),
    ([1], -1, 1, 7, [9]),
    ([], 1, 1, 5, [9, 9]),
]


@each
@pytest.mark.parametrize(("x", "low", "high", "interior", "want"), PADDED)
def test_pad(backend: str, how: str, x: Any, low: int, high: int, interior: int, want: Any) -> None:
    attrs = {"low": (low,), "high": (high,), "interior": (interior,), "value": 9}
    for name in ("int64", "float32", "complex128", "object"):
        got = run(backend, how, "pad", attrs, np.array(x, name))
        assert got.tolist() == want


SILENT: dict[str, tuple[dict[str, Any], list[Array]]] = {
    "divide": ({}, [np.ones(3), np.zeros(3)]),
    "power": ({}, [np.array([0]), np.array([-1])]),
    "exp": ({}, [np.full(3, 1e6)]),
    "log": ({}, [np.array([0.0, -1.0])]),
    "cast": ({"dtype": "int8"}, [np.array([NAN, INF])]),
    "reduce_sum": ({"axes": (0,)}, [np.array([INF, -INF])]),
    "reduce_prod": ({"axes": (0,)}, [np.full(3, 1e300)]),
    "reduce_mean": ({"axes": (0,)}, [np.zeros(0)]),
    "sum_product": ({"terms": ((0,), (0,)), "output": (0,)}, [np.full(2, 1e300)] * 2),
}


@each
@pytest.mark.parametrize("op", SILENT)
def test_silence(backend: str, how: str, op: str) -> None:
    """Nothing is said of overflow, division by zero or NaN, whatever the user asked of NumPy."""
    attrs, arrays = SILENT[op]
    with np.errstate(all="raise"):
        run(backend, how, op, attrs, *arrays)


# ---- powers of two --------------------------------------------------------------------------------

TINY, HUGE = 5e-324, np.finfo("f8").max
NORMAL_EXPONENTS: list[tuple[Any, int]] = [  # k with 1/2 <= 2**k max |x| < 1
    ([0.5], 0), ([1.0], -1), ([0.75, -3.0], -2), ([HUGE], -1024), ([TINY], 1073), ([0.0], 0), ([], 0),
    ([INF, 1.0], 0), ([NAN, 1.0], 0), ([1.0, -INF], 0), ([1j, 0.25], -1), ([HUGE * (1 + 1j)], -1024),
]  # fmt: skip


@each
def test_normal_exponents(backend: str, how: str) -> None:
    for given, want in NORMAL_EXPONENTS:
        x = np.array(given)
        assert run(backend, how, "normal_exponent", {}, x) == want, given
        for more in (x[:, None], np.tile(x, 300)):
            assert run(backend, how, "normal_exponent", {}, more) == want, given


@each
@pytest.mark.parametrize("name", ["float16", "float32", "float64", "complex64"])
def test_ldexp_rounds_once(backend: str, how: str, name: str) -> None:
    """Into subnormal numbers and out of them, to zero and to infinity; parts do not meet."""
    info = np.finfo(name)
    x = np.array([1.0, -1.5, 1 + info.eps, 0.0, INF, NAN, info.max, info.smallest_subnormal], name)
    if name == "complex64":
        x.imag = x.real[::-1]
    for k in (
        0,
        1,
        -3,
        info.maxexp,
        info.minexp - 3,
        2 * info.maxexp,
        3 * info.minexp,
        2**40,
        -(2**62),
    ):
        power = np.intc(max(-5000, min(5000, k)))
        got = run(backend, how, "ldexp", {}, x, np.array(k))
        with np.errstate(all="ignore"):
            for part, given in ((got.real, x.real), (got.imag, x.imag)):
                want = np.ldexp(given.astype("f8"), power).astype(part.dtype)
                np.testing.assert_array_equal(part, want)
