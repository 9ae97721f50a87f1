"""Large reductions: every subset of axes, any strides, accumulated wide, shared among threads."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from tests.backend.calls import OUT_LAYOUTS, Array, Shape, junk, lay_out
from tests.tolerance import assert_close, eps

from einloom._base.options import options
from einloom.backend.catalogue import infer
from einloom.backend.cpu import cpu, threads
from einloom.backend.cpu.strided import MOST_AXES
from einloom.backend.fusion import reduction_attrs
from einloom.backend.spec import ArraySpec, dtype_from_name

BACKEND = cpu()
SHAPES: tuple[Shape, ...] = (
    # runs, columns, short axes kept inside a run, remainders of blocks, lanes and pieces
    *((7,), (100,), (1000,), (9001,), (5000, 3), (3, 5000), (40, 50), (1, 6), (17, 1)),
    *((6, 7, 300), (300, 7, 6), (2, 3, 4, 5), (33, 2, 65, 3), (13, 1, 600)),
)
STRIDED = ("C", "transposed", "reversed", "sliced", "broadcast")
NAMES = ("float32", "int8", "complex64")
SCALAR = (ArraySpec(np.dtype(np.float64), ()),)


def subsets(rank: int) -> Iterator[tuple[int, ...]]:
    """All axes that a reduction may take, in falling order too."""
    for axes in chain.from_iterable(combinations(range(rank), n) for n in range(rank + 1)):
        yield axes
        if len(axes) == 2:
            yield axes[::-1]


def numbers(shape: Shape, name: str, rng: np.random.Generator) -> Array:
    dtype = np.dtype(name)
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.9)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.asarray(rng.integers(info.min, info.max, shape, dtype, endpoint=True))
    parts = rng.standard_normal((2, *shape))
    return np.asarray((parts[0] + (1j * parts[1] if dtype.kind == "c" else 0)).astype(dtype))


def reduced(op: str, axes: tuple[int, ...], x: Array, out: Any = None, count: int = 1) -> Array:
    """By a compiled kernel, on `count` threads."""
    with options(small=0, threads=count):
        return np.asarray(BACKEND.apply(op, reduction_attrs(op, axes), x, out=out))


def check(op: str, axes: tuple[int, ...], x: Array, out: Any = None, count: int = 1) -> None:
    """Against NumPy in long doubles or wrapping integers."""
    got = reduced(op, axes, x, out, count)
    (spec,) = infer(op, reduction_attrs(op, axes), (ArraySpec(x.dtype, x.shape),))
    assert (got.dtype, got.shape) == (spec.dtype, spec.shape)
    assert out is None or got is out
    if op in ("reduce_max", "reduce_min"):
        np.testing.assert_array_equal(got, (np.max if op == "reduce_max" else np.min)(x, axis=axes))
        return
    function: Any = {"reduce_sum": np.sum, "reduce_prod": np.prod, "reduce_mean": np.mean}[op]
    if x.dtype.kind == "b":
        function = {"reduce_sum": np.any, "reduce_prod": np.all}[op]
        np.testing.assert_array_equal(got, function(x, axis=axes))
        return
    if x.dtype.kind in "iu":
        np.testing.assert_array_equal(got, function(x, axis=axes, dtype=x.dtype))
        return
    wide: Any = np.clongdouble if x.dtype.kind == "c" else np.longdouble
    want = function(x.astype(wide), axis=axes)
    scale = function(np.abs(x.astype(wide)), axis=axes)
    terms = math.prod(x.shape[axis] for axis in axes)
    accumulator = np.float64 if x.dtype.itemsize // (1 + (x.dtype.kind == "c")) == 4 else x.dtype
    bound = 2 * eps(x.dtype) + (8 + math.sqrt(terms)) * eps(accumulator)
    assert_close(got, want, scale, bound)


# ---- axes and strides ----------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["reduce_sum", "reduce_max"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_axes_and_strides(op: str, shape: Shape, rng: np.random.Generator) -> None:
    """Every subset of axes, on one thread and on two, into arrays of any strides."""
    for n, axes in enumerate(subsets(len(shape))):
        for k, layout in enumerate(STRIDED if op == "reduce_sum" and axes else STRIDED[:2]):
            x = lay_out(rng.standard_normal(shape), layout, rng)
            (spec,) = infer(op, reduction_attrs(op, axes), (ArraySpec(x.dtype, shape),))
            check(op, axes, x, count=1 + (n + k) % 2)
            out = junk(spec, OUT_LAYOUTS[(n + k) % len(OUT_LAYOUTS)], rng)
            check(op, axes, x, out=out, count=2 - (n + k) % 2)


@pytest.mark.parametrize("name", NAMES)
def test_dtypes(name: str, rng: np.random.Generator) -> None:
    """Integers wrap, booleans are or-ed, complex numbers are summed part by part."""
    for n, shape in enumerate(((40, 50), (6, 7, 130), (1, 130))):
        for axes in ((0,), (len(shape) - 1,)):
            check("reduce_sum", axes, numbers(shape, name, rng), count=1 + n % 2)


@pytest.mark.parametrize(
    ("op", "name", "axis"),
    [
        ("reduce_prod", "int8", 0),
        ("reduce_prod", "complex128", 1),
        ("reduce_max", "bool", 0),
        ("reduce_mean", "complex64", 0),
    ],
)
def test_other_reductions(op: str, name: str, axis: int, rng: np.random.Generator) -> None:
    x = numbers((60, 40), name, rng)
    if name == "complex128":
        x /= abs(x)
    check(op, (axis,), x, count=2)


@pytest.mark.parametrize(
    ("axis", "name"),
    [
        pytest.param(0, "float16", marks=pytest.mark.slow), (1, "bfloat16"),
        pytest.param(1, "float16", marks=pytest.mark.slow),
        pytest.param(0, "bfloat16", marks=pytest.mark.slow),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # in NumPy's cast of a NaN
def test_every_half(name: str, axis: int) -> None:
    """All 65536 of them come through a kernel as they are, subnormal, infinite and NaN."""
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    dtype = dtype_from_name(name)
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    x = np.stack([every, every], axis)
    want = every.astype(np.float32)
    for op in ("reduce_max", "reduce_min", "reduce_mean"):
        got = reduced(op, (axis,), x)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got.astype(np.float32), want)


def test_the_parts_of_complex_numbers_in_any_place(rng: np.random.Generator) -> None:
    """Sums along the fastest axis and along others, from and to strided arrays."""
    for layout in ("C", "F", "reversed", "sliced", "broadcast", "readonly", "unaligned"):
        x = lay_out(numbers((30, 20), "complex128", rng), layout, rng)
        for axis in (0, 1):
            out = np.zeros(2 * x.shape[1 - axis], complex)[::2]
            check("reduce_sum", (axis,), x, out=out)


# ---- memory of other kinds -----------------------------------------------------------------------


def test_complex_numbers_of_most_axes(rng: np.random.Generator) -> None:
    """Their parts would be one axis more than NumPy has."""
    x = numbers((2,) * 4, "complex64", rng).reshape((2,) * 4 + (1,) * (MOST_AXES - 4))
    check("reduce_sum", (0, MOST_AXES - 1), x)
    check("reduce_sum", (1, 2), x)


def test_fields_of_records(rng: np.random.Generator) -> None:
    """Strides that are no whole elements, or not aligned."""
    for layout in (("i1", "f8"), ("f8", "i1"), ("f8", "f8", "f8")):
        record = np.zeros((60, 50), [(f"f{n}", kind) for n, kind in enumerate(layout)])
        x = record[f"f{layout.index('f8')}"]
        x[...] = rng.standard_normal(x.shape)
        for axes in subsets(2):
            check("reduce_sum", axes, x)


def test_bytes_at_odd_addresses(rng: np.random.Generator) -> None:
    x = rng.standard_normal((30, 40))
    memory = b"\0" + x.tobytes()
    odd = np.frombuffer(memory, offset=1).reshape(x.shape)
    assert not odd.flags.aligned
    assert not odd.flags.writeable
    for axes in subsets(2):
        check("reduce_sum", axes, odd)


def test_nothing_beside_the_output_changes(rng: np.random.Generator) -> None:
    room = rng.standard_normal((20, 30))
    before = room.copy()
    x = rng.standard_normal((9, 70, 11))
    for count in (1, 2):
        check("reduce_sum", (1,), x, out=room[1:19:2, 3:25:2], count=count)
    room[1:19:2, 3:25:2] = before[1:19:2, 3:25:2]
    np.testing.assert_array_equal(room, before)


# ---- threads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5, 7, 8, 9, 16, 31, 33, 4097, 10007])
def test_a_reduced_axis_shared_out(size: int, rng: np.random.Generator) -> None:
    """Pieces that do not divide it: none is left out, none is taken twice."""
    x = rng.integers(-(2**40), 2**40, size)
    rows = rng.integers(-(2**40), 2**40, (size, 3))
    for count in (1, 2, 3, 8):
        assert reduced("reduce_sum", (0,), x, count=count) == x.sum()
        np.testing.assert_array_equal(reduced("reduce_sum", (0,), rows, count=count), rows.sum(0))


def test_one_kernel_for_changing_strides_and_threads(rng: np.random.Generator) -> None:
    """Tables are kept for what was last seen; others get their own."""
    attrs, spec = {"axes": (1,)}, ArraySpec(np.dtype("int64"), (30, 500))
    kernel = BACKEND.bind("reduce_sum", attrs, (spec,), infer("reduce_sum", attrs, (spec,)))
    for n in range(12):
        x = lay_out(rng.integers(-9, 9, spec.shape), STRIDED[n % 5], rng)
        with options(small=0, threads=1 + n % 3):
            np.testing.assert_array_equal(kernel(x), x.sum(1))


def test_threads_are_used(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    monkeypatch.setattr(threads, "_pool", threads._Pool())
    reduced("reduce_sum", (0,), rng.standard_normal(10000), count=4)
    assert len(threads._pool.threads) == 3


# ---- accuracy ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many() -> tuple[Array, float]:
    """Ten million float32, and their sum."""
    x = np.random.default_rng(0).random(10**7, dtype=np.float32)
    return x, math.fsum(x.tolist())


@pytest.mark.parametrize("count", [1, 2])
def test_ten_million_terms(many: tuple[Array, float], count: int) -> None:
    """float32 is summed in float64: correctly rounded; of float64 13 digits are left."""
    terms, exact = many
    for x in (terms, terms[::-1], terms.reshape(1000, 10000), terms.reshape(4, -1).T):
        got = reduced("reduce_sum", tuple(range(x.ndim)), x, count=count)
        assert abs(float(got) - exact) <= np.spacing(np.float32(exact)) / 2
    tenths = np.full(10**7, 0.1)
    assert abs(reduced("reduce_sum", (0,), tenths, count=count) / 1e6 - 1) < 1e-13
    wide = terms.astype(np.float64)
    assert abs(reduced("reduce_sum", (0,), wide, count=count) / exact - 1) < 1e-13


@pytest.mark.parametrize("count", [1, 2, 3])
def test_same_bits_every_time(many: tuple[Array, float], count: int) -> None:
    """As long as the number of threads is the same."""
    x = many[0].astype(np.float64).reshape(500, 20, 1000)
    for axes in ((0, 1, 2), (0, 2), (1, 2), (1,)):
        first = reduced("reduce_sum", axes, x, count=count).tobytes()
        assert all(reduced("reduce_sum", axes, x, count=count).tobytes() == first for _ in "ab")


@pytest.mark.parametrize("axis", [0, 1])
def test_no_numbers(axis: int) -> None:
    """One NaN, wherever it is, makes NaN of its own row alone; infinities are added as such."""
    for op in ("reduce_max", "reduce_sum"):
        x = np.ones((64, 67))
        x[3, 5] = x[63, 66] = np.nan
        x[4, 6], x[5, 7] = np.inf, -np.inf
        got = reduced(op, (axis,), x)
        np.testing.assert_array_equal(got, (np.max if op == "reduce_max" else np.sum)(x, axis=axis))
    assert np.isnan(reduced("reduce_max", (0, 1), x))
    assert np.isnan(reduced("reduce_sum", (0, 1), np.array([[np.inf, -np.inf]])))


def test_zeros_and_initial_values() -> None:
    """What starts an accumulation is no element; `initial` is one more."""
    assert math.copysign(1, float(reduced("reduce_max", (0,), np.full(9, -np.inf)))) == -1
    with options(small=0):
        for initial, want in ((-5, 3), (7, 7)):
            attrs = {"axes": (0,), "initial": initial}
            assert BACKEND.apply("reduce_max", attrs, np.arange(4.0)) == want
    for op, want in (("reduce_sum", 0), ("reduce_prod", 1)):
        got = reduced(op, (0,), np.zeros((0, 3)))
        np.testing.assert_array_equal(got, np.full(3, want))
    assert np.isnan(reduced("reduce_mean", (0,), np.zeros((0, 3)))).all()


# ---- previously failed -------------------------------------------------------------------------


@pytest.mark.parametrize("small", [0, math.inf], ids=["kernels", "no kernels"])
@pytest.mark.parametrize("name", ["float32", "complex64"])
def test_wide_along_any_axis(name: str, small: float) -> None:
    """NumPy adds in pairs only along the fastest axis in memory, which need not be the last one."""
    x = np.full((100_000, 2), 0.1, name).T
    terms = np.array([1e8, 1, -1e8] * 3, name)
    with options(small=small):
        total = np.asarray(BACKEND.apply("reduce_sum", {"axes": (1,)}, x))
        few = np.asarray(BACKEND.apply("reduce_sum", {"axes": (0,)}, terms))
    np.testing.assert_array_equal(total, np.full(2, np.float32(0.1) * 1e5).astype(name))
    assert few == 3


@pytest.mark.parametrize("small", [0, math.inf], ids=["kernels", "no kernels"])
def test_halves_are_rounded_once(small: float) -> None:
    """In float32 the last term is lost, and what is left lies halfway between two halves."""
    x = np.array([1, 2**-11, 2**-24], np.float16)
    with options(small=small):
        got = BACKEND.apply("reduce_sum", {"axes": (0,)}, x)
    assert got == np.float16(1 + 2**-10)


def test_odd_addresses_are_not_copied() -> None:
    """No more than a buffer's worth at a time: what a reduction takes besides is what it says."""
    memory = np.zeros(8 * (1 << 20) + 1, np.uint8)
    x = memory[1:].view(np.float64)
    attrs = {"axes": (0,)}
    kernel = BACKEND.bind("reduce_sum", attrs, (ArraySpec(x.dtype, x.shape),), SCALAR)
    kernel(x)
    tracemalloc.start()
    try:
        kernel(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("op", ["reduce_sum", "reduce_prod", "reduce_max", "reduce_mean"])
@pytest.mark.parametrize("dtype", ["f8", "f2", "c8", "i1", "u4"])
@pytest.mark.parametrize("axes", [(2, 4), (0, 3), (0, 1, 4), (1, 2)])
def test_several_short_axes_of_a_view(
    op: str, dtype: str, axes: tuple[int, ...], rng: np.random.Generator
) -> None:
    if (op, dtype) in (("reduce_max", "c8"), ("reduce_mean", "i1"), ("reduce_mean", "u4")):
        return  # no such reduction
    x = rng.integers(0, 3, (3, 4, 5, 6, 4)).astype(dtype).swapaxes(1, 3)
    attrs = {"axes": axes, "initial": None} if op == "reduce_max" else {"axes": axes}
    same = np.ascontiguousarray(x)
    np.testing.assert_allclose(
        BACKEND.apply(op, attrs, x),
        BACKEND.apply(op, attrs, same),
        rtol=1e-2 if dtype == "f2" else 1e-6,
    )
