"""Products in strips: any sizes and strides, edges of tiles and strips, and when they are chosen."""

from __future__ import annotations

import ctypes
import mmap
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backend.calls import LAYOUTS, OUT_LAYOUTS, Call, dot, junk, lay_out, operands
from tests.backend.test_blocked import LINES, PIECES, SHAPES, SIZES, blocks, near
from tests.backend.test_loops import reference

from einloom._base.options import options
from einloom.backend.catalogue import known_dims
from einloom.backend.contraction import Contraction, contraction_of, orders_of
from einloom.backend.cost_model import FAR, CostModel
from einloom.backend.cpu import cpu, strips
from einloom.backend.cpu.address import address
from einloom.backend.matrices import plan_matrices
from einloom.backend.products import plan_decided, plan_products
from einloom.backend.spec import ArraySpec
from einloom.backend.strips import plan_strips, share_length

BACKEND = cpu()
NOBODY = 0  # PROT_NONE
DTYPES = [
    "float64",
    *(
        pytest.param(dtype, marks=pytest.mark.slow)
        for dtype in ("float32", "complex64", "complex128")
    ),
]
MORE: list[tuple[str, Call]] = [
    ("a strip read where it lies", dot((5, 40), (40, 48), contracting=((1,), (0,)))),
    ("and one that is packed", dot((5, 40), (40, 53), contracting=((1,), (0,)))),
    ("groups of strips", dot((30, 70), (70, 1100), contracting=((1,), (0,)))),
    ("the same of columns", dot((1100, 70), (70, 30), contracting=((1,), (0,)))),
    ("contracted elements last in both", dot((30, 70), (50, 70), contracting=((1,), (1,)))),
    ("first in both", dot((300, 30), (300, 50), contracting=((0,), (0,)))),
    ("three parts of contracted elements", dot((9, 600), (600, 25), contracting=((1,), (0,)))),
    *(("a vector", dot(*x)) for x in (((7, 40), (40,), ((), ()), ((1,), (0,))),)),
    ("long sums of a tile", dot((24, 9000), (20, 9000), contracting=((1,), (1,)))),
    ("of a tile in its own order", dot((3, 700, 17), (700, 3, 31), contracting=((0, 1), (1, 0)))),
    ("a number for each matrix", dot((5, 40), (5, 40), ((0,), (0,)), ((1,), (1,)))),
]


def in_strips(call: Call, *arrays: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """By this engine, whatever the sizes."""
    with options(engine="strips"):
        assert BACKEND.engine(call.op, call.attrs, call.specs(arrays[0].dtype)) == "strips"
        return np.asarray(BACKEND.apply(call.op, call.attrs, *arrays, out=out))


@pytest.mark.parametrize("dtype", DTYPES)
def test_shapes(dtype: str, rng: np.random.Generator) -> None:
    for what, call in (*SHAPES, *MORE):
        for k, layout in enumerate(LAYOUTS):
            arrays = operands(call, dtype, layout, rng)
            to = OUT_LAYOUTS[k % len(OUT_LAYOUTS)]
            out = junk(call.output(np.dtype(dtype)), to, rng)
            near(in_strips(call, *arrays), call, *arrays)
            assert in_strips(call, *arrays, out=out) is out, what
            near(out, call, *arrays)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("packs", [(True, False), (False, True), (True, True)])
def test_copies(dtype: str, packs: tuple[bool, bool], rng: np.random.Generator) -> None:
    """Operands that are copied first, from any strides and beside results of any."""
    for k, (what, call) in enumerate((*SHAPES, *MORE)):
        arrays = operands(call, dtype, LAYOUTS[k % len(LAYOUTS)], rng)
        specs, output = call.specs(np.dtype(dtype)), call.output(np.dtype(dtype))
        dims = known_dims(call.attrs, *(x.shape for x in specs))
        if 0 in (dims.batch, dims.m, dims.n, dims.k):
            continue
        order = tuple(int(axis) for axis in rng.permutation(len(output.shape)))
        for spec in (output, ArraySpec(output.dtype, output.shape, order)):
            got = strips.bind_strips(dims, specs, spec, packs)(*arrays)
            near(got, call, *arrays)
            assert got.shape == output.shape, what


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_past_the_caches(dtype: str, rng: np.random.Generator) -> None:
    """Whole lines of results that start on cache lines, others as ever, in several parts of sums too."""
    for m, n, k in ((70, 96, 30), (9, 40, 8), (33, 48, 300), (20, 1030, 5)):
        call = dot((m, k), (k, n), contracting=((1,), (0,)))
        arrays = operands(call, dtype, "C", rng)
        for offset in (0, 1):
            room = np.full(m * n + 128, np.nan, dtype)
            start = -room.ctypes.data % 64 // room.itemsize + offset
            out = room[start : start + m * n].reshape(m, n)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(strips, "FAR", 0)
                assert in_strips(call, *arrays, out=out) is out
            near(out, call, *arrays)
            assert np.isnan(room[:start]).all()
            assert np.isnan(room[start + m * n :]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_no_core_holds(dtype: str, rng: np.random.Generator) -> None:
    """Results are the same where the next strips and where sums go are brought near: next groups, next
    products of a batch (one thread has them all) with strides of all kinds, several parts of sums, and
    strips that are read where they lie."""
    for batch in (((), ()), ((0,), (0,)), ((0, 1), (1, 0))):
        ahead = (3, 2)[: len(batch[0])]
        contracting = (len(ahead) + 1,), (len(ahead),)
        for m, n, k in ((30, 110, 90), (50, 400, 70), (26, 90, 300), (9, 48, 40)):
            call = dot((*ahead, m, k), (*ahead[::-1], k, n), batch, contracting)
            for layout in ("C", "F", "reversed", "unaligned"):
                arrays = operands(call, dtype, layout, rng)
                for threads in (1, 2):
                    with pytest.MonkeyPatch.context() as patch, options(threads=threads):
                        patch.setattr(strips, "OWN_CACHE", -1)
                        near(in_strips(call, *arrays), call, *arrays)
        if ahead:  # the same operand for each of a batch
            lhs, rhs = operands(call, dtype, "C", rng)
            rhs = np.broadcast_to(rhs[(0,) * len(ahead)], rhs.shape)
            with pytest.MonkeyPatch.context() as patch, options(threads=1):
                patch.setattr(strips, "OWN_CACHE", -1)
                near(in_strips(call, lhs, rhs), call, lhs, rhs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lines_and_turned_lines(dtype: str, rng: np.random.Generator) -> None:
    for call in LINES:
        for layout in ("C", "unaligned"):
            arrays = operands(call, dtype, layout, rng)
            near(in_strips(call, *arrays), call, *arrays)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=100)
@given(
    groups=st.tuples(*[SIZES] * 4),
    tile=st.sampled_from([(1, 1), (3, 5), (8, 24), (256, 512)]),
    part=st.sampled_from([1, 3, 256]),
    layouts=st.tuples(*[st.sampled_from(LAYOUTS)] * 2, st.sampled_from(OUT_LAYOUTS)),
    threads=st.sampled_from([1, 3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_sizes_and_strides(
    dtype: str,
    groups: tuple[tuple[int, ...], ...],
    tile: tuple[int, int],
    part: int,
    layouts: tuple[str, str, str],
    threads: int,
    seed: int,
) -> None:
    """Axes of each role in any order, on both sides; tiles and strips that have edges everywhere."""
    rng = np.random.default_rng(seed)
    batch, left, right, contracted = groups
    axes, shapes = [], []
    for free in (left, right):
        sizes = np.array(batch + contracted + free, int)
        order = rng.permutation(len(sizes))
        shapes.append(tuple(int(n) for n in sizes[order]))
        axes.append(tuple(int(i) for i in np.argsort(order)))
    b, k = len(batch), len(batch + contracted)
    call = dot(*shapes, tuple(x[:b] for x in axes), tuple(x[b:k] for x in axes))
    lhs, rhs = (
        lay_out(rng.standard_normal(shape).astype(dtype), layout, rng)
        for shape, layout in zip(shapes, layouts, strict=False)
    )
    out = junk(call.output(np.dtype(dtype)), layouts[2], rng)
    with pytest.MonkeyPatch.context() as patch, options(threads=threads):
        patch.setattr(strips, "TILE", tile)
        patch.setattr(strips, "PART", part)
        patch.setattr(strips, "is_alone", lambda *_: False)
        patch.setattr(strips, "LEAST", 1)
        assert in_strips(call, lhs, rhs, out=out) is out
    near(out, call, lhs, rhs)


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 16, 64])
@pytest.mark.parametrize("width", [12, 24, 48])
@pytest.mark.parametrize(
    ("batch", "m", "n", "k"),
    [
        *(
            (1, 300, 21, 400),
            (1, 21, 300, 400),
            (1, 256, 256, 256),
            (3, 150, 700, 64),
            (1, 2000, 90, 64),
        ),
        *((31, 64, 64, 64), (7, 48, 48, 52), (1, 1000, 40, 20), (1, 1, 100000, 100), (1, 1, 1, 1)),
    ],
)
def test_tiles_are_few_and_even(
    batch: int, m: int, n: int, k: int, width: int, threads: int
) -> None:
    """Each packs strips for itself, so none is smaller than it must be."""
    rows, columns = strips.strip_tile(batch, m, n, k, width, threads)
    assert 0 < rows <= min(m, strips.TILE[0])
    assert 0 < columns <= min(n, max(width, strips.TILE[1] + width))
    assert rows == m or rows % strips.HIGHEST == 0
    assert columns == n or columns % width == 0
    tiles = batch * -(-m // rows) * -(-n // columns)
    whole = strips.strip_tile(batch, m, n, k, width, 1)
    uncut = batch * -(-m // whole[0]) * -(-n // whole[1])
    assert tiles <= uncut * threads
    if tiles > uncut:
        assert tiles * strips.LEAST <= batch * m * n * k
        turns = -(-uncut // threads)
        assert turns * whole[0] * whole[1] * threads > strips.EVEN * batch * m * n


def test_tiles_by_size() -> None:
    of = strips.strip_tile
    assert of(1, 256, 256, 256, 24, 2) == (256, 144)  # by columns, whose strips one thread packs
    assert of(1, 300, 21, 400, 24, 2) == (154, 21)  # by rows, where columns are few
    assert of(1, 256, 512, 256, 24, 64) == (35, 72)  # by both
    # previously failed: tiles of seven rows, each of which packs all strips
    assert of(31, 64, 64, 64, 24, 8) == (64, 64)
    assert of(1, 512, 512, 512, 24, 7) == (91, 512)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("turned", [False, True])
def test_infinite_and_nan(dtype: str, turned: bool) -> None:
    """They reach the sums that they are in, and no others, edges of strips included."""
    lhs, rhs = np.ones((21, 9), dtype), np.ones((9, 35), dtype)
    lhs[20, 3], lhs[4, 0], rhs[5, 34] = np.inf, np.nan, -np.inf
    with np.errstate(all="ignore"):
        want = np.array([[np.sum(x * y) for y in rhs.T] for x in lhs])
    call = dot((21, 9), (35, 9) if turned else (9, 35), contracting=((1,), (1 if turned else 0,)))
    got = in_strips(call, lhs, np.ascontiguousarray(rhs.T) if turned else rhs)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("multiply", [in_strips, blocks])
def test_nothing_beyond_the_operands_is_written(multiply: Any, rng: np.random.Generator) -> None:
    """A result inside a larger array: its neighbours keep what they are, NaN among operands' stay out."""
    m, n, k = 11, 19, 13
    lhs, rhs = np.full((m + 2, k + 2), np.nan), np.full((k + 2, n + 2), np.nan)
    lhs[1:-1, 1:-1], rhs[1:-1, 1:-1] = rng.random((m, k)), rng.random((k, n))
    call = dot((m, k), (k, n), contracting=((1,), (0,)))
    for turned in (False, True):
        whole = np.full((n + 2, m + 2) if turned else (m + 2, n + 2), 7.0)
        out = (whole.T if turned else whole)[1:-1, 1:-1]
        multiply(call, lhs[1:-1, 1:-1], rhs[1:-1, 1:-1], out=out)
        np.testing.assert_allclose(out, lhs[1:-1, 1:-1] @ rhs[1:-1, 1:-1], rtol=1e-13)
        out[...] = 7
        assert (whole == 7).all()


@pytest.mark.skipif(sys.platform != "linux", reason="pages are protected by mprotect")
@pytest.mark.parametrize(
    ("multiply", "dtype"),
    [
        (in_strips, "float64"),
        (in_strips, "complex128"),
        (blocks, "float64"),  # there are none of complex numbers
        pytest.param(in_strips, "float32", marks=pytest.mark.slow),
        pytest.param(in_strips, "complex64", marks=pytest.mark.slow),
        pytest.param(blocks, "float32", marks=pytest.mark.slow),
    ],
)
def test_nothing_beyond_the_operands_is_read(
    multiply: Any, dtype: str, rng: np.random.Generator
) -> None:
    """Each operand ends where memory does that nobody may read."""
    libc, page = ctypes.CDLL(None), mmap.PAGESIZE
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def last(shape: tuple[int, ...]) -> np.ndarray:
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        whole = -(-count // page) * page
        memory = np.frombuffer(mmap.mmap(-1, whole + page), np.uint8)
        assert libc.mprotect(memory.ctypes.data + whole, page, NOBODY) == 0
        x = memory[whole - count : whole].view(dtype).reshape(shape)
        x[...] = rng.random(shape)
        return x

    for m, n, k in ((3, 20, 30), (40, 53, 30), (30, 9, 300), (20, 48, 17)):
        for left in ((m, k), (k, m)):
            for right in ((k, n), (n, k)):
                contracting = (left.index(k),), (right.index(k),)
                call = dot(left, right, contracting=contracting)
                lhs, rhs = last(left), last(right)
                near(multiply(call, lhs, rhs, out=last((m, n))), call, lhs, rhs)
    for call in PIECES:  # lines that are cut
        lhs, rhs = map(last, call.shapes)
        near(multiply(call, lhs, rhs, out=last(call.output(np.dtype(dtype)).shape)), call, lhs, rhs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "call",
    [
        dot((3, 270, 300), (3, 300, 90), ((0,), (0,)), ((2,), (1,))),
        # tiles are cut by columns for two threads, by rows and columns for eight, or by rows
        dot((256, 300), (300, 256), contracting=((1,), (0,))),
        dot((270, 300), (300, 90), contracting=((1,), (0,))),
        dot((24, 9000), (20, 9000), contracting=((1,), (1,))),  # shares of sums
    ],
)
def test_same_bits_for_any_number_of_threads(
    dtype: str, call: Call, rng: np.random.Generator
) -> None:
    arrays = operands(call, dtype, "C", rng)
    results = []
    for threads in (1, 2, 3, 8):
        with options(threads=threads):
            results.append(in_strips(call, *arrays).tobytes())
    assert len(set(results)) == 1


def test_one_kernel_in_eight_threads(rng: np.random.Generator) -> None:
    """Tables for the strides of one thread are never used on the operands of another."""
    call = dot((3, 2, 40), (3, 40, 20), ((0,), (0,)), ((2,), (1,)))
    dtype = np.dtype("float64")
    with options(engine="strips"):
        kernel = BACKEND.bind(call.op, call.attrs, call.specs(dtype), call.outputs(dtype))
    sets = [operands(call, dtype, layout, rng) for layout in LAYOUTS]
    wants = [reference(call.attrs, *arrays) for arrays in sets]

    def work(n: int) -> None:
        for _ in range(100):
            np.testing.assert_allclose(kernel(*sets[n]), wants[n], rtol=1e-9, atol=1e-12)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(len(sets))))
    finally:
        sys.setswitchinterval(interval)


def test_scratch_is_bounded() -> None:
    call = dot((4096, 4096), (4096, 4096), contracting=((1,), (0,)))
    specs = call.specs(np.dtype("float64"))
    with options(engine="strips"):
        one, eight = (cpu(threads=n).scratch_bytes(call.op, call.attrs, specs) for n in (1, 8))
    copies = 2 * specs[0].nbytes  # of operands, were their strides no whole elements
    assert 0 < one - copies < 1 << 20
    assert eight - copies <= 8 * (one - copies)


def test_long_sums_of_a_small_result_are_shared_out(rng: np.random.Generator) -> None:
    """As many are added up apart as are worth a thread, whatever the number of threads."""
    assert share_length(1, 24, 24, 240_000) == 15_008  # 16 shares
    assert share_length(1, 24, 24, 1200) == 1200  # too few
    assert share_length(1, 24, 1024, 240_000) == 240_000  # tiles are shared out
    assert share_length(1, 100, 100, 799) == 799
    assert share_length(2, 24, 24, 240_000) == 240_000
    call = dot((24, 40_000), (20, 40_000), contracting=((1,), (1,)))
    out = np.full((20, 24), np.nan).T
    arrays = operands(call, "float64", "C", rng)
    near(in_strips(call, *arrays, out=out), call, *arrays)


def test_shares_of_one_number() -> None:
    """Previously failed: the result of a share was a number, not an array of no axes."""
    n = 1 << 20
    x, out = np.ones(n), np.zeros(())
    call = dot((n,), (n,), contracting=((0,), (0,)))
    assert share_length(1, 1, 1, n) < n
    assert in_strips(call, x, x) == n
    assert in_strips(call, x, x, out=out) is out
    assert out == n


# ---- when they are chosen ------------------------------------------------------------------------

MODEL = CostModel()
THIN = Contraction({0: 20, 1: 4000, 2: 400}, (), (0,), (1,), (2,))


def chosen(step: Contraction, *orders: Any) -> bool:
    return plan_products(step, orders, MODEL).by == "strips"  # type: ignore[arg-type]


def test_thin_products_are_in_strips() -> None:
    """Where columns lie one after another in the result and in their operand, on either side."""
    assert chosen(THIN, (0, 2), (2, 1), (0, 1))
    assert chosen(THIN, (2, 0), (2, 1), (0, 1))
    turned = Contraction(THIN.sizes, (), (1,), (0,), (2,))
    assert chosen(turned, (2, 1), (2, 0), (0, 1))
    square = Contraction({0: 400, 1: 400, 2: 400}, (), (0,), (1,), (2,))
    assert not chosen(square, (0, 2), (2, 1), (0, 1))  # BLAS takes no longer


def test_what_is_read_or_written_one_by_one_is_not() -> None:
    sizes = {0: 20, 1: 40, 2: 100, 3: 400}
    step = Contraction(sizes, (), (0,), (1, 2), (3,))
    orders = (0, 3), (3, 1, 2), (0, 1, 2)
    assert chosen(step, *orders)
    apart = Contraction({0: 20, 1: 100, 2: 60, 3: 400}, (), (0,), (1, 2), (3,))
    assert chosen(apart, (0, 3), (3, 1, 2), (0, 1, 2))
    assert not chosen(
        apart, (0, 3), (3, 1, 2), (1, 0, 2)
    )  # runs of 60 in the result: not whole lines
    assert not chosen(step, (0, 3), (3, 2, 1), (0, 1, 2))  # another last column
    two = Contraction({0: 64, 1: 64, 2: 4, 3: 1024}, (), (0,), (1,), (2, 3))
    assert chosen(two, (2, 0, 3), (2, 1, 3), (0, 1))
    assert not chosen(two, (2, 0, 3), (3, 1, 2), (0, 1))  # another last element
    batch = Contraction({0: 20, 1: 400, 2: 400, 3: 16}, (3,), (0,), (1,), (2,))
    assert not chosen(batch, (3, 0, 2), (3, 2, 1), (0, 1, 3))  # batch last


# products that BLAS copies arrays for, and their dtypes
BADLY: dict[str, tuple[Call, str]] = {
    "rows that lie apart": (
        dot((24, 24, 24, 24), (24, 24, 24), contracting=((0, 2), (0, 1))),
        "float64",
    ),
    "few columns, too": (
        dot((128, 5, 128, 2), (5, 5, 2, 2), contracting=((1, 3), (0, 3))),
        "float64",
    ),
    "long sums": (dot((20, 20, 20, 20), (20,) * 4, contracting=((1, 2, 3), (1, 0, 2))), "float32"),
    "an operand that strips copy": (
        dot((2, 128, 128), (128, 128, 2), contracting=((0, 2), (2, 0))),
        "complex128",
    ),
}


@pytest.mark.parametrize("what", BADLY)
def test_what_blas_would_copy_may_lie_badly(what: str, rng: np.random.Generator) -> None:
    """Previously failed: left to BLAS, which copies operands and takes up to five times as long."""
    call, name = BADLY[what]
    dtype = np.dtype(name)
    specs = call.specs(dtype)
    step, *own = contraction_of(known_dims(call.attrs, *call.shapes), *specs)
    orders = orders_of(step, *own, (*specs, call.output(dtype)))
    # while orders are searched it costs what BLAS takes
    assert plan_products(step, orders, MODEL) == plan_matrices(step, orders, MODEL)
    found = plan_decided(step, orders, MODEL)
    assert found.by == "strips"
    assert found.copied_bytes <= plan_matrices(step, orders, MODEL).copied_bytes
    with options(small=1, threads=2):
        assert BACKEND.engine(call.op, call.attrs, specs) == "strips"
        arrays = operands(call, dtype, "C", rng)
        near(BACKEND.apply(call.op, call.attrs, *arrays), call, *arrays)


def test_some_that_blas_copies_for_are_not() -> None:
    def by(sizes: dict[int, int], lhs: Any, rhs: Any, out: Any, *batch: int, **more: Any) -> str:
        step = Contraction(sizes, batch, (0, 1), (2,), (3, 4), **more)
        return plan_decided(step, (lhs, rhs, out), MODEL).by

    lie = (3, 0, 4, 1), (3, 4, 2), (0, 1, 2)
    assert by(dict.fromkeys(range(5), 24), *lie) == "strips"
    assert by({0: 24, 1: 8, 2: 24, 3: 8, 4: 8}, *lie) == "products"  # too soon done
    assert by({0: 200, 1: 200, 2: 10, 3: 2, 4: 3}, *lie) == "products"  # few contracted elements
    batch = (5, 3, 0, 4, 1), (5, 3, 4, 2), (5, 0, 1, 2)
    assert by(dict.fromkeys(range(6), 24), *batch, 5) == "products"
    large = {0: 16, 1: 16, 2: 256, 3: 16, 4: 16}
    assert by(large, (0, 1, 3, 4), (3, 2, 4), lie[2]) == "products"  # or blocks, which are as fast
    # BLAS copies little
    complex_ = {"itemsize": 16, "rate": 0.25}
    assert (
        by(dict.fromkeys(range(5), 24), (3, 4, 1, 0), (2, 3, 4), lie[2], **complex_) == "products"
    )
    # strips would copy more than BLAS
    step = Contraction(
        {0: 20, 1: 10, 2: 8, 3: 20, 4: 8, 5: 64}, (), (0, 1), (2, 3), (4, 5), 16, 0.25
    )
    orders = (1, 5, 4, 0), (4, 3, 2, 5), (3, 2, 1, 0)
    assert plan_decided(step, orders, MODEL).by == "products"


def test_distant_rows_that_lie_badly_take_twice_as_long_to_read() -> None:
    """24 MB of which strips use a part of each line."""
    step = Contraction({0: 144, 1: 12, 2: 12, 3: 144, 4: 12}, (), (0, 1), (2,), (3, 4))
    assert step.nbytes[0] > FAR
    well = plan_strips(step, ((0, 1, 3, 4), (3, 4, 2), (0, 1, 2)), MODEL, widely=True)
    badly = plan_strips(step, ((0, 3, 4, 1), (3, 4, 2), (0, 1, 2)), MODEL, widely=True)
    assert well is not None
    assert badly is not None
    assert badly.seconds > 1.3 * well.seconds


def test_rows_that_are_turned_must_be_many() -> None:
    """Where contracted elements are last in the operand with the columns."""
    few = Contraction({0: 20, 1: 4000, 2: 400}, (), (0,), (1,), (2,))
    assert chosen(few, (0, 2), (2, 1), (0, 1))
    assert not chosen(few, (0, 2), (1, 2), (0, 1))


def test_columns_that_fill_few_lanes_are_not() -> None:
    """20 columns are 24 lanes of float64, but 32 of float32."""
    tall = Contraction({0: 4000, 1: 20, 2: 400}, (), (0,), (1,), (2,))
    assert chosen(tall, (0, 2), (2, 1), (0, 1))
    half = Contraction(tall.sizes, (), (0,), (1,), (2,), 4, 2.0)
    assert not chosen(half, (0, 2), (2, 1), (0, 1))


def test_large_results_to_which_little_is_added_are() -> None:
    """BLAS clears them first; operands that lie badly are copied, as they are little beside the result."""
    sizes = {0: 16, 1: 24, 2: 16, 3: 16, 4: 24, 5: 16, 6: 24}
    step = Contraction(sizes, (), (2, 3, 5), (0, 1, 4), (6,))
    orders = (3, 2, 5, 6), (4, 6, 1, 0), (5, 0, 1, 3, 2, 4)
    found = plan_products(step, orders, MODEL)
    assert found.by == "strips"
    assert found.packed == (False, True, False)
    assert found.copied_bytes == step.nbytes[1]
    assert step.nbytes[2] > FAR
    turned = Contraction(sizes, (), (0, 1, 4), (2, 3, 5), (6,))
    found = plan_products(turned, (orders[1], orders[0], orders[2]), MODEL)
    assert found.packed == (True, False, False)
    outer = Contraction({0: 2000, 1: 2000, 2: 2}, (), (0,), (1,), (2,))
    assert chosen(outer, (0, 2), (2, 1), (0, 1))
    wide = Contraction({0: 2000, 1: 2000, 2: 8}, (), (0,), (1,), (2,), 16, 0.25)
    assert chosen(wide, (0, 2), (2, 1), (0, 1))
    assert plan_products(outer, ((0, 2), (2, 1), (0, 1)), MODEL).copied_bytes == 0


def test_batches_whose_operands_blas_packs_are() -> None:
    """BLAS packs before each product from about a hundred rows on."""
    orders = (3, 0, 2), (3, 2, 1), (3, 0, 1)

    def batch(count: int, n: int) -> Contraction:
        return Contraction({0: n, 1: n, 2: n, 3: count}, (3,), (0,), (1,), (2,))

    assert chosen(batch(32, 128), *orders)
    assert chosen(batch(8, 256), *orders)
    assert not chosen(batch(32, 96), *orders)  # multiplied as they lie


def test_small_work_is_not() -> None:
    orders = (0, 2), (2, 1), (0, 1)
    small = Contraction({0: 20, 1: 100, 2: 100}, (), (0,), (1,), (2,))
    assert not chosen(small, *orders)
    soon = Contraction({0: 100, 1: 100, 2: 100}, (), (0,), (1,), (2,))
    assert not chosen(soon, *orders)  # threads would not be worth their start
    with options(small=float("inf")):
        assert not chosen(THIN, *orders)
    assert chosen(THIN, *orders)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_addresses_of_arrays(n: int) -> None:
    """As NumPy says, of slices and transposes, and of arrays without elements."""
    whole = np.arange(4.0 * n).reshape(n, 4)
    for x in (whole, whole.T, whole[::-1, 1:], np.array(1.0), whole.astype("F")):
        assert address(x) == x.ctypes.data


@pytest.mark.parametrize(
    ("lhs", "rhs", "batch", "alone"),
    [
        ((64, 16, 16), (64, 16, 16), ((0,), (0,)), True),
        ((2000, 4), (4, 19), ((), ()), True),
        ((60, 280), (280, 60), ((), ()), True),  # one tile
        ((60, 5000), (5000, 60), ((), ()), False),  # whose sums are long
        ((400, 400), (400, 400), ((), ()), False),
    ],
)
def test_what_one_thread_does(
    lhs: tuple[int, ...],
    rhs: tuple[int, ...],
    batch: Any,
    alone: bool,
    monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator,
) -> None:
    """What is said of threads, for BLAS to leave them alone, is what happens."""
    used: list[int] = []
    real = strips.parallel_for
    monkeypatch.setattr(strips, "parallel_for", lambda run, n: (used.append(n), real(run, n)))
    k = len(lhs) - 1
    call = dot(lhs, rhs, contracting=((k,), (k - 1,)), batch=batch)
    dims = known_dims(call.attrs, lhs, rhs)
    specs = tuple(ArraySpec(np.dtype("f8"), shape) for shape in (lhs, rhs))
    with options(threads=2):
        near(in_strips(call, *(x := [rng.random(shape) for shape in (lhs, rhs)])), call, *x)
        assert strips.uses_threads(dims, specs, (False, False)) is not alone
    assert bool(used) is not alone
