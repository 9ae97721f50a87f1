"""Nx's Fourier transforms: unnormalised, of the dtype asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._base.errors import DTypeError, ShapeError
from .dtypes import complex_of, real_of
from .nx_calls import Array, call, dtype_of, tensor, tuple_of
from .rules import check_axes, check_integers
from .spec import dtype_name


def fft(t: Array, *, axes: Sequence[int], out: Array | None = None) -> Array:
    """X[k] = sum_n t[n] exp(-2 pi i k n / N) over axes."""
    return call("fft", "fft", _complex("fft", t), out=out, axes=tuple_of("fft", "axes", axes))


def ifft(t: Array, *, axes: Sequence[int], out: Array | None = None) -> Array:
    """x[n] = sum_k t[k] exp(+2 pi i k n / N) over axes, not divided by N."""
    return call("ifft", "ifft", _complex("ifft", t), out=out, axes=tuple_of("ifft", "axes", axes))


def rfft(t: Array, *, dtype: Any, axes: Sequence[int], out: Array | None = None) -> Array:
    """fft of real numbers, of which the last of axes keeps the first N // 2 + 1 bins.

    Args:
        t: real; it is computed in the wider precision of t and dtype.
        dtype: complex64 or complex128, the dtype of the result.
    """
    t, dtype = tensor("rfft", t), _kind("rfft", dtype, "c")
    wide = np.result_type(t.dtype, dtype)
    return _cast("rfft", _real(t, wide), dtype, out, axes=tuple_of("rfft", "axes", axes))


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
        t: complex; it is computed in the wider precision of t and dtype.
        dtype: float32 or float64, the dtype of the result.
        s: lengths of the result along `axes`; absent, the last is 2 (bins - 1) and the others are as they
            are. Spectra that are too long are cut, too short ones continued by zeros.

    >>> import numpy as np
    >>> from einloom.backend import nx
    >>> nx.irfft(np.ones(3, complex), dtype="float64", axes=(0,)).tolist()
    [4.0, 0.0, 0.0, 0.0]
    """
    t, dtype = _complex("irfft", t), _kind("irfft", dtype, "f")
    axes = tuple_of("irfft", "axes", axes)
    check_axes("nx.irfft", "axes", axes, t.ndim)
    if not axes:
        raise ShapeError("nx.irfft: axes=() names none; name the axis of the half spectrum last")
    sizes = _sizes(t, axes, s)
    wide = np.result_type(t.dtype, complex_of(dtype))
    wider = t if t.dtype == wide else call("irfft", "cast", t, dtype=dtype_name(wide))
    x = _resized(wider, axes, (*sizes[:-1], sizes[-1] // 2 + 1))
    return _cast("irfft", x, dtype, out, axes=axes, n=sizes[-1])


def _complex(name: str, t: Array) -> Array:
    if tensor(name, t).dtype.kind == "c":
        return t
    raise DTypeError(f"nx.{name}: t is {t.dtype}, it takes complex numbers; rfft takes real ones")


def _cast(name: str, x: Array, dtype: np.dtype[Any], out: Array | None, **attrs: Any) -> Array:
    """The transform in the dtype asked for, in `out` if there is one."""
    if isinstance(out, np.ndarray) and out.dtype != dtype:
        raise DTypeError(f"nx.{name}: out is {out.dtype}, dtype says {dtype}")
    comes = complex_of(x.dtype) if name == "rfft" else real_of(x.dtype)
    if comes == dtype:
        return call(name, name, x, out=out, **attrs)
    return call(name, "cast", call(name, name, x, **attrs), out=out, dtype=dtype_name(dtype))


def _kind(name: str, dtype: Any, kind: str) -> np.dtype[Any]:
    dtype = dtype_of(name, dtype)
    if dtype.kind != kind or dtype.char == "e":
        few = "complex64 or complex128" if kind == "c" else "float32 or float64"
        raise DTypeError(f"nx.{name}: dtype={dtype} is not what comes out; ask for {few}")
    return dtype


def _real(t: Array, wide: np.dtype[Any]) -> Array:
    real = real_of(wide)
    if t.dtype.kind != "f" or t.dtype == real:  # the op refuses other kinds
        return t
    return call("rfft", "cast", t, dtype=dtype_name(real))


def _sizes(t: Array, axes: tuple[int, ...], s: Sequence[int] | None) -> tuple[int, ...]:
    if s is None:
        sizes = [t.shape[axis] for axis in axes]
        return (*sizes[:-1], 2 * (sizes[-1] - 1))
    s = tuple_of("irfft", "s", s)
    check_integers("nx.irfft", "s", s, len(axes), least=1)
    return s


def _resized(x: Array, axes: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    """x cut or continued by zeros along axes."""
    more = [0] * x.ndim
    for axis, n in zip(axes, sizes, strict=True):
        more[axis] = n - x.shape[axis]
    if not any(more):
        return x
    none = (0,) * x.ndim
    return call("irfft", "pad", x, low=none, high=tuple(more), interior=none, value=0)
