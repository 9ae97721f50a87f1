"""CuPy on first need, what is missing where it cannot be used, and the modules beside it.

Ops are written over an array module `xp`, never over cupy itself: one that stands in for it says by
`xp.companion(name)` what it has in place of the modules of cupyx.
"""

from __future__ import annotations

import importlib
from typing import Any

from ..._base.errors import DeviceError

INSTALL = 'pip install "einloom[gpu]" (CuPy for CUDA 12), or the wheel of CuPy for your CUDA'
Array = Any
Module = Any
"""An array module: cupy, or what stands in for it."""


def companion(xp: Module, name: str) -> Any:
    """The module of cupyx of that name, cupyx itself for none; ImportError where a library is missing."""
    own = getattr(xp, "companion", None)
    return own(name) if own is not None else importlib.import_module(f"cupyx.{name}".rstrip("."))


def missing(import_module: Any = importlib.import_module) -> str | None:
    """What keeps the GPU from being used, and what to do; None if nothing does.

    >>> def no_cupy(name):
    ...     raise ModuleNotFoundError("No module named 'cupy'", name="cupy")
    >>> print(missing(no_cupy))
    CuPy is not installed; pip install "einloom[gpu]" (CuPy for CUDA 12), or the wheel of CuPy for your CUDA
    """
    try:
        cupy = import_module("cupy")
    except ModuleNotFoundError as error:
        if error.name == "cupy":
            return f"CuPy is not installed; {INSTALL}"
        return f"CuPy cannot be imported ({error}); {INSTALL}"
    except ImportError as error:
        return f"CuPy cannot be imported ({error}); {INSTALL}"
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        return _no_card(runtime, str(error))
    return None if count else _no_card(runtime, "no device")


def count() -> int:
    """How many cards a program can run on; 0 where CuPy, a driver or a card is missing.

    >>> count() >= 0
    True
    """
    return int(load().cuda.runtime.getDeviceCount()) if missing() is None else 0


def _no_card(runtime: Any, said: str) -> str:
    """Without any driver CUDA says that the driver is too old: its version 0 tells the two apart."""
    try:
        driver, needed = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    except runtime.CUDARuntimeError:
        driver, needed = 0, 0
    if not driver:
        return f"there is no NVIDIA driver ({said}); install one, on a machine with an NVIDIA GPU"
    if "InsufficientDriver" in said or driver // 1000 < needed // 1000:
        return (
            f"the NVIDIA driver knows CUDA {_version(driver)}, CuPy is built for {_version(needed)} "
            f"({said}); update the driver, or install the wheel of CuPy for CUDA {driver // 1000}"
        )
    return f"there is no NVIDIA GPU that this process sees ({said}); look at CUDA_VISIBLE_DEVICES"


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def load() -> Module:
    """The module cupy, if a program can run on it."""
    said = missing()
    if said is not None:
        raise DeviceError(f"backend 'gpu': {said}")
    return importlib.import_module("cupy")
