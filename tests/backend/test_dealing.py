"""Updates of one long line that are dealt out first: one after another, as NumPy makes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from einloom._base.errors import IndexRangeError
from einloom._base.options import options
from einloom.backend.cpu import cpu, dealing

Array = np.ndarray[Any, Any]
SIZE, COUNT = 5000, 9000


@pytest.fixture(autouse=True)
def short_lines_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("LONG", 1), ("MANY", 1), ("SHARE", 2048), ("MOST_SHARES", 40)):
        monkeypatch.setattr(dealing, name, size)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the lines of which updates were dealt out."""
    sizes: list[int] = []
    by = dealing.deal_updates

    def spy(*arguments: Any) -> None:
        sizes.append(arguments[6])
        by(*arguments)

    monkeypatch.setattr(dealing, "deal_updates", spy)
    return sizes


def scattered(mode: str, x: Array, indices: Array, updates: Array, threads: int = 2) -> Array:
    attrs = {"axis": 0, "mode": mode, "unique_indices": False}
    with options(small=0, threads=threads):
        found: Array = cpu().apply("scatter_along_axis", attrs, x, indices, updates)
    return found


def one_by_one(mode: str, x: Array, indices: Array, updates: Array) -> Array:
    want = x.copy()
    for i, u in zip(indices.tolist(), updates, strict=True):
        with np.errstate(all="ignore"):
            want[i] = want[i] + u if mode == "add" else u
    return want


@pytest.mark.parametrize("mode", ["set", "add"])
@pytest.mark.parametrize("name", ["int8", "int16", "float32", "float64", "complex128"])
def test_in_the_order_of_indices(
    name: str, mode: str, rng: np.random.Generator, seen: list[int]
) -> None:
    x, updates = ((rng.standard_normal(n) * 50).astype(name) for n in (SIZE, COUNT))
    indices = rng.integers(-SIZE, SIZE, COUNT)
    want = one_by_one(mode, x, indices, updates)
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(scattered(mode, x, indices, updates, threads), want)
    assert len(seen) == 6


@pytest.mark.parametrize("mode", ["set", "add"])
def test_strides_and_narrow_indices(mode: str, rng: np.random.Generator) -> None:
    x, updates = rng.standard_normal(2 * SIZE)[::-2], rng.standard_normal(3 * COUNT)[::3]
    for indices in (
        rng.integers(-SIZE, SIZE, 2 * COUNT)[::-2],
        rng.integers(0, SIZE, COUNT).astype(np.int32),
    ):
        found = scattered(mode, x, indices, updates)
        np.testing.assert_array_equal(found, one_by_one(mode, x, indices, updates))


def test_full_chunks(seen: list[int]) -> None:
    """Shares that get as many updates as one chunk has, or several, or none."""
    count = 3 * dealing.CHUNK
    indices = np.repeat([0, 0, 4000], dealing.CHUNK) + np.arange(count) % 2 * 300
    updates, x = np.arange(float(count)), np.zeros(SIZE)
    want = one_by_one("add", x, indices, updates)
    np.testing.assert_array_equal(scattered("add", x, indices, updates), want)
    assert seen


@pytest.mark.parametrize("bad", [SIZE, -SIZE - 1, 2**62, -(2**63)])
@pytest.mark.parametrize("at", [0, 4321, COUNT - 1])
def test_out_of_range(bad: int, at: int, rng: np.random.Generator) -> None:
    x, indices = np.zeros(SIZE), rng.integers(0, SIZE, COUNT)
    indices[at] = bad
    with pytest.raises(IndexRangeError, match=rf"index {bad} at \({at},\)"):
        scattered("set", x, indices, np.ones(COUNT))


def test_neighbours_are_not_dealt(rng: np.random.Generator, seen: list[int]) -> None:
    x, updates = np.zeros(SIZE), rng.standard_normal(COUNT)
    indices = np.sort(rng.integers(0, SIZE, COUNT))
    np.testing.assert_array_equal(
        scattered("set", x, indices, updates), one_by_one("set", x, indices, updates)
    )
    assert not seen
