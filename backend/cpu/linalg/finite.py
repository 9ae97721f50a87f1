"""Members with NaN or infinity, kept from routines of LAPACK that never return from some of them.

gesdd and gelsd, as OpenBLAS ships them, iterate for ever on some matrices with an infinity.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def cleared(a: Array) -> tuple[Array, Array | None]:
    """(a with zeros for members that are not finite, which they are [...]); None if no one is."""
    finite = np.isfinite(a)
    if finite.all():
        return a, None
    infinite = ~np.asarray(finite.all(axis=(-2, -1)))
    return np.where(infinite[..., None, None], a.dtype.type(0), a), infinite


def spoil(infinite: Array | None, info: Array, *results: Array | None) -> None:
    """Code 1 and NaN for those members."""
    if infinite is None:
        return
    info[infinite] = 1
    for x in results:
        if x is not None:
            x[infinite] = np.nan
