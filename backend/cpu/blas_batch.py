"""Batches of products of matrices by OpenBLAS's call for them: one after another on each of its threads.

Each product is made on one thread, so its bits are those of a product that has one thread. Our own threads
take a sixth less where they are there. But to begin one takes a third of a millisecond, and longer while one
of BLAS's looks for work on the core that it would have.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from ..._base.options import num_threads
from ..processor import cblas, of_blas, openblas_version

# the first version that was tried; 0.3.34 was too, and the call is one of those that its makers describe
SINCE = (0, 3, 31)
# multiplications of one product: for no more that version jumps to no address (interface/gemm_batch.c takes
# the place of a small kernel in a table for the kernel itself); 0.3.34 does not
TOO_SMALL = 100**3
LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
ROW_MAJOR, STRAIGHT, TURNED = 101, 111, 112  # of cblas.h


def multiply_batch(left: Any, right: Any, product: Any) -> bool:
    """product[i] = left[i] @ right[i] of three axes each, matrices that BLAS can read; False where it has no
    call for that, or would use more threads than we may, and nothing is done."""
    count, m, n = product.shape
    k = left.shape[-1]
    if m * n * k <= TOO_SMALL or min(m, n, k) < 2:
        return False
    found = _found(left.dtype.char)
    if found is None:
        return False
    call, threads = found
    places = [_places(x, count) for x in (left, right, product)]
    # a matrix times its own transpose may be another routine
    if not 1 < threads() <= num_threads() or np.may_share_memory(left, right):
        return False
    (turn_left, step_left), (turn_right, step_right) = _lies(left), _lies(right)
    # of NumPy, since ctypes makes a class for every kind of array; they are alive until the call returns
    turns = np.array([turn_left, turn_right], np.intc)
    sizes = np.array([m, n, k, step_left, step_right, n, count], np.int64)
    factors = np.array([1, 0], left.dtype)
    at, word = _address(sizes), sizes.itemsize
    turned, alpha = _address(turns), _address(factors)
    a, b, c = map(_address, places)
    call(
        ROW_MAJOR, turned, turned + turns.itemsize, at, at + word, at + 2 * word, alpha, a, at + 3 * word,
        b, at + 4 * word, alpha + factors.itemsize, c, at + 5 * word, 1, at + 6 * word,
    )  # fmt: skip
    return True


@cache
def _found(char: str) -> Any:
    """cblas_?gemm_batch, and what tells the number of threads; None where NumPy's BLAS has none that was
    tried."""
    if openblas_version() < SINCE:
        return None
    call, threads = cblas(f"{LETTERS[char]}gemm_batch"), of_blas("get_num_threads")
    if call is None or threads is None:
        return None
    call.restype = None
    call.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 13, ctypes.c_int64, ctypes.c_void_p]
    return call, threads


def _lies(x: Any) -> tuple[int, int]:
    """How BLAS is to read matrices of two rows and columns or more, and the elements from line to line."""
    _, rows, columns = x.strides
    if columns == x.itemsize:
        return STRAIGHT, rows // x.itemsize
    return TURNED, columns // x.itemsize


def _places(x: Any, count: int) -> Any:
    """Where each matrix begins; one alone is for all."""
    step = x.strides[0] if len(x) == count else 0
    return _address(x) + step * np.arange(count, dtype=np.intp)


def _address(x: Any) -> int:
    address: int = x.__array_interface__["data"][0]  # x.ctypes loads a module for that
    return address
