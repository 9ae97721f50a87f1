"""What stands around a run: alpha and beta, `out`, the order of the result, and whether memory suffices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from .._base.errors import DTypeError, MemoryLimitError, OptionError, ShapeError
from .._base.memory import available_bytes
from .._base.numbers import format_bytes
from ..backend.cpu import cpu
from ..backend.door import to_torch
from ..backend.protocol import Backend
from ..backend.spec import ArraySpec
from ..program.sliced import SlicedExecutable
from .plan import Plan

CHECK_FROM = 64 << 20
"""Bytes of intermediates and result below which a call does not ask the system how much memory is left."""
ONE, ZERO = 1, 0  # the defaults of alpha and beta: the same objects when nothing is given


def native(x: Any) -> Any:
    """x itself, or a copy in this machine's byte order."""
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


class Runs(Protocol):
    """What `deliver` runs: `Executable`, `SlicedExecutable`, or products in line."""

    backend: Any

    @property
    def is_view(self) -> bool: ...

    def __call__(self, *operands: Any, out: Any = None) -> Any: ...


def deliver(
    executable: Runs,
    plan: Plan,
    operands: Sequence[Any],
    out: Any,
    alpha: Any,
    beta: Any,
    donate: tuple[int, ...] = (),
) -> Any:
    """Run and hand over: alpha * result + beta * out, into `out` when given."""
    if donate:
        executable = _Giving(executable, donate)
    if plan.strip_exponent:
        return _deliver_scaled(executable, plan, operands, out, alpha, beta)
    alpha, beta = factors(plan, alpha, beta)
    scaled = alpha != 1 or beta != 0
    if out is None:
        if scaled and beta != 0:
            raise OptionError(
                "einsum(beta=...): beta scales `out`; give out= as well, or leave beta 0"
            )
        if isinstance(executable, SlicedExecutable):
            result = executable(
                *operands, alpha=alpha if scaled else 1, order=order_of(plan.order, operands)
            )
            return result if result.ndim else result[()]
        result = executable(*operands)
        if scaled:
            target = np.empty_like(result) if executable.is_view else result
            result = executable.backend.assign(target, result, alpha)
        if result.ndim == 0:
            return result[()]
        if plan.order != "K" and not executable.is_view:  # a view keeps its order, as NumPy's does
            result = in_order(executable.backend, result, order_of(plan.order, operands))
        # a program without instructions returns its operand: give a new view, as NumPy does
        return result.view() if any(result is x for x in operands) else result
    shape = tuple(plan.network.extents[label] for label in plan.network.output_axes)
    check_out(out, shape)
    overlaps = any(np.may_share_memory(out, x) for x in operands)
    if isinstance(executable, SlicedExecutable):
        if not overlaps:
            return executable(
                *operands, out=out, alpha=alpha if scaled else 1, beta=beta if scaled else 0
            )
    elif not scaled and not overlaps and out.dtype == plan.dtype:
        return executable(*operands, out=out)
    result = executable(*operands)
    if overlaps and np.may_share_memory(out, result):
        result = result.copy()  # a view of an operand: it must not change while it is read
    return executable.backend.assign(out, result, alpha, beta)


class _Giving:
    """An executable whose calls give some of their arrays away."""

    def __init__(self, executable: Any, donate: tuple[int, ...]) -> None:
        self._executable, self._donate = executable, donate
        self.backend, self.is_view = executable.backend, executable.is_view

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        return self._executable(*arrays, out=out, donate=self._donate)


def _deliver_scaled(
    executable: Runs,
    plan: Plan,
    operands: Sequence[Any],
    out: Any,
    alpha: Any,
    beta: Any,
) -> tuple[Any, float]:
    """(mantissa, exponent), the mantissa in `out` when given."""
    if is_given(alpha, 1) or is_given(beta, 0):
        raise OptionError(
            "einsum(alpha=..., beta=...): with strip_exponent=True nothing is scaled or added to; "
            "multiply the mantissa yourself"
        )
    if out is not None:
        check_out(out, tuple(plan.network.extents[label] for label in plan.network.output_axes))
    mantissa, exponent = executable(*operands)
    if out is not None:
        mantissa = executable.backend.assign(out, mantissa)
    elif mantissa.ndim == 0:
        mantissa = mantissa[()]
    elif plan.order != "K":
        mantissa = np.asarray(mantissa, order=order_of(plan.order, operands))  # type: ignore[call-overload]
    return mantissa, float(exponent)


def owned(result: Any, plan: Plan, order: str) -> Any:
    """What slices gave as a call would: numbers without axes, the order asked for, a float exponent."""
    mantissa, exponent = result if plan.strip_exponent else (result, None)
    if mantissa.ndim == 0:
        mantissa = mantissa[()]
    elif plan.order != "K":
        mantissa = in_order(cpu(), mantissa, order)
    return mantissa if exponent is None else (mantissa, float(exponent))


def as_torch(result: Any) -> Any:
    """A result as a torch tensor; of a mantissa and its exponent, the mantissa."""
    return (to_torch(result[0]), result[1]) if type(result) is tuple else to_torch(result)


def order_of(order: str, operands: Sequence[Any]) -> str:
    """The memory order of a new result; "A" is "F" if all operands are Fortran-ordered."""
    if order == "A":
        fortran = all(x.flags.f_contiguous and not x.flags.c_contiguous for x in operands)
        return "F" if fortran else "C"
    return "C" if order == "K" else order


def in_order(backend: Backend, x: Any, order: str) -> Any:
    """x itself, or a copy, in row-major or column-major order."""
    if x.flags.f_contiguous if order == "F" else x.flags.c_contiguous:
        return x
    axes = tuple(range(x.ndim))
    layout = axes[::-1] if order == "F" else None
    return backend.assign(backend.empty(ArraySpec(x.dtype, x.shape, layout)), x)


def check_out(out: Any, shape: tuple[int, ...]) -> None:
    """Refuse an `out` that is no writeable array of the result's shape."""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise DTypeError(f"einsum(out=...): out must be a numpy.ndarray, got {type(out).__name__}")
    if out.shape != shape:
        raise ShapeError(
            f"einsum(out=...): out has shape {out.shape}, the result has shape {shape}"
        )
    if not out.flags.writeable:
        raise ShapeError("einsum(out=...): out is read-only; pass a writeable array")


def check_memory(
    needed: int, held: int, call: str = "einsum", what: str = "intermediates and result"
) -> None:
    """Refuse what cannot fit beside the arrays that the caller already holds."""
    available = available_bytes()
    if available is not None and needed > available:
        if needed <= available + cpu().buffer_info().kept_bytes:
            cpu().reclaim()  # what the buffer cache keeps makes room
            return
        raise MemoryLimitError(
            f"{call}: the predicted peak of {what} is {format_bytes(needed)}, but "
            f"{format_bytes(available)} are available. Try memory_limit={available + held} (bytes, "
            f"operands included) to ask for a plan that fits, a smaller dtype, or a better path"
        )


_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3, "O": 4}


def factors(plan: Plan, alpha: Any, beta: Any) -> tuple[Any, Any]:
    """alpha and beta as numbers that the result's dtype holds."""
    if is_given(alpha, 1) or is_given(beta, 0):
        return as_factor(alpha, plan.dtype, "alpha"), as_factor(beta, plan.dtype, "beta")
    return ONE, ZERO


def is_given(value: Any, default: int) -> bool:
    return value is not default and not (type(value) in (int, float) and value == default)


def as_factor(value: Any, dtype: np.dtype[Any], name: str) -> Any:
    """alpha or beta as a number that the result's dtype holds: 0 and 1 of any type are plain."""
    try:
        array = np.asarray(value)
        if array.ndim != 0 or array.dtype.kind not in "biufcOV":
            raise TypeError
    except (TypeError, ValueError):
        raise DTypeError(f"einsum({name}=...): give a number, got {type(value).__name__}") from None
    for plain in (0, 1):  # they leave `out` unread, or the result as it is
        if value == plain:
            return plain
    try:
        if dtype.kind in _RANK and _RANK.get(array.dtype.kind, 2) > _RANK[dtype.kind]:
            raise TypeError
        np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError):
        raise DTypeError(
            f"einsum({name}={value!r:.60}): the result has dtype {dtype}, which cannot hold that "
            f"factor; pass dtype= to compute in a wider one"
        ) from None
    return value
