"""How far a rounded result may lie from the exact one: one rule, for every test.

A sum of `terms` products of `factors` numbers, accumulated in a dtype of unit eps, is off by at
most about (terms + factors) * eps times the sum of the absolute values of the products.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

SAFETY = 4.0  # a complex product rounds four real ones


def eps(dtype: DTypeLike) -> float:
    """Spacing of the numbers of a floating or complex dtype at 1."""
    dtype = np.dtype(dtype)
    if dtype.kind in "fc":
        return float(np.finfo(dtype).eps)
    import ml_dtypes  # bfloat16, which NumPy does not know

    return float(ml_dtypes.finfo(dtype).eps)


def tolerance(
    dtype: DTypeLike, terms: int, factors: int, accumulate: DTypeLike | None = None
) -> float:
    """Bound for |computed - exact|, in units of the sum of |products|.

    Accumulation is in float32 where the dtype is narrower, unless `accumulate` names another.
    """
    own = eps(dtype)
    return SAFETY * (factors * own + terms * (eps(accumulate) if accumulate else min(own, 2**-23)))


def assert_close(got: ArrayLike, want: ArrayLike, scale: ArrayLike, bound: float) -> None:
    """Assert |got - want| <= bound * scale everywhere; NaN never passes."""
    got, want = np.asarray(got), np.asarray(want)
    wide = np.clongdouble if "c" in (got.dtype.kind, want.dtype.kind) else np.longdouble
    error, limit = abs(got.astype(wide) - want.astype(wide)), bound * np.asarray(scale)
    bad = ~(error <= limit)
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise AssertionError(
            f"{int(bad.sum())} of {got.size} elements are off, first at {at}: got {got[at]}, "
            f"want {want[at]}, off by {float(error[at]):.3g} where {float(limit[at]):.3g} may be"
        )
