"""When compiled kernels are worth their loading: at first plain NumPy does what it does to the same numbers.

Importing numba and loading a kernel takes 0.2 to half a second, thousands of times as long as the copy that
asked for it; to link kernels that are kept on disk takes a thirtieth of that, an eighth where LLVM does it
(`bare`). So copies and single products of large arrays, which NumPy computes alike bit for bit, are left to
it until that took `options.patience` seconds in all, or such a part of them where kernels are kept, or
something else has loaded one. A process that does little never loads a compiler; one that does much has lost
at most what loading takes.

Products of medium size, below what is worth a compiler once, have their kernels in the same way, each when
NumPy took as long for it alone as one takes (`_bind_often` of contraction.py).

All other work has its kernels from the first call: its numbers would change by a rounding.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..._base.caches import CacheInfo, register
from ..._base.options import get_options
from . import bare, objects
from .jit import is_loaded

SOONER, SOON = 1 / 30, 1 / 8  # of what importing numba takes: linking what is kept, here or by LLVM
ALONE = 1 / 100  # linking one kernel of few lines here: 1 to 5 ms (Zen 4)


class _Spent:
    """Seconds and calls of NumPy in place of kernels.

    Without a lock, which a process made by fork might inherit closed: an addition that is lost to another
    thread only puts off the kernels.
    """

    def __init__(self) -> None:
        self.clear()

    def add(self, seconds: float) -> None:
        self.seconds += seconds
        self.calls += 1

    def info(self) -> CacheInfo:
        return CacheInfo(self.calls, 0, 1, 0)

    def clear(self) -> None:
        self.seconds, self.calls = 0.0, 0


NAME = "calls before kernels were loaded"
_SPENT = _Spent()
register(NAME, _SPENT)


def loading_seconds(linking: float = SOONER) -> float:
    """What loading kernels is thought to take; `linking` of `patience` where they are linked here."""
    if not bare.are_kept():
        return get_options().patience
    return get_options().patience * (linking if objects.are_linked_here() else SOON)


def too_early() -> bool:
    """Whether NumPy should do this, inside `counted`."""
    now, spent = get_options(), _SPENT.seconds
    if now.small <= 0 or spent >= now.patience or is_loaded():
        return False
    # what is kept is looked for where it matters: reading the sources that tell takes as long as a short call
    return spent < now.patience * min(SOON, SOONER) or spent < loading_seconds()


@contextmanager
def counted() -> Iterator[None]:
    """Count what NumPy takes here."""
    start = time.perf_counter()
    try:
        yield
    finally:
        _SPENT.add(time.perf_counter() - start)
