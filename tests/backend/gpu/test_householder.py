"""QR of many matrices: a = q r, q orthonormal, r that of LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, untouched
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc
from tests.backend.stand_in import StandIn
from tests.tolerance import eps

from einloom.backend.gpu import linalg
from einloom.backend.gpu.cuda.householder import qr, r_alone, reflectors, shape_of
from einloom.backend.gpu.cuda.kernel import PLAIN_SHARED, CudaKernel
from einloom.backend.gpu.cuda.layout import operand_of

# a few minutes in all; by default tests/linalg/test_on_device.py runs the same kernels in double precision
pytestmark = pytest.mark.slow
Array = np.ndarray[Any, Any]
Case = tuple[str, int, int]
LARGE = 232448  # bytes of a block, of the largest cards
MODES = ("reduced", "complete", "r", "raw")
CASES: tuple[Case, ...] = (
    ("float64", 1, 1),
    ("complex64", 1, 6),
    ("complex128", 6, 1),
    ("float32", 2, 2),
    ("float64", 3, 5),
    ("complex128", 5, 3),
    ("float64", 4, 4),
    ("complex64", 8, 8),
    ("complex128", 9, 17),
    ("float64", 16, 16),
    ("float32", 17, 33),
    ("complex128", 33, 17),
    ("float64", 32, 32),
    ("complex64", 32, 32),
    ("complex128", 31, 32),
)
BIG: tuple[Case, ...] = (
    ("float64", 33, 33),
    ("complex64", 64, 64),
    ("float64", 100, 128),
    ("complex128", 90, 60),
    ("float32", 300, 20),  # columns are read in parts
    ("complex128", 150, 3),
    ("float64", 6, 140),
)
IN_PARTS = BIG[4:6]  # their square q is in no block's memory
FAR = {"f": 30, "d": 200, "F": 30, "D": 200}
"""Decimal digits of a scale whose square is out of range."""


def count_of(case: Case) -> int:
    """All that `matrices` has, but for large ones."""
    return 11 if case[1] * case[2] < 3000 else 3


def matrices(dtype: str, m: int, n: int, count: int) -> Array:
    """Dense, then in turn hard ones."""
    rng = np.random.default_rng([m, n])
    a = rng.standard_normal((count, m, n)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        a += 1j * rng.standard_normal(a.shape)
    far = FAR[np.dtype(dtype).char]
    special = [
        lambda x: x,
        lambda x: x * 10.0**far,
        lambda x: x * 10.0**-far,
        lambda x: np.zeros_like(x),
        lambda x: np.repeat(x[:, :1], n, axis=1),
        lambda x: x * 10.0 ** np.linspace(-far, far, n),
        lambda x: x * 10.0 ** np.linspace(-far, far, m)[:, None],
        lambda x: np.triu(x),
        lambda x: np.eye(m, n) * x,
        lambda x: x * (np.arange(n) != n // 2),
        lambda x: x * np.finfo(x.dtype).smallest_subnormal * 2**10,
    ]
    with np.errstate(under="ignore"):
        for one, make in zip(a, special, strict=False):
            one[...] = make(one)
    return a


def shapes_of(mode: str, m: int, n: int) -> list[tuple[int, ...]]:
    k = min(m, n)
    rows = m if mode == "complete" else k
    if mode == "raw":
        return [(n, m), (k,)]
    return [(k, n)] if mode == "r" else [(m, rows), (rows, n)]


def kernel_for(mode: str, arrays: list[Array], most: int = LARGE) -> CudaKernel | None:
    seen: list[Any] = [operand_of(x) for x in arrays]
    made: Any = {"r": r_alone, "raw": reflectors}.get(mode, qr)
    return made(*seen, most=most)


def operands(case: Case, mode: str, count: int) -> tuple[list[Array], list[Array]]:
    dtype, m, n = case
    made = [guarded((count, *shape), dtype) for shape in shapes_of(mode, m, n)]
    return [*(x for x, _ in made), matrices(*case, count)], [memory for _, memory in made]


def kernel_of(case: Case, mode: str, count: int = 11) -> CudaKernel:
    kernel = kernel_for(mode, operands(case, mode, count)[0])
    assert kernel is not None
    return kernel


def fits(case: Case, mode: str) -> bool:
    return mode != "complete" or case not in IN_PARTS


def kernels() -> list[CudaKernel]:
    every = [(case, mode) for case in (*CASES, *BIG) for mode in MODES]
    return [kernel_of(*one) for one in every if fits(*one)]


def factors(emulate: Emulator, mode: str, a: Array) -> list[Array]:
    made = [guarded((len(a), *shape), a.dtype) for shape in shapes_of(mode, *a.shape[1:])]
    arrays = [*(x for x, _ in made), a]
    kernel = kernel_for(mode, arrays)
    assert kernel is not None
    emulate(kernel, *arrays)
    assert all(untouched(memory) for _, memory in made)
    return arrays[:-1]


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    return Emulator(kernels(), tmp_path_factory.mktemp("kernels"))


def holds(a: Array, q: Array, r: Array) -> None:
    """Columns are brought near 1 first, where sums of squares are in range."""
    k = q.shape[-1]
    bound = 4 * (max(a.shape[1:]) + 4) * eps(a.dtype.name)
    below = np.tril(np.ones(r.shape[1:], bool), -1)
    assert (r[:, below] == 0).all()
    assert (np.imag(np.diagonal(r, axis1=1, axis2=2)) == 0).all()
    size = np.abs(a).max(axis=1, keepdims=True)
    wide = np.clongdouble if a.dtype.kind == "c" else np.longdouble
    error = np.abs(q.astype(wide) @ r.astype(wide) - a).max(axis=1, keepdims=True)
    subnormal = a.shape[1] * np.finfo(a.dtype).smallest_subnormal
    assert (error <= bound * size.astype(np.longdouble) + subnormal).all()
    assert (np.abs(np.conj(q.swapaxes(1, 2)) @ q - np.eye(k)) <= bound).all()


def usual(a: Array) -> Array:
    """Members in which every entry of r is well determined."""
    return np.array([k for k in (0, 1, 2, 5, 7, 8) if k < len(a)])


@needs_compiler
@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("case", [*CASES, *BIG], ids=str)
def test_qr(case: Case, mode: str, emulate: Emulator) -> None:
    if not fits(case, mode):
        assert kernel_for(mode, operands(case, mode, 2)[0]) is None
        return
    a = matrices(*case, count_of(case))
    q, r = factors(emulate, mode, a)
    holds(a, q, r)
    (alone,) = factors(emulate, "r", a)
    np.testing.assert_array_equal(alone, r[:, : min(case[1:])])


@needs_compiler
@pytest.mark.parametrize("case", [*CASES, *BIG], ids=str)
def test_signs_are_those_of_lapack(case: Case, emulate: Emulator) -> None:
    a = matrices(*case, count_of(case))
    dtype, m, n = case
    few = usual(a)
    (r,) = factors(emulate, "r", a)
    want = np.linalg.qr(a[few], "r")
    bound = 40 * max(m, n) ** 2 * eps(dtype)
    size = np.abs(want).max(axis=1, keepdims=True)
    assert (np.abs(r[few] - want) <= bound * size).all()
    h, tau = factors(emulate, "raw", a)
    other_h, other_tau = np.linalg.qr(a[few], "raw")
    np.testing.assert_array_equal(np.triu(h.swapaxes(1, 2)[:, : min(m, n)]), r)
    np.testing.assert_allclose(tau[0], other_tau[0], rtol=0, atol=bound)
    np.testing.assert_allclose(h[0], other_h[0], rtol=0, atol=bound * np.abs(other_h[0]).max())


@needs_compiler
@pytest.mark.parametrize("case", [CASES[6], CASES[10], CASES[11], BIG[0]], ids=str)
def test_alone_or_beside_others(case: Case, emulate: Emulator) -> None:
    """Bit by bit the same, though what lies beside it is scaled, or is no number."""
    a = matrices(*case, count_of(case))
    q, r = factors(emulate, "reduced", a)
    a[1], a[3, -1, 0], a[5, 0, -1] = np.nan, np.inf, np.nan
    beside_q, beside_r = factors(emulate, "reduced", a)
    good = [k for k in range(len(a)) if k not in (1, 3, 5)]
    np.testing.assert_array_equal(beside_q[good], q[good])
    np.testing.assert_array_equal(beside_r[good], r[good])
    for bad in (1, 3, 5):
        assert not np.isfinite(beside_r[bad]).all()
    assert np.isnan(beside_q[1]).all(axis=0).any()
    for k in range(len(a)):
        one_q, one_r = factors(emulate, "reduced", a[k : k + 1])
        np.testing.assert_array_equal(one_q[0], beside_q[k])
        np.testing.assert_array_equal(one_r[0], beside_r[k])


@needs_compiler
@pytest.mark.parametrize(("m", "n"), [(5, 3), (3, 5), (4, 4)])
@pytest.mark.parametrize("mode", MODES)
def test_strides(m: int, n: int, mode: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Batches of two axes, steps, reversed and transposed arrays."""
    a = np.asfortranarray(matrices("complex128", m, n, 12)).reshape(3, 4, m, n)[::-1, ::2, ::-1]
    shapes = shapes_of(mode, m, n)
    memory = np.full((2, 3, 2 * shapes[0][1], shapes[0][0]), np.nan, complex)
    made = [memory[:, :, ::2].transpose(1, 0, 3, 2)]
    for shape in shapes[1:]:
        made.append(np.full((3, 2, *shape), np.nan, complex)[..., ::-1])
    kernel = kernel_for(mode, [*made, a])
    assert kernel is not None
    Emulator([kernel], tmp_path_factory.mktemp("one"))(kernel, *made, a)
    assert np.isnan(memory[:, :, 1::2]).all()
    if mode in ("reduced", "complete"):
        q, r = (x.reshape(-1, *x.shape[2:]) for x in made)
        holds(a.reshape(-1, m, n), q, r)
        return
    (r,) = made if mode == "r" else (np.triu(made[0].swapaxes(2, 3)[..., : min(m, n), :]),)
    want = np.linalg.qr(a[0, 0], "r")
    np.testing.assert_allclose(r[0, 0], want, rtol=0, atol=1e-13 * np.abs(want).max())


@needs_compiler
def test_which_way() -> None:
    """Batches and small matrices are launched; the library has large ones alone, and what no block holds."""
    xp: Any = StandIn(compiles=True)
    called: list[tuple[int, ...]] = []

    class Library:
        def qr(self, a: Any, mode: str) -> Any:
            called.append(a.shape)
            found = np.linalg.qr(a.view(np.ndarray), mode)  # type: ignore[call-overload]
            return tuple(map(xp.array, found)) if isinstance(found, tuple) else xp.array(found)

    xp.linalg = Library()
    for shape, by_library in (
        ((3, 7, 5), False),
        ((2, 7, 5), False),
        ((7, 5), False),
        ((1, 2, 5, 4), False),
        ((128, 20), False),
        ((129, 20), True),
        ((2, 2, 65, 20), False),
        ((2, 130, 129), True),
        ((2, 1300, 10), True),  # beyond the memory that this card's blocks have
    ):
        called.clear()
        a = np.random.default_rng(1).standard_normal(shape)
        q, r = (x.get() for x in linalg.qr(xp, xp.array(a), "reduced"))
        np.testing.assert_allclose(q @ r, a, atol=1e-12)
        assert bool(called) == by_library, shape
    a = np.random.default_rng(1).standard_normal((4, 6, 3))
    for mode in MODES:
        found = linalg.qr(xp, xp.array(a), mode)
        want: Any = np.linalg.qr(a, mode)  # type: ignore[call-overload]
        want = want if isinstance(want, tuple) else (want,)
        for one, other in zip(found, want, strict=True):
            columns = (
                3 if mode == "complete" else None
            )  # further ones of q are anything orthonormal
            np.testing.assert_allclose(
                one.get()[..., :columns], other[..., :columns], rtol=0, atol=1e-13
            )


def test_what_has_no_kernel() -> None:
    """Beyond a block's memory, beyond 128 reflectors, and of other dtypes."""

    def made(dtype: str, m: int, n: int, most: int) -> CudaKernel | None:
        arrays = [np.zeros((2, *shape), dtype) for shape in shapes_of("reduced", m, n)]
        return kernel_for("reduced", [*arrays, np.zeros((2, m, n), dtype)], most)

    assert made("float64", 64, 64, PLAIN_SHARED) is not None
    assert made("float64", 90, 90, PLAIN_SHARED) is None
    assert made("float64", 128, 128, LARGE) is not None
    assert made("complex128", 118, 118, LARGE) is not None
    assert made("complex128", 128, 128, LARGE) is None
    assert made("float32", 129, 129, LARGE) is None
    assert made("float32", 400, 128, LARGE) is not None
    assert made("float16", 3, 3, LARGE) is None
    assert made("float64", 3, 0, LARGE) is None
    for m, n in ((1, 1), (7, 3), (33, 65), (128, 128), (2000, 5)):
        shape = shape_of(m, n, n, 8, LARGE)
        assert shape is not None
        assert shape.lanes % shape.team == 0
        assert shape.lanes * shape.rows % 32 == 0 or shape.lanes * shape.rows < 32
        assert shape.pitch >= m


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture: str) -> None:
    compile_all(kernels(), architecture)
