"""Elements at places that an array of indices names: `take` and `take_along_axis`.

Negative indices count from the end, once. What is out of range after that is refused; `out` then holds
anything, but no memory beside the arrays is touched.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._base.errors import IndexRangeError
from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec
from .buffers import empty
from .picking import Loop, picked


def bind_take(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    axis = attrs["axis"]
    n, ahead, k = inputs[0].shape[axis], (slice(None),) * axis, len(inputs[1].shape)
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
        places = wrapped("take", indices, n, axis)
        np.copyto(out, x[(*ahead, places, ...)])
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
        places = wrapped("take_along_axis", indices, n, axis)
        np.copyto(out, np.take_along_axis(x, places, axis))
        return out

    return run


def wrapped(op: str, indices: Any, n: int, axis: int) -> Any:
    """Indices counted from the front, as NumPy's own integers; those out of range are refused."""
    places = np.asarray(indices, np.intp)
    if places.size and (places.min() < -n or places.max() >= n):
        refuse(op, indices, n, axis)
    return np.where(places < 0, places + n, places)


def refuse(op: str, indices: Any, n: int, axis: int) -> None:
    """Raise for the first index, in row-major order, that is out of range."""
    at = tuple(int(k) for k in np.argwhere((indices < -n) | (indices >= n))[0])
    room = f"give {-n} to {n - 1}" if n else "no index is in range"
    raise IndexRangeError(
        f"{op}: index {int(indices[at])} at {at} is out of range for axis {axis} of size {n}; {room}"
    )
