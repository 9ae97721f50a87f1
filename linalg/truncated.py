"""Truncated SVD: the best approximation of a lower rank, chosen for each matrix of a batch."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from ..backend.catalogue import Attrs
from ..backend.cpu import linalg as cpu
from ..backend.dims import minimum
from ..backend.spec import ArraySpec
from ..program.trace import Traced
from . import rules
from .beyond import finished, not_negative, one_of, whole
from .failures import OnError
from .gauges import Gauge, fix_svd
from .on_device import on_devices
from .op import Specs, apply, define
from .operands import matrix, wrap_of
from .ops import NO_SVD

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


@on_devices
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
    check_finite: bool = False,
) -> Any:
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
        check_finite, on_error: as everywhere in this package.

    Returns:
        U [..., m, r], S [..., r], Vh [..., r, n] with r the largest of `ranks`; ranks int64 [...];
        discarded [...], the discarded weight of each, real. With on_error="info" (result, info). Traced
        values have r = min(m, n, max_rank).

    Raises:
        LinAlgError: no convergence, as with NaN in a matrix.
        OptionError: an argument without meaning.

    Complexity: that of the SVD, O(m n min(m, n)) for each matrix.
    As `svd` with `cutoff` in tensor network codes; LAPACK gesdd underneath.

    >>> import numpy as np
    >>> a = np.stack([np.diag([3.0, 2.0, 1e-9]), np.diag([1.0, 1e-9, 0.0])])
    >>> u, s, vh, ranks, discarded = truncated_svd(a, cutoff=1e-6)
    >>> s.tolist(), ranks.tolist()
    ([[3.0, 2.0], [1.0, 0.0]], [2, 1])
    """
    call = "truncated_svd"
    attrs = _attributes(call, max_rank, cutoff, cutoff_mode, absorb, renormalize, gauge)
    x, wrap = matrix(call, a), wrap_of(a)
    if type(x) is not Traced:
        attrs["shrink"] = True
    outputs, info = apply(TRUNCATED_SVD, call, (x,), attrs, on_error, check_finite)
    return finished(TruncatedSVD(*outputs), info, on_error, wrap)


def _attributes(
    call: str, max_rank: Any, cutoff: Any, mode: Any, absorb: Any, renormalize: bool, gauge: Any
) -> dict[str, Any]:
    """The arguments, checked; what is default is left out."""
    if max_rank is not None:
        whole(call, "max_rank", max_rank, 1)
    not_negative(call, "cutoff", cutoff)
    one_of(call, "cutoff_mode", mode, ("relative", "absolute", "relative_weight", "weight"))
    one_of(call, "absorb", absorb, (None, "left", "right", "both"))
    one_of(call, "gauge", gauge, ("raw", "canonical"))
    given = {
        "max_rank": max_rank,
        "cutoff": float(cutoff),
        "mode": mode,
        "absorb": absorb,
        "renormalize": bool(renormalize),
        "gauge": gauge,
    }
    plain = {"cutoff": 0.0, "mode": "relative", "renormalize": False, "gauge": "raw"}
    return {name: value for name, value in given.items() if value != plain.get(name)}


def _rule(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., m, n] -> U, real S, Vh of rank min(m, n, max_rank); int64 ranks, real weights"""
    (x,) = inputs
    batch, m, n = rules.parts(x)
    r = minimum(m, n)
    if "max_rank" in attrs:
        r = minimum(r, attrs["max_rank"])
    real = rules.real(x.dtype)
    return (
        ArraySpec(x.dtype, (*batch, m, r)),
        ArraySpec(real, (*batch, r)),
        ArraySpec(x.dtype, (*batch, r, n)),
        ArraySpec(np.dtype(np.int64), batch),
        ArraySpec(real, batch),
    )


def _run(attrs: Attrs, a: Array) -> tuple[tuple[Any, ...], Array | None]:
    u, s, vh, info = cpu.svd(a)
    assert u is not None
    assert vh is not None
    named = {name: value for name, value in attrs.items() if name not in NOT_OURS}
    return cut_svd(u, s, vh, **named), info


NOT_OURS = ("on_error", "check_finite")
TRUNCATED_SVD = define("truncated_svd", _rule, _run, NO_SVD)


def cut_svd(
    u: Array,
    s: Array,
    vh: Array,
    max_rank: int | None = None,
    cutoff: float = 0.0,
    mode: CutoffMode = "relative",
    absorb: Absorb | None = None,
    renormalize: bool = False,
    gauge: Gauge = "raw",
    shrink: bool = False,
) -> TruncatedSVD:
    """Truncate an SVD u [..., m, k], s [..., k], vh [..., k, n] that is there, as `truncated_svd` does; to
    the largest rank where it is to shrink, else to the bound that is known before."""
    top, tails = tail_weights(s)
    ranks = kept(s, top, tails, cutoff, mode, max_rank)
    r = s.shape[-1] if max_rank is None else min(s.shape[-1], max_rank)
    if shrink:
        r = int(ranks.max(initial=0))
    rest = np.take_along_axis(tails, ranks[..., None], axis=-1)[..., 0]
    stays = np.arange(r, like=s) < ranks[..., None]
    u = np.where(stays[..., None, :], u[..., :, :r], 0)
    vh = np.where(stays[..., :, None], vh[..., :r, :], 0)
    s = np.where(stays, s[..., :r], 0)
    if gauge == "canonical":
        u, s, vh = fix_svd(u, s, vh)
    if renormalize:
        s = s * _growth(tails[..., 0], rest).astype(s.dtype)[..., None]
    u, vh = _absorbed(u, s, vh, absorb)
    with np.errstate(over="ignore", under="ignore"):
        discarded = (rest * top * top).astype(s.dtype)
    return TruncatedSVD(u, s, vh, ranks, discarded)


def tail_weights(s: Array) -> tuple[Array, Array]:
    """(top, t): top the largest singular value, or 1 for a zero matrix, and t[..., r] the sum of
    (s_i / top)² over i > r, for r = 0 ... k.

    In double precision, summed from the smallest on; squares of s itself might not be finite. Arrays of a
    device stay there: NumPy's functions pass them on to their own module.
    """
    wide = s.astype(np.float64)
    top = wide[..., 0] if s.shape[-1] else np.zeros(s.shape[:-1], like=s)
    top = np.where(top > 0, top, 1.0)
    tails = np.zeros((*s.shape[:-1], s.shape[-1] + 1), like=s)
    with np.errstate(under="ignore"):
        squares = np.square(wide / top[..., None])[..., ::-1]
    tails[..., :-1] = np.cumsum(squares, axis=-1)[..., ::-1]
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
    lost = np.isnan(s).any(axis=-1)  # it is to make no result of the batch larger
    ranks = np.where(lost, 1, stays.sum(axis=-1, dtype=np.int64))
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
