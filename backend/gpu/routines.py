"""What cuBLAS and cuSOLVER can, and CuPy's functions keep to themselves: codes of failures, batches of any
order, and products of matrices as they lie.

CuPy's own functions are asked for everything else. A stand-in for CuPy has `xp.routines` with the same
functions.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from .blas import OPS, TYPES, Products
from .modules import Module
from .move import contiguous

LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


def routines(xp: Module) -> Any:
    """Where `bound`, `potrf`, `getrf` and so on of this array module are."""
    own = getattr(xp, "routines", None)
    return _cuda() if own is None else own


@cache
def _cuda() -> _Cuda:
    import cupy  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return _Cuda(cupy)


class _Cuda(Products):
    """Batches [count, n, n]; n and count are at least 1.

    Libraries count columns first: what they see is the transpose of every matrix.
    """

    def __init__(self, xp: Module) -> None:
        from cupy.cuda import device  # type: ignore[import-not-found, import-untyped, unused-ignore]
        from cupy_backends.cuda.libs import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
            cublas,
            cusolver,
        )

        super().__init__(xp, device, cublas)
        self.cusolver = cusolver

    def potrf(self, a: Any) -> tuple[Any, Any]:
        """l with a = l lᴴ, by the lower triangle, and info [count]; above the diagonal l has no meaning.

        The transpose of a Hermitian matrix is its conjugate: its factor u, conj(a) = uᴴ u, is the transpose
        of l.
        """
        xp, (count, n, _), cublas, cusolver = self.xp, a.shape, self.cublas, self.cusolver
        x, letter = a.copy(), LETTERS[a.dtype.char]
        info = xp.empty(count, np.int32)
        handle, upper = self.device.get_cusolver_handle(), cublas.CUBLAS_FILL_MODE_UPPER
        if _is_batch(count, n):
            places = _addresses(xp, x)
            run = getattr(cusolver, f"{letter}potrfBatched")
            run(handle, upper, n, places.data.ptr, n, info.data.ptr, count)
            return x, info
        run, room = (getattr(cusolver, f"{letter}potrf{end}") for end in ("", "_bufferSize"))
        size = room(handle, upper, n, x.data.ptr, n)
        work = xp.empty(size, a.dtype)
        for k in range(count):
            run(handle, upper, n, x[k].data.ptr, n, work.data.ptr, size, info[k].data.ptr)
        return x, info

    def getrf(self, a: Any) -> tuple[Any, Any]:
        """The factors of LU in one array, and which row was swapped with row k, counted from 0."""
        x, pivots, _ = self._factorised(a)
        return x.swapaxes(-1, -2), pivots - 1

    def getrs(self, packed: Any, swaps: Any, b: Any, trans: str) -> Any:
        """x of op(a) x = b, from what `getrf` gave; b is [count, n, k]."""
        x = self._columns(packed)
        return self._solved(x, (swaps + 1).astype(np.int32, copy=False), b, trans)

    def gesv(self, a: Any, b: Any) -> tuple[Any, Any]:
        """x of a x = b, and info [count]."""
        x, pivots, info = self._factorised(a)
        return self._solved(x, pivots, b, "N"), info

    def _columns(self, a: Any) -> Any:
        """The matrices column by column, in memory of their own."""
        turned = a.swapaxes(-1, -2)
        return turned.copy() if turned.flags.c_contiguous else contiguous(self.xp, turned)

    def _factorised(self, a: Any) -> tuple[Any, Any, Any]:
        """Factors by columns, rows swapped with row k counted from 1, and info."""
        xp, (count, n, _), x, letter = self.xp, a.shape, self._columns(a), LETTERS[a.dtype.char]
        pivots, info = xp.empty((count, n), np.int32), xp.empty(count, np.int32)
        at = (pivots.data.ptr, info.data.ptr)
        if _is_batch(count, n):
            places = _addresses(xp, x)
            run = getattr(self.cublas, f"{letter}getrfBatched")
            run(self.device.get_cublas_handle(), n, places.data.ptr, n, *at, count)
            return x, pivots, info
        handle = self.device.get_cusolver_handle()
        run, room = (getattr(self.cusolver, f"{letter}getrf{end}") for end in ("", "_bufferSize"))
        work = xp.empty(room(handle, n, n, x.data.ptr, n), a.dtype)
        for k in range(count):
            at = (pivots[k].data.ptr, info[k].data.ptr)
            run(handle, n, n, x[k].data.ptr, n, work.data.ptr, *at)
        return x, pivots, info

    def _solved(self, x: Any, pivots: Any, b: Any, trans: str) -> Any:
        xp, (count, n, columns), letter = self.xp, b.shape, LETTERS[b.dtype.char]
        found, op = self._columns(b), OPS[trans]
        if _is_batch(count, n):
            of_x, of_b, said = _addresses(xp, x), _addresses(xp, found), np.empty(1, np.int32)
            run = getattr(self.cublas, f"{letter}getrsBatched")
            handle, at = self.device.get_cublas_handle(), (x, of_x, pivots, of_b)
            _, *pointers = (one.data.ptr for one in at)
            places, swaps, targets = pointers
            run(handle, op, n, columns, places, n, swaps, targets, n, said.ctypes.data, count)
        else:
            run, said = getattr(self.cusolver, f"{letter}getrs"), xp.empty(1, np.int32)
            handle = self.device.get_cusolver_handle()
            for k in range(count):
                of_x, swaps, target = (one[k].data.ptr for one in (x, pivots, found))
                run(handle, op, n, columns, of_x, n, swaps, target, n, said.data.ptr)
        return found.swapaxes(-1, -2)

    def syev(self, a: Any, vectors: bool) -> tuple[Any, Any, Any] | None:
        """w rising, v or None and info, by the lower triangle of a; None where this cuSOLVER has no routine
        for batches that takes any order (it came with CUDA 12.6)."""
        library = _solver(self.cusolver)
        if library is None:
            return None
        xp, (count, n, _) = self.xp, a.shape
        x, real = a.copy(order="C"), np.dtype(a.dtype.char.lower())
        w, info = xp.empty((count, n), real), xp.empty(count, np.int32)
        handle = self.device.get_cusolver_handle()
        self.cusolver.setStream(handle, xp.cuda.get_current_stream().ptr)
        # by columns x is the transpose of a, its conjugate; its upper triangle is the lower one of a
        of_x = (TYPES[a.dtype.name], x.data.ptr, n)
        of_w = (TYPES[real.name], w.data.ptr, TYPES[a.dtype.name])
        said = (handle, library.parameters, int(vectors), self.cublas.CUBLAS_FILL_MODE_UPPER, n)
        room, host = library.room(*said, *of_x, *of_w, count)
        work, beside = xp.empty(max(1, room), np.uint8), np.empty(max(1, host), np.uint8)
        rooms = (work.data.ptr, room, beside.ctypes.data, host)
        library.run(*said, *of_x, *of_w, *rooms, info.data.ptr, count)
        v = x.swapaxes(-1, -2) if vectors else None
        return w, v.conj() if v is not None and a.dtype.kind == "c" else v, info


class _Solver:
    """cusolverDnXsyevBatched, which CuPy 14 has no function for."""

    def __init__(self, library: Any) -> None:
        pointer, number, long = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
        said = [
            pointer,
            pointer,
            number,
            number,
            long,
            number,
            pointer,
            long,
            number,
            pointer,
            number,
        ]
        self._room, self._run = (
            library.cusolverDnXsyevBatched_bufferSize,
            library.cusolverDnXsyevBatched,
        )
        self._room.argtypes = [*said, pointer, pointer, long]
        room = (pointer, ctypes.c_size_t)
        self._run.argtypes = [*said, *room, *room, pointer, long]
        made = pointer()
        _checked(library.cusolverDnCreateParams(ctypes.byref(made)))
        self.parameters = made

    def room(self, *arguments: Any) -> tuple[int, int]:
        """Bytes on the device and on the host."""
        *said, count = arguments
        here, there = ctypes.c_size_t(), ctypes.c_size_t()
        _checked(self._room(*said, ctypes.byref(there), ctypes.byref(here), count))
        return there.value, here.value

    def run(self, *arguments: Any) -> None:
        _checked(self._run(*arguments))


@cache
def _solver(cusolver: Any) -> _Solver | None:
    """None where the library, which CuPy has loaded, knows no such routine."""
    for major in (12, 11):  # of CUDA 13 and 12
        with suppress(OSError, AttributeError):
            return _Solver(ctypes.CDLL(f"libcusolver.so.{major}"))
    return None


def _checked(status: int) -> None:
    if status:
        raise RuntimeError(f"cuSOLVER returned status {status}")


def _is_batch(count: int, n: int) -> bool:
    """Whether routines for batches are likely sooner than one call for each: CuPy's bound, from its
    measurements of LU (cupy.linalg, version 14)."""
    return count * 65536 >= n * n


def _addresses(xp: Module, x: Any) -> Any:
    step, start = x[0].nbytes, x.data.ptr
    return xp.arange(start, start + step * len(x), step, dtype=np.uintp)
