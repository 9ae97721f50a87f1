"""Calls like an earlier one give what the first gave, bit by bit, and fail as it would have failed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tests.linalg.matrices import DTYPES, LAYOUTS, adjoint, draw

import einloom
from einloom import linalg
from einloom.backend.cpu.linalg import own, prepared

Array = np.ndarray[Any, Any]

FRONTS: dict[str, Callable[[Array], Any]] = {
    "solve": lambda a: linalg.solve(a, a[..., :1]),
    "solve matrix": lambda a: linalg.solve(a, a),
    "solve vector": lambda a: linalg.solve(a, a[(0,) * (a.ndim - 1)]),
    "inv": linalg.inv,
    "det": linalg.det,
    "cholesky": lambda a: linalg.cholesky(a @ adjoint(a) + 1),
    "lu_factor": linalg.lu_factor,
    "qr": linalg.qr,
    "eigh": lambda a: linalg.eigh(a + adjoint(a)),
    "svd": linalg.svd,
    "svd, thin": lambda a: linalg.svd(a, full_matrices=False),
    "eig": linalg.eig,
    "pinv": lambda a: linalg.pinv(a[..., :-1] if a.shape[-1] > 1 else a),
    "lstsq": lambda a: linalg.lstsq(a[..., : (a.shape[-1] + 1) // 2], a[..., -1:]),
    "lstsq wide": lambda a: linalg.lstsq(a[..., :1, :], a[..., :1, :2]),
}
SHAPES = ((1, 1), (3, 3), (16, 16), (1, 4, 4), (3, 2, 2), (2, 3, 5, 5), (70, 2, 2))


def parts(result: Any) -> tuple[Array, ...]:
    return tuple(map(np.asarray, result if isinstance(result, tuple) else (result,)))


def hits() -> int:
    return einloom.cache_info()["recent matrices"].hits


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FRONTS)
def test_later_calls(name: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    for shape in SHAPES:
        a = draw(rng, shape, dtype)
        for layout in LAYOUTS.values():
            x = layout(a)
            einloom.clear_caches()
            first, *later = (FRONTS[name](x) for _ in range(3))
            for result in later:
                assert type(result) is type(first)
                for want, got in zip(parts(first), parts(result), strict=True):
                    assert want.dtype == got.dtype
                    assert np.array_equal(want, got)
                    assert got.ndim < 2 or got.flags.c_contiguous
                    assert not np.may_share_memory(got, x)


def outcome(call: Callable[..., Any], *operands: Any, **keywords: Any) -> Any:
    """The bits of a result and its type, or the words of an error."""
    try:
        result = call(*operands, **keywords)
    except einloom.EinloomError as error:
        return type(error), str(error)
    return type(result), [(x.shape, x.dtype, x.tobytes()) for x in parts(result)]


@pytest.mark.parametrize(
    "name", [name for name in FRONTS if name not in ("lu_factor", "qr", "det")]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_failures(name: str, dtype: str) -> None:
    """A matrix of NaN among good ones, the same error each time; where it is none, the same result."""
    for shape in ((4, 4), (3, 4, 4)):
        good = draw(np.random.default_rng(4), shape, dtype)
        bad = good.copy()
        bad[-1] = np.nan
        einloom.clear_caches()
        first = outcome(FRONTS[name], bad)
        for _ in range(3):
            outcome(FRONTS[name], good)
        assert outcome(FRONTS[name], bad) == first
        assert outcome(FRONTS[name], good) == outcome(FRONTS[name], good)


FEW_RANKS: list[tuple[int, ...]] = [(), (1,), (3,), (2, 3), (65,)]
OF_ONE: dict[str, Callable[..., Any]] = {
    "inv": linalg.inv,
    "det": linalg.det,
    "cholesky": linalg.cholesky,
    "lu_factor": linalg.lu_factor,
    "qr": linalg.qr,
    "eigh": linalg.eigh,
    "svd": linalg.svd,
    "eig": linalg.eig,
    "pinv": linalg.pinv,
}
RECTANGULAR = ("lu_factor", "qr", "svd", "pinv")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_ONE)
def test_as_the_front_without_memory(name: str, dtype: str) -> None:
    """Of good, singular, tiny, zero and infinite matrices in batches of any rank."""
    front, rng = OF_ONE[name], np.random.default_rng(8)
    bare = getattr(front, "__wrapped__")  # noqa: B009
    sizes = [(1, 1), (2, 2), (4, 4), *([(5, 3), (3, 5)] if name in RECTANGULAR else [])]
    for batch in FEW_RANKS:
        for m, n in sizes:
            a = draw(rng, (*batch, m, n), dtype)
            if name in ("cholesky", "eigh"):
                a = a @ adjoint(a) + np.eye(n, dtype=dtype)
            singular, infinite = a.copy(), a.copy()
            singular.reshape(-1, m, n)[-1] = 1
            infinite[..., -1, 0] = np.inf
            for x in (a, singular, a * np.dtype(dtype).type(1e-36), np.zeros_like(a), infinite):
                wanted = outcome(bare, x)
                assert all(outcome(front, x) == wanted for _ in range(3))
    for bad in (np.ones(3, dtype), np.dtype(dtype).type(1)[()]):
        wanted = outcome(bare, bad)
        assert all(outcome(front, bad) == wanted for _ in range(3))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "of_b", [(3,), (3, 2), (1, 3, 2), (4, 3, 2), (2, 4, 3, 2), (4, 3, 0)], ids=str
)
@pytest.mark.parametrize(
    "of_a", [(3,), (3, 2), (3, 3), (4, 3, 2), (2, 4, 3, 2), (4, 2, 3)], ids=str
)
def test_least_squares_that_broadcast(
    of_a: tuple[int, ...], of_b: tuple[int, ...], dtype: str
) -> None:
    rng = np.random.default_rng(9)
    a, b = draw(rng, of_a, dtype), draw(rng, of_b, dtype)
    deficient = np.ones_like(a)
    bare = getattr(linalg.lstsq, "__wrapped__")  # noqa: B009
    for x in (a, deficient):
        wanted = outcome(bare, x, b)
        assert all(outcome(linalg.lstsq, x, b) == wanted for _ in range(3))
        wanted = outcome(bare, x, b, rcond=-1)
        assert outcome(linalg.lstsq, x, b, rcond=-1) == wanted


@pytest.mark.parametrize("batch", [(), (1,), (5,)], ids=str)
def test_singular_after_good(batch: tuple[int, ...]) -> None:
    good = np.broadcast_to(np.eye(3), (*batch, 3, 3)).copy()
    bad = good.copy()
    bad.reshape(-1, 3, 3)[-1, -1, -1] = 0
    for _ in range(3):
        linalg.solve(good, good)
    for _ in range(2):
        with pytest.raises(linalg.LinAlgError, match="solve: Singular"):
            linalg.solve(bad, good)
    nan = linalg.solve(bad, good, on_error="nan")
    assert np.isnan(nan.reshape(-1, 3, 3)[-1]).all()


@pytest.mark.parametrize("batch", [(), (4,)], ids=str)
def test_tiny(batch: tuple[int, ...]) -> None:
    """Where pivots are subnormal the general way scales."""
    a = np.broadcast_to(np.eye(3) + 0.25, (*batch, 3, 3)).copy()
    linalg.solve(a, a)
    x = linalg.solve(a * 1e-310, a * 1e-310)
    np.testing.assert_allclose(x, np.broadcast_to(np.eye(3), x.shape), atol=1e-12)


def test_hits() -> None:
    a = np.eye(3)
    linalg.inv(a)
    before = hits()
    linalg.inv(a)
    assert hits() == before + 1
    linalg.inv(a, on_error="nan")
    linalg.inv(a.tolist())
    linalg.inv(np.ones((3, 3), np.int64) + 2 * np.eye(3, dtype=np.int64))
    assert hits() == before + 1


def test_options() -> None:
    """What was prepared holds under the options it was prepared for."""
    a = draw(np.random.default_rng(5), (5, 5), "float64")
    linalg.inv(a)
    linalg.inv(a)
    before = hits()
    with einloom.options(small=float("inf")):
        linalg.inv(a)
        assert hits() == before
        linalg.inv(a)
    assert hits() == before + 1


def test_arguments() -> None:
    for _ in range(2):
        with pytest.raises(TypeError):
            linalg.inv(np.eye(2), np.eye(2))
        with pytest.raises(einloom.EinloomError):
            linalg.solve(np.eye(2), np.ones(3))
        with pytest.raises(einloom.EinloomError):
            linalg.inv(np.ones((2, 3)))
    assert linalg.svd(np.eye(2), False).S.shape == (2,)
    assert linalg.solve(a=np.eye(2), b=np.ones(2)).tolist() == [1, 1]


@pytest.fixture
def without_loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """NumPy has no such names; what was made before is forgotten, and so is what is made here."""
    made = (own.run, own.qr, prepared.eig, prepared.double_eig, prepared.svd, prepared.det)
    monkeypatch.setattr(own, "_loop", lambda name: None)
    for kept in made:
        kept.cache_clear()
    yield
    for kept in made:
        kept.cache_clear()


@pytest.mark.usefixtures("without_loops")
@pytest.mark.parametrize("name", FRONTS)
def test_without_numpys_loops(name: str) -> None:
    """The public functions do the same where NumPy has no such names."""
    test_later_calls(name, "float32")
    test_later_calls(name, "complex128")


@pytest.mark.parametrize("dtype", DTYPES)
def test_loops_are_those_of_the_functions(dtype: str) -> None:
    a = draw(np.random.default_rng(6), (3, 4, 4), dtype)
    char = a.dtype.char
    calls: dict[str, Callable[..., Any]] = {
        "inv": np.linalg.inv,
        "det": np.linalg.det,
        "eigh_lo": np.linalg.eigh,
        "svd_f": np.linalg.svd,
        "svd_s": lambda a: np.linalg.svd(a, full_matrices=False),
    }
    for name, call in calls.items():
        run = own.run(name, char)
        assert run is not None
        assert outcome(run, a)[1] == outcome(call, a)[1]
    wide, qr = a[:, :3], own.qr(char)
    assert qr is not None
    for x in (a, wide, wide.swapaxes(1, 2), np.zeros_like(a)):
        assert outcome(qr, x)[1] == outcome(np.linalg.qr, x)[1]


def test_loops_are_quiet() -> None:
    """Whatever NumPy is told to do, from several threads, and of a NumPy that keeps it for each thread."""
    inv, good = own.run("inv", "d"), np.eye(3)[None]
    assert inv is not None
    in_thread = own._quiet_in_thread(lambda a: np.linalg._umath_linalg.inv(a))
    for run in (inv, in_thread):
        with np.errstate(all="raise"):
            assert run(0 * good) is None
            assert np.array_equal(run(good), good)
    before = np.geterr()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(inv, [good, 0 * good] * 200))
    assert [x is None for x in found] == [False, True] * 200
    assert np.geterr() == before


RANKS: list[tuple[int, ...]] = [(), (1,), (2,), (5,), (2, 5), (5, 1)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("of_b", RANKS, ids=str)
@pytest.mark.parametrize("of_a", RANKS, ids=str)
def test_ranks_that_broadcast(of_a: tuple[int, ...], of_b: tuple[int, ...], dtype: str) -> None:
    """Previously failed: one matrix and a batch of right sides went by the routine of one matrix."""
    rng = np.random.default_rng(7)
    for n, k in ((1, 1), (2, 2), (3, 2), (3, 4)):
        a = draw(rng, (*of_a, n, n), dtype) + 2 * n * np.eye(n, dtype=dtype)
        b = draw(rng, (*of_b, n, k), dtype)
        if not is_broadcast(of_a, of_b):
            for _ in range(3):
                with pytest.raises(einloom.ShapeError):
                    linalg.solve(a, b)
            continue
        first, *later = (linalg.solve(a, b) for _ in range(3))
        np.testing.assert_allclose(a @ first, np.broadcast_to(b, first.shape), atol=1e-4)
        for x in later:
            assert x.shape == first.shape
            assert np.array_equal(x, first)


def is_broadcast(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(first, second)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("scale", [0.0, 1e-200, 1e-320, 1.0])
def test_determinants_are_numbers(scale: float, dtype: str) -> None:
    """Previously failed: of matrices without a norm to speak of, arrays without axes at later calls."""
    a = (np.eye(2) * scale).astype(dtype)
    kinds = {type(linalg.det(a)) for _ in range(3)}
    assert kinds == {np.dtype(dtype).type}


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_what_is_beyond_single_precision_is_infinite_each_time(dtype: str) -> None:
    """Previously failed: later calls warned of the overflow."""
    a = np.stack([np.eye(2) * 1e-30] * 3).astype(dtype)
    b = np.full((3, 2, 1), 1e30, dtype)
    with np.errstate(all="raise"):
        results = [linalg.solve(a, b) for _ in range(3)]
    for x in results:
        np.testing.assert_array_equal(np.isfinite(x), False)


def test_threads() -> None:
    matrices = [draw(np.random.default_rng(n), (n, n), "float64") for n in range(1, 9)]
    wanted = [linalg.inv(a) for a in matrices]
    wrong: list[int] = []

    def work(start: int) -> None:
        for k in range(200):
            at = (start + k) % len(matrices)
            if k % 50 == 0:
                einloom.clear_caches()
            if not np.array_equal(linalg.inv(matrices[at]), wanted[at]):
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("batch", [(), (1,), (3,)], ids=str)
@pytest.mark.parametrize("scale", [1e200, 1.5e308])
def test_huge_complex_matrices(scale: float, batch: tuple[int, ...]) -> None:
    """Previously failed: Python's modulus of a determinant or of an element overflowed at later calls."""
    a = np.full((*batch, 3, 3), complex(scale, scale))
    a[..., range(3), range(3)] *= 0.5
    for front in (linalg.det, linalg.lu_factor, linalg.inv, lambda a: linalg.solve(a, a)):
        first, *later = (front(a) for _ in range(3))
        for result in later:
            for want, got in zip(parts(first), parts(result), strict=True):
                assert np.array_equal(want, got, equal_nan=True)
