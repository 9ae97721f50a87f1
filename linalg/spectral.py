"""Eigenvalues and eigenvectors of general and of Hermitian matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.errors import OptionError
from ..backend.catalogue import Attrs
from ..backend.cpu import linalg as cpu
from . import ops, recent, rules
from .failures import OnError
from .on_device import on_devices
from .op import Array, apply, define
from .operands import adjoint, square, wrap_of
from .results import EighResult, EigResult, SVDResult


@recent.of_matrix(recent.eig)
@on_devices
def eig(
    a: Any, *, overwrite_a: bool = False, check_finite: bool = True, on_error: OnError = "raise"
) -> Any:
    """Eigenvalues w and right eigenvectors V of square matrices: a V = V diag(w).

    Values come in the order in which they are found; conjugate pairs of real matrices stand side by
    side. Vectors have norm 1 and any phase. Both are always complex, as in NumPy from 2.5 on. A
    defective matrix has fewer independent vectors than columns.

    Args:
        a: [..., n, n].
        overwrite_a: the memory of `a` may be used.
        check_finite: True here by default, because LAPACK may not return from NaN.
        on_error: as everywhere in this package.

    Returns:
        EigResult(eigenvalues [..., n], eigenvectors [..., n, n]), complex64 of single precision, else
        complex128. With on_error="info" (result, info).

    Raises:
        LinAlgError: no convergence, or NaN or infinity in a matrix.

    Time about 25 n³ multiplications. As `numpy.linalg.eig`; LAPACK geev, and for many matrices of
    order 2 the closed form, with the differences from the diagonal in the manner of its lanv2.

    >>> w, v = eig([[0.0, -1.0], [1.0, 0.0]])
    >>> w
    array([0.+1.j, 0.-1.j])
    """
    x, wrap = square("eig", a), wrap_of(a)
    attrs = {"overwrite": True} if overwrite_a else {}
    (w, v), info = apply(ops.EIG, "eig", (x,), attrs, on_error, check_finite)
    result = EigResult(w, v if wrap is None else wrap(v))
    return (result, info) if on_error == "info" else result


@on_devices
def eigvals(
    a: Any, *, overwrite_a: bool = False, check_finite: bool = True, on_error: OnError = "raise"
) -> Any:
    """The eigenvalues of square matrices a [..., n, n]: complex [..., n], in the order of `eig`.

    As `numpy.linalg.eigvals`, but always complex; arguments and errors are those of `eig`.

    >>> eigvals([[0.0, -1.0], [1.0, 0.0]])
    array([0.+1.j, 0.-1.j])
    """
    x = square("eigvals", a)
    attrs = {"right": False, "overwrite": True} if overwrite_a else {"right": False}
    (w,), info = apply(ops.EIG, "eigvals", (x,), attrs, on_error, check_finite)
    return (w, info) if on_error == "info" else w


@recent.of_matrix(recent.eigh)
@on_devices
def eigh(
    a: Any,
    UPLO: str = "L",  # noqa: N803
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """Eigenvalues w and eigenvectors V of Hermitian matrices: a V = V diag(w), Vᴴ V = 1.

    Values are real and in ascending order; vectors may be multiplied by a number of modulus 1.

    Args:
        a: [..., n, n]; one triangle is read, and of its diagonal the real part.
        UPLO: "L" for the lower triangle, "U" for the upper one.
        overwrite_a: the memory of `a` may be used.
        check_finite, on_error: as everywhere in this package.

    Returns:
        EighResult(eigenvalues [..., n], eigenvectors [..., n, n]). With on_error="info"
        (result, info).

    Raises:
        LinAlgError: no convergence, as with NaN in a matrix.

    Time about 9 n³ multiplications. As `numpy.linalg.eigh`; LAPACK syevd and heevd.

    >>> w, v = eigh([[0.0, 1.0], [1.0, 0.0]])
    >>> w
    array([-1.,  1.])
    """
    attrs = _triangle("eigh", UPLO)
    x, wrap = square("eigh", a), wrap_of(a)
    if overwrite_a:
        attrs["overwrite"] = True
    (w, v), info = apply(ops.EIGH, "eigh", (x,), attrs, on_error, check_finite)
    result = EighResult(w, v if wrap is None else wrap(v))
    return (result, info) if on_error == "info" else result


@on_devices
def eigvalsh(
    a: Any,
    UPLO: str = "L",  # noqa: N803
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """The eigenvalues of Hermitian matrices a [..., n, n]: real [..., n], in ascending order.

    As `numpy.linalg.eigvalsh`; arguments and errors are those of `eigh`.

    >>> eigvalsh([[0.0, 1.0], [1.0, 0.0]])
    array([-1.,  1.])
    """
    attrs = _triangle("eigvalsh", UPLO) | {"vectors": False}
    if overwrite_a:
        attrs["overwrite"] = True
    (w,), info = apply(
        ops.EIGH, "eigvalsh", (square("eigvalsh", a),), attrs, on_error, check_finite
    )
    return (w, info) if on_error == "info" else w


def hermitian_svd(a: Any, compute_uv: bool, check_finite: bool, on_error: OnError) -> Any:
    """a = V w Vᴴ  =>  U = V, S = |w|, Vh = sign(w) Vᴴ, sorted by S."""
    x, wrap = square("svd", a), wrap_of(a)
    attrs: dict[str, Any] = {} if compute_uv else {"vectors": False}
    found, info = apply(HERMITIAN_SVD, "svd", (x,), attrs, on_error, check_finite)
    if not compute_uv:
        (result,) = found
    elif wrap is None:
        result = SVDResult(*found)
    else:
        result = SVDResult(wrap(found[0]), found[1], wrap(found[2]))
    return (result, info) if on_error == "info" else result


def _hermitian_svd(attrs: Attrs, a: Array) -> tuple[tuple[Array, ...], Array]:
    w, v, info = cpu.eigh(a, True, attrs.get("vectors", True))
    s = abs(w)
    order = np.argsort(-s, axis=-1, kind="stable")
    s = np.take_along_axis(s, order, axis=-1)
    if v is None:
        return (s,), info
    u = np.take_along_axis(v, order[..., None, :], axis=-1)
    sign = np.where(np.take_along_axis(w, order, axis=-1) < 0, -1, 1).astype(w.dtype)
    return (u, s, adjoint(u * sign[..., None, :])), info


HERMITIAN_SVD = define(
    "hermitian_svd", rules.singular, _hermitian_svd, ops.NO_EIGENVALUES, ops.read_hermitian
)


def _triangle(call: str, uplo: Any) -> dict[str, Any]:
    if not isinstance(uplo, str) or uplo.upper() not in ("L", "U"):
        raise OptionError(f"{call}: UPLO argument must be 'L' or 'U', got {uplo!r}")
    return {"upper": True} if uplo in ("U", "u") else {}
