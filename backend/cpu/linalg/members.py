"""LAPACK routines without a batched kernel: one member after another, on all threads, without the GIL.

Addresses are those of `scipy.linalg.cython_lapack`; ctypes releases the interpreter's lock while a routine
runs, which the wrappers of `scipy.linalg.lapack` do not. LAPACK reads columns: matrices are copied so, and
results copied back.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import numpy as np

from ..blas import ONE_BLAS_THREAD
from ..threads import parallel_for

Array = np.ndarray[Any, Any]
Range = Literal["A", "I", "V"]
_PREFIX = {"f": "s", "d": "d", "F": "c", "D": "z"}


def schur(a: Array) -> tuple[Array, Array, Array, Array]:
    """(t, z, w, info): a = z @ t @ zᴴ, t upper triangular, of a real matrix with 2 x 2 blocks for pairs of
    complex eigenvalues w [..., n]."""
    n, count = a.shape[-1], _count(a)
    t, z = _columns(a), np.empty(a.shape, a.dtype)
    w = np.empty((2 if a.dtype.kind == "f" else 1, *a.shape[:-1]), a.dtype)
    info = np.zeros(a.shape[:-2], _integer())
    if count and n:
        gees = routine("gees", a.dtype)

        def run(start: int, stop: int) -> None:
            work = _Work(a.dtype)
            selected, flags = work.integers(0), work.integers(*[0] * n)

            def call(k: int, space: int, size: int) -> None:
                at = [each[k] for each in places]
                values = at[2:4] if a.dtype.kind == "f" else at[2:3]
                real = () if a.dtype.kind == "f" else (work.real(n),)
                gees(
                    _char(b"V"), _char(b"N"), None, order, at[0], order, selected, *values,
                    at[1], order, space, size, *real, flags, at[-1],
                )  # fmt: skip

            order = work.integers(n)
            work.each(call, start, stop)

        places = [_places(t, 2), _places(z, 2), *(_places(x, 1) for x in w), _places(info, 0)]
        _share(run, count)
    values = w[0] + 1j * w[1] if a.dtype.kind == "f" else w[0]
    return _back(t), _back(z), values, info.astype(np.int32)


def qr_pivoted(a: Array, mode: str) -> tuple[Array | None, Array, Array]:
    """(q, r, p): a[..., p] = q @ r with |r_11| >= |r_22| >= ...; mode "reduced", "complete" or "r"."""
    (m, n), k, count = a.shape[-2:], min(a.shape[-2:]), _count(a)
    packed, tau = _columns(a), np.empty((*a.shape[:-2], k), a.dtype)
    pivots = np.zeros((*a.shape[:-2], n), _integer())
    wide = m if mode == "complete" else k
    q = None if mode == "r" else np.empty((*a.shape[:-2], wide, m), a.dtype)  # columns
    info = np.zeros(a.shape[:-2], _integer())
    if count and k:
        geqp3 = routine("geqp3", a.dtype)
        orgqr = routine("orgqr" if a.dtype.kind == "f" else "ungqr", a.dtype)

        def run(start: int, stop: int) -> None:
            work = _Work(a.dtype)
            rows, columns, used, depth = (work.integers(x) for x in (m, n, wide, k))

            def factor(at: int, space: int, size: int) -> None:
                real = () if a.dtype.kind == "f" else (work.real(2 * n),)
                x, p, scale, code = (each[at] for each in places[:4])
                geqp3(rows, columns, x, rows, p, scale, space, size, *real, code)

            def form(at: int, space: int, size: int) -> None:
                _, _, scale, code, x = (each[at] for each in places)
                orgqr(rows, used, depth, x, rows, scale, space, size, code)

            work.each(factor, start, stop)
            if q is not None:
                flat, made = packed.reshape(-1, n, m), q.reshape(-1, wide, m)
                made[start:stop, :k] = flat[start:stop, :k]
                work.each(form, start, stop)

        places = [_places(packed, 2), _places(pivots, 1), _places(tau, 1), _places(info, 0)]
        if q is not None:
            places.append(_places(q, 2))
        _share(run, count)
    elif not k:
        pivots[...] = np.arange(1, n + 1)
        if q is not None:
            q[...] = np.eye(wide, m)
    r = np.triu(packed.swapaxes(-1, -2)[..., :wide, :] if mode == "complete" else _top(packed, k))
    return None if q is None else _back(q), r, pivots.astype(np.int64) - 1


def eigh_range(
    a: Array, lower: bool, kind: Range, low: float, high: float, vectors: bool = True
) -> tuple[Array, Array | None, Array, Array]:
    """(w, v, counts, info): eigenvalues `low` to `high`, counted from 0 and both included (kind "I"), or
    those in (low, high] (kind "V"), of which each member has `counts`; what is behind them is no result."""
    n, count = a.shape[-1], _count(a)
    most = int(high) - int(low) + 1 if kind == "I" else n
    packed = _columns(a)
    real = a.real.dtype
    w = np.zeros(a.shape[:-1], real)
    v = np.zeros((*a.shape[:-2], most, n), a.dtype) if vectors else None
    counts, info = (np.zeros(a.shape[:-2], _integer()) for _ in range(2))
    if count and n:
        evr = routine("syevr" if a.dtype.kind == "f" else "heevr", a.dtype)

        def run(start: int, stop: int) -> None:
            work = _Work(a.dtype)
            order, support = work.integers(n), work.integers(*[0] * (2 * n))
            first, last = work.integers(int(low) + 1), work.integers(int(high) + 1)
            if kind == "V":
                first, last = order, order
            bounds = [work.reals(low), work.reals(high), work.reals(0.0)]
            spaces = [work.integers(*[0] * (10 * n)), work.integers(10 * n)]
            if a.dtype.kind == "c":
                spaces = [work.reals(*[0.0] * (24 * n)), work.integers(24 * n), *spaces]

            def call(k: int, space: int, size: int) -> None:
                x, values, made, code = (each[k] for each in places[:4])
                to = places[4][k] if vectors else x
                evr(
                    _char(b"V" if vectors else b"N"), _char(kind.encode()),
                    _char(b"L" if lower else b"U"), order, x, order, bounds[0], bounds[1],
                    first, last, bounds[2], made, values, to, order, support, space, size,
                    *spaces, code,
                )  # fmt: skip

            work.each(call, start, stop)

        places = [_places(packed, 2), _places(w, 1), _places(counts, 0), _places(info, 0)]
        if v is not None:
            places.append(_places(v, 2))
        _share(run, count)
    return (
        w[..., :most],
        None if v is None else _back(v),
        counts.astype(np.int64),
        info.astype(np.int32),
    )


# ---- routines and their arguments -----------------------------------------------------------------


@cache
def routine(name: str, dtype: np.dtype[Any]) -> Callable[..., None]:
    """A routine of LAPACK whose arguments are addresses, or None."""
    from scipy.linalg import cython_lapack

    full = _PREFIX[dtype.char] + name
    capsule = cython_lapack.__pyx_capi__[full]
    address = _pointer(capsule, _signature(capsule))
    arguments = _signature(capsule).count(b",") + 1
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address)


def _signature(capsule: Any) -> bytes:
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return bytes(name(capsule))


def _pointer(capsule: Any, signature: bytes) -> int:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, signature))


@cache
def _integer() -> np.dtype[Any]:
    """The integers of SciPy's LAPACK: of 32 bits, or of 64 where it was built so."""
    from scipy.linalg import cython_lapack

    signature = _signature(cython_lapack.__pyx_capi__["dgetrf"])
    return np.dtype(np.int32 if re.search(rb"\bint \*", signature) else np.int64)


@cache
def _char(value: bytes) -> Any:
    return ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p)


class _Work:
    """Numbers and space of one thread; they live as long as it."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype, self.kept = dtype, list[Array]()

    def integers(self, *values: int) -> int:
        return self._keep(np.array(values, _integer()))

    def reals(self, *values: float) -> int:
        return self._keep(np.array(values, np.empty(0, self.dtype).real.dtype))

    def real(self, n: int) -> int:
        """Space for n real numbers, the same at every call."""
        if not hasattr(self, "_real"):
            self._real = self.reals(*[0.0] * n)
        return self._real

    def each(self, call: Callable[[int, int, int], None], start: int, stop: int) -> None:
        """call(k, space, size) for k in start..stop, with the space that it says it wants."""
        wanted = np.zeros(1, self.dtype)
        call(start, wanted.ctypes.data, self.integers(-1))
        n = int(wanted.real[0])
        space, size = self._keep(np.empty(n, self.dtype)), self.integers(n)
        for k in range(start, stop):
            call(k, space, size)

    def _keep(self, x: Array) -> int:
        self.kept.append(x)
        return int(x.ctypes.data)


def _places(x: Array, axes: int) -> range:
    """The addresses of the members of a C-contiguous array, which have so many axes."""
    size = int(np.prod(x.shape[x.ndim - axes :], dtype=np.int64)) * x.itemsize
    start = int(x.ctypes.data)
    count = _count(x, axes)
    return range(start, start + count * size, size) if size else range(0)


def _count(x: Array, axes: int = 2) -> int:
    return int(np.prod(x.shape[: x.ndim - axes], dtype=np.int64))


def _columns(a: Array) -> Array:
    """A copy of each matrix, column by column."""
    return a.swapaxes(-1, -2).copy(order="C")


def _back(x: Array) -> Array:
    return x.swapaxes(-1, -2).copy(order="C")


def _top(packed: Array, k: int) -> Array:
    return packed.swapaxes(-1, -2)[..., :k, :]


def _share(run: Callable[[int, int], None], count: int) -> None:
    """A single member has all threads of BLAS; of several each has one."""
    if count == 1:
        run(0, 1)
    else:
        with ONE_BLAS_THREAD:
            parallel_for(run, count)
