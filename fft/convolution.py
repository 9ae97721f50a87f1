"""Convolution and correlation by Fourier transforms, at lengths that are transformed fast."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._base.errors import OptionError, ShapeError
from ..backend.cpu.buffers import empty
from ..backend.door import is_torch, to_torch
from ..backend.spec import Axes, Shape
from .arguments import numbers, positions
from .grids import next_fast_len
from .transforms import fft, ifft, irfft, rfft
from .transforms_n import fftn, ifftn, irfftn, rfftn

MODES = ("full", "same", "valid")
METHODS = ("auto", "fft", "overlap_add")
GAIN = 0.8  # of the work of one long transform, that blocks must save


def convolve(
    a: Any, b: Any, mode: str = "full", axes: Any = None, method: str = "auto",
    workers: int | None = None,
) -> Any:  # fmt: skip
    """(a * b)[k] = sum_j a[j] b[k - j] along `axes`; the others broadcast against each other.

    Args:
        a, b: arrays of numbers with equally many axes.
        mode: "full", of length m + n - 1; "same", the middle of it, of a's length; "valid", where the
            shorter lies within the longer along every axis, one longer than their difference.
        axes: along which to convolve; default all.
        method: "fft", one transform padded to the next fast length; "overlap_add", blocks of the longer
            operand, along one axis; "auto", blocks where they are less work.
        workers: threads, as in `fft`.

    Returns:
        The convolution, in the dtype in which both are transformed; O(N log N), and with blocks
        O(n log m) for a long operand of length n and a short one of length m.

    Raises:
        ShapeError: shapes do not broadcast or are empty along `axes`, or neither is within the other.
        OptionError: a mode or method has no meaning.

    Rounding errors are relative to the largest terms, not to each element. As
    `scipy.signal.fftconvolve` and `scipy.signal.oaconvolve`.

    >>> convolve([1.0, 2, 3], [1.0, 1, 0.5]).round(12)
    array([1. , 3. , 5.5, 4. , 1.5])
    >>> convolve([1.0, 2, 3], [1.0, 1, 0.5], "same").round(12)
    array([3. , 5.5, 4. ])
    """
    return _convolved("convolve", a, b, mode, axes, method, workers, is_turned=False)


def correlate(
    a: Any, b: Any, mode: str = "full", axes: Any = None, method: str = "auto",
    workers: int | None = None,
) -> Any:  # fmt: skip
    """c[k] = sum_j a[j + k] conj(b[j]) for k = -(n - 1) ... m - 1 along `axes`: a convolution with b

    turned round and conjugated. Arguments and errors are those of `convolve`. As
    `scipy.signal.correlate`.

    >>> correlate([1.0, 2, 3], [1.0, 1, 0.5]).round(12)
    array([0.5, 2. , 4.5, 5. , 3. ])
    """
    return _convolved("correlate", a, b, mode, axes, method, workers, is_turned=True)


def _convolved(
    call: str, a: Any, b: Any, mode: str, axes: Any, method: str, workers: Any, is_turned: bool
) -> Any:
    if mode not in MODES:
        raise OptionError(f"{call}(mode={mode!r}): modes are {', '.join(MODES)}")
    if method not in METHODS:
        raise OptionError(f"{call}(method={method!r}): methods are {', '.join(METHODS)}")
    x, y = numbers(a, call)[0], numbers(b, call)[0]
    if x.ndim != y.ndim:
        raise ShapeError(f"{call}: a has {x.ndim} axes, b {y.ndim}; insert axes of size 1")
    which, _ = positions(None, axes, x.shape, call)
    _check_shapes(call, x.shape, y.shape, which, mode)
    if is_turned:
        turned = tuple(slice(None, None, -1 if k in which else 1) for k in range(y.ndim))
        y = y[turned].conj()
    if not which:
        return x * y
    full = _overlapped(call, x, y, which, method, workers)
    if full is None:
        full = _at_once(x, y, which, workers)
    result = _cut(full, x.shape, y.shape, which, mode)
    return to_torch(result) if is_torch(a) or is_torch(b) else result


def _check_shapes(call: str, x: Shape, y: Shape, axes: Axes, mode: str) -> None:
    for axis, (m, n) in enumerate(zip(x, y, strict=True)):
        if axis in axes and min(m, n) < 1:
            raise ShapeError(f"{call}: shapes {x} and {y} are empty along axis {axis}")
        if axis not in axes and m != n and 1 not in (m, n):
            raise ShapeError(f"{call}: shapes {x} and {y} do not broadcast along axis {axis}")
    if mode == "valid":
        longer = [x[axis] >= y[axis] for axis in axes]
        shorter = [x[axis] <= y[axis] for axis in axes]
        if not (all(longer) or all(shorter)):
            raise ShapeError(
                f'{call}(mode="valid"): of shapes {x} and {y} neither lies within the other'
            )


def _at_once(x: Any, y: Any, axes: Axes, workers: Any) -> Any:
    """The full convolution, by one padded transform."""
    lengths = [x.shape[axis] + y.shape[axis] - 1 for axis in axes]
    is_real = x.dtype.kind == y.dtype.kind == "f"
    s = [next_fast_len(n, is_real and axis == axes[-1])
         for axis, n in zip(axes, lengths, strict=True)]  # fmt: skip
    forward, inverse = (rfftn, irfftn) if is_real else (fftn, ifftn)
    product = forward(x, s, axes, workers=workers) * forward(y, s, axes, workers=workers)
    full = inverse(product, s, axes, overwrite_x=True, workers=workers)
    return _first(full, axes, lengths)


def _first(x: Any, axes: Axes, lengths: list[int]) -> Any:
    inside = [slice(None)] * x.ndim
    for axis, n in zip(axes, lengths, strict=True):
        inside[axis] = slice(0, n)
    return x[tuple(inside)]


def _cut(full: Any, x: Shape, y: Shape, axes: Axes, mode: str) -> Any:
    if mode == "full":
        return full
    inside = [slice(None)] * full.ndim
    for axis in axes:
        m, n = x[axis], y[axis]
        length = m if mode == "same" else abs(m - n) + 1
        start = (full.shape[axis] - length) // 2 if mode == "same" else min(m, n) - 1
        inside[axis] = slice(start, start + length)
    return full[tuple(inside)].copy()


# ---- blocks -----------------------------------------------------------------------------------


class Blocks(NamedTuple):
    """Transforms of length `length`, each for `step` elements of the longer operand."""

    length: int
    step: int
    work: float  # of all of them


def blocks(long: int, short: int, is_real: bool) -> Blocks:
    """The cheapest blocks for two lengths: elements times log2 of the length, the least over lengths.

    A block is at least twice as long as the shorter operand, so that it reaches into one other alone.

    >>> blocks(10**6, 100, True).length
    800
    """
    found = []
    target = 2 * short
    while True:
        length = next_fast_len(max(2, target), is_real)
        step = length - short + 1
        count = -(-long // step)
        found.append(Blocks(length, step, count * length * math.log2(length)))
        if step >= long:
            return min(found, key=lambda one: one.work)
        target *= 2


def _overlapped(call: str, x: Any, y: Any, axes: Axes, method: str, workers: Any) -> Any:
    """The full convolution by overlap-add, or None where one transform is to be preferred."""
    if len(axes) > 1 or method == "fft":
        if method == "overlap_add":
            raise OptionError(
                f'{call}(method="overlap_add"): blocks lie along one axis; got {axes}'
            )
        return None
    (axis,) = axes
    if x.shape[axis] < y.shape[axis]:
        x, y = y, x
    long, short = x.shape[axis], y.shape[axis]
    is_real = x.dtype.kind == y.dtype.kind == "f"
    way = blocks(long, short, is_real)
    whole = next_fast_len(long + short - 1, is_real)
    if method == "auto" and way.work > GAIN * whole * math.log2(whole):
        return None
    return _added(np.moveaxis(x, axis, -1), np.moveaxis(y, axis, -1), way, is_real, workers, axis)


def _added(x: Any, y: Any, way: Blocks, is_real: bool, workers: Any, axis: int) -> Any:
    """Each block is as long as a step; what it yields beyond that is added to the next."""
    long, short = x.shape[-1], y.shape[-1]
    count = -(-long // way.step)
    padded = empty((*x.shape[:-1], count * way.step), x.dtype)
    padded[..., :long], padded[..., long:] = x, 0
    cut = padded.reshape(*x.shape[:-1], count, way.step)
    forward, inverse = (rfft, irfft) if is_real else (fft, ifft)
    kernel = forward(y, way.length, workers=workers)[..., None, :]
    product = forward(cut, way.length, workers=workers) * kernel
    parts = inverse(product, way.length, overwrite_x=True, workers=workers)
    total = np.zeros((*parts.shape[:-2], count + 1, way.step), parts.dtype)
    total[..., :count, :] = parts[..., : way.step]
    total[..., 1:, : short - 1] += parts[..., way.step :]  # shorter than a step, see `blocks`
    flat = total.reshape(*parts.shape[:-2], (count + 1) * way.step)
    return np.moveaxis(flat[..., : long + short - 1], -1, axis)
