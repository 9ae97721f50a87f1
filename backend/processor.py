"""Which processor this is, and for which one NumPy's BLAS computes: they need not be the same."""

from __future__ import annotations

import ctypes
import platform
import sys
from pathlib import Path

import numpy as np

FACTS = 8192  # bytes of the system's list: the first processor, the others are as that one
# of AMD's family 26 (Zen 5) these have units of 512 bits that work in two halves: Strix Point, Krackan Point
HALVED = (range(0x20, 0x30), range(0x60, 0x70))
NARROW = ("Haswell", "Zen")  # what OpenBLAS calls kernels with vectors of 256 bits
LINKED = f"{'numpy._core' if hasattr(np, '_core') else 'numpy.core'}._multiarray_umath"  # with BLAS
# OpenBLAS under the names that it has in wheels, with integers of 64 bits, and elsewhere
CORE_NAMES = ("scipy_openblas_get_corename64_", "openblas_get_corename64_", "openblas_get_corename")


def facts() -> dict[str, str]:
    """What the system says of its first processor: "model name", "cpu family" and so on; nothing where it
    does not say it in Linux's way."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            first = file.read(FACTS).partition("\n\n")[0]
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def name(known: dict[str, str]) -> str:
    """The processor's name; with its numbers, since virtual machines give different ones the same name."""
    called = known.get("model name") or platform.processor() or platform.machine()
    numbers = ", ".join(f"{x} {known[x]}" for x in ("cpu family", "model") if x in known)
    return f"{called} ({numbers})" if numbers else called


def has_wide_units(known: dict[str, str]) -> bool:
    """Whether it is known to multiply two vectors of 512 bits in each cycle: AMD's Zen 5."""
    if known.get("vendor_id") != "AuthenticAMD" or "avx512f" not in known.get("flags", "").split():
        return False
    numbers = (known.get(x, "") for x in ("cpu family", "model"))
    family, model = (int(x) if x.isdecimal() else -1 for x in numbers)
    return family == 26 and not any(model in of for of in HALVED)


def blas_core() -> str | None:
    """For which processor NumPy's OpenBLAS has chosen its kernels; None where it is another library."""
    file = getattr(sys.modules.get(LINKED), "__file__", None)
    if not file:
        return None
    try:
        library = ctypes.CDLL(file)  # looks for names in what this one was linked with, too
    except OSError:
        return None
    for symbol in CORE_NAMES:
        if (ask := getattr(library, symbol, None)) is not None:
            ask.restype = ctypes.c_char_p
            return str(ask().decode())
    return None


def has_narrow_blas() -> bool:
    """Whether BLAS computes with vectors half as long as the processor has: OpenBLAS up to 0.3.31 does not
    know Zen 5, and takes its kernels for a processor of 2013."""
    return has_wide_units(facts()) and blas_core() in NARROW
