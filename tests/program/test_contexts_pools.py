"""Pools and devices: integers in and out, all or nothing, and nothing left."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.program.mock_device import MockMemory, cpu_devices, mock_device

import einloom
from einloom import ClosedError, DeviceError, MemoryLimitError, OptionError, OrderError
from einloom.backend.cpu import cpu
from einloom.backend.cpu.memory import CpuMemory
from einloom.backend.devices import MERGE, Device, devices
from einloom.backend.pools import BufferLoc, Pools
from einloom.backend.runner import Runner
from einloom.backend.spec import ArraySpec
from einloom.program.placement import plan_segments

F8 = np.dtype("float64")


# ---- places --------------------------------------------------------------------------------------


def test_places_are_integers() -> None:
    """Ordered by pool, then offset; an alias lies so many bytes further on; JSON and back."""
    import json

    first, second = BufferLoc(1, 64), BufferLoc(2, 0)
    assert first < second < BufferLoc(2, 8) == second.after(8)
    assert BufferLoc(*json.loads(json.dumps(first))) == first
    assert str(first) == "pool 1 + 64"


@pytest.mark.parametrize(
    ("items", "places", "sizes"),
    [
        ([(100, 1), (100, 4), (50, 8)], [(0, 0), (0, 100), (0, 200)], [250]),
        ([(600, 1), (600, 1)], [(0, 0), (1, 0)], [600, 600]),
        ([(1000, 1), (1, 1)], [(0, 0), (1, 0)], [1000, 1]),
        ([(5, 1), (8, 8)], [(0, 0), (0, 8)], [16]),
        ([], [], []),
    ],
    ids=["aligned", "two segments", "full", "padded", "nothing"],
)
def test_known_segments(items: Any, places: Any, sizes: Any) -> None:
    """The answers of OCANNL's test_pool_segments, for segments of 1000 bytes."""
    found = plan_segments(items, 1000)
    assert (list(found.places), list(found.sizes)) == (places, sizes)


def test_a_segment_too_small() -> None:
    with pytest.raises(MemoryLimitError, match="1001 bytes do not fit into a pool of 1000"):
        plan_segments([(1, 1), (1001, 1)], 1000)


@given(st.lists(st.tuples(st.integers(0, 90), st.sampled_from([1, 2, 8, 64]))))
def test_segments_do_not_overlap(items: list[tuple[int, int]]) -> None:
    found = plan_segments(items, 100)
    ends = [0] * len(found.sizes)
    for (size, alignment), (segment, offset) in zip(items, found.places, strict=True):
        assert offset % alignment == 0
        assert offset >= ends[segment]
        ends[segment] = offset + size
    assert ends == list(found.sizes)
    assert all(size <= 100 for size in found.sizes)


# ---- pools ---------------------------------------------------------------------------------------


def test_slabs_by_number() -> None:
    """Memory is asked for with its alignment; a place is base + offset; what is freed is no place."""
    memory = MockMemory()
    pools = Pools(memory, "mock:0")
    pools.alloc_pool(3, 100, 16)
    pools.alloc_pool(1, 24, 8)
    assert (dict(pools.sizes), pools.nbytes) == ({1: 24, 3: 100}, 124)
    array = pools.array_at(BufferLoc(1, 8), ArraySpec(F8, (2,)))
    base = next(pointer for pointer, size in memory.live.items() if size == 24)
    assert array.__array_interface__["data"][0] - memory._bytes.__array_interface__["data"][0] == (
        base + 8
    )
    pools.memset_zero(1, 8, 16)
    assert array.tolist() == [0, 0]
    pools.copy(BufferLoc(3, 0), pools, BufferLoc(1, 8), 16)
    pools.free_pool(1)
    with pytest.raises(ClosedError, match="no pool 1, or it was freed"):
        pools.array_at(BufferLoc(1, 0), ArraySpec(F8, (1,)))
    with pytest.raises(ClosedError):
        pools.free_pool(1)
    pools.free_pool(3)
    assert memory.live == {}
    assert memory.log == [
        "alloc 100 at 16", "alloc 24 at 120", "zero 16 at 128", "copy 16 from 128 to 16", "free 120",
        "free 16",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda pools: pools.alloc_pool(1, 8), DeviceError),
        (lambda pools: pools.alloc_pool(-1, 8), DeviceError),
        (lambda pools: pools.alloc_pool(2, -8), DeviceError),
        (lambda pools: pools.alloc_pool(2, 8, 12), DeviceError),
        (lambda pools: pools.alloc_pool(2, 8, 0), DeviceError),
        (lambda pools: pools.alloc_pool(2, 1 << 40), MemoryLimitError),
        (lambda pools: pools.memset_zero(1, 60, 8), DeviceError),
        (lambda pools: pools.memset_zero(1, -1, 8), DeviceError),
        (lambda pools: pools.memset_zero(9, 0, 8), ClosedError),
        (lambda pools: pools.array_at(BufferLoc(1, 60), ArraySpec(F8, (1,))), DeviceError),
        (
            lambda pools: pools.copy(
                BufferLoc(1, 0), Pools(CpuMemory(), "cpu"), BufferLoc(0, 0), 8
            ),
            einloom.Unsupported,
        ),
    ],
    ids=list("abcdefghijk"),
)
def test_bad_calls(call: Any, error: type[Exception]) -> None:
    pools = Pools(MockMemory(), "mock:0")
    pools.alloc_pool(1, 64)
    with pytest.raises(error, match=r"mock:0"):
        call(pools)
    assert dict(pools.sizes) == {1: 64}


@pytest.mark.parametrize("alignment", [1, 8, 64, 256, 4096])
@pytest.mark.parametrize("size", [0, 1, 100, 1 << 20])
def test_alignment_of_the_cpu(size: int, alignment: int) -> None:
    pools = Pools(CpuMemory(), "cpu:0")
    pools.alloc_pool(1, size, alignment)
    array = pools.array_at(BufferLoc(1, 0), ArraySpec(np.dtype(np.uint8), (size,)))
    assert array.__array_interface__["data"][0] % alignment == 0 or size == 0
    array[...] = 7
    pools.memset_zero(1, 0, size // 2)
    assert array.sum() == 7 * (size - size // 2)


def test_all_pools_or_none() -> None:
    """Numbers are those of a run in which nothing failed."""
    with mock_device(room=1000) as (device, memory):
        assert device.new_pools([100, 100]) == [1, 2]
        with pytest.raises(MemoryLimitError, match=r"mock:0: no memory for pool 5 of 900 B"):
            device.new_pools([8, 8, 900])
        assert len(memory.live) == 2
        assert device.new_pools([8]) == [3]


def test_the_merge_buffer_grows_in_place() -> None:
    """Growing frees exactly the old slab; what fits is not moved; other numbers free nothing."""
    with mock_device() as (device, memory):
        device.new_pools([40])
        for size in (16, 8, 16, 24, 20):
            device.reserve_merge(size)
            assert device.merge_capacity >= size
        assert [line.split()[0] for line in memory.log] == ["alloc", "alloc", "free", "alloc"]
        assert memory.log[2].endswith(memory.log[1].split()[-1])
        assert device.pools.sizes[MERGE.pool_id] == 24
    assert memory.live == {}


# ---- devices -------------------------------------------------------------------------------------


def test_ordinals_and_ids() -> None:
    """A name is one device until it is closed; the next of that name is another."""
    with cpu_devices("cpu:2", "cpu:1") as (two, one):
        assert (two.ordinal, one.ordinal, two.name) == (2, 1, "cpu:2")
        assert two.device_id != one.device_id
        assert einloom.device("cpu:2") is two is einloom.device(two)
        assert einloom.device().ordinal == 0
        two.close()
        again = einloom.device("cpu:2")
        assert again.device_id not in (two.device_id, one.device_id)
        assert again.ordinal == 2
        with pytest.raises(ClosedError, match=r"cpu:2 is closed"):
            einloom.device(two)
        with pytest.raises(ClosedError, match=r"cpu:2 is closed"):
            two.close()
        assert repr(one).startswith("<device cpu:1, id ")
    assert devices()[:2] == ("cpu:0", "cpu:1")


@pytest.mark.parametrize(
    "name", ["gpu:x", "gpux", "cpu:8", "cpu:-1", "cpu:x", "cpu:", "", "cuda:0", 3, None]
)
def test_unknown_devices(name: Any) -> None:
    with pytest.raises(DeviceError, match=r"there is no device .*; there are cpu:0, .*cpu:7"):
        einloom.device(name)


# ---- the stream ----------------------------------------------------------------------------------


def work(function: Any) -> Any:
    return lambda future: function


def test_work_is_done_in_order() -> None:
    """What is submitted, one piece at a time, and calls that wait their turn."""
    runner, seen, begin = Runner("stream"), [], threading.Event()
    runner.submit(work(begin.wait))
    events = [runner.submit(work(lambda k=k: seen.append(k))) for k in range(20)]
    assert not runner.is_idle
    assert runner.pending >= 20
    threading.Timer(0.02, begin.set).start()
    assert runner.run(work(lambda: len(seen))) == 20
    assert all(event.done() for event in events)
    assert seen == list(range(20))
    runner.close()


def test_a_call_runs_here_when_nothing_waits() -> None:
    runner = Runner("stream")
    assert runner.run(work(threading.current_thread)) is threading.current_thread()
    assert runner._thread is None
    assert runner.submit(work(threading.current_thread)).result().name == "einloom stream"
    runner.close()


def test_exceptions_and_cancellation() -> None:
    """A future has the exception; one that is cancelled never begins; others are unharmed."""
    runner, begin, seen = Runner("stream"), threading.Event(), []
    runner.submit(work(begin.wait))
    failing = runner.submit(work(lambda: 1 / 0))
    cancelled = runner.submit(work(lambda: seen.append(1)))
    after = runner.submit(work(lambda: "after"))
    assert cancelled.cancel()
    begin.set()
    with pytest.raises(ZeroDivisionError):
        failing.result()
    assert after.result() == "after"
    assert not after.cancel()
    assert seen == []
    with pytest.raises(ZeroDivisionError):
        runner.run(work(lambda: 1 / 0))
    assert runner.run(work(lambda: 3)) == 3
    runner.close()


def test_the_queue_is_bounded() -> None:
    """Whoever submits too much waits; the stream's own thread is told, since it would wait for itself."""
    runner, begin = Runner("stream", most_pending=2), threading.Event()
    runner.submit(work(begin.wait))
    while runner.pending:
        time.sleep(0.001)
    queued = [runner.submit(work(lambda: None)) for _ in range(2)]
    refused: list[BaseException] = []

    def callback(_: Any) -> None:
        try:
            for _ in range(3):
                runner.submit(work(lambda: None))
        except OrderError as error:
            refused.append(error)

    queued[0].add_done_callback(callback)
    done = threading.Event()

    def more() -> None:
        runner.submit(work(lambda: None)).result()
        done.set()

    threading.Thread(target=more, daemon=True).start()
    assert not done.wait(0.05)
    assert runner.pending == 2
    begin.set()
    assert done.wait(20)
    runner.wait()
    assert len(refused) == 1
    assert "use submit while the queue has room" in str(refused[0])
    runner.close()
    with pytest.raises(OptionError, match="most_pending=0"):
        Runner("stream", most_pending=0)


def test_callbacks_may_look_at_the_device() -> None:
    """A future's callback runs in the stream's thread; nothing may wait there for what is queued behind."""
    runner, found = Runner("stream"), []
    begin, over = threading.Event(), threading.Event()

    def look(_: Any) -> None:
        try:
            found.append(runner.run(work(lambda: "seen")))
        except OrderError:
            found.append("refused")
        if len(found) == 2:
            over.set()

    first = runner.submit(work(begin.wait))
    first.add_done_callback(look)
    second = runner.submit(work(lambda: None))
    second.add_done_callback(look)
    begin.set()
    assert over.wait(60)
    assert found == ["refused", "seen"]
    runner.close()


def test_close_does_what_is_queued() -> None:
    runner, seen = Runner("stream"), []
    for k in range(5):
        runner.submit(work(lambda k=k: seen.append(k)))
    runner.close()
    assert seen == list(range(5))
    assert runner._thread is None
    with pytest.raises(ClosedError, match="stream is closed"):
        runner.submit(work(lambda: None))
    with pytest.raises(ClosedError, match="stream is closed"):
        runner.run(work(lambda: None))


def test_a_thread_without_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("einloom.backend.runner.LINGER", 0.01)
    runner = Runner("stream")
    thread = runner.submit(work(threading.current_thread)).result()
    thread.join(20)
    assert not thread.is_alive()
    assert runner.submit(work(threading.current_thread)).result() is not thread  # another begins
    runner.close()


def test_options_of_the_caller_hold() -> None:
    with cpu_devices("cpu:2") as (device,), einloom.options(threads=1, small=5):
        event = device.runner.submit(work(einloom.get_options))
        assert (event.result().threads, event.result().small) == (1, 5)


def test_many_callers() -> None:
    """Work of eight threads, by run and by submit: each piece once, never two at the same time."""
    runner, inside, counts = Runner("stream"), threading.Lock(), [0] * 8

    def piece(k: int) -> None:
        assert inside.acquire(blocking=False)
        counts[k] += 1
        inside.release()

    def caller(k: int) -> None:
        for number in range(50):
            go = runner.run if number % 3 else runner.submit
            go(work(lambda: piece(k)))

    threads = [threading.Thread(target=caller, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    runner.close()
    assert counts == [50] * 8


# ---- previously failed ---------------------------------------------------------------------------


def test_a_callback_that_ends_the_thread_does_not_end_the_stream() -> None:
    """`sys.exit` is no Exception, which is all that a Future catches from its callbacks."""
    runner, begin = Runner("stream"), threading.Event()
    first = runner.submit(work(begin.wait))
    first.add_done_callback(lambda _: sys.exit(3))
    begin.set()
    assert runner.submit(work(lambda: 5)).result(60) == 5
    runner.close()


def test_work_within_work() -> None:
    """In a caller as in the thread: at once while nothing is queued, refused where it would wait."""
    runner = Runner("stream")
    nested = work(lambda: runner.run(work(lambda: 7)))
    assert runner.run(nested) == runner.submit(nested).result(60) == 7

    def behind_another() -> Any:
        runner.submit(work(lambda: None))
        return runner.run(work(lambda: 7))

    for call in (runner.run, lambda one: runner.submit(one).result(60)):
        with pytest.raises(OrderError, match="would wait for work"):
            call(work(behind_another))
        runner.wait()
    runner.close()


def test_streams_do_not_wait_for_each_other_in_callbacks() -> None:
    """What is at the head of the one may be waiting for what is behind the callback of the other."""
    one, other, begin, found = Runner("one"), Runner("other", 1), threading.Event(), []
    other.submit(work(begin.wait))
    while other.pending:
        time.sleep(0.001)
    other.submit(work(lambda: None))  # the queue is full

    def callback(_: Any) -> None:
        for call in (other.submit, other.run):
            try:
                call(work(lambda: None))
            except OrderError as error:
                found.append(str(error))
        begin.set()

    hold = threading.Event()
    first = one.submit(work(hold.wait))
    first.add_done_callback(callback)
    hold.set()
    assert begin.wait(60)
    assert [text.split(":")[0] for text in found] == ["other", "other"]
    one.close()
    other.close()


@pytest.mark.parametrize("way", ["run", "submit"])
def test_an_interrupt_while_work_finds_its_place(way: str) -> None:
    """Its event ends, and the stream goes on."""
    runner, events = Runner("stream"), []

    def prepare(future: Any) -> Any:
        events.append(future)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        getattr(runner, way)(prepare)
    assert isinstance(events[0].exception(0), KeyboardInterrupt)
    assert runner.is_idle
    assert runner.run(work(lambda: 1)) == runner.submit(work(lambda: 1)).result(60) == 1
    runner.close()


def test_no_thread_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, events = Runner("stream"), []

    def refuse(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    def prepare(future: Any) -> Any:
        events.append(future)
        return lambda: 1

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="start new thread"):
            runner.submit(prepare)
    assert isinstance(events[0].exception(0), RuntimeError)
    assert (runner.pending, runner.submit(work(lambda: 2)).result(60)) == (0, 2)
    runner.close()


class FileMemory(CpuMemory):
    """Slabs are files, mapped into memory."""

    kind = "file"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def alloc(self, size: int, alignment: int) -> Any:
        name = self.folder / str(len(list(self.folder.iterdir())))
        return np.memmap(name, np.uint8, "w+", shape=(max(size, 1),))


def test_a_device_has_one_kind_of_memory(tmp_path: Path) -> None:
    """It is chosen with the device, for all of its pools: no node and no allocation names another."""
    made = Device(cpu(), FileMemory(tmp_path), 0, alignment=1)
    assert made.backend is cpu()  # what drives it
    a, b = einloom.Node("a", (3,)), einloom.Node("b", (3,))
    with einloom.Context(made) as root:
        routine = root.put({a: [1.0, 2.0, 3.0]}).link(einloom.Code(lambda x: 2 * x, [a], [b]))
        routine.run()
        np.testing.assert_array_equal(routine.context.get(b), [2, 4, 6])
        held = [np.fromfile(name) for name in sorted(tmp_path.iterdir())]
        assert [2.0, 4.0, 6.0] in [x[:3].tolist() for x in held]
    made.close()


def test_hundreds_of_nodes_are_hundreds_of_arrays() -> None:
    """Nothing bounds how many arrays a routine binds: each is passed as it is, at its own place."""
    count = 400
    nodes = [einloom.Node(f"x{k}", (2,)) for k in range(count)]
    total = einloom.Node("total", (2,))

    def add(*arrays: Any) -> Any:
        made = arrays[0]
        for x in arrays[1:]:
            made = made + x
        return made

    with cpu_devices("cpu:6") as (found,), einloom.Context(found) as root:
        held = root.put({node: np.full(2, float(k)) for k, node in enumerate(nodes)})
        assert len(set(held.locations.values())) == count
        routine = held.link(einloom.Code(add, nodes, [total]))
        assert len(routine.inputs) == count
        routine.run()
        np.testing.assert_array_equal(routine.context.get(total), [count * (count - 1) / 2] * 2)
