"""Sorted arrays and the indices that sort them, NaN last both ways.

A falling order is the rising order of what is turned around: negated numbers, or all bits of integers
flipped; so equal elements keep their order. CuPy sorts stably; of NaN it looks at the sign where there is one
axis, so all get the same. Complex numbers are put in order by their parts, one stable sort for each, since
what it does of their NaN is not said.
"""

from __future__ import annotations

import math
from typing import Any

from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec
from .arrays import Binder, into, widened
from .modules import Module

Inputs = tuple[ArraySpec, ...]


def bind_sort(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    axis, falling = attrs["axis"], attrs["descending"]

    def compute(x: Any) -> Any:
        (x,) = widened((x,))
        if x.dtype.kind == "c":
            return xp.take_along_axis(x, _order(xp, x, axis, falling), axis)
        keys = xp.sort(_turned(xp, x, falling), axis=axis)
        return _turned(xp, keys, falling)

    return into(xp, compute, output)


def bind_argsort(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    axis, falling = attrs["axis"], attrs["descending"]
    return into(xp, lambda x: _order(xp, widened((x,))[0], axis, falling), output)


def _turned(xp: Module, x: Any, falling: bool) -> Any:
    if x.dtype.kind in "biu":
        return xp.invert(x) if falling else x
    turned = xp.negative(x) if falling else x
    return xp.where(turned == turned, turned, x.dtype.type(math.nan))


def _order(xp: Module, x: Any, axis: int, falling: bool) -> Any:
    if x.dtype.kind != "c":
        return stable(xp, _turned(xp, x, falling), axis)
    unknown = xp.isnan(x)
    zero = x.real.dtype.type(0)
    order = stable(xp, xp.where(unknown, zero, _turned(xp, x.imag, falling)), axis)
    for key in (xp.where(unknown, zero, _turned(xp, x.real, falling)), unknown):
        again = stable(xp, xp.take_along_axis(key, order, axis), axis)
        order = xp.take_along_axis(order, again, axis)
    return order


def stable(xp: Module, keys: Any, axis: int) -> Any:
    return xp.argsort(keys, axis=axis, kind="stable")


BINDERS: dict[str, Binder] = {"sort": bind_sort, "argsort": bind_argsort}
