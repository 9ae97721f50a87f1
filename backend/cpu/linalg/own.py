"""NumPy's compiled loops over batches, without the microseconds of Python around them.

The names in `numpy.linalg._umath_linalg` are NumPy's own affair: where one is missing, the public function
does the same in more time. As NumPy does, single precision is solved in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class _FailedError(Exception):
    pass


def solver(char: str) -> Callable[[Array, Array], Array | None]:
    """Of arrays of a dtype: x of a @ x = b, [..., n, n] and [..., n, k]; None if a member is singular."""
    loop = _loop("solve")
    signature = "dd->d" if char in "fd" else "DD->D"

    def solve(a: Array, b: Array) -> Array | None:
        try:
            with np.errstate(all="ignore", invalid="call", call=_fail):
                x: Array = loop(a, b, signature=signature)
            if char in "dD":
                return x
            with np.errstate(all="ignore"):  # what is beyond single precision is infinite
                return x.astype(char)
        except _FailedError:
            return None

    return _solve if loop is None else solve


def _solve(a: Array, b: Array) -> Array | None:
    try:
        with np.errstate(all="ignore"):
            return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        return None


def eig(a: Array) -> tuple[Array, Array] | None:
    """(w, v) with a @ v = v * w, complex, of a in double precision; None if there is no convergence."""
    loop = _loop("eig")
    try:
        with np.errstate(all="ignore", invalid="call", call=_fail):
            if loop is not None:
                w, v = loop(a, signature="d->DD" if a.dtype.char == "d" else "D->DD")
                return w, v
            w, v = np.linalg.eig(a)
    except (_FailedError, np.linalg.LinAlgError):
        return None
    return w.astype("D", copy=False), v.astype("D", copy=False)


def _loop(name: str) -> Any:
    return getattr(getattr(np.linalg, "_umath_linalg", None), name, None)


def _fail(kind: str, flag: int) -> None:
    """The loops say "invalid" of a member that failed, and of nothing else."""
    raise _FailedError
