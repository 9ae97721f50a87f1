"""Which processor this is, and for which one NumPy's BLAS computes: what rates were measured for, and what
machine code is for."""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache
from typing import Any

import numpy as np

from .._base.system import read_start

LINKED = f"{'numpy._core' if hasattr(np, '_core') else 'numpy.core'}._multiarray_umath"  # with BLAS
# names of OpenBLAS's functions begin so in wheels and elsewhere, and end so with integers of 64 bits
PREFIXES, SUFFIXES = ("scipy_openblas_", "openblas_"), ("64_", "")


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


@cache
def identity() -> tuple[str, ...]:
    """What tells processors apart for which machine code differs: what the system says, and what NumPy has
    found inside this process, since emulators show another processor than the system's. LLVM, which takes a
    twentieth of a second to import, is asked where the system does not say it."""
    known, machine = facts(), platform.machine()
    if "flags" in known and machine == "x86_64":
        kind = ("vendor_id", "cpu family", "model", "stepping", "flags")
        found = getattr(sys.modules.get(LINKED), "__cpu_features__", {})
        library = getattr(sys.implementation, "_multiarch", "")
        there = " ".join(feature for feature, is_there in found.items() if is_there)
        return (machine, library, there, *(known.get(x, "") for x in kind))
    from llvmlite import binding

    features = binding.get_host_cpu_features().flatten()
    return binding.get_process_triple(), binding.get_host_cpu_name(), features


def lacks_avx512(known: dict[str, str]) -> bool:
    """Whether this is an x86 processor without registers of 512 bits, by these facts; where the system does
    not say it, by what NumPy has found. Of others, and where nobody says anything, it is not known."""
    if "flags" in known:  # of x86; elsewhere they are called features
        return "avx512f" not in known["flags"].split()
    # names of all architectures' features, and whether they are there
    found = getattr(sys.modules.get(LINKED), "__cpu_features__", {})
    return bool(found.get("SSE2")) and not found.get("AVX512F")


def blas_core() -> str | None:
    """For which processor NumPy's OpenBLAS has chosen its kernels, by itself or as the environment variable
    OPENBLAS_CORETYPE says; None where that is not known, of another library among others."""
    ask = of_blas("get_corename")
    if ask is None:
        return None
    ask.restype = ctypes.c_char_p
    return str(ask().decode())


def is_openblas() -> bool:
    """Whether NumPy says that it was built with the OpenBLAS of the wheels, for an x86-64 processor. To ask
    what it is linked with (`of_blas`) takes thirty times as long, and does not tell how that was built."""
    blas, cpu = _built()
    return blas.get("name") == "scipy-openblas" and cpu == "x86_64"


def openblas_version() -> tuple[int, ...]:
    """The version of that OpenBLAS, as (0, 3, 31); () where it is another library or processor."""
    if not is_openblas():
        return ()
    numbers = str(_built()[0].get("version", "")).split(".")[:3]
    return tuple(map(int, numbers)) if all(map(str.isdecimal, numbers)) else (0,)


def _built() -> tuple[dict[str, Any], str | None]:
    """What NumPy says of the BLAS that it was built with, and of the processor that it was built for."""
    built: dict[str, Any] = getattr(np.__config__, "CONFIG", {})
    cpu = built.get("Machine Information", {}).get("host", {}).get("cpu")
    return built.get("Build Dependencies", {}).get("blas", {}), cpu


def cblas(function: str) -> Any:
    """This function of the wheels' OpenBLAS, by its name in CBLAS and with integers of 64 bits; None where
    there is none."""
    return getattr(_library(), f"scipy_cblas_{function}64_", None)


def of_blas(function: str) -> Any:
    """This function of the OpenBLAS that NumPy is linked with; None where there is none."""
    library = _library()
    names = (f"{prefix}{function}{suffix}" for prefix in PREFIXES for suffix in SUFFIXES)
    return next((found for name in names if (found := getattr(library, name, None))), None)


@cache
def _library() -> Any:
    """The part of NumPy that is linked with BLAS; None where there is no such file."""
    file = getattr(sys.modules.get(LINKED), "__file__", None)
    if not file:
        return None
    try:
        # on Linux it looks for names in what this one was linked with, too
        return ctypes.CDLL(file)
    except OSError:
        return None
