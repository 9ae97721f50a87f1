"""Which way a factorisation takes: plain NumPy, lanes, or LAPACK in a loop over the batch.

Shapes, dtypes and the options `small` and `threads` decide, not what is compiled already.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

import numpy as np

from ...._base.options import get_options, num_threads

Array = np.ndarray[Any, Any]
Way = Literal["plain", "single", "interleaved", "batched"]

# what `single` has
SINGLE = frozenset(("solve", "inv", "det", "cholesky", "lu", "qr", "eigh", "svd", "eig"))
LANES = frozenset(
    (
        "cholesky", "lu", "solve", "inv", "det", "slogdet", "triangular_solve", "cho_solve", "qr",
        "eigh", "svd", "lstsq",
    )
)  # fmt: skip
LARGEST = 64  # order up to which lanes were measured to take less time than LAPACK in a loop
CLOSED = 2  # that of which general eigenvalues have a stable closed form
MOST_COLUMNS = 4  # right-hand sides for each row: more leave the cache
SHORT = (
    16  # order up to which half a panel is enough; beyond, of long work every thread is to have one
)
LINE = 64  # bytes of a vector
SHARED = 16  # times `small`: below, a few matrices take LAPACK in a loop less time than it takes to begin
FEW = 64  # matrices, for that
# operations for each element: more than a few times the order
LONG = frozenset(("qr", "eigh", "svd", "eig", "lstsq"))
LONGEST = frozenset(("svd", "eig"))
# a call of LAPACK for each matrix where nothing is compiled; it takes as long as so many operations
CALLED = frozenset(("lu", "lu_solve", "triangular_solve", "cho_solve"))
CALL = 128


def way(op: str, a: Array, b: Array | None = None) -> Way:
    """How a function of the package does its work on matrices such as these.

    >>> way("qr", np.empty((10000, 4, 4))), way("qr", np.empty((3, 4, 4)))
    ('interleaved', 'plain')
    >>> way("qr", np.empty((100, 100, 100))), way("qr", np.empty((100, 100)))
    ('batched', 'plain')
    >>> way("solve", np.empty((4, 4)))
    'single'
    """
    shape, size = a.shape, a.size
    m, n = shape[-2:]
    small = get_options().small
    if not size or (b is not None and not b.size):
        return "plain"
    count = size // (m * n)
    is_closed = op == "eig" and n == CLOSED
    is_called = is_closed or op in CALLED
    if size * min(m, n) + (CALL * (count - 1) if is_called else 0) < small:
        return "single" if len(shape) == 2 and op in SINGLE and n <= LARGEST else "plain"
    real = a.itemsize // (2 if a.dtype.kind == "c" else 1)
    is_possible = is_closed or (op in LANES and max(m, n) <= LARGEST)
    if b is not None and max(b.shape[-2:]) > MOST_COLUMNS * max(m, n):
        is_possible = False
    is_long = (size + (0 if b is None else b.size)) * min(m, n) >= SHARED * small
    lanes = LINE // real
    panels = 1 if op in LONG and not is_long else num_threads()
    least = lanes // 2 if max(m, n) <= SHORT else lanes * panels
    if is_possible and (count >= least or small == 0):
        return "interleaved"
    if not is_long and count <= FEW and op not in LONGEST:
        return "plain"
    return "batched" if count >= max(2, num_threads()) or small == 0 else "plain"


def module(op: str, a: Array, b: Array | None = None) -> ModuleType:
    """The module that does it."""
    if a.ndim == 2 and op in SINGLE:  # what `way` says of small matrices, in half of the time
        m, n = a.shape
        work = m * n * (m if m < n else n)
        if 0 < work < get_options().small and n <= LARGEST and (b is None or b.size):
            return _imported("single")
    return _imported(way(op, a, b))


@cache
def _imported(way: Way) -> ModuleType:
    """None is imported before it is needed, since some need a compiler."""
    return import_module(f".{way}", __package__)
