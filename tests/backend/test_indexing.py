"""Indexing, order, scans, windows: known answers, laws, indices out of range, threads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.backend.backends import PATHS, path
from tests.backend.laws import assert_means
from tests.backend.test_bounds import Embedded

from einloom._base.errors import (
    CallError,
    DTypeError,
    IndexRangeError,
    MemoryLimitError,
    ProgramError,
)
from einloom._base.options import options
from einloom.backend.catalogue import infer
from einloom.backend.cpu import cpu, picking, scan, scattered, scattering, taking, windows
from einloom.backend.spec import ArraySpec

CPU = cpu()
INF, NAN = float("inf"), float("nan")
Array = np.ndarray[Any, Any]
each = pytest.mark.parametrize("how", PATHS)


def run(how: str, op: str, attrs: dict[str, Any], *arrays: Any) -> Array:
    with path(how):
        got: Array = CPU.apply(op, attrs, *(np.asarray(x) for x in arrays))
    return got


def along(axis: int, mode: str = "set") -> dict[str, Any]:
    return {"axis": axis, "mode": mode, "unique_indices": False}


def checked(op: str, attrs: dict[str, Any], *arrays: Array) -> None:
    """Against the definition, by compiled kernels on one thread and on two, with the same bits."""
    specs = tuple(ArraySpec(x.dtype, x.shape) for x in arrays)
    outputs = infer(op, attrs, specs)
    one, two = (run(how, op, attrs, *arrays) for how in ("kernels forced", "two threads"))
    assert_means(one, op, attrs, arrays, outputs)
    assert one.tobytes() == two.tobytes()


# ---- known answers --------------------------------------------------------------------------------

KNOWN: list[tuple[str, dict[str, Any], list[Any], list[Any]]] = [
    ("scatter_along_axis", along(1),
     [np.zeros((3, 4)), [[0, 2], [1, 3], [0, 1]], [[1.0, 2], [3, 4], [5, 6]]],
     [[1, 0, 2, 0], [0, 3, 0, 4], [5, 6, 0, 0]]),
    ("scatter_along_axis", along(0, "add"), [np.zeros(4), [1, 1, 2, 1], [10.0, 40, 20, 5]],
     [0, 55, 20, 0]),
    ("scatter_along_axis", along(0), [np.full(4, 7.0), [1, 1, 3], [10.0, 40, 20]], [7, 40, 7, 20]),
    ("scatter_along_axis", along(0), [np.zeros(3), [-1, -3], [1.0, 2]], [2, 0, 1]),
    ("take", {"axis": 0}, [[1.0, 2, 3], [[-1, 0], [2, -3]]], [[3, 1], [3, 1]]),
    ("take", {"axis": 1}, [[[1.0, 2], [3, 4]], [1, 1, 0]], [[2, 2, 1], [4, 4, 3]]),
    ("take_along_axis", {"axis": 0}, [[[1.0, 2], [3, 4]], [[1, 0], [-2, -1], [0, 0]]],
     [[3, 2], [1, 4], [1, 2]]),
    ("dynamic_slice", {"sizes": (2,)}, [[0.0, 1, 2, 3, 4], [4]], [3, 4]),
    ("dynamic_slice", {"sizes": (2,)}, [[0.0, 1, 2, 3, 4], [-(2**63)]], [0, 1]),
    ("dynamic_update_slice", {}, [[0.0, 1, 2, 3, 4], [8.0, 9], [4]], [0, 1, 2, 8, 9]),
    ("sort", {"axis": 0, "descending": False}, [[3.0, NAN, -INF, 1.0, NAN, INF]],
     [-INF, 1, 3, INF, NAN, NAN]),
    ("sort", {"axis": 0, "descending": True}, [[3.0, NAN, -INF, 1.0, NAN, INF]],
     [INF, 3, 1, -INF, NAN, NAN]),
    ("sort", {"axis": 0, "descending": True}, [[-(2**63), 2**63 - 1, 0]],
     [2**63 - 1, 0, -(2**63)]),
    ("sort", {"axis": 0, "descending": False}, [[1 + 2j, 1 - 1j, 0.5 + 9j]],
     [0.5 + 9j, 1 - 1j, 1 + 2j]),
    ("argsort", {"axis": 0, "descending": False}, [[2.0, NAN, 1.0, 2.0, 0.0, -0.0, NAN]],
     [4, 5, 2, 0, 3, 1, 6]),
    ("argsort", {"axis": 0, "descending": True}, [[2.0, NAN, 1.0, 2.0, 0.0, -0.0, NAN]],
     [0, 3, 2, 4, 5, 1, 6]),
    ("argsort", {"axis": 0, "descending": True}, [[1 + 1j, NAN * 1j, 1 + 2j, complex(NAN, 3), 2, 1 + 1j]],
     [4, 2, 0, 5, 1, 3]),
    ("argsort", {"axis": 0, "descending": True}, [[False, True, False, True]], [1, 3, 0, 2]),
    ("associative_scan", {"axis": 0, "kind": "max"}, [[1.0, 3, NAN, 9]], [1, 3, NAN, NAN]),
    ("associative_scan", {"axis": 0, "kind": "min"}, [[1.0, NAN, -9]], [1, NAN, NAN]),
    ("associative_scan", {"axis": 0, "kind": "sum"}, [[True, False, True]], [True, True, True]),
    ("associative_scan", {"axis": 0, "kind": "prod"}, [[True, False, True]], [True, False, False]),
    ("associative_scan", {"axis": 0, "kind": "sum"}, [np.array([100, 100, 100], np.int8)],
     [100, -56, 44]),
]  # fmt: skip


@each
@pytest.mark.parametrize(
    "row", range(len(KNOWN)), ids=[f"{k} {row[0]}" for k, row in enumerate(KNOWN)]
)
def test_known_answers(how: str, row: int) -> None:
    op, attrs, arrays, want = KNOWN[row]
    np.testing.assert_array_equal(run(how, op, attrs, *arrays), np.array(want))


WORDS = (  # key, counter, answer: kat_vectors of Random123, 20 rounds
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
)


@each
@pytest.mark.parametrize("name", ["int32", "uint32", "int64", "uint64"])
def test_threefry(how: str, name: str) -> None:
    """For each pair on its own, for one key or many, and for more pairs than a vector has."""
    keys, counters, want = (np.array(rows, np.uint32) for rows in zip(*WORDS, strict=True))
    keys, counters, want = (np.tile(x, (25, 1)).astype(name) for x in (keys, counters, want))
    np.testing.assert_array_equal(run(how, "threefry2x32", {}, keys, counters), want)
    one = np.broadcast_to(keys[2], (40, 2))
    many = np.broadcast_to(counters[2], (40, 2)).copy()
    assert (run(how, "threefry2x32", {}, one, many) == want[2]).all()


def test_sums_are_kept_wide() -> None:
    ones = np.ones(1 << 12, np.float16)
    for how in PATHS:
        assert run(how, "associative_scan", {"axis": 0, "kind": "sum"}, ones)[-1] == 1 << 12
        zero = np.zeros(1, np.float16)
        indices = np.zeros(ones.size, int)
        assert run(how, "scatter_along_axis", along(0, "add"), zero, indices, ones) == 1 << 12
    n = (1 << 24) + 4
    many = np.broadcast_to(np.float32(1), n)
    assert CPU.apply("associative_scan", {"axis": 0, "kind": "sum"}, many)[-1] == n


# ---- laws -----------------------------------------------------------------------------------------

seeds = st.integers(0, 2**32)
ways = st.sampled_from(list(PATHS))


@given(seed=seeds, how=ways, axis=st.integers(0, 1))
def test_what_was_scattered_is_taken_back(seed: int, how: str, axis: int) -> None:
    """With distinct indices; and elsewhere nothing has changed."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 99, rng.integers(1, 9, 2)).astype(np.float32)
    order = np.argsort(rng.random(x.shape), axis)
    indices = np.take(order, np.arange(rng.integers(0, x.shape[axis] + 1)), axis)
    updates = rng.random(indices.shape, np.float32)
    out = run(how, "scatter_along_axis", along(axis), x, indices, updates)
    taken = run(how, "take_along_axis", {"axis": axis}, out, indices)
    np.testing.assert_array_equal(taken, updates)
    others = np.ones(x.shape, bool)
    np.put_along_axis(others, indices, False, axis)
    np.testing.assert_array_equal(out[others], x[others])


@given(seed=seeds, how=ways, falling=st.booleans())
def test_sorting_is_a_permutation(seed: int, how: str, falling: bool) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, rng.integers(1, 9, 2)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = NAN
    attrs = {"axis": 1, "descending": falling}
    order = run(how, "argsort", attrs, x)
    assert (np.sort(order, axis=1) == np.arange(x.shape[1])).all()
    found = run(how, "take_along_axis", {"axis": 1}, x, order)
    np.testing.assert_array_equal(found, run(how, "sort", attrs, x))
    left, right = found[:, :-1], found[:, 1:]
    ties = (left == right) | (np.isnan(left) & np.isnan(right))
    rises = (right < left) if falling else (left < right)
    assert (ties | rises | np.isnan(right)).all()
    assert (order[:, :-1] < order[:, 1:])[ties].all()  # equal elements stay in order


@given(seed=seeds, how=ways)
def test_fold_of_unfold_is_coverage(seed: int, how: str) -> None:
    """fold(unfold(x)) = how many windows have an element, times x."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 3))
    kernel, strides, dilation = (tuple(map(int, rng.integers(1, 4, rank))) for _ in range(3))
    low, high = (tuple(map(int, rng.integers(0, 3, rank))) for _ in range(2))
    least = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    sizes = tuple(int(n + rng.integers(0, 6)) for n in least)
    attrs = {"kernel": kernel, "strides": strides, "dilation": dilation, "low": low, "high": high}
    x = rng.integers(-9, 9, (int(rng.integers(1, 4)), *sizes)).astype(np.float32)
    again, ones = (
        run(how, "fold", {"sizes": sizes, **attrs}, run(how, "unfold", attrs, y))
        for y in (x, np.ones_like(x))
    )
    np.testing.assert_array_equal(again, ones * x)


@given(seed=seeds, how=ways, kind=st.sampled_from(["sum", "prod", "max", "min"]))
def test_scan_is_a_loop(seed: int, how: str, kind: str) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, rng.integers(0, 9, 3)).astype(np.float32)
    axis = int(rng.integers(0, 3))
    want = x.copy()
    step = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[kind]
    lines = np.moveaxis(want, axis, 0)
    for k in range(1, len(lines)):
        lines[k] = step(lines[k - 1], lines[k])
    np.testing.assert_array_equal(
        run(how, "associative_scan", {"axis": axis, "kind": kind}, x), want
    )


@pytest.mark.parametrize("small", [0, np.inf], ids=["odd places", "small work"])
def test_one_element(small: float) -> None:
    """A result without axes, that NumPy writes; previously failed."""
    x = np.zeros(33, np.uint8)[1:].view(np.float64)
    x[...] = range(4)
    with options(small=small):
        found = cpu().apply("take", {"axis": 0}, x, np.array(-2))
        assert (found.shape, found[()]) == ((), 2)
        base, one = np.zeros(9, np.uint8)[1:].view(np.float64).reshape(()), np.array(3.0)
        dims: dict[str, Any] = dict.fromkeys(WINDOW_DIMS, ())
        attrs = {**dims, "index_vector_dim": 0}
        assert cpu().apply("scatter", attrs, base, np.zeros(0, int), one) == 3


WINDOW_DIMS = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims")


# ---- several tiles, parts and blocks ----------------------------------------------------------------


@pytest.fixture
def tiny_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small arrays have many tiles."""
    for module, name, size in (
        (picking, "PIECE", 5), (scattered, "PIECE", 3), (scan, "PIECE", 4), (scan, "BLOCK", 7),
        (scan, "NARROW", 2), (windows, "SLAB", 6),
        (taking, "BLOCK", 7), (scattering, "BLOCK", 7),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, size)


@pytest.mark.usefixtures("tiny_tiles")
class TestTiles:
    """The definitions hold, and bits do not depend on the number of threads."""

    @pytest.mark.parametrize("shape", [(40,), (40, 3), (3, 40), (12, 9), (2, 15, 4)], ids=str)
    def test_along(self, shape: tuple[int, ...], rng: np.random.Generator) -> None:
        for axis, n in enumerate(shape):
            x, updates = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
            indices = rng.integers(-n, n, shape)
            for given_ in (x, np.asfortranarray(x), x[::-1]):
                checked("take_along_axis", {"axis": axis}, given_, indices)
                checked("take", {"axis": axis}, given_, indices[:2].reshape(-1))
                checked("scatter_along_axis", along(axis), given_, indices, updates)
            checked("scatter_along_axis", along(axis, "add"), x, indices.astype(np.int32), updates)

    @pytest.mark.parametrize("shape", [(100,), (100, 2), (2, 100), (50, 9)], ids=str)
    @pytest.mark.parametrize("name", ["float32", "int64"])
    def test_scans(self, shape: tuple[int, ...], name: str, rng: np.random.Generator) -> None:
        x = (rng.standard_normal(shape) * 2).astype(name)
        for axis in range(len(shape)):
            for kind in ("sum", "prod", "max", "min"):
                checked("associative_scan", {"axis": axis, "kind": kind}, x)

    @pytest.mark.parametrize("small", [0, np.inf], ids=["odd places", "small work"])
    def test_blocks(self, small: float, rng: np.random.Generator) -> None:
        """Of NumPy, where arrays do not lie so that a kernel can read them, or are small."""
        shape = (4, 6, 5)
        base = np.zeros(8 * 120 + 1, np.uint8)[1:].view(np.float64).reshape(shape)
        base[...] = rng.standard_normal(shape)
        updates = rng.standard_normal(shape)
        for axis, n in enumerate(shape):
            indices = rng.integers(-n, n, shape)
            for op, attrs, arrays in (
                ("take_along_axis", {"axis": axis}, (base, indices)),
                ("take", {"axis": axis}, (base, indices[0])),
                ("take", {"axis": axis}, (base, indices[0, 0, 0])),
                ("scatter_along_axis", along(axis), (base, indices, updates)),
                ("scatter_along_axis", along(axis, "add"), (base, indices, updates)),
            ):
                specs = tuple(ArraySpec(x.dtype, x.shape) for x in arrays)
                outputs = infer(op, attrs, specs)
                memory = np.zeros(outputs[0].nbytes + 1, np.uint8)[1:].view(np.float64)
                out = memory.reshape(outputs[0].shape[::-1]).T
                with options(small=small):
                    found = cpu().apply(op, attrs, *arrays, out=out)
                assert_means(found, op, attrs, arrays, outputs)

    @pytest.mark.parametrize("block", [1, 7, 1000])
    def test_blocks_of_windows(
        self, block: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(scattering, "BLOCK", block)
        x, updates = rng.standard_normal((6, 5)), rng.standard_normal((3, 2, 4, 2))
        indices = rng.integers(-1, 6, (3, 4, 2))
        attrs = {
            "update_window_dims": (1, 3),
            "inserted_window_dims": (),
            "scatter_dims_to_operand_dims": (1, 0),
            "index_vector_dim": 2,
        }
        arrays = x, indices, updates
        outputs = infer("scatter", attrs, tuple(ArraySpec(x.dtype, x.shape) for x in arrays))
        for given_ in (x, np.asfortranarray(x)):
            out = np.empty_like(given_)
            with options(small=np.inf):
                found = cpu().apply("scatter", attrs, given_, indices, updates, out=out)
            assert_means(found, "scatter", attrs, arrays, outputs)

    def test_windows(self, rng: np.random.Generator) -> None:
        attrs = {
            "kernel": (3, 2),
            "strides": (2, 1),
            "dilation": (1, 2),
            "low": (1, 0),
            "high": (0, 1),
        }
        x = rng.standard_normal((2, 9, 7)).astype(np.float32)
        checked("unfold", attrs, x)
        checked("fold", {"sizes": (9, 7), **attrs}, run("as shipped", "unfold", attrs, x))

    def test_scattered_windows(self, rng: np.random.Generator) -> None:
        """Shared out by a window's columns, by a mapped axis, and not at all."""
        x = rng.standard_normal((9, 80)).astype(np.float32)
        rows = {
            "update_window_dims": (1,),
            "inserted_window_dims": (0,),
            "scatter_dims_to_operand_dims": (0,),
            "index_vector_dim": 1,
        }
        indices = rng.integers(-2, 11, (30, 1))
        checked("scatter", rows, x, indices, rng.standard_normal((30, 80)).astype(np.float32))
        checked("scatter", rows, x, indices, rng.standard_normal((30, 5)).astype(np.float32))
        both = rows | {
            "update_window_dims": (1, 2),
            "inserted_window_dims": (),
            "scatter_dims_to_operand_dims": (1, 0),
        }
        places = rng.integers(-1, 9, (30, 2))
        checked("scatter", both, x, places, rng.standard_normal((30, 2, 3)).astype(np.float32))


@pytest.mark.parametrize("name", ["float64", "int64", "complex128", "float32"])
def test_orders_of_numbers_that_are_close(name: str, rng: np.random.Generator) -> None:
    """Keys that agree in all bits but the lowest: few, many, and far from others."""
    n = 700
    close = 1 + rng.integers(0, 4, n) * 2.0**-50
    for x in (
        rng.standard_normal(n) * 2**40,
        close,
        np.where(rng.random(n) < 0.5, 1e18 * rng.random(n), close * 2**52),
        rng.integers(-(2**62), 2**62, n).astype("f8"),
    ):
        for rows in (x.astype(name), x.astype(name).reshape(7, 100)):
            for falling in (False, True):
                attrs = {"axis": rows.ndim - 1, "descending": falling}
                want = run("as shipped", "argsort", attrs, rows)
                with options(small=0, threads=2):
                    np.testing.assert_array_equal(CPU.apply("argsort", attrs, rows), want)


# ---- what is out of range ---------------------------------------------------------------------------


@each
@pytest.mark.parametrize("bad", [3, -4, 2**62, -(2**63)], ids=["next", "before", "huge", "lowest"])
@pytest.mark.parametrize("at", [0, 4, 9])
def test_indices_out_of_range(how: str, bad: int, at: int) -> None:
    """Wherever they stand: refused, named, and nothing beside the arrays is touched."""
    rng = np.random.default_rng(at)
    x, indices = np.arange(3.0, dtype=np.float32), np.zeros(10, np.int64)
    indices[at] = bad
    message = rf"index {bad} at \({at},\) is out of range for axis 0 of size 3; give -3 to 2"
    src, out = Embedded(x, "dense", rng), Embedded(np.zeros(10, np.float32), "dense", rng)
    for op in ("take", "take_along_axis"):
        with path(how), pytest.raises(IndexRangeError, match=f"{op}: {message}"):
            CPU.apply(op, {"axis": 0}, src.x, indices, out=out.x)
    src.check(x)
    out.check(out.x)
    target = Embedded(x, "strided", rng)
    for mode in ("set", "add"):
        attrs = along(0, mode)
        with path(how), pytest.raises(IndexRangeError, match=f"scatter_along_axis: {message}"):
            CPU.apply("scatter_along_axis", attrs, x, indices, out.x.copy(), out=target.x)
    target.check(target.x)


@each
def test_indices_into_nothing(how: str) -> None:
    empty, none = np.zeros((0, 2), np.float32), np.zeros(0, np.int64)
    for op, indices in (("take", [0]), ("take_along_axis", [[0, 0]])):
        with pytest.raises(IndexRangeError, match="size 0; no index is in range"):
            run(how, op, {"axis": 0}, empty, indices)
    with pytest.raises(IndexError):
        run(how, "scatter_along_axis", along(0), empty, [[0, 0]], np.ones((1, 2), np.float32))
    assert run(how, "take", {"axis": 0}, empty, none).shape == (0, 2)
    x = np.ones((2, 2), np.float32)
    nowhere = none.reshape(0, 2)
    updated = run(how, "scatter_along_axis", along(0), x, nowhere, np.ones((0, 2), np.float32))
    np.testing.assert_array_equal(updated, x)


@pytest.mark.parametrize("name", ["float64", "bool", "uint64", "complex128", "object"])
def test_indices_of_other_dtypes(name: str) -> None:
    x, indices = np.ones(3), np.zeros(2).astype(name)
    for op, attrs, more in (
        ("take", {"axis": 0}, ()),
        ("take_along_axis", {"axis": 0}, ()),
        ("scatter_along_axis", along(0), (np.ones(2),)),
    ):
        with pytest.raises(DTypeError, match=f"{op}: operand indices"):
            CPU.apply(op, attrs, x, indices, *more)


@each
@pytest.mark.parametrize("name", ["int8", "int16", "int32", ">i4"])
def test_narrow_indices(how: str, name: str) -> None:
    x = np.arange(200.0, dtype=np.float32)
    indices = np.array([-1, 100, -128, 127, 0], np.int64).astype(name)
    np.testing.assert_array_equal(run(how, "take", {"axis": 0}, x, indices), x[indices.astype(int)])
    if indices.dtype.isnative:
        updates = np.ones(5, np.float32)
        got = run(how, "scatter_along_axis", along(0, "add"), x, indices, updates)
        assert got.sum() == x.sum() + 5


DROPPING = {
    "update_window_dims": (1,),
    "inserted_window_dims": (),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
}


@each
@pytest.mark.parametrize("at", [-1, 3, 4, 2**62, -(2**63)])
def test_windows_outside_are_dropped(how: str, at: int) -> None:
    """Whole windows, even if a part would fit."""
    x, updates = np.zeros(4, np.float32), np.ones((2, 2), np.float32)
    got = run(how, "scatter", DROPPING, x, [[at], [1]], updates)
    assert got.tolist() == [0, 1, 1, 0]


def test_combinations_that_no_dtype_has() -> None:
    z = np.ones(3, np.complex64)
    for kind in ("max", "min"):
        with pytest.raises(DTypeError, match="associative_scan: operand x is complex64"):
            CPU.apply("associative_scan", {"axis": 0, "kind": kind}, z)
    words = np.array(["a", "b"])
    kept = CPU.apply("scatter_along_axis", along(0), words, np.array([1]), np.array(["c"]))
    assert kept.tolist() == ["a", "c"]
    with pytest.raises(DTypeError, match="scatter_along_axis: operand x"):
        CPU.apply("scatter_along_axis", along(0, "add"), words, np.array([1]), np.array(["c"]))


def test_out_over_an_operand() -> None:
    x = np.arange(4.0)
    for op, attrs, arrays in (
        ("sort", {"axis": 0, "descending": False}, [x]),
        ("associative_scan", {"axis": 0, "kind": "sum"}, [x]),
        ("take", {"axis": 0}, [x, np.arange(4)]),
        ("scatter_along_axis", along(0), [x, np.array([1]), np.array([1.0])]),
        ("dynamic_update_slice", {}, [x, np.ones(1), np.array([1])]),
    ):
        with pytest.raises(CallError, match="overlaps operand 0"):
            CPU.apply(op, attrs, *arrays, out=x)
    window = {"kernel": (5,), "strides": (1,), "dilation": (1,), "low": (0,), "high": (0,)}
    with pytest.raises(ProgramError, match="does not fit into"):
        CPU.apply("unfold", window, x)


def test_small_calls_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("einloom.backend.cpu.jit._dispatcher", None)
    x, indices = np.arange(6.0), np.array([1, 0])
    with options(small=math.inf):
        CPU.apply("take", {"axis": 0}, x, indices)
        CPU.apply("take_along_axis", {"axis": 0}, x, indices)
        CPU.apply("scatter_along_axis", along(0, "add"), x, indices, np.ones(2))
        CPU.apply("scatter", DROPPING, x, indices[:, None], np.ones((2, 2)))
        CPU.apply("argsort", {"axis": 0, "descending": True}, x)
        CPU.apply("associative_scan", {"axis": 0, "kind": "sum"}, x)
        attrs = {"kernel": (2,), "strides": (1,), "dilation": (1,), "low": (0,), "high": (0,)}
        CPU.apply("fold", {"sizes": (6,), **attrs}, CPU.apply("unfold", attrs, x))
        words = np.arange(4, dtype=np.uint32).reshape(2, 2)
        CPU.apply("threefry2x32", {}, words, words)


# ---- previously failed --------------------------------------------------------------------------


def one_axis(**changes: int) -> dict[str, Any]:
    """Attributes of windows along one axis."""
    attrs = {"kernel": 1, "strides": 1, "dilation": 1, "low": 0, "high": 0, **changes}
    return {name: (n,) for name, n in attrs.items()}


@each
def test_fold_with_far_padding(how: str) -> None:
    attrs = one_axis(sizes=5, strides=1 << 60, low=1 << 61)
    assert run(how, "fold", attrs, [[10.0, 20, 30]]).tolist() == [30, 0, 0, 0, 0]
    attrs = one_axis(sizes=3, kernel=2, strides=2, dilation=2, low=2, high=1)
    x = [[1.0, 2], [4, 8]]
    assert run(how, "fold", attrs, x).tolist() == [2 + 4, 0, 8]


@each
@pytest.mark.parametrize("name", ["strides", "dilation", "low", "high"])
@pytest.mark.parametrize("n", [1 << 62, (1 << 63) - 1, 1 << 70])
def test_windows_beyond_64_bits_are_refused(name: str, n: int, how: str) -> None:
    for op, extra in (("fold", {"sizes": 5}), ("unfold", {})):
        with pytest.raises(ProgramError, match=r"must be below 2\*\*62"):
            run(how, op, one_axis(**{name: n}, **extra), np.ones((1, 5)))


@each
def test_unfold_of_one_far_window(how: str) -> None:
    far = (1 << 62) - 1
    x = np.arange(5.0)
    assert run(how, "unfold", one_axis(strides=far), x).tolist() == [[0]]
    assert run(how, "unfold", one_axis(dilation=far), x).tolist() == [x.tolist()]
    with pytest.raises(MemoryLimitError, match="unfold"):
        run(how, "unfold", one_axis(strides=far, low=far - 5), x)


@each
@pytest.mark.parametrize("falling", [False, True])
def test_sorting_half_precision_with_many_infinities(falling: bool, how: str) -> None:
    """Some are left in the wrong place by NumPy's sort of float16 with AVX-512."""
    for seed in (2, 10, 24, 29):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=20_000).astype(np.float16)
        x[rng.random(x.size) < 0.03] = -INF
        x = -x if falling else x
        got = run(how, "sort", {"axis": 0, "descending": falling}, x)
        assert got.tolist() == sorted(x.tolist(), reverse=falling)
