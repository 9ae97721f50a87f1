"""What codes of a batch say, which lie on the device: whether any is set, and NaN for members whose is.

A kernel of our own says whether any is set, in a word of page-locked memory that a card writes to as to its
own (addresses are the same on both sides): the host waits for the stream and reads it. Nothing is copied, and
nothing has to be cleared before: a word is 0 when it is lent, and whoever finds it set clears it.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .cuda import codes as kernels
from .launch import can_launch, launch
from .modules import Array, Module, companion

FEW = 4096  # codes, which are brought to the host as they are where no kernel looks at them


class _Word(NamedTuple):
    """One int32, as the host and as kernels see it."""

    here: Any
    there: Array


_IDLE: dict[Module, list[_Word]] = {}
"""Words that no call is using: each call takes one of its own."""
_LOST: list[_Word] = []
"""Those whose call failed: they are not lent again, and their memory is nobody else's."""


def any_set(xp: Module, info: Array) -> bool:
    """Whether a code is not 0; it waits for the stream."""
    if not info.size:
        return False
    if not can_launch(xp) or not info.flags.c_contiguous:
        told = info.get() if info.size <= FEW else info
        return bool(told.any())
    idle = _IDLE.get(xp)
    if idle is None:
        idle = _IDLE.setdefault(xp, [])
    try:
        word = idle.pop()
    except IndexError:
        word = _new_word(xp)
    try:
        launch(xp, kernels.any_set(info.size), word.there, info)
        xp.cuda.get_current_stream().synchronize()
    except BaseException:  # the kernel may write to it yet
        _LOST.append(word)
        raise
    found = bool(word.here[0])
    if found:
        word.here[0] = 0
    idle.append(word)
    return found


def _new_word(xp: Module) -> _Word:
    here = companion(xp, "").empty_pinned(1, np.int32)
    here[0] = 0
    memory = xp.cuda.UnownedMemory(here.ctypes.data, here.nbytes, here, xp.cuda.Device().id)
    return _Word(here, xp.ndarray((1,), np.int32, xp.cuda.MemoryPointer(memory, 0)))


def filled(xp: Module, outputs: tuple[Array, ...], info: Array) -> tuple[Array, ...]:
    """NaN in floating outputs, -1 in integers, for members whose code is not 0; nothing waits.

    Outputs whose members lie one behind the other are written over: they are nobody else's.
    """
    made = []
    for x in outputs:
        if not _overwrites(xp, x, info):
            bad = (info != 0).reshape(info.shape + (1,) * (x.ndim - info.ndim))
            x = xp.where(bad, xp.full((), _lost(x.dtype), x.dtype), x)
        made.append(x)
    return tuple(made)


def _overwrites(xp: Module, x: Array, info: Array) -> bool:
    """Whether a kernel of our own did it, or there was nothing to do."""
    if not x.size:
        return True
    if not can_launch(xp) or not info.flags.c_contiguous or x.itemsize % 4:
        return False
    if not x.flags.c_contiguous and not (
        x.ndim - info.ndim == 2 and x.swapaxes(-1, -2).flags.c_contiguous
    ):
        return False
    words = math.prod(x.shape[info.ndim :]) * x.itemsize // 4
    launch(xp, kernels.overwritten(info.size, words, _pattern(x.dtype)), x, info)
    return True


def _lost(dtype: np.dtype[Any]) -> Any:
    return -1 if dtype.kind in "iu" else np.nan


@cache
def _pattern(dtype: np.dtype[Any]) -> tuple[int, ...]:
    """The words of one element."""
    element = np.full(1, _lost(dtype), dtype)
    return tuple(int(word) for word in element.view(np.int32))
