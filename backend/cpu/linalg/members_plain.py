"""The functions of `members` by the wrappers of scipy.linalg.lapack, one matrix after another."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dtypes import real_of

Array = np.ndarray[Any, Any]


def schur(a: Array) -> tuple[Array, Array, list[Array], Array]:
    t, z = np.empty(a.shape, a.dtype), np.empty(a.shape, a.dtype)
    parts = [np.empty(a.shape[:-1], a.dtype) for _ in range(2 if a.dtype.kind == "f" else 1)]
    info = np.zeros(a.shape[:-2], np.int32)
    if a.size:
        gees = _lapack("gees", a)
        for k in np.ndindex(info.shape):
            t[k], _, *values, z[k], _, info[k] = gees(lambda *w: None, a[k], sort_t=0)
            for part, value in zip(parts, values, strict=True):
                part[k] = value
    return t, z, parts, info


def qr_pivoted(a: Array, mode: str) -> tuple[Array | None, Array, Array]:
    m, n = a.shape[-2:]
    k = min(m, n)
    columns = m if mode == "complete" else k
    r = np.empty((*a.shape[:-2], columns, n), a.dtype)
    q = None if mode == "r" else np.empty((*a.shape[:-2], m, columns), a.dtype)
    pivots = np.empty((*a.shape[:-2], n), np.int32)
    geqp3 = _lapack("geqp3", a)
    orgqr = _lapack("orgqr" if a.dtype.kind == "f" else "ungqr", a)
    for at in np.ndindex(a.shape[:-2]):
        packed, pivots[at], tau, _, _ = geqp3(a[at])
        r[at] = np.triu(packed[:columns])
        if q is not None:
            reflectors = np.zeros((m, columns), a.dtype, order="F")
            reflectors[:, :k] = packed[:, :k]
            q[at] = orgqr(reflectors, tau)[0]
    return q, r, pivots


def eigh_range(
    a: Array, lower: bool, kind: str, low: float, high: float
) -> tuple[Array, Array, Array, Array]:
    n = a.shape[-1]
    most = int(high) - int(low) + 1 if kind == "I" else n
    w, v = (
        np.zeros((*a.shape[:-2], most), real_of(a.dtype)),
        np.zeros((*a.shape[:-1], most), a.dtype),
    )
    counts, info = (np.zeros(a.shape[:-2], np.int32) for _ in range(2))
    if a.size:
        evr = _lapack("syevr" if a.dtype.kind == "f" else "heevr", a)
        bounds = {"vl": low, "vu": high}
        if kind == "I":
            bounds = {"il": int(low) + 1, "iu": int(high) + 1}
        for k in np.ndindex(info.shape):
            values, vectors, found, _, info[k] = evr(a[k], range=kind, lower=lower, **bounds)
            counts[k] = found
            w[k][:found], v[k][:, :found] = values[:found], vectors[:, :found]
    return w, v, counts, info


def _lapack(name: str, a: Array) -> Any:
    from scipy.linalg.lapack import get_lapack_funcs

    return get_lapack_funcs(name, dtype=a.dtype)
