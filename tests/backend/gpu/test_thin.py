"""Products of few terms, rows or columns in tiles, beside NumPy's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, untouched
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc

from einloom.backend.gpu.cuda.kernel import CudaKernel
from einloom.backend.gpu.cuda.thin import MOST_TERMS, Tile, thin, tile_of

Sizes = tuple[int, ...]
CASES: list[tuple[str, Sizes, Sizes, Sizes, Sizes]] = [
    # dtype, batch, rows, columns, terms
    ("float32", (), (130,), (150,), (24,)),
    ("float32", (2,), (9, 15), (3, 44), (5, 2)),
    ("float32", (), (513,), (23,), (37,)),
    ("float32", (), (40, 7), (3,), (512,)),
    ("float32", (), (70,), (300,), (9,)),
    ("float32", (3,), (24,), (257,), (8,)),
    ("float32", (), (129,), (100,), (1,)),
    ("float64", (), (130,), (150,), (24,)),
    ("float64", (2,), (9, 15), (3, 44), (5, 2)),
    ("float64", (), (513,), (23,), (37,)),
    ("float64", (), (140,), (50,), (16,)),
    ("float64", (), (70,), (300,), (9,)),
    ("float64", (3,), (20,), (257,), (8,)),
    ("float64", (), (5,), (66,), (1,)),
]


class Case:
    """Operands whose axes lie in some order, one element behind where memory begins, maybe backwards."""

    def __init__(self, number: int, dtype: str, *groups: Sizes) -> None:
        rng = np.random.default_rng(number)
        batch, rows, columns, summed = groups
        labels = iter("abcdefghijklmnop")
        b, m, n, k = ("".join(next(labels) for _ in group) for group in groups)
        sizes = dict(zip(b + m + n + k, (x for group in groups for x in group), strict=True))
        self.terms = (b + m + k, b + n + k)
        self.operands: list[Any] = []
        for term in self.terms:
            order = rng.permutation(len(term))
            memory = rng.integers(-8, 9, math.prod(sizes[x] for x in term) + 1).astype(dtype)
            x = memory[1:].reshape([sizes[term[axis]] for axis in order])
            if number % 3 == 2:
                x = x[..., ::-1]
            self.operands.append(x.transpose(np.argsort(order)))
        self.out, self.memory = guarded(tuple(sizes[x] for x in b + m + n), dtype)
        self.equation = f"{','.join(self.terms)}->{b + m + n}"
        axes = [
            tuple(self.stride(operand, label) for label in group)
            for group in (b, m, n, k)
            for operand in (0, 1)
        ]
        found = thin(
            dtype,
            *((group, axes[2 * i], axes[2 * i + 1]) for i, group in enumerate(groups)),  # type: ignore[arg-type]
        )
        assert found is not None
        self.kernel: CudaKernel = found

    def stride(self, operand: int, label: str) -> int:
        term, x = self.terms[operand], self.operands[operand]
        return x.strides[term.index(label)] // x.itemsize if label in term else 0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Case], Emulator]:
    cases = [Case(number, *case) for number, case in enumerate(CASES)]
    return cases, Emulator([case.kernel for case in cases], tmp_path_factory.mktemp("thin"))


@needs_compiler
@pytest.mark.parametrize("number", range(len(CASES)))
def test_products(made: tuple[list[Case], Emulator], number: int) -> None:
    cases, emulator = made
    case = cases[number]
    emulator(case.kernel, case.out, *case.operands)
    np.testing.assert_array_equal(case.out, np.einsum(case.equation, *case.operands))
    assert untouched(case.memory)


def test_tiles() -> None:
    """Whole warps hold what tensor cores add up; shared memory is what every block may have."""
    for dtype, size in (("float32", 4), ("float64", 8)):
        for m, n in ((m, n) for m in range(1, 300, 3) for n in (*range(1, 300, 5), 10**6)):
            tile = tile_of(dtype, m, n)
            assert 32 <= tile.threads <= 512, (dtype, m, n, tile)
            lines = (tile.rows + tile.columns + 8) * 2 * 8 * size
            assert lines + 8 * (tile.rows + tile.columns + 2 * MOST_TERMS) <= 48 << 10, (m, n, tile)
            if dtype == "float64":
                assert tile.threads % 32 == 0


def axes(sizes: Sequence[int], left: Sequence[int], right: Sequence[int]) -> Any:
    return tuple(sizes), tuple(left), tuple(right)


def test_what_has_none() -> None:
    one, rows, columns = axes((), (), ()), axes((9,), (1,), (0,)), axes((9,), (0,), (1,))
    assert thin("float16", one, rows, columns, axes((3,), (9,), (9,))) is None
    assert thin("float32", one, rows, columns, axes((513,), (9,), (9,))) is None
    large = axes((1 << 40,), (1,), (0,))
    assert thin("float32", one, large, columns, axes((3,), (9,), (9,))) is None


def test_far_offsets_take_64_bits() -> None:
    one, columns = axes((), (), ()), axes((9,), (0,), (1,))
    far = thin("float32", one, axes((9,), (1 << 31,), (0,)), columns, axes((3,), (1,), (9,)))
    assert far is not None
    assert far.wide
    assert isinstance(tile_of("float32", 9, 9), Tile)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture: str) -> None:
    kernels = [Case(number, *case).kernel for number, case in enumerate(CASES)]
    ptx = compile_all(kernels, architecture)
    assert ("mma.sync" in ptx) == (architecture == "compute_90")
