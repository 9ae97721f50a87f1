"""Windows at places that an array of indices names.

All windows of an operand are one strided view, whose first axis says where in memory a window starts.
Index vectors become places on that axis. A block of windows is then one step of NumPy's indexing and
one copy into the result's order; a window larger than a block is moved by itself. So small work is
done; large work by a compiled kernel, see `picking`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..protocol import Kernel
from ..rules import without
from ..spec import ArraySpec, Axes, Shape
from .buffers import empty
from .move import move
from .picking import Loop, picked

BLOCK = 1 << 15  # elements of the windows that are taken at once
PLACE = np.dtype(np.intp).itemsize


def bind_gather(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    sizes, mapped, vector = (
        attrs[name] for name in ("slice_sizes", "start_index_map", "index_vector_dim")
    )
    batch = without(output.shape, attrs["offset_dims"])
    most = BLOCK // max(1, math.prod(sizes))
    whole, perm = _batch_first(output.shape, attrs["offset_dims"])
    if vector < len(inputs[1].shape):
        ahead = (slice(None),) * vector
        entries: list[Any] = [(*ahead, k, ...) for k in range(len(mapped))]
    else:
        entries = [...]
    loops = _loops(attrs, output.shape, len(inputs[1].shape))

    def run(x: Any, indices: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        if not output.size:
            return out
        bounds = [(k, axis, x.shape[axis] - sizes[axis]) for k, axis in enumerate(mapped)]
        along = vector if vector < indices.ndim else None
        if picked(out, x, indices, loops, bounds, along, clamps=True):
            return out
        target = out[whole].transpose(perm)
        if x.dtype.isbuiltin == 2:  # as_strided does not know all dtypes of ml_dtypes
            x, target = (array.view(f"u{array.itemsize}") for array in (x, target))
        last = [n - size for n, size in zip(x.shape, sizes, strict=True)]
        columns = [indices[entry] for entry in entries[: len(mapped)]]
        if not most:
            for spot in np.ndindex(*batch):
                start = [0] * x.ndim
                for axis, column in zip(mapped, columns, strict=True):
                    start[axis] = min(max(int(column[spot]), 0), last[axis])
                move(target[(*spot, ...)], _window(x, start, sizes))
            return out
        windows, origin, steps = _windows(x, sizes, mapped)
        origins = np.broadcast_to(origin, batch)
        ends = [last[axis] for axis in mapped]
        for part in _parts(batch, most):
            starts = (column[part] for column in columns)
            places = _places(origins[part], starts, ends, steps)
            taken = windows[places] if places.ndim else windows[(places, ...)]
            np.copyto(target[part], taken)  # in cache: no work for threads or tiles
            del places, taken  # the next ones take their memory
        return out

    return run


def gather_scratch_bytes(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> int:
    """Of a block: places, and the windows there or before them one entry of each index vector."""
    x, indices = inputs
    window = math.prod(attrs["slice_sizes"])
    count = math.prod(without(indices.shape, (attrs["index_vector_dim"],)))
    return min(count, BLOCK // max(1, window)) * (PLACE + max(PLACE, window * x.dtype.itemsize))


def _loops(attrs: Attrs, shape: Shape, rank: int) -> list[Loop]:
    """Axes of the result as those of windows or of the array of indices."""
    window, collapsed = attrs["offset_dims"], attrs["collapsed_slice_dims"]
    kept = iter(axis for axis in range(len(attrs["slice_sizes"])) if axis not in collapsed)
    batch = iter(axis for axis in range(rank) if axis != attrs["index_vector_dim"])
    return [
        (n, axis, next(kept), None) if axis in window else (n, axis, None, next(batch))
        for axis, n in enumerate(shape)
    ]


def _batch_first(shape: Shape, offset_dims: Axes) -> tuple[tuple[Any, ...], list[int]]:
    """How to look at a result: window axes behind the others, and none of size 1 among them.

    A view of all windows has one axis more than a window; NumPy may have no room for it.
    """
    narrow = {axis for axis in offset_dims if shape[axis] == 1}
    kept = [axis for axis in range(len(shape)) if axis not in narrow]
    spot = (*(0 if axis in narrow else slice(None) for axis in range(len(shape))), ...)
    return spot, sorted(range(len(kept)), key=lambda k: kept[k] in offset_dims)


def _window(x: Any, start: Sequence[int], sizes: Shape) -> Any:
    """The window of x from `start` on, without axes of size 1."""
    bounds = zip(start, sizes, strict=True)
    return x[(*(at if size == 1 else slice(at, at + size) for at, size in bounds), ...)]


def _windows(x: Any, sizes: Shape, mapped: Axes) -> tuple[Any, int, list[int]]:
    """All windows of x, without axes of size 1, along a first axis of places in memory.

    Returns:
        The view; the place of the window that starts at 0; how many places a step along each mapped
        axis is.
    """
    last = [n - size for n, size in zip(x.shape, sizes, strict=True)]
    strides = [x.strides[axis] if last[axis] else 0 for axis in mapped]
    unit = math.gcd(*strides) or 1
    steps = [stride // unit for stride in strides]
    reach = {axis: last[axis] * step for axis, step in zip(mapped, steps, strict=True)}
    lowest = _window(x, [last[k] if reach.get(k, 0) < 0 else 0 for k in range(x.ndim)], sizes)
    windows = np.lib.stride_tricks.as_strided(
        lowest,
        (1 + sum(map(abs, reach.values())), *lowest.shape),
        (unit, *lowest.strides),
        writeable=False,
    )
    return windows, -sum(min(0, n) for n in reach.values()), steps


def _places(origin: Any, starts: Iterable[Any], ends: list[int], steps: list[int]) -> Any:
    """Where windows lie that start at these indices, which are clamped so that the windows fit."""
    places = np.array(origin, np.intp)
    for entry, last, step in zip(starts, ends, steps, strict=True):
        start = np.array(entry, np.intp)
        np.clip(start, 0, last, out=start)
        start *= step
        places += start
    return places


def _parts(batch: Shape, most: int) -> Iterator[tuple[Any, ...]]:
    """Indices of parts of `batch` with at most so many elements."""
    axis, inner = len(batch), 1
    while axis and inner * batch[axis - 1] <= most:
        axis -= 1
        inner *= batch[axis]
    if not axis:
        yield (...,)
        return
    step = most // inner
    for outer in np.ndindex(*batch[: axis - 1]):
        for at in range(0, batch[axis - 1], step):
            yield (*outer, slice(at, at + step), ...)
