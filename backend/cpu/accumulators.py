"""In which dtype a reduction accumulates, and by which ufunc of NumPy partial results combine."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..spec import compute_dtype

DType = np.dtype[np.generic]


def accumulator(op: str, dtype: DType) -> DType:
    """The dtype in which a reduction accumulates: sums and products of half and single precision in
    double precision, extremes of half precision in single, everything else in its own dtype."""
    wide = compute_dtype(dtype)
    if op in ("reduce_max", "reduce_min") or wide.char not in "fF":
        return wide
    return np.result_type(wide, np.float64)


UFUNCS: dict[tuple[str, str], Any] = {
    ("reduce_sum", ""): np.add,
    ("reduce_sum", "logical"): np.logical_or,
    ("reduce_prod", ""): np.multiply,
    ("reduce_prod", "logical"): np.logical_and,
    ("reduce_max", ""): np.maximum,
    ("reduce_max", "logical"): np.logical_or,
    ("reduce_min", ""): np.minimum,
    ("reduce_min", "logical"): np.logical_and,
    ("reduce_mean", ""): np.add,
}
