"""Copies between layouts beside NumPy's."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.backend.gpu.emulator import (
    Emulator,
    guarded,
    needs_compiler,
    strides_of,
    untouched,
)
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc

from einloom.backend.gpu.cuda.kernel import CudaKernel
from einloom.backend.gpu.cuda.permutation import (
    BANKS,
    EACH,
    LEAST,
    THREADS,
    TILE_AXES,
    merged,
    movers_of,
    permutation,
    planned,
    slots_of,
    widened,
)

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


SHAPES = (  # of the source's memory, permutation: tiles cut along no, one and both axes, of many axes
    ((61, 97), (1, 0)),
    ((2,) * 15, tuple(range(14, -1, -1))),
    ((3,) * 9, tuple(range(8, -1, -1))),
    ((3,) * 9, (8, *range(8))),
    ((2, 3, 5, 7, 4, 6, 5), (5, 2, 0, 3, 6, 1, 4)),
    ((7, 5, 11, 16), (1, 2, 0, 3)),
    ((3, 40, 200), (1, 0, 2)),
    ((2, 2, 33, 2, 66, 2), (4, 3, 1, 0, 2, 5)),
    ((2**12, 6), (1, 0)),
    (
        (49, 101, 49),
        (2, 1, 0),
    ),  # previously failed: three axes were cut, and a tile has numbers of two
    ((33, 49, 25, 17), (3, 1, 2, 0)),
    ((2, 3, 2, 2, 3, 2, 2, 3, 2, 3, 2, 5), (9, 4, 6, 2, 10, 0, 8, 1, 3, 7, 5, 11)),
    ((6, 78, 40, 2), (2, 0, 1, 3)),
    ((34, 17, 16, 6), (3, 1, 2, 0)),
    ((72, 6, 4, 12), (3, 0, 2, 1)),
    ((12, 36, 72), (1, 2, 0)),
)


def turned(dtype: str, number: int) -> tuple[Array, Array, Any]:
    """Target, source and the memory around the target."""
    shape, order = SHAPES[number]
    memory = np.random.default_rng(number).integers(
        0, 256, int(np.prod(shape)) * np.dtype(dtype).itemsize
    )
    source = memory.astype("u1").view(dtype).reshape(shape).transpose(order)
    target, around = guarded(source.shape, dtype)
    return target, source, around


def aligned(target: Array, source: Array, alignment: int) -> CudaKernel:
    kernel = permutation(
        target.itemsize, target.shape, strides_of(target), strides_of(source), alignment
    )
    assert kernel is not None
    return kernel


TURNED = [
    (dtype, number, alignment)
    for at, dtype in enumerate(("u1", "u2", "u4", "u8", "V16"))
    for number in range(len(SHAPES))
    for alignment in (1, 16)
    if dtype == "u8" or (at + number) % 2
]


@pytest.fixture(scope="module")
def turn(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    kernels = [
        aligned(*turned(dtype, number)[:2], alignment) for dtype, number, alignment in TURNED
    ]
    return Emulator(kernels, tmp_path_factory.mktemp("turned"))


@needs_compiler
@pytest.mark.parametrize("blocks", [None, 1])
def test_tiles(turn: Emulator, blocks: int | None) -> None:
    """As launched, and by one block, which goes through more tiles than it computes origins of at once."""
    for dtype, number, alignment in TURNED:
        target, source, around = turned(dtype, number)
        kernel = aligned(target, source, alignment)
        if blocks is not None:
            kernel = replace(kernel, grid=(blocks, 1, 1))
        turn(kernel, target, source)
        np.testing.assert_array_equal(target, source)
        assert untouched(around)


@needs_compiler
def test_many_tiles_of_one_block(tmp_path: Any) -> None:
    source = np.arange(3 * 2**16, dtype="u1").reshape(3, 64, 1024).transpose(2, 1, 0)
    target, around = guarded(source.shape, "u1")
    pairs = (target, source), (target.transpose(2, 1, 0)[..., ::-1], source.T)
    kernels = [kernel_of(*one) for one in pairs]
    emulate = Emulator(kernels, tmp_path)
    for kernel, (out, given) in zip(kernels, pairs, strict=True):
        assert kernel.geometry[0] > 64
        out[...] = 0
        emulate(replace(kernel, grid=(1, 1, 1)), out, given)
        np.testing.assert_array_equal(out, given)
        assert untouched(around)


@needs_compiler
def test_far_apart(tmp_path: Any) -> None:
    """Offsets of 64 bits, of which few pages are ever touched."""
    memory = np.zeros((65, 1 << 24), "u1")
    source = memory[:, :70]
    source[...] = np.random.default_rng(0).integers(0, 256, source.shape)
    cases = [(*guarded(given.shape, "u1"), given) for given in (source.T, source[::-1].T, source)]
    kernels = [kernel_of(target, given) for target, _, given in cases]
    emulate = Emulator(kernels, tmp_path)
    for kernel, (target, around, given) in zip(kernels, cases, strict=True):
        assert kernel.wide
        emulate(kernel, target, given)
        np.testing.assert_array_equal(target, given)
        assert untouched(around)


def test_neighbours_are_moved_together() -> None:
    axes = merged((5, 6, 8), (48, 8, 1), (8, 40, 1))
    assert widened(2, axes, 2) == (2, axes)
    assert widened(2, axes, 8) == (8, [(2, 1, 1), (6, 2, 10), (5, 12, 2)])
    assert widened(2, axes, 16) == (16, [(6, 1, 5), (5, 6, 1)])
    assert widened(2, [(4, 1, -1), (2, 4, 4)], 16)[0] == 2
    assert widened(2, [(4, 1, 1), (2, 5, 4)], 16)[0] == 2
    assert widened(2, [(4, 1, 1), (2, 4, 0)], 16)[0] == 8


@pytest.mark.parametrize("seed", range(40))
def test_plans(seed: int) -> None:
    """A tile fits what a block has, two axes at most are cut unevenly, and no two elements share a place."""
    rng = np.random.default_rng(seed)
    itemsize = int(rng.choice((1, 2, 4, 8, 16)))
    shape = rng.integers(2, rng.choice((3, 5, 40)), rng.integers(2, 12))
    shape = tuple(map(int, shape[: int(np.searchsorted(np.cumprod(shape), 1 << 22)) + 1]))
    order = np.argsort(rng.permutation(len(shape)))
    source = np.empty([shape[k] for k in np.argsort(order)], "u1").transpose(order)
    axes = merged(shape, strides_of(np.empty(shape, "u1")), strides_of(source))
    most = EACH[itemsize] * THREADS
    plan = planned(itemsize, axes, most, False)
    assert int(np.prod(plan.parts)) <= most
    assert len(plan.target) <= TILE_AXES
    assert sorted(plan.source) == sorted(plan.target)
    assert [a for a, (n, *_) in enumerate(axes) if n % plan.parts[a]] == list(plan.uneven)
    assert len(plan.uneven) <= 2
    places = np.zeros(1, int)
    for n, step in zip(plan.parts, plan.slots, strict=True):
        places = (places[:, None] + np.arange(n) * step).ravel()
    assert len(set(places.tolist())) == len(places)
    assert places.max() < slots_of(EACH[itemsize])
    assert (
        slots_of(EACH[itemsize]) * itemsize < 1 << 15
    )  # half of a number of 32 bits, which has a sign


def test_even_tiles() -> None:
    """Those of which a thread computes one place: among the cases are such with tiles that are not full, with
    more threads that read than write and the other way round, and tiles that are not even."""
    found = set()
    for dtype, number, alignment in TURNED:
        target, source, _ = turned(dtype, number)
        kernel = aligned(target, source, alignment)
        axes = merged(target.shape, strides_of(target), strides_of(source))
        itemsize, axes = widened(target.itemsize, axes, alignment)
        most = min(EACH[itemsize] * THREADS, max(LEAST, target.nbytes // itemsize // 264))
        plan = planned(itemsize, axes, most, False)
        movers = movers_of(plan)
        if not kernel.name.startswith("permute"):
            continue
        assert kernel.name.startswith("permute_even") == (movers is not None)
        if movers is None:
            found.add("not even")
            continue
        read, written = movers
        found.add("full" if not plan.uneven else "not full")
        found.add("readers" if read > written else "writers" if written > read else "as many")
        assert max(movers) <= kernel.block[0] < max(movers) + 32
        assert plan.volume % read == plan.volume % written == 0
    assert found == {"not even", "full", "not full", "readers", "writers", "as many"}


def test_transpositions_hit_each_bank_once() -> None:
    for itemsize in (4, 8, 16):
        n, lanes = 256, BANKS // itemsize
        plan = planned(itemsize, [(n, 1, n), (n, n, 1)], EACH[itemsize] * THREADS, False)
        across, down = plan.slots
        assert down == 1
        assert len({k * across % lanes for k in range(lanes)}) == lanes


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


def test_tiles_are_cut_along_two_axes_at_most(rng: np.random.Generator) -> None:
    """Of whatever sizes: a kernel is given numbers of two, behind which others lie."""
    sizes = [5, 7, 12, 17, 24, 25, 33, 49, 51, 97, 101, 193, 195]
    for _ in range(300):
        shape = tuple(rng.choice(sizes, rng.integers(2, 6)).tolist())
        order = rng.permutation(len(shape))
        strides = np.empty(len(shape), int)
        strides[order] = [math.prod(np.take(shape, order[k + 1 :])) for k in range(len(shape))]
        out = tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))
        kernel = permutation(8, shape, out, tuple(strides.tolist()), 16)
        assert kernel is not None
