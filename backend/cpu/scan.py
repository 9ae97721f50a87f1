"""Inclusive scans: running sums, products, largest and smallest elements along one axis.

Sums and products of half and single precision run in double precision, and every result is rounded
once. An element is the scan of what is before it by the same steps for every number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec
from .accumulators import UFUNCS, accumulator
from .buffers import empty


def bind_scan(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    axis, op = attrs["axis"], f"reduce_{attrs['kind']}"
    ufunc = UFUNCS[op, "logical" if output.dtype.kind == "b" else ""]
    wide = accumulator(op, output.dtype)

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        if x.dtype.kind == "V":  # NumPy's loops do not know the dtypes of ml_dtypes
            x = x.astype(np.float32)
        with np.errstate(all="ignore"):
            np.copyto(out, ufunc.accumulate(x, axis=axis, dtype=wide), casting="unsafe")
        return out

    return run
