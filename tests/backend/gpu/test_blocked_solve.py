"""Solves beyond the order of one warp: beside a product in wide numbers, and where they must fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, untouched
from tests.backend.gpu.launches import launches
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc
from tests.backend.stand_in import StandIn
from tests.tolerance import eps

from einloom.backend.gpu import linalg
from einloom.backend.gpu.cuda.blocked import HELD, MOST, MOST_COLUMNS, held_columns, solve
from einloom.backend.gpu.cuda.kernel import PLAIN_SHARED, CudaKernel
from einloom.backend.gpu.cuda.layout import Operand, operand_of

# a few minutes in all; by default tests/linalg/test_on_device.py runs the same kernels in double precision
pytestmark = pytest.mark.slow
Array = np.ndarray[Any, Any]
LARGE = 232448  # bytes of a block, of the largest cards
DTYPES = ("float32", "float64", "complex64", "complex128")
LAYOUTS = {  # of [batch, n, k], as views of memory of which the last axis is contiguous
    "rows": lambda x: x,
    "columns": lambda x: x.swapaxes(1, 2).copy().swapaxes(1, 2),
    "reversed": lambda x: x[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1],
    "spread": lambda x: np.repeat(np.repeat(x, 2, 1), 3, 2)[:, ::2, ::3],
}
SINGULAR, NAN, FIRST, MIDDLE, BATCH = 1, 2, 3, 4, 6
"""Members that are no one's: without a last, with NaN, without a first and without a middle pivot."""


@dataclass(frozen=True)
class System:
    """a x = b with `columns` in b."""

    dtype: str
    order: int
    columns: int
    layout: str = "rows"

    def operands(self) -> tuple[list[Array], list[Any]]:
        """Operands of a kernel, outputs first, and the memory around these."""
        rng = np.random.default_rng([self.order, self.columns])
        shapes = ((BATCH, self.order, self.order), (BATCH, self.order, self.columns))
        a, b = (rng.standard_normal(shape).astype(self.dtype) for shape in shapes)
        if self.dtype.startswith("complex"):
            a += 1j * rng.standard_normal(a.shape)
            b += 1j * rng.standard_normal(b.shape)
        a[NAN, -1, 0] = np.nan
        for member, column in ((SINGULAR, -1), (FIRST, 0), (MIDDLE, self.order // 2)):
            a[member, :, column] = 0
        place: Any = LAYOUTS[self.layout]
        out, memory = guarded(b.shape, self.dtype)
        info, beside = guarded((BATCH,), np.int32)
        return [out, info, place(a), place(b)], [memory, beside]

    def kernel(self) -> CudaKernel:
        return kernel_for(self.operands()[0])

    def holds(self, out: Array, info: Array, a: Array, b: Array) -> None:
        wanted = {SINGULAR: self.order, FIRST: 1, MIDDLE: self.order // 2 + 1}
        assert 0 <= info[NAN] <= self.order
        assert {member: info[member] for member in wanted} == wanted
        fine = [0, *range(MIDDLE + 1, BATCH)]
        assert (info[fine] == 0).all()
        wide = np.complex128 if self.dtype.startswith("complex") else np.float64
        x, a, b = (one[fine].astype(wide) for one in (out, a, b))
        sizes = np.abs(a).sum(2).max(1)[:, None, None] * np.abs(x).max((1, 2), keepdims=True)
        assert (np.abs(a @ x - b) <= self.order * eps(self.dtype) * (sizes + np.abs(b))).all()


SYSTEMS = [
    System("float64", 33, 1),
    System("complex128", 33, 5, "columns"),
    System("float32", 40, 2, "reversed"),
    System("complex64", 40, 40),
    System("float64", 64, 2),
    System("float32", 64, 64),
    System("complex64", 64, 1, "spread"),
    System("complex128", 64, 2, "reversed"),
    System("float64", 65, 5, "columns"),
    System("float32", 65, 1, "spread"),
    System("complex128", 65, 40, "spread"),
    System("complex64", 97, 5),
    System("float64", 97, 97, "columns"),
    System("complex128", 97, 1),
    System("float32", 128, 33, "columns"),
    System("complex64", 128, 2),
    System("float64", 128, 9),
    System("float32", 160, 5),
    System("float64", 160, 20, "reversed"),
]
EXACT = [(dtype, order) for dtype in DTYPES for order in (33, 65)]


def kernel_for(arrays: list[Array]) -> CudaKernel:
    seen: list[Any] = [operand_of(x) for x in arrays]
    kernel = solve(*seen, most=LARGE)
    assert kernel is not None
    return kernel


def exact(dtype: str, order: int) -> tuple[CudaKernel, list[Array]]:
    """Diagonals of 49 at both ends of the range, in permuted rows; and equal rows, which have no inverse. The
    right-hand side is where the solution goes."""
    real: Any = np.finfo(dtype)
    scales = [1.0, real.smallest_subnormal, real.tiny, real.max / 1024]
    rows = np.random.default_rng(0).permutation(order)
    x = np.random.default_rng(1).integers(-20, 20, (len(scales) + 1, order, 3))
    a, b = np.full((len(scales) + 1, order, order), 49.0, dtype), x.astype(dtype)
    for member, scale in enumerate(scales):
        a[member] = (np.eye(order) * 49 * scale)[rows]
        b[member] = (x[member] * a[member].max())[rows]
    info = np.zeros(len(a), np.int32)
    return kernel_for([b, info, a, b]), [b, info, a, x]


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    kernels = [system.kernel() for system in SYSTEMS]
    kernels += [exact(*case)[0] for case in EXACT]
    return Emulator(kernels, tmp_path_factory.mktemp("kernels"))


@needs_compiler
@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_systems(system: System, emulate: Emulator) -> None:
    operands, memories = system.operands()
    emulate(system.kernel(), *operands)
    assert all(untouched(memory) for memory in memories)
    system.holds(*operands)


def test_systems_are_of_every_kind() -> None:
    for dtype in DTYPES:
        mine = [system for system in SYSTEMS if system.dtype == dtype]
        assert {min(system.columns, HELD + 1) for system in mine} >= {1, 2, 5, HELD + 1}
    assert {one.order for one in SYSTEMS} >= {33, 40, 64, 65, 97, 128, MOST}


@needs_compiler
@pytest.mark.parametrize(("dtype", "order"), EXACT)
def test_exact_quotients_in_place(dtype: str, order: int, emulate: Emulator) -> None:
    kernel, (b, info, a, x) = exact(dtype, order)
    emulate(kernel, b, info, a, b)
    np.testing.assert_array_equal(info, [0] * (len(a) - 1) + [2])
    np.testing.assert_array_equal(b[:-1], x[:-1])


@needs_compiler
def test_several_axes_of_a_batch(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Steps, an axis of stride 0, and a result with gaps."""
    rng = np.random.default_rng(2)
    a = rng.standard_normal((4, 40, 40)).astype(np.float32)[::-2, None]
    b = np.broadcast_to(rng.standard_normal((3, 40, 2)).astype(np.float32), (2, 3, 40, 2))
    a = np.broadcast_to(a, (2, 3, 40, 40))
    memory = np.full((3, 2, 40, 4), np.nan, np.float32)
    out, info = memory[..., ::2].swapaxes(0, 1), np.full((2, 6), -1, np.int32)[:, ::2]
    kernel = kernel_for([out, info, a, b])
    Emulator([kernel], tmp_path_factory.mktemp("one"))(kernel, out, info, a, b)
    assert (info == 0).all()
    assert np.isnan(memory[..., 1::2]).all()
    np.testing.assert_allclose(out, np.linalg.solve(a.astype(float), b), rtol=1e-3, atol=1e-4)


@needs_compiler
def test_solve_launches_it() -> None:
    """With more memory than every block may have; what no block holds is the library's."""
    xp: Any = StandIn(compiles=True)
    rng = np.random.default_rng(3)
    for order, launched in ((90, ["solve"]), (120, [])):
        a, b = rng.standard_normal((2, order, order)), rng.standard_normal((2, order, 2))
        with launches() as names:
            x, info = linalg.solve(xp, xp.array(a), xp.array(b))
        assert names == launched
        assert info.get().tolist() == [0, 0]
        np.testing.assert_allclose(a @ x.get(), b, atol=1e-10)


def test_what_has_no_kernel() -> None:
    def made(dtype: str, n: int, columns: int = 2, most: int = LARGE) -> CudaKernel | None:
        a, b = (Operand(dtype, (9, n, k), (n * k, k, 1)) for k in (n, columns))
        return solve(b, Operand("int32", (9,), (1,)), a, b, most)

    assert made("float64", MOST) is not None
    assert made("float32", MOST + 1) is None
    assert made("float32", 32) is None
    assert made("float64", 40, MOST_COLUMNS + 1) is None
    assert made("float64", 80, most=PLAIN_SHARED) is None
    assert made("complex128", 112) is not None
    assert made("complex128", 128) is None
    assert made("float16", 40) is None
    assert 0 < held_columns(160, 200, 8, LARGE) < 32


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture: str) -> None:
    compile_all([system.kernel() for system in SYSTEMS], architecture)


@needs_nvrtc
@pytest.mark.parametrize("dtype", DTYPES)
def test_panels_are_in_registers(dtype: str) -> None:
    """What is indexed at run time would be in local memory."""
    kernels = [System(dtype, order, 2).kernel() for order in (64, 96)]
    assert all("__shared__ T " not in kernel.source for kernel in kernels)
    assert ".local" not in compile_all(kernels, "compute_90")
