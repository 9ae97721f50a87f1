"""Random arrays on a device: words, uniform and normal numbers by kernels, keys by the cipher.

The CPU's numbers in all bits: a kernel draws float32, float64 or words in the order of places, and what
follows, a scale or a rounding, is the CPU's own text over arrays of the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._base.errors import Unsupported
from ..cpu.draws import STREAMS, WORD
from ..cpu.kernels import numbers
from ..cpu.random_arrays import HALVES, normal_steps, rounded_down, uniform_bounds, uniform_steps
from ..spec import ArraySpec, Shape, dtype_name
from .cuda.random import Drawn, draw
from .indexed import BINDERS
from .launch import can_launch, launch
from .modules import Array, Module
from .order import stable

DType = np.dtype[Any]
Then = Callable[[Array], None]
F4 = np.dtype(np.float32)


def bits(xp: Module, key: Array, shape: Shape, dtype: DType) -> Array:
    """Words of 32 bits, pairs of them for 64, their lowest bits for fewer."""
    out = xp.empty(shape, dtype)
    if dtype.itemsize >= 4:  # of a pair the first word is the lower one, as devices store them
        _draw(xp, "words", key, out.reshape(-1).view(np.uint32))
        return out
    words = xp.empty(shape, np.uint32)
    _draw(xp, "words", key, words.reshape(-1))
    return words.astype(dtype)


def uniform(xp: Module, key: Array, shape: Shape, dtype: DType, low: float, high: float) -> Array:
    """In [low, high), as `random.uniform`."""
    if dtype_name(dtype) in HALVES:
        then = uniform_steps(F4, low, high)
        values = xp.empty(shape, F4)
        part = values.reshape(-1)
        _draw(xp, "uniform", key, part)
        rounded_down(part, HALVES[dtype_name(dtype)])
        if then is not None:
            then(part)
        first, last = (F4.type(x) for x in uniform_bounds(dtype, low, high))
        rounded = values.astype(dtype).astype(F4)
        return xp.minimum(xp.maximum(rounded, first), last).astype(dtype)
    out = xp.empty(shape, dtype)
    real = _parts(out)
    _draw(xp, "uniform", key, real)
    then = uniform_steps(real.dtype, low, high)
    if then is not None:
        then(real)
    return out


def normal(xp: Module, key: Array, shape: Shape, dtype: DType, loc: float, scale: float) -> Array:
    """Of mean loc and deviation scale, as `random.normal`."""
    is_half, is_complex = dtype_name(dtype) in HALVES, dtype.kind == "c"
    out = xp.empty(shape, F4 if is_half else dtype)
    real = _parts(out)
    _draw(xp, "normal", key, real)
    factor = scale * math.sqrt(0.5) if is_complex else scale
    then = normal_steps(real.dtype, 0 if is_complex else loc, factor)
    if then is not None:
        then(real)
    if is_complex and loc:
        out += dtype.type(loc)
    return out.astype(dtype) if is_half else out


def integers(xp: Module, key: Array, shape: Shape, dtype: DType, low: int, high: int) -> Array:
    """From low to high - 1, as `random.integers`. Where words are refused the host waits to know which."""
    span, offset = high - low, np.uint64(low % (1 << 64))
    if span == 1 << 64:
        return (bits(xp, key, shape, np.dtype(np.uint64)) + offset).astype(dtype)
    words = xp.empty(2 * math.prod(shape), np.uint32)
    _draw(xp, "words", key, words)
    found, rest = _scaled(words.reshape(-1, 2), span)
    least = np.uint64((1 << 64) % span)
    for stream in range(1, STREAMS - 1) if least else ():
        (refused,) = xp.nonzero(rest < least)
        if not refused.size:
            break
        places = refused.get().astype(np.uint64)
        found[refused], rest[refused] = _scaled(_words_at(xp, key, places, stream), span)
    return (found + offset).astype(dtype).reshape(shape)


def _scaled(words: Array, span: int) -> tuple[Array, Array]:
    """Upper and lower 64 bits of pairs of words, as numbers of 64 bits, times the span."""
    a, b = (words[:, half].astype(np.uint64) for half in (0, 1))
    return numbers.scaled(a, b, np.uint64(span & WORD), np.uint64(span >> 32))


def permutation(xp: Module, key: Array, n: int) -> Array:
    """int64[n]: the places in the order of 64 random bits of each, equal ones as they come."""
    return stable(xp, bits(xp, key, (n,), np.dtype(np.uint64)), 0)


def child(xp: Module, key: Array, kind: int, data: Array) -> Array:
    """Keys [..., 2] of the key and of data, an array of uint64 on the host, as `cpu.draws.child`."""
    between = _words_at(xp, key, np.array([kind], np.uint64), STREAMS - 1)
    return _words_at(xp, between[0], data.reshape(-1), 0).reshape(*data.shape, 2)


def _words_at(xp: Module, key: Array, places: Any, stream: int) -> Array:
    """Both words of the places in a stream, [n, 2]; the key stays on the device."""
    low, high = places.astype(np.uint32), (places >> np.uint64(32)).astype(np.uint32)
    counter = np.stack([low, high | np.uint32(stream << 24)], axis=-1)
    spec = ArraySpec(counter.dtype, counter.shape)
    cipher = BINDERS["threefry2x32"](xp, {}, (spec, spec), spec)
    return cipher(xp.broadcast_to(key, counter.shape), xp.array(counter))


def _parts(out: Array) -> Array:
    """Real numbers as one axis; real and imaginary parts one after the other."""
    flat = out.reshape(-1)
    return flat.view(flat.real.dtype) if out.dtype.kind == "c" else flat


def _draw(xp: Module, what: Drawn, key: Array, flat: Array) -> None:
    if not can_launch(xp):
        raise Unsupported(
            f"random.{what}: {xp.__name__} compiles no CUDA; draw on the host, and upload by to_device"
        )
    if flat.size:
        launch(xp, draw(what, dtype_name(flat.dtype), flat.size), flat, xp.ascontiguousarray(key))
