"""Factorisations and solves of batches of matrices, by the way that suits their size.

Work below the option `small` is left to NumPy and SciPy (`plain`), many small matrices share the lanes of
vectors (`interleaved`), batches of larger ones go through LAPACK on all threads, one matrix each (`batched`),
and so few that threads would idle are plain again. `ways` decides.

Functions of numpy.ndarray with matrices in the last two axes, any leading batch axes and any strides.
Dtypes are float32, float64, complex64 and complex128, already converted to one; batch shapes are equal
(zero strides allowed). Nothing is checked. Results are new C-contiguous arrays, and inputs are never
changed unless `overwrite=True` was passed, which allows a routine to use the memory of its first operand,
of triangular solves that of b.

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

from typing import Any

from .plain import Array, QRMode, Trans
from .ways import module


def cholesky(a: Array, lower: bool = True, *, overwrite: bool = False) -> tuple[Array, Array]:
    """a = l lᴴ, or uᴴ u."""
    return module("cholesky", a).cholesky(a, lower, overwrite=overwrite)


def lu(a: Array, *, overwrite: bool = False) -> tuple[Array, Array, Array]:
    """p l u = a, packed."""
    return module("lu", a).lu(a, overwrite=overwrite)


def lu_solve(lu: Array, pivots: Array, b: Array, trans: Trans = "N") -> Array:
    """x of a x = b, from what `lu` made of a."""
    return module("lu_solve", lu, b).lu_solve(lu, pivots, b, trans)


def solve(a: Array, b: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    """x of a x = b."""
    return module("solve", a, b).solve(a, b, overwrite=overwrite)


def inv(a: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    """x of a x = 1."""
    return module("inv", a).inv(a, overwrite=overwrite)


def det(a: Array, *, overwrite: bool = False) -> Array:
    """The determinant."""
    return module("det", a).det(a, overwrite=overwrite)


def slogdet(a: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    """Its sign and the logarithm of its absolute value."""
    return module("slogdet", a).slogdet(a, overwrite=overwrite)


def triangular_solve(
    a: Array,
    b: Array,
    lower: bool,
    trans: Trans,
    unit_diagonal: bool,
    left: bool = True,
    *,
    overwrite: bool = False,
) -> tuple[Array, Array]:
    """x of op(a) x = b, or of x op(a) = b."""
    return module("triangular_solve", a, b).triangular_solve(
        a, b, lower, trans, unit_diagonal, left, overwrite=overwrite
    )


def cho_solve(c: Array, b: Array, lower: bool = True, *, overwrite: bool = False) -> Array:
    """x of c cᴴ x = b, or of cᴴ c x = b."""
    return module("cho_solve", c, b).cho_solve(c, b, lower, overwrite=overwrite)


def qr(a: Array, mode: QRMode, *, overwrite: bool = False) -> Any:
    """q r = a."""
    return module("qr", a).qr(a, mode, overwrite=overwrite)


def eigh(
    a: Array, lower: bool = True, vectors: bool = True, *, overwrite: bool = False
) -> tuple[Array, Array | None, Array]:
    """a v = v w of a Hermitian matrix."""
    return module("eigh", a).eigh(a, lower, vectors, overwrite=overwrite)


def svd(
    a: Array, full: bool = False, vectors: bool = True, *, overwrite: bool = False
) -> tuple[Array | None, Array, Array | None, Array]:
    """u s vᴴ = a."""
    return module("svd", a).svd(a, full, vectors, overwrite=overwrite)


def eig(
    a: Array, left: bool = False, right: bool = True, *, overwrite: bool = False
) -> tuple[Array, Array | None, Array | None, Array]:
    """a v = v w."""
    return module("eig", a).eig(a, left, right, overwrite=overwrite)


def lstsq(
    a: Array, b: Array, rcond: float, *, overwrite: bool = False
) -> tuple[Array, Array, Array, Array, Array]:
    """x of least norm with |a x - b| least."""
    return module("lstsq", a, b).lstsq(a, b, rcond, overwrite=overwrite)


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
