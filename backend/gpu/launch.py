"""Kernels of our own: source text compiled once for each device, and launched over arrays.

A kernel is a frozen value that the modules under `cuda` make. Whoever launches one has a fallback in terms of
the array module, which runs where that has no compiler.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..._base.caches import Cache
from .modules import Module

OPTIONS = ("-std=c++17", "--fmad=false")  # a product and a sum are two roundings, as on the CPU


class CudaKernel(Protocol):
    """What `launch` reads of a kernel."""

    @property
    def source(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def grid(self) -> tuple[int, int, int]: ...
    @property
    def block(self) -> tuple[int, int, int]: ...

    def parameters(self) -> Any:
        """The last argument, a struct of integers, as an array whose bytes it is."""
        ...


COMPILED: Cache[Any] = Cache("cuda_functions", 1024)
PREPARED: Cache[tuple[CudaKernel, Any, Any]] = Cache("cuda_launches", 4096)
"""By number of the kernel, which is kept with it: the function and its last argument."""


def can_launch(xp: Module) -> bool:
    """Whether the array module compiles CUDA."""
    return hasattr(xp, "RawKernel")


def launch(xp: Module, kernel: CudaKernel, *arrays: Any) -> None:
    """Queue a kernel on the current stream; `arrays` are its pointers, outputs first."""
    key = (id(xp), id(kernel))
    found = PREPARED.get(key) or PREPARED.put(key, _prepared(xp, kernel))
    _, function, record = found
    function(kernel.grid, kernel.block, (*arrays, record))


def _prepared(xp: Module, kernel: CudaKernel) -> tuple[CudaKernel, Any, Any]:
    key = (id(xp), kernel.name, kernel.source)
    function = COMPILED.get_or(key, lambda: xp.RawKernel(kernel.source, kernel.name, OPTIONS))
    return kernel, function, by_value(kernel.parameters())


def by_value(words: Any) -> Any:
    """An array of integers as one structured scalar, which CuPy copies into the arguments.

    >>> by_value(np.array([5, 1], np.int32)).nbytes
    8
    """
    record = np.dtype([("words", words.dtype, (len(words),))])
    return np.ascontiguousarray(words).view(record)[0]
