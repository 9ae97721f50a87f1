"""Truncated SVD: the best approximation of a lower rank, chosen for each matrix of a batch."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from .._base.errors import OptionError
from ..backend.cpu import linalg as cpu
from .beyond import Failure, OnError, matrices, settle
from .gauges import Gauge, canonical_svd

Array = np.ndarray[Any, Any]
CutoffMode = Literal["relative", "absolute", "relative_weight", "weight"]
Absorb = Literal["left", "right", "both"]


class TruncatedSVD(NamedTuple):
    """What `truncated_svd` returns: a ~ U @ diag(S) @ Vh."""

    U: Any
    S: Any
    Vh: Any
    ranks: Any
    discarded: Any


def truncated_svd(
    a: Any,
    max_rank: int | None = None,
    cutoff: float = 0.0,
    cutoff_mode: CutoffMode = "relative",
    *,
    absorb: Absorb | None = None,
    renormalize: bool = False,
    gauge: Gauge = "raw",
    on_error: OnError = "raise",
    check_finite: bool = True,
) -> TruncatedSVD:
    """a ~ U @ diag(S) @ Vh with as few singular values as the cutoff and `max_rank` leave.

    Of a matrix's singular values s_1 >= s_2 >= ... the first r are kept, at least one. What is left out is
    the smallest error in the Frobenius norm that rank r allows (Eckart and Young, Psychometrika 1, 211
    (1936)): ||a - U diag(S) Vh||² = sum of s_i² over i > r, the discarded weight. `cutoff_mode` says what
    may go:

    - "relative": every s_i <= cutoff * s_1
    - "absolute": every s_i <= cutoff
    - "relative_weight": the longest tail with sum of s_i² <= cutoff * (sum of all s_i²)
    - "weight": the longest tail with sum of s_i² <= cutoff

    then `max_rank` cuts what is still longer. Each matrix of a batch gets a rank of its own; arrays are as
    large as the largest of them needs, and zero beyond the rank of a matrix.

    Args:
        a: [..., m, n], float or complex; integers are converted to float64.
        max_rank: at most so many singular values; None: no bound.
        cutoff: not negative; 0 drops exact zeros only.
        cutoff_mode: see above.
        absorb: multiply diag(S) into U ("left"), into Vh ("right"), or its root into "both". S is
            returned as well.
        renormalize: scale the singular values that are kept so that sum of S² is what it was before, as
            states of norm 1 need.
        gauge: "canonical" fixes signs and phases, see `canonical_svd`.
        on_error: what a matrix without convergence does: "raise", or "nan" in its results.
        check_finite: refuse NaN and infinity; without it they give NaN or an error of convergence.

    Returns:
        U [..., m, r], S [..., r], Vh [..., r, n] with r the largest of `ranks`; ranks int64 [...];
        discarded [...], the discarded weight of each, real.

    Raises:
        LinAlgError: no convergence, with the indices of the matrices.
        ShapeError, DTypeError, OptionError: what cannot be meant.

    Complexity: that of the SVD, O(m n min(m, n)) for each matrix.
    As `svd` with `cutoff` in tensor network codes; LAPACK gesdd underneath.

    >>> import numpy as np
    >>> a = np.stack([np.diag([3.0, 2.0, 1e-9]), np.diag([1.0, 1e-9, 0.0])])
    >>> u, s, vh, ranks, discarded = truncated_svd(a, cutoff=1e-6)
    >>> s.tolist(), ranks.tolist()
    ([[3.0, 2.0], [1.0, 0.0]], [2, 1])
    """
    call = "truncated_svd"
    _check(call, max_rank, cutoff, cutoff_mode, absorb, gauge)
    one_of(call, "on_error", on_error, ("raise", "nan"))
    a = matrices(a, call, check_finite=check_finite)
    u, s, vh, info = cpu.svd(a)
    assert u is not None
    assert vh is not None
    settle(call, info, Failure.SVD, on_error, u, s, vh)
    return cut_svd(u, s, vh, max_rank, cutoff, cutoff_mode, absorb, renormalize, gauge)


def cut_svd(
    u: Array,
    s: Array,
    vh: Array,
    max_rank: int | None = None,
    cutoff: float = 0.0,
    cutoff_mode: CutoffMode = "relative",
    absorb: Absorb | None = None,
    renormalize: bool = False,
    gauge: Gauge = "raw",
) -> TruncatedSVD:
    """Truncate an SVD u [..., m, k], s [..., k], vh [..., k, n] that is there, as `truncated_svd` does."""
    top, tails = tail_weights(s)
    ranks = kept(s, top, tails, cutoff, cutoff_mode, max_rank)
    r = int(ranks.max(initial=0))
    rest = np.take_along_axis(tails, ranks[..., None], axis=-1)[..., 0]
    stays = np.arange(r) < ranks[..., None]
    u = np.where(stays[..., None, :], u[..., :, :r], 0)
    vh = np.where(stays[..., :, None], vh[..., :r, :], 0)
    s = np.where(stays, s[..., :r], 0)
    if gauge == "canonical":
        u, s, vh = canonical_svd(u, s, vh)
    if renormalize:
        s = s * _growth(tails[..., 0], rest).astype(s.dtype)[..., None]
    u, vh = _absorbed(u, s, vh, absorb)
    with np.errstate(over="ignore", under="ignore"):
        discarded = (rest * top * top).astype(s.dtype)
    return TruncatedSVD(u, s, vh, ranks, discarded)


def tail_weights(s: Array) -> tuple[Array, Array]:
    """(top, t): top the largest singular value, or 1 for a zero matrix, and t[..., r] the sum of
    (s_i / top)² over i > r, for r = 0 ... k.

    In double precision, summed from the smallest on; squares of s itself might not be finite.
    """
    wide = s.astype(np.float64)
    top = wide[..., 0] if s.shape[-1] else np.zeros(s.shape[:-1])
    top = np.where(top > 0, top, 1.0)
    tails = np.zeros((*s.shape[:-1], s.shape[-1] + 1))
    with np.errstate(under="ignore"):
        squares = np.square(wide / top[..., None])[..., ::-1]
    tails[..., :-1] = squares.cumsum(axis=-1)[..., ::-1]
    return top, tails


def kept(
    s: Array,
    top: Array,
    tails: Array,
    cutoff: float,
    mode: CutoffMode,
    max_rank: int | None = None,
) -> Array:
    """How many singular values of each matrix stay, int64 [...]."""
    k = s.shape[-1]
    if mode == "relative":
        stays = s > cutoff * s[..., :1]
    elif mode == "absolute":
        stays = s > cutoff
    elif mode == "relative_weight":
        stays = tails[..., :-1] > cutoff * tails[..., :1]
    else:
        stays = tails[..., :-1] > (cutoff / top / top)[..., None]
    lost = np.isnan(s).any(axis=-1)
    ranks = np.where(lost, k, stays.sum(axis=-1, dtype=np.int64))
    return np.clip(ranks, min(1, k), k if max_rank is None else min(k, max_rank))


def _growth(total: Array, rest: Array) -> Array:
    """The factor by which the norm of what is kept falls short of all; 1 for a zero matrix."""
    good = total > rest
    return np.sqrt(np.where(good, total, 1) / np.where(good, total - rest, 1))


def _absorbed(u: Array, s: Array, vh: Array, absorb: Absorb | None) -> tuple[Array, Array]:
    if absorb is None:
        return u, vh
    factor = np.sqrt(s) if absorb == "both" else s
    if absorb in ("left", "both"):
        u = u * factor[..., None, :]
    if absorb in ("right", "both"):
        vh = factor[..., :, None] * vh
    return u, vh


def _check(call: str, max_rank: Any, cutoff: Any, mode: Any, absorb: Any, gauge: Any) -> None:
    if max_rank is not None and (
        isinstance(max_rank, bool) or not isinstance(max_rank, (int, np.integer)) or max_rank < 1
    ):
        raise OptionError(f"{call}(max_rank={max_rank!r}): give a positive integer, or None")
    if not isinstance(cutoff, (int, float, np.integer, np.floating)) or not cutoff >= 0:
        raise OptionError(f"{call}(cutoff={cutoff!r}): give a real number that is not negative")
    one_of(call, "cutoff_mode", mode, ("relative", "absolute", "relative_weight", "weight"))
    one_of(call, "absorb", absorb, (None, "left", "right", "both"))
    one_of(call, "gauge", gauge, ("raw", "canonical"))


def one_of(call: str, name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """Refuse a value that is none of these."""
    if value not in allowed:
        raise OptionError(f"{call}({name}={value!r}): give one of {', '.join(map(repr, allowed))}")
