"""gemm_batch: products of matrices of many sizes, whoever does them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.cases import lay_out
from tests.tolerance import tolerance

import einloom
from einloom import CallError, ConversionError, DTypeError, EinloomError, OptionError, ShapeError
from einloom._base.options import SMALL, options
from einloom.backend.cpu import gemm_batch as shares
from einloom.backend.cpu.blas import ONE_BLAS_THREAD
from einloom.contract.gemm_batch import _chains, _same_places

Pair = tuple[np.ndarray, np.ndarray]
SIZES = [(1, 1, 1), (3, 4, 5), (64, 64, 64), (0, 2, 3), (2, 0, 3), (2, 3, 0), (70, 80, 90)]
SHARED = [math.inf, 262144, 0]  # nobody shares; as shipped; whatever can be is shared


def drawn(rng: np.random.Generator, shape: tuple[int, int], dtype: Any) -> np.ndarray:
    """Small integers, of which sums are exact in whatever order they are added."""
    x: Any = rng.integers(-3, 4, shape)
    return np.asarray(
        x + 1j * rng.integers(-3, 4, shape) if np.dtype(dtype).kind == "c" else x, dtype
    )


def batch(
    rng: np.random.Generator, dtype: Any, sizes: Any = SIZES, layout: str = "C"
) -> list[Pair]:
    return [
        (
            lay_out(drawn(rng, (m, k), dtype), layout, rng),
            lay_out(drawn(rng, (k, n), dtype), layout, rng),
        )
        for m, k, n in sizes
    ]


@pytest.mark.parametrize("small", SHARED)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_products(dtype: str, small: float, rng: np.random.Generator) -> None:
    for layout in ("C", "F", "transposed", "sliced", "reversed", "broadcast", "unaligned"):
        pairs = batch(rng, dtype, layout=layout)
        with einloom.options(small=small, threads=3):
            results = einloom.gemm_batch(pairs)
            scaled = einloom.gemm_batch(pairs, alpha=-2)
        for (a, b), c, twice in zip(pairs, results, scaled, strict=True):
            assert c.dtype == dtype
            np.testing.assert_array_equal(c, a @ b)
            np.testing.assert_array_equal(twice, -2 * (a @ b))
    assert einloom.gemm_batch([]) == []


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "g", "O"])
def test_dtypes_without_blas(dtype: str, rng: np.random.Generator) -> None:
    pairs = [*batch(rng, dtype, SIZES[:6]), *batch(rng, "f8", SIZES[:2])]
    with einloom.options(small=math.inf):
        for (a, b), c in zip(pairs, einloom.gemm_batch(pairs), strict=True):
            assert c.dtype == a.dtype
            np.testing.assert_array_equal(c, a @ b)


def test_dtypes_promote_pair_by_pair(rng: np.random.Generator) -> None:
    a, b = drawn(rng, (2, 3), "f4"), drawn(rng, (3, 2), "i2")
    pairs = [(a, b), (b, a.astype("c8")), (a.astype(">f8"), b), (a, a.T), ([[1, 2]], [[3], [4]])]
    results = einloom.gemm_batch(pairs)
    for (x, y), c in zip(pairs, results, strict=True):
        want = np.asarray(x) @ np.asarray(y)
        assert c.dtype == want.dtype.newbyteorder("=")
        np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("small", SHARED)
@pytest.mark.parametrize("layout", ["C", "F", "sliced", "reversed", "unaligned"])
def test_out(layout: str, small: float, rng: np.random.Generator) -> None:
    """c = beta c + alpha a b; with beta = 0 what stood there is not read."""
    pairs = batch(rng, "f8")
    for alpha, beta in ((1, 0), (1, 1), (-2, 1), (0.5, 3), (1, 0)):
        before = [np.full((len(a), b.shape[1]), 7.0) for a, b in pairs]
        out = [lay_out(x, layout, rng) for x in before]
        if beta == 0:
            for x in out:
                x[...] = np.nan
        with einloom.options(small=small, threads=3):
            results = einloom.gemm_batch(pairs, out=out, alpha=alpha, beta=beta)
        for (a, b), c, x, y in zip(pairs, results, out, before, strict=True):
            assert c is x
            np.testing.assert_array_equal(c, (beta * y if beta else 0) + alpha * (a @ b))


@pytest.mark.parametrize("small", SHARED)
def test_products_with_one_target_are_added(small: float, rng: np.random.Generator) -> None:
    """By identity, or other views of the same elements; beta counts once."""
    pairs = batch(rng, "f8", [(8, k, 9) for k in range(40)])
    for again in (lambda x, k: x, lambda x, k: x[:], lambda x, k: x[:] if k % 5 else x):
        blocks = [np.ones((8, 9)) for _ in range(3)]
        out = [again(blocks[k % 3], k) for k in range(40)]
        with einloom.options(small=small, threads=4):
            results = einloom.gemm_batch(pairs, out=out, beta=5)
        assert all(x is y for x, y in zip(results, out, strict=True))
        for which, block in enumerate(blocks):
            want = sum(a @ b for a, b in pairs[which::3])
            np.testing.assert_array_equal(block, 5 + want)


def test_targets_of_other_dtypes(rng: np.random.Generator) -> None:
    """Products of several dtypes in one target; each is rounded once to that of the target."""
    a, b = drawn(rng, (4, 5), "f8"), drawn(rng, (5, 4), "f8")
    for dtype in ("f4", "f8", "c16"):
        target = np.ones((4, 4), dtype)
        pairs = [(a.astype(one), b.astype(one)) for one in ("f8", "f4", "f2", "i4", "f8")]
        einloom.gemm_batch(pairs, out=[target] * 5, alpha=2, beta=3)
        np.testing.assert_array_equal(target, 3 + 10 * (a @ b))
        einloom.gemm_batch(pairs, out=[target] * 5)
        np.testing.assert_array_equal(target, 5 * (a @ b))


def test_bits_do_not_depend_on_threads() -> None:
    r = np.random.default_rng(0)
    sizes = [tuple(r.integers(1, 130, 3)) for _ in range(60)] + [(160, 160, 160)]
    pairs = [(r.standard_normal((m, k)), r.standard_normal((k, n))) for m, k, n in sizes]
    pairs += [(r.standard_normal((70, 80)), r.standard_normal((80, 90))) for _ in range(40)]
    targets = [np.empty((len(a), b.shape[1])) for a, b in pairs[:61]]
    shared = [np.empty((70, 90)) for _ in range(3)]
    out = [*targets, *(shared[k % 3] for k in range(40))]
    found = []
    for threads in (1, 2, 5):
        for _ in range(3):
            with einloom.options(threads=threads):
                plain = einloom.gemm_batch(pairs)
                einloom.gemm_batch(pairs, out=out)
            found.append([x.tobytes() for x in (*plain, *out)])
    assert all(one == found[0] for one in found)


@pytest.fixture
def as_shipped() -> Iterator[None]:
    """Kernels neither forced nor forbidden, whatever the environment says."""
    with options(small=SMALL):
        yield


@pytest.mark.usefixtures("as_shipped")
def test_who_does_what() -> None:
    """Large parts of the work run alone, the largest of the others first; small ones are the caller's."""
    big, middle, tiny = 10**9, 10**7, 10**3
    work = [tiny, middle, big, middle + 1, tiny, *[middle] * 20]
    alone, shared, small = shares._sorted(work)
    assert alone == [2]
    assert shared == [3, 1, *range(5, 25)]
    assert small == [0, 4]
    assert shares._sorted([-1, middle, 0]) == ([1, 0], [], [2])
    assert shares._sorted([]) == ([], [], [])


def test_blas_keeps_to_one_thread_and_is_restored(rng: np.random.Generator) -> None:
    seen = set()
    pairs = batch(rng, "f8", [(80, 80, 80)] * 30)
    original = shares._product

    def product(*arguments: Any) -> Any:
        seen.add(ONE_BLAS_THREAD._inside)
        return original(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shares, "_product", product)
        einloom.gemm_batch(pairs)
    assert seen == {1}
    assert ONE_BLAS_THREAD._inside == 0


def test_an_error_in_a_thread_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any) -> Any:
        raise MemoryError("none left")

    monkeypatch.setattr(shares, "_product", fails)
    pairs = [(np.ones((80, 80)),) * 2] * 40
    with pytest.raises(MemoryError, match="none left"):
        einloom.gemm_batch(pairs)
    assert ONE_BLAS_THREAD._inside == 0


# ---- targets that share memory --------------------------------------------------------------------


@pytest.mark.parametrize("small", SHARED)
def test_blocks_of_one_matrix(small: float, rng: np.random.Generator) -> None:
    edges = [0, 3, 3, 10, 40, 64]
    matrix = np.full((64, 64), 2.0)
    spans = [slice(i, j) for i, j in pairwise(edges)]
    out = [matrix[rows, columns] for rows in spans for columns in spans]
    pairs = batch(rng, "f8", [(x.shape[0], 7, x.shape[1]) for x in out])
    assert len(_chains(_same_places(out))) == len(out)  # nobody waits for another
    with einloom.options(small=small, threads=3):
        einloom.gemm_batch(pairs, out=out, beta=1)
    for (a, b), x in zip(pairs, out, strict=True):
        np.testing.assert_array_equal(x, 2 + a @ b)


@pytest.mark.parametrize("small", SHARED)
def test_targets_that_overlap_are_written_in_order(small: float, rng: np.random.Generator) -> None:
    pairs = batch(rng, "f8", [(20, 5, 20)] * 30)
    views = (
        lambda x: [x[k % 7 : k % 7 + 20, k % 5 : k % 5 + 20] for k in range(30)],
        lambda x: [x.T[k % 3 : k % 3 + 20, 1:21] if k % 2 else x[:20, :20] for k in range(30)],
        lambda x: [x[20 - k % 2 :: -1, 3:23][:20] for k in range(30)],
    )
    for view in views:
        got, want = np.ones((30, 30)), np.ones((30, 30))
        with einloom.options(small=small, threads=4):
            einloom.gemm_batch(pairs, out=view(got), beta=1)
        for (a, b), x in zip(pairs, view(want), strict=True):
            x += a @ b
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("small", SHARED)
def test_targets_that_overlap_operands(small: float, rng: np.random.Generator) -> None:
    """Operands are read before anything is written."""
    x, y = drawn(rng, (12, 12), "f8"), drawn(rng, (12, 12), "f8")
    pairs = [(x, y), (y, x), (x[:6, :6], x[6:, 6:])]
    want = [a @ b for a, b in pairs]
    corner = np.zeros((6, 6))
    with einloom.options(small=small):
        einloom.gemm_batch(pairs, out=[x, y, corner])
    for got, c in zip((x, y, corner), want, strict=True):
        np.testing.assert_array_equal(got, c)
    buffer = bytearray(2 * 8 * 16)  # memory that no array owns
    a, b = (np.frombuffer(buffer, "f8", 16, at * 128).reshape(4, 4) for at in (0, 1))
    a[...], b[...] = 2, 3
    einloom.gemm_batch([(a, b)], out=[b])
    assert np.all(b == 24)


# ---- what is refused ------------------------------------------------------------------------------

M = np.ones((2, 3))


@pytest.mark.parametrize(
    ("pairs", "keywords", "error", "message"),
    [
        ([(M, M.T), (M, M)], {}, ShapeError, r"pair 1: shapes \(2, 3\) and \(2, 3\): 3 columns"),
        ([(M, M.T), (M, np.ones(3))], {}, ShapeError, r"pair 1: b has shape \(3,\).*v\[:, None\]"),
        ([(np.ones((2, 2, 3)), M.T)], {}, ShapeError, "pair 0: a has shape"),
        ([(M, M.T), M[0]], {}, CallError, "pair 1"),
        ([(M, M.T, M)], {}, CallError, r"pair 0 is tuple; give \(a, b\)"),
        ([5], {}, CallError, "pair 0 is int"),
        ([(M, M.T.astype("U3"))], {}, DTypeError, "pair 0: b has dtype <U"),
        ([(np.ma.ones((2, 3)), M.T)], {}, ConversionError, "pair 0: operand 0"),
        ([(M, M.T)], {"beta": 1}, OptionError, "give out="),
        ([(M, M.T)], {"alpha": "x"}, DTypeError, r"gemm_batch\(alpha="),
        ([(M, M.T)], {"alpha": 1j}, DTypeError, "cannot hold that factor"),
        ([(M, M.T)], {"out": []}, CallError, "a list of 1 arrays, got 0 entries"),
        ([(M, M.T)], {"out": np.ones((2, 2))}, CallError, "got ndarray"),
        ([(M, M.T)], {"out": [[1]]}, DTypeError, "entry 0 must be a numpy.ndarray, got list"),
        ([(M, M.T)], {"out": [M]}, ShapeError, r"entry 0 has shape \(2, 3\), .* pair 0 \(2, 2\)"),
        ([(M, M.T)], {"out": [np.ones((2, 2), int)]}, DTypeError, "entry 0 has dtype int64"),
        ([(M, M.T)], {"out": [np.broadcast_to(1.0, (2, 2))]}, ShapeError, "read-only"),
        ([(M, M.T)], {"out": [np.ones((2, 2))], "beta": 1j}, DTypeError, "cannot hold"),
    ],
)
def test_refused(pairs: Any, keywords: Any, error: type[EinloomError], message: str) -> None:
    with pytest.raises(error, match=message):
        einloom.gemm_batch(pairs, **keywords)


def test_overflow_is_silent() -> None:
    x = np.full((80, 80), 1e300)
    for count in (1, 40):
        assert all(np.isinf(c).all() for c in einloom.gemm_batch([(x, x)] * count))


def test_accuracy() -> None:
    r = np.random.default_rng(1)
    pairs = [(r.standard_normal((90, 300)), r.standard_normal((300, 80))) for _ in range(8)]
    for (a, b), c in zip(pairs, einloom.gemm_batch(pairs), strict=True):
        want = a.astype("g") @ b.astype("g")
        bound = np.abs(a) @ np.abs(b)
        assert np.all(np.abs(c - want) <= tolerance("f8", 300, 2) * bound)


def test_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional peer, not a dependency")
    a = torch.ones(2, 3, dtype=torch.float64)
    first, second = einloom.gemm_batch([(a, a.T), (M, M.T)])
    assert isinstance(first, torch.Tensor)
    assert isinstance(second, np.ndarray)
