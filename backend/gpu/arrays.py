"""What all ops share: operands widened, results rounded and put where they belong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec, Axes, Shape, compute_dtype
from .cuda.layout import Operand, operand_of
from .memory import address
from .modules import Module

Binder = Callable[[Module, Attrs, tuple[ArraySpec, ...], ArraySpec], Kernel]
"""Makes the kernel of an op on an array module."""


def into(xp: Module, compute: Callable[..., Any], output: ArraySpec) -> Kernel:
    """A kernel from what computes a new array; that is rounded to the output's dtype.

    CuPy's functions seldom take `out`, and none of another dtype: one copy more where it is given.
    """

    def run(*operands: Any, out: Any = None) -> Any:
        return put(xp, compute(*operands), output, out)

    return run


def put(xp: Module, result: Any, output: ArraySpec, out: Any = None) -> Any:
    """The result in `out`, or in the output's dtype."""
    if out is None:
        return result if result.dtype == output.dtype else result.astype(output.dtype)
    xp.copyto(out, result, casting="unsafe")
    return out


def widened(operands: Sequence[Any]) -> list[Any]:
    """Half precisions in single precision, others as they are."""
    return [x.astype(compute_dtype(x.dtype), copy=False) for x in operands]


def scalar(value: Any, dtype: np.dtype[Any]) -> Any:
    """A Python number as a NumPy scalar, which every array module takes; overflow is infinite."""
    with np.errstate(all="ignore"):
        return np.array(value).astype(dtype)[()]


def filled(xp: Module, shape: Shape, value: Any, dtype: np.dtype[Any]) -> Any:
    """An array of one number; where that is -0.0 too, which CuPy's `full` makes 0.0 by clearing memory."""
    number = scalar(value, dtype)
    if number != 0 or number.dtype.kind not in "fVc" or not number.tobytes().strip(b"\0"):
        return xp.full(shape, number, dtype)
    made = xp.ones(shape, dtype)
    if dtype.kind != "c":
        made *= number
        return made
    made.real *= number.real
    made.imag = number.imag * xp.ones(shape, number.real.dtype)
    return made


def element_strides(x: Any) -> Axes | None:
    """Strides in elements; None where they are no whole number of them, or x lies between elements.

    What is not aligned to its size, a field of records say, a kernel may not read: the card would stop.
    """
    size = x.itemsize
    if address(x) % size or any(stride % size for stride in x.strides):
        return None
    return tuple(stride // size for stride in x.strides)


def operands_of(arrays: Sequence[Any]) -> tuple[Operand, ...] | None:
    """Arrays as kernels are told of them; None where one lies as `element_strides` refuses it."""
    found = [None if address(x) % x.itemsize else operand_of(x) for x in arrays]
    known = tuple(one for one in found if one is not None)
    return known if len(known) == len(found) else None


def flat(xp: Module, x: Any) -> Any:
    """The elements in row-major order; a copy where they do not lie so."""
    return xp.ascontiguousarray(x).reshape(-1)


def steps(shape: Shape) -> list[int]:
    """Elements from one index to the next of a row-major array."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def along(xp: Module, n: int, axis: int, rank: int) -> Any:
    """0 to n - 1 along one axis of `rank`."""
    return xp.arange(n, dtype=np.int64).reshape((1,) * axis + (n,) + (1,) * (rank - axis - 1))
