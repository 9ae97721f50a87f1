"""Which peers are installed, set to as many threads as einloom uses; None for one that is not.

TBLIS comes as the package pytblis, whose wheels are for Linux.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import Any

from einloom._base.options import num_threads


@cache
def torch() -> Any:
    """The module torch, or None."""
    module = _installed("torch")
    # torch 2.13 never returns from an LU of order 256 once it was told the number of threads that it has
    if module is not None and module.get_num_threads() != num_threads():
        module.set_num_threads(num_threads())
    return module


@cache
def numexpr() -> Any:
    """The module numexpr, or None."""
    module = _installed("numexpr")
    if module is not None:
        module.set_num_threads(num_threads())
    return module


@cache
def cotengra() -> Any:
    """The module cotengra, or None; its threads are those of NumPy and torch."""
    return _installed("cotengra")


@cache
def cotengrust() -> Any:
    """The module cotengrust, cotengra's greedy search in Rust, or None."""
    return _installed("cotengrust")


@cache
def jax() -> Any:
    """The module jax in double precision on the CPU, or None."""
    os.environ["NPROC"] = str(num_threads())  # XLA reads it once, for the size of its pools
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    module = _installed("jax")
    if module is not None:
        module.config.update("jax_enable_x64", True)
    return module


@cache
def pytblis() -> Any:
    """The module pytblis, or None."""
    module = _installed("pytblis")
    if module is not None:
        module.set_num_threads(num_threads())
    return module


@cache
def ducc0() -> Any:
    """The module ducc0, or None; its threads are an argument."""
    return _installed("ducc0")


@cache
def pyfftw() -> Any:
    """The module pyfftw with plans kept between calls, or None; its threads are an argument."""
    module = _installed("pyfftw")
    if module is not None:
        module.interfaces.cache.enable()
    return module


@cache
def mkl_fft() -> Any:
    """The module mkl_fft, or None; it takes as many threads as MKL finds cores."""
    return _installed("mkl_fft")


def _installed(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None
