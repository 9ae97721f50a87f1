"""What the caller wrote: keys, shapes, dtypes and `out`, checked and in one form."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from operator import index
from typing import Any

import numpy as np

from .._base.errors import CallError, DTypeError, MemoryLimitError, OptionError, ShapeError
from ..backend.choice import elsewhere
from ..backend.cpu.buffers import empty
from ..backend.cpu.draws import Key
from ..backend.cpu.strided import MOST_AXES, overlaps_itself
from ..backend.dims import DimExpr, as_size
from ..backend.door import as_ndarray
from ..backend.spec import Shape, dtype_from_name, dtype_name
from ..program.trace import Traced

Array = np.ndarray[Any, Any]

REMEDY = "make keys by einloom.random.key(seed), and others of them by split and fold_in"


def key_of(call: str, key: Any) -> Any:
    """The key as a plain array of two words; a traced value, or an array of a device, as it is."""
    if isinstance(key, (int, np.integer)):
        raise CallError(f"{call}(key={key!r}): a seed is no key; {REMEDY}")
    is_plain = type(key) is np.ndarray or not (
        isinstance(key, Traced) or elsewhere(call, (key,)) is not None
    )
    x = as_ndarray(key, call, 0) if is_plain else key
    if is_plain and not x.dtype.isnative:
        x = x.astype(x.dtype.newbyteorder("="))
    if x.dtype != np.uint32:
        raise DTypeError(f"{call}: the key has dtype {dtype_name(x.dtype)}, not uint32; {REMEDY}")
    if x.shape != (2,):
        raise ShapeError(f"{call}: the key has shape {x.shape}, not (2,); pass one of several keys")
    return x


def words_of(key: Array) -> Key:
    """The words of a key, the upper word of its seed first."""
    return int(key[0]), int(key[1])


def shape_of(call: str, shape: Any) -> Shape:
    """A shape as a tuple of sizes; an integer is one size."""
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    if any(isinstance(n, DimExpr) for n in given):
        return tuple(map(as_size, given))
    try:
        sizes = tuple(index(n) for n in given)
    except TypeError:
        raise CallError(
            f"{call}(shape={shape!r:.60}): give an integer, or a tuple of them"
        ) from None
    if any(n < 0 for n in sizes):
        raise ShapeError(f"{call}(shape={shape!r:.60}): sizes are >= 0")
    if len(sizes) > MOST_AXES:
        raise ShapeError(
            f"{call}(shape={shape!r:.60}): an array has at most {MOST_AXES} axes, not {len(sizes)}"
        )
    return sizes


def dtype_of(call: str, dtype: Any, allowed: tuple[str, ...]) -> np.dtype[Any]:
    """One of the dtypes that the function draws, in native byte order."""
    try:
        found = dtype_from_name(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    except TypeError:
        raise DTypeError(f"{call}(dtype={dtype!r:.60}) is no dtype") from None
    if dtype_name(found) not in allowed or not found.isnative:
        raise DTypeError(
            f"{call}(dtype={dtype_name(found)}): it draws {', '.join(allowed)}; draw one of these and "
            f"convert it"
        )
    return found


class Target:
    """Where numbers go: `array` is row-major, and of the shape and dtype asked for."""

    def __init__(
        self, call: str, shape: Any, dtype: Any, out: Any, default: Any, allowed: tuple[str, ...]
    ) -> None:
        self.call, self.given, self.out = call, None, None
        if out is None:
            self.shape = shape_of(call, () if shape is None else shape)
            self.dtype = dtype_of(call, default if dtype is None else dtype, allowed)
            return
        self.given, self.out = out, as_ndarray(out, f"{call}(out=...)", 0)
        self.shape, self.dtype = self.out.shape, dtype_of(call, self.out.dtype, allowed)
        if shape is not None and shape_of(call, shape) != self.shape:
            raise ShapeError(
                f"{call}(shape={shape}): out has shape {self.shape}; leave one of them out"
            )
        if dtype is not None and dtype_of(call, dtype, allowed) != self.dtype:
            raise DTypeError(
                f"{call}(dtype={dtype}): out has dtype {self.dtype}; leave one of them out"
            )
        if not self.out.flags.writeable:
            raise OptionError(
                f"{call}(out=...): out is read-only; pass an array that can be written"
            )
        refuse_shared(call, self.out)

    @property
    def array(self) -> Array:
        out = self.out
        if out is not None and out.flags.c_contiguous and out.flags.aligned:
            return out
        return empty(self.shape, self.dtype)

    def result(self, array: Array) -> Any:
        """What the call returns: `out`, or the array, of no axes the number in it."""
        if self.out is None:
            return array if array.ndim else array[()]
        if array is not self.out:
            np.copyto(self.out, array)
        return self.given


MOST_NUMBERS = 1 << 59  # of 16 bytes each: an address reaches no more


@contextmanager
def memory_for(call: str, *shape: int) -> Iterator[None]:
    """A draw of this shape, for which there may be no memory."""
    try:
        if math.prod(n for n in shape if n) >= MOST_NUMBERS:
            raise MemoryError("an address does not reach as far")
        yield
    except MemoryLimitError:
        raise
    except MemoryError as error:
        raise MemoryLimitError(
            f"{call}: no memory for a draw of shape {shape} ({error}); draw parts of it, each with a key of "
            f"its own by fold_in"
        ) from None


def refuse_shared(call: str, out: Any) -> None:
    if overlaps_itself(out):
        raise CallError(f"{call}(out=...): elements of out share memory; pass an array of its own")


THERE = "for a key of a device"


def refuse_out(call: str, out: Any, where: str = "inside trace") -> None:
    if out is not None:
        raise CallError(f"{call}(out=...): {where} nothing is written into; leave it out")
