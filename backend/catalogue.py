"""The op catalogue: one row per op, from which checks, inference and documentation are derived.

A row states the law of the op in one line and infers dtypes and shapes of its outputs from those of
its inputs. `infer` raises `ProgramError` when the inputs do not fit; nothing else checks shapes.
Conventions are row-major: `dot_general` returns [batch..., lhs free..., rhs free...], as StableHLO.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from .._base.errors import EinloomError, ProgramError
from .spec import ArraySpec, Axes, Shape, dtype_from_name

Category = Literal["session", "boundary", "host"]
Attrs = dict[str, Any]
Infer = Callable[[Attrs, tuple[ArraySpec, ...]], ArraySpec]


@dataclass(frozen=True, slots=True)
class OpRow:
    """One op: its operands, attributes, category and law."""

    name: str
    operands: tuple[str, ...]  # names; "*name" takes any number
    attributes: tuple[str, ...]
    category: Category
    law: str
    infer: Infer
    is_view: bool = False  # the output shares the operand's memory


CATALOGUE: dict[str, OpRow] = {}


def row_of(op: str) -> OpRow:
    """The catalogue row of `op`."""
    try:
        return CATALOGUE[op]
    except KeyError:
        raise ProgramError(f"unknown op {op!r}; the catalogue has {', '.join(CATALOGUE)}") from None


def infer(op: str, attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    """Dtype and shape of the output of `op`, after checking operands and attributes.

    >>> import numpy as np
    >>> infer("transpose", {"perm": (1, 0)}, (ArraySpec(np.dtype("int8"), (2, 5)),)).shape
    (5, 2)
    """
    row = row_of(op)
    variadic = bool(row.operands) and row.operands[-1].startswith("*")
    if len(inputs) != len(row.operands) and not (variadic and len(inputs) >= 1):
        raise ProgramError(f"{op} takes operands ({', '.join(row.operands)}), got {len(inputs)}")
    if set(attrs) != set(row.attributes):
        raise ProgramError(
            f"{op} takes attributes ({', '.join(row.attributes)}), got ({', '.join(attrs)})"
        )
    try:
        return row.infer(attrs, inputs)
    except EinloomError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise ProgramError(f"{op}: attributes {attrs} are malformed ({error})") from None


def _op(
    name: str, operands: str, attributes: str, category: Category, law: str, *, view: bool = False
) -> Callable[[Infer], Infer]:
    def register(rule: Infer) -> Infer:
        CATALOGUE[name] = OpRow(
            name, tuple(operands.split()), tuple(attributes.split()), category, law, rule, view
        )
        return rule

    return register


def _check_axes(op: str, name: str, axes: Axes, ndim: int) -> None:
    if any(type(axis) is not int or not 0 <= axis < ndim for axis in axes):
        raise ProgramError(f"{op}: {name}={axes} is out of range for {ndim} axes")
    if len(set(axes)) != len(axes):
        raise ProgramError(f"{op}: {name}={axes} names an axis twice")


# ---- structural -------------------------------------------------------------------------------


@_op("transpose", "x", "perm", "session", "out[i_perm] = x[i]: axis k is axis perm[k]", view=True)
def _transpose(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    (x,), perm = inputs, attrs["perm"]
    _check_axes("transpose", "perm", perm, len(x.shape))
    if len(perm) != len(x.shape):
        raise ProgramError(f"transpose: perm={perm} leaves out axes of {x}")
    return ArraySpec(x.dtype, tuple(x.shape[axis] for axis in perm))


@_op("squeeze", "x", "axes", "session", "drops axes of size 1", view=True)
def _squeeze(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    (x,), axes = inputs, attrs["axes"]
    _check_axes("squeeze", "axes", axes, len(x.shape))
    if any(x.shape[axis] != 1 for axis in axes):
        raise ProgramError(f"squeeze: axes={axes} of {x} are not all of size 1")
    return ArraySpec(x.dtype, tuple(n for axis, n in enumerate(x.shape) if axis not in axes))


@_op("expand_dims", "x", "axes", "session", "inserts axes of size 1 at `axes` of out", view=True)
def _expand_dims(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    (x,), axes = inputs, attrs["axes"]
    _check_axes("expand_dims", "axes", axes, len(x.shape) + len(axes))
    old = iter(x.shape)
    ndim = len(x.shape) + len(axes)
    return ArraySpec(x.dtype, tuple(1 if axis in axes else next(old) for axis in range(ndim)))


@_op(
    "broadcast_in_dim",
    "x",
    "shape axes",
    "session",
    "axis k of x becomes axis axes[k] of out; the others repeat x",
    view=True,
)
def _broadcast_in_dim(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    (x,), shape, axes = inputs, attrs["shape"], attrs["axes"]
    _check_axes("broadcast_in_dim", "axes", axes, len(shape))
    if any(type(n) is not int or n < 0 for n in shape):
        raise ProgramError(f"broadcast_in_dim: shape={shape} must be integers >= 0")
    if len(axes) != len(x.shape) or sorted(axes) != list(axes):
        raise ProgramError(f"broadcast_in_dim: axes={axes} must increase, one for each of {x}")
    if any(n not in (1, shape[axis]) for n, axis in zip(x.shape, axes, strict=True)):
        raise ProgramError(f"broadcast_in_dim: {x} does not fit into {shape} at axes {axes}")
    return ArraySpec(x.dtype, tuple(shape))


@_op(
    "extract_diagonal",
    "x",
    "axes",
    "session",
    "out[.., i, ..] = x[.., i, .., i, ..]: the axes become one, in place of the first",
    view=True,
)
def _extract_diagonal(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    (x,), axes = inputs, attrs["axes"]
    _check_axes("extract_diagonal", "axes", axes, len(x.shape))
    sizes = {x.shape[axis] for axis in axes}
    if len(axes) < 2 or len(sizes) != 1 or sorted(axes) != list(axes):
        raise ProgramError(
            f"extract_diagonal: axes={axes} of {x} must be two or more, increasing, equal in size"
        )
    return ArraySpec(x.dtype, tuple(n for axis, n in enumerate(x.shape) if axis not in axes[1:]))


@_op(
    "embed_diagonal",
    "x",
    "axis copies",
    "session",
    "out[.., i, .., i] = x[.., i, ..], zero elsewhere: `copies` further axes go last",
)
def _embed_diagonal(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    (x,), axis, copies = inputs, attrs["axis"], attrs["copies"]
    _check_axes("embed_diagonal", "axis", (axis,), len(x.shape))
    if type(copies) is not int or copies < 1:
        raise ProgramError(f"embed_diagonal: copies={copies} must be positive")
    return ArraySpec(x.dtype, x.shape + (x.shape[axis],) * copies)


@_op("convert", "x", "dtype", "session", "out = x in another dtype, as ndarray.astype")
def _convert(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    return ArraySpec(dtype_from_name(attrs["dtype"]), inputs[0].shape)


@_op("copy", "x", "", "session", "out = x in fresh, row-major memory")
def _copy(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    return inputs[0]


# ---- elementwise and reductions ---------------------------------------------------------------


@_op("conj", "x", "", "session", "out = conjugate of x; of a real x, a copy")
def _conj(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    return inputs[0]


@_op("multiply", "x y", "", "session", "out[i] = x[i] * y[i]; and for bool")
def _multiply(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    return _same("multiply", inputs)


@_op("add", "x y", "", "session", "out[i] = x[i] + y[i]; or for bool")
def _add(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    return _same("add", inputs)


@_op("reduce_sum", "x", "axes", "session", "out = sum of x over axes, in x's dtype; or for bool")
def _reduce_sum(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    (x,), axes = inputs, attrs["axes"]
    _check_axes("reduce_sum", "axes", axes, len(x.shape))
    return ArraySpec(x.dtype, tuple(n for axis, n in enumerate(x.shape) if axis not in axes))


# ---- contraction ------------------------------------------------------------------------------


@_op(
    "dot_general",
    "lhs rhs",
    "contracting batch",
    "boundary",
    "out[b, m, n] = sum_k lhs[b, m, k] * rhs[b, k, n]; groups of axes, [batch, lhs free, rhs free]",
)
def _dot_general(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    lhs, rhs = inputs
    dims = dot_dims(attrs, lhs.shape, rhs.shape)
    if lhs.dtype != rhs.dtype:
        raise ProgramError(f"dot_general: dtypes of {lhs} and {rhs} differ")
    shape = [lhs.shape[axis] for axis in dims.lhs_batch + dims.lhs_free]
    return ArraySpec(lhs.dtype, (*shape, *(rhs.shape[axis] for axis in dims.rhs_free)))


@_op(
    "sum_product",
    "*x",
    "terms output",
    "boundary",
    "out[o] = sum over the other labels of prod_i x_i[terms_i], without intermediates",
)
def _sum_product(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    terms, output = attrs["terms"], attrs["output"]
    if len(terms) != len(inputs) or len({x.dtype for x in inputs}) != 1:
        raise ProgramError("sum_product: give one term for each operand, and operands of one dtype")
    sizes: dict[int, int] = {}
    for term, x in zip(terms, inputs, strict=True):
        if len(term) != len(x.shape) or len(set(term)) != len(term):
            raise ProgramError(f"sum_product: term {term} does not name the axes of {x} once each")
        for label, n in zip(term, x.shape, strict=True):
            if sizes.setdefault(label, n) != n:
                raise ProgramError(f"sum_product: label {label} has sizes {sizes[label]} and {n}")
    if len(set(output)) != len(output) or any(label not in sizes for label in output):
        raise ProgramError(f"sum_product: output {output} repeats a label or names an unknown one")
    return ArraySpec(inputs[0].dtype, tuple(sizes[label] for label in output))


# ---- host -------------------------------------------------------------------------------------


@_op("constant", "", "value dtype", "host", "out = a scalar that the program carries")
def _constant(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    value, dtype = attrs["value"], dtype_from_name(attrs["dtype"])
    if type(value) not in (bool, int, float, complex):
        raise ProgramError(f"constant: value={value!r} is no Python number")
    if type(value) is complex and dtype.kind not in "cO":
        raise ProgramError(f"constant: value={value!r} is no {attrs['dtype']}")
    return ArraySpec(dtype, ())


# ---- shared rules -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DotDims:
    """The axes of a `dot_general` by role, and the sizes of the four groups."""

    lhs_batch: Axes
    lhs_free: Axes
    lhs_contracting: Axes
    rhs_batch: Axes
    rhs_contracting: Axes
    rhs_free: Axes
    batch: int
    m: int
    n: int
    k: int


def dot_dims(attrs: Attrs, lhs: Shape, rhs: Shape) -> DotDims:
    """Sort the axes of `dot_general` into batch, free and contracting ones, and check them.

    >>> dims = dot_dims({"contracting": ((2,), (1,)), "batch": ((0,), (0,))}, (7, 2, 3), (7, 3, 5))
    >>> dims.lhs_free, dims.rhs_free, (dims.batch, dims.m, dims.n, dims.k)
    ((1,), (2,), (7, 2, 5, 3))
    """
    (lhs_k, rhs_k), (lhs_b, rhs_b) = attrs["contracting"], attrs["batch"]
    for name, axes, shape in (("lhs", lhs_b + lhs_k, lhs), ("rhs", rhs_b + rhs_k, rhs)):
        _check_axes("dot_general", f"{name} batch and contracting axes", axes, len(shape))
    for left, right in ((lhs_b, rhs_b), (lhs_k, rhs_k)):
        if [lhs[axis] for axis in left] != [rhs[axis] for axis in right]:
            raise ProgramError(
                f"dot_general: sizes {[lhs[a] for a in left]} of lhs axes {left} and "
                f"{[rhs[a] for a in right]} of rhs axes {right} differ"
            )
    lhs_free = tuple(axis for axis in range(len(lhs)) if axis not in lhs_b and axis not in lhs_k)
    rhs_free = tuple(axis for axis in range(len(rhs)) if axis not in rhs_b and axis not in rhs_k)
    return DotDims(
        lhs_batch=lhs_b,
        lhs_free=lhs_free,
        lhs_contracting=lhs_k,
        rhs_batch=rhs_b,
        rhs_contracting=rhs_k,
        rhs_free=rhs_free,
        batch=math.prod(lhs[axis] for axis in lhs_b),
        m=math.prod(lhs[axis] for axis in lhs_free),
        n=math.prod(rhs[axis] for axis in rhs_free),
        k=math.prod(lhs[axis] for axis in lhs_k),
    )


def _same(op: str, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    if inputs[0] != inputs[1]:
        raise ProgramError(f"{op}: {inputs[0]} and {inputs[1]} differ; convert or broadcast first")
    return inputs[0]
