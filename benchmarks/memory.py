"""Peaks of memory: operands, intermediates, scratch and result at the worst moment of a call.

tracemalloc counts what NumPy allocates. The memory that einloom lends is mapped, which it does not see, so
that while somebody is measured it comes from Python instead; what the cache keeps during a call counts. What
torch and XLA allocate cannot be seen, nor the packed blocks inside BLAS and TBLIS: of the former no peaks are
told.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any
from unittest import mock

from einloom.backend.cpu import buffers, cpu

from .machine import Contender

SLACK = 512 << 10  # bytes: Python's own objects, and the buffers of NumPy's loops


def peak_bytes(call: Contender, operands: Sequence[Any]) -> int:
    """Most bytes in use at once during a call that has run before, its operands included."""
    cpu().reclaim()
    with mock.patch.object(buffers, "_pages", bytearray):
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
