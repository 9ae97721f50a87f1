"""One text for arrays and for traced values: it is recorded, and for arrays run at once and kept.

A function of this package checks its arguments and writes its ops into a `Session`. Inside `einloom.trace`
that is the caller's; outside one is made for the operands' dtypes and shapes, and the executable of its
program is kept for the next call of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

from .._base.caches import Cache
from .._base.errors import CallError, ConversionError, DTypeError, ShapeError
from .._base.options import get_options
from ..backend.choice import check_together, elsewhere, placed, shown
from ..backend.cpu.backend import cpu
from ..backend.cpu.strided import overlaps_itself
from ..backend.door import as_ndarray, check_torch_out, is_torch, to_torch
from ..backend.dtypes import class_of
from ..backend.lent import overlap, returned
from ..backend.protocol import Backend
from ..backend.spec import ArraySpec, Axes, Shape, dtype_from_name, dtype_name
from ..program.executable import Executable
from ..program.passes import optimise
from ..program.trace import Session, Traced, traced_among

DType = np.dtype[Any]
Record = Callable[..., Any]
"""Record(session, *values, *settings): the ops of a function appended to a trace; one value or several."""

_EXECUTABLES: Cache[Executable] = Cache("functions", 512)


def operands(call: str, *given: Any, native: bool = True) -> list[Any]:
    """The operands as plain arrays, in native byte order if `native`, or as they are where all lie on one
    device; or all as values of one trace."""
    traced = traced_among(given)
    if traced is None:
        backend, there = placed(call, given)
        if backend is not None:
            return list(there)
        found = [as_ndarray(x, call, k) for k, x in enumerate(given)]
        return [_native(x) for x in found] if native else found
    for k, x in enumerate(given):
        traced.session.slot(x, f"{call}: operand {k}")
    return list(given)


def _native(x: Any) -> Any:
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def evaluated(
    record: Record, values: Sequence[Any], *settings: Any, out: Any = None, several: bool = False
) -> Any:
    """What `record` gives for values of a trace; or its results for arrays, in `out` if given.

    `settings` are checked: equal ones, such as 1 and True, must mean the same.
    """
    if isinstance(values[0], Traced):
        return record(values[0].session, *values, *settings)
    specs = tuple((x.dtype, x.shape) for x in values)
    backend = (
        cpu() if type(values[0]) is np.ndarray else elsewhere(record.__name__, values) or cpu()
    )
    key = (backend, record.__module__, record.__qualname__, specs, settings, get_options())
    run = _EXECUTABLES.get(key) or _EXECUTABLES.put(
        key, _recorded(record, specs, settings, backend)
    )
    return run(*values) if several else run(*values, out=out)


def _recorded(
    record: Record, specs: Any, settings: tuple[Any, ...], backend: Backend
) -> Executable:
    session = Session({})
    found = record(session, *(session.input(ArraySpec(*spec)) for spec in specs), *settings)
    several = found if isinstance(found, tuple) else (found,)
    program = session.build.finish(*(session.slot(x, "a result") for x in several))
    return Executable(optimise(program), backend)


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
        found = dtype_from_name(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    except TypeError:
        raise DTypeError(f"{call}(dtype={dtype!r:.60}) is no dtype") from None
    return found if found.isnative else found.newbyteorder("=")


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


SHARED = "{}(out=...): elements of out share memory; pass an array of its own"


class Out:
    """The array that a result is written into, if there is one."""

    def __init__(self, call: str, out: Any, values: Sequence[Any] = ()) -> None:
        self.call, self.given, self.array = call, out, None
        self.backend: Backend | None = None  # of the device on which it lies
        if out is None:
            return
        if values and isinstance(values[0], Traced):
            raise CallError(f"{call}(out=...): inside trace nothing is written into; leave it out")
        if type(out) is not np.ndarray and is_torch(out):
            check_torch_out(out, call)
            (out,) = shown(f"{call}(out=...)", [out])
        self.backend = elsewhere(f"{call}(out=...)", [out])
        if (there := self.backend or elsewhere(call, values)) is not None:
            check_together(f"{call}(out=...)", there, [out, *values])
            if overlaps_itself(out):
                raise CallError(SHARED.format(call))
            self.array = out
            return
        if not isinstance(out, np.ndarray) and not is_torch(out):
            raise CallError(f"{call}(out=...): out is a {type(out).__name__}; pass an array")
        self.array = as_ndarray(out, f"{call}(out=...)", 0)
        if not self.array.flags.writeable:
            raise ConversionError(
                f"{call}(out=...): out is read-only; pass an array that can be written"
            )
        if overlaps_itself(self.array):
            raise CallError(SHARED.format(call))

    def place(self, shape: Shape, dtype: DType, *operands: Any) -> Any:
        """Where a result of this shape and dtype may be written at once: `out` or None; checks both."""
        if self.array is None:
            return None
        if self.array.shape != tuple(shape):
            raise ShapeError(
                f"{self.call}(out=...): out has shape {self.array.shape}, the result {tuple(shape)}"
            )
        if not np.can_cast(dtype, self.array.dtype, "same_kind"):
            raise DTypeError(
                f"{self.call}(out=...): a result of {dtype_name(dtype)} is not written into "
                f"{dtype_name(self.array.dtype)}; pass an out of {dtype_name(dtype)}"
            )
        shares = np.may_share_memory if self.backend is None else overlap
        if self.array.dtype != dtype or any(shares(self.array, x) for x in operands):
            return None
        return self.array

    def finished(self, result: Any, *given: Any) -> Any:
        """What the call returns; `given` are the operands as the user passed them."""
        if isinstance(result, Traced):
            return result
        if self.array is not None:
            if not np.may_share_memory(result, self.array):  # else it was written there
                self.place(result.shape, result.dtype)
                (self.backend or cpu()).assign(self.array, result)
            if self.backend is not None:
                return returned(self.backend, self.array, given, self.given)
            return self.given
        if any(map(is_torch, given)):
            backend = elsewhere(self.call, [result])
            return to_torch(result) if backend is None else returned(backend, result, given)
        return result if result.ndim else result[()]
