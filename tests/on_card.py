"""What tests on a real GPU share: `python -m pytest -m gpu` runs them, elsewhere they are skipped.

The constants say where a card may differ from the CPU, and why.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from einloom import backend
from einloom.backend.gpu import missing

OTHER_PIVOTS = True
"""cuBLAS takes the largest of a complex column by modulus, LAPACK by |re| + |im|: of LU the product is
compared, not the factors."""
IN_PLACE = False
"""What is brought to the host is a copy: whether a result of `einsum` is a view is not looked at."""
ROUNDING_OF_FFT = 8
"""Times the bound of the CPU's transforms: cuFFT takes Bluestein's algorithm for primes, and no Rader's."""

WHY = missing()
MARKS = [pytest.mark.gpu, pytest.mark.skipif(WHY is not None, reason=f"{WHY}")]


def up(x: Any) -> Any:
    """An array of the host on the card, with the strides that it has here; what is none stays as it is."""
    if not isinstance(x, np.ndarray):
        return x
    gpu: Any = backend.get("gpu")
    if not x.size:
        return gpu.to_device(x)
    steps = [(n - 1) * stride for n, stride in zip(x.shape, x.strides, strict=True)]
    before = -sum(step for step in steps if step < 0)
    size = before + sum(step for step in steps if step > 0) + x.itemsize
    memory = (ctypes.c_ubyte * size).from_address(x.__array_interface__["data"][0] - before)
    room = gpu.to_device(np.frombuffer(memory, np.uint8))
    return gpu.xp.ndarray(x.shape, x.dtype, room.data + before, x.strides)


def down(x: Any) -> Any:
    """Results on the host: nothing may have left the card."""
    if isinstance(x, tuple):
        return tuple(down(one) for one in x)
    if isinstance(x, (bool, str)):
        return x
    gpu: Any = backend.get("gpu")
    assert isinstance(x, gpu.xp.ndarray), f"left the device: {type(x)}"
    return gpu.to_host(x)
