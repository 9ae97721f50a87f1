"""NVIDIA's run-time compiler, from its package, by ctypes: it needs no GPU."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from einloom.backend.gpu.cuda.kernel import CudaKernel
from einloom.backend.gpu.launch import OPTIONS

ARCHITECTURES = (pytest.param("compute_70", marks=pytest.mark.slow), "compute_90")
HOPPER = [
    pytest.param(x, marks=pytest.mark.slow) for x in ("compute_70", "compute_90", "compute_90a")
]
"""For kernels with instructions of `compute_90a` alone, which take nine seconds each."""


@cache
def library() -> Any:
    """libnvrtc, or None where the package is not installed."""
    try:
        spec = importlib.util.find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    for place in spec.submodule_search_locations:
        for found in sorted(Path(place, "lib").glob("libnvrtc.so*")):
            return ctypes.CDLL(str(found))
    return None


needs_nvrtc = pytest.mark.skipif(library() is None, reason="nvidia-cuda-nvrtc-cu12 is missing")


def compile_all(
    kernels: Iterable[CudaKernel], architecture: str, more: tuple[str, ...] = ()
) -> str:
    """The PTX of all kernels as one program; fails with the compiler's own words."""
    kernels = list(kernels)
    text = "\n".join(dict.fromkeys(kernel.source for kernel in kernels))
    nvrtc, program = library(), ctypes.c_void_p()
    assert not nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None
    )
    options = (f"--gpu-architecture={architecture}".encode(), *map(str.encode, OPTIONS + more))
    status = nvrtc.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    assert not status, _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
    ptx = _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    for kernel in kernels:
        assert f".entry {kernel.name}(" in ptx
    return ptx


def _text(size: Any, read: Any, program: Any) -> str:
    length = ctypes.c_size_t()
    size(program, ctypes.byref(length))
    buffer = ctypes.create_string_buffer(length.value)
    read(program, buffer)
    return buffer.value.decode()
