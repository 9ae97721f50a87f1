"""Which way a factorisation takes: plain NumPy, lanes, or LAPACK in a loop over the batch.

Shapes, dtypes and the options `small` and `threads` decide, not what is compiled already.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Literal

import numpy as np

from ...._base.options import get_options, num_threads
from . import plain

Array = np.ndarray[Any, Any]
Way = Literal["plain", "interleaved", "batched"]

LARGEST = {  # order up to which lanes took less time than LAPACK on two threads, by measurement
    "cholesky": 32,
    "lu": 32,
    "solve": 32,
    "inv": 32,
    "det": 32,
    "slogdet": 32,
    "triangular_solve": 32,
    "cho_solve": 32,
    "qr": 32,
    "eigh": 32,
    "svd": 32,
    "lstsq": 32,
}
MOST_COLUMNS = 4  # right-hand sides for each row: more leave the cache
HALF = 32  # bytes: half of a vector; fewer matrices leave most lanes idle


def way(op: str, a: Array, b: Array | None = None, full: bool = False) -> Way:
    """How a function of the package does its work on matrices such as these.

    >>> way("qr", np.empty((10000, 4, 4))), way("qr", np.empty((3, 4, 4)))
    ('interleaved', 'plain')
    >>> way("qr", np.empty((100, 100, 100))), way("qr", np.empty((100, 100)))
    ('batched', 'plain')
    """
    shape, size = a.shape, a.size
    m, n = shape[-2:]
    small = get_options().small
    if size * min(m, n) < small or not size or (b is not None and not b.size):
        return "plain"
    count = size // (m * n)
    real = a.itemsize // (2 if a.dtype.kind == "c" else 1)
    is_possible = max(m, n) <= LARGEST.get(op, 0) and (m == n or not full)
    if b is not None and b.shape[-1] > MOST_COLUMNS * n:
        is_possible = False
    if is_possible and (count >= HALF // real or small == 0):
        return "interleaved"
    return "batched" if count >= max(2, num_threads()) or small == 0 else "plain"


def module(op: str, a: Array, b: Array | None = None, full: bool = False) -> ModuleType:
    """The module that does it; nothing that needs a compiler is imported before."""
    found = way(op, a, b, full)
    if found == "plain":
        return plain
    if found == "batched":
        from . import batched

        return batched
    from . import interleaved

    return interleaved
