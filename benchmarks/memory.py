"""Peaks of memory: operands, intermediates, scratch and result at the worst moment of a call.

tracemalloc counts what NumPy allocates. The memory that einloom lends is mapped, which it does not see, so
that while somebody is measured it comes from Python instead. What einloom's cache of buffers keeps for later
is not in use; with `held` it is counted too. What torch and XLA allocate cannot be seen, nor packed blocks
inside BLAS and TBLIS: of torch and XLA no peaks are told.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any
from unittest import mock

from einloom.backend.cpu import buffers, cpu

from .machine import Contender

SLACK = 512 << 10  # bytes: Python's own objects, and the buffers of NumPy's loops


def peak_bytes(call: Contender, operands: Sequence[Any], held: bool = False) -> int:
    """Most bytes in use at once during a call that has run before, its operands included.

    With `held`, what the cache of buffers kept at that moment counts as well.
    """
    limit = buffers.BUFFERS.limit if held else 0
    cpu().reclaim()
    with (
        mock.patch.object(buffers, "_pages", bytearray),
        mock.patch.object(buffers.BUFFERS, "_limit", limit),
    ):
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            call()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            cpu().reclaim()
    return peak - before + sum(x.nbytes for x in operands)
