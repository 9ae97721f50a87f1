"""Calls like an earlier one give what the first gave, bit by bit, and fail as it would have failed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.linalg.matrices import DTYPES, LAYOUTS, adjoint, draw

import einloom
from einloom import linalg
from einloom.backend.cpu.linalg import own

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
}


def parts(result: Any) -> tuple[Array, ...]:
    return tuple(map(np.asarray, result if isinstance(result, tuple) else (result,)))


def hits() -> int:
    return einloom.cache_info()["recent matrices"].hits


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FRONTS)
def test_later_calls(name: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    for shape in ((1, 1), (3, 3), (16, 16), (1, 4, 4), (3, 2, 2)):
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


@pytest.mark.parametrize(
    "name", [name for name in FRONTS if name not in ("lu_factor", "qr", "det")]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_failures(name: str, dtype: str) -> None:
    """A matrix of NaN among good ones, the same error each time; where it is none, the same result."""
    good = draw(np.random.default_rng(4), (4, 4), dtype)
    bad = np.full_like(good, np.nan)

    def outcome(a: Array) -> Any:
        try:
            return [x.tobytes() for x in parts(FRONTS[name](a))]
        except linalg.LinAlgError as error:
            return str(error)

    einloom.clear_caches()
    first = outcome(bad)
    for _ in range(3):
        outcome(good)
    assert outcome(bad) == first
    assert outcome(good) == outcome(good)


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


def test_without_numpys_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """The public functions do the same where NumPy has no such names."""
    a = draw(np.random.default_rng(6), (3, 4, 4), "float64")
    x, found = own.solver("d")(a, a), own.eig(a)
    assert found is not None
    assert x is not None
    monkeypatch.setattr(own, "_loop", lambda name: None)
    slow, spectrum = own.solver("d")(a, a), own.eig(a)
    assert slow is not None
    assert spectrum is not None
    assert np.array_equal(slow, x)
    assert all(map(np.array_equal, spectrum, found))
    assert all(part.dtype == np.complex128 for part in own.eig(np.diag([1.0, 2.0])) or ())
    assert own.solver("d")(np.zeros((2, 3, 3)), a[:2, :3, :3]) is None
    assert own.eig(np.full((2, 2), np.nan)) is None


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
