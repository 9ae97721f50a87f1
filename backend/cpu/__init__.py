"""The CPU backend: NumPy, BLAS and kernels compiled by numba."""

from .backend import CpuBackend, cpu

__all__ = ["CpuBackend", "cpu"]
