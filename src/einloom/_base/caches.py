"""Bounded caches in one registry: they can be inspected and cleared together.

A `Cache` keeps the least recently used order and one lock; nothing is computed under the lock,
so two threads that miss at once both compute and the first to store wins (the values are equal).
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, Protocol, TypeVar

V = TypeVar("V")


class Listed(Protocol):
    """What `cache_info` shows and `clear_caches` empties."""

    def info(self) -> CacheInfo: ...

    def clear(self) -> object: ...


_REGISTRY: dict[str, Listed] = {}


def register(name: str, cache: Listed) -> None:
    """Show a cache of another kind beside the others."""
    _REGISTRY[name] = cache


class CacheInfo(NamedTuple):
    """Counters of one cache, as `functools.lru_cache` shows them."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


class Cache(Generic[V]):
    """A bounded map that forgets what was not used for longest.

    `weigh` tells how much of `maxsize` a value takes; by default each takes 1.
    """

    def __init__(self, name: str, maxsize: int, weigh: Callable[[V], int] | None = None) -> None:
        self.name, self.maxsize, self._weigh = name, maxsize, weigh
        self._weight = 0
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
            return self._put(key, value)

    def replace(self, key: Hashable, old: V, value: V) -> V:
        """The same, but `value` takes the place of `old`, if it is still there."""
        with self._lock:
            if value is not old and self._items.get(key) is old:
                del self._items[key]
                self._weight -= self._weight_of(old)
            return self._put(key, value)

    def _put(self, key: Hashable, value: V) -> V:
        if key not in self._items:
            self._items[key] = value
            self._weight += self._weight_of(value)
        kept = self._items[key]
        self._items.move_to_end(key)
        while self._weight > self.maxsize:
            _, dropped = self._items.popitem(last=False)
            self._weight -= self._weight_of(dropped)
        return kept

    def _weight_of(self, value: V) -> int:
        return 1 if self._weigh is None else self._weigh(value)

    def get_or(self, key: Hashable, make: Callable[[], V]) -> V:
        found = self.get(key)
        return found if found is not None else self.put(key, make())

    def renew_lock(self) -> None:
        self._lock = threading.Lock()

    def info(self) -> CacheInfo:
        with self._lock:
            return CacheInfo(self._hits, self._misses, self.maxsize, len(self._items))

    def clear(self) -> None:
        with self._lock:
            self._items.clear()
            self._weight = 0
            self._hits = self._misses = 0


class Quick(Generic[V]):
    """A bounded map for look-ups of a tenth of a microsecond: without a lock, emptied when it is full.

    `items` is read directly; a dictionary's single operations are atomic.
    """

    def __init__(self, name: str, maxsize: int) -> None:
        self.maxsize = maxsize
        self.items: dict[Hashable, V] = {}
        self.hits = self.misses = 0  # calls of several threads at once may be counted as one
        _REGISTRY[name] = self

    def get(self, key: Hashable) -> V | None:
        """What is kept, counted."""
        value = self.items.get(key)
        if value is None:
            self.misses += 1
        else:
            self.hits += 1
        return value

    def put(self, key: Hashable, value: V) -> None:
        if len(self.items) >= self.maxsize:
            self.items.clear()
        self.items[key] = value

    def info(self) -> CacheInfo:
        return CacheInfo(self.hits, self.misses, self.maxsize, len(self.items))

    def clear(self) -> None:
        self.items.clear()
        self.hits = self.misses = 0


def cache_info() -> dict[str, CacheInfo]:
    """Hits, misses, bound and current size of every cache, by name."""
    return {name: cache.info() for name, cache in sorted(_REGISTRY.items())}


def clear_caches() -> None:
    """Empty every cache; plans, programs and expressions that the user holds stay valid."""
    for cache in tuple(_REGISTRY.values()):
        cache.clear()


def _renew_locks() -> None:
    """In the child of a fork: a lock that another thread held would never be released."""
    for cache in tuple(_REGISTRY.values()):
        renew = getattr(cache, "renew_lock", None)
        if renew is not None:
            renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
