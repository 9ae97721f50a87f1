"""Batches that fail in part: the error names members, NaN stays with them, codes are returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.linalg.matrices import DTYPES, Array, adjoint, draw

import einloom
from einloom import linalg

BAD = ((0, 2), (1, 1), (1, 3))
"""Members of a batch of 2 by 4 that fail."""

KERNELS = pytest.param(0, marks=pytest.mark.slow)  # each dtype of each compiles


def _singular(a: Array) -> Array:
    a = a.copy()
    for k in BAD:
        a[k][:, 1] = 0
        a[k][1] = 0
    return a


def _indefinite(a: Array) -> Array:
    h = a @ adjoint(a)
    for k in BAD:
        h[k][1, 1] = -1
    return h


def _not_finite(a: Array) -> Array:
    h = a @ adjoint(a)
    for k in BAD:
        h[k][1, 2] = np.nan
        h[k][2, 1] = np.inf
    return h


FAILING: dict[str, tuple[Callable[[Array], Array], Callable[..., Any], str]] = {
    "solve": (_singular, lambda a, **o: linalg.solve(a, np.ones((3, 2), a.dtype), **o), "ingular"),
    "inv": (_singular, linalg.inv, "ingular"),
    "triangular": (
        _singular,
        lambda a, **o: linalg.solve_triangular(a, np.ones(3, a.dtype), **o),
        "ingular",
    ),
    "lu_solve": (
        lambda a: _singular(a),
        lambda a, **o: linalg.lu_solve(linalg.lu_factor(a), np.ones(3, a.dtype), **o),
        "ingular",
    ),
    "full_piv_lu_solve": (
        _singular,
        lambda a, **o: linalg.full_piv_lu_solve(linalg.full_piv_lu(a), np.ones(3, a.dtype), **o),
        "ingular",
    ),
    "factorize": (
        _singular,
        lambda a, **o: linalg.factorize(a).solve(np.ones(3, a.dtype), **o),
        "ingular",
    ),
    "diagonal": (
        lambda a: _singular(a * np.eye(3)),
        lambda a, **o: linalg.solve(a, np.ones(3, a.dtype), assume_a="auto", **o),
        "ingular",
    ),
    "banded": (
        lambda a: _singular(a * np.tri(3, k=1) * np.tri(3, k=1).T),
        lambda a, **o: linalg.solve(a, np.ones(3, a.dtype), assume_a="banded", **o),
        "ingular",
    ),
    "symmetric": (
        lambda a: _singular(a + a.swapaxes(-1, -2)),
        lambda a, **o: linalg.solve(a, np.ones(3, a.dtype), assume_a="sym", **o),
        "ingular",
    ),
    "hermitian": (
        lambda a: _singular(a + adjoint(a)),
        lambda a, **o: linalg.solve(a, np.ones(3, a.dtype), assume_a="her", **o),
        "ingular",
    ),
    "cholesky": (_indefinite, linalg.cholesky, "positive definite"),
    "positive": (
        _indefinite,
        lambda a, **o: linalg.solve(a, np.ones(3, a.dtype), assume_a="pos", **o),
        "positive definite",
    ),
    "eig": (_not_finite, linalg.eig, "infs or NaNs"),
    "eigvals": (_not_finite, linalg.eigvals, "infs or NaNs"),
    **{
        name: (
            _not_finite,
            lambda a, f=f, **o: f(a, check_finite=True, **o),
            "infs or NaNs",
        )
        for name, f in {
            "check eigh": linalg.eigh,
            "check eigvalsh": linalg.eigvalsh,
            "check svd": linalg.svd,
            "check svdvals": linalg.svdvals,
            "check hermitian svd": lambda a, **o: linalg.svd(a, hermitian=True, **o),
            "check pinv": linalg.pinv,
            "check qr": linalg.qr,
            "check lu_factor": linalg.lu_factor,
            "check full_piv_lu": linalg.full_piv_lu,
            "check det": linalg.det,
            "check slogdet": linalg.slogdet,
            "check inv": linalg.inv,
            "check solve": lambda a, **o: linalg.solve(a, np.ones(3, a.dtype), **o),
            "check cholesky": linalg.cholesky,
            "check lstsq": lambda a, **o: linalg.lstsq(a, np.ones(3, a.dtype), **o),
        }.items()
    },
}


def flat(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("small", [np.inf, KERNELS])
@pytest.mark.parametrize("name", FAILING)
def test_members(rng: np.random.Generator, name: str, small: float) -> None:
    make, run, words = FAILING[name]
    with einloom.options(small=small):
        for dtype in DTYPES:
            a = make(draw(rng, (2, 4, 3, 3), dtype) + 4 * np.eye(3, dtype=dtype))
            with pytest.raises(einloom.LinAlgError, match=words) as caught:
                run(a)
            assert caught.value.failed == BAD
            assert caught.value.info is not None
            assert tuple(map(tuple, np.argwhere(caught.value.info))) == BAD
            assert "3 of 8" in str(caught.value)
            assert "(0, 2), (1, 1), (1, 3)" in str(caught.value)
            found, info = run(a, on_error="info")
            assert info.dtype == np.int32
            assert info.shape == (2, 4)
            assert ((info == -1) == (info != 0)).all() if "infs" in words else (info >= 0).all()
            quiet = run(a, on_error="nan")
            for x, y in zip(flat(found), flat(quiet), strict=True):
                np.testing.assert_array_equal(x, y)
                for k in np.ndindex(2, 4):
                    good = np.isfinite(x[k]).all() if x.dtype.kind in "fc" else (x[k] >= 0).all()
                    assert good == (k not in BAD), k
                    if k in BAD:
                        assert np.isnan(x[k]).all() if x.dtype.kind in "fc" else (x[k] == -1).all()
            alone = run(a[0, 0])
            for x, y in zip(flat(quiet), flat(alone), strict=True):
                if name not in ("eig", "check lstsq"):  # phases; residuals that NumPy leaves out
                    np.testing.assert_allclose(abs(x[0, 0]), abs(y), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_matrix(dtype: str) -> None:
    a = np.diag([1, 0, 1]).astype(dtype)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix") as caught:
        linalg.inv(a)
    assert caught.value.failed == ((),)  # type: ignore[attr-defined]
    x, info = linalg.inv(a, on_error="info")
    assert info == 2
    assert np.isnan(x).all()
    _, info = linalg.inv(np.eye(2, dtype=dtype), on_error="info")
    assert info == 0
    assert info.flags.writeable


def test_first_few_members_are_named() -> None:
    with pytest.raises(einloom.LinAlgError, match="at 0, 1, 2, 3, 4 and 95 more"):
        linalg.inv(np.zeros((100, 2, 2)))


def test_codes() -> None:
    """LAPACK's: one plus the pivot, the order of the leading minor."""
    a = np.array([np.diag([1.0, 2, 3]), np.diag([1.0, 0, 3]), np.diag([1.0, 2, 0])])
    b = np.ones((3, 1))
    assert linalg.solve(a, b, on_error="info")[1].tolist() == [0, 2, 3]
    assert linalg.inv(a, on_error="info")[1].tolist() == [0, 2, 3]
    assert linalg.cholesky(a, on_error="info")[1].tolist() == [0, 2, 3]
    assert linalg.solve_triangular(a, b, on_error="info")[1].tolist() == [0, 2, 3]
    assert linalg.lu_solve(linalg.lu_factor(a), b, on_error="info")[1].tolist() == [0, 2, 3]
    assert linalg.lu_factor(a, on_error="info")[1].tolist() == [0, 0, 0]


@pytest.mark.parametrize("small", [np.inf, KERNELS])
def test_not_finite_without_the_check(rng: np.random.Generator, small: float) -> None:
    """That member is NaN somewhere or counts as failed; the others are as they would be alone."""
    for dtype in DTYPES:
        a = draw(rng, (5, 4, 4), dtype) + 4 * np.eye(4, dtype=dtype)
        h = a @ adjoint(a)
        h[2, 1, 1] = np.nan
        h[3, 2, 2] = np.inf
        with einloom.options(small=small):
            for run in (
                linalg.inv, linalg.cholesky, linalg.eigh, linalg.svd, linalg.qr, linalg.det,
                linalg.slogdet, linalg.lu_factor, linalg.svdvals, linalg.eigvalsh, linalg.pinv,
                lambda a, **o: linalg.solve(a, np.ones(4, a.dtype), **o),
            ):  # fmt: skip
                found, info = run(h, on_error="info")
                assert not info[[0, 1, 4]].any()
                for x in flat(found):
                    assert np.isfinite(x[[0, 1, 4]]).all()
                for k in (2, 3):
                    values = [x[k] for x in flat(found) if x.dtype.kind in "fc"]
                    settled = info[k] or not all(np.isfinite(v).all() for v in values)
                    # 1 / infinity is a zero, and a good answer
                    assert settled or k == 3


def test_interpreter_stays_usable(rng: np.random.Generator) -> None:
    for _ in range(20):
        with pytest.raises(einloom.LinAlgError):
            linalg.inv(np.zeros((50, 3, 3)))
        a = draw(rng, (50, 3, 3), "float64") + 4 * np.eye(3)
        np.testing.assert_allclose(
            linalg.inv(a) @ a, np.broadcast_to(np.eye(3), a.shape), atol=1e-12
        )
