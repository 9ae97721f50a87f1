"""Batches that lie last in all arrays: line by line, by NumPy or by a kernel that adds strips up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backend.calls import LAYOUTS, OUT_LAYOUTS, dot, junk, lay_out, operands
from tests.backend.test_blocked import near

import einloom
from einloom._base.options import options
from einloom.backend.catalogue import dot_dims
from einloom.backend.contraction import Contraction
from einloom.backend.cpu import cpu, lines, loops
from einloom.backend.cpu.kernels import across, vectors
from einloom.backend.lines import SHORTEST, STRIP, are_strips, line_length, lines_seconds
from einloom.backend.prediction import product_seconds
from einloom.backend.spec import ArraySpec

BACKEND = cpu()
FLOATS = ["float32", "float64"]
DTYPES = [*FLOATS, "complex64", "complex128"]
SIZES = st.integers(1, 4)

# by letters: k is contracted, b lies last
PRODUCTS = {
    "vectors": ("ikb,kb->ib", {"i": 3, "k": 4}),
    "matrices": ("ikb,kjb->ijb", {"i": 3, "k": 4, "j": 2}),
    "turned": ("kib,jkb->jib", {"i": 3, "k": 4, "j": 2}),
    "two batches": ("iakb,akjb->aijb", {"i": 3, "k": 4, "j": 2, "a": 5}),
    "two lines": ("ikab,kab->iab", {"i": 3, "k": 4, "a": 5}),
    "two contracted": ("iklb,lkb->ib", {"i": 3, "k": 4, "l": 5}),
}


def bound(engine: str, equation: str, sizes: dict[str, int], dtype: Any, small: float = 0) -> Any:
    """A kernel by that engine whose result lies as the equation has it, and shapes of the operands."""
    terms, shown = equation.split("->")
    lhs, rhs = terms.split(",")
    batch = [x for x in shown if x in lhs and x in rhs]
    contracted = [x for x in lhs if x in rhs and x not in shown]
    made = [*batch, *(x for x in lhs if x not in rhs), *(x for x in rhs if x not in lhs)]
    attrs = {
        name: tuple(tuple(term.index(x) for x in labels) for term in (lhs, rhs))
        for name, labels in (("batch", batch), ("contracting", contracted))
    }
    shapes = [tuple(sizes[x] for x in term) for term in (lhs, rhs)]
    layout = tuple(made.index(x) for x in shown)
    result = ArraySpec(np.dtype(dtype), tuple(sizes[x] for x in made), layout)
    specs = tuple(ArraySpec(np.dtype(dtype), shape) for shape in shapes)
    with options(engine=engine, small=small):
        assert BACKEND.engine("dot_general", attrs, specs) == engine
        kernel = BACKEND.bind("dot_general", attrs, specs, (result,))

    def call(x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        target = None if out is None else out.transpose(np.argsort(layout))
        return np.asarray(kernel(x, y, out=target)).transpose(layout)

    return call, shapes


def arrays_of(shapes: Any, dtype: str, rng: np.random.Generator) -> list[np.ndarray]:
    made = [rng.standard_normal(shape) for shape in shapes]
    if np.dtype(dtype).kind == "c":
        made = [x + 1j * rng.standard_normal(x.shape) for x in made]
    return [x.astype(dtype) for x in made]


def check(got: np.ndarray, equation: str, x: np.ndarray, y: np.ndarray) -> None:
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    want = np.einsum(equation, x.astype(wide), y.astype(wide))
    scale = np.einsum(equation, abs(x).astype(float), abs(y).astype(float))
    assert got.dtype == x.dtype
    assert np.all(abs(got - want) <= 8 * np.finfo(x.dtype).eps * scale + np.finfo(x.dtype).tiny)


@pytest.mark.parametrize("engine", ["lines", "loops"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_lines_of_any_length(name: str, dtype: str, engine: str, rng: np.random.Generator) -> None:
    """Shorter than a strip, of whole strips, of one and a part; of several pieces, the last one longer."""
    equation, sizes = PRODUCTS[name]
    for b in (2, 31, 32, 33, 64, 65, 127, 257):
        kernel, shapes = bound(engine, equation, sizes | {"b": b}, dtype)
        arrays = arrays_of(shapes, dtype, rng)
        got = kernel(*arrays)
        assert got.flags.c_contiguous
        check(got, equation, *arrays)


@pytest.mark.parametrize("dtype", FLOATS)
def test_pieces_of_lines(
    dtype: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the pieces and the lines of a tile are cut; by several threads with the same bits."""
    equation, sizes = PRODUCTS["two batches"]
    for piece, most in ((1 << 8, 4096), (1 << 9, 2)):
        monkeypatch.setattr(loops, "PIECE", piece)
        monkeypatch.setattr(loops, "LINES", most)
        for b in (64, 131, 640, 1000):
            kernel, shapes = bound("loops", equation, sizes | {"b": b}, dtype)
            arrays = arrays_of(shapes, dtype, rng)
            found = []
            for threads in (1, 2, 3):
                with options(threads=threads):
                    found.append(kernel(*arrays))
            check(found[0], equation, *arrays)
            assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_pieces_of_products(
    name: str, dtype: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Along lines, or along what is kept where these are short."""
    equation, sizes = PRODUCTS[name]
    for piece in (1, 100, 1000, 5000):
        for least in (1, 10000):
            monkeypatch.setattr(lines, "PIECE", piece)
            monkeypatch.setattr(lines, "LINE", least)
            kernel, shapes = bound("lines", equation, sizes | {"b": 40}, dtype)
            arrays = arrays_of(shapes, dtype, rng)
            check(kernel(*arrays), equation, *arrays)


@settings(max_examples=50)
@given(
    batch=st.lists(SIZES, min_size=1, max_size=2).map(tuple),
    left=st.lists(SIZES, max_size=2).map(tuple),
    right=st.lists(SIZES, max_size=2).map(tuple),
    contracted=st.lists(st.integers(2, 4), min_size=1, max_size=2).map(tuple),
    piece=st.sampled_from([1, 7, 1 << 18]),
    layouts=st.tuples(*[st.sampled_from(LAYOUTS)] * 2, st.sampled_from(OUT_LAYOUTS)),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_sizes_and_strides(
    batch: Any, left: Any, right: Any, contracted: Any, piece: int, layouts: Any, seed: int
) -> None:
    """Asked for, they take arrays that lie anyhow, and write into any `out`."""
    rng = np.random.default_rng(seed)
    if np.prod(batch) == 1:
        batch = (*batch, 2)
    nb, nl, nk = len(batch), len(left), len(contracted)
    call = dot(
        (*batch, *left, *contracted), (*batch, *contracted, *right),
        (tuple(range(nb)), tuple(range(nb))),
        (tuple(range(nb + nl, nb + nl + nk)), tuple(range(nb, nb + nk))),
    )  # fmt: skip
    arrays = [
        lay_out(x, layout, rng)
        for x, layout in zip(operands(call, "float64", "C", rng), layouts, strict=False)
    ]
    with pytest.MonkeyPatch.context() as patch, options(engine="lines"):
        patch.setattr(lines, "PIECE", piece)
        result = call.output(np.dtype("f8"))
        kernel = BACKEND.bind(call.op, call.attrs, call.specs(np.dtype("f8")), (result,))
        near(kernel(*arrays), call, *arrays)
        out = junk(result, layouts[2], rng)
        assert kernel(*arrays, out=out) is out
        near(out, call, *arrays)


def test_infinite_and_nan_stay_in_their_batch(rng: np.random.Generator) -> None:
    """Without a word of NumPy's."""
    for engine in ("lines", "loops"):
        kernel, shapes = bound(engine, "ikb,kb->ib", {"i": 3, "k": 4, "b": 70}, "f8")
        x, y = arrays_of(shapes, "float64", rng)
        want = np.einsum("ikb,kb->ib", x, y)
        x[1, 2, 5], x[0, 0, 69], y[3, 33] = np.inf, np.nan, -np.inf
        with np.errstate(all="raise"):
            got = kernel(x, y)
        whole = np.ones(70, bool)
        whole[[5, 69, 33]] = False
        np.testing.assert_allclose(got[:, whole], want[:, whole], rtol=1e-13)
        assert np.isinf(got[1, 5])
        assert np.isnan(got[0, 69])
        assert np.isinf(got[:, 33]).all()


def test_lines_that_lie_between_elements_are_copied(rng: np.random.Generator) -> None:
    kernel, shapes = bound("loops", "ikb,kb->ib", {"i": 3, "k": 4, "b": 70}, "f8")
    x, y = arrays_of(shapes, "float64", rng)
    odd = np.zeros(x.nbytes + 1, np.uint8)[1:].view("f8").reshape(x.shape)
    odd[...] = x
    for left in (x, odd, x, odd):
        check(kernel(left, y), "ikb,kb->ib", x, y)


@pytest.mark.parametrize("threads", [1, 2])
def test_memory_is_predicted(threads: int, rng: np.random.Generator) -> None:
    """Products of a piece at a time, where there are many."""
    x, y = rng.standard_normal((6, 6, 30000)), rng.standard_normal((6, 30000))
    with options(engine="lines", threads=threads):
        expression = einloom.compile("ikb,kb->ib", x, y)
        check(expression(x, y), "ikb,kb->ib", x, y)
    scratch = expression.peak_bytes - x.nbytes - y.nbytes - 6 * 30000 * 8
    assert 0 < scratch <= 1.1 * lines.PIECE * 8
    with options(small=1e12):  # two axes of lines, the first one short
        long = einloom.compile("ikab,kab->iab", (4, 4, 2, 200000), (4, 2, 200000), dtype="f8")
    assert "lines" in str(long.explain())
    scratch = long.peak_bytes - 8 * 400000 * (16 + 4 + 4)
    assert 0 < scratch <= 1.1 * lines.PIECE * 8


# ---- when they are chosen ------------------------------------------------------------------------

LAST = ((0, 1, 2), (1, 2), (0, 2))  # of labels i, k, b


def test_where_there_are_lines() -> None:
    step = Contraction({0: 4, 1: 3, 2: 1000}, (2,), (0,), (), (1,))
    assert line_length(step, LAST) == 1000
    for orders in (
        ((0, 1, 2), (1, 2), (2, 0)),
        ((2, 0, 1), (1, 2), (0, 2)),
        ((0, 1, 2), (2, 1), (0, 2)),
        ((0, 1, 2), None, (0, 2)),
        (LAST[0], LAST[1], None),
    ):
        assert line_length(step, orders) == 1
        assert lines_seconds(step, orders) is None
        assert not are_strips(step, orders)
    assert are_strips(step, LAST)
    short = Contraction({0: 4, 1: 3, 2: SHORTEST - 1}, (2,), (0,), (), (1,))
    assert lines_seconds(short, LAST) is None
    inner = Contraction({1: 3, 2: 1000}, (2,), (), (), (1,))
    assert lines_seconds(inner, ((1, 2), (1, 2), (2,))) is None


def engines(equation: str, *shapes: tuple[int, ...], dtype: str = "f8", **how: Any) -> list[str]:
    with options(**{"small": 1 << 18, **how}):
        expression = einloom.compile(equation, *shapes, dtype=dtype)
        rows = str(expression.explain()).splitlines()[1:]
        return [
            row[23:38].strip() for row in rows if row.strip()[:1].isdigit() and "view" not in row
        ]


def test_small_results_lie_as_their_operands_do() -> None:
    """So that lines are what is multiplied; the matrices that follow, too."""
    small = (4, 4, 1000), (4, 1000)
    assert engines("ikb,kb->ib", *small) == ["lines"]
    assert engines("ikb,kb->ib", *small, provider="plain") == ["lines"]
    assert engines("ikb,kb->ib", *small, small=1 << 13) == ["loops"]
    assert engines("ikb,kjb,jb->ib", (3, 3, 500), (3, 3, 500), (3, 500)) == ["lines", "lines"]
    assert engines("bik,bk->bi", (1000, 4, 4), (1000, 4)) == ["batched gemm"]
    assert engines("ikb,kb->bi", *small) == ["batched gemm"]  # as it was asked for


def test_many_large_matrices_are_for_the_kernel() -> None:
    """Up to what BLAS does faster; where kernels are asked for whatever the size, too."""
    large = "ikb,kjb->ijb", (8, 8, 3000), (8, 8, 3000)
    assert engines(*large) == ["loops"]
    assert engines(*large, small=0) == ["loops"]
    assert engines("ikb,kjb->ijb", (64, 64, 300), (64, 64, 300)) != ["loops"]
    tiny = "ikb,kjb->ijb", (3, 3, 1000), (3, 3, 1000)
    assert engines(*tiny, provider="native") == ["lines"]  # it calls no BLAS


@pytest.mark.parametrize("dtype", FLOATS)
def test_operands_that_lie_otherwise_after_all(
    dtype: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second batch, backwards, one for all: matrices of 512 multiplications are copied into lines, and
    smaller ones are added up one by one. Into an `out` with gaps."""
    used = []
    for name in ("contract_lines", "contract_tiles"):
        kernel = getattr(loops, name)
        monkeypatch.setattr(
            loops, name, lambda *a, kernel=kernel, name=name: used.append(name) or kernel(*a)
        )
    for n, by in ((8, "contract_lines"), (3, "contract_tiles")):
        equation = "ikb,kjb->ijb"
        sizes = {"i": n, "k": n, "j": n, "b": 700}
        kernel, _ = bound("loops", equation, sizes, dtype)
        x, y = arrays_of([(n, n, 700), (n, n, 1400)], dtype, rng)
        one = np.broadcast_to(x[:, :, :1], x.shape)
        for left, right in ((x, y[..., ::2]), (x[..., ::-1], y[..., :700]), (one, y[..., 700:])):
            used.clear()
            check(kernel(left, right), equation, left, right)
            assert {*used} == {by}
            room = np.zeros((n, n, 1401), dtype)
            out = room[..., 1::2]
            kernel(left, right, out)
            check(out, equation, left, right)
            assert not room[..., ::2].any()


def test_several_threads_have_tiles() -> None:
    """Of large products, however few lines there are, or how short."""
    for shape in ((8, 8, 1000), (16, 16, 2000), (6, 6, 100000), (40, 40, 40)):
        _, k, b = shape
        dims = dot_dims({"batch": ((2,), (1,)), "contracting": ((1,), (0,))}, shape, (k, b))
        x, y = np.zeros(shape), np.zeros((k, b))
        for tiles in (1, loops.TILES):
            tables = loops._tables(dims, (1, 0), x, y, tiles)
            assert tables is not None
            assert tables.are_lines
            assert tables.tiles >= tiles - 1
            piece, last = tables.arguments[3]
            assert last >= loops.STRIP // 8
            assert (tables.arguments[1][0, 0] - 1) * piece + last == b


def test_strips_are_those_of_the_intrinsic() -> None:
    assert loops.STRIP == STRIP == across.STRIP * vectors.LINE


def test_calls_of_blas_count_once() -> None:
    """Batches last, or first."""
    first = einloom.plan("bik,bk->bi", (9000, 4, 4), (9000, 4)).program
    last = einloom.plan("ikb,kb->bi", (4, 4, 9000), (4, 9000)).program
    seconds = []
    for program in (first, last):
        (ins,) = (ins for ins in program.instructions if ins.op == "dot_general")
        specs = program.placed(ins.inputs), program.placed(ins.outputs)
        seconds.append(product_seconds(ins.attrs, *specs).plain)
    assert seconds[0] < seconds[1] < seconds[0] + 1e-3
