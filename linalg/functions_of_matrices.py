"""Functions of square matrices: the exponential and the square root."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend.catalogue import Attrs
from ..backend.cpu import linalg as cpu
from ..backend.cpu.linalg import expm as exponential
from ..backend.cpu.linalg import roots
from ..backend.spec import ArraySpec
from ..program.trace import Traced
from . import rules
from .beyond import finished
from .failures import OnError
from .op import Specs, apply, define
from .operands import adjoint, square, wrap_of

Array = np.ndarray[Any, Any]


def expm(a: Any, *, check_finite: bool = False, on_error: OnError = "raise") -> Any:
    """exp(a) = 1 + a + a²/2! + a³/3! + ..., of each matrix.

    By a Taylor polynomial of degree 4, 8, 12 or 18 in 2 to 5 products, of a / 2^s, squared s times; s is
    chosen by the norms of a² and a³ where they tell less than a's. The error is about that of
    `scipy.linalg.expm`: small beside the condition number of the function at a. Up to four matrices of order
    32 or less are done by that function.

    Args:
        a: [..., n, n]. NaN and infinity give NaN in their own matrix.
        check_finite, on_error: as everywhere in this package.

    Returns:
        array [..., n, n]. With on_error="info" (result, info).

    Complexity: 2 to 5 + s products of n³ multiplications, s about log2(norm(a)).
    P. Bader, S. Blanes, F. Casas, Mathematics 7, 1174 (2019); A. Al-Mohy, N. Higham, SIAM J. Matrix Anal.
    Appl. 31, 970 (2009).

    >>> expm([[0.0, 1.0], [0.0, 0.0]])
    array([[1., 1.],
           [0., 1.]])
    """
    x = square("expm", a)
    (y,), info = apply(EXPM, "expm", (x,), {}, on_error, check_finite)
    return finished(y, info, on_error, wrap_of(a))


def sqrtm(
    a: Any, *, hermitian: bool = False, check_finite: bool = True, on_error: OnError = "raise"
) -> Any:
    """The principal square root: x @ x = a, with no eigenvalue of x in the open left half plane.

    From the Schur form, or with `hermitian` from the eigenvectors of positive semidefinite matrices. The
    result is real if a is and all its matrices have real roots, which they have unless an eigenvalue
    is real and negative; complex otherwise, for the whole batch. Of traced matrices it is complex.

    Args:
        a: [..., n, n].
        hermitian: a is Hermitian and positive semidefinite; its lower triangle is read, and the dtype is
            that of a. Eigenvalues that are negative by no more than rounding count as 0.
        check_finite: True here by default, because LAPACK may not return from NaN.
        on_error: as everywhere in this package.

    Returns:
        array [..., n, n]. With on_error="info" (result, info).

    Raises:
        LinAlgError: a matrix has no root, which a singular one may not have; its eigenvalues did not
            converge; with `hermitian` it has a negative eigenvalue.

    Complexity: about 28 n³ multiplications.
    A. Björck, S. Hammarling, Linear Algebra Appl. 52/53, 127 (1983). As `scipy.linalg.sqrtm`.

    >>> sqrtm([[4.0, 1.0], [0.0, 4.0]])
    array([[2.  , 0.25],
           [0.  , 2.  ]])
    """
    x = square("sqrtm", a)
    attrs = {} if type(x) is Traced or hermitian else {"shrink": True}
    op = ROOT_OF_SEMIDEFINITE if hermitian else SQRTM
    (y,), info = apply(op, "sqrtm", (x,), attrs, on_error, check_finite)
    return finished(y, info, on_error, wrap_of(a))


def _complex(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., n, n] -> complex [..., n, n]"""
    rules.square_parts(inputs[0])
    return (ArraySpec(rules.complexed(inputs[0].dtype), inputs[0].shape),)


def _expm(attrs: Attrs, a: Array) -> tuple[tuple[Array], None]:
    return (exponential.expm(a),), None


def _sqrtm(attrs: Attrs, a: Array) -> tuple[tuple[Array], Array]:
    x, info = roots.sqrtm(a)
    if not attrs.get("shrink"):
        x = x.astype(rules.complexed(a.dtype), copy=False)
    return (x,), info


def _root_of_semidefinite(attrs: Attrs, a: Array) -> tuple[tuple[Array], Array]:
    w, v, info = cpu.eigh(a)
    assert v is not None
    if a.size == 0:
        return (v,), info
    top = np.abs(w).max(axis=-1, keepdims=True)
    is_negative = (w < -a.shape[-1] * np.finfo(a.dtype).eps * top).any(axis=-1)
    x = v * np.sqrt(np.maximum(w, 0))[..., None, :] @ adjoint(v)
    return (x,), np.where(is_negative & (info == 0), np.int32(1), info)


EXPM = define("expm", rules.like_matrix, _expm)
SQRTM = define("sqrtm", _complex, _sqrtm, "No square root was found")
ROOT_OF_SEMIDEFINITE = define(
    "sqrtm_hermitian",
    rules.like_matrix,
    _root_of_semidefinite,
    "Matrix is not positive semidefinite, or eigenvalues did not converge",
)
