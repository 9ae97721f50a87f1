"""What tests on a real GPU share: `python -m pytest -m gpu` runs them, elsewhere they are skipped."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from einloom import backend
from einloom.backend.gpu import missing

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
