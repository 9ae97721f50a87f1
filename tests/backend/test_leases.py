"""Lent memory that anything still looks at is given to nobody else, and comes back when nothing does."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backend.pages import PAGE, Array, address, pages

from einloom.backend.cpu import buffers
from einloom.backend.cpu.buffers import BufferCache


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> BufferCache:
    """An empty one of 64 pages, on a system with memory enough."""
    monkeypatch.setattr(buffers, "available_bytes", lambda: 1 << 40)
    return BufferCache(limit=64 * PAGE)


@pytest.fixture(scope="module", autouse=True)
def _quick_collections() -> None:
    """What other tests have made and compiled is not looked at by each collection of these."""
    gc.collect()
    gc.freeze()


class Holder:
    """Something that shows memory by the array interface."""

    def __init__(self, x: Array) -> None:
        self.__array_interface__, self.kept = x.__array_interface__, x


WAYS: dict[str, Any] = {  # to see an array's memory when the array itself is gone
    "slice": lambda x: x[3:],
    "slice of a slice": lambda x: x[3:][5:9][1:],
    "reshaped": lambda x: x.reshape(64, -1).T[::-1],
    "other dtype": lambda x: x.view(np.uint32)[7:],
    "broadcast": lambda x: np.broadcast_to(x[:9], (4, 9)),
    "as strided": lambda x: np.lib.stride_tricks.as_strided(x, (5,), (0,)),
    "base": lambda x: x.base,
    "view of the base": lambda x: x.base.view(np.ndarray),
    "slice of the base": lambda x: x.base[10:20],
    "base of a view": lambda x: x[1:][1:].base,
    "base of the base": lambda x: np.asarray(x.base)[5:],
    "memoryview": memoryview,
    "slice of a memoryview": lambda x: memoryview(x)[8:16],
    "frombuffer": lambda x: np.frombuffer(x, np.uint16),
    "frombuffer of a memoryview": lambda x: np.frombuffer(memoryview(x)[8:], np.uint8)[4:],
    "dlpack": np.from_dlpack,
    "dlpack of a view": lambda x: np.from_dlpack(x[7:])[::2],
    "capsule": lambda x: x.__dlpack__(),
    "interface": lambda x: np.asarray(Holder(x)),
    "flat": lambda x: x.flat,
    "subclass": lambda x: x.view(np.ma.MaskedArray)[4:],
    "record": lambda x: x.view([("a", "u1"), ("b", "u1")])["b"],
    "iterator": lambda x: iter(x[:3]),
    "list": lambda x: [x[n : n + 2] for n in (0, 9)],
    "closure": lambda x: lambda: x[0],
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_seen_is_lent_again(cache: BufferCache, way: str) -> None:
    x = pages(cache, 4)
    where, seen = address(x), WAYS[way](x)
    del x
    gc.collect()
    others = [pages(cache, 4) for _ in range(3)]
    assert where not in map(address, others)
    del others, seen
    gc.collect()
    assert where in {address(y) for y in [pages(cache, 4) for _ in range(4)]}


def test_cycles(cache: BufferCache) -> None:
    """Memory in a cycle comes back when the cycle is collected."""
    loop: list[Any] = [pages(cache, 4)]
    loop.append(loop)
    del loop
    gc.collect()
    assert cache.info()[2:4] == (0, 4 * PAGE)


WHAT = ("allocate", "allocate", "look", "look", "write", "drop", "drop")


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(WHAT), st.integers(0, 99), st.integers(0, 99)), max_size=60)
)
def test_what_is_written_stays(script: list[tuple[str, int, int]]) -> None:
    """Any order of allocating, looking, writing and dropping: each array keeps its own number."""
    cache = BufferCache(limit=9 * PAGE)
    owners: list[tuple[int, Array]] = []
    for serial, (what, i, j) in enumerate(script):
        _one_line(cache, owners, serial, what if owners else "allocate", i, j)
        assert all((x == number).all() for number, x in owners)
    owners.clear()
    assert cache.info().lent_bytes == 0


def _one_line(
    cache: BufferCache, owners: list[tuple[int, Array]], serial: int, what: str, i: int, j: int
) -> None:
    """Of the script; names of its arrays end with it."""
    number, x = owners[i % len(owners)] if owners else (serial, np.empty(0))
    if what == "allocate":
        x = pages(cache, 1 + i % 4)
        x[:] = serial
        owners.append((serial, x))
    elif what == "look":
        seen = (x[j % 7 :], x[::-1], x[: j + 1], np.asarray(x.base), memoryview(x))[j % 5]
        owners.append((number, np.asarray(seen)))
    elif what == "drop":
        del owners[i % len(owners)]
    else:
        x[...] = number
