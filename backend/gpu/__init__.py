"""The GPU backend: the catalogue over CuPy, or over any module that has CuPy's names."""

from .backend import GpuBackend, gpu
from .modules import count, missing

__all__ = ["GpuBackend", "count", "gpu", "missing"]
