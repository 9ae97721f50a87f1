"""Keys: two words of 32 bits, of which others are made."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from .._base.errors import CallError, DTypeError, OptionError, ShapeError
from ..backend.cpu.draws import child
from ..backend.cpu.strided import MOST_AXES
from ..backend.door import as_ndarray
from ..program.trace import Traced
from .arguments import key_of, memory_for, shape_of, words_of
from .family import FOLD, drawn_there, record, split_keys

Array = np.ndarray[Any, Any]


def key(seed: int) -> Array:
    """The key of a seed: its upper and its lower 32 bits.

    Args:
        seed: 0 <= seed < 2**64.

    Returns:
        uint32[2], an array as any other: to be kept, sent and stored.

    Raises:
        OptionError: no integer, or out of range.

    >>> key(7)
    array([0, 7], dtype=uint32)
    """
    try:
        if isinstance(seed, (bool, np.bool_)):
            raise TypeError
        number = index(seed)
    except TypeError:
        raise OptionError(f"random.key(seed={seed!r:.60}): give an integer") from None
    if not 0 <= number < 1 << 64:
        raise OptionError(f"random.key(seed={seed}): give an integer from 0 to 2**64 - 1")
    return np.array([number >> 32, number & 0xFFFFFFFF], np.uint32)


def split(key: Any, shape: Any = 2) -> Any:
    """Keys that were made of a key: numbers drawn from them, and from it, are independent.

    The key of place i is Threefry(Threefry(key, (0, 255 << 24)), i). No number is drawn at that counter of
    the key, so that the key may still be used, for one draw.

    Args:
        key: uint32[2].
        shape: how many keys; an integer or a tuple.

    Returns:
        uint32[shape..., 2].

    Raises:
        CallError, DTypeError, ShapeError: no key, or no shape. MemoryLimitError: no memory is left.

    >>> import einloom
    >>> a, b = split(einloom.random.key(7))
    >>> a
    array([3167708984, 1935956553], dtype=uint32)
    """
    x, sizes = key_of("random.split", key), shape_of("random.split", shape)
    if (found := drawn_there("split", {"shape": sizes}, x)) is not None:
        return found
    if isinstance(x, Traced):
        return record("split", x, shape=sizes)
    if len(sizes) >= MOST_AXES:
        raise ShapeError(
            f"random.split(shape={shape!r:.60}): with their words keys have too many axes"
        )
    with memory_for("random.split", *sizes):
        return split_keys(words_of(x), sizes)


def fold_in(key: Any, data: Any) -> Any:
    """The key of a key and a number, such as that of a step, a rank or a replica.

    It is Threefry(Threefry(key, (1, 255 << 24)), data), and none that `split` makes.

    Args:
        key: uint32[2].
        data: 0 <= data < 2**64, or an array of integers >= 0, each of which gives a key.

    Returns:
        uint32[..., 2], with the axes of data in front.

    Raises:
        CallError, DTypeError, ShapeError: no key. OptionError, DTypeError: data is no such number.

    >>> import einloom
    >>> fold_in(einloom.random.key(7), 3)
    array([ 627638803, 3135332078], dtype=uint32)
    """
    x = key_of("random.fold_in", key)
    if isinstance(data, Traced):
        raise CallError("random.fold_in(data=...): inside trace data is an integer known by then")
    numbers = _data(data)
    if (found := drawn_there("fold_in", {"data": numbers}, x)) is not None:
        return found
    if not isinstance(x, Traced):
        return child(words_of(x), FOLD, numbers)
    if numbers.ndim:
        raise CallError("random.fold_in(data=...): inside trace it takes one integer")
    return record("fold_in", x, data=int(numbers))


def _data(data: Any) -> Array:
    """The numbers as uint64."""
    call = "random.fold_in"
    if isinstance(data, int) and not isinstance(data, bool):
        if not 0 <= data < 1 << 64:
            raise OptionError(f"{call}(data={data}): give an integer from 0 to 2**64 - 1")
        return np.array(data, np.uint64)
    x = as_ndarray(data, call, 1)
    if x.dtype.kind not in "iu":
        raise DTypeError(f"{call}: data of dtype {x.dtype}; give integers")
    if x.size and x.min() < 0:
        raise OptionError(f"{call}: data has {x.min()}; give integers from 0 to 2**64 - 1")
    return x.astype(np.uint64)
