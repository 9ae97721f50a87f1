"""Products in blocks: any sizes and strides, edges of tiles and panels, every number of half precision."""

from __future__ import annotations

import math
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backend.calls import LAYOUTS, OUT_LAYOUTS, Call, dot, junk, lay_out, operands
from tests.backend.test_loops import reference
from tests.tolerance import assert_close, tolerance

from einloom._base.options import options
from einloom.backend import blocked as planned
from einloom.backend.blocked import EVEN, LEAST, TILE, tile_of
from einloom.backend.cost_model import MODELS, CostModel
from einloom.backend.cpu import blocked, cpu
from einloom.backend.spec import ArraySpec, Axes

BACKEND = cpu()
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
SHAPES: list[tuple[str, Call]] = [
    ("one element", dot((1, 1), (1, 1), contracting=((1,), (0,)))),
    ("whole blocks", dot((8, 16), (16, 64), contracting=((1,), (0,)))),
    ("one more than blocks", dot((9, 17), (17, 65), contracting=((1,), (0,)))),
    ("one less than blocks", dot((7, 15), (15, 63), contracting=((1,), (0,)))),
    ("more rows than columns", dot((65, 7), (7, 9), contracting=((1,), (0,)))),
    ("depth of two panels and one", dot((5, 513), (513, 6), contracting=((1,), (0,)))),
    ("rows of two panels and one", dot((257, 3), (3, 300), contracting=((1,), (0,)))),
    ("nothing contracted", dot((20,), (30,))),
    ("a sum of products", dot((300,), (300,), contracting=((0,), (0,)))),
    ("batch", dot((3, 5, 4), (3, 4, 20), ((0,), (0,)), ((2,), (1,)))),
    ("batch last", dot((5, 4, 3), (4, 20, 3), ((2,), (2,)), ((1,), (0,)))),
    (
        "axes of all kinds, interleaved",
        dot((2, 3, 4, 3, 2), (3, 5, 2, 2, 4), ((0,), (3,)), ((3, 2), (0, 4))),
    ),
]


def blocks(call: Call, *arrays: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """By this engine, whatever the sizes."""
    with options(engine="blocked"):
        specs = call.specs(arrays[0].dtype)
        assert BACKEND.engine(call.op, call.attrs, specs) == "blocked"
        return np.asarray(BACKEND.apply(call.op, call.attrs, *arrays, out=out))


def near(got: np.ndarray, call: Call, lhs: np.ndarray, rhs: np.ndarray) -> None:
    """Exact for integers; else as near as sums of so many terms are."""
    if lhs.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, reference(call.attrs, lhs, rhs))
        return
    to = np.clongdouble if lhs.dtype.kind == "c" else np.longdouble
    wide = lhs.astype(to), rhs.astype(to)
    want, scale = reference(call.attrs, *wide), reference(call.attrs, *map(abs, wide))
    terms = math.prod(lhs.shape[axis] for axis in call.attrs["contracting"][0])
    assert_close(got, want, scale, tolerance(lhs.dtype, terms, 2))


def longer(*names: str) -> list[Any]:
    """Dtypes whose kernels, one more compiled for each, are for the longer run."""
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("dtype", ["float32", *longer("int64", "float64")])
def test_shapes(dtype: str, rng: np.random.Generator) -> None:
    for what, call in SHAPES:
        for k, layout in enumerate(LAYOUTS):
            arrays = operands(call, dtype, layout, rng)
            to = OUT_LAYOUTS[k % len(OUT_LAYOUTS)]
            out = junk(call.output(np.dtype(dtype)), to, rng)
            near(blocks(call, *arrays), call, *arrays)
            assert blocks(call, *arrays, out=out) is out, what
            near(out, call, *arrays)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Integers of the whole range, or numbers around 0."""
    if dtype == "int64":
        return rng.integers(-(2**63), 2**63 - 1, shape)
    return rng.standard_normal(shape).astype(dtype)


SIZES = st.lists(st.integers(1, 5), max_size=2).map(tuple)


@pytest.mark.parametrize("dtype", ["float32", *longer("int64", "float64")])
@settings(max_examples=100)
@given(
    groups=st.tuples(*[SIZES] * 4),
    tile=st.sampled_from([(1, 1), (3, 5), (8, 64), (512, 256)]),
    panel=st.sampled_from([(4, 8), (4, 24), (128, 2048)]),
    layouts=st.tuples(*[st.sampled_from(LAYOUTS)] * 2, st.sampled_from(OUT_LAYOUTS)),
    threads=st.sampled_from([1, 3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_sizes_and_strides(
    dtype: str,
    groups: tuple[tuple[int, ...], ...],
    tile: tuple[int, int],
    panel: tuple[int, int],
    layouts: tuple[str, str, str],
    threads: int,
    seed: int,
) -> None:
    """Axes of each role in any order, on both sides; tiles and panels that have edges everywhere."""
    rng = np.random.default_rng(seed)
    batch, left, right, contracted = groups
    axes, shapes = [], []
    for free in (left, right):
        sizes = np.array(batch + contracted + free, int)
        order = rng.permutation(len(sizes))
        shapes.append(tuple(int(n) for n in sizes[order]))
        axes.append(tuple(int(i) for i in np.argsort(order)))
    b, k = len(batch), len(batch + contracted)
    places = tuple(x[:b] for x in axes), tuple(x[b:k] for x in axes)
    call = dot(*shapes, *places)
    lhs, rhs = (
        lay_out(numbers(rng, shape, dtype), layout, rng)
        for shape, layout in zip(shapes, layouts, strict=False)
    )
    out = junk(call.output(np.dtype(dtype)), layouts[2], rng)
    with pytest.MonkeyPatch.context() as patch, options(threads=threads):
        patch.setattr(blocked, "TILE", tile)
        patch.setattr(blocked, "TILE_OF_SUMS", tile)
        patch.setattr(blocked, "PANEL", panel)
        patch.setattr(planned, "LEAST", 0)
        assert blocks(call, lhs, rhs, out=out) is out
    near(out, call, lhs, rhs)


PIECES: list[
    Call
] = [  # lines in two pieces, which are not whole at the end; contracted elements last in both
    dot((4, 3, 5, 28), (6, 4, 20, 5), contracting=((0, 2), (1, 3))),
    dot((7, 30, 4), (5, 7, 28), contracting=((0,), (1,))),
    dot((3, 44, 20), (20, 50, 3), contracting=((0, 2), (2, 0))),
]
LINES: list[Call] = [  # axes that are walked in pieces: each array has another fastest axis
    dot((40, 16, 3, 32), (32, 3, 36, 16), contracting=((1, 2, 3), (3, 1, 0))),
    dot((32, 3, 24, 20), (24, 40, 16), contracting=((2,), (0,))),
    dot((20, 24, 3, 32), (16, 40, 24), contracting=((1,), (2,))),
    dot((3, 100, 50), (3, 90, 50), contracting=((0, 2), (0, 2))),
    dot((2,) * 12, (2,) * 11, contracting=((0, 11, 4, 7, 9), (3, 10, 0, 1, 8))),
    dot((2, 100, 7, 23), (2, 7, 90, 23), ((0,), (0,)), ((3, 2), (3, 1))),
    *PIECES,
]


@pytest.mark.parametrize("dtype", ["float32", *longer("int64", "int32", "float16", "float64")])
def test_lines_and_transposed_blocks(dtype: str, rng: np.random.Generator) -> None:
    """Packed by lines, by transposed blocks along and across strips, and one by one between them."""
    for call in LINES:
        for layout in ("C", "unaligned"):
            lhs, rhs = operands(call, dtype, layout, rng)
            if dtype == "float16":
                wide = (x.astype(np.float64) for x in (lhs, rhs))
                np.testing.assert_allclose(
                    blocks(call, lhs, rhs), reference(call.attrs, *wide), rtol=2e-3, atol=0.1
                )
                continue
            got = blocks(call, lhs, rhs)
            near(got, call, lhs, rhs)
            for to in OUT_LAYOUTS:
                out = junk(call.output(np.dtype(dtype)), to, rng)
                np.testing.assert_array_equal(blocks(call, lhs, rhs, out=out), got)


@pytest.mark.parametrize("dtype", ["float32", *longer("float64")])
def test_results_of_matrices_and_of_other_arrays(dtype: str, rng: np.random.Generator) -> None:
    """Sums in the result itself, with edges of blocks, tiles and panels; or in a buffer: to the same bits."""
    for m, n, k in ((40, 64, 30), (41, 65, 601), (7, 100, 20), (130, 15, 300)):
        call = dot((m, k), (k, n), contracting=((1,), (0,)))
        lhs, rhs = (x.astype(dtype) for x in operands(call, np.dtype(dtype), "C", rng))
        want = blocks(call, lhs, rhs)
        near(want, call, lhs, rhs)
        apart = np.empty((m, 2 * n), dtype)[:, ::2]  # no columns one after another
        np.testing.assert_array_equal(blocks(call, lhs, rhs, out=apart), want)
        with pytest.MonkeyPatch.context() as patch:
            for most in ("TILE", "TILE_OF_SUMS"):
                patch.setattr(blocked, most, (16, 32))
            np.testing.assert_array_equal(blocks(call, lhs, rhs), want)
            np.testing.assert_array_equal(blocks(call, lhs, rhs, out=apart), want)


@pytest.mark.parametrize("dtype", ["float32", *longer("float64")])
def test_results_whose_rows_and_columns_have_several_axes(
    dtype: str, rng: np.random.Generator
) -> None:
    """Whole blocks of them are rows of a matrix, or are not."""
    for rows, columns in (
        ((3, 16), (5, 32)),
        ((3, 16), (5, 24)),
        ((5, 12), (3, 32)),
        ((3, 32), (70,)),
    ):
        call = dot((*rows, 37), (37, *columns), contracting=((len(rows),), (0,)))
        lhs, rhs = operands(call, np.dtype(dtype), "C", rng)
        shape = call.output(np.dtype(dtype)).shape
        order = (*range(len(rows), len(shape) - 1), *range(len(rows)), len(shape) - 1)
        out = np.full([shape[axis] for axis in order], np.nan, dtype).transpose(np.argsort(order))
        near(blocks(call, lhs, rhs, out=out), call, lhs, rhs)
        near(blocks(call, lhs, rhs), call, lhs, rhs)


def plans(m: int, n: int, k: int, layouts: tuple[Axes, Axes], dtype: str, model: CostModel) -> str:
    """The engine for matrices [m, k] and [k, n] whose axes lie in these orders."""
    MODELS.use(model)
    specs = tuple(
        ArraySpec(np.dtype(dtype), shape, layout)
        for shape, layout in zip(((m, k), (k, n)), layouts, strict=True)
    )
    return BACKEND.engine("dot_general", {"contracting": ((1,), (0,)), "batch": ((), ())}, specs)


def test_when_they_are_chosen() -> None:
    """As shipped, what BLAS reads as it lies is left to it; where blocks are faster, it is not if large."""
    plain, general = ((0, 1), (0, 1)), CostModel()
    fast = CostModel(blocks=1.17, blocks_single=1.0)
    try:
        for side in (100, 256, 384, 512, 640, 1000, 2000):
            assert plans(side, side, side, plain, "float64", general) == "gemm"
            assert plans(side, side, side, plain, "float32", fast) == "gemm"
        assert plans(1000, 1000, 1000, plain, "float64", fast) == "blocked"
        assert plans(2000, 2000, 2000, plain, "float64", fast) == "blocked"
        assert plans(64, 64, 64, plain, "float64", fast) == "gemm"
        MODELS.use(fast)  # a large result of short sums whose axes are short, with copies for BLAS
        short = ((24, 24, 24, 24, 24), (24, 24))
        specs = tuple(ArraySpec(np.dtype("float64"), shape) for shape in short)
        attrs: Any = {"contracting": ((1,), (1,)), "batch": ((), ())}
        assert BACKEND.engine("dot_general", attrs, specs) != "blocked"
        # six labels, of which BLAS needs copies of both operands
        six: tuple[Any, ...] = (32, 32, 32, 28), (32, 32, 32, 32)
        for dtype, model, engine in (
            ("float64", fast, "blocked"),
            ("float32", fast, "blocked"),
            ("float32", CostModel(blocks_single=1.0), "blocked"),  # what is shipped for Zen 4
            ("float32", general, "gemm"),
        ):
            MODELS.use(model)
            specs = tuple(ArraySpec(np.dtype(dtype), shape) for shape in six)
            attrs = {"contracting": ((0, 2), (3, 1)), "batch": ((), ())}
            assert BACKEND.engine("dot_general", attrs, specs) == engine
    finally:
        MODELS.use(None)


@pytest.mark.parametrize("dtype", ["float32", *longer("float64")])
def test_infinite_and_nan(dtype: str) -> None:
    """They reach the sums that they are in, and no others, edges of blocks included."""
    call = dot((21, 9), (9, 35), contracting=((1,), (0,)))
    lhs, rhs = np.ones((21, 9), dtype), np.ones((9, 35), dtype)
    lhs[20, 3], lhs[4, 0], rhs[5, 34] = np.inf, np.nan, -np.inf
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(blocks(call, lhs, rhs), np.einsum("ik,kj->ij", lhs, rhs))


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[] if x == "uint8" else pytest.mark.slow) for x in INTEGERS]
)
def test_integers_wrap(name: str, rng: np.random.Generator) -> None:
    """Sums modulo 2**bits of the whole range, and of its ends alone."""
    ends = np.iinfo(name)
    call = dot((40, 600), (600, 50), contracting=((1,), (0,)))
    for low, high in ((ends.min, ends.max), (ends.min, ends.min), (ends.max, ends.max)):
        lhs, rhs = (
            rng.integers(low, high, x.shape, name, True) for x in call.specs(np.dtype(name))
        )
        exact = lhs.astype(object) @ rhs.astype(object) % 2 ** (8 * lhs.itemsize)
        want = exact.astype(f"u{lhs.itemsize}").view(name)
        np.testing.assert_array_equal(blocks(call, lhs, rhs), want)


def test_truth(rng: np.random.Generator) -> None:
    """A count that comes round to 0 is true; rows that are true at once or never; bytes that are not 0."""
    call = dot((6, 70000), (70000, 5), contracting=((1,), (0,)))
    ones = np.ones((6, 70000), bool)
    ones[1] = False
    ones[2, :65536] = False
    rare = rng.random((70000, 5)) < 1e-4
    rare[:, 2] = False
    for rhs in (np.ones((70000, 5), bool), rare):
        np.testing.assert_array_equal(blocks(call, ones, rhs), ones @ rhs)
    small = dot((3, 4), (4, 5), contracting=((1,), (0,)))
    twos = np.full((3, 4), 2, np.uint8).view(bool)
    fours = np.full((4, 5), 4, np.uint8).view(bool)
    assert blocks(small, twos, fours).view(np.uint8).tolist() == [[1] * 5] * 3


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=str)
def test_every_half_precision(dtype: Any) -> None:
    """Every number times some: a product of two is exact in float32, so one rounding is checked."""
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    some = np.array([1, -1, 0, 0.5, 3, 1.0009765625, 2**-9, 6e-5, 3000, np.inf, np.nan]).astype(
        dtype
    )
    call = dot((1 << 16, 1), (1, some.size), contracting=((1,), (0,)))
    with np.errstate(all="ignore"):
        want = (every[:, None].astype(np.float32) * some.astype(np.float32)).astype(dtype)
    is_nan = np.isnan(want.astype(np.float32))
    is_zero = want == 0  # of either sign: a sum begins with 0, and 0 - 0 = 0
    for step in (1, -1):  # by lines, and one by one
        got = blocks(call, every[::step, None], some[None])[::step]
        np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), is_nan)
        np.testing.assert_array_equal(got == 0, is_zero)
        rest = ~(is_nan | is_zero)
        np.testing.assert_array_equal(got[rest].view(np.uint16), want[rest].view(np.uint16))


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=str)
def test_half_precisions_add_up_in_float32(dtype: Any, rng: np.random.Generator) -> None:
    """4000 ones are 4000, where float16 would stop at 2048; sums are as near as those of float32."""
    call = dot((20, 4000), (4000, 30), contracting=((1,), (0,)))
    ones = np.ones((20, 4000), dtype), np.ones((4000, 30), dtype)
    assert (blocks(call, *ones) == np.array(4000).astype(dtype)).all()
    lhs, rhs = operands(call, dtype, "C", rng)
    wide = lhs.astype(np.float64), rhs.astype(np.float64)
    scale = abs(wide[0]) @ abs(wide[1])
    assert_close(blocks(call, lhs, rhs), wide[0] @ wide[1], scale, tolerance(dtype, 4000, 2))


@pytest.mark.parametrize("name", ["int64", "float16", "float32", "float64"])
def test_same_bits_for_any_number_of_threads(name: str, rng: np.random.Generator) -> None:
    call = dot((3, 70, 601), (3, 601, 90), ((0,), (0,)), ((2,), (1,)))
    arrays = operands(call, name, "C", rng)
    results = []
    for threads in (1, 2, 3, 8):
        with options(threads=threads):
            results.append(blocks(call, *arrays).tobytes())
    assert len(set(results)) == 1


def test_one_kernel_in_eight_threads(rng: np.random.Generator) -> None:
    """Tables for the strides of one thread are never used on the operands of another."""
    call = dot((3, 2, 40), (3, 40, 20), ((0,), (0,)), ((2,), (1,)))
    dtype = np.dtype("int64")
    with options(engine="blocked"):
        kernel = BACKEND.bind(call.op, call.attrs, call.specs(dtype), call.outputs(dtype))
    sets = [operands(call, dtype, layout, rng) for layout in LAYOUTS]
    wants = [reference(call.attrs, *arrays) for arrays in sets]

    def work(n: int) -> None:
        for _ in range(100):
            np.testing.assert_array_equal(kernel(*sets[n]), wants[n])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(len(sets))))
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("name", ["bool", "int64", "float16", "float64"])
def test_scratch_is_bounded(name: str) -> None:
    """Panels and sums of each thread, for operands that are not copied."""
    call = dot((4096, 4096), (4096, 4096), contracting=((1,), (0,)))
    specs = call.specs(np.dtype(name))
    with options(engine="blocked"):
        one, eight = (cpu(threads=n).scratch_bytes(call.op, call.attrs, specs) for n in (1, 8))
    copies = sum(spec.nbytes for spec in specs)  # were their strides no whole elements
    assert 0 < one - copies < 4 << 20
    assert eight - copies == 8 * (one - copies)


@pytest.mark.parametrize("threads", [1, 2, 3, 6, 12, 16, 64])
@pytest.mark.parametrize("block", [(4, 16), (4, 32), (8, 16), (16, 32)])
def test_tiles_are_shared_out_evenly(block: tuple[int, int], threads: int) -> None:
    """Whole blocks, and no more of them than are needed for that."""
    for batch, m, n, k in (
        (1, 1024, 1024, 1024), (1, 128, 128, 2000), (1, 64, 64, 4096), (1, 256, 256, 4096),
        (1, 3000, 1000, 500), (1, 16, 5000, 5000), (1, 5000, 16, 5000), (7, 200, 300, 400), (1, 1, 1, 1),
    ):  # fmt: skip
        rows, columns = tile_of(batch, m, n, k, block, threads, TILE)
        assert 0 < rows <= min(m, TILE[0])
        assert 0 < columns <= min(n, TILE[1])
        assert rows == m or rows % block[0] == 0
        assert columns == n or columns % block[1] == 0
        tiles = batch * -(-m // rows) * -(-n // columns)
        is_even = -(-tiles // threads) * threads <= EVEN * tiles
        could_be_cut = rows > 8 * block[0] or columns > 4 * block[1]
        assert is_even or not could_be_cut or rows * columns * k <= LEAST
    assert tile_of(1, 1024, 1024, 1024, (8, 16), 2, TILE) == (1024, 512)
    assert tile_of(1, 1024, 1024, 1024, (8, 16), 3, TILE) == (512, 256)
    # previously failed: rows were left whole beside few columns
    assert tile_of(1, 128, 128, 2000, (4, 32), 2, TILE) == (64, 128)
