"""Factorisations that NumPy has not, by LAPACK: Schur forms, pivoted QR, parts of Hermitian spectra.

What is small, or single, is left to SciPy's wrappers (`members_plain`), batches go through a compiled loop on
all threads; shapes and options decide, as for the rest of the package.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Literal

import numpy as np

from . import members_plain
from .ways import way

Array = np.ndarray[Any, Any]
Kind = Literal["I", "V"]


def schur(a: Array) -> tuple[Array, Array, Array, Array]:
    """(t, z, w, info): a = z @ t @ zᴴ, t upper triangular, of a real matrix with 2 x 2 blocks for pairs of
    complex eigenvalues w [..., n]."""
    t, z, parts, info = _module("schur", a).schur(a)
    w = parts[0] + 1j * parts[1] if len(parts) == 2 else parts[0]
    return t, z, np.asarray(w), info


def qr_pivoted(a: Array, mode: str) -> tuple[Array | None, Array, Array]:
    """(q, r, p): a[..., p] = q @ r with |r_11| >= |r_22| >= ...; mode "reduced", "complete" or "r"."""
    if a.size == 0:
        return _of_nothing(a, mode)
    q, r, pivots = _module("qr_pivoted", a).qr_pivoted(a, mode)
    return q, r, pivots.astype(np.int64) - 1


def eigh_range(
    a: Array, lower: bool, kind: Kind, low: float, high: float
) -> tuple[Array, Array, Array, Array]:
    """(w, v, counts, info): eigenvalues `low` to `high`, counted from 0 and both included (kind "I"), or
    those in (low, high] (kind "V"), of which each member has `counts`; what is behind them is no result."""
    w, v, counts, info = _module("eigh_range", a).eigh_range(a, lower, kind, low, high)
    return w, v, counts.astype(np.int64), info


def _module(op: str, a: Array) -> ModuleType:
    if way(op, a) == "plain":
        return members_plain
    from . import members_batched

    return members_batched


def _of_nothing(a: Array, mode: str) -> tuple[Array | None, Array, Array]:
    (m, n), batch = a.shape[-2:], a.shape[:-2]
    k = m if mode == "complete" else min(m, n)
    q = np.empty((*batch, m, k), a.dtype)
    q[...] = np.eye(m, k)
    p = np.empty((*batch, n), np.int64)
    p[...] = np.arange(n)
    return None if mode == "r" else q, np.zeros((*batch, k, n), a.dtype), p
