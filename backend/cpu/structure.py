"""Structural ops: views where the catalogue says so, else one pass of the move kernel.

No op here needs memory beyond its output.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from operator import methodcaller
from typing import Any

import numpy as np

from ..._base.errors import ShapeError
from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec
from .buffers import empty
from .elementwise import EVALUATE, bind_elementwise
from .move import move, packed

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


def bind_slice_at(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """The kernel takes another position at a call, as a program with static indices asks for."""
    ahead, usual = (slice(None),) * attrs["axis"], attrs["at"]

    def run(x: Any, at: int = usual) -> Any:
        return x[(*ahead, at, ...)]  # Ellipsis: a view even when nothing is left

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
    first, *others = attrs["axes"]
    steps = []
    for k, axis in enumerate(reversed(others)):
        last = len(inputs[0].shape) - k - 2  # where the diagonal is put
        steps.append((axis, (*range(first), last, *range(first, last))))

    def run(x: Any) -> Any:
        # a writeable view that shares x's base, as np.einsum("ii->i", x) gives: merge the axes two at
        # a time; ndarray.diagonal puts the new axis last and marks it read-only, both are undone
        writeable = x.flags.writeable
        for axis, perm in steps:
            x = x.diagonal(0, first, axis).transpose(perm)
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
        out = _filled(output, out, 0)
        diagonal(out)[...] = x
        return out

    return run


def bind_copy(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    def run(x: Any, out: Any = None) -> Any:
        return move(empty(output.shape, output.dtype) if out is None else out, x)

    return run


def bind_conj(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    if output.dtype.kind in "cO":
        return bind_elementwise(EVALUATE["conj"])(attrs, inputs, output)
    return bind_copy(attrs, inputs, output)


def bind_constant(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    value = _scalar(attrs["value"], output.dtype)
    value.flags.writeable = False

    def run() -> Any:
        return value

    return run


def bind_shape_of(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    axis = attrs["axis"]

    def run(x: Any, out: Any = None) -> Any:
        size = np.array(x.shape[axis], output.dtype)
        if out is None:
            return size
        out[...] = size
        return out

    return run


def bind_dynamic_truncate(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """The operand may be shorter than its bound: what it has is what is cut."""
    ahead = (slice(None),) * attrs["axis"]

    def run(x: Any, size: Any) -> Any:
        return x[(*ahead, slice(0, max(0, int(size))), ...)]

    return run


def bind_pad_to_match(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """Both operands may be shorter than their bounds: sizes are those of the arrays."""
    axis, zero = attrs["axis"], np.zeros((), output.dtype)
    ahead = (slice(None),) * axis

    def run(x: Any, reference: Any, out: Any = None) -> Any:
        n = x.shape[axis]
        shape = (*x.shape[:axis], max(n, reference.shape[axis]), *x.shape[axis + 1 :])
        if out is None:
            out = empty(shape, output.dtype)
        elif out.shape != shape:
            raise ShapeError(
                f"pad_to_match(out=...): out has shape {out.shape}, the result {shape}"
            )
        move(out[(*ahead, slice(0, n), ...)], x)
        out[(*ahead, slice(n, None), ...)] = zero
        return out

    return run


def bind_identity(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    return methodcaller("view")


def bind_reshape(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    shape = output.shape

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            return packed(x, shape)
        move(out, packed(x, shape))
        return out

    return run


def bind_contiguous(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    copy = bind_copy(attrs, inputs, output)

    def run(x: Any, out: Any = None) -> Any:
        return x if out is None and x.flags.c_contiguous else copy(x, out)

    return run


def bind_slice(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    bounds = zip(attrs["starts"], attrs["stops"], attrs["steps"], strict=True)
    return _bind_index(*(slice(*bound) for bound in bounds))


def bind_reverse(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    axes = range(len(output.shape))
    return _bind_index(*(slice(None, None, -1 if axis in attrs["axes"] else 1) for axis in axes))


def bind_split(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    ahead, sizes = (slice(None),) * attrs["axis"], attrs["sizes"]
    stops = list(accumulate(sizes))
    index = [(*ahead, slice(stop - n, stop)) for n, stop in zip(sizes, stops, strict=True)]

    def run(x: Any) -> Any:
        pieces = tuple(x[spot] for spot in index)
        return pieces if len(pieces) > 1 else pieces[0]

    return run


def _bind_index(*index: slice) -> Kernel:
    full: tuple[Any, ...] = (*index, ...)

    def run(x: Any) -> Any:
        return x[full]

    return run


def bind_pad(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    spots = [
        placed(*axis)
        for axis in zip(
            inputs[0].shape,
            output.shape,
            attrs["low"],
            (gap + 1 for gap in attrs["interior"]),
            strict=True,
        )
    ]
    to, of = tuple(spot[0] for spot in spots), tuple(spot[1] for spot in spots)

    def run(x: Any, out: Any = None) -> Any:
        out = _filled(output, out, attrs["value"])
        move(out[(*to, ...)], x[(*of, ...)])
        return out

    return run


def placed(n: int, size: int, low: int, step: int) -> tuple[slice, slice]:
    """Where elements of an axis of n, `step` apart from `low` on, lie inside 0..size; and which."""
    first = max(0, -(low // step))
    last = min(n - 1, (size - 1 - low) // step)
    if last < first:
        return slice(0, 0), slice(0, 0)
    return slice(low + first * step, low + last * step + 1, step), slice(first, last + 1)


def bind_concatenate(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    pieces = bind_split(
        {"axis": attrs["axis"], "sizes": [spec.shape[attrs["axis"]] for spec in inputs]}, (), output
    )

    def run(*operands: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        targets = pieces(out) if len(operands) > 1 else (out,)
        for target, x in zip(targets, operands, strict=True):
            move(target, x)
        return out

    return run


def bind_triangle(upper: bool) -> Binder:
    """Bind triu or tril: copy, then clear what lies on the other side of diagonal k."""

    def bind(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
        k, (m, n) = attrs["k"], output.shape[-2:]
        zero = np.zeros((), output.dtype)

        def run(x: Any, out: Any = None) -> Any:
            if out is None:
                out = empty(output.shape, output.dtype)
            move(out, x)
            if upper:  # row i keeps columns from i + k on; from row n - k on nothing is left
                for i in range(max(0, 1 - k), min(m, n - k)):
                    out[..., i, : i + k] = zero
                out[..., min(m, max(0, n - k)) :, :] = zero
            else:  # row i keeps columns up to i + k; before row -k there are none
                out[..., : min(m, max(0, -k)), :] = zero
                for i in range(max(0, -k), min(m, n - k - 1)):
                    out[..., i, i + k + 1 :] = zero
            return out

        return run

    return bind


def _filled(spec: ArraySpec, out: Any, value: Any) -> Any:
    """`out`, or a new array, full of `value`."""
    fill = _scalar(value, spec.dtype)
    if out is not None:
        out[...] = fill
        return out
    return np.full(spec.shape, fill, spec.dtype)


def _scalar(value: Any, dtype: np.dtype[Any]) -> Any:
    """A Python number as an array without axes; what is too large for a float is infinite."""
    with np.errstate(all="ignore"):
        return np.array(value).astype(dtype)
