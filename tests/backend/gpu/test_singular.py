"""Singular values of many matrices: a = u diag(s) vh, factors orthonormal, s falling and those of LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, untouched
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc
from tests.backend.stand_in import StandIn
from tests.tolerance import eps

from einloom.backend.gpu.cuda.kernel import PLAIN_SHARED, CudaKernel
from einloom.backend.gpu.cuda.layout import operand_of
from einloom.backend.gpu.cuda.singular import shape_of, svd, svdvals
from einloom.backend.gpu.launch import launch, shared_memory

# a few minutes in all; by default tests/linalg/test_on_device.py runs the same kernels in double precision
pytestmark = pytest.mark.slow
Array = np.ndarray[Any, Any]
Case = tuple[str, int, int]
LARGE = 232448  # bytes of a block, of the largest cards
CASES: tuple[Case, ...] = (
    ("float64", 1, 1),
    ("complex64", 1, 6),
    ("float32", 2, 2),
    ("float64", 3, 5),
    ("complex128", 5, 3),
    ("float64", 4, 4),
    ("complex64", 8, 8),
    ("float64", 16, 16),
    ("complex128", 9, 17),
    ("float32", 17, 17),
    ("complex128", 17, 17),
    ("float64", 200, 2),
    ("float64", 32, 32),
    ("complex64", 32, 32),
)
BIG: tuple[Case, ...] = (
    ("float64", 40, 33),
    ("complex64", 36, 50),
    ("complex128", 90, 86),  # v lies in the result
    ("float32", 130, 20),
    ("float32", 6, 140),
)
FAR = {"f": 30, "d": 150, "F": 30, "D": 150}
"""Decimal digits of a scale whose square is out of range."""


def matrices(dtype: str, m: int, n: int, count: int) -> Array:
    """Dense, zero, of rank 1, scaled far, with equal singular values, graded; with a row of zeros."""
    rng = np.random.default_rng([m, n])
    a = rng.standard_normal((count, m, n)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        a += 1j * rng.standard_normal(a.shape)
    far = FAR[np.dtype(dtype).char]
    k = min(m, n)
    q, _ = np.linalg.qr(a[0])
    special = [
        lambda x: x,
        lambda x: np.zeros_like(x),
        lambda x: np.outer(x[:, 0], x[0]),
        lambda x: x * 10.0**far,
        lambda x: x * 10.0**-far,
        lambda x: (q[:, :k] @ np.eye(k, n)) if m >= n else np.eye(m, n),
        lambda x: x * 10.0 ** -np.linspace(0, 6, n),
        lambda x: x * 10.0 ** -np.linspace(0, 20, m)[:, None],
        lambda x: x * (np.arange(m) != m // 2)[:, None],
    ]
    for one, make in zip(a, special, strict=False):
        one[...] = make(one)
    return a


def operands(case: Case, count: int, vectors: bool = True) -> tuple[list[Array], list[Array]]:
    dtype, m, n = case
    k, real = min(m, n), np.zeros(0, dtype).real.dtype
    wanted: list[tuple[tuple[int, ...], Any]] = [((count, k), real), ((count,), np.int32)]
    if vectors:
        wanted.insert(0, ((count, m, k), dtype))
        wanted.insert(2, ((count, k, n), dtype))
    made = [guarded(shape, kind) for shape, kind in wanted]
    return [*(x for x, _ in made), matrices(*case, count)], [memory for _, memory in made]


def kernel_of(case: Case, count: int, vectors: bool = True) -> CudaKernel:
    return kernel_for(operands(case, count, vectors)[0])


def kernel_for(arrays: list[Array]) -> CudaKernel:
    seen: list[Any] = [operand_of(x) for x in arrays]
    kernel = (svd if len(seen) == 5 else svdvals)(*seen, most=LARGE)
    assert kernel is not None
    return kernel


def count_of(case: Case) -> int:
    return 11 if case in CASES else 3


def graded(case: Case) -> Array:
    """Square ones whose rows are turned, and one whose columns are."""
    a = matrices(*case, 3)
    rows = 10.0 ** -np.linspace(0, 20, case[1])
    a[:2] = (a[0] * rows[:, None]).astype(case[0])
    return a


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    kernels = [
        kernel_of(case, count_of(case), vectors)
        for case in (*CASES, *BIG)
        for vectors in (True, False)
    ]
    return Emulator(kernels, tmp_path_factory.mktemp("kernels"))


def holds(a: Array, u: Array, s: Array, vh: Array) -> None:
    """Entries far from 1 are brought near it, where the oracle's own sums of squares are in range."""
    k = s.shape[-1]
    scale = np.abs(a).max(axis=(1, 2), keepdims=True)
    scale = np.where(scale == 0, 1, scale).astype(s.dtype)
    a, s = a / scale, s / scale[:, 0]
    size = np.linalg.norm(a, axis=(1, 2), keepdims=True)
    bound = 16 * k * eps(a.dtype.name)
    assert (np.diff(s, axis=1) <= 0).all()
    assert (np.abs(s - np.linalg.svd(a, compute_uv=False)) <= bound * size[:, 0]).all()
    assert (np.abs((u * s[:, None]) @ vh - a) <= bound * size).all()
    for x, y in ((np.conj(u.swapaxes(1, 2)), u), (vh, np.conj(vh.swapaxes(1, 2)))):
        assert (np.abs(x @ y - np.eye(k)) <= bound).all()


@needs_compiler
@pytest.mark.parametrize("case", [*CASES, *BIG], ids=str)
def test_svd(case: Case, emulate: Emulator) -> None:
    arrays, memories = operands(case, count_of(case))
    emulate(kernel_for(arrays), *arrays)
    u, s, vh, info, a = arrays
    assert all(untouched(memory) for memory in memories)
    assert (info == 0).all()
    holds(a, u, s, vh)


@needs_compiler
@pytest.mark.parametrize("case", [("float64", 48, 48), ("complex128", 88, 88)], ids=str)
def test_large_and_graded(case: Case, tmp_path_factory: pytest.TempPathFactory) -> None:
    arrays, memories = operands(case, 3)
    arrays[-1][...] = graded(case)
    kernel = kernel_for(arrays)
    Emulator([kernel], tmp_path_factory.mktemp("one"))(kernel, *arrays)
    u, s, vh, info, a = arrays
    assert all(untouched(memory) for memory in memories)
    assert (info == 0).all()
    holds(a, u, s, vh)


@needs_compiler
@pytest.mark.parametrize("case", [*CASES, BIG[0]], ids=str)
def test_values_alone(case: Case, emulate: Emulator) -> None:
    """Bit by bit those that come with vectors."""
    arrays, memories = operands(case, count_of(case), False)
    emulate(kernel_for(arrays), *arrays)
    both, _ = operands(case, count_of(case))
    emulate(kernel_for(both), *both)
    assert all(untouched(memory) for memory in memories)
    np.testing.assert_array_equal(arrays[0], both[1])
    np.testing.assert_array_equal(arrays[1], 0)


@needs_compiler
def test_small_values_are_accurate(emulate: Emulator) -> None:
    """Graded columns, or rows, have their own digits: |s - sigma| is small beside sigma, not only |a|."""
    case = ("float64", 16, 16)
    arrays, _ = operands(case, 11)
    rng = np.random.default_rng(3)
    q = np.linalg.qr(rng.standard_normal((16, 16)))[0]
    sizes = 10.0 ** -np.arange(0, 64, 4)
    arrays[-1][...] = q * sizes
    arrays[-1][::2] = (q * sizes).T
    emulate(kernel_for(arrays), *arrays)
    np.testing.assert_allclose(arrays[1], np.broadcast_to(sizes, (11, 16)), rtol=1e-13)


@needs_compiler
@pytest.mark.parametrize("case", [("float64", 4, 4), ("complex128", 5, 3), BIG[0]], ids=str)
def test_not_finite(case: Case, emulate: Emulator) -> None:
    """A member with NaN or infinity has failed; it spoils no other."""
    arrays, _ = operands(case, count_of(case))
    a = arrays[-1]
    a[0, -1, 0], a[2, 0, -1] = np.nan, -np.inf
    emulate(kernel_for(arrays), *arrays)
    info = arrays[3]
    np.testing.assert_array_equal(info, np.isin(np.arange(len(a)), (0, 2)))
    good = info == 0
    u, s, vh = (x[good] for x in arrays[:3])
    holds(a[good], u, s, vh)


@needs_compiler
@pytest.mark.parametrize(("m", "n"), [(5, 3), (3, 5), (4, 4)])
def test_strides(m: int, n: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Batches of two axes, steps, reversed and transposed arrays."""
    k = min(m, n)
    a = np.asfortranarray(matrices("complex128", m, n, 12)).reshape(3, 4, m, n)[::-1, ::2, ::-1]
    memory = np.full((2, 3, 2 * k, m), np.nan, complex)
    u = memory[:, :, ::2].transpose(1, 0, 3, 2)
    s = np.full((3, 2, k), np.nan)[:, :, ::-1]
    vh = np.full((3, 2, n, k), np.nan, complex).swapaxes(2, 3)
    info = np.full((3, 4), -1, np.int32)[:, ::2]
    arrays = [u, s, vh, info, a]
    kernel = kernel_for(arrays)
    Emulator([kernel], tmp_path_factory.mktemp("one"))(kernel, *arrays)
    assert (info == 0).all()
    assert np.isnan(memory[:, :, 1::2]).all()
    holds(a.reshape(-1, m, n), u.reshape(-1, m, k), s.reshape(-1, k), vh.reshape(-1, k, n))


@needs_compiler
def test_as_much_memory_as_the_card_lets() -> None:
    """Every block may have 48 KiB of shared memory; a launch that takes more has to be allowed it first."""
    xp: Any = StandIn(compiles=True)
    most = shared_memory(xp)
    a = matrices("float64", 62, 62, 1)
    s, info = xp.empty((1, 62), np.float64), xp.empty((1,), np.int32)
    u, vh = xp.empty((1, 62, 62), np.float64), xp.empty((1, 62, 62), np.float64)
    arrays = [u, s, vh, info, xp.array(a)]
    kernel = svd(*(operand_of(x) for x in arrays), most=most)  # type: ignore[arg-type]
    assert kernel is not None
    assert PLAIN_SHARED < kernel.shared <= most
    launch(xp, kernel, *arrays)
    assert info.get().tolist() == [0]
    holds(a, u.get(), s.get(), vh.get())


def test_what_has_no_kernel() -> None:
    """Beyond a block's memory, beyond 128 vectors, and of other dtypes."""

    def made(dtype: str, m: int, n: int, most: int) -> CudaKernel | None:
        k = min(m, n)
        shapes = ((2, k), (2,), (2, m, n))
        s, info, a = (np.zeros(shape, dtype) for shape in shapes)
        seen: list[Any] = [operand_of(x) for x in (s, info, a)]
        return svdvals(*seen, most=most)

    assert shape_of(90, 86, 16, True, LARGE).outside  # type: ignore[union-attr]
    assert made("float64", 64, 64, 48 << 10) is not None
    assert made("float64", 90, 90, 48 << 10) is None
    assert made("float64", 90, 90, LARGE) is not None
    assert made("float32", 128, 128, LARGE) is not None
    assert made("float32", 129, 129, LARGE) is None
    assert made("float16", 3, 3, LARGE) is None
    assert made("float64", 3, 0, LARGE) is None


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture: str) -> None:
    compile_all(
        [kernel_of(case, 2, vectors) for case in (*CASES, *BIG) for vectors in (True, False)],
        architecture,
    )
