"""Results with several arrays, under the names of the array API."""

from __future__ import annotations

from typing import Any, NamedTuple


class QRResult(NamedTuple):
    """a = Q @ R."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """a = U @ diag(S) @ Vh."""

    U: Any
    S: Any
    Vh: Any


class EigResult(NamedTuple):
    """a @ eigenvectors = eigenvectors * eigenvalues."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """a @ eigenvectors = eigenvectors * eigenvalues, with real eigenvalues in ascending order."""

    eigenvalues: Any
    eigenvectors: Any


class SlogdetResult(NamedTuple):
    """det(a) = sign * exp(logabsdet)."""

    sign: Any
    logabsdet: Any


class LstsqResult(NamedTuple):
    """What `lstsq` returns: x, sums of squared residuals, ranks, singular values."""

    x: Any
    residuals: Any
    rank: Any
    s: Any


class LUResult(NamedTuple):
    """a = P @ L @ U."""

    P: Any
    L: Any
    U: Any


class FullPivLUResult(NamedTuple):
    """a = Pᵀ @ L @ U @ Q; parity is the determinant of P times that of Q."""

    P: Any
    L: Any
    U: Any
    Q: Any
    parity: Any
