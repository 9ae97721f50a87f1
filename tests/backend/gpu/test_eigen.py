"""Eigenvalues of small Hermitian matrices: a v = v diag(w), v unitary, w rising and those of LAPACK."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, strides_of, untouched
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc
from tests.tolerance import eps

from einloom.backend.gpu.cuda.eigen import eigh, eigvalsh
from einloom.backend.gpu.cuda.kernel import CudaKernel
from einloom.backend.gpu.cuda.layout import Operand, operand_of

# a few minutes in all; by default tests/linalg/test_on_device.py runs the same kernels in double precision
pytestmark = pytest.mark.slow
Array = np.ndarray[Any, Any]
DTYPES = ("float32", "float64", "complex64", "complex128")
CASES = (
    *product(DTYPES, (1, 2, 5, 16, 32)),
    *product(DTYPES[1:3], (3, 4, 8, 9, 10, 17, 18, 25, 31)),
)
LARGE = {"float32": 1e30, "complex64": 1e30, "float64": 1e200, "complex128": 1e200}
ORDERS = tuple(range(1, 33))


def matrices(dtype: str, order: int) -> Array:
    """Of every kind that is hard for some step; more than a warp holds, and no whole number of warps."""
    rng = np.random.default_rng(order)
    a = rng.standard_normal((37, order, order)).astype(dtype)
    if dtype.startswith("complex"):
        a += 1j * rng.standard_normal(a.shape)
    a += np.conj(np.swapaxes(a, 1, 2))
    steps = np.arange(order)
    neighbours = np.diag(np.ones(order - 1), 1) + np.diag(np.ones(order - 1), -1)
    graded = 10.0 ** (-0.5 * steps)
    q = np.linalg.qr(a[0])[0]
    a[1] = np.diag(steps[::-1])
    a[2] = 0
    a[3] = 1  # of rank 1
    a[4] /= LARGE[dtype]
    a[5] *= LARGE[dtype]
    a[6] = np.eye(order)
    a[7] *= graded[:, None] * graded
    a[8] *= graded[::-1, None] * graded[::-1]
    a[9] = 2 * np.eye(order) + neighbours
    a[10] = (q * np.where(steps < order // 2, 1, -3)) @ q.conj().T  # two eigenvalues
    a[11] = np.diag(np.abs(steps - order // 2)) + neighbours  # pairs that agree nearly (Wilkinson)
    a[12, order // 2 :, : order // 2] = 0  # two blocks
    a[13] = np.eye(order) + 1e-12 * a[0]
    a[14] = 1 / (1 + steps[:, None] + steps)  # Hilbert's, close to singular
    a[15] *= np.finfo(dtype).tiny  # subnormal in part
    a[16] = np.where(np.abs(steps[:, None] - steps) == order - 1, a[0], 0)
    a[17, 1:, 0] = 1j * np.abs(a[17, 1:, 0]) if dtype.startswith("complex") else 0
    upper = np.triu(np.ones((order, order), bool), 1)
    a[:, upper] = np.nan
    return a


def outputs(dtype: str, order: int, count: int) -> tuple[list[Array], list[Array]]:
    """Eigenvalues, vectors and info, and the memory around each."""
    real = np.zeros(0, dtype).real.dtype
    made = [guarded(shape, kind) for shape, kind in (
        ((count, order), real), ((count, order, order), dtype), ((count,), np.int32))]  # fmt: skip
    return [x for x, _ in made], [memory for _, memory in made]


def described(x: Array) -> Operand:
    found = operand_of(x)
    assert found is not None
    return found


def kernel_of(w: Array, v: Array | None, info: Array, a: Array) -> CudaKernel:
    if v is None:
        kernel = eigvalsh(described(w), described(info), described(a))
    else:
        kernel = eigh(described(w), described(v), described(info), described(a))
    assert kernel is not None
    return kernel


def kernels_of(dtype: str, order: int) -> list[CudaKernel]:
    a = matrices(dtype, order)
    (w, v, info), _ = outputs(dtype, order, len(a))
    return [kernel_of(w, v, info, a), kernel_of(w, None, info, a)]


def turned(x: Array) -> Array:
    """The same with columns side by side in memory, and members apart."""
    memory = np.zeros((2 * len(x), *x.shape[:0:-1]), x.dtype)
    view = np.swapaxes(memory[::2], 1, -1)
    view[...] = x
    return view


def check(dtype: str, a: Array, w: Array, v: Array | None) -> None:
    """Of matrices that have become numbers of about 1, in double precision."""
    order = a.shape[-1]
    lower = np.tril(a).astype(np.result_type(dtype, np.float64))
    size = np.abs(lower).max(axis=(1, 2), keepdims=True)
    size[size == 0] = 1
    whole = (lower + np.conj(np.swapaxes(np.tril(lower, -1), 1, 2))) / size
    found = w.astype(np.float64) / size[:, 0]
    known = np.linalg.eigvalsh(whole)
    bound = 4 * (order + 2) * eps(dtype) * np.maximum(1, np.abs(known).max(axis=1))[:, None]
    # the spacing of subnormal numbers
    bound = bound + order * np.finfo(dtype).smallest_subnormal / size[:, 0]
    assert (np.diff(found, axis=1) >= 0).all()
    assert (np.abs(found - known) <= bound).all()
    if v is None:
        return
    vectors = v.astype(whole.dtype)
    off = np.linalg.norm(whole @ vectors - vectors * found[:, None], axis=(1, 2))
    assert (off[:, None] <= bound).all()
    products = np.conj(np.swapaxes(vectors, 1, 2)) @ vectors
    apart = np.linalg.norm(products - np.eye(order), axis=(1, 2))
    assert (apart <= 4 * (order + 2) * eps(dtype)).all()


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    kernels = [kernel for case in CASES for kernel in kernels_of(*case)]
    return Emulator(kernels, tmp_path_factory.mktemp("kernels"))


@needs_compiler
@pytest.mark.parametrize(("dtype", "order"), CASES)
def test_eigh(dtype: str, order: int, emulate: Emulator) -> None:
    a = matrices(dtype, order)
    (w, v, info), memories = outputs(dtype, order, len(a))
    emulate(kernel_of(w, v, info, a), w, v, info, a)
    assert all(untouched(memory) for memory in memories)
    assert (info == 0).all()
    check(dtype, a, w, v)


@needs_compiler
@pytest.mark.parametrize(("dtype", "order"), CASES)
def test_values_alone(dtype: str, order: int, emulate: Emulator) -> None:
    """The same as with vectors."""
    a = matrices(dtype, order)
    (w, v, info), memories = outputs(dtype, order, len(a))
    emulate(kernel_of(w, None, info, a), w, info, a)
    assert all(untouched(memory) for memory in memories)
    assert (info == 0).all()
    check(dtype, a, w, None)
    again = w.copy()
    emulate(kernel_of(again, v, info, a), again, v, info, a)
    np.testing.assert_array_equal(again, w)


@needs_compiler
@pytest.mark.parametrize("order", [2, 5, 16, 32])
def test_known_answers(order: int, emulate: Emulator) -> None:
    """Diagonal matrices to the last bit; and 2 - 2 cos(pi k / (n + 1)) of second differences."""
    a = matrices("float64", order)
    a[9] = 4 * np.eye(order) - a[9]  # -1 beside 2
    a[9][np.triu(np.ones((order, order), bool), 1)] = np.nan
    (w, v, info), _ = outputs("float64", order, len(a))
    for vectors in (v, None):
        arrays = (w, info, a) if vectors is None else (w, v, info, a)
        emulate(kernel_of(w, vectors, info, a), *arrays)
        np.testing.assert_array_equal(w[1], np.arange(order))
        np.testing.assert_array_equal(w[2], 0)
        np.testing.assert_array_equal(w[6], 1)
        known = 2 - 2 * np.cos(np.pi * np.arange(1, order + 1) / (order + 1))
        np.testing.assert_allclose(w[9], known, rtol=0, atol=64 * eps("float64"))
    np.testing.assert_array_equal(v[1], np.eye(order)[::-1])
    np.testing.assert_array_equal(v[6], np.eye(order))


@needs_compiler
@pytest.mark.parametrize(
    ("dtype", "order"), [("float64", 1), ("float64", 2), *product(DTYPES, (5, 16))]
)
def test_what_is_not_finite_is_told(dtype: str, order: int, emulate: Emulator) -> None:
    """Of its own matrix alone, and of the triangle that is read; the others come out as without it."""
    a = matrices(dtype, order)
    (w, v, info), _ = outputs(dtype, order, len(a))
    emulate(kernel_of(w, v, info, a), w, v, info, a)
    values = w.copy()
    emulate(kernel_of(w, None, info, a), values, info, a)
    bad = a.copy()
    bad[2, -1, 0], bad[5, 0, 0], bad[7, -1, 0] = np.nan, np.inf, -np.inf
    w2, v2, told = np.empty_like(w), np.empty_like(v), np.empty_like(info)
    emulate(kernel_of(w2, v2, told, bad), w2, v2, told, bad)
    np.testing.assert_array_equal(np.flatnonzero(told), [2, 5, 7])
    good = np.setdiff1d(np.arange(len(a)), [2, 5, 7])
    np.testing.assert_array_equal(w2[good], w[good])
    np.testing.assert_array_equal(v2[good], v[good])
    emulate(kernel_of(w2, None, told, bad), w2, told, bad)
    np.testing.assert_array_equal(np.flatnonzero(told), [2, 5, 7])
    np.testing.assert_array_equal(w2[good], values[good])


@needs_compiler
@pytest.mark.parametrize("count", [1, 3, 16])
def test_neighbours_change_nothing(count: int, emulate: Emulator) -> None:
    """Lanes without a matrix of their own, and matrices that need fewer sweeps."""
    a = matrices("complex64", 5)
    (w, v, info), _ = outputs("complex64", 5, len(a))
    emulate(kernel_of(w, v, info, a), w, v, info, a)
    part = a[::-1][:count].copy()
    (some_w, some_v, some_info), memories = outputs("complex64", 5, count)
    emulate(kernel_of(some_w, some_v, some_info, part), some_w, some_v, some_info, part)
    assert all(untouched(memory) for memory in memories)
    np.testing.assert_array_equal(some_w, w[::-1][:count])
    np.testing.assert_array_equal(some_v, v[::-1][:count])


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
def test_strides(dtype: str, tmp_path: Any) -> None:
    """Columns side by side in memory, of what is read or of what is written."""
    a = matrices(dtype, 6)
    (w, v, info), _ = outputs(dtype, 6, len(a))
    plain = (w, v, info, a)
    other = (turned(w), turned(v), info.copy(), turned(a))
    back = (w.copy(), v.copy(), info.copy(), turned(a))
    calls = (plain, other, back)
    emulate = Emulator([kernel_of(*call) for call in calls], tmp_path)
    assert abs(strides_of(other[1])[1]) < abs(strides_of(other[1])[2])
    for call in calls:
        emulate(kernel_of(*call), *call)
    for call in calls[1:]:
        for x, y in zip(plain[:3], call, strict=False):
            np.testing.assert_array_equal(x, y)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_order(dtype: str, tmp_path: Any) -> None:
    emulate = Emulator(
        [kernel for order in ORDERS for kernel in kernels_of(dtype, order)], tmp_path
    )
    for order in ORDERS:
        a = matrices(dtype, order)
        (w, v, info), _ = outputs(dtype, order, len(a))
        emulate(kernel_of(w, v, info, a), w, v, info, a)
        assert (info == 0).all()
        check(dtype, a, w, v)
        emulate(kernel_of(w, None, info, a), w, info, a)
        assert (info == 0).all()
        check(dtype, a, w, None)


def test_beyond_a_warp_there_is_none() -> None:
    a, w, info = np.zeros((2, 33, 33)), np.zeros((2, 33)), np.zeros(2, np.int32)
    assert eigvalsh(described(w), described(info), described(a)) is None


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture: str) -> None:
    compile_all([kernel for case in CASES for kernel in kernels_of(*case)], architecture)
