"""Batches through LAPACK: one matrix after another on each of our threads, BLAS on one thread.

The routines are those that SciPy offers to Cython. They are called by their addresses from a compiled loop,
so that neither the interpreter nor its lock is needed between two matrices.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ...dtypes import real_of
from ..blas import ONE_BLAS_THREAD
from ..kernels.linalg.steps import ALL, CALL, COPY, LENGTH, run_steps
from ..threads import Run
from .turns import in_turns

Array = np.ndarray[Any, Any]


@cache
def address(name: str) -> int:
    """Of a routine of LAPACK or BLAS with 32-bit integers."""
    from scipy.linalg import cython_blas, cython_lapack

    known = cython_lapack.__pyx_capi__
    capsule = known[name] if name in known else cython_blas.__pyx_capi__[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = (
        ctypes.c_char_p,
        [ctypes.py_object],
    )
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature: bytes = api.PyCapsule_GetName(capsule)
    if b"int *" not in signature:
        raise NotImplementedError(f"SciPy's {name} takes no 32-bit integers: {signature.decode()}")
    return int(api.PyCapsule_GetPointer(capsule, signature))


class Steps:
    """What is done for each matrix of a batch; built by `array`, `copy`, `call`, and then `run`.

    Pointers are numbers. Matrices in scratch lie by columns, as LAPACK has them.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype, self.real = dtype, real_of(dtype)
        self.letter = dtype.char.translate(str.maketrans("fdFD", "sdcz"))
        self.is_complex = dtype.kind == "c"
        self.parts = dtype.itemsize // self.real.itemsize
        self._bases: list[int] = []
        self._strides: list[int] = []
        self._rows: list[list[int]] = []
        self._kept: list[Any] = []
        self._own: list[tuple[int, int]] = []  # pointers to scratch of a thread, and bytes

    def _pointer(self, base: int, stride: int) -> int:
        self._bases.append(base)
        self._strides.append(stride)
        return len(self._bases) - 1

    def array(self, x: Array) -> int:
        """Of [batch, ...]."""
        self._kept.append(x)
        return self._pointer(x.__array_interface__["data"][0], x.strides[0] if x.ndim else 0)

    def constant(self, value: int | float | str) -> int:
        """A number or a letter that all calls share."""
        if isinstance(value, str):
            held: Any = np.array([ord(value)], np.uint8)
        else:
            held = np.array([value], np.int32 if isinstance(value, int) else self.real)
        self._kept.append(held)
        return self._pointer(held.__array_interface__["data"][0], 0)

    def scratch(self, count: int, dtype: Any = None) -> int:
        """So many elements for each thread."""
        size = np.dtype(self.dtype if dtype is None else dtype).itemsize * max(1, count)
        pointer = self._pointer(0, 0)
        self._own.append((pointer, -(-size // 64) * 64))
        return pointer

    def copy(
        self,
        of: int,
        of_strides: tuple[int, int],
        to: int,
        to_strides: tuple[int, int],
        shape: tuple[int, int],
        which: int = ALL,
    ) -> None:
        """Strides in elements."""
        p = self.parts
        strides = [p * n for n in (*of_strides, *to_strides)]
        self._rows.append([COPY, of, to, *shape, *strides, p, which])

    def call(self, name: str, *pointers: int) -> None:
        """A routine, without its first letter."""
        self._rows.append([CALL, address(self.letter + name), len(pointers), *pointers])

    def take(self, x: Array) -> tuple[int, tuple[int, int]]:
        """Pointer and strides of matrices [batch, m, n] that are copied from or to."""
        size = x.itemsize
        return self.array(x), (x.strides[1] // size, x.strides[2] // size)

    def best(self, name: str, pointers: Sequence[int], works: dict[int, Any]) -> list[int]:
        """Lengths that a routine wants of `works` (positions and dtypes), each followed by its length."""
        answers = {k: np.zeros(2, dtype) for k, dtype in works.items()}
        query, unused = np.array([-1], np.int32), np.zeros(8)
        values = []
        for place, k in enumerate(pointers):
            if place in answers:
                values.append(answers[place].ctypes.data)
            elif place - 1 in answers:
                values.append(query.ctypes.data)
            else:
                values.append(self._bases[k] or unused.ctypes.data)
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(values))
        kind(address(self.letter + name))(*values)
        # a size in single precision may be rounded down
        found = [int(answer[0].real) for answer in answers.values()]
        return [max(1, n + (n >> 20)) for n in found]

    def run(self, count: int) -> None:
        """All steps for matrices 0..count."""
        rows = np.zeros((len(self._rows), LENGTH), np.int64)
        for row, numbers in zip(rows, self._rows, strict=True):
            row[: len(numbers)] = numbers
        strides, like = np.array(self._strides, np.int64), np.zeros(1, self.real)
        total = 64 + sum(size for _, size in self._own)

        def begin() -> Run:
            bases = np.array(self._bases, np.int64)
            memory = np.empty(total, np.uint8)
            at = -(-memory.__array_interface__["data"][0] // 64) * 64
            for pointer, size in self._own:
                bases[pointer] = at
                at += size

            def run(start: int, stop: int, memory: Array = memory) -> None:
                run_steps(start, stop, bases, strides, rows, like)

            return run

        with ONE_BLAS_THREAD:
            in_turns(begin, count)
