"""Sorted arrays, and the indices that sort them: along one axis, NaN last in both directions.

A falling order is the rising order of what is turned around: negated numbers, or all bits of integers
flipped. So equal elements keep their order both ways where the sort is stable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec, compute_dtype
from .buffers import empty


def bind_sort(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    axis, falling = attrs["axis"], attrs["descending"]
    wide = compute_dtype(output.dtype) if output.dtype.kind == "V" else output.dtype

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        np.copyto(out, _sorted(x.astype(wide, copy=False), axis, falling), casting="unsafe")
        return out

    return run


def bind_argsort(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    axis, falling = attrs["axis"], attrs["descending"]
    wide = compute_dtype(inputs[0].dtype)

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        np.copyto(out, _order(x.astype(wide, copy=False), axis, falling))
        return out

    return run


def _sorted(x: Any, axis: int, falling: bool) -> Any:
    if not falling:
        return np.sort(x, axis=axis)
    if x.dtype.kind == "O":
        return np.flip(np.sort(x, axis=axis), axis)
    turned = turning(x.dtype)(x)
    turned.sort(axis=axis)
    return turning(x.dtype)(turned, out=turned)


def _order(x: Any, axis: int, falling: bool) -> Any:
    """Stable; elements with a NaN are equal."""
    if x.dtype.kind == "c":
        return _complex_order(x, axis, falling)
    if not falling:
        return np.argsort(x, axis=axis, kind="stable")
    if x.dtype.kind == "O":  # no operation turns objects around: find the last ones first
        order = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        return x.shape[axis] - 1 - np.flip(order, axis)
    return np.argsort(turning(x.dtype)(x), axis=axis, kind="stable")


def _complex_order(x: Any, axis: int, falling: bool) -> Any:
    """By real parts, then by imaginary ones."""
    unknown, zero = np.isnan(x), np.zeros((), x.real.dtype)
    parts = (np.where(unknown, zero, -part if falling else part) for part in (x.imag, x.real))
    return np.lexsort((*parts, unknown), axis=axis)


def turning(dtype: np.dtype[Any]) -> Callable[..., Any]:
    """What turns the order of numbers of this dtype around, and back."""
    return np.invert if dtype.kind in "biu" else np.negative
