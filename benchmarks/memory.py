"""Peaks of memory: operands, intermediates, scratch and result at the worst moment of a call.

tracemalloc counts what NumPy allocates, and with it the buffers that einloom lends. It does not see what
torch and XLA allocate, nor the packed blocks inside BLAS and TBLIS: no peaks are told of the former.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any

from einloom.backend.cpu import cpu

from .machine import Contender

SLACK = 512 << 10  # bytes: Python's own objects, and the buffers of NumPy's loops


def peak_bytes(call: Contender, operands: Sequence[Any]) -> int:
    """Most bytes in use at once during a call that has run before, its operands included."""
    cpu().reclaim()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        call()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - before + sum(x.nbytes for x in operands)
