"""Copies between layouts beside NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.gpu.emulator import Emulator, needs_compiler, strides_of
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc

from einloom.backend.gpu.cuda.kernel import CudaKernel
from einloom.backend.gpu.cuda.permutation import permutation

Array = np.ndarray[Any, Any]
DTYPES = ("u1", "u2", "f4", "f8", "c16")
PLACES = (  # shape of the source's memory, permutation
    ((70, 45), (1, 0)),
    ((5, 70, 45), (0, 2, 1)),
    ((33, 7, 40), (2, 1, 0)),
    ((40, 50), (0, 1)),
    ((6, 5, 64), (1, 0, 2)),
    ((2,) * 12, (11, 3, 7, 0, 9, 5, 1, 8, 2, 10, 4, 6)),
    ((2,) * 12, (5, 4, 3, 2, 1, 0, 6, 7, 8, 9, 10, 11)),
    ((3, 1, 2, 3, 5, 2, 3), (6, 1, 0, 5, 3, 2, 4)),
    ((0, 3), (1, 0)),
    ((), ()),
)


def pair(dtype: str, number: int) -> tuple[Array, Array]:
    """Target and source; in turns sliced, reversed or broadcast."""
    shape, order = PLACES[number]
    source = np.arange(int(np.prod(shape, dtype=int)) or 1).astype(dtype)[
        : int(np.prod(shape, dtype=int))
    ]
    source = source.reshape(shape).transpose(order)
    target = np.zeros(source.shape, dtype)
    if number % 3 == 1 and source.ndim:
        source, target = (
            source[::-1],
            np.zeros((*target.shape[:-1], 2 * target.shape[-1]), dtype)[..., ::2],
        )
    if number % 4 == 2:
        source = np.broadcast_to(source[:1], source.shape)
    return target, source


def kernel_of(target: Array, source: Array) -> CudaKernel:
    kernel = permutation(target.itemsize, target.shape, strides_of(target), strides_of(source))
    assert kernel is not None
    return kernel


CASES = [
    pair(dtype, number)
    for at, dtype in enumerate(DTYPES)
    for number in range(len(PLACES))
    if dtype == "f8" or (at + number) % 3 == 0
]


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    return Emulator([kernel_of(*case) for case in CASES], tmp_path_factory.mktemp("kernels"))


@needs_compiler
def test_permutations(emulate: Emulator) -> None:
    for target, source in CASES:
        emulate(kernel_of(target, source), target, source)
        np.testing.assert_array_equal(target, source)
        if target.base is not None and target.base.size > target.size:
            assert (target.base[..., 1::2] == 0).all()


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture: str) -> None:
    most = permutation(8, (2,) * 64, *_scrambled())
    assert most is not None
    assert most.wide
    assert 8 * len(most.geometry) < 4096
    compile_all([*(kernel_of(*case) for case in CASES), most], architecture)


def _scrambled() -> tuple[tuple[int, ...], tuple[int, ...]]:
    order = np.random.default_rng(0).permutation(64)
    return tuple(1 << k for k in range(64)), tuple(1 << int(k) for k in order)


def test_other_sizes_are_declined() -> None:
    assert permutation(12, (3,), (1,), (1,)) is None
