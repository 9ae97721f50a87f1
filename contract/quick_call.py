"""The call of an expression with plain arrays of exactly what it was compiled for: one generated function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend.spec import LARGE, Axes, Shape
from .lower import is_view
from .plan import Plan


def view_of(plan: Plan) -> tuple[Shape, Shape] | None:
    """Shape and strides of a view of one operand that lies in memory without gaps; None if the result is no
    view, or of a dtype whose memory Python's buffers do not show."""
    network = plan.network
    if not is_view(network) or plan.dtype.kind not in "biufc" or 0 in network.extents:
        return None
    if plan.dtypes != (plan.dtype,):
        return None  # it is converted
    (term,), (shape,) = network.terms, network.shapes
    steps = dict.fromkeys(term, 0)
    for label, stride in zip(term, strides_of(shape, plan.dtype.itemsize, None), strict=True):
        steps[label] += stride
    open_ = network.output_axes
    return tuple(network.extents[x] for x in open_), tuple(steps[x] for x in open_)


def checking(
    specs: Sequence[tuple[Shape, np.dtype[Any]]],
    layouts: Sequence[Axes | None],
    run: Callable[..., Any],
    held: Sequence[Any],
    is_scalar: bool,
    view: tuple[Shape, Shape] | None,
    kind: type = np.ndarray,
    card: int | None = None,
) -> Callable[..., Any]:
    """`run` for plain arrays of exactly these shapes and dtypes, with `held` behind them; large ones in the
    order in memory that was planned for. None for any others, told quickly: one generated expression takes
    half the time of a loop over the operands. A `view` of an operand without gaps is made in one call.

    On a device arrays are of its `kind`, on the `card` of this number where there are several, and may lie as
    they like."""
    names = [f"x{k}" for k in range(len(specs))]
    scope: dict[str, Any] = {"ndarray": kind, "run": run}
    on_host = kind is np.ndarray
    tests = ["not more"]
    for k, (shape, dtype) in enumerate(specs):
        # arrays of one dtype share one object as a rule, which is not that of newbyteorder("=")
        shared = np.dtype(dtype.char) if dtype.char in "?bBhHiIlLqQefdgFDG" else dtype
        scope |= {f"shape{k}": shape, f"dtype{k}": shared if shared == dtype else dtype}
        same = "is" if on_host else "=="
        tests.append(
            f"type(x{k}) is ndarray and x{k}.shape == shape{k} and x{k}.dtype {same} dtype{k}"
        )
        if card is not None:
            tests.append(f"x{k}.device.id == {card}")
        if on_host and math.prod(shape) * dtype.itemsize >= LARGE:
            scope[f"strides{k}"] = strides_of(shape, dtype.itemsize, layouts[k])
            tests.append(f"x{k}.strides == strides{k}")
    scope |= {f"held{k}": x for k, x in enumerate(held)}
    arguments = ", ".join([*names, *(f"held{k}" for k in range(len(held)))])
    views = []
    if view is not None:
        (shape, dtype), (scope["shape"], scope["steps"]) = specs[0], view
        scope["strides"] = strides_of(shape, dtype.itemsize, None)
        made = "return ndarray(shape, dtype0, x0, 0, steps)"
        is_sure = scope.get("strides0") == scope["strides"]  # tested above
        views = [f"        {made}" if is_sure else f"        if x0.strides == strides: {made}"]
    lines = [
        f"def checked({', '.join(f'{name}=None' for name in names)}, *more):",
        f"    if {' and '.join(tests)}:",
        *views,
        f"        return run({arguments}){'[()]' if is_scalar else ''}",
        "    return None",
    ]
    exec("\n".join(lines), scope)
    function: Callable[..., Any] = scope.pop("checked")  # which has the scope: no cycle
    return function


def checking_many(
    specs: Sequence[tuple[Shape, np.dtype[Any]]],
    run: Callable[..., Any],
    held: Sequence[Any],
    kind: Any,
    card: int | None,
) -> Callable[..., Any]:
    """The same for more arrays of a device than a function is generated for."""

    def checked(*arrays: Any) -> Any:
        if len(arrays) != len(specs):
            return None
        for x, (shape, dtype) in zip(arrays, specs, strict=True):
            if type(x) is not kind or x.shape != shape or x.dtype != dtype:
                return None
            if card is not None and x.device.id != card:
                return None
        return run(*arrays, *held)

    return checked


def strides_of(shape: Shape, itemsize: int, layout: Axes | None) -> Shape:
    """In bytes, of an array without gaps whose axes lie in this order."""
    strides, step = [0] * len(shape), itemsize
    for axis in reversed(layout or range(len(shape))):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)
