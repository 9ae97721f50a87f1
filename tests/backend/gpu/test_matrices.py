"""Factorisations of small matrices: what they must multiply to, and where they must fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, untouched
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc
from tests.tolerance import eps

from einloom.backend.gpu.cuda.kernel import CudaKernel
from einloom.backend.gpu.cuda.layout import Operand, operand_of
from einloom.backend.gpu.cuda.matrices import cholesky, lu, solve

Array = np.ndarray[Any, Any]
ORDERS = (("float64", 1), ("float32", 3), ("complex128", 8), ("float64", 17), ("complex64", 32))
BATCH = 37


def matrices(dtype: str, order: int, positive: bool = False) -> Array:
    """Across the batch in memory; number 5 is singular, or not positive."""
    rng = np.random.default_rng(order)
    a = rng.standard_normal((order, BATCH, order)).transpose(1, 2, 0).astype(dtype)
    if dtype.startswith("complex"):
        a += 1j * rng.standard_normal(a.shape)
    if positive:
        a[...] = a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(order)
        a[5, -1, -1] = -1
    else:
        a[5, :, -1] = 0
    return a


def arrays(kind: str, dtype: str, order: int) -> tuple[list[Array], list[Any]]:
    """Operands of a kernel, outputs first, and the memory around these."""
    a = matrices(dtype, order, kind == "cholesky")
    out, memory = guarded(a.shape, dtype)
    info, beside = guarded((BATCH,), np.int32)
    if kind == "cholesky":
        return [out, info, a], [memory, beside]
    if kind == "lu":
        pivots, rows = guarded((BATCH, order), np.int64)
        return [out, pivots, info, a], [memory, beside, rows]
    b = np.random.default_rng(0).standard_normal((BATCH, 40, order)).astype(dtype).swapaxes(1, 2)
    out, memory = guarded(b.shape, dtype)
    return [out, info, a, b], [memory, beside]


def kernel_of(kind: str, dtype: str, order: int) -> CudaKernel:
    operands: list[Any] = [operand_of(x) for x in arrays(kind, dtype, order)[0]]
    makers: dict[str, Any] = {"cholesky": cholesky, "lu": lu, "solve": solve}
    kernel = makers[kind](*operands)
    assert kernel is not None
    return kernel


CASES = [
    (kind, dtype, order)
    for at, kind in enumerate(("cholesky", "lu", "solve"))
    for number, (dtype, order) in enumerate(ORDERS)
    if order in (3, 8) or (at + number) % 3
]


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    return Emulator([kernel_of(*case) for case in CASES], tmp_path_factory.mktemp("kernels"))


def near(got: Array, wanted: Array, scale: Array, order: int) -> None:
    """Up to the rounding of a factorisation, in units of the sizes of what is added."""
    assert (np.abs(got - wanted) <= 8 * order * eps(got.dtype) * scale).all()


@needs_compiler
@pytest.mark.parametrize(("kind", "dtype", "order"), CASES)
def test_factors(kind: str, dtype: str, order: int, emulate: Emulator) -> None:
    operands, memories = arrays(kind, dtype, order)
    emulate(kernel_of(kind, dtype, order), *operands)
    assert all(untouched(memory) for memory in memories)
    info, fine = operands[-2 if kind != "solve" else 1], np.arange(BATCH) != 5
    assert (info[fine] == 0).all()
    assert info[5] == order
    out, a = operands[0][fine], operands[-1][fine]
    if kind == "cholesky":
        assert (np.triu(out, 1) == 0).all()
        upper = np.conj(np.swapaxes(out, -1, -2))
        near(out @ upper, a, np.abs(out) @ np.abs(upper), order)
    elif kind == "lu":
        lower, upper = np.tril(out, -1) + np.eye(order, dtype=dtype), np.triu(out)
        assert (np.abs(lower) <= (1.5 if dtype.startswith("complex") else 1)).all()
        rows = np.take_along_axis(a, operands[1][fine][..., None], 1)
        near(lower @ upper, rows, np.abs(lower) @ np.abs(upper), order)
    else:
        a, b = operands[2][fine], operands[3][fine]
        wanted = np.linalg.solve(a.astype(np.complex128), b.astype(np.complex128))
        bound = 8 * order * eps(dtype) * np.linalg.cond(a)[:, None, None]
        assert (np.abs(out - wanted) <= bound * np.abs(wanted).max((1, 2), keepdims=True)).all()


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture: str) -> None:
    compile_all([kernel_of(*case) for case in CASES], architecture)


def test_large_orders_are_declined() -> None:
    a = Operand("float64", (2, 33, 33), (1089, 33, 1))
    assert cholesky(a, Operand("int32", (2,), (1,)), a) is None
