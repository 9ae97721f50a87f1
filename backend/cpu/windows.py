"""Windows that slide over an array or lie at given starts: slices, `unfold` and its adjoint `fold`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._base.errors import MemoryLimitError
from ..._base.numbers import format_bytes
from ..._base.options import get_options
from ..catalogue import Attrs
from ..protocol import Kernel
from ..rules import window_counts
from ..spec import ArraySpec, Shape, compute_dtype
from .buffers import empty
from .kernels.fold import fold_windows
from .move import move, reshaped_view
from .picking import as_numbers
from .strided import Axis, axis_table, merge_axes
from .structure import bind_pad
from .threads import parallel_for

MOST_BYTES = (1 << 63) - 1
SLAB = 1 << 15  # elements of a result that a tile adds up: they stay in cache for all taps


def bind_dynamic_slice(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    sizes = attrs["sizes"]

    def run(x: Any, starts: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        return move(out, x[_window(x.shape, starts, sizes)])

    return run


def bind_dynamic_update_slice(
    attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec
) -> Kernel:
    def run(x: Any, update: Any, starts: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        move(out, x)
        move(out[_window(x.shape, starts, update.shape)], update)
        return out

    return run


def _window(shape: Shape, starts: Any, sizes: Shape) -> tuple[Any, ...]:
    """The window of these sizes at `starts`, moved so that it fits."""
    lowest = [
        min(max(int(start), 0), n - size)
        for n, start, size in zip(shape, starts, sizes, strict=True)
    ]
    return (*(slice(low, low + size) for low, size in zip(lowest, sizes, strict=True)), ...)


def bind_unfold(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    sliding = Sliding("unfold", attrs, inputs[0].shape[-len(attrs["kernel"]) :])
    batch = output.shape[:-2]
    padded = sliding.padded(inputs[0])
    if sliding.pads and padded.nbytes > MOST_BYTES:
        raise MemoryLimitError(
            f"unfold: the operand with its padding, {padded} of {format_bytes(padded.nbytes)}, is more than "
            f"an address can reach; give smaller low= and high="
        )
    pad = bind_pad(sliding.padding(len(batch)), inputs, padded)

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        if out.size:
            whole = pad(x) if sliding.pads else x
            columns, windows = sliding.split(out), sliding.windows(whole)
            move(columns, windows)
        return out

    return run


def bind_fold(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    sliding = Sliding("fold", attrs, attrs["sizes"])
    wide = compute_dtype(output.dtype)

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        x = x.astype(wide, copy=False)
        result = out if out.dtype == wide else empty(out.shape, wide)
        with np.errstate(all="ignore"):
            if not folded(result, x, sliding):
                _fold_plainly(result, x, sliding)
            if result is not out:
                np.copyto(out, result, casting="unsafe")
        return out

    return run


def unfold_scratch_bytes(x: ArraySpec, attrs: Attrs) -> int:
    """The operand with its padding."""
    sizes = x.shape[len(x.shape) - len(attrs["kernel"]) :]
    if not any(attrs["low"]) and not any(attrs["high"]):
        return 0
    lead = math.prod(x.shape[: len(x.shape) - len(sizes)])
    return x.dtype.itemsize * lead * _padded(sizes, attrs)


def fold_scratch_bytes(x: ArraySpec, attrs: Attrs) -> int:
    """Half precisions widened, operand and result."""
    wide = compute_dtype(x.dtype)
    if wide == x.dtype:
        return 0
    return wide.itemsize * (x.size + math.prod(x.shape[:-2]) * math.prod(attrs["sizes"]))


def _padded(sizes: Shape, attrs: Attrs) -> int:
    return math.prod(a + n + b for a, n, b in zip(attrs["low"], sizes, attrs["high"], strict=True))


def _fold_plainly(out: Any, x: Any, sliding: Sliding) -> None:
    """Tap by tap, what windows have outside the padding."""
    out[...] = 0
    if not out.size:
        return
    columns = sliding.split(x)
    for tap in np.ndindex(*sliding.kernel):
        places, windows = sliding.inside(tap)
        target = out[(..., *places)]
        np.add(target, columns[(..., *tap, *windows)], out=target)


class Sliding:
    """Where the windows of `unfold` lie over its last axes, of given sizes."""

    def __init__(self, op: str, attrs: Attrs, sizes: Shape) -> None:
        self.kernel, self.strides, self.dilation = (
            attrs[name] for name in ("kernel", "strides", "dilation")
        )
        self.low, self.high, self.sizes = attrs["low"], attrs["high"], sizes
        self.counts = window_counts(op, attrs, sizes)
        self.pads = any(self.low) or any(self.high)
        self.shape = tuple(a + n + b for a, n, b in zip(self.low, sizes, self.high, strict=True))

    def padding(self, batch: int) -> Attrs:
        """Attributes of `pad`."""
        none = (0,) * batch
        interior = none + (0,) * len(self.sizes)
        return {"low": none + self.low, "high": none + self.high, "interior": interior, "value": 0}

    def padded(self, x: ArraySpec) -> ArraySpec:
        return ArraySpec(x.dtype, (*x.shape[: len(x.shape) - len(self.sizes)], *self.shape))

    def split(self, columns: Any) -> Any:
        """Columns by the axes of the kernel and of the windows, as a view."""
        shape = (*columns.shape[:-2], *self.kernel, *self.counts)
        view = reshaped_view(columns, shape)
        assert view is not None, "an axis can be split wherever its elements lie"
        return view

    def windows(self, whole: Any) -> Any:
        """The same of the array that they are windows of, with its padding."""
        if whole.dtype.isbuiltin == 2:  # as_strided does not know all dtypes of ml_dtypes
            return self.windows(whole.view(f"u{whole.itemsize}")).view(whole.dtype)
        lead = whole.ndim - len(self.sizes)
        steps = whole.strides[lead:]
        # of one tap, or of one window, a step leads nowhere, and its bytes may be beyond an integer
        dilation = [d if n > 1 else 0 for d, n in zip(self.dilation, self.kernel, strict=True)]
        strides = [d if n > 1 else 0 for d, n in zip(self.strides, self.counts, strict=True)]
        return np.lib.stride_tricks.as_strided(
            whole,
            (*whole.shape[:lead], *self.kernel, *self.counts),
            (
                *whole.strides[:lead],
                *(a * b for a, b in zip(steps, dilation, strict=True)),
                *(a * b for a, b in zip(steps, strides, strict=True)),
            ),
            writeable=False,
        )

    def inside(self, tap: Shape) -> tuple[list[slice], list[slice]]:
        """Where windows have this position of the kernel outside the padding, and which they are."""
        places, windows = [], []
        for d, k in enumerate(tap):
            shift, step = self.low[d] - k * self.dilation[d], self.strides[d]
            first = max(0, -(-shift // step))
            last = min(self.counts[d], (self.sizes[d] - 1 + shift) // step + 1)
            start, count = first * step - shift, max(0, last - first)
            places.append(slice(start, start + (count - 1) * step + 1, step) if count else slice(0))
            windows.append(slice(first, first + count))
        return places, windows

    def table(self, to: list[int], of: list[int]) -> Any:
        """Of the kernel that folds: sizes, strides of the result, of columns by taps and by windows."""
        rank = len(self.sizes)
        rows = (
            *(self.sizes, self.kernel, self.counts, self.strides, self.dilation, self.low),
            *(to[-rank:], of[-2 * rank : -rank], of[-rank:]),
        )
        return np.array(rows, np.int64)


def folded(out: Any, x: Any, sliding: Sliding) -> bool:
    """Whether a compiled kernel did it: tiles are slabs of the first axis that windows slide over."""
    if x.size < max(1, get_options().small):
        return False
    dst, src = as_numbers(out, True), as_numbers(sliding.split(x))
    if dst is None or src is None:
        return False
    rank = len(sliding.sizes)
    batch: list[Axis] = [
        (n, dst.strides[d], src.strides[d]) for d, n in enumerate(out.shape[: out.ndim - rank])
    ]
    slab = max(1, min(sliding.sizes[0], SLAB // max(1, math.prod(sliding.sizes[1:]))))
    slabs = -(-sliding.sizes[0] // slab)
    outer = [(slabs, 0, 0), *merge_axes(batch)]
    origins = np.array((dst.origin, src.origin))
    table = sliding.table(dst.strides, src.strides)

    def piece(start: int, stop: int) -> None:
        fold_windows(start, stop, dst.buffer, src.buffer, origins, axis_table(outer), slab, table)

    parallel_for(piece, math.prod(n for n, *_ in outer))
    return True
