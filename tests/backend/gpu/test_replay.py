"""Programs that become graphs when they are called again: NumPy in the place of CuPy, launches recorded."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import COMPILING
from tests.backend.gpu.emulator import RECORDING, Emulator, needs_compiler
from tests.backend.gpu.launches import launches
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc
from tests.backend.stand_in import DeviceArray
from tests.cases import random_cases
from tests.contract.test_on_device import on_device, runs
from tests.oracles import check

import einloom
from einloom._base import caches
from einloom.backend.choice import register_arrays, unregister_arrays
from einloom.backend.gpu import replay
from einloom.backend.gpu.cuda import relay
from einloom.backend.gpu.lanes import InLanes, Piece, turns
from einloom.backend.gpu.replay import KEPT, Replay, alike, order_of
from einloom.contract.expression import Expression
from einloom.program.executable import Executable

CHAIN = "ij,jk,kl,lm->im"
SHAPES = (6, 7), (7, 5), (5, 9), (9, 4)


@pytest.fixture(autouse=True)
def _no_graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """And there is one with the second call."""
    monkeypatch.setattr(replay, "CALLS", 1)
    KEPT.clear()
    yield
    KEPT.clear()


def drawn(shapes: Any, seed: int = 0, dtype: str = "f8") -> list[Any]:
    rng, most = np.random.default_rng(seed), 1 if dtype == "f2" else 4
    return [
        rng.integers(-most, most + 1, shape).astype(dtype).view(DeviceArray) for shape in shapes
    ]


def expression(equation: str = CHAIN, shapes: Any = SHAPES, **how: Any) -> Expression:
    return Expression(einloom.plan(equation, *shapes, **how), backend=COMPILING)


def wanted(equation: str, arrays: Any) -> Any:
    return np.einsum(equation, *(np.asarray(x.view(np.ndarray)) for x in arrays))


def played() -> int:
    """How many graphs there are."""
    return len(KEPT._all)


# ---- lanes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_turns_keep_the_order_of_the_program(seed: int) -> None:
    """Every step comes after those whose results it reads, whatever lanes do meanwhile."""
    rng = np.random.default_rng(seed)
    pieces, slots = [], list(range(int(rng.integers(1, 6))))
    for number in range(int(rng.integers(1, 40))):
        inputs = tuple(int(x) for x in rng.choice(slots, size=rng.integers(1, 4)))
        outputs = (100 + number,) if rng.random() < 0.8 else (100 + number, 500 + number)
        pieces.append(Piece(None, inputs, outputs, bool(rng.random() < 0.2)))  # type: ignore[arg-type]
        slots += outputs
    lanes = int(rng.integers(1, 9))
    found = turns(pieces, lanes)
    before: list[set[int]] = []  # of each step: all that are done when it begins
    last: dict[int, int] = {}
    makers: dict[int, set[int]] = {}
    for number, (piece, turn) in enumerate(zip(pieces, found, strict=True)):
        needed = set().union(*(makers.get(slot, set()) for slot in piece.inputs))
        if turn is None:
            assert piece.is_view
            before.append(set())
            makers.update((slot, needed) for slot in piece.outputs)
            continue
        assert 0 <= turn.lane < lanes
        done: set[int] = set()
        for step in (*turn.waits, *((last[turn.lane],) if turn.lane in last else ())):
            done |= {step} | before[step]
        assert needed <= done
        before.append(done)
        last[turn.lane] = number
        makers.update((slot, {number}) for slot in piece.outputs)


def test_a_wide_tree_takes_as_long_as_it_is_deep() -> None:
    leaves = list(range(16))
    pieces, level, fresh = [], leaves, itertools.count(100)
    while len(level) > 1:
        above = []
        for a, b in zip(level[::2], level[1::2], strict=True):
            pieces.append(Piece(None, (a, b), (next(fresh),), False))  # type: ignore[arg-type]
            above += pieces[-1].outputs
        level = above
    used = [turn.lane for turn in turns(pieces) if turn is not None]
    assert max(used.count(lane) for lane in used) <= 4
    assert len({turn.lane for turn in turns(pieces[:8]) if turn}) == 8
    in_a_row = [Piece(None, (k,), (k + 1,), False) for k in range(9)]  # type: ignore[arg-type]
    assert {turn.lane for turn in turns(in_a_row) if turn} == {0}


def test_steps_in_lanes_are_the_program() -> None:
    """Two outputs, a view, and an input that is returned."""
    pieces = [
        Piece(lambda x: (x + 1, x - 1), (0,), (1, 2), False),
        Piece(lambda x: x.T, (2,), (3,), True),
        Piece(lambda a, b: a @ b, (1, 3), (4,), False),
        Piece(lambda a, b: a + b, (4, 0), (5,), False),
    ]
    run = InLanes(COMPILING.xp, pieces, (0,), (5, 0, 3))
    x = drawn([(3, 3)])[0]
    total, same, view = run(x)
    assert same is x
    np.testing.assert_array_equal(view, (x - 1).T)
    np.testing.assert_array_equal(total, (x + 1) @ (x - 1).T + x)


# ---- what copies in and out ------------------------------------------------------------------------


@needs_compiler
def test_relays(tmp_path: Any) -> None:
    """Whatever the addresses end in; of more bytes than a block takes, and of one."""
    rng = np.random.default_rng(0)
    sizes = [1, 3, 16, 17, 4096, relay.CHUNK, 3 * relay.CHUNK + 5]
    into, out = relay.gathering(len(sizes), 10), relay.delivering(1, 4)
    run = Emulator([into, out], tmp_path)
    for shift in (0, 1, 4, 16):
        others = [rng.integers(0, 256, n + 64, np.uint8)[shift : shift + n] for n in sizes]
        fixed = [np.zeros(n + 32, np.uint8) for n in sizes]
        rows = relay.chunks_of([(x.ctypes.data, n) for x, n in zip(fixed, sizes, strict=True)])
        words = [x.ctypes.data for x in others]
        words += [0] * (len(into.geometry) - len(words))
        run(replace(into, geometry=tuple(words)), rows)
        for x, other, n in zip(fixed, others, sizes, strict=True):
            np.testing.assert_array_equal(x[:n], other)
            assert not x[n:].any()
        target = np.zeros(sizes[-1] + 32, np.uint8)
        words = [target.ctypes.data, others[-1].ctypes.data]
        run(replace(out, geometry=tuple(words)), relay.chunks_of([(0, sizes[-1])]))
        np.testing.assert_array_equal(target[: sizes[-1]], others[-1])
        assert not target[sizes[-1] :].any()


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture: str) -> None:
    kernels = [relay.gathering(count, 1) for count in relay.COUNTS]
    compile_all([*kernels, relay.delivering(1, 1)], architecture)


def test_arguments_fit_a_launch() -> None:
    assert 8 + 8 * relay.MOST <= 4096
    with pytest.raises(ValueError, match="one result"):
        relay.delivering(2, 1)


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_alike(axes: tuple[int, ...]) -> None:
    x = drawn([(2, 1, 3)])[0].transpose(axes)
    made = alike(COMPILING.xp, x)
    assert made.shape == x.shape
    assert [s for s, n in zip(made.strides, x.shape, strict=True) if n > 1] == [
        s for s, n in zip(x.strides, x.shape, strict=True) if n > 1
    ]
    for gaps in (drawn([(4, 4)])[0][:, ::2], drawn([(4,)])[0][::-1]):
        with pytest.raises(ValueError, match="gaps"):
            order_of(gaps)


# ---- calls -----------------------------------------------------------------------------------------


@needs_compiler
def test_called_again() -> None:
    """Other arrays in every call, other results, and from the second call on no launch by itself."""
    call = expression()
    for seed in range(5):
        arrays = drawn(SHAPES, seed)
        with launches() as launched:
            found = call(*arrays)
        assert type(found) is DeviceArray
        np.testing.assert_array_equal(found.view(np.ndarray), wanted(CHAIN, arrays))
        assert played() == (seed > 0)
        if seed > 1:
            assert not launched
    first, second = call(*arrays), call(*arrays)
    assert not np.may_share_memory(first, second)
    assert not RECORDING


@needs_compiler
@pytest.mark.parametrize("seed", [1, *(pytest.param(k, marks=pytest.mark.slow) for k in (0, 2, 3))])
def test_random_equations(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all forms, dtypes and layouts, each four times."""
    register_arrays(DeviceArray, lambda x: COMPILING)

    def again(*operands: Any, **keywords: Any) -> Any:
        for _ in range(4):
            found = on_device(*operands, **keywords)
        return found

    try:
        for case in filter(runs, random_cases(seed, 40)):
            check(again, case, ["auto"], against_numpy=False)
    finally:
        unregister_arrays(DeviceArray)
    assert played()


@needs_compiler
@pytest.mark.parametrize("dtype", ["f4", "c8", "c16", "f2", "i4"])
def test_dtypes_and_strides(dtype: str) -> None:
    """Operands that lie otherwise are another graph; with gaps there is none."""
    call = expression(dtype=dtype)
    for seed in range(9):
        arrays = drawn(SHAPES, seed, dtype)
        if seed % 3 == 1:
            arrays[1] = arrays[1].copy(order="F")
        if seed % 3 == 2:
            wide = np.repeat(arrays[2].view(np.ndarray), 2, axis=1).view(DeviceArray)
            arrays[2] = wide[:, ::2]
        np.testing.assert_array_equal(call(*arrays).view(np.ndarray), wanted(CHAIN, arrays))
    assert played() == 2


@needs_compiler
def test_strides_that_do_not_come_again() -> None:
    """They are in nobody's way."""
    call = expression()
    arrays = drawn(SHAPES)
    want = wanted(CHAIN, arrays)
    for k in (0, 1, 2):
        turned = list(arrays)
        turned[k] = turned[k].copy(order="F")
        np.testing.assert_array_equal(call(*turned).view(np.ndarray), want)
    assert not played()
    for _ in range(2):
        np.testing.assert_array_equal(call(*arrays).view(np.ndarray), want)
    assert played() == 1


@needs_compiler
def test_constants() -> None:
    """They are read where they lie, and what is computed from them once too."""
    arrays = drawn(SHAPES)
    constants = {1: arrays[1].view(np.ndarray), 2: arrays[2].view(np.ndarray)}
    call = Expression(einloom.plan(CHAIN, *SHAPES), constants, COMPILING)
    for seed in range(4):
        first, last = drawn((SHAPES[0], SHAPES[3]), seed)
        found = call(first, last)
        want = wanted(CHAIN, (first, *arrays[1:3], last))
        np.testing.assert_array_equal(found.view(np.ndarray), want)
    assert played() == 1


@needs_compiler
def test_of_many_operands() -> None:
    """More than a function is generated for."""
    count = 70
    equation = ",".join(f"{chr(192 + k)}{chr(193 + k)}" for k in range(count))
    equation += f"->{chr(192)}{chr(192 + count)}"
    call = expression(equation, [(2, 2)] * count)
    assert call.has_fast
    for seed in range(3):
        arrays = drawn([(2, 2)] * count, seed, "f8")
        arrays = [np.sign(x) for x in arrays]
        want = np.linalg.multi_dot([x.view(np.ndarray) for x in arrays])
        np.testing.assert_array_equal(call(*arrays).view(np.ndarray), want)
    assert played() == 1
    with pytest.raises(einloom.ShapeError):
        call(*arrays[1:])
    with pytest.raises(einloom.DTypeError):
        call(*arrays[1:], arrays[0].astype("f4"))


@needs_compiler
def test_threads_call_one_graph() -> None:
    call = expression()
    given = [drawn(SHAPES, seed) for seed in range(8)]
    for arrays in given[:2]:
        call(*arrays)
    found: dict[int, Any] = {}

    def work(k: int) -> None:
        for _ in range(10):
            found[k] = call(*given[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, arrays in enumerate(given):
        np.testing.assert_array_equal(found[k].view(np.ndarray), wanted(CHAIN, arrays))


@needs_compiler
def test_not_where_it_does_not_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large operands, an option; and none while somebody captures the stream."""
    single = expression("ij,jk->ik", [(500, 500)] * 2)
    assert single._executable.repeated(2) is single._executable.run  # type: ignore[union-attr]
    large = expression(CHAIN, [(3000, 3000)] * 4)
    assert large._executable.repeated(4) is large._executable.run  # type: ignore[union-attr]
    single = expression("ij,jk->ik", SHAPES[:2])
    assert type(single._executable.repeated(2)) is Replay  # type: ignore[union-attr]
    assert type(expression()._executable.repeated(4)) is Replay  # type: ignore[union-attr]
    with einloom.options(graphs=False):
        without = expression()
    for seed in range(3):
        without(*drawn(SHAPES, seed))
    assert not played()
    call = expression()
    monkeypatch.setattr(replay, "is_capturing", lambda xp: True)
    for seed in range(3):
        call(*drawn(SHAPES, seed))
    assert not played()


@needs_compiler
def test_what_cannot_be_recorded_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again it is tried, each time after four times as many calls."""
    tried = []

    def fails(*arguments: Any) -> Any:
        tried.append(arguments)
        raise RuntimeError("cudaErrorStreamCaptureInvalidated")

    monkeypatch.setattr(replay, "_Graph", fails)
    call = expression()
    for seed in range(24):
        arrays = drawn(SHAPES, seed)
        np.testing.assert_array_equal(call(*arrays).view(np.ndarray), wanted(CHAIN, arrays))
    assert len(tried) == 3


@needs_compiler
def test_memory_is_bounded_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [expression() for _ in range(3)]
    arrays = drawn(SHAPES)
    want = wanted(CHAIN, arrays)
    for call in calls:
        call(*arrays)
        call(*arrays)
    assert played() == 3
    assert einloom.cache_info()["cuda graphs"].currsize >= 96
    del calls[2], call
    gc.collect()
    assert played() == 2
    monkeypatch.setattr(replay, "ALL", 1 << 40)
    third = expression()
    for _ in range(2):
        np.testing.assert_array_equal(third(*arrays).view(np.ndarray), want)
    assert played() == 1  # the last one is kept, however large
    for call in calls:
        np.testing.assert_array_equal(call(*arrays).view(np.ndarray), want)
    einloom.clear_caches()
    assert not played()
    np.testing.assert_array_equal(third(*arrays).view(np.ndarray), want)


@needs_compiler
def test_programs() -> None:
    """Called as they are, without an expression; what shows an input goes on showing it."""

    def chain(x: Any, y: Any) -> Any:
        return einloom.einsum("ij,jk->ik", abs(x) + x * x, y) * 2

    with einloom.options(small=0):
        run = Executable(
            einloom.trace(chain, (3, 4), (4, 5), dtype="float32").bind([(3, 4), (4, 5)]), COMPILING
        )
    for seed in range(4):
        x, y = drawn([(3, 4), (4, 5)], seed, "f4")
        want = chain(*(np.asarray(one.view(np.ndarray)) for one in (x, y)))
        np.testing.assert_array_equal(run(x, y).view(np.ndarray), want)
        out = np.empty((3, 5), "f4").view(DeviceArray)
        assert run(x, y, out=out) is out
        np.testing.assert_array_equal(out.view(np.ndarray), want)
    assert played() == 1
    shows = Executable(
        einloom.trace(lambda x: einloom.einsum("ij->ji", x), (3, 4), dtype="float32").bind(
            [(3, 4)]
        ),
        COMPILING,
    )
    for _ in range(3):
        assert np.may_share_memory(shows(x), x)
    assert played() == 1


# ---- memory ----------------------------------------------------------------------------------------


@needs_compiler
def test_branches_share_a_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Previously failed: each branch of a graph that was recorded by itself took a whole one."""
    lanes: list[int] = []
    real = COMPILING.xp.routines.recording

    def recording(count: int) -> Any:
        lanes.append(count)
        return real(count)

    monkeypatch.setattr(COMPILING.xp.routines, "recording", recording)
    shapes = [(30, 30)] * 8
    call = expression("ab,bc,de,ef,gh,hi,jk,kl->acdfgijl".replace("->acdfgijl", "->"), shapes)
    for seed in range(2):
        call(*drawn(shapes, seed))
    call.capture(*drawn(shapes))
    assert lanes[0] == lanes[1] > 1


@needs_compiler
def test_no_graph_below_a_limit() -> None:
    """Previously failed: a graph held what no limit had counted."""
    calls = [expression(memory_limit="1GiB")]
    with einloom.options(memory_limit="1GiB"):
        calls.append(expression())
    for call in calls:
        for seed in range(3):
            call(*drawn(SHAPES, seed))
    assert not played()


@needs_compiler
def test_graphs_go_where_there_is_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the call is tried once more; what is reclaimed is told."""
    arrays = drawn(SHAPES)
    call, other = expression(), expression()
    for _ in range(2):
        call(*arrays)
    assert played() == 1
    left = [1]
    real = COMPILING.xp.empty

    def empty(*arguments: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise COMPILING.xp.cuda.memory.OutOfMemoryError
        return real(*arguments)

    monkeypatch.setattr(COMPILING.xp, "empty", empty, raising=False)
    np.testing.assert_array_equal(other(*arrays).view(np.ndarray), wanted(CHAIN, arrays))
    assert played() == 1  # the other's, by its second try
    left[0] = 1000
    with pytest.raises(einloom.MemoryLimitError, match=r"gpu:0.*memory_limit"):
        other(*arrays)
    left[0] = 0
    for _ in range(5):
        call(*arrays)
    assert COMPILING.reclaim() >= 32 << 20
    assert not played()


@needs_compiler
def test_graphs_in_use_go_last(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = drawn(SHAPES)
    calls = [expression() for _ in range(4)]
    size = (32 << 20) + 4096
    monkeypatch.setattr(replay, "ALL", replay.USUAL // (3 * size))
    for call in calls[:3]:
        for _ in range(2):
            call(*arrays)
    for number in list(KEPT._all):  # nobody has used any since
        KEPT._is_spared(number)
    calls[0](*arrays)
    for _ in range(2):
        calls[3](*arrays)
    assert played() == 3
    by_cublas = COMPILING.xp.routines.called
    by_cublas.clear()
    calls[0](*arrays)
    assert not by_cublas
    calls[1](*arrays)
    assert by_cublas


@needs_compiler
def test_explained() -> None:
    arrays = drawn(SHAPES)
    assert "one CUDA graph" in expression().explain()
    assert "one CUDA graph" in expression().explain(*arrays)
    with einloom.options(graphs=False):
        assert "graph" not in expression().explain()


def test_the_child_of_a_fork_has_a_lock_of_its_own() -> None:
    before = KEPT._lock
    caches._renew_locks()
    assert KEPT._lock is not before
    assert KEPT.info().currsize == 0
