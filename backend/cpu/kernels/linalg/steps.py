"""The same few calls of LAPACK for every matrix of a batch, each with copies before and after.

A step is a row of numbers. A call: CALL, the address of the routine, how many arguments, which pointers they
are. A copy: COPY, from and to which pointer, rows, columns, strides of rows and columns there and here, real
numbers of an element, which part is copied, ALL, LOWER or UPPER; elsewhere zeros are written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...jit import kernel, part

peek: Any = None
poke: Any = None
call_routine: Any = None

COPY, CALL = 0, 1
ALL, LOWER, UPPER = 0, 1, 2
LENGTH = 32  # of a row
TILE = 16  # rows and columns that are copied before the next ones: a cache line is used up


@part
def copy_matrix(step: Any, pointers: Any, like: Any) -> None:
    """One copy."""
    of, to = pointers[step[1]], pointers[step[2]]
    rows, columns, which = step[3], step[4], step[10]
    zero = like[0] - like[0]
    for first in range(0, rows, TILE):
        for left in range(0, columns, TILE):
            for i in range(first, min(first + TILE, rows)):
                for j in range(left, min(left + TILE, columns)):
                    is_inside = which == 0 or (i >= j if which == 1 else i <= j)
                    a, b = i * step[5] + j * step[6], i * step[7] + j * step[8]
                    for p in range(step[9]):
                        poke(to, b + p, peek(of, a + p, like) if is_inside else zero)


@kernel
def run_steps(start: int, stop: int, bases: Any, strides: Any, steps: Any, like: Any) -> None:
    """All steps for matrices start..stop; pointer k of a matrix is bases[k] + its number * strides[k].

    `like` is [0] in the real dtype.
    """
    pointers = np.empty(bases.shape[0], np.int64)
    for index in range(start, stop):
        for k in range(bases.shape[0]):
            pointers[k] = bases[k] + index * strides[k]
        for s in range(steps.shape[0]):
            if steps[s, 0] == CALL:
                call_routine(steps[s, 1], steps[s, 2], pointers, steps, s * LENGTH + 3)
            else:
                copy_matrix(steps[s], pointers, like)
