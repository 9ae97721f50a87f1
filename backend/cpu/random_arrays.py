"""Row-major arrays filled by a key: which words each dtype takes, and bounds, means and scales."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..spec import dtype_name
from . import draws
from .buffers import empty
from .draws import NORMAL, UNIFORM, WORDS, Key, fill

Array = np.ndarray[Any, Any]
Then = Callable[[Array], None]

HALVES = {"float16": 11, "bfloat16": 8}  # bits of their numbers in [1/2, 1)
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")


def fill_bits(key: Key, out: Array) -> None:
    """Words of 32 bits, pairs of them for 64, their lowest bits for fewer."""
    if out.dtype.itemsize == 4:
        fill(WORDS, key, out.reshape(-1).view(np.uint32))
        return
    words = empty((out.size * max(1, out.dtype.itemsize // 4),), np.dtype(np.uint32))
    fill(WORDS, key, words)
    out.reshape(-1)[:] = (
        draws.as_uint64(words) if out.dtype.itemsize == 8 else words.astype(out.dtype)
    )


def fill_uniform(key: Key, out: Array, low: float, high: float) -> None:
    """In [low, high): low + (high - low) u, moved to the first or the last number of the dtype there."""
    if dtype_name(out.dtype) in HALVES:
        _fill_half(UNIFORM["float32"], key, out, uniform_steps(np.dtype(np.float32), low, high))
        first, last = uniform_bounds(out.dtype, low, high)
        np.maximum(out, first, out=out)
        np.minimum(out, last, out=out)
        return
    real = _parts(out)
    fill(UNIFORM[dtype_name(real.dtype)], key, real, uniform_steps(real.dtype, low, high))


def uniform_steps(dtype: np.dtype[Any], low: float, high: float) -> Then | None:
    """From [0, 1) to [low, high), in place; None where that is the same."""
    if low == 0 and high == 1:
        return None
    (offset, last), width = uniform_bounds(dtype, low, high), dtype.type(high - low)

    def then(part: Array) -> None:
        part *= width
        part += offset
        np.minimum(part, last, out=part)

    return then


def uniform_bounds(dtype: np.dtype[Any], low: float, high: float) -> tuple[Any, Any]:
    """The first number of the dtype that is not below low, and the last one below high."""
    first, last = dtype.type(low + 0.0), dtype.type(high)  # of 0.0 and -0.0 always the first
    if float(first) < low:
        first = np.nextafter(first, dtype.type(np.inf))
    if float(last) >= high:
        last = np.nextafter(last, dtype.type(-np.inf))
    return first, last


def fill_normal(key: Key, out: Array, loc: float = 0.0, scale: float = 1.0) -> None:
    """Of mean loc and deviation scale; of complex numbers both parts have half of the variance."""
    if dtype_name(out.dtype) in HALVES:
        _fill_half(NORMAL["float32"], key, out, normal_steps(np.dtype(np.float32), loc, scale))
        return
    real, is_complex = _parts(out), out.dtype.kind == "c"
    factor = scale * math.sqrt(0.5) if is_complex else scale
    fill(
        NORMAL[dtype_name(real.dtype)],
        key,
        real,
        normal_steps(real.dtype, 0 if is_complex else loc, factor),
    )
    if is_complex and loc:
        out += out.dtype.type(loc)


def normal_steps(dtype: np.dtype[Any], loc: float, scale: float) -> Then | None:
    """To this mean and deviation, in place; None where these are 0 and 1."""
    if loc == 0 and scale == 1:
        return None
    offset, factor = dtype.type(loc), dtype.type(scale)

    def then(part: Array) -> None:
        part *= factor
        if loc:
            part += offset

    return then


def _parts(out: Array) -> Array:
    """The numbers, real and imaginary parts one after the other, as one axis."""
    flat = out.reshape(-1)
    return flat.view(flat.real.dtype) if out.dtype.kind == "c" else flat


def _fill_half(draw: draws.Draw, key: Key, out: Array, then: Then | None) -> None:
    """float32 numbers, uniform ones of as many bits as the dtype has, rounded at the end."""
    values = empty((out.size,), np.dtype(np.float32))
    digits = HALVES[out.dtype.name]

    def both(part: Array) -> None:
        if draw is UNIFORM["float32"]:
            rounded_down(part, digits)
        if then is not None:
            then(part)

    fill(draw, key, values, both)
    with np.errstate(over="ignore"):
        np.copyto(out.reshape(-1), values, casting="unsafe")


def rounded_down(part: Array, digits: int) -> None:
    """To multiples of 2**-digits, in place."""
    unit = 2.0**digits
    part *= np.float32(unit)
    np.floor(part, out=part)
    part *= np.float32(1 / unit)


def fill_integers(key: Key, out: Array, low: int, high: int) -> None:
    """From low to high - 1, each as likely as any other."""
    draws.fill_integers(key, low, high - low, out.reshape(-1))
