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
from .move import move
from .taking import wrapped


def bind_scatter_along_axis(
    attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec
) -> Kernel:
    axis, adds = attrs["axis"], attrs["mode"] == "add"
    n = output.shape[axis]

    def run(x: Any, indices: Any, updates: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        places = wrapped("scatter_along_axis", indices, n, axis)
        steps = _steps(output.shape)
        lines = replaced(output.shape, axis, 1)
        flat = _offsets(lines, steps) + places * steps[axis]
        return _updated(out, x, flat, updates, adds)

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
    count = math.prod(inputs[2].shape[axis] for axis in batch)

    def run(x: Any, indices: Any, updates: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        if vector == indices.ndim:
            indices = indices[..., None]
        vectors = np.moveaxis(indices, vector, 0).reshape(len(mapped), count)
        fits, places = np.ones(count, bool), np.zeros(count, np.intp)
        for axis, starts in zip(mapped, vectors, strict=True):
            fits &= (starts >= 0) & (starts <= output.shape[axis] - sizes[axis])
            places += np.where(fits, starts, 0) * steps[axis]
        turned = updates.transpose(*batch, *window).reshape(count, math.prod(sizes))
        flat = places[fits, None] + _offsets(sizes, steps).reshape(-1)
        return _updated(out, x, flat, turned[fits], adds=True)

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


def _updated(out: Any, x: Any, flat: Any, updates: Any, adds: bool) -> Any:
    """x with updates at offsets `flat`, written to out; one after another."""
    wide = compute_dtype(out.dtype) if adds else out.dtype
    is_target = out.flags.c_contiguous and out.flags.aligned and wide == out.dtype
    target = out if is_target else empty(out.shape, wide)
    if wide == out.dtype:
        move(target, x)
    else:
        np.copyto(target, x)
    elements, offsets, values = target.reshape(-1), flat.reshape(-1), updates.reshape(-1)
    with np.errstate(all="ignore"):
        if adds:
            np.add.at(elements, offsets, values.astype(wide, copy=False))
        else:
            elements[offsets] = values
        if target is not out:
            np.copyto(out, target, casting="unsafe")
    return out
