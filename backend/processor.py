"""Which processor this is, and for which one NumPy's BLAS computes: what rates were measured for."""

from __future__ import annotations

import ctypes
import platform
import sys

import numpy as np

from .._base.system import read_start

LINKED = f"{'numpy._core' if hasattr(np, '_core') else 'numpy.core'}._multiarray_umath"  # with BLAS
# OpenBLAS under the names that it has in wheels, with integers of 64 bits, and elsewhere
CORE_NAMES = (
    "scipy_openblas_get_corename64_",
    "scipy_openblas_get_corename",
    "openblas_get_corename64_",
    "openblas_get_corename",
)


def facts() -> dict[str, str]:
    """What the system says of its first processor: "model name", "cpu family" and so on; nothing where it
    does not say it in Linux's way."""
    try:
        first = read_start("/proc/cpuinfo").partition("\n\n")[0]  # the others are as the first one
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def name(known: dict[str, str]) -> str:
    """The processor's name; with its numbers, since virtual machines give different ones the same name."""
    called = known.get("model name") or platform.processor() or platform.machine()
    numbers = ", ".join(f"{x} {known[x]}" for x in ("cpu family", "model") if x in known)
    return f"{called} ({numbers})" if numbers else called


def blas_core() -> str | None:
    """For which processor NumPy's OpenBLAS has chosen its kernels, by itself or as the environment variable
    OPENBLAS_CORETYPE says; None where that is not known, of another library among others."""
    file = getattr(sys.modules.get(LINKED), "__file__", None)
    if not file:
        return None
    try:
        # on Linux it looks for names in what this one was linked with, too
        library = ctypes.CDLL(file)
    except OSError:
        return None
    for symbol in CORE_NAMES:
        if (ask := getattr(library, symbol, None)) is not None:
            ask.restype = ctypes.c_char_p
            return str(ask().decode())
    return None
