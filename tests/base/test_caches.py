"""Caches are bounded, forget what was not used for longest, and count."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from einloom._base import caches
from einloom._base.caches import Cache, CacheInfo, cache_info, clear_caches


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches made here are not known afterwards, and those of the library stay as they are."""
    monkeypatch.setattr(caches, "_REGISTRY", {})


def test_counts() -> None:
    cache: Cache[str] = Cache("test", 2)
    assert cache.get("a") is None
    assert cache.put("a", "A") == "A"
    assert cache.get("a") == "A"
    assert cache.get_or("a", lambda: pytest.fail("made again")) == "A"
    assert cache.get_or("b", lambda: "B") == "B"
    assert cache.info() == CacheInfo(hits=2, misses=2, maxsize=2, currsize=2)
    cache.clear()
    assert cache.info() == CacheInfo(hits=0, misses=0, maxsize=2, currsize=0)
    assert cache.get("a") is None


def test_first_value_stays() -> None:
    """Two threads that miss at once store equal values; everybody then shares one."""
    cache: Cache[list[int]] = Cache("test", 2)
    first = cache.put("a", [1])
    assert cache.put("a", [1]) is first


def test_failure_stores_nothing() -> None:
    cache: Cache[int] = Cache("test", 2)
    with pytest.raises(ZeroDivisionError):
        cache.get_or("a", lambda: 1 // 0)
    assert cache.get_or("a", lambda: 3) == 3


@given(st.integers(0, 5), st.lists(st.tuples(st.booleans(), st.integers(0, 7))))
def test_forgets_what_was_not_used_for_longest(maxsize: int, calls: list[tuple[bool, int]]) -> None:
    """Against a list of keys, the least recently used first."""
    cache: Cache[int] = Cache("test", maxsize)
    used: list[int] = []
    for is_put, key in calls:
        if is_put:
            cache.put(key, key + 100)
        else:
            assert cache.get(key) == (key + 100 if key in used else None)
        if key in used or is_put:
            used = [*(k for k in used if k != key), key][-maxsize:] if maxsize else []
        assert cache.info().currsize == len(used)


def test_registry() -> None:
    """Newest cache of a name counts; all are shown and cleared together."""
    one, two = Cache[int]("one", 3), Cache[int]("two", 4)
    one.put(1, 1)
    two.put(2, 2)
    two.get(2)
    assert cache_info() == {"one": CacheInfo(0, 0, 3, 1), "two": CacheInfo(1, 0, 4, 1)}
    clear_caches()
    assert cache_info() == {"one": CacheInfo(0, 0, 3, 0), "two": CacheInfo(0, 0, 4, 0)}


def test_threads() -> None:
    """Eight threads at once: bounded, nothing lost of the counters, every value right."""
    cache: Cache[int] = Cache("test", 16)

    def work(seed: int) -> None:
        for step in range(2000):
            key = (seed * 7 + step * 13) % 32
            assert cache.get_or(key, lambda key=key: key * key + 1) == key * key + 1  # type: ignore[misc]
            if step % 500 == 499:
                cache.info()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    info = cache.info()
    assert info.hits + info.misses == 8 * 2000
    assert info.currsize == 16


def test_library_caches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    import einloom

    einloom.einsum("i->", [1, 2])
    found = einloom.cache_info()
    assert found
    assert all(0 <= info.currsize <= info.maxsize for info in found.values())
    assert all(info.maxsize > 0 for info in found.values())
