"""Square roots of batches of matrices from their Schur forms.

A. Björck and S. Hammarling, Linear Algebra Appl. 52/53, 127 (1983): of A = Z T Zᴴ with T upper triangular
the root is Z R Zᴴ, where R R = T is solved column by column, r_ii² = t_ii and
(r_ii + r_jj) r_ij = t_ij - sum of r_ik r_kj over i < k < j.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .members import schur

Array = np.ndarray[Any, Any]
BLOCK = 32  # columns of a root that are found number by number; larger ones are products


def sqrtm(a: Array) -> tuple[Array, Array]:
    """(x, info): x @ x = a with eigenvalues in the right half plane; complex unless all roots are real.

    `info` is 1 + the column where a zero eigenvalue leaves no root, -1 where the Schur form did not
    converge.
    """
    if a.size == 0:
        return np.empty(a.shape, a.dtype), np.zeros(a.shape[:-2], np.int32)
    flat = a.reshape(-1, *a.shape[-2:])
    t, z, w, failed = schur(flat)
    n = a.shape[-1]
    real = np.isrealobj(a)
    is_triangular = np.ones(len(flat), np.bool_) if not real else (w.imag == 0).all(axis=-1)
    below = (w.real < 0) & (w.imag == 0)
    x = np.empty(a.shape, a.dtype if real and not below.any() else _complex(a.dtype))
    x, info = x.reshape(flat.shape), np.zeros(len(flat), np.int32)
    simple = is_triangular & ~(below.any(axis=-1) & real)
    for mine, is_real in ((simple, True), (~simple, False)):
        if not mine.any():
            continue
        if is_real:
            form, basis, bad = t[mine], z[mine], failed[mine]
        else:
            form, basis, _, bad = schur(
                flat[mine].astype(x.dtype if not real else _complex(a.dtype))
            )
        root, info[mine] = _triangular(form)
        info[mine] = np.where(bad > 0, -1, info[mine])
        found = basis @ root @ basis.conj().swapaxes(-1, -2)
        x[mine] = found if x.dtype.kind == "c" else found.real
    return x.reshape(*a.shape[:-2], n, n), info.reshape(a.shape[:-2])


def _complex(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.result_type(dtype, np.complex64)


def _triangular(t: Array) -> tuple[Array, Array]:
    """The root of upper triangular matrices [batch, n, n]; the triangle below is not read."""
    count, n = t.shape[:2]
    r = np.zeros((n, n, count), t.dtype)  # [row, column, member]: vectors run along the batch
    t = np.ascontiguousarray(t.transpose(1, 2, 0))
    info = np.zeros(count, np.int32)
    for i in range(n):
        r[i, i] = np.sqrt(t[i, i])
    for j in range(1, n):
        for i in range(j - 1, -1, -1):
            rest = t[i, j]
            if j - i > 1:
                rest = rest - np.einsum("kb,kb->b", r[i, i + 1 : j], r[i + 1 : j, j])
            _divide(r[i, j], rest, r[i, i] + r[j, j], info, j)
    return np.ascontiguousarray(r.transpose(2, 0, 1)), info


def _divide(to: Array, rest: Array, both: Array, info: Array, j: int) -> None:
    """to = rest / both, 0 where both are 0; only the rest is not zero there: no root."""
    lost = both == 0
    if not lost.any():
        np.divide(rest, both, out=to)
        return
    np.divide(rest, np.where(lost, 1, both), out=to)
    info[lost & (rest != 0) & (info == 0)] = j + 1
    to[lost] = 0
