"""Structural ops: views where the catalogue says so, else one copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._base.errors import ShapeError
from ..catalogue import Attrs
from ..cpu import structure as views
from ..protocol import Kernel
from ..spec import ArraySpec
from .arrays import Binder, along, filled, into, put, scalar
from .modules import Module
from .move import contiguous, move

Inputs = tuple[ArraySpec, ...]
FEW = 8  # pieces that CuPy's `concatenate` copies one by one


def same_view(bind: Callable[[Attrs, Inputs, ArraySpec], Kernel]) -> Binder:
    """Indexing and methods that arrays of every module have."""
    return lambda xp, attrs, inputs, output: bind(attrs, inputs, output)


def bind_broadcast_in_dim(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    shape, axes = attrs["shape"], attrs["axes"]
    index = (*(slice(None) if axis in axes else None for axis in range(len(shape))), ...)
    return lambda x: xp.broadcast_to(x[index], shape)


def bind_extract_diagonal(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    """One axis along which all of them run: its stride is the sum of theirs."""
    axes = attrs["axes"]
    others = frozenset(axes[1:])

    def run(x: Any) -> Any:
        stride = sum(x.strides[axis] for axis in axes)
        kept = [axis for axis in range(x.ndim) if axis not in others]
        strides = tuple(stride if axis == axes[0] else x.strides[axis] for axis in kept)
        return xp.lib.stride_tricks.as_strided(x, tuple(x.shape[axis] for axis in kept), strides)

    return run


def bind_embed_diagonal(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    ndim = len(inputs[0].shape)
    axes = (attrs["axis"], *range(ndim, ndim + attrs["copies"]))
    diagonal = bind_extract_diagonal(xp, {"axes": axes}, (output,), inputs[0])

    def compute(x: Any) -> Any:
        made = xp.zeros(output.shape, output.dtype)
        diagonal(made)[...] = x
        return made

    return into(xp, compute, output)


def bind_copy(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    def run(x: Any, out: Any = None) -> Any:
        return move(xp, xp.empty(x.shape, x.dtype) if out is None else out, x)

    return run


def bind_reshape(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    def run(x: Any, out: Any = None) -> Any:
        shown = x.reshape(output.shape)
        return shown if out is None else put(xp, shown, output, out)

    return run


def bind_contiguous(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    def run(x: Any, out: Any = None) -> Any:
        if out is not None:
            return move(xp, out, x)
        return contiguous(xp, x)

    return run


def bind_constant(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    """CuPy's arrays know no flag against writing: every call has memory of its own."""
    value = attrs["value"]
    return lambda: filled(xp, (), value, output.dtype)


def bind_shape_of(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    axis = attrs["axis"]
    return into(xp, lambda x: xp.full((), x.shape[axis], output.dtype), output)


def bind_pad_to_match(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    axis = attrs["axis"]
    ahead = (slice(None),) * axis

    def run(x: Any, reference: Any, out: Any = None) -> Any:
        n = x.shape[axis]
        shape = (*x.shape[:axis], max(n, reference.shape[axis]), *x.shape[axis + 1 :])
        if out is not None and out.shape != shape:
            raise ShapeError(
                f"pad_to_match(out=...): out has shape {out.shape}, the result {shape}"
            )
        out = xp.empty(shape, output.dtype) if out is None else out
        out[(*ahead, slice(0, n), ...)] = x
        out[(*ahead, slice(n, None), ...)] = scalar(0, output.dtype)
        return out

    return run


def bind_pad(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    spots = [
        views.placed(n, size, low, gap + 1)
        for n, size, low, gap in zip(
            inputs[0].shape, output.shape, attrs["low"], attrs["interior"], strict=True
        )
    ]
    to, of = tuple(spot[0] for spot in spots), tuple(spot[1] for spot in spots)

    def compute(x: Any) -> Any:
        made = filled(xp, output.shape, attrs["value"], output.dtype)
        made[(*to, ...)] = x[(*of, ...)]
        return made

    return into(xp, compute, output)


def bind_concatenate(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    """Piece by piece where there are many: CuPy would upload a table of them, which no graph can do."""
    axis = attrs["axis"]
    ahead = (slice(None),) * axis
    ends = np.cumsum([0, *(spec.shape[axis] for spec in inputs)]).tolist()

    def compute(*pieces: Any) -> Any:
        if len(pieces) <= FEW:
            return xp.concatenate(pieces, axis)
        made = xp.empty(output.shape, output.dtype)
        for x, start, end in zip(pieces, ends[:-1], ends[1:], strict=True):
            made[(*ahead, slice(start, end), ...)] = x
        return made

    return into(xp, compute, output)


def bind_triangle(upper: bool) -> Binder:
    def bind(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
        k, (m, n) = attrs["k"], output.shape[-2:]

        def compute(x: Any) -> Any:
            beyond = along(xp, n, 1, 2) - along(xp, m, 0, 2)
            return xp.where(beyond >= k if upper else beyond <= k, x, scalar(0, output.dtype))

        return into(xp, compute, output)

    return bind


BINDERS: dict[str, Binder] = {
    **{
        op: same_view(bind)
        for op, bind in {
            "identity": views.bind_identity,
            "transpose": views.bind_transpose,
            "slice": views.bind_slice,
            "slice_at": views.bind_slice_at,
            "reverse": views.bind_reverse,
            "split": views.bind_split,
            "squeeze": views.bind_squeeze,
            "expand_dims": views.bind_expand_dims,
            "dynamic_truncate": views.bind_dynamic_truncate,
        }.items()
    },
    "reshape": bind_reshape,
    "broadcast_in_dim": bind_broadcast_in_dim,
    "pad": bind_pad,
    "concatenate": bind_concatenate,
    "extract_diagonal": bind_extract_diagonal,
    "embed_diagonal": bind_embed_diagonal,
    "tril": bind_triangle(upper=False),
    "triu": bind_triangle(upper=True),
    "copy": bind_copy,
    "contiguous": bind_contiguous,
    "constant": bind_constant,
    "shape_of": bind_shape_of,
    "pad_to_match": bind_pad_to_match,
}
