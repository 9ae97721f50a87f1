"""Nx's Fourier transforms: unnormalised, of the dtype asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._base.errors import DTypeError, ShapeError
from .nx_calls import Array, call, compute, tensor
from .rules import check_axes
from .spec import dtype_name


def fft(t: Array, *, axes: Sequence[int], out: Array | None = None) -> Array:
    """X[k] = sum_n t[n] exp(-2 pi i k n / N) over axes."""
    return _written("fft", t, out, "fft", axes=tuple(axes))


def ifft(t: Array, *, axes: Sequence[int], out: Array | None = None) -> Array:
    """x[n] = sum_k t[k] exp(+2 pi i k n / N) over axes, not divided by N."""
    return _written("ifft", t, out, "ifft", axes=tuple(axes))


def rfft(t: Array, *, dtype: Any, axes: Sequence[int], out: Array | None = None) -> Array:
    """fft of real numbers, of which the last of axes keeps the first N // 2 + 1 bins.

    It is computed in the wider precision of t and dtype.
    """
    t, dtype = tensor("rfft", t), _kind("rfft", dtype, "c")
    wide = np.result_type(t.dtype, dtype)
    return _cast("rfft", _real(t, wide), dtype, out, axes=tuple(axes))


def irfft(
    t: Array,
    *,
    dtype: Any,
    axes: Sequence[int],
    s: Sequence[int] | None = None,
    out: Array | None = None,
) -> Array:
    """ifft of the half spectrum of real numbers, not divided.

    Args:
        s: lengths of the result along `axes`; absent, the last is 2 (bins - 1) and the others are as they
            are. Spectra that are too long are cut, too short ones continued by zeros.

    >>> import numpy as np
    >>> from einloom.backend import nx
    >>> nx.irfft(np.ones(3, complex), dtype="float64", axes=(0,)).tolist()
    [4.0, 0.0, 0.0, 0.0]
    """
    t, dtype, axes = tensor("irfft", t), _kind("irfft", dtype, "f"), tuple(axes)
    check_axes("nx.irfft", "axes", axes, t.ndim)
    if not axes:
        raise ShapeError("nx.irfft: axes=() names none; name the axis of the half spectrum last")
    sizes = _sizes(t, axes, s)
    bins = (*sizes[:-1], sizes[-1] // 2 + 1)
    wide = np.result_type(t.dtype, np.result_type(dtype, np.complex64))
    x = _resized(
        call("irfft", "cast", t, dtype=dtype_name(wide)) if t.dtype != wide else t, axes, bins
    )
    return _cast("irfft", x, dtype, out, axes=axes, n=sizes[-1])


def _written(name: str, t: Array, out: Array | None, op: str, **attrs: Any) -> Array:
    if tensor(name, t).dtype.kind != "c":
        raise DTypeError(
            f"nx.{name}: t is {t.dtype}, it takes complex numbers; rfft takes real ones"
        )
    return call(name, op, t, **attrs) if out is None else compute(name, op, t, out=out, **attrs)


def _cast(name: str, x: Array, dtype: np.dtype[Any], out: Array | None, **attrs: Any) -> Array:
    """The transform in the dtype asked for, in `out` if there is one."""
    if out is not None and out.dtype != dtype:
        raise DTypeError(f"nx.{name}: out is {out.dtype}, dtype says {dtype}")
    wide = x.dtype.char.upper() if name == "rfft" else x.dtype.char.lower()
    if wide == dtype.char:
        return (
            call(name, name, x, **attrs)
            if out is None
            else compute(name, name, x, out=out, **attrs)
        )
    found = call(name, name, x, **attrs)
    if out is None:
        return call(name, "cast", found, dtype=dtype_name(dtype))
    return compute(name, "cast", found, out=out, dtype=dtype_name(dtype))


def _kind(name: str, dtype: Any, kind: str) -> np.dtype[Any]:
    dtype = np.dtype(dtype)
    if dtype.kind != kind or dtype.char == "e":
        few = "complex64 or complex128" if kind == "c" else "float32 or float64"
        raise DTypeError(f"nx.{name}: dtype={dtype} is not what comes out; ask for {few}")
    return dtype


def _real(t: Array, wide: np.dtype[Any]) -> Array:
    real = np.dtype(wide.char.lower())
    if t.dtype.kind != "f" or t.dtype == real:  # the op refuses other kinds
        return t
    return call("rfft", "cast", t, dtype=dtype_name(real))


def _sizes(t: Array, axes: tuple[int, ...], s: Sequence[int] | None) -> tuple[int, ...]:
    if s is None:
        sizes = [t.shape[axis] for axis in axes]
        return (*sizes[:-1], 2 * (sizes[-1] - 1))
    if len(s) != len(axes) or any(n < 1 for n in s):
        raise ShapeError(f"nx.irfft: s={tuple(s)} must be positive, one for each of axes={axes}")
    return tuple(s)


def _resized(x: Array, axes: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    """x cut or continued by zeros along axes."""
    more = [0] * x.ndim
    for axis, n in zip(axes, sizes, strict=True):
        more[axis] = n - x.shape[axis]
    if not any(more):
        return x
    none = (0,) * x.ndim
    return call("irfft", "pad", x, low=none, high=tuple(more), interior=none, value=0)
