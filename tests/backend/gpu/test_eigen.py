"""Eigenvalues of small Hermitian matrices: a v = v diag(w), v unitary, w rising and those of LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, untouched
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc
from tests.tolerance import eps

from einloom.backend.gpu.cuda.eigen import eigh
from einloom.backend.gpu.cuda.kernel import CudaKernel
from einloom.backend.gpu.cuda.layout import operand_of

Array = np.ndarray[Any, Any]
CASES = (("float64", 1), ("float64", 2), ("float32", 3), ("complex128", 8), ("float64", 17))
CASES += (("complex64", 32), ("complex128", 32))
BATCH = 11


def matrices(dtype: str, order: int) -> Array:
    """Dense, diagonal, zero, of rank 1 with equal eigenvalues, scaled far; NaN above the diagonal."""
    rng = np.random.default_rng(order)
    a = rng.standard_normal((BATCH, order, order)).astype(dtype)
    if dtype.startswith("complex"):
        a += 1j * rng.standard_normal(a.shape)
    a += np.conj(np.swapaxes(a, 1, 2))
    a[1] = np.diag(np.arange(order)[::-1])
    a[2] = 0
    a[3] = 1
    a[4] *= 1e-12
    a[5] *= 1e12
    upper = np.triu(np.ones((order, order), bool), 1)
    a[:, upper] = np.nan
    return a


def operands(dtype: str, order: int) -> tuple[list[Array], list[Array]]:
    real = np.zeros(0, dtype).real.dtype
    made = [guarded(shape, kind) for shape, kind in (
        ((BATCH, order), real), ((BATCH, order, order), dtype), ((BATCH,), np.int32))]  # fmt: skip
    return [*(x for x, _ in made), matrices(dtype, order)], [memory for _, memory in made]


def kernel_of(dtype: str, order: int) -> CudaKernel:
    seen: list[Any] = [operand_of(x) for x in operands(dtype, order)[0]]
    kernel = eigh(*seen)
    assert kernel is not None
    return kernel


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    return Emulator([kernel_of(*case) for case in CASES], tmp_path_factory.mktemp("kernels"))


@needs_compiler
@pytest.mark.parametrize(("dtype", "order"), CASES)
def test_eigh(dtype: str, order: int, emulate: Emulator) -> None:
    arrays, memories = operands(dtype, order)
    emulate(kernel_of(dtype, order), *arrays)
    w, v, info, a = arrays
    assert all(untouched(memory) for memory in memories)
    assert (info == 0).all()
    lower = np.tril(a)
    whole = lower + np.conj(np.swapaxes(np.tril(a, -1), 1, 2))
    scale = np.linalg.norm(whole, axis=(1, 2), keepdims=True)
    bound = 16 * order * eps(dtype)
    assert (np.diff(w, axis=1) >= 0).all()
    assert (np.abs(w - np.linalg.eigvalsh(whole)) <= bound * scale[:, 0]).all()
    assert (np.abs(whole @ v - v * w[:, None]) <= bound * scale).all()
    assert (np.abs(np.conj(np.swapaxes(v, 1, 2)) @ v - np.eye(order)) <= bound).all()


@needs_compiler
@pytest.mark.parametrize(("dtype", "order"), [("float64", 2), ("complex128", 8)])
def test_what_is_not_finite_is_told(dtype: str, order: int, emulate: Emulator) -> None:
    """Beside the diagonal too. Previously failed: such a matrix passed for one that is diagonal."""
    arrays, _ = operands(dtype, order)
    w, v, info, a = arrays
    a[2, -1, 0], a[5, 0, 0], a[7, -1, 0] = np.nan, np.inf, -np.inf
    emulate(kernel_of(dtype, order), *arrays)
    np.testing.assert_array_equal(np.flatnonzero(info), [2, 5, 7])
    good = [k for k in range(BATCH) if k not in (2, 5, 7)]
    assert np.isfinite(w[good]).all()
    assert np.isfinite(v[good]).all()


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture: str) -> None:
    compile_all([kernel_of(*case) for case in CASES], architecture)
