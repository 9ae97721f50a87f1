"""Factorisations: Cholesky, LU, QR and SVD."""

from __future__ import annotations

from typing import Any, Literal, overload

from .._base.errors import OptionError
from . import ops, recent
from .beyond import one_of
from .failures import OnError
from .gauges import Gauge, canonical_svd
from .on_device import on_devices
from .op import apply
from .operands import matrix, square, wrap_of
from .results import LUResult, QRResult, SVDResult

_MODES = ("reduced", "complete", "r", "raw")


@recent.of_matrix(recent.cholesky)
@on_devices
def cholesky(
    a: Any,
    /,
    *,
    upper: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """a = L Lᴴ with L lower triangular and a positive diagonal; or a = Uᴴ U.

    One triangle of a is read, the lower one unless `upper`; the other need not be there.

    Args:
        a: [..., n, n], Hermitian and positive definite.
        upper: return U instead of L.
        overwrite_a: the memory of `a` may be used.
        check_finite, on_error: as everywhere in this package.

    Returns:
        The factor [..., n, n]; its other triangle is zero. With on_error="info" (factor, info).

    Raises:
        LinAlgError: a matrix is not positive definite; its code is the order of the first leading
            minor that is not.

    Time n³/3 multiplications for each matrix. As `numpy.linalg.cholesky`; LAPACK potrf.

    >>> cholesky([[4.0, 2.0], [2.0, 5.0]])
    array([[2., 0.],
           [1., 2.]])
    """
    x, wrap = square("cholesky", a), wrap_of(a)
    attrs: dict[str, Any] = {"upper": True} if upper else {}
    if overwrite_a:
        attrs["overwrite"] = True
    (c,), info = apply(ops.CHOLESKY, "cholesky", (x,), attrs, on_error, check_finite)
    if wrap is not None:
        c = wrap(c)
    return (c, info) if on_error == "info" else c


@recent.of_matrix(recent.qr)
@on_devices
def qr(
    a: Any,
    mode: str = "reduced",
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """a = Q R with Qᴴ Q = 1 and R upper triangular.

    Signs are those of Householder's reflections: the diagonal of R may be negative.

    Args:
        a: [..., m, n]; k = min(m, n).
        mode: "reduced": Q [..., m, k], R [..., k, n]. "complete": Q [..., m, m], R [..., m, n]. "r":
            R [..., k, n] alone. "raw": (h, tau), the reflectors in the rows of h [..., n, m] and
            their factors tau [..., k].
        overwrite_a: the memory of `a` may be used.
        check_finite, on_error: as everywhere in this package.

    Returns:
        QRResult(Q, R), or as said under `mode`. With on_error="info" (result, info).

    Raises:
        OptionError: no such mode.

    Time 2 m n k multiplications. As `numpy.linalg.qr`; LAPACK geqrf and orgqr.

    >>> q, r = qr([[0.0, 2.0], [1.0, 3.0]])
    >>> abs(r)
    array([[1., 3.],
           [0., 2.]])
    """
    if mode not in _MODES:
        raise OptionError(f"Unrecognized mode '{mode}': qr takes one of {', '.join(_MODES)}")
    x, wrap = matrix("qr", a), wrap_of(a)
    attrs = {"mode": mode, "overwrite": True} if overwrite_a else {"mode": mode}
    found, info = apply(ops.QR, "qr", (x,), attrs, on_error, check_finite)
    if wrap is not None:
        found = tuple(map(wrap, found))
    result: Any = found
    if mode == "r":
        (result,) = found
    elif mode != "raw":
        result = QRResult(*found)
    return (result, info) if on_error == "info" else result


@overload
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    hermitian: bool = False,
    *,
    gauge: Gauge = "raw",
    overwrite_a: bool = False,
    check_finite: bool = False,
    on_error: Literal["raise", "nan"] = "raise",
) -> SVDResult: ...


@overload
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    *,
    gauge: Gauge = "raw",
    overwrite_a: bool = False,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any: ...


@recent.of_matrix(recent.svd, "full_matrices")
@on_devices
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    *,
    gauge: Gauge = "raw",
    overwrite_a: bool = False,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """a = U diag(S) Vh with Uᴴ U = 1, Vh Vhᴴ = 1 and S >= 0 in descending order.

    Phases of singular vectors are not determined: a column of U may be multiplied by a number of
    modulus 1, and the row of Vh by its conjugate. `gauge` fixes them.

    Args:
        a: [..., m, n]; k = min(m, n).
        full_matrices: U [..., m, m] and Vh [..., n, n] instead of [..., m, k] and [..., k, n].
        compute_uv: False gives S alone.
        hermitian: `a` is Hermitian; found from its eigenvalues, by its lower triangle.
        gauge: "canonical" makes the pivot of each column of U real and positive, see `canonical_svd`.
        overwrite_a: the memory of `a` may be used.
        check_finite, on_error: as everywhere in this package.

    Returns:
        SVDResult(U, S, Vh), or S [..., k]; S has the real dtype. With on_error="info" (result, info).

    Raises:
        LinAlgError: no convergence, as with NaN in a matrix.

    Time about 20 m n k multiplications. As `numpy.linalg.svd`; LAPACK gesdd.

    >>> u, s, vh = svd([[0.0, 2.0], [3.0, 0.0]])
    >>> s
    array([3., 2.])
    """
    if gauge != "raw":
        one_of("svd", "gauge", gauge, ("raw", "canonical"))
        found = svd(
            a, full_matrices, compute_uv, hermitian,
            overwrite_a=overwrite_a, check_finite=check_finite, on_error=on_error,
        )  # fmt: skip
        result, *info = found if on_error == "info" else (found,)
        if compute_uv:
            result = canonical_svd(*result)
        return (result, *info) if info else result
    if hermitian:
        from .spectral import hermitian_svd

        return hermitian_svd(a, compute_uv, check_finite, on_error)
    x, wrap = matrix("svd", a), wrap_of(a)
    attrs: dict[str, Any] = {"full": True} if full_matrices and compute_uv else {}
    if not compute_uv:
        attrs["vectors"] = False
    if overwrite_a:
        attrs["overwrite"] = True
    found, info = apply(ops.SVD, "svd", (x,), attrs, on_error, check_finite)
    result = _as_svd(found, wrap)
    return (result, info) if on_error == "info" else result


def _as_svd(found: tuple[Any, ...], wrap: Any) -> Any:
    """SVDResult, or the singular values alone; they stay a plain array, as NumPy's do."""
    if len(found) == 1:
        return found[0]
    u, s, vh = found
    return SVDResult(u, s, vh) if wrap is None else SVDResult(wrap(u), s, wrap(vh))


@on_devices
def svdvals(x: Any, /, *, check_finite: bool = False, on_error: OnError = "raise") -> Any:
    """The singular values of x [..., m, n], in descending order: [..., min(m, n)], of the real dtype.

    As `numpy.linalg.svdvals`: `svd` without vectors, which takes about a tenth of the time.

    >>> svdvals([[0.0, 2.0], [3.0, 0.0]])
    array([3., 2.])
    """
    return svd(x, compute_uv=False, check_finite=check_finite, on_error=on_error)


@on_devices
def lu(
    a: Any,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    p_indices: bool = False,
    *,
    on_error: OnError = "raise",
) -> Any:
    """a = P L U with a permutation P, L lower triangular with ones on the diagonal, U upper triangular.

    A singular matrix has a factorisation as any other; U has a zero on its diagonal.

    Args:
        a: [..., m, n]; k = min(m, n).
        permute_l: return (P @ L, U).
        p_indices: return P as indices p [..., m], with a = L[p] @ U.
        overwrite_a: the memory of `a` may be used.
        check_finite, on_error: as everywhere in this package.

    Returns:
        LUResult(P [..., m, m], of the real dtype, L [..., m, k], U [..., k, n]).
        With on_error="info" (result, info).

    Time m n k multiplications. As `scipy.linalg.lu`; LAPACK getrf.

    >>> p, l, u = lu([[1.0, 2.0], [4.0, 4.0]])
    >>> u
    array([[4., 4.],
           [0., 1.]])
    >>> p @ l @ u
    array([[1., 2.],
           [4., 4.]])
    """
    x, wrap = matrix("lu", a), wrap_of(a)
    given = (("permute_l", permute_l), ("p_indices", p_indices and not permute_l))
    attrs: dict[str, Any] = {name: True for name, asked in given if asked}
    if overwrite_a:
        attrs["overwrite"] = True
    found, info = apply(ops.LU, "lu", (x,), attrs, on_error, check_finite)
    if wrap is not None:
        found = tuple(map(wrap, found))
    result: Any = LUResult(*found) if len(found) == 3 else tuple(found)
    return (result, info) if on_error == "info" else result


@recent.of_matrix(recent.lu_factor)
@on_devices
def lu_factor(
    a: Any,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    on_error: OnError = "raise",
) -> Any:
    """P L U = a, packed for `lu_solve`.

    Args:
        a: [..., m, n]; k = min(m, n).
        overwrite_a: the memory of `a` may be used.
        check_finite, on_error: as everywhere in this package.

    Returns:
        (lu, piv): U in the upper triangle of lu [..., m, n] and L, without its ones, below; row j was
        swapped with row piv[j] of piv [..., k], int32. With on_error="info" (result, info).

    Time m n k multiplications. As `scipy.linalg.lu_factor`, but singular matrices pass without a
    warning; LAPACK getrf.

    >>> lu_factor([[1.0, 2.0], [4.0, 4.0]])
    (array([[4.  , 4.  ],
           [0.25, 1.  ]]), array([1, 1], dtype=int32))
    """
    x = matrix("lu_factor", a)
    attrs = {"overwrite": True} if overwrite_a else {}
    found, info = apply(ops.LU_FACTOR, "lu_factor", (x,), attrs, on_error, check_finite)
    return (found, info) if on_error == "info" else found


@on_devices
def cho_factor(
    a: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    on_error: OnError = "raise",
) -> Any:
    """Uᴴ U = a, or L Lᴴ = a, for `cho_solve`.

    Args:
        a: [..., n, n], Hermitian and positive definite; the triangle that `lower` names is read.
        lower: L instead of U.
        overwrite_a: the memory of `a` may be used.
        check_finite, on_error: as everywhere in this package.

    Returns:
        (c, lower): the factor [..., n, n], and which it is. With on_error="info" (result, info).

    Raises:
        LinAlgError: a matrix is not positive definite.

    As `scipy.linalg.cho_factor`, but the other triangle is zero; LAPACK potrf.

    >>> c, low = cho_factor([[4.0, 2.0], [2.0, 5.0]])
    >>> c
    array([[2., 1.],
           [0., 2.]])
    """
    found = cholesky(
        a,
        upper=not lower,
        overwrite_a=overwrite_a,
        check_finite=check_finite,
        on_error=on_error,
    )
    if on_error == "info":
        return (found[0], lower), found[1]
    return found, lower
