"""Structural ops, conversions and sums on NumPy arrays; views where the catalogue says so."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec, Axes, is_lowprec
from .move import move

Binder = Callable[[Attrs, tuple[ArraySpec, ...], ArraySpec], Kernel]


def bind_transpose(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    return methodcaller("transpose", attrs["perm"])


def bind_squeeze(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    index = tuple(
        0 if axis in attrs["axes"] else slice(None) for axis in range(len(inputs[0].shape))
    )
    full: tuple[Any, ...] = (*index, ...)  # Ellipsis: a view even when nothing is left

    def run(x: Any) -> Any:
        return x[full]

    return run


def bind_expand_dims(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    axes = attrs["axes"]
    index = tuple(None if axis in axes else slice(None) for axis in range(len(output.shape)))
    full: tuple[Any, ...] = (*index, ...)

    def run(x: Any) -> Any:
        return x[full]

    return run


def bind_broadcast_in_dim(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    shape, axes = attrs["shape"], attrs["axes"]
    index = tuple(slice(None) if axis in axes else None for axis in range(len(shape)))
    full: tuple[Any, ...] = (*index, ...)

    def run(x: Any) -> Any:
        return np.broadcast_to(x[full], shape)

    return run


def bind_extract_diagonal(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    axes = attrs["axes"]

    def run(x: Any) -> Any:
        # a writeable view that shares x's base, as np.einsum("ii->i", x) gives: merge the axes two at
        # a time; ndarray.diagonal puts the new axis last and marks it read-only, both are undone
        writeable = x.flags.writeable
        for axis in reversed(axes[1:]):
            x = np.moveaxis(x.diagonal(0, axes[0], axis), -1, axes[0])
        if writeable:
            x.flags.writeable = True
        return x

    return run


def bind_embed_diagonal(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    axis, copies = attrs["axis"], attrs["copies"]
    ndim = len(inputs[0].shape)
    diagonal = bind_extract_diagonal(
        {"axes": (axis, *range(ndim, ndim + copies))}, (output,), inputs[0]
    )

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            out = np.zeros(output.shape, output.dtype)
        else:
            out[...] = np.zeros((), output.dtype)
        diagonal(out)[...] = x
        return out

    return run


def bind_convert(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    dtype = output.dtype

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            return x.astype(dtype, order="C")
        np.copyto(out, x, casting="unsafe")
        return out

    def narrow(x: Any, out: Any = None) -> Any:
        with np.errstate(over="ignore"):  # what is too large becomes inf silently, as in np.einsum
            return run(x, out)

    return narrow if dtype.kind in "fc" and dtype.itemsize < inputs[0].dtype.itemsize else run


def bind_copy(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    def run(x: Any, out: Any = None) -> Any:
        return move(np.empty(output.shape, output.dtype) if out is None else out, x)

    return run


def bind_reduce_sum(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    axes, dtype = attrs["axes"], output.dtype
    last = len(inputs[0].shape) - 1
    if dtype.char in "fF" and axes and last not in axes:
        return _bind_wide_sum(axes, dtype)

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            # a bool sum in dtype bool is a logical or; asanyarray keeps 0-d results arrays
            return np.asarray(np.add.reduce(x, axis=axes, dtype=dtype), dtype)
        np.add.reduce(x, axis=axes, dtype=dtype, out=out)
        return out

    return run


def _bind_wide_sum(axes: Axes, dtype: np.dtype[np.generic]) -> Kernel:
    """NumPy sums pairwise along the last axis only; along others it adds one after the other."""
    wide = np.result_type(dtype, np.float64)

    def run(x: Any, out: Any = None) -> Any:
        total = np.add.reduce(x, axis=axes, dtype=wide)
        if out is None:
            return np.asarray(total).astype(dtype)
        np.copyto(out, total, casting="same_kind")
        return out

    return run


def bind_constant(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    value = np.array(attrs["value"]).astype(output.dtype)
    value.flags.writeable = False

    def run() -> Any:
        return value

    return run


def bind_ufunc(ufunc: Any) -> Binder:
    """Bind an elementwise op to a NumPy ufunc of the same operands."""

    def bind(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
        def run(*operands: Any, out: Any = None) -> Any:
            if out is None:
                out = np.empty(output.shape, output.dtype)
            return ufunc(*operands, out=out)

        return run

    return bind


def bind_conj(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    if output.dtype.kind in "cO":
        return bind_ufunc(np.conjugate)(attrs, inputs, output)
    return bind_copy(attrs, inputs, output)


def sums_exactly(dtype: np.dtype[np.generic]) -> bool:
    """Whether NumPy adds and multiplies this dtype itself, without our converting it first."""
    return dtype.kind in "biufcO" and dtype.char != "e" and not is_lowprec(dtype)
