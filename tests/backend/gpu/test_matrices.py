"""Factorisations of small matrices: what they must multiply to, and where they must fail."""

from __future__ import annotations

from dataclasses import dataclass
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
DTYPES = ("float32", "float64", "complex64", "complex128")
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

# ---- systems, and factors of positive matrices, as they may lie in memory ------------------------

LAYOUTS = {  # of [batch, n, k], as views of memory of which the last axis is contiguous
    "rows": lambda x: x,
    "columns": lambda x: x.swapaxes(1, 2).copy().swapaxes(1, 2),
    "reversed": lambda x: x[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1],
    "across": lambda x: x.transpose(1, 2, 0).copy().transpose(2, 0, 1),
    "spread": lambda x: np.repeat(np.repeat(x, 2, 1), 3, 2)[:, ::2, ::3],
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
}
SINGULAR, NAN, FIRST = 5, 6, 7  # members that are no one's: of rank n - 1, of NaN, with zeros first


@dataclass(frozen=True)
class System:
    """a x = b with `columns` in b, or a = x x^H where there is none."""

    dtype: str
    order: int
    columns: int
    layout: str

    def arrays(self) -> tuple[Array, Array]:
        """a, and b."""
        rng = np.random.default_rng(self.order)
        shapes = ((BATCH, self.order, self.order), (BATCH, self.order, max(1, self.columns)))
        a, b = (rng.standard_normal(shape).astype(self.dtype) for shape in shapes)
        if self.dtype.startswith("complex"):
            a += 1j * rng.standard_normal(a.shape)
            b += 1j * rng.standard_normal(b.shape)
        if not self.columns:
            a = a @ np.conj(a.swapaxes(1, 2)) + np.eye(self.order, dtype=self.dtype)
        if self.layout != "broadcast":
            a[NAN, -1, 0] = np.nan
            for member, column in ((SINGULAR, -1), (FIRST, 0)):
                a[member, column, :] = 0
                a[member, :, column] = 0
        if not self.columns:
            a[:, *np.triu_indices(self.order, 1)] = np.nan
        place: Any = LAYOUTS[self.layout]
        return place(a), place(b)

    def operands(self) -> tuple[list[Array], list[Any]]:
        a, b = self.arrays()
        out, memory = guarded(b.shape if self.columns else a.shape, self.dtype)
        info, beside = guarded((BATCH,), np.int32)
        return [out, info, a, b][: 4 if self.columns else 3], [memory, beside]

    def kernel(self) -> CudaKernel:
        operands: list[Any] = [operand_of(x) for x in self.operands()[0]]
        kernel = (solve if self.columns else cholesky)(*operands)
        assert kernel is not None
        return kernel


SYSTEMS = [
    System(
        dtype, order, (1, 2, 3, 5, 33, 0)[(at + number) % 6], tuple(LAYOUTS)[(number + 2 * at) % 6]
    )
    for at in range(6)
    for number, (order, dtype) in enumerate(
        (order, dtype) for order in (1, 2, 3, 7, 8, 16, 17, 32) for dtype in DTYPES
    )
    if at in (0, 1, 5) or order in (3, 7, 16)
]


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    kernels = [kernel_of(*case) for case in CASES] + [system.kernel() for system in SYSTEMS]
    kernels += [exact(dtype, columns)[0] for dtype, columns in EXACT]
    return Emulator(kernels, tmp_path_factory.mktemp("kernels"))


@needs_compiler
@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_systems(system: System, emulate: Emulator) -> None:
    operands, memories = system.operands()
    emulate(system.kernel(), *operands)
    assert all(untouched(memory) for memory in memories)
    out, info, a, *_ = operands
    fine = np.ones(BATCH, bool)
    if system.layout != "broadcast":
        fine[[SINGULAR, NAN, FIRST]] = False
        assert info[SINGULAR] == system.order
        assert info[FIRST] == 1
        assert 0 <= info[NAN] <= system.order
    assert (info[fine] == 0).all()
    wide = np.complex128 if system.dtype.startswith("complex") else np.float64
    x, a = out[fine].astype(wide), a[fine].astype(wide)
    if system.columns:
        b = operands[3][fine].astype(wide)
        scale = np.abs(a).sum((1, 2))[:, None, None] * np.abs(x).max((1, 2), keepdims=True)
        error = np.abs(a @ x - b)
        bound = 4 * system.order * eps(system.dtype) * (scale + np.abs(b))
    else:
        assert (np.triu(out, 1) == 0).all()
        upper = np.conj(x.swapaxes(1, 2))
        error = np.abs(np.tril(x @ upper - np.tril(a)))
        bound = 4 * system.order * eps(system.dtype) * (np.abs(x) @ np.abs(upper))
    assert (error <= bound).all()


def test_systems_are_of_every_kind() -> None:
    for dtype in DTYPES:
        mine = [system for system in SYSTEMS if system.dtype == dtype]
        assert {system.columns for system in mine} == {0, 1, 2, 3, 5, 33}
        assert {system.order for system in mine} == {1, 2, 3, 7, 8, 16, 17, 32}
    for columns in (0, 1, 33):
        assert {one.layout for one in SYSTEMS if one.columns == columns} == set(LAYOUTS)


EXACT = [(dtype, columns) for dtype in DTYPES for columns in (2, 5)]


def exact(dtype: str, columns: int) -> tuple[CudaKernel, list[Array]]:
    """Sevenths of 49 at both ends of the range, in permuted rows; and equal rows, which have no inverse.
    The right-hand side is where the solution goes."""
    real: Any = np.finfo(dtype)
    scales = [1.0, real.smallest_subnormal, real.tiny, real.max / 1024]
    order = np.random.default_rng(0).permutation(7)
    x = np.random.default_rng(1).integers(-20, 20, (len(scales) + 1, 7, columns))
    a, b = np.full((len(scales) + 1, 7, 7), 49.0, dtype), x.astype(dtype)
    for member, scale in enumerate(scales):
        a[member] = (np.eye(7) * 49 * scale)[order]
        b[member] = (x[member] * a[member].max())[order]
    info = np.zeros(len(a), np.int32)
    operands: list[Any] = [operand_of(one) for one in (b, info, a, b)]
    kernel = solve(*operands)
    assert kernel is not None
    return kernel, [b, info, a, x]


@needs_compiler
@pytest.mark.parametrize(("dtype", "columns"), EXACT)
def test_exact_quotients(dtype: str, columns: int, emulate: Emulator) -> None:
    kernel, (b, info, a, x) = exact(dtype, columns)
    emulate(kernel, b, info, a, b)
    np.testing.assert_array_equal(info, [0] * (len(a) - 1) + [2])
    np.testing.assert_array_equal(b[:-1], x[:-1])


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


@needs_nvrtc
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_in_registers(dtype: str) -> None:
    """What is indexed at run time would be in local memory."""
    orders = (1, 2, 3, 7, 8, 16) if dtype == "complex128" else (1, 2, 3, 7, 8, 16, 17, 32)
    kernels = [
        System(dtype, order, columns, "rows").kernel()
        for order in orders
        for columns in ((0, 2, 5) if order < 16 else (0, 2))
    ]
    assert all("Rows<" in kernel.source for kernel in kernels)
    assert ".local" not in compile_all(kernels, "compute_90")


def test_large_orders_are_declined() -> None:
    a = Operand("float64", (2, 33, 33), (1089, 33, 1))
    assert cholesky(a, Operand("int32", (2,), (1,)), a) is None
