"""Gauges: of the factorisations that differ by signs and phases alone, one that is fixed by a rule.

Singular and eigenvectors are unique up to a factor of modulus 1 each, and LAPACK gives whichever its
rotations end with. A rule on the result makes it comparable between routines, machines and batches.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..backend.catalogue import Attrs
from .beyond import finished
from .on_device import on_devices
from .op import Specs, apply, define
from .operands import common, matrices, matrix, operand, wrap_of
from .results import QRResult, SVDResult

Array = np.ndarray[Any, Any]
Gauge = Literal["raw", "canonical"]


@on_devices
def canonical_svd(u: Any, s: Any, vh: Any) -> SVDResult:
    """The same product u @ diag(s) @ vh in which the pivot of each column of u is real and positive.

    The pivot is the first element whose modulus is the largest of the column, up to 100 spacings of
    its dtype: elements that are equal but for rounding must not change places. Columns of u and rows
    of vh beyond s (`full_matrices=True`) get a pivot each.

    Args:
        u, s, vh: [..., m, j], [..., k] and [..., l, n], as `svd` returns them.

    Returns:
        SVDResult(U, S, Vh), new arrays but for S. Traced values too.

    >>> import numpy as np
    >>> u, s, vh = canonical_svd(*np.linalg.svd(np.array([[0.0, -3.0], [2.0, 0.0]])))
    >>> u.tolist(), vh.tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [[0.0, -1.0], [1.0, 0.0]])
    """
    call = "canonical_svd"
    left, right = matrices(call, u, vh)
    (values,) = common(call, operand(call, s, 1))
    outputs, _ = apply(CANONICAL_SVD, call, (left, values, right), {}, "raise")
    return finished(SVDResult(*outputs), None, "raise", wrap_of(u))


def fix_svd(u: Array, s: Array, vh: Array) -> tuple[Array, Array, Array]:
    """`canonical_svd` of arrays."""
    k = s.shape[-1]
    left = column_phases(u)
    right = np.concatenate(
        [left[..., :k].conj(), column_phases(vh[..., k:, :].swapaxes(-1, -2))], axis=-1
    )
    return u * left[..., None, :] + 0.0, s, vh * right[..., :, None] + 0.0  # -0.0 + 0.0 is 0.0


@on_devices
def canonical_vectors(v: Any) -> Any:
    """Eigenvectors [..., n, k] whose pivots are real and positive, see `canonical_svd`."""
    call = "canonical_vectors"
    (found,), _ = apply(CANONICAL_VECTORS, call, (matrix(call, v),), {}, "raise")
    return finished(found, None, "raise", wrap_of(v))


def fix_vectors(v: Array) -> Array:
    """`canonical_vectors` of an array."""
    return v * column_phases(v)[..., None, :] + 0.0


@on_devices
def positive_qr(q: Any, r: Any) -> QRResult:
    """The same product q @ r in which the diagonal of r is real and not negative.

    Columns of q take the phases of that diagonal and rows of r their conjugates; where it is zero they
    stay. For a of full column rank this factorisation is the only one.

    >>> import numpy as np
    >>> q, r = positive_qr(*np.linalg.qr(np.array([[-2.0, 1.0], [0.0, -1.0]])))
    >>> q.tolist(), r.tolist()
    ([[-1.0, 0.0], [0.0, -1.0]], [[2.0, -1.0], [0.0, 1.0]])
    """
    call = "positive_qr"
    outputs, _ = apply(POSITIVE_QR, call, matrices(call, q, r), {}, "raise")
    return finished(QRResult(*outputs), None, "raise", wrap_of(q))


def fix_qr(q: Array, r: Array) -> tuple[Array, Array]:
    """`positive_qr` of arrays."""
    k = min(r.shape[-2:])
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    phase = np.ones(r.shape[:-1], r.dtype)
    phase[..., :k] = unit(diagonal)
    q = q * phase[..., None, : q.shape[-1]]
    r = r * phase.conj()[..., :, None]
    index = np.arange(k)
    r[..., index, index] = np.abs(diagonal)  # no imaginary part is left to rounding
    return q + 0.0, r + 0.0


def column_phases(v: Array) -> Array:
    """Factors [..., k] of modulus 1 that make the pivot of each column of v real and positive."""
    if v.size == 0:
        none = np.zeros((*v.shape[:-2], v.shape[-1]), v.dtype, like=v)
        return none + v.dtype.type(1)  # CuPy has no np.ones(like=)
    size = np.abs(v)
    near = size >= size.max(axis=-2, keepdims=True) * (1 - 100 * np.finfo(v.dtype).eps)
    pivot = np.take_along_axis(v, near.argmax(axis=-2)[..., None, :], axis=-2)[..., 0, :]
    return unit(pivot).conj()


def unit(x: Array) -> Array:
    """x / |x|, and 1 where x is 0 or no number."""
    if x.dtype.kind != "c":
        return np.where(x < 0, x.dtype.type(-1), x.dtype.type(1))
    size = np.abs(x)
    good = (size > 0) & np.isfinite(size)
    return np.where(good, x / np.where(good, size, 1), x.dtype.type(1))


def _same(attrs: Attrs, inputs: Specs) -> Specs:
    return inputs


CANONICAL_SVD = define("canonical_svd", _same, lambda attrs, *x: (fix_svd(*x), None))
CANONICAL_VECTORS = define("canonical_vectors", _same, lambda attrs, v: ((fix_vectors(v),), None))
POSITIVE_QR = define("positive_qr", _same, lambda attrs, *x: (fix_qr(*x), None))
