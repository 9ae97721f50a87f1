"""What each function of batches means, in a few lines of NumPy on one matrix at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from tests.linalg.matrices import Array, adjoint
from tests.tolerance import eps

from einloom import linalg

Operands = tuple[Array, ...]


class Op(NamedTuple):
    """A function with the operands that it takes, and the law that its results obey.

    `law(a, b, *results)` yields pairs (got, want) for one matrix a and right-hand sides b.
    """

    run: Callable[..., Any]
    law: Callable[..., Any]
    takes: str = "square"  # square, positive, or any
    sides: int = 0  # operands beside a


def det(a: Array) -> Any:
    """By Laplace's rule along the first row."""
    if not len(a):
        return a.dtype.type(1)
    minors = (np.delete(a[1:], k, 1) for k in range(len(a)))
    return sum((-1) ** k * a[0, k] * det(minor) for k, minor in enumerate(minors))


def eye(n: int) -> Array:
    return np.eye(n)


def _lstsq(a: Array, b: Array, x: Array, residuals: Array, rank: Any, s: Array) -> Any:
    yield adjoint(a) @ (a @ x), adjoint(a) @ b
    yield np.asarray(rank), np.asarray(min(a.shape))
    yield s, linalg.svdvals(a)


def _eig(a: Array, w: Array, v: Array) -> Any:
    yield a @ v, v * w
    yield np.linalg.norm(v, axis=0), np.ones(len(a))


OPS: dict[str, Op] = {
    "cholesky": Op(
        linalg.cholesky, lambda a, c: [(c @ adjoint(c), a), (c, np.tril(c))], "positive"
    ),
    "cholesky upper": Op(
        lambda a: linalg.cholesky(a, upper=True),
        lambda a, c: [(adjoint(c) @ c, a), (c, np.triu(c))],
        "positive",
    ),
    "inv": Op(linalg.inv, lambda a, x: [(a @ x, eye(len(a)))]),
    "det": Op(linalg.det, lambda a, d: [(d, det(a))]),
    "slogdet": Op(linalg.slogdet, lambda a, s, d: [(s * np.exp(d), det(a)), (abs(s), 1.0)]),
    "solve": Op(linalg.solve, lambda a, b, x: [(a @ x, b)], sides=1),
    "lu": Op(
        linalg.lu,
        lambda a, p, lo, up: [(p @ lo @ up, a), (lo, np.tril(lo)), (up, np.triu(up))],
        "any",
    ),
    "lu_solve": Op(
        lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, "C"),
        lambda a, b, x: [(adjoint(a) @ x, b)],
        sides=1,
    ),
    "cho_solve": Op(
        lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b),
        lambda a, b, x: [(a @ x, b)],
        "positive",
        sides=1,
    ),
    "full_piv_lu": Op(
        linalg.full_piv_lu,
        lambda a, p, lo, up, q, parity: [
            (p.T @ lo @ up @ q, a),
            (parity, np.linalg.det(p) * np.linalg.det(q)),
            (abs(lo).max(initial=1), 1.0),
        ],
    ),
    "full_piv_lu_solve": Op(
        lambda a, b: linalg.full_piv_lu_solve(linalg.full_piv_lu(a), b),
        lambda a, b, x: [(a @ x, b)],
        sides=1,
    ),
    "qr": Op(linalg.qr, lambda a, q, r: [(q @ r, a), (adjoint(q) @ q, eye(q.shape[1]))], "any"),
    "svd": Op(
        linalg.svd,
        lambda a, u, s, vh: [
            (u[:, : len(s)] * s @ vh[: len(s)], a),
            (adjoint(u) @ u, eye(len(u))),
            (vh @ adjoint(vh), eye(len(vh))),
            (s, np.sort(abs(s))[::-1]),
        ],
        "any",
    ),
    "svdvals": Op(
        lambda a: linalg.svdvals(a), lambda a, s: [((s**2).sum(), (abs(a) ** 2).sum())], "any"
    ),
    "eigh": Op(
        linalg.eigh,
        lambda a, w, v: [(a @ v, v * w), (adjoint(v) @ v, eye(len(a))), (w, np.sort(w))],
        "positive",
    ),
    "eigvalsh": Op(linalg.eigvalsh, lambda a, w: [(w.sum(), np.trace(a).real)], "positive"),
    "eig": Op(linalg.eig, _eig),
    "eigvals": Op(linalg.eigvals, lambda a, w: [(w.sum(), np.trace(a))]),
    "lstsq": Op(linalg.lstsq, _lstsq, "any", sides=1),
    "pinv": Op(
        linalg.pinv, lambda a, x: [(a @ x @ a, a), (x @ a @ x, x), (adjoint(a @ x), a @ x)], "any"
    ),
}


def close(got: Any, want: Any, dtype: str, scale: float) -> None:
    """Equal to 200 units of rounding of the largest number around: matrices here are small."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=200 * eps(dtype) * max(scale, 1.0))
