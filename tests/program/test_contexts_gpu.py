"""A GPU as a device with contexts: NumPy in the place of CuPy, two cards beside the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.backend.stand_in import DeviceArray, StandIn, Stream

import einloom
from einloom import Code, Context, Node, device_to_device
from einloom._base.errors import DeviceError, MemoryLimitError, Unsupported
from einloom.backend import devices
from einloom.backend.gpu import GpuBackend, missing
from einloom.backend.pools import BufferLoc
from einloom.program.builder import Builder

XP = StandIn(cards=2)
A, B = (Node(name, (2, 3)) for name in "ab")
X = np.arange(6.0).reshape(2, 3)


@pytest.fixture(autouse=True)
def cards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two of them: gpu:0 and gpu:1."""

    def opened(ordinal: int) -> Any:
        if ordinal > 1:
            raise DeviceError("this process sees 2 GPUs")
        return devices.gpu_device(GpuBackend(XP, ordinal))

    monkeypatch.setattr(devices, "_KINDS", {**devices._KINDS, "gpu": opened})
    yield
    for name in ("gpu:0", "gpu:1"):
        if name in devices._OPEN:
            einloom.device(name).close()


def test_a_device() -> None:
    """The same until it is closed; its pools are bytes of the card, at places of integers."""
    card = einloom.device("gpu:1")
    assert card is einloom.device("gpu:1")
    assert (card.name, card.ordinal) == ("gpu:1", 1)
    assert einloom.device("gpu") is einloom.device("gpu:0")
    (pool,) = card.new_pools([64])
    card.pools.memset_zero(pool, 0, 64)
    array = card.pools.array_at(BufferLoc(pool, 16), A.spec)
    assert type(array) is DeviceArray
    assert not array.any()
    card.undo_pools([pool])
    with pytest.raises(DeviceError, match="2 GPUs"):
        einloom.device("gpu:2")
    with pytest.raises(DeviceError, match="no device 'gpu:x'"):
        einloom.device("gpu:x")


def test_without_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    why = missing()
    if why is None:
        pytest.skip("there is a GPU")
    monkeypatch.setattr(devices, "_KINDS", {"cpu": devices._cpu, "gpu": devices._gpu})
    with pytest.raises(DeviceError, match="backend 'gpu': "):
        Context("gpu:0")


def test_routines() -> None:
    """Put, linked, run and fetched; a result goes straight to its place; constants are uploaded once."""
    ten = Node.constant("ten", np.full(3, 10.0))
    with Context("gpu:0") as root:
        held = root.put({A: X}).zeros(B)
        assert np.array_equal(held.get(A), X)
        assert type(held.get(A)) is np.ndarray
        code = Code(lambda a, ten: 2 * a + ten, [A, ten], [B])
        routine = held.link(code)
        routine.run()
        assert np.array_equal(routine.context.get(B), 2 * X + 10)
        routine.context.set(A, -X)
        event = routine.submit()
        assert event.result(10) is None
        assert np.array_equal(routine.context.get(B), -2 * X + 10)
        assert type(routine.context._buffers[B].array(B)) is DeviceArray
        other = root.put({A: X}).link(code)
        assert other.context.locations[ten] == routine.context.locations[ten]
        assert str(other).startswith("routine ")


def test_work_runs_on_the_stream_of_who_submits_it() -> None:
    seen: list[Any] = []
    card = einloom.device("gpu:0")
    with Stream() as stream:
        card.runner.submit(lambda future: lambda: seen.append(Stream.current)).result(10)
    card.runner.run(lambda future: lambda: seen.append(Stream.current))
    assert seen[0] is stream
    assert seen[1] is Stream.current


def test_contents_are_there_before_other_streams_read_them() -> None:
    """What is put is waited for: the next piece of work may be on another stream."""
    before = Stream.current.waited
    with Context("gpu:0") as root:
        root.put({A: X})
    assert Stream.current.waited > before


@pytest.mark.parametrize("into", ["node", "merge"])
def test_from_card_to_card(into: Any) -> None:
    with Context("gpu:0") as here, Context("gpu:1") as there:
        source, target = there.put({A: 3 * X}), here.put({A: X})
        bring = device_to_device(A, target, source, into=into)
        assert bring is not None
        bring.run()
        reads = [A, A.merged] if into == "merge" else [A, A]
        add = bring.context.link(Code(lambda x, y: x + y, reads, [B]))
        add.run()
        want = X + 3 * X if into == "merge" else 6 * X
        assert np.array_equal(add.context.get(B), want)


def test_from_the_host_goes_through_put() -> None:
    with Context("gpu:0") as here, Context("cpu:1") as there:
        bring = device_to_device(A, here.put({A: X}), there.put({A: X}))
        assert bring is not None
        with pytest.raises(Unsupported, match="through the host"):
            bring.run()


def test_no_memory() -> None:
    """CuPy's own error is ours, and nothing is kept."""

    def full(*args: Any, **keywords: Any) -> Any:
        raise XP.cuda.memory.OutOfMemoryError("out of memory allocating 48 bytes")

    with Context("gpu:0") as root, pytest.MonkeyPatch.context() as patch:
        patch.setattr(XP, "empty", full, raising=False)
        with pytest.raises(MemoryLimitError, match="gpu:0"):
            root.put({A: X})


def test_static_indices() -> None:
    """Rows one after another, by a program that is linked once; they are added up in place."""
    build = Builder()
    x, total = build.input("float64", (2, 3)), build.input("float64", (3,))
    row = build("slice_at", x, axis=0, at=build.index("k", 2))
    program = build.finish(build("add", total, row))
    whole = Node("total", (3,))
    with Context("gpu:0") as root:
        routine = root.put({A: X}).zeros(whole).link(Code(program, [A, whole], [whole]))
        routine.loop()
        assert np.array_equal(routine.context.get(whole), X.sum(axis=0))
