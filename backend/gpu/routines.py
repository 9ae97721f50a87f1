"""What cuBLAS and cuSOLVER can, and CuPy's functions keep to themselves: codes of failures, and products of
matrices as they lie.

CuPy's own functions are asked for everything else; its `matmul` copies batches of matrices that are not
row-major, and widens half precisions. A stand-in for CuPy has `xp.routines` with the same functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .modules import Module

if TYPE_CHECKING:
    from .gemm import Gemm

OPS = {"N": 0, "T": 1, "C": 2}  # cublasOperation_t
TYPES = {  # cudaDataType_t
    "float32": 0,
    "float64": 1,
    "float16": 2,
    "complex64": 4,
    "complex128": 5,
    "bfloat16": 14,
}
LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


def routines(xp: Module) -> Any:
    """Where `gemm`, `potrf` and `getrf` of this array module are."""
    return getattr(xp, "routines", None) or _Cuda(xp)


PRECISIONS = {"tf32": "CUBLAS_COMPUTE_32F_FAST_TF32", "bfloat16": "CUBLAS_COMPUTE_32F_FAST_16BF"}
"""How cuBLAS may compute float32 and complex64 where the option `precision` asks for it."""


class _Cuda:
    """Batches [count, n, n], contiguous; n and count are at least 1. `gemm` reads what a `Gemm` describes.

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

    def gemm(
        self, call: Gemm, a: Any, b: Any, c: Any, alpha: Any, beta: Any, precision: str
    ) -> None:
        """c = alpha op(a) op(b) + beta c; half precisions are summed in single precision."""
        from cupy.cuda import device  # type: ignore[import-not-found, import-untyped, unused-ignore]
        from cupy_backends.cuda.libs import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
            cublas,
        )

        kind = "CUBLAS_COMPUTE_64F" if alpha.dtype.char in "dD" else "CUBLAS_COMPUTE_32F"
        if a.dtype.char in "fF":
            kind = PRECISIONS.get(precision, kind)
        sides = (
            number
            for x, side in ((a, call.a), (b, call.b))
            for number in (x.data.ptr, TYPES[x.dtype.name], side.ld, side.stride)
        )
        cublas.gemmStridedBatchedEx(
            device.get_cublas_handle(),
            OPS[call.a.op],
            OPS[call.b.op],
            call.m,
            call.n,
            call.k,
            alpha.ctypes.data,
            *sides,
            beta.ctypes.data,
            c.data.ptr,
            TYPES[c.dtype.name],
            call.ldc,
            call.stride_c,
            call.batch,
            getattr(cublas, kind),
            cublas.CUBLAS_GEMM_DEFAULT,
        )

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
