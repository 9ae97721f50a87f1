"""Members that are not finite: replaced by zeros and told by codes, as the array module would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, untouched
from tests.backend.gpu.launches import launches
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc
from tests.backend.stand_in import DeviceArray, StandIn

from einloom.backend.gpu import linalg
from einloom.backend.gpu.cuda.finite import MOST, cleared, judged
from einloom.backend.gpu.cuda.kernel import CudaKernel
from einloom.backend.gpu.cuda.layout import operand_of

DTYPES = ("float32", "float64", "complex64", "complex128")
SHAPES: list[tuple[int, ...]] = [(5, 5), (1, 3, 2), (40, 2, 2), (2, 9, 20, 17), (3, 1, 1)]


def up(x: Any) -> Any:
    return x.view(DeviceArray)


def matrices(dtype: str, shape: tuple[int, ...]) -> Any:
    """NaN in the last member, an infinite imaginary part in the first; columns lie side by side."""
    rng = np.random.default_rng(4)
    a = rng.standard_normal((*shape[:-2], shape[-1], 2 * shape[-2])).astype(dtype)[..., ::2]
    a = a.swapaxes(-1, -2)
    a[(-1,) * (len(shape) - 2)][-1, -1] = np.nan
    if len(shape) > 2 and dtype.startswith("complex"):
        a[(0,) * (len(shape) - 2)][0, 0] = complex(1, np.inf)
    return a


def kernels() -> list[CudaKernel]:
    found: list[CudaKernel | None] = [judged(dtype, 40, 7) for dtype in DTYPES]
    for dtype in DTYPES:
        for shape in SHAPES:
            a = operand_of(matrices(dtype, shape))
            assert a is not None
            found.append(cleared(a, a, a))
    return [kernel for kernel in found if kernel is not None]


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels(dtype: str, tmp_path: Path) -> None:
    made = kernels()
    run = Emulator(made, tmp_path)
    for shape in SHAPES:
        a = matrices(dtype, shape)
        operand: Any = operand_of(a)
        out, memory = guarded(shape, dtype)
        codes, beside = guarded(shape[:-2], np.int32)
        kernel = cleared(operand, operand, operand)
        assert kernel is not None
        run(kernel, out, codes, a)
        bad = ~np.isfinite(a).all(axis=(-2, -1))
        assert np.array_equal(codes, bad)
        assert np.array_equal(out, np.where(bad[..., None, None], 0, a))
        assert untouched(memory)
        assert untouched(beside)
    values = np.ones((40, 7), dtype)
    values[3, 6] = values[39, 0] = np.inf
    said = np.arange(40, dtype=np.int32)
    codes, beside = guarded((40,), np.int32)
    codes[...] = said == 5
    run(judged(dtype, 40, 7), codes, said, values)
    want = said.copy()
    want[[3, 5, 39]] = 1
    assert np.array_equal(codes, want)
    assert untouched(beside)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compile(architecture: str) -> None:
    compile_all(kernels(), architecture)


@needs_compiler
@pytest.mark.parametrize("shape", [*SHAPES, (2, 200, 100)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_as_without_a_compiler(dtype: str, shape: tuple[int, ...]) -> None:
    a, plain, own = matrices(dtype, shape), StandIn(), StandIn(compiles=True)
    values = np.ones((*shape[:-2], 3), dtype)
    values[(0,) * (len(shape) - 2)][1] = np.nan
    said = np.full(shape[:-2], 7, np.int32)
    found = []
    for xp in (plain, own):
        with launches() as names:
            out, lost = linalg.cleared(xp, up(a))
            first = linalg.judged(xp, up(lost.view(np.ndarray).copy()), up(values))
            codes = linalg.judged(xp, lost, up(values), up(said))
        small = shape[-1] * shape[-2] <= MOST
        assert names == ([] if xp is plain else ["cleared"] * small + ["judged"] * 2)
        found.append((out, first, codes))
    for one, other in zip(*found, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert np.array_equal(one.view(np.ndarray), other.view(np.ndarray))
