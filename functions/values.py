"""One text for arrays and for traced values: ops that run now, or are recorded; operands, axes, `out`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, TypeAlias

import numpy as np

from .._base.errors import CallError, ConversionError, DTypeError, ShapeError
from ..backend.cpu.backend import cpu
from ..backend.door import as_ndarray, check_torch_out, is_torch, to_torch
from ..backend.dtypes import class_of, reaches
from ..backend.spec import Axes, Shape, dtype_from_name, dtype_name
from ..program.trace import Session, Traced, traced_among

DType = np.dtype[Any]


class Arrays:
    """Ops of the catalogue on arrays, under the names that `Session` has for traced values."""

    def op(self, op: str, *operands: Any, **attrs: Any) -> Any:
        return cpu().apply(op, attrs, *operands)

    def convert(self, x: Any, dtype: DType) -> Any:
        if x.dtype == dtype:
            return x
        op = "convert" if reaches(x.dtype, dtype) else "cast"
        return cpu().apply(op, {"dtype": dtype_name(dtype)}, x)

    def broadcast(self, x: Any, shape: Shape) -> Any:
        return np.broadcast_to(x, shape)

    def constant(self, value: Any, dtype: DType) -> Any:
        return np.asarray(value, dtype)


Ops: TypeAlias = Arrays | Session
NOW = Arrays()


def operands(call: str, *given: Any) -> tuple[Ops, list[Any]]:
    """The ops to call, and the operands as plain arrays in native byte order, or as traced values."""
    traced = traced_among(given)
    if traced is None:
        return NOW, [_native(as_ndarray(x, call, k)) for k, x in enumerate(given)]
    for k, x in enumerate(given):
        traced.session.slot(x, f"{call}: operand {k}")
    return traced.session, list(given)


def _native(x: Any) -> Any:
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def common(call: str, values: Sequence[Any]) -> DType:
    """NumPy's dtype for all of them."""
    try:
        found: DType = np.result_type(*(x.dtype for x in values))
    except TypeError as error:
        raise DTypeError(f"{call}: {error}") from None
    if class_of(found) == "other":
        raise DTypeError(
            f"{call}: operands of {dtype_name(found)} are no numbers; convert them first"
        )
    return found


def asked_dtype(call: str, dtype: Any) -> DType:
    try:
        return dtype_from_name(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    except TypeError:
        raise DTypeError(f"{call}(dtype={dtype!r:.60}) is no dtype") from None


def widened(dtype: DType) -> DType:
    """That of NumPy's sums: integers have at least as many bits as an index."""
    if dtype.kind in "bi":
        return np.result_type(dtype, np.int_)
    return np.result_type(dtype, np.uint) if dtype.kind == "u" else dtype


def one_axis(call: str, axis: Any, ndim: int, name: str = "axis") -> int:
    try:
        place = index(axis)
    except TypeError:
        raise CallError(f"{call}({name}={axis!r:.60}): give an integer") from None
    if not -ndim <= place < ndim:
        raise ShapeError(f"{call}({name}={axis}): the operand has {ndim} axes")
    return place % ndim


def several_axes(call: str, axis: Any, ndim: int) -> Axes:
    """The axes in increasing order; all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = sorted(one_axis(call, one, ndim) for one in given)
    if len(set(axes)) < len(axes):
        raise ShapeError(f"{call}(axis={axis}): an axis is named twice")
    return tuple(axes)


# ---- results -------------------------------------------------------------------------------------


class Out:
    """The array that a result is written into, if there is one."""

    def __init__(self, call: str, out: Any, ops: Ops) -> None:
        self.call, self.given, self.array = call, out, None
        if out is None:
            return
        if ops is not NOW:
            raise CallError(f"{call}(out=...): inside trace nothing is written into; leave it out")
        if is_torch(out):
            check_torch_out(out, call)
        elif not isinstance(out, np.ndarray):
            raise CallError(f"{call}(out=...): out is a {type(out).__name__}; pass an array")
        self.array = as_ndarray(out, f"{call}(out=...)", 0)
        if not self.array.flags.writeable:
            raise ConversionError(
                f"{call}(out=...): out is read-only; pass an array that can be written"
            )

    def fits(self, shape: Shape, dtype: DType, *operands: Any) -> bool:
        """Whether an op may write a result of this shape and dtype where `out` lies; checks both."""
        if self.array is None:
            return False
        if self.array.shape != tuple(shape):
            raise ShapeError(
                f"{self.call}(out=...): out has shape {self.array.shape}, the result {tuple(shape)}"
            )
        if not np.can_cast(dtype, self.array.dtype, "same_kind"):
            raise DTypeError(
                f"{self.call}(out=...): a result of {dtype_name(dtype)} is not written into "
                f"{dtype_name(self.array.dtype)}; pass an out of {dtype_name(dtype)}"
            )
        return self.array.dtype == dtype and not any(
            np.may_share_memory(self.array, x) for x in operands
        )

    def finished(self, result: Any, *given: Any) -> Any:
        """What the call returns; `given` are the operands as the user passed them."""
        if isinstance(result, Traced):
            return result
        if self.array is not None:
            if result is not self.array and not np.shares_memory(result, self.array):
                self.fits(result.shape, result.dtype)
                np.copyto(self.array, result, casting="same_kind")
            return self.given
        if any(map(is_torch, given)):
            return to_torch(result)
        return result if result.ndim else result[()]


def last(ops: Ops, out: Out, target: Any, op: str, *operands: Any, **attrs: Any) -> Any:
    """The last op of a call: on arrays it writes into `target`, a view of `out`, if that is not None."""
    if target is None or isinstance(ops, Session):
        return ops.op(op, *operands, **attrs)
    return cpu().apply(op, attrs, *operands, out=target)
