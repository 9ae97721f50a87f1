"""Copies and permutations by the compiled kernel: every element arrives, nothing else is touched."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backend.calls import LAYOUTS, OUT_LAYOUTS, lay_out

from einloom._base.options import options
from einloom.backend.cpu import move as move_module
from einloom.backend.cpu.move import CARRIERS, LINE, move, packed
from einloom.backend.spec import dtype_from_name

DTYPES = ("bool", "int16", "float16", "bfloat16", "float32", "int64", "complex64", "complex128")
OTHERS = ("longdouble", "clongdouble", "object")  # too wide, or not plain memory


def filled(shape: tuple[int, ...], name: str, rng: np.random.Generator) -> np.ndarray:
    """Any bits at all, NaN of every kind among them."""
    dtype = dtype_from_name(name)
    if name in OTHERS:
        return np.asarray(rng.integers(-9, 9, shape)).astype(dtype)
    if name == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    count = int(np.prod(shape, dtype=int)) * dtype.itemsize
    return rng.integers(0, 256, count, np.uint8).view(dtype).reshape(shape)


def bits(x: np.ndarray) -> object:
    return x.tolist() if x.dtype.hasobject else x.tobytes()


@settings(max_examples=200)
@given(
    shape=st.lists(st.integers(0, 9), max_size=5).map(tuple),
    name=st.sampled_from(DTYPES),
    layouts=st.tuples(st.sampled_from(OUT_LAYOUTS), st.sampled_from(LAYOUTS)),
    threads=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_sizes_and_strides(
    shape: tuple[int, ...], name: str, layouts: tuple[str, str], threads: int, seed: int
) -> None:
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(seed)
    dst = lay_out(filled(shape, name, rng), layouts[0], rng)
    src = lay_out(filled(shape, name, rng), layouts[1], rng)
    want = bits(src)
    with options(small=0, threads=threads):
        assert move(dst, src) is dst
    assert bits(dst) == want
    assert bits(src) == want


LONG = [
    # axes that tiles divide, that they do not, and that are much longer than a tile
    ((64, 64), (1, 0)),
    ((67, 131), (1, 0)),
    ((3, 1009), (1, 0)),
    ((1009, 3), (1, 0)),
    ((1, 5000), (1, 0)),
    ((2, 3, 509), (2, 0, 1)),
    ((256, 3, 130), (2, 1, 0)),  # strides that are powers of two: tiles pass through a buffer
    ((512, 512), (1, 0)),
    ((2,) * 14, tuple(range(13, -1, -1))),
    ((7, 11, 13, 17), (3, 1, 2, 0)),
]


@pytest.mark.parametrize("name", ["int16", "float64", "complex128"])
@pytest.mark.parametrize(("shape", "perm"), LONG, ids=str)
def test_long_axes(
    shape: tuple[int, ...], perm: tuple[int, ...], name: str, rng: np.random.Generator
) -> None:
    """Every tile and every remainder, from and to a permuted array; beside it nothing changes."""
    src = filled(shape, name, rng).transpose(perm)
    room = filled((2 * src.shape[0], *src.shape[1:-1], src.shape[-1] + 1), name, rng)
    mine = np.zeros(room.shape, bool)
    mine[::2, ..., 1:] = True
    before = room[~mine].tobytes()
    with options(small=0, threads=2):
        for dst in (np.empty(src.shape, src.dtype), room[::2, ..., 1:]):
            move(dst, src)
            assert bits(dst) == bits(src)
            back = np.empty(shape, src.dtype).transpose(perm)
            assert bits(move(back, dst)) == bits(src)
    assert room[~mine].tobytes() == before


@pytest.mark.parametrize("name", ["uint8", "float32", "float64", "complex128"])
@pytest.mark.parametrize("start", [0, 1, 3, 7, 8])
@pytest.mark.parametrize("runs", [None, 640, 5 * 641])
def test_written_past_the_caches(
    name: str, start: int, runs: int | None, rng: np.random.Generator
) -> None:
    """Wherever the result starts in its cache line, whole or in runs, nothing beside it is written."""
    length = move_module.STREAM // np.dtype(name).itemsize + 1000
    length -= length % (runs or 1)
    if runs is None:
        src = filled((length,), name, rng)
    else:
        src = filled((length // runs + 1, runs + 24), name, rng)[: length // runs, :runs]
    memory = filled((length + 64,), name, rng)
    before = memory.tobytes()
    dst = memory[start : start + length].reshape(src.shape)
    with options(small=0, threads=2):
        move(dst, src)
    assert bits(dst) == bits(src)
    beside = memory.tobytes()
    first, last = start * memory.itemsize, (start + length) * memory.itemsize
    assert beside[:first] == before[:first]
    assert beside[last:] == before[last:]


@pytest.fixture
def everything_streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small results too are written past the caches, and contiguous ones in short pieces."""
    monkeypatch.setattr(move_module, "STREAM", 1)
    monkeypatch.setattr(move_module, "STREAMED", 4 * LINE)
    move_module._PLANS.clear()
    yield
    move_module._PLANS.clear()


def on_a_line(nbytes: int, rng: np.random.Generator) -> np.ndarray:
    """Bytes that begin with a cache line."""
    memory = rng.integers(0, 256, nbytes + LINE, np.uint8)
    return memory[-memory.ctypes.data % LINE :][:nbytes]


def any_move(rng: np.random.Generator, line: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """A shape, the permutation that makes the source, and how many elements apart rows are."""
    rank = int(rng.integers(1, 5))
    shape = [int(n) for n in rng.integers(1, 6, rank)]
    shape[-1] = int(rng.integers(1, 4)) * line + int(rng.integers(0, 3))
    perm = list(map(int, rng.permutation(rank)))
    if rng.random() < 0.3:  # the last axis of both: runs, or one contiguous stretch
        perm = [axis for axis in perm if axis != rank - 1] + [rank - 1]
    if perm[-1] != rank - 1 and rng.random() < 0.8:  # else too narrow for blocks
        shape[perm[-1]] = int(rng.integers(1, 3)) * line + int(rng.integers(0, 3))
    pitch = shape[-1] if rng.random() < 0.3 else -(-shape[-1] // line) * line
    return tuple(shape), tuple(perm), pitch


def inside(
    memory: np.ndarray, carrier: np.dtype[Any], shape: tuple[int, ...], pitch: int
) -> np.ndarray:
    """The array in that memory, two cache lines after its start and before its end."""
    room = memory[2 * LINE : -2 * LINE].view(carrier)
    return room.reshape(*shape[:-1], pitch)[..., : shape[-1]]


def streams(plan: Any) -> bool:
    return plan.kind in ("runs", "transpose") and plan.arguments[-1]


@pytest.mark.usefixtures("everything_streams")
@pytest.mark.parametrize("itemsize", CARRIERS)
def test_streams_of_every_kind(itemsize: int, rng: np.random.Generator) -> None:
    """Lines and blocks that pass the caches hold every element, and no byte beside the result."""
    carrier, line = np.dtype(CARRIERS[itemsize]), LINE // itemsize
    for _ in range(150):
        shape, perm, pitch = any_move(rng, line)
        src = rng.integers(0, 256, int(np.prod(shape)) * itemsize, np.uint8).view(carrier)
        src = src.reshape([shape[axis] for axis in perm]).transpose(np.argsort(perm))
        memory = on_a_line((src.size // shape[-1] * pitch + 4 * line) * itemsize, rng)
        want = memory.copy()
        inside(want, carrier, shape, pitch)[...] = src
        with options(small=0, threads=2):
            move(inside(memory, carrier, shape, pitch), src)
        np.testing.assert_array_equal(memory, want, str((shape, perm, pitch)))
    plans = [plan for plans in move_module._PLANS._items.values() for plan in plans]
    assert {plan.kind for plan in plans} == {"whole", "runs", "transpose", "tables"}
    streaming = {(plan.kind, plan.itemsize) for plan in plans if streams(plan)}
    assert {("runs", itemsize), ("transpose", itemsize)} <= streaming


@pytest.mark.parametrize("name", OTHERS)
def test_what_the_kernel_does_not_take(name: str, rng: np.random.Generator) -> None:
    """Is copied all the same."""
    src = filled((5, 7), name, rng)
    with options(small=0):
        dst = move(np.zeros((7, 5), src.dtype).T, src)
    np.testing.assert_array_equal(dst, src)
    assert src.dtype.hasobject or src.itemsize in CARRIERS or name.endswith("longdouble")


@pytest.mark.parametrize("small", [0, 10**9])
def test_broadcasting(small: int, rng: np.random.Generator) -> None:
    with options(small=small):
        dst = move(np.zeros((4, 3, 5)), np.arange(3.0)[:, None])
        np.testing.assert_array_equal(dst, np.broadcast_to(np.arange(3.0)[:, None], (4, 3, 5)))
        np.testing.assert_array_equal(move(np.zeros((2, 3)), np.array(7.0)), np.full((2, 3), 7))


RESHAPES = [
    # shape, permutation, new shape, whether a view is possible
    ((4, 6), (0, 1), (24,), True),
    ((4, 6), (1, 0), (24,), False),
    ((4, 6), (1, 0), (6, 2, 2), True),
    ((2, 3, 4), (2, 0, 1), (4, 6), True),
    ((2, 3, 4), (1, 0, 2), (6, 4), False),
    ((2, 3, 4), (1, 0, 2), (3, 2, 2, 2), True),
    ((1, 5, 1), (2, 1, 0), (5,), True),
    ((0, 3), (1, 0), (0,), True),
    ((), (), (1, 1), True),
]


@pytest.mark.parametrize("small", [0, 10**9])
@pytest.mark.parametrize(("shape", "perm", "to", "is_view"), RESHAPES, ids=str)
def test_packed(
    shape: tuple[int, ...],
    perm: tuple[int, ...],
    to: tuple[int, ...],
    is_view: bool,
    small: int,
    rng: np.random.Generator,
) -> None:
    """As numpy.reshape: a view wherever strides allow."""
    x = filled(shape, "int64", rng).transpose(perm)
    with options(small=small):
        got = packed(x, to)
    np.testing.assert_array_equal(got, x.reshape(to))
    assert x.size == 0 or np.shares_memory(got, x) == is_view


def test_eight_threads(rng: np.random.Generator) -> None:
    """Callers at once, with arrays of different strides; plans are shared by all."""
    sources = [
        filled((9, 8, 7), "int64", rng).transpose(perm)
        for perm in ((2, 1, 0), (1, 0, 2), (0, 2, 1))
    ]

    def work(k: int) -> None:
        for n in range(60):
            src = sources[(k + n) % len(sources)]
            with options(small=0, threads=2):
                assert bits(move(np.empty(src.shape, src.dtype), src)) == bits(src)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
