"""Which linked routine writes and reads each node, in a line of contexts.

It decides what must have run before a routine may: whoever wrote what it reads, and whoever wrote or read
what it writes. Contexts hand it on to those derived from them, so siblings know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from types import MappingProxyType
from typing import Any, NamedTuple

from .nodes import Node


class Mark:
    """How often a routine has run, for those that must come after it."""

    def __init__(self, name: str) -> None:
        self.name, self.completed = name, 0
        self.under_way: list[Future[Any]] = []

    @property
    def is_coming(self) -> bool:
        """Whether it has run, or will before all that is scheduled from now on."""
        # in this order: it may end meanwhile, and is completed before its event is done
        return not all(event.done() for event in self.under_way) or self.completed > 0

    def goes_on(self, event: Future[Any]) -> None:
        """It is scheduled once more."""
        self.under_way = [*(other for other in self.under_way if not other.done()), event]


class Dependency(NamedTuple):
    """A routine that must have run before another, and why."""

    mark: Mark
    why: str


class Entry(NamedTuple):
    """The last writer of a node in a line of contexts, and its readers since."""

    writer: Mark | None = None
    readers: tuple[Mark, ...] = ()


class Ledger:
    """Writers and readers of nodes; a context hands its own on to those derived from it.

    Key is the node whose memory it is, or the text "merge buffer".
    """

    def __init__(self, entries: Mapping[Any, Entry] | None = None) -> None:
        self._entries = MappingProxyType(dict(entries or {}))

    def writer(self, key: Any) -> tuple[Dependency, ...]:
        """Who must have run before the node has the contents that it has here."""
        mark = self._entries.get(key, Entry()).writer
        return () if mark is None else (Dependency(mark, f"writes {_named(key)}"),)

    def followed_by(
        self, mark: Mark, reads: Iterable[Any], writes: Iterable[Any]
    ) -> tuple[tuple[Dependency, ...], Ledger]:
        """What a routine depends on, and the ledger of what comes after it."""
        reads, writes, entries = tuple(reads), tuple(writes), dict(self._entries)
        found: dict[int, Dependency] = {}

        def depend(other: Mark | None, key: Any, how: str) -> None:
            if other is not None:
                found.setdefault(id(other), Dependency(other, f"{how} {_named(key)}"))

        for key in reads:
            entry = entries.get(key, Entry())
            depend(entry.writer, key, "writes")
            entries[key] = Entry(entry.writer, (*entry.readers, mark))
        for key in writes:
            entry = self._entries.get(key, Entry())
            depend(entry.writer, key, "writes")
            for other in entry.readers:
                depend(other, key, "reads")
            entries[key] = Entry(mark)
        return tuple(found.values()), Ledger(entries)


def _named(key: Any) -> str:
    return key.name if isinstance(key, Node) else f"the {key}"
