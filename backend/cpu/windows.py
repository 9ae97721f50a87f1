"""Windows that slide over an array or lie at given starts: slices, `unfold` and its adjoint `fold`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..protocol import Kernel
from ..rules import window_counts
from ..spec import ArraySpec, Shape, compute_dtype
from .buffers import empty
from .move import move


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
    sliding = _Sliding("unfold", attrs, inputs[0].shape[-len(attrs["kernel"]) :])
    batch = output.shape[:-2]

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        whole = x
        if sliding.pads:
            whole = np.zeros((*batch, *sliding.padded), output.dtype)
            move(sliding.inside(whole), x)
        columns = out.reshape(*batch, *sliding.kernel, *sliding.counts)
        for tap in np.ndindex(*sliding.kernel):
            np.copyto(columns[(..., *tap, *sliding.all)], sliding.at(whole, tap))
        return out

    return run


def bind_fold(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    sliding = _Sliding("fold", attrs, attrs["sizes"])
    batch = output.shape[: -len(attrs["sizes"])]
    wide = compute_dtype(output.dtype)

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        whole = np.zeros((*batch, *sliding.padded), wide)
        columns = x.reshape(*batch, *sliding.kernel, *sliding.counts)
        with np.errstate(all="ignore"):
            for tap in np.ndindex(*sliding.kernel):
                target = sliding.at(whole, tap)
                np.add(target, columns[(..., *tap, *sliding.all)], out=target)
            np.copyto(out, sliding.inside(whole), casting="unsafe")
        return out

    return run


class _Sliding:
    """Where the windows of `unfold` lie over its last axes, of given sizes."""

    def __init__(self, op: str, attrs: Attrs, sizes: Shape) -> None:
        self.kernel, self.strides, self.dilation = (
            attrs[name] for name in ("kernel", "strides", "dilation")
        )
        self.low, self.high, self.sizes = attrs["low"], attrs["high"], sizes
        self.counts = window_counts(op, attrs, sizes)
        self.pads = any(self.low) or any(self.high)
        self.padded = tuple(a + n + b for a, n, b in zip(self.low, sizes, self.high, strict=True))
        self.all = (slice(None),) * len(sizes)

    def inside(self, whole: Any) -> Any:
        """The padded array without its padding."""
        pairs = zip(self.low, self.sizes, strict=True)
        return whole[(..., *(slice(low, low + n) for low, n in pairs))]

    def at(self, whole: Any, tap: Shape) -> Any:
        """What all windows have at one position of the kernel."""
        axes = zip(tap, self.dilation, self.counts, self.strides, strict=True)
        cuts = [slice(k * d, k * d + (count - 1) * step + 1, step) for k, d, count, step in axes]
        return whole[(..., *cuts)]
