"""Values of a program under construction, and the ops of the catalogue on them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._base.errors import ShapeError
from ...backend.spec import dtype_name
from ...program.trace import Traced, broadcast_shape

Node = Callable[..., Traced | tuple[Traced, ...]]
NODES: dict[str, Node] = {}
FOLDED: dict[str, dict[int, str]] = {}


def node(*names: str, **folded: int) -> Callable[[Node], Node]:
    """Enter a function for these ops of ONNX; `folded` names inputs that become attributes.

    The function gets the other inputs, `count`, the number of outputs, and the attributes.
    """

    def enter(function: Node) -> Node:
        for name in names:
            NODES[name] = function
            FOLDED[name] = {position: keyword for keyword, position in folded.items()}
        return function

    return enter


def several(op: str, *xs: Traced, **attrs: Any) -> tuple[Traced, ...]:
    session = xs[0].session
    slots = session.build.several(op, *(x.slot for x in xs), **attrs)
    return tuple(Traced(session, slot) for slot in slots)


def one(op: str, *xs: Traced, **attrs: Any) -> Traced:
    (x,) = several(op, *xs, **attrs)
    return x


def constant(like: Traced, value: complex, shape: Sequence[int] | None = None) -> Traced:
    """A number in the dtype of `like`, repeated to its shape or another one."""
    dtype = np.dtype(like.dtype)
    number = type(value)(value) if dtype.kind != "b" else bool(value)
    slot = like.session.build("constant", value=number, dtype=dtype_name(dtype))
    shape = like.shape if shape is None else tuple(shape)
    return one("broadcast_in_dim", Traced(like.session, slot), shape=shape, axes=())


def cast(x: Traced, dtype: Any) -> Traced:
    return x if x.dtype == dtype else one("cast", x, dtype=dtype_name(np.dtype(dtype)))


def positive(axis: int, ndim: int) -> int:
    axis, n = operator.index(axis), max(1, ndim)
    if not -n <= axis < n:
        raise ShapeError(f"axis {axis} of {ndim} axes")
    return axis % n


def positives(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    return tuple(positive(axis, ndim) for axis in axes)


def broadcast_to(x: Traced, shape: Sequence[int]) -> Traced:
    if x.shape == tuple(shape):
        return x
    axes = tuple(range(len(shape) - x.ndim, len(shape)))
    return one("broadcast_in_dim", x, shape=tuple(shape), axes=axes)


def broadcast(*xs: Traced) -> list[Traced]:
    """All of the shape that NumPy's rules give them."""
    shape = broadcast_shape("broadcasting", *(x.shape for x in xs))
    return [broadcast_to(x, shape) for x in xs]


def reshape(x: Traced, shape: Sequence[int]) -> Traced:
    return one("reshape", x, shape=tuple(int(n) for n in shape))


def reversed_(x: Traced, *axes: int) -> Traced:
    return one("reverse", x, axes=axes)


def taken(x: Traced, axis: int, start: int, stop: int, step: int = 1) -> Traced:
    """x[start:stop:step] along an axis, by Python's rules for what is out of range or negative."""
    found = range(*slice(start, stop, step).indices(x.shape[axis]))
    low, high = (min(found), max(found) + 1) if found else (0, 0)
    starts = tuple(low if k == axis else 0 for k in range(x.ndim))
    stops = tuple(high if k == axis else n for k, n in enumerate(x.shape))
    steps = tuple(abs(step) if k == axis else 1 for k in range(x.ndim))
    part = one("slice", x, starts=starts, stops=stops, steps=steps)
    return part if step > 0 else reversed_(part, axis)


def kept(x: Traced, axes: tuple[int, ...], keepdims: int) -> Traced:
    """The axes that a reduction dropped, of size 1."""
    return one("expand_dims", x, axes=axes) if keepdims else x


def padded(x: Traced, axis: int, low: int, high: int, value: complex) -> Traced:
    along = [tuple(n if k == axis else 0 for k in range(x.ndim)) for n in (low, high, 0)]
    return one("pad", x, low=along[0], high=along[1], interior=along[2], value=value)


def joined(axis: int, *xs: Traced) -> Traced:
    return one("concatenate", *xs, axis=axis)


def size(shape: Sequence[int]) -> int:
    return math.prod(shape)
