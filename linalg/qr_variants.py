"""QR with a positive diagonal, with pivots, and with the rank that they reveal."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from ..backend.catalogue import Attrs
from ..backend.cpu import linalg as cpu
from ..backend.cpu.linalg import members
from ..backend.dims import minimum
from ..backend.spec import ArraySpec
from . import rules
from .beyond import finished, not_negative, one_of
from .failures import OnError
from .gauges import fix_qr
from .on_device import on_devices
from .op import Specs, apply, define
from .operands import matrix, wrap_of
from .results import QRResult

Array = np.ndarray[Any, Any]
Mode = Literal["reduced", "complete", "r"]
INT64 = np.dtype(np.int64)


class PivotedQRResult(NamedTuple):
    """What `qr_pivoted` returns: a[..., P] = Q @ R; Q is None with mode "r"."""

    Q: Any
    R: Any
    P: Any


class RankRevealingQRResult(NamedTuple):
    """What `qr_rank_revealing` returns: a[..., P] ~ Q[:, :rank] @ R[:rank]."""

    Q: Any
    R: Any
    P: Any
    rank: Any


@on_devices
def qr_positive(
    a: Any,
    mode: Literal["reduced", "complete"] = "reduced",
    *,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """a = q @ r with qᴴ q = 1, r upper triangular and its diagonal real and not negative.

    For a of full column rank no other factorisation has this form, so that results of different routines
    and machines compare. Columns where the diagonal is zero are as `qr` finds them.

    Args:
        a: [..., m, n].
        mode: "reduced" or "complete", as in `qr`.
        check_finite, on_error: as everywhere in this package.

    Returns:
        QRResult(Q [..., m, k], R [..., k, n]), k = min(m, n), or m when complete. With on_error="info"
        (result, info).

    Complexity: that of `qr`, 2 m n² - 2/3 n³ multiplications for m >= n without q.

    >>> import numpy as np
    >>> q, r = qr_positive([[3.0, 1.0], [4.0, 2.0]])
    >>> np.round(r, 12).tolist()
    [[5.0, 2.2], [0.0, 0.4]]
    """
    call = "qr_positive"
    one_of(call, "mode", mode, ("reduced", "complete"))
    outputs, info = apply(
        QR_POSITIVE, call, (matrix(call, a),), {"mode": mode}, on_error, check_finite
    )
    return finished(QRResult(*outputs), info, on_error, wrap_of(a))


def qr_pivoted(
    a: Any, mode: Mode = "reduced", *, check_finite: bool = False, on_error: OnError = "raise"
) -> Any:
    """a[:, p] = q @ r with the longest column next in each step: the diagonal of r decreases in modulus.

    Args:
        a: [..., m, n].
        mode: "reduced", "complete", or "r" for r and p alone.
        check_finite, on_error: as everywhere in this package.

    Returns:
        PivotedQRResult(Q [..., m, k], R [..., k, n], P int64 [..., n]). With on_error="info"
        (result, info).

    Complexity: that of `qr`, but half of it is no matrix product; LAPACK geqp3. As
    `scipy.linalg.qr(pivoting=True)`.

    >>> q, r, p = qr_pivoted([[1.0, 3.0], [0.0, 4.0]])
    >>> p.tolist(), round(abs(float(r[0, 0])), 12)
    ([1, 0], 5.0)
    """
    call = "qr_pivoted"
    one_of(call, "mode", mode, ("reduced", "complete", "r"))
    outputs, info = apply(
        QR_PIVOTED, call, (matrix(call, a),), {"mode": mode}, on_error, check_finite
    )
    if mode == "r":
        outputs = (None, *outputs)
    return finished(PivotedQRResult(*outputs), info, on_error, wrap_of(a))


def qr_rank_revealing(
    a: Any,
    rtol: float | None = None,
    *,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """a[:, p] ~ q[:, :rank] @ r[:rank], where rank counts the r_ii with abs(r_ii) > rtol * abs(r_11).

    The columns p[:rank] of a nearly span the others. The diagonal of a pivoted QR follows the singular
    values but for rare matrices (Kahan's), of which it overrates the smallest; `truncated_svd` does not.

    Args:
        a: [..., m, n].
        rtol: None means max(m, n) times the spacing of the dtype at 1.
        check_finite, on_error: as everywhere in this package.

    Returns:
        RankRevealingQRResult(Q [..., m, k], R [..., k, n], P int64 [..., n], rank int64 [...]), with
        k = min(m, n): what is beyond the rank of a matrix is there. With on_error="info" (result, info).

    Complexity: that of `qr_pivoted`. P. Businger, G. Golub, Numer. Math. 7, 269 (1965).

    >>> import numpy as np
    >>> int(qr_rank_revealing(np.ones((4, 3))).rank)
    1
    """
    call = "qr_rank_revealing"
    attrs: dict[str, Any] = {"mode": "reduced", "rank": True}
    if rtol is not None:
        not_negative(call, "rtol", rtol)
        attrs["rtol"] = float(rtol)
    outputs, info = apply(QR_PIVOTED, call, (matrix(call, a),), attrs, on_error, check_finite)
    return finished(RankRevealingQRResult(*outputs), info, on_error, wrap_of(a))


def _pivoted_rule(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., m, n] -> Q unless the mode is "r", R, int64 [..., n], int64 ranks [...] if asked"""
    (x,) = inputs
    batch, m, n = rules.parts(x)
    k = m if attrs["mode"] == "complete" else minimum(m, n)
    q = ArraySpec(x.dtype, (*batch, m, k))
    r, p = ArraySpec(x.dtype, (*batch, k, n)), ArraySpec(INT64, (*batch, n))
    ranks = (ArraySpec(INT64, batch),) if attrs.get("rank") else ()
    return (r, p, *ranks) if attrs["mode"] == "r" else (q, r, p, *ranks)


def _positive(attrs: Attrs, a: Array) -> tuple[tuple[Any, ...], None]:
    return fix_qr(*cpu.qr(a, attrs["mode"])), None


def _pivoted(attrs: Attrs, a: Array) -> tuple[tuple[Any, ...], None]:
    q, r, p = members.qr_pivoted(a, attrs["mode"])
    ranks = (_rank(r, attrs.get("rtol", max(a.shape[-2:]) * float(np.finfo(a.dtype).eps))),)
    return (*(() if q is None else (q,)), r, p, *(ranks if attrs.get("rank") else ())), None


def _rank(r: Array, rtol: float) -> Array:
    size = np.abs(np.diagonal(r, axis1=-2, axis2=-1))
    if size.shape[-1] == 0:
        return np.zeros(size.shape[:-1], np.int64)
    return np.asarray((size > rtol * size[..., :1]).sum(axis=-1, dtype=np.int64))


QR_POSITIVE = define("qr_positive", rules.orthogonal, _positive)
QR_PIVOTED = define("qr_pivoted", _pivoted_rule, _pivoted)
