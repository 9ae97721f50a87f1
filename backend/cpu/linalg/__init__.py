"""Factorisations and solves of batches of matrices, by the way that suits their size.

Functions of numpy.ndarray with matrices in the last two axes, any leading batch axes and any strides.
Dtypes are float32, float64, complex64 and complex128, already converted to one; batch shapes are equal
(zero strides allowed). Nothing is checked. Results are new C-contiguous arrays, and inputs are never
changed unless `overwrite=True` was passed, which allows a routine to use the memory of its operands.

Numerical failure is data: `info` is an int32 array of the batch shape with LAPACK's meaning, 0 where all
went well, > 0 where it failed (which pivot, or no convergence). Nothing is raised or warned, what comes
out for a failed member is unspecified, and no member spoils another.

    cholesky(a, lower=True) -> (factor, info)     reads that triangle; the other is zero in the result
    lu(a) -> (lu, pivots, info)                   int32 pivots: row k was swapped with row pivots[k]
    lu_solve(lu, pivots, b, trans="N") -> x       b [..., n, k], here and below
    solve(a, b) -> (x, info)
    inv(a) -> (x, info)
    det(a) -> d
    slogdet(a) -> (sign, logabsdet)
    triangular_solve(a, b, lower, trans, unit_diagonal, left=True) -> (x, info)
    cho_solve(c, b, lower=True) -> x
    qr(a, mode) -> (q, r), or r, or (h, tau)      mode "reduced", "complete", "r" or "raw"
    eigh(a, lower=True, vectors=True) -> (w, v or None, info)
    svd(a, full=False, vectors=True) -> (u or None, s, vh or None, info)
    eig(a, left=False, right=True) -> (w, vl or None, vr or None, info)      always complex
    lstsq(a, b, rcond) -> (x, residuals, rank, s, info)      singular values <= rcond * s[0] count as 0
"""

from .plain import (
    cho_solve,
    cholesky,
    det,
    eig,
    eigh,
    inv,
    lstsq,
    lu,
    lu_solve,
    qr,
    slogdet,
    solve,
    svd,
    triangular_solve,
)

__all__ = [
    "cho_solve",
    "cholesky",
    "det",
    "eig",
    "eigh",
    "inv",
    "lstsq",
    "lu",
    "lu_solve",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "triangular_solve",
]
