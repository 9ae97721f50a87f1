"""Bounded caches in one registry: they can be inspected and cleared together.

Every cache keeps the least recently used order and one lock; nothing is computed under the lock,
so two threads that miss at once both compute and the first to store wins (the values are equal).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

V = TypeVar("V")
_REGISTRY: dict[str, Cache] = {}  # type: ignore[type-arg]


class CacheInfo(NamedTuple):
    """Counters of one cache, as `functools.lru_cache` shows them."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


class Cache(Generic[V]):
    """A bounded map that forgets what was not used for longest."""

    def __init__(self, name: str, maxsize: int) -> None:
        self.name, self.maxsize = name, maxsize
        self._items: OrderedDict[Hashable, V] = OrderedDict()
        self._lock = threading.Lock()
        self._hits = self._misses = 0
        _REGISTRY[name] = self

    def get(self, key: Hashable) -> V | None:
        with self._lock:
            value = self._items.get(key)
            if value is None:
                self._misses += 1
            else:
                self._hits += 1
                self._items.move_to_end(key)
            return value

    def put(self, key: Hashable, value: V) -> V:
        """Store `value` and return what the cache now holds for `key`."""
        with self._lock:
            kept = self._items.setdefault(key, value)
            self._items.move_to_end(key)
            while len(self._items) > self.maxsize:
                self._items.popitem(last=False)
            return kept

    def get_or(self, key: Hashable, make: Callable[[], V]) -> V:
        found = self.get(key)
        return found if found is not None else self.put(key, make())

    def info(self) -> CacheInfo:
        with self._lock:
            return CacheInfo(self._hits, self._misses, self.maxsize, len(self._items))

    def clear(self) -> None:
        with self._lock:
            self._items.clear()
            self._hits = self._misses = 0


def cache_info() -> dict[str, CacheInfo]:
    """Hits, misses, bound and current size of every cache, by name."""
    return {name: cache.info() for name, cache in sorted(_REGISTRY.items())}


def clear_caches() -> None:
    """Empty every cache; plans, programs and expressions that the user holds stay valid."""
    for cache in tuple(_REGISTRY.values()):
        cache.clear()
