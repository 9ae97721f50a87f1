"""Random orders."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from .._base.errors import CallError, ConversionError, ShapeError
from ..backend.choice import placed
from ..backend.cpu.random_orders import order
from ..backend.dims import DimExpr
from ..backend.door import as_ndarray, is_torch, to_torch
from ..backend.lent import returned
from ..program.trace import Traced
from .arguments import THERE, key_of, memory_for, refuse_out, refuse_shared, words_of
from .family import drawn_there, record


def permutation(key: Any, x: Any, axis: int = 0, *, out: Any = None) -> Any:
    """The integers below x, or the slices of an array along an axis, in a random order.

    Every place gets 64 random bits and the places are sorted by them; equal ones, one pair in 2**65 / n**2
    calls, keep their order.

    Args:
        key: uint32[2], see `key`.
        x: an integer >= 0, or an array with one axis at least.
        axis: of the array; slices along it stay whole.
        out: where the result is written; of the result's shape and dtype.

    Returns:
        int64[x], or an array like x; `out` if given.

    Raises:
        CallError, DTypeError, ShapeError: an argument without meaning. MemoryLimitError: no memory is left.

    As `numpy.random.Generator.permutation`. Sorting takes O(n log n).

    >>> import einloom
    >>> key = einloom.random.key(7)
    >>> permutation(key, 5)
    array([2, 3, 0, 4, 1])
    >>> permutation(key, [[1, 2, 3], [4, 5, 6]], axis=1)
    array([[3, 1, 2],
           [6, 4, 5]])
    """
    call = "random.permutation"
    key = key_of(call, key)
    if isinstance(x, (int, np.integer, DimExpr)) and not isinstance(x, bool):
        return _of_integers(call, key, x, out)
    backend, (array,) = placed(call, (x,))
    if backend is None and not isinstance(x, Traced):
        array = as_ndarray(x, call, 1)
    if not array.shape:
        raise ShapeError(
            f"{call}: x is a number; pass an integer, or an array with one axis at least"
        )
    place = _axis(call, array, axis)
    if isinstance(key, Traced) or isinstance(array, Traced):
        refuse_out(call, out)
        session = (array if isinstance(array, Traced) else key).session
        session.slot(key, f"{call}: key")
        session.slot(array, f"{call}: x")
        return record("permutation", key, array, axis=place)
    if (found := drawn_there("permutation", {"axis": place}, key, array)) is not None:
        refuse_out(call, out, THERE)
        return found if backend is None else returned(backend, found, (x,))
    target = None if out is None else _target(call, out, array.shape, array.dtype)
    with memory_for(call, *array.shape):
        found = np.take(array, order(words_of(key), array.shape[place]), place)
    if target is None:
        return to_torch(found) if is_torch(x) else found
    np.copyto(target, found)
    return out


def _of_integers(call: str, key: Any, n: Any, out: Any) -> Any:
    if not isinstance(n, DimExpr) and n < 0:
        raise ShapeError(f"{call}(x={n}): give an integer >= 0, or an array")
    if isinstance(key, Traced):
        refuse_out(call, out)
        return record("permutation", key, n=n)
    if (found := drawn_there("permutation", {"n": int(n)}, key)) is not None:
        refuse_out(call, out, THERE)
        return found
    target = None if out is None else _target(call, out, (int(n),), np.dtype(np.int64))
    is_plain = target is None or (target.flags.c_contiguous and target.flags.aligned)
    with memory_for(call, int(n)):
        found = order(words_of(key), int(n), target if is_plain else None)
    if target is None:
        return found
    if not is_plain:
        np.copyto(target, found)
    return out


def _axis(call: str, x: Any, axis: Any) -> int:
    try:
        place = index(axis)
    except TypeError:
        raise CallError(f"{call}(axis={axis!r:.60}): give an integer") from None
    if not -x.ndim <= place < x.ndim:
        raise ShapeError(f"{call}(axis={axis}): x has {x.ndim} axes, of shape {x.shape}")
    return place % x.ndim


def _target(call: str, out: Any, shape: Any, dtype: Any) -> Any:
    found = as_ndarray(out, f"{call}(out=...)", 0)
    if found.shape != shape or found.dtype != dtype:
        raise ShapeError(
            f"{call}(out=...): out is {found.dtype} of shape {found.shape}; give {dtype} of {shape}"
        )
    if not found.flags.writeable:
        raise ConversionError(f"{call}(out=...): out is read-only")
    refuse_shared(call, found)
    return found
