"""NumPy's compiled loops over batches, without the microseconds of Python around them.

The names in `numpy.linalg._umath_linalg` are NumPy's own affair: where one is missing there is None, and
the public function does the same in more time. As NumPy does, single precision is computed in double
precision.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from functools import cache, lru_cache
from typing import Any, cast

import numpy as np

Array = np.ndarray[Any, Any]
Run = Callable[..., Any]

LOOPS = {  # x: the dtype, d and D real and complex numbers of its precision
    "solve": "xx->x",
    "inv": "x->x",
    "det": "x->x",
    "cholesky_lo": "x->x",
    "qr_r_raw": "x->x",
    "qr_reduced": "xx->x",
    "eigh_lo": "x->dx",
    "svd_f": "x->xdx",
    "svd_s": "x->xdx",
    "eig": "x->DD",
    "lstsq": "xxd->xdid",
}


@lru_cache(256)
def run(name: str, char: str) -> Run | None:
    """That loop for arrays of a dtype, without warnings; it gives None if a member failed.

    >>> inv = run("inv", "d")
    >>> inv(np.eye(2)[None]), inv(np.zeros((1, 2, 2)))
    (array([[[1., 0.],
            [0., 1.]]]), None)
    """
    called = loop(name, char)
    return None if called is None else quiet(called)


def loop(name: str, char: str) -> Run | None:
    """The same, for use inside of what is made `quiet`."""
    found = _loop(name)
    return None if found is None else _called(found, LOOPS[name], char)


@lru_cache(256)
def qr(char: str, vectors: bool = True) -> Run | None:
    """(q, r) with q @ r = a [..., m, n]: q [..., m, k], r [..., k, n], k the smaller of m and n; or r."""
    double = _double(char)
    to_raw, to_q = loop("qr_r_raw", double), loop("qr_reduced", double)
    if to_raw is None or to_q is None:
        return None

    def factors(a: Array) -> Any:
        m, n = a.shape[-2:]
        k = m if m < n else n
        packed = a.astype(double, "C")
        tau = to_raw(packed)  # leaves the reflectors in its operand
        r = np.zeros((*a.shape[:-2], k, n), char)
        np.copyto(r, packed[..., :k, :], "same_kind", upper(k, n))
        if not vectors:
            return r
        q = to_q(packed, tau)
        return (q if double == char else q.astype(char)), r

    return quiet(factors)


@lru_cache(1024)
def upper(m: int, n: int) -> Array:
    """True on and above the diagonal."""
    mask = np.tri(n, m, dtype=bool).T
    mask.flags.writeable = False
    return mask


def quiet(run: Run) -> Run:
    """The function without warnings, whatever NumPy is told to do; None where a loop says "invalid"."""
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        return _quiet_in_thread(run)
    copy = _silence().copy

    def quietly(*arrays: Any) -> Any:
        try:
            return copy().run(run, *arrays)
        except _FailedError:
            return None

    return quietly


# ---- helpers -------------------------------------------------------------------------------------


class _FailedError(Exception):
    pass


def _fail(kind: str, flag: int) -> None:
    """The loops say "invalid" of a member that failed, and of nothing else."""
    raise _FailedError


@cache
def _silence() -> Context:
    """A context that holds nothing but what NumPy does on errors.

    From 2.0 on NumPy looks there for it; to copy and to enter one takes a tenth of what a change inside
    the caller's takes, and none can be entered twice at once.
    """
    context = Context()
    context.run(np.seterr, all="ignore", invalid="call")
    context.run(np.seterrcall, _fail)  # type: ignore[arg-type, unused-ignore]
    return context


def _quiet_in_thread(run: Run) -> Run:
    def quietly(*arrays: Any) -> Any:
        try:
            with np.errstate(all="ignore", invalid="call", call=_fail):
                return run(*arrays)
        except _FailedError:
            return None

    return quietly


def _loop(name: str) -> Any:
    return getattr(getattr(np.linalg, "_umath_linalg", None), name, None)


def _double(char: str) -> str:
    return "D" if char in "FD" else "d"


def _called(loop: Any, kinds: str, char: str) -> Run:
    """The loop in double precision, and its results in that of the dtype."""
    double = _double(char)
    if double == char:
        return cast(Run, loop)  # finds the types itself, sooner than it is told
    signature = kinds.replace("x", double)
    singles = signature.partition("->")[2].replace("d", "f").replace("D", "F")
    if len(singles) == 1:
        return lambda *arrays: loop(*arrays, signature=signature).astype(char)

    def rounded(*arrays: Array) -> tuple[Array, ...]:
        found = loop(*arrays, signature=signature)
        return tuple(x.astype(kind) for x, kind in zip(found, singles, strict=True))

    return rounded
