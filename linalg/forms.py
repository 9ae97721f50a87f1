"""Factorisations beside those of numpy.linalg: polar and Schur."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from ..backend.catalogue import Attrs
from ..backend.cpu import linalg as cpu
from ..backend.cpu.linalg import members
from ..backend.spec import ArraySpec
from ..program.trace import Traced
from . import rules
from .beyond import finished, one_of
from .failures import OnError
from .on_device import on_devices
from .op import Specs, apply, define
from .operands import adjoint, matrix, square, wrap_of
from .ops import NO_EIGENVALUES, NO_SVD

Array = np.ndarray[Any, Any]


class PolarResult(NamedTuple):
    """What `polar` returns: a = U @ P, or P @ U."""

    U: Any
    P: Any


class SchurResult(NamedTuple):
    """What `schur` returns: a = Z @ T @ Zᴴ."""

    T: Any
    Z: Any


@on_devices
def polar(
    a: Any,
    side: Literal["right", "left"] = "right",
    *,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """a = u @ p (side "right") or p @ u ("left"), p positive semidefinite, u with orthonormal columns.

    With a = w @ diag(s) @ vh, u = w @ vh, and p = vhᴴ @ diag(s) @ vh or w @ diag(s) @ wᴴ. u is the
    matrix with orthonormal columns nearest to a in the Frobenius norm; where a is wide, with
    orthonormal rows.

    Args:
        a: [..., m, n].
        side: where p stands.
        check_finite, on_error: as everywhere in this package.

    Returns:
        PolarResult(U [..., m, n], P [..., n, n], on the left [..., m, m]). With on_error="info"
        (result, info).

    Raises:
        LinAlgError: no convergence, as with NaN in a matrix.

    Complexity: that of the SVD. N. Higham, "Functions of Matrices" (2008), chapter 8. As
    `scipy.linalg.polar`.

    >>> import numpy as np
    >>> u, p = polar([[0.0, -2.0], [3.0, 0.0]])
    >>> bool(np.allclose(u, [[0, -1], [1, 0]])), bool(np.allclose(p, [[3, 0], [0, 2]]))
    (True, True)
    """
    one_of("polar", "side", side, ("right", "left"))
    attrs = {"side": side} if side != "right" else {}
    outputs, info = apply(POLAR, "polar", (matrix("polar", a),), attrs, on_error, check_finite)
    return finished(PolarResult(*outputs), info, on_error, wrap_of(a))


def schur(
    a: Any,
    output: Literal["real", "complex"] = "real",
    *,
    check_finite: bool = True,
    on_error: OnError = "raise",
) -> Any:
    """a = z @ t @ zᴴ with z unitary and t upper triangular, eigenvalues on its diagonal.

    The "real" form of real matrices is real: pairs of complex eigenvalues are 2 x 2 blocks on the
    diagonal of t, in LAPACK's standard form. The order of the eigenvalues is that in which the QR
    iteration finds them.

    Args:
        a: [..., n, n].
        output: "complex" for the triangular form of real matrices too.
        check_finite: True here by default, because LAPACK may not return from NaN.
        on_error: as everywhere in this package.

    Returns:
        SchurResult(T [..., n, n], Z [..., n, n]). With on_error="info" (result, info).

    Raises:
        LinAlgError: no convergence, or NaN or infinity in a matrix.

    Complexity: about 25 n³ multiplications; LAPACK gees. As `scipy.linalg.schur`.

    >>> import numpy as np
    >>> t, z = schur([[2.0, 0.0], [1.0, 3.0]])
    >>> bool(np.allclose(z @ t @ z.T, [[2, 0], [1, 3]])), abs(float(t[1, 0]))
    (True, 0.0)
    """
    one_of("schur", "output", output, ("real", "complex"))
    x = square("schur", a)
    if output == "complex" and x.dtype.kind == "f":
        dtype = rules.complexed(x.dtype)
        x = x.session.convert(x, dtype) if type(x) is Traced else x.astype(dtype)
    outputs, info = apply(SCHUR, "schur", (x,), {}, on_error, check_finite)
    return finished(SchurResult(*outputs), info, on_error, wrap_of(a))


def _polar_rule(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., m, n] -> the same, and [..., n, n] or [..., m, m]"""
    (x,) = inputs
    batch, m, n = rules.parts(x)
    k = m if attrs.get("side") == "left" else n
    return ArraySpec(x.dtype, x.shape), ArraySpec(x.dtype, (*batch, k, k))


def _schur_rule(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., n, n] -> twice the same"""
    rules.square_parts(inputs[0])
    return (ArraySpec(inputs[0].dtype, inputs[0].shape),) * 2


def _polar(attrs: Attrs, a: Array) -> tuple[tuple[Array, Array], Array]:
    w, s, vh, info = cpu.svd(a)
    assert w is not None
    assert vh is not None
    basis = w if attrs.get("side") == "left" else adjoint(vh)
    p = basis * s[..., None, :] @ adjoint(basis)
    return (w @ vh, (p + adjoint(p)) / 2), info


def _schur(attrs: Attrs, a: Array) -> tuple[tuple[Array, Array], Array]:
    t, z, _, info = members.schur(a)
    return (t, z), info


POLAR = define("polar", _polar_rule, _polar, NO_SVD)
SCHUR = define("schur", _schur_rule, _schur, NO_EIGENVALUES)
