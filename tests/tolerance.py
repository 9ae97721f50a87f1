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


def smallest(dtype: DTypeLike) -> float:
    """The smallest normal number: below it, spacings are those of it."""
    dtype = np.dtype(dtype)
    if dtype.kind in "fc":
        return np.finfo(dtype).smallest_normal
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).smallest_normal)


SPACINGS: dict[str, dict[str, float]] = {  # of one function, by what it is and its dtype
    "arithmetic": {"complex64": 4, "complex128": 4, "clongdouble": 4},
    "function": {
        "float16": 1,  # computed wider and rounded once
        "bfloat16": 1,
        **dict.fromkeys(("float32", "float64", "longdouble"), 4),
        **dict.fromkeys(("complex64", "complex128", "clongdouble"), 16),
    },
    # exp multiplies the error of y log x
    "complex power": dict.fromkeys(("complex64", "complex128", "clongdouble"), 128),
}


def function_tolerance(kind: str, dtype: DTypeLike) -> float:
    """Bound for |computed - nearest|, in units of |exact|."""
    dtype = np.dtype(dtype)
    name = {"g": "longdouble", "G": "clongdouble"}.get(dtype.char, dtype.name)
    return SPACINGS[kind][name] * eps(dtype)


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
