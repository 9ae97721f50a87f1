"""Kernels of CUDA C++ on the CPU: the very text, compiled by g++ with `emulation.h` in place of CUDA."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from einloom.backend.gpu.cuda.kernel import PLAIN_SHARED, CudaKernel

HEADER = Path(__file__).with_name("emulation.h")
DYNAMIC = re.compile(r"alignas\(\d+\) extern __shared__ ([\w ]+?) (\w+)\[\];")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not there")


class Emulator:
    """All kernels of a test file as one library."""

    def __init__(self, kernels: Sequence[CudaKernel], folder: Path) -> None:
        sources = dict.fromkeys(kernel.source for kernel in kernels)
        launchers = {kernel.name: _launcher(kernel) for kernel in kernels}
        texts = [DYNAMIC.sub(r"\1* const \2 = (\1*)emulation::dynamic;", one) for one in sources]
        text = "\n".join([f'#include "{HEADER}"', *texts, *launchers.values()])
        source, library = folder / "kernels.cpp", folder / "kernels.so"
        source.write_text(text, encoding="utf-8")
        command = ["g++", "-std=c++17", "-O1", "-ffp-contract=off", "-w", "-shared", "-fPIC"]
        done = subprocess.run(
            [*command, "-o", str(library), str(source)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[:4000]
        self.library = ctypes.CDLL(str(library))

    def __call__(self, kernel: CudaKernel, *arrays: Any) -> None:
        """Launch on arrays of NumPy, passed by the address of their first element."""
        assert len(arrays) == len(kernel.arrays)
        geometry = kernel.parameters()
        pointers = [x.__array_interface__["data"][0] for x in arrays]
        pointers.append(geometry.ctypes.data)
        outside = self.library[f"launch_{kernel.name}"](
            (ctypes.c_uint * 3)(*kernel.grid),
            (ctypes.c_uint * 3)(*kernel.block),
            (ctypes.c_void_p * len(pointers))(*pointers),
            kernel.shared,
        )
        assert outside != 1, "written beyond the shared memory of the launch"
        assert not outside, "threads wait at barriers that the others never reach"


def _launcher(kernel: CudaKernel) -> str:
    """extern "C" launch_<name>(grid, block, pointers), which the entry's own parameters decide."""
    found = re.search(rf"__global__ void {kernel.name}\((.*?)\) \{{", kernel.source, re.DOTALL)
    assert found is not None
    kinds = [one.strip().rpartition(" ")[0] for one in _split(found[1])]
    *pointers, geometry = kinds
    values = [f"({kind})p[{k}]" for k, kind in enumerate(pointers)]
    values.append(f"*(const {geometry}*)p[{len(pointers)}]")
    barriers = str(re.search(r"__(sync|shfl|ballot)", kernel.source) is not None).lower()
    return (
        f"static void run_{kernel.name}(void* a) {{ void** p = (void**)a; "
        f"{kernel.name}({', '.join(values)}); }}\n"
        f'extern "C" int launch_{kernel.name}(const unsigned* g, const unsigned* b, void** p, int shared) '
        f"{{ return emulation::launch(g, b, {barriers}, run_{kernel.name}, p, shared); }}"
    )


RECORDING: list[list[Any] | None] = []
"""Launches of the streams that are being captured: they are written down, and nothing runs. None: an error
made the capture invalid."""


class RawKernel:
    """cupy.RawKernel of a stand-in: compiled when it is first launched, once for each name."""

    _compiled: ClassVar[dict[str, Emulator]] = {}
    _turn: ClassVar[threading.Lock] = threading.Lock()  # where threads are is told by globals

    def __init__(self, source: str, name: str, options: tuple[str, ...]) -> None:
        self.source, self.name, self.options = source, name, options
        self.max_dynamic_shared_size_bytes = PLAIN_SHARED

    @property
    def ptr(self) -> Any:
        """What the driver knows it by."""
        return self

    def __call__(
        self, grid: Any, block: Any, arguments: tuple[Any, ...], *, shared_mem: int = 0
    ) -> None:
        assert shared_mem <= self.max_dynamic_shared_size_bytes
        if RECORDING:
            launches = RECORDING[-1]
            if launches is None:
                raise RuntimeError("cudaErrorStreamCaptureInvalidated")
            launches.append((self, grid, block, arguments, shared_mem))
        else:
            self.run(grid, block, arguments, shared_mem)

    def run(self, grid: Any, block: Any, arguments: tuple[Any, ...], shared: int) -> None:
        *arrays, record = arguments
        geometry = np.frombuffer(record.tobytes(), np.int32)
        arrays = [x.view(np.ndarray) for x in arrays]
        kernel: Any = SimpleNamespace(
            source=self.source,
            name=self.name,
            grid=grid,
            block=block,
            arrays=arrays,
            parameters=lambda: geometry,
            shared=shared,
        )
        with self._turn:
            if self.name not in self._compiled:
                with TemporaryDirectory() as folder:
                    self._compiled[self.name] = Emulator([kernel], Path(folder))
            self._compiled[self.name](kernel, *arrays)


def compile_module(source: str, options: tuple[str, ...], *, arch: str) -> Any:
    """CuPy's own, by which a kernel is compiled for the features of one card."""
    assert (str(arch), int(arch)) == ("90a", 90)  # type: ignore[call-overload]
    return SimpleNamespace(get_function=lambda name: RawKernel(source, name, options))


def set_attribute(function: RawKernel, attribute: int, value: int) -> None:
    """Of the driver: how much shared memory a function may have."""
    assert attribute == 8
    function.max_dynamic_shared_size_bytes = value


def _split(parameters: str) -> list[str]:
    """At commas outside of <>."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def strides_of(x: Any) -> tuple[int, ...]:
    return tuple(stride // x.itemsize for stride in x.strides)


def guarded(shape: tuple[int, ...], dtype: Any) -> tuple[Any, Any]:
    """An array, and the memory around it, every byte of which is 0x5A."""
    size = int(np.prod(shape, dtype=int)) * np.dtype(dtype).itemsize
    memory = np.full(size + 128, 0x5A, np.uint8)
    return memory[64 : 64 + size].view(dtype).reshape(shape), memory


def untouched(memory: Any) -> bool:
    """Whether nothing beside the array was written."""
    return bool((memory[:64] == 0x5A).all() and (memory[-64:] == 0x5A).all())
