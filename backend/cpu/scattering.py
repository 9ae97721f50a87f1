"""Updates at places that an array of indices names: `scatter_along_axis` and `scatter`.

The result is the operand with all updates made one after another, in row-major order of the indices:
of several at one place the last stays, or they are added up in that order, whatever the number of
threads. Sums of half precisions are kept in single precision and rounded once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..protocol import Kernel
from ..rules import replaced
from ..spec import ArraySpec, Shape, compute_dtype
from .buffers import empty
from .elementwise import slices_within
from .move import move
from .scattered import scattered, windows_added
from .taking import BLOCK, as_places, check_range


def bind_scatter_along_axis(
    attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec
) -> Kernel:
    axis, adds = attrs["axis"], attrs["mode"] == "add"
    n, steps = output.shape[axis], _steps(output.shape)
    lines = replaced(tuple(steps), axis, 0)

    def run(x: Any, indices: Any, updates: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        target = _started(out, x, adds)
        updates = updates.astype(target.dtype, copy=False)
        if scattered(target, indices, updates, axis, adds):
            return _finished(out, target)
        check_range("scatter_along_axis", indices, n, axis)
        for part in slices_within(updates.shape, BLOCK):
            places = as_places(indices[part])
            places = np.where(places < 0, places + n, places) * steps[axis]
            places += _offsets(replaced(places.shape, axis, 1), steps)
            places += sum((cut.start or 0) * step for cut, step in zip(part, lines, strict=True))
            _update(target, places, updates[part], adds)
        return _finished(out, target)

    return run


def bind_scatter(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    window, inserted = attrs["update_window_dims"], attrs["inserted_window_dims"]
    mapped, vector = attrs["scatter_dims_to_operand_dims"], attrs["index_vector_dim"]
    batch = [axis for axis in range(len(inputs[2].shape)) if axis not in window]
    kept = iter(window)
    sizes = tuple(
        1 if axis in inserted else inputs[2].shape[next(kept)] for axis in range(len(output.shape))
    )
    steps = _steps(output.shape)
    strides, inner = np.array(steps, np.intp), math.prod(sizes)

    def run(x: Any, indices: Any, updates: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        target = _started(out, x, adds=True)
        updates = updates.astype(target.dtype, copy=False)
        if windows_added(target, indices, updates, attrs):
            return _finished(out, target)
        if vector == indices.ndim:
            indices = indices[..., None]
        starts, turned = np.moveaxis(indices, vector, 0), updates.transpose(*batch, *window)
        for part in slices_within(starts.shape[1:], max(1, BLOCK // max(1, inner))):
            few = starts[(slice(None), *part)]
            vectors = few.reshape(len(mapped), math.prod(few.shape[1:]))
            windows = turned[(*part, ...)].reshape(vectors.shape[1], *turned.shape[len(batch) :])
            fits, places = (
                np.ones(len(windows), bool),
                np.zeros((len(output.shape), len(windows)), np.intp),
            )
            for axis, entries in zip(mapped, vectors, strict=True):
                fits &= (entries >= 0) & (entries <= output.shape[axis] - sizes[axis])
                places[axis] = entries
            if inner > BLOCK:
                _add_large(target, places[:, fits].T.tolist(), sizes, windows)
                continue
            flat = (strides @ places[:, fits])[:, None] + _offsets(sizes, steps).reshape(-1)
            _update(target, flat, windows[fits], adds=True)
        return _finished(out, target)

    return run


def _steps(shape: Shape) -> list[int]:
    """Elements from one index to the next of a row-major array."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _offsets(shape: Shape, steps: list[int]) -> Any:
    """Offsets of the elements of `shape` in a larger row-major array."""
    offsets = np.zeros((1,) * len(shape), np.intp)
    for axis, (n, step) in enumerate(zip(shape, steps, strict=True)):
        offsets = offsets + (np.arange(n) * step).reshape(replaced((1,) * len(shape), axis, n))
    return offsets


def _started(out: Any, x: Any, adds: bool) -> Any:
    """x as it is before the updates: in out, or in an array wide enough for sums."""
    wide = compute_dtype(out.dtype) if adds else out.dtype
    if wide == out.dtype:
        return move(out, x)
    target = empty(out.shape, wide)
    np.copyto(target, x)
    return target


def _finished(out: Any, target: Any) -> Any:
    if target is not out:
        with np.errstate(all="ignore"):
            np.copyto(out, target, casting="unsafe")
    return out


def _update(target: Any, flat: Any, updates: Any, adds: bool) -> None:
    """Make updates at offsets `flat` of a row-major array as target is, one after another."""
    at, values = flat.reshape(-1), updates.reshape(-1)
    if target.flags.c_contiguous:
        target = target.reshape(-1)
    else:
        at = np.unravel_index(at, target.shape)
    with np.errstate(all="ignore"):
        if adds:
            np.add.at(target, at, values)
        else:
            target[at] = values


def _add_large(target: Any, starts: list[list[int]], sizes: Shape, windows: Any) -> None:
    """Add a window larger than a block, if it fits."""
    for start in starts:
        bounds = zip(start, sizes, strict=True)
        part = target[tuple(slice(at, at + size) for at, size in bounds)]
        with np.errstate(all="ignore"):
            part += windows.reshape(part.shape)
