"""What cuBLAS and cuSOLVER say of a factorisation, and CuPy's functions keep to themselves.

CuPy's own functions are asked for everything else. A stand-in for CuPy has `xp.routines` with the same
two functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .modules import Module

LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


def routines(xp: Module) -> Any:
    """Where `potrf` and `getrf` of this array module are."""
    return getattr(xp, "routines", None) or _Cuda(xp)


class _Cuda:
    """Batches [count, n, n], contiguous; n and count are at least 1.

    Libraries count columns first: what they see is the transpose of every matrix.
    """

    def __init__(self, xp: Module) -> None:
        self.xp = xp

    def potrf(self, a: Any) -> tuple[Any, Any]:
        """l with a = l lᴴ, by the lower triangle, and info [count]; above the diagonal l has no meaning.

        The transpose of a Hermitian matrix is its conjugate: its factor u, conj(a) = uᴴ u, is the transpose
        of l.
        """
        from cupy.cuda import device  # type: ignore[import-not-found, import-untyped, unused-ignore]
        from cupy_backends.cuda.libs import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
            cublas,
            cusolver,
        )

        xp, (count, n, _) = self.xp, a.shape
        x, letter = a.copy(), LETTERS[a.dtype.char]
        info = xp.empty(count, np.int32)
        handle, upper = device.get_cusolver_handle(), cublas.CUBLAS_FILL_MODE_UPPER
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
        from cupy.cuda import device  # type: ignore[import-not-found, import-untyped, unused-ignore]
        from cupy_backends.cuda.libs import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
            cublas,
            cusolver,
        )

        xp, (count, n, _) = self.xp, a.shape
        x, letter = xp.ascontiguousarray(a.swapaxes(-1, -2)), LETTERS[a.dtype.char]
        x = x.copy() if xp.may_share_memory(x, a) else x
        swaps, info = xp.empty((count, n), np.int32), xp.empty(count, np.int32)
        if _is_batch(count, n):
            places = _addresses(xp, x)
            run = getattr(cublas, f"{letter}getrfBatched")
            run(
                device.get_cublas_handle(),
                n,
                places.data.ptr,
                n,
                swaps.data.ptr,
                info.data.ptr,
                count,
            )
        else:
            handle = device.get_cusolver_handle()
            run, room = (getattr(cusolver, f"{letter}getrf{end}") for end in ("", "_bufferSize"))
            work = xp.empty(room(handle, n, n, x.data.ptr, n), a.dtype)
            for k in range(count):
                at = (x[k].data.ptr, n, work.data.ptr, swaps[k].data.ptr, info[k].data.ptr)
                run(handle, n, n, *at)
        return x.swapaxes(-1, -2), swaps - 1


def _is_batch(count: int, n: int) -> bool:
    """Whether routines for batches are likely sooner than one call for each: CuPy's bound, from its
    measurements of LU (cupy.linalg, version 14)."""
    return count * 65536 >= n * n


def _addresses(xp: Module, x: Any) -> Any:
    step, start = x[0].nbytes, x.data.ptr
    return xp.arange(start, start + step * len(x), step, dtype=np.uintp)
