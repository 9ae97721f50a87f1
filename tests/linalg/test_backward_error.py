"""Backward errors are at most ten times LAPACK's on the same matrix, and never above 100 n eps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.linalg.matrices import DTYPES, Array, adjoint, draw, kinds
from tests.tolerance import eps

import einloom
from einloom import linalg

FACTOR = 10.0
"""Times LAPACK's own error; below `FLOOR` n eps two errors are both rounding, and not compared."""
FLOOR = 3.0

Errors = Callable[..., list[float]]


def size(a: Array) -> float:
    """Frobenius norm, scaled first so that squares stay in range."""
    top = float(abs(a).max(initial=0))
    return top * float(np.linalg.norm((a / top).astype("complex128"))) if top else 0.0


def relative(difference: Array, a: Array) -> float:
    scale = size(a)
    return size(difference) / scale if scale else size(difference)


def orthogonal(q: Array) -> float:
    """‖qᴴq - 1‖ over the square root of the number of columns."""
    n = q.shape[-1]
    return size(adjoint(q) @ q - np.eye(n, dtype=q.dtype)) / max(1, n) ** 0.5


def wide(*arrays: Array) -> tuple[Array, ...]:
    """In double precision, so that the check does not round."""
    return tuple(
        np.asarray(x, np.complex128 if x.dtype.kind == "c" else np.float64) for x in arrays
    )


def of_lu(lu: Callable[[Array], tuple[Array, Array, Array]], a: Array) -> list[float]:
    p, lower, upper = wide(*lu(a))
    return [relative(p @ lower @ upper - a, a)]


def of_solve(solve: Callable[[Array, Array], Array], a: Array) -> list[float]:
    b = np.ones((len(a), 2), a.dtype)
    (x,) = wide(solve(a, b))
    return [size(a @ x - b) / (size(a) * size(x) + size(b))]


def of_qr(qr: Callable[[Array], tuple[Array, Array]], a: Array) -> list[float]:
    q, r = wide(*qr(a))
    return [relative(q @ r - a, a), orthogonal(q)]


def of_svd(svd: Callable[[Array], tuple[Array, Array, Array]], a: Array) -> list[float]:
    u, s, vh = wide(*svd(a))
    assert (s[:-1] >= s[1:]).all()
    assert (s >= 0).all()
    return [relative((u * s) @ vh - a, a), orthogonal(u), orthogonal(adjoint(vh))]


def of_eigh(eigh: Callable[[Array], tuple[Array, Array]], a: Array) -> list[float]:
    h = (a + adjoint(a)) / a.dtype.type(2)
    w, v = wide(*eigh(h))
    assert (w[:-1] <= w[1:]).all()
    return [relative((v * w) @ adjoint(v) - h, h), orthogonal(v)]


def of_eig(eig: Callable[[Array], tuple[Array, Array]], a: Array) -> list[float]:
    w, v = wide(*eig(a))
    return [relative(a @ v - v * w, a)]


def of_cholesky(cholesky: Callable[[Array], Array], a: Array) -> list[float]:
    h = a @ adjoint(a)
    h += np.eye(len(a), dtype=a.dtype) * (np.trace(h).real + a.dtype.type(1))
    (c,) = wide(cholesky(h))
    return [relative(c @ adjoint(c) - h, h)]


def of_inv(inv: Callable[[Array], Array], a: Array) -> list[float]:
    (x,) = wide(inv(a))
    (y,) = wide(a)
    eye = np.eye(len(a))
    # solved column by column, as NumPy does: x a - 1 may be as large as the condition allows
    return [size(y @ x - eye) / (size(a) * size(x))]


def theirs_lu(a: Array) -> tuple[Array, Array, Array]:
    import scipy.linalg

    p, lower, upper = scipy.linalg.lu(a)
    return p, lower, upper


def by_getri(a: Array) -> Array:
    from scipy.linalg.lapack import get_lapack_funcs

    getrf, getri = get_lapack_funcs(("getrf", "getri"), (a,))
    lu, pivots, _ = getrf(a)
    return np.asarray(getri(lu, pivots)[0])


CASES: dict[str, tuple[Errors, Callable[..., Any], Callable[..., Any]]] = {
    "lu": (of_lu, linalg.lu, theirs_lu),
    "solve": (of_solve, linalg.solve, np.linalg.solve),
    "inv": (of_inv, linalg.inv, np.linalg.inv),
    "qr": (of_qr, linalg.qr, np.linalg.qr),
    "svd": (of_svd, linalg.svd, np.linalg.svd),
    "eigh": (of_eigh, linalg.eigh, np.linalg.eigh),
    "eig": (of_eig, linalg.eig, np.linalg.eig),
    "cholesky": (of_cholesky, linalg.cholesky, np.linalg.cholesky),
}


@pytest.mark.parametrize("batched", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_square(rng: np.random.Generator, name: str, dtype: str, batched: bool) -> None:
    errors, ours, theirs = CASES[name]
    for label, a in kinds(rng, dtype):
        if name in ("solve", "inv") and theirs_fails(a):
            with pytest.raises(np.linalg.LinAlgError):
                errors(ours, a)
            continue
        unit = eps(dtype) * len(a)
        with einloom.options(small=0 if batched else np.inf):
            found = errors(among_others(ours) if batched else ours, a)
        least = errors(theirs, a)
        if name == "inv":  # LAPACK has two ways, gesv and getri, each good on one side
            least = [max(*least, *errors(by_getri, a))] * len(least)
        for got, want in zip(found, least, strict=True):
            assert got <= max(FACTOR * want, FLOOR * unit), (label, got / unit, want / unit)


def among_others(run: Callable[..., Any]) -> Callable[..., Any]:
    """One matrix in the middle of a batch; the others are identities."""

    def middle(*operands: Array) -> Any:
        eyes = (np.eye(*x.shape, dtype=x.dtype) for x in operands)
        stacks = [
            np.stack([eye] * 3 + [x] + [eye] * 5) for x, eye in zip(operands, eyes, strict=True)
        ]
        found = run(*stacks)
        return tuple(x[3] for x in found) if isinstance(found, tuple) else found[3]

    return middle


def theirs_fails(a: Array) -> bool:
    try:
        np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return True
    return False


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["lu", "qr", "svd"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1), (20, 3), (3, 20), (33, 32), (40, 64)])
def test_rectangular(
    rng: np.random.Generator, name: str, dtype: str, shape: tuple[int, int]
) -> None:
    errors, ours, theirs = CASES[name]
    full = {"svd": lambda f: lambda a: f(a, False)}.get(name, lambda f: f)
    a = draw(rng, shape, dtype)
    unit = eps(dtype) * max(shape)
    for got, want in zip(errors(full(ours), a), errors(full(theirs), a), strict=True):
        assert got <= max(FACTOR * want, FLOOR * unit)
