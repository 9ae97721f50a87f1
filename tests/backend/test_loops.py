"""The compiled loop nest: any sizes, any strides, tiles that split, several threads at once."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backend.calls import LAYOUTS, OUT_LAYOUTS, dot, junk, lay_out, operands

from einloom._base.options import options
from einloom.backend.catalogue import dot_dims
from einloom.backend.cpu import cpu, loops
from einloom.backend.cpu.strided import merge_axes, offsets
from einloom.backend.spec import ArraySpec

BACKEND = cpu()
SIZES = st.lists(st.integers(1, 5), max_size=3).map(tuple)
SEEDS = st.integers(0, 2**32 - 1)


def reference(attrs: dict[str, Any], lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """sum_k lhs[b, m, k] * rhs[b, n, k], wrapping."""
    d = dot_dims(attrs, lhs.shape, rhs.shape)
    left = lhs.transpose(d.lhs_batch + d.lhs_free + d.lhs_contracting)
    right = rhs.transpose(d.rhs_batch + d.rhs_free + d.rhs_contracting)
    shape = left.shape[: len(d.lhs_batch + d.lhs_free)] + right.shape[len(d.lhs_batch) :]
    total = np.zeros((d.batch, d.m, d.n), lhs.dtype)
    for k in range(d.k):
        x = left.reshape(d.batch, d.m, d.k)[:, :, None, k]
        total += x * right.reshape(d.batch, d.n, d.k)[:, None, :, k]
    return total.reshape(shape[: len(shape) - len(d.rhs_contracting)])


def contract(
    attrs: dict[str, Any], lhs: np.ndarray, rhs: np.ndarray, out: np.ndarray | None = None
) -> np.ndarray:
    """By the loop nest, whatever the sizes."""
    with options(small=0, engine="loops"):
        specs = tuple(ArraySpec(x.dtype, x.shape) for x in (lhs, rhs))
        assert BACKEND.engine("dot_general", attrs, specs) == "loops"
        return np.asarray(BACKEND.apply("dot_general", attrs, lhs, rhs, out=out))


@settings(max_examples=150)
@given(
    batch=SIZES,
    left=SIZES,
    right=SIZES,
    contracted=SIZES,
    tile=st.sampled_from([1, 3, 8, 64, 4096]),
    layouts=st.tuples(*[st.sampled_from(LAYOUTS)] * 2, st.sampled_from(OUT_LAYOUTS)),
    seed=SEEDS,
)
def test_any_sizes_and_strides(
    batch: tuple[int, ...],
    left: tuple[int, ...],
    right: tuple[int, ...],
    contracted: tuple[int, ...],
    tile: int,
    layouts: tuple[str, str, str],
    seed: int,
) -> None:
    """Axes of each role in any order, on both sides; int64, so that sums are exact."""
    rng = np.random.default_rng(seed)
    axes, shapes = [], []
    for free in (left, right):
        sizes = np.array(batch + contracted + free, int)
        order = rng.permutation(len(sizes))
        shapes.append(tuple(int(n) for n in sizes[order]))
        axes.append(tuple(int(i) for i in np.argsort(order)))
    b, k = len(batch), len(batch + contracted)
    attrs = {
        "batch": tuple(places[:b] for places in axes),
        "contracting": tuple(places[b:k] for places in axes),
    }
    call = dot(*shapes, attrs["batch"], attrs["contracting"])
    lhs, rhs = (
        lay_out(rng.integers(-(2**63), 2**63 - 1, shape), layout, rng)
        for shape, layout in zip(shapes, layouts, strict=False)
    )
    out = junk(call.output(np.dtype("int64")), layouts[2], rng)
    want = reference(attrs, lhs, rhs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "TILE", tile)
        np.testing.assert_array_equal(contract(attrs, lhs, rhs), want)
        assert contract(attrs, lhs, rhs, out) is out
    np.testing.assert_array_equal(out, want)


LONG: list[tuple[str, tuple[int, ...], tuple[int, ...], Any, Any]] = [
    # rows longer than a tile, of prime length, and lengths that a tile divides or does not
    ("row of one tile", (3, 2), (2, 4096), ((), ()), ((1,), (0,))),
    ("row of two tiles", (3, 2), (2, 8192), ((), ()), ((1,), (0,))),
    ("row with divisors", (2, 3), (3, 5000), ((), ()), ((1,), (0,))),
    ("prime row", (2, 3), (3, 4099), ((), ()), ((1,), (0,))),
    ("twice a prime", (2, 3), (3, 2 * 4099), ((), ()), ((1,), (0,))),
    ("square of a prime", (1, 2), (2, 67 * 67), ((), ()), ((1,), (0,))),
    ("prime batch", (4099, 2), (4099, 3), ((0,), (0,)), ((), ())),
    ("batch alone", (8209,), (8209,), ((0,), (0,)), ((), ())),
    ("prime batch of matrices", (1009, 2, 3), (1009, 3, 2), ((0,), (0,)), ((2,), (1,))),
    ("rows that fill a tile", (65, 2), (2, 63), ((), ()), ((1,), (0,))),
    ("deepest contraction", (2, 4096), (4096, 3), ((), ()), ((1,), (0,))),
    ("scalar result", (64, 64), (64, 64), ((), ()), ((0, 1), (1, 0))),
]


@pytest.mark.parametrize(
    ("lhs", "rhs", "batch", "contracting"), [row[1:] for row in LONG], ids=[row[0] for row in LONG]
)
@pytest.mark.parametrize("threads", [1, 3])
def test_tiles(
    lhs: tuple[int, ...],
    rhs: tuple[int, ...],
    batch: Any,
    contracting: Any,
    threads: int,
    rng: np.random.Generator,
) -> None:
    call = dot(lhs, rhs, batch, contracting)
    for layout in ("C", "transposed", "reversed", "sliced"):
        arrays = operands(call, "int64", layout, rng)
        want = reference(call.attrs, *arrays)
        out = junk(call.output(np.dtype("int64")), layout, rng)
        with options(threads=threads):
            np.testing.assert_array_equal(contract(call.attrs, *arrays), want)
            assert contract(call.attrs, *arrays, out) is out
        np.testing.assert_array_equal(out, want)


def test_same_bits_for_any_number_of_threads(rng: np.random.Generator) -> None:
    call = dot((1000, 5, 7), (1000, 7, 3), ((0,), (0,)), ((2,), (1,)))
    arrays = operands(call, "float64", "C", rng)
    results = []
    for threads in (1, 2, 3, 8):
        with options(threads=threads):
            results.append(contract(call.attrs, *arrays).tobytes())
    assert len(set(results)) == 1


def test_one_kernel_for_operands_of_changing_strides(rng: np.random.Generator) -> None:
    """Tables are kept for the strides last seen; others get their own."""
    call = dot((30, 2, 3), (30, 3, 2), ((0,), (0,)), ((2,), (1,)))
    dtype = np.dtype("int64")
    with options(small=0, engine="loops"):
        kernel = BACKEND.bind(call.op, call.attrs, call.specs(dtype), call.outputs(dtype))
    for layout in LAYOUTS * 2:
        arrays = operands(call, dtype, layout, rng)
        np.testing.assert_array_equal(kernel(*arrays), reference(call.attrs, *arrays))


def test_one_kernel_in_eight_threads(rng: np.random.Generator) -> None:
    """Tables for the strides of one thread are never used on the operands of another."""
    call = dot((3, 2, 4), (3, 4, 2), ((0,), (0,)), ((2,), (1,)))
    dtype = np.dtype("int64")
    with options(small=0, engine="loops"):
        kernel = BACKEND.bind(call.op, call.attrs, call.specs(dtype), call.outputs(dtype))
    sets = [operands(call, dtype, layout, rng) for layout in LAYOUTS]
    wants = [reference(call.attrs, *arrays) for arrays in sets]

    def work(n: int) -> None:
        for _ in range(200):
            np.testing.assert_array_equal(kernel(*sets[n]), wants[n])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(len(sets))))
    finally:
        sys.setswitchinterval(interval)


# ---- the tables --------------------------------------------------------------------------------

AXES = st.lists(
    st.tuples(st.integers(1, 5), st.integers(-20, 20), st.integers(-20, 20)), max_size=4
)


def walk(axes: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Offsets of all elements, last axis fastest."""
    return [
        (
            sum(i * axis[1] for i, axis in zip(index, axes, strict=True)),
            sum(i * axis[2] for i, axis in zip(index, axes, strict=True)),
        )
        for index in np.ndindex(*(n for n, _, _ in axes))
    ]


@given(AXES)
def test_offsets(axes: list[tuple[int, int, int]]) -> None:
    assert [tuple(column) for column in offsets(axes).T.tolist()] == walk(axes)


@given(AXES)
def test_merged_axes_walk_the_same_elements(axes: list[tuple[int, int, int]]) -> None:
    merged = merge_axes(axes)
    assert walk(merged) == walk(axes)
    assert all(n > 1 for n, _, _ in merged)
    for outer, inner in pairwise(merged):
        assert outer[1:] != (inner[0] * inner[1], inner[0] * inner[2])
