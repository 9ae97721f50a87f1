"""Sums of few elements as products with vectors of ones.

NumPy's reductions take a microsecond to begin, and many nanoseconds for each short line that they walk. BLAS
takes a third of the one and a tenth of the other: what is summed at the end of memory is a matrix times ones,
what is summed elsewhere is ones times a matrix. A number times one is itself, and each call is so small that
OpenBLAS has one thread for it, so that results do not depend on their number.

Real numbers only: an infinite complex number times one is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np

from ..spec import Axes, Shape

ALONE = 1 << 13
"""Elements of a matrix that BLAS multiplies by a vector on one thread (OpenBLAS: 9216)."""
BRIEF = 32
"""Elements of each of many matrices below which a copy and one large matrix take less time."""
LONG_ROW = 1 << 11  # numbers of a row that NumPy adds up as fast
LONG, LONGER = 1 << 7, 1 << 10  # columns of larger matrices, and of any, for which that holds
FEWEST, LINES = 5, 45  # lines that NumPy walks in the time of a call, and of each further step
MOST = 1 << 18  # elements in all, however large `options.small` is
Sum = Callable[[Any], Any]


def small_sum(shape: Shape, axes: Axes, dtype: Any = np.float64) -> Sum | None:
    """What adds up numbers of a dtype of BLAS over these axes of a contiguous array of this shape; None where
    NumPy takes no longer. Its errors are those of sums of up to ALONE numbers one after another.

    >>> total = small_sum((40, 5, 6), (0, 2))
    >>> total(np.ones((40, 5, 6)))
    array([240., 240., 240., 240., 240.])
    """
    long = [axis for axis, n in enumerate(shape) if n != 1]
    groups = groupby(long, key=lambda axis: axis in axes)
    runs = [(is_summed, math.prod([shape[axis] for axis in group])) for is_summed, group in groups]
    lines = math.prod([n for _, n in runs[:-1]])  # that NumPy walks
    steps: list[Sum] = []
    if len(runs) > 1 and runs[0][0]:  # which leaves little to the others, and is one matrix
        (_, count), *runs = runs
        steps.append(_columns(1, count, math.prod([n for _, n in runs]), dtype))
    for at in range(len(runs) - 1, -1, -1):  # the last first: what comes before lies as it did
        is_summed, count = runs[at]
        if is_summed:
            before = math.prod([n for _, n in runs[:at]])
            behind = math.prod([n for is_gone, n in runs[at + 1 :] if not is_gone])
            one = (
                _rows(before, count, dtype)
                if behind == 1
                else _columns(before, count, behind, dtype)
            )
            steps.append(one)
    if not steps or lines < FEWEST + LINES * (len(steps) - 1):
        return None
    result = tuple([n for axis, n in enumerate(shape) if axis not in axes])

    def total(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x if x.shape == result else x.reshape(result)

    return total


def _rows(rows: int, count: int, dtype: Any) -> Sum:
    """Sums of rows of so many numbers."""
    if rows * count <= ALONE:
        ones = np.ones(count, dtype)
        return lambda x: x.reshape(rows, count).dot(ones)
    if count >= LONG_ROW:
        return lambda x: np.add.reduce(x.reshape(rows, count), 1)
    ones = np.ones(count, dtype)
    part = ALONE // count
    parts = rows // part
    even = parts * part

    def total(x: Any) -> Any:
        x, out = x.reshape(rows, count), np.empty(rows, dtype)
        np.matmul(x[:even].reshape(parts, part, count), ones, out=out[:even].reshape(parts, part))
        if even < rows:
            np.dot(x[even:], ones, out=out[even:])
        return out

    return total


def _columns(loops: int, count: int, columns: int, dtype: Any) -> Sum:
    """Sums of so many neighbouring rows, again and again."""
    whole = (loops, count, columns)
    if columns >= LONG and (count * columns > ALONE or columns >= LONGER):
        return lambda x: np.add.reduce(x.reshape(whole), 1)
    if loops > 1 and count * columns < BRIEF:
        at_once = _columns(1, count, loops * columns, dtype)
        return lambda x: at_once(np.ascontiguousarray(x.reshape(whole).transpose(1, 0, 2)))
    if count * columns <= ALONE:
        ones = np.ones(count, dtype)
        if loops == 1:
            return lambda x: ones.dot(x.reshape(count, columns))
        return lambda x: np.matmul(ones, x.reshape(whole))
    part = ALONE // columns
    parts = count // part
    even, ones = parts * part, np.ones(part, dtype)
    ones_of_rest = np.ones(count - even, dtype)

    def total(x: Any) -> Any:
        x = x.reshape(whole)
        found = np.matmul(ones, x[:, :even].reshape(loops, parts, part, columns))
        out = np.add.reduce(found, 1)
        if even < count:
            out += np.matmul(ones_of_rest, x[:, even:])
        return out

    return total
