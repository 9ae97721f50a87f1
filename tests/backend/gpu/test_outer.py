"""Products that sum nothing, several elements by a thread, bit for bit beside one element by each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import COMPILING
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, strides_of, untouched
from tests.backend.gpu.launches import launches
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc
from tests.backend.stand_in import DeviceArray

from einloom.backend.gpu.cuda import products as module
from einloom.backend.gpu.cuda.kernel import CudaKernel
from einloom.backend.gpu.cuda.layout import layout, row_major
from einloom.backend.gpu.cuda.outer import grouped, outer, width_of
from einloom.backend.gpu.cuda.products import products
from einloom.backend.spec import dtype_from_name

Array = np.ndarray[Any, Any]
DTYPES = (
    "bool", "int8", "uint8", "int16", "int32", "uint64", "float16", "bfloat16", "float32", "float64",
    "complex64", "complex128",
)  # fmt: skip
EQUATIONS = ("i,j->ij", "i,j->ji", "ij,ij->ij", "bi,bj->bij", "bij,j->ibj", "i,i->i", ",ij->ij")
SIZES = ({"b": 3, "i": 40, "j": 24}, {"b": 5, "i": 7, "j": 33}, {"b": 1, "i": 2, "j": 3})
CONJ = (True, False)
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-300, 1e300, 3.0)


def drawn(rng: np.random.Generator, dtype: Any, size: int) -> Array:
    """Numbers among which are those that floats treat by themselves."""
    if dtype.kind in "biu":
        return rng.integers(0, 256, size).astype(dtype)
    x = rng.standard_normal((2, size))
    x[:, rng.integers(0, size, size // 4)] = rng.choice(SPECIAL, (2, size // 4))
    with np.errstate(all="ignore"):
        return (x[0] + 1j * x[1]).astype(dtype) if dtype.kind == "c" else x[0].astype(dtype)


def laid_out(rng: np.random.Generator, dtype: Any, shape: tuple[int, ...], how: int) -> Array:
    """Row-major, one element behind where it begins, transposed, reversed, or of every second column."""
    n = math.prod(shape)
    if how == 1:
        return drawn(rng, dtype, n + 1)[1:].reshape(shape)
    if how == 2:
        return drawn(rng, dtype, n).reshape(shape[::-1]).T
    if how == 3 and shape:
        return drawn(rng, dtype, n).reshape(shape)[..., ::-1]
    if how == 4 and shape:
        return drawn(rng, dtype, 2 * n).reshape(*shape[:-1], -1)[..., ::2]
    return drawn(rng, dtype, n).reshape(shape)


def settled(x: Array) -> bytes:
    """The bits, with one NaN for all: which one an operation gives is up to the processor of the tests."""
    parts = x.view(x.real.dtype)
    if parts.dtype.kind in "fV":
        parts = np.where(parts != parts, parts.dtype.type(np.nan), parts)
    return parts.tobytes()


class Case:
    """Operands of an equation and how their elements meet those of the result."""

    def __init__(self, number: int, dtype: str, equation: str, sizes: dict[str, int]) -> None:
        rng = np.random.default_rng(number)
        self.dtype, kind = dtype, dtype_from_name(dtype)
        *terms, output = equation.replace("->", ",").split(",")
        self.shape = tuple(sizes[label] for label in output)
        self.operands = [
            laid_out(rng, kind, tuple(sizes[label] for label in term), (number + 3 * k) % 5)
            for k, term in enumerate(terms)
        ]
        self.is_apart = number % 3 == 0  # every second column of what is written
        self.is_late = number % 3 == 1  # one element behind where memory begins
        strides = [
            dict(zip(term, strides_of(x), strict=True))
            for term, x in zip(terms, self.operands, strict=True)
        ]
        of_both = (tuple(one.get(label, 0) for label in output) for one in strides)
        left, right = of_both
        steps = tuple((1 + self.is_apart) * step for step in row_major(self.shape))
        self.free = (self.shape, steps, left, right)

    def target(self) -> tuple[Array, Array]:
        size = (1 + self.is_apart) * math.prod(self.shape) + self.is_late
        flat, memory = guarded((size,), dtype_from_name(self.dtype))
        return flat[self.is_late :], memory

    def kernels(self) -> tuple[CudaKernel, CudaKernel]:
        one = outer(self.dtype, self.free, CONJ)
        other = products(self.dtype, self.free, ((), (), ()), CONJ)
        assert one is not None
        assert other is not None
        return one, other


CASES = [
    Case(number, DTYPES[number % len(DTYPES)], equation, SIZES[turn])
    for number, (turn, equation) in enumerate(
        (turn, equation) for turn in (0, 1, 0, 2, 1, 0, 0) for equation in EQUATIONS
    )
]


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    kernels = [kernel for case in CASES for kernel in case.kernels()]
    return Emulator(kernels, tmp_path_factory.mktemp("kernels"))


@needs_compiler
@pytest.mark.parametrize("number", range(len(CASES)))
def test_bits(number: int, emulate: Emulator) -> None:
    case = CASES[number]
    found = []
    for kernel in case.kernels():
        out, memory = case.target()
        emulate(kernel, out, *case.operands)
        assert untouched(memory)
        found.append(settled(out))
    assert found[0] == found[1]


@needs_compiler
def test_numbers(emulate: Emulator) -> None:
    """That both are products at all."""
    for case in CASES:
        if case.dtype in ("float64", "int32") and not case.is_apart:
            out, _ = case.target()
            emulate(case.kernels()[0], out, *case.operands)
            x, y = (
                np.lib.stride_tricks.as_strided(
                    operand, case.shape, [step * operand.itemsize for step in steps]
                )
                for operand, steps in zip(case.operands, case.free[2:], strict=True)
            )
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(out.reshape(case.shape), x * y)


def test_neighbours_are_written_together() -> None:
    def width(itemsize: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> int:
        return width_of(itemsize, layout(shape, steps, (0,) * len(shape), (1,) * len(shape)))

    assert width(8, (7, 6), (6, 1)) == 2
    assert width(8, (7, 6), (7, 1)) == 1  # rows begin between
    assert width(4, (7, 6), (6, 1)) == 2
    assert width(4, (8, 12), (12, 1)) == 4
    assert width(1, (8, 16), (16, 1)) == 8
    assert width(16, (8, 16), (16, 1)) == 1
    assert width(8, (7,), (1,)) == 2  # but for the last
    assert width(8, (8,), (2,)) == width(8, (8,), (-1,)) == 1


@pytest.mark.parametrize("sizes", [(4096, 4096), (5, 3), (2, 100), (1, 9), (3, 2, 50), (4, 4, 4)])
def test_groups_hold_every_element_once(sizes: tuple[int, ...]) -> None:
    axes = layout(sizes, row_major(sizes), (1,) + (0,) * (len(sizes) - 1), row_major(sizes))
    width, parts = width_of(8, axes), 4
    groups, size, limit, step = grouped(axes, width, parts)
    places = np.zeros(1, int)
    along = np.zeros(1, int)
    for n, to, _, _, number in groups.axes:
        places = (places[:, None] + np.arange(n) * to).ravel()
        along = (along[:, None] + np.arange(n) * number).ravel()
    found = [places[along + part * size < limit] + part * step[0] for part in range(parts)]
    every = (np.concatenate(found)[:, None] + np.arange(width)).ravel()
    np.testing.assert_array_equal(np.sort(every), np.arange(axes.count - axes.count % width))


def test_which_results_are_large_enough() -> None:
    def name(n: int) -> str:
        kernel = products("float64", ((n, n), (n, 1), (1, 0), (0, 1)), ((), (), ()))
        assert kernel is not None
        return kernel.name.partition("_")[0]

    assert 8 * 1024**2 >= module.MANY > 8 * 256**2
    assert (name(256), name(1024)) == ("products", "outer")


@needs_compiler
def test_large_products_of_the_backend() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(n + 1)[1:].view(DeviceArray) for n in (1024, 601))
    attrs = {"batch": ((), ()), "contracting": ((), ())}
    with launches() as names:
        for _ in range(2):
            found = COMPILING.apply("dot_general", attrs, x, y)
            want = np.multiply.outer(x.view(np.ndarray), y.view(np.ndarray))
            np.testing.assert_array_equal(found.view(np.ndarray), want)
        room = np.zeros((1024, 603)).view(DeviceArray)
        COMPILING.apply("dot_general", attrs, x, y, out=room[:, 1:-1])
    assert names == ["outer"] * 3
    np.testing.assert_array_equal(room.view(np.ndarray)[:, 1:-1], want)
    assert not room.view(np.ndarray)[:, [0, -1]].any()


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture: str) -> None:
    n = 1 << 20
    wide = outer("float32", ((n, n), (n, 1), (1, 0), (0, 1)))
    assert wide is not None
    assert wide.wide
    assert wide.grid[0] == 1 << 20
    compile_all([wide, *(case.kernels()[0] for case in CASES)], architecture)
