"""Elements at places that an array of indices names: `take` and `take_along_axis`.

Negative indices count from the end, once. What is out of range after that is refused; `out` then holds
anything, but no memory beside the arrays is touched. What no kernel can read, and small work, is taken by
NumPy, block by block.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from ..._base.errors import IndexRangeError
from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec
from .buffers import empty
from .elementwise import slices_within
from .picking import Loop, picked

BLOCK = 1 << 15  # elements that NumPy takes at once
FEW = 1 << 10  # elements that are taken by one call of NumPy's, without a look at the indices first
PLACES = "bhilqBHI"  # dtype characters of indices that its own integers hold
PLACE = np.dtype(np.intp).itemsize


def bind_take(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    axis = attrs["axis"]
    n, k = inputs[0].shape[axis], len(inputs[1].shape)
    loops: list[Loop] = [
        (size, d, None, d - axis)
        if axis <= d < axis + k
        else (size, d, d if d < axis else d + 1 - k, None)
        for d, size in enumerate(output.shape)
    ]

    def run(x: Any, indices: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        if n and picked(out, x, indices, loops, [(0, axis, n)]):
            return out
        if out.size <= FEW and indices.dtype.char in PLACES:
            with suppress(IndexError):  # said better below
                np.copyto(out, np.take(x, indices, axis))
                return out
        check_range("take", indices, n, axis)
        for part in slices_within(out.shape, BLOCK):
            before, named, behind = part[:axis], part[axis : axis + k], part[axis + k :]
            np.copyto(out[(*part, ...)], x[(*before, as_places(indices[named]), *behind)])
        return out

    return run


def bind_take_along_axis(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    axis = attrs["axis"]
    n = inputs[0].shape[axis]
    loops: list[Loop] = [
        (size, d, None if d == axis else d, d) for d, size in enumerate(output.shape)
    ]

    def run(x: Any, indices: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        if n and picked(out, x, indices, loops, [(0, axis, n)]):
            return out
        if x.ndim == 1 and out.size <= FEW and indices.dtype.char in PLACES:
            with suppress(IndexError):
                np.copyto(out, np.take(x, indices))
                return out
        check_range("take_along_axis", indices, n, axis)
        for part in slices_within(out.shape, BLOCK):
            lines = x[(*part[:axis], slice(None), *part[axis + 1 :])]
            np.copyto(out[part], np.take_along_axis(lines, as_places(indices[part]), axis))
        return out

    return run


def taking_bytes(output: ArraySpec) -> int:
    """Of a block: places, and what is there."""
    return min(output.size, BLOCK) * (3 * PLACE + output.dtype.itemsize)


def as_places(indices: Any) -> Any:
    """Indices as NumPy's own integers; negative ones count from the end."""
    return np.asarray(indices, np.intp)


def check_range(op: str, indices: Any, n: int, axis: int) -> None:
    """Raise for the first index, in row-major order, that is out of range."""
    if not indices.size or (int(indices.min()) >= -n and int(indices.max()) < n):
        return
    at = tuple(int(k) for k in np.argwhere((indices < -n) | (indices >= n))[0])
    room = f"give {-n} to {n - 1}" if n else "no index is in range"
    raise IndexRangeError(
        f"{op}: index {int(indices[at])} at {at} is out of range for axis {axis} of size {n}; {room}"
    )
