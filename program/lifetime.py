"""How long a context's memory lives: until it is closed, and all that were derived from it are."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from .._base.errors import ClosedError
from ..backend.devices import Device
from . import ordering
from .ordering import Buffer, over


class Lifetime:
    """The pools that a context alone owns, and who still needs them.

    A parent that is closed keeps its pools until its last child is gone. A context that is collected as
    garbage counts as closed.
    """

    def __init__(
        self,
        device: Device,
        pools: Sequence[int],
        buffers: Sequence[Buffer],
        parent: Lifetime | None,
    ) -> None:
        self.device, self.pools, self.buffers, self.parent = device, pools, buffers, parent
        self.children: set[Lifetime] = set()
        self.is_closed = self.is_freed = False
        with device.lock:
            device._check_open()
            if parent is not None and parent.is_freed:
                raise ClosedError(f"the parent on {device.name} was closed meanwhile")
            device.contexts += 1
            if parent is not None:
                parent.children.add(self)

    def check_open(self, call: str) -> None:
        if self.is_closed:
            raise ClosedError(f"{call}: the context on {self.device.name} is closed; make another")

    def close(self) -> None:
        """Take no more work, wait for what is under way, and free what nobody else needs."""
        with ordering.SCHEDULING:
            self.check_open("close")
            self.is_closed = True
        try:
            self.device.wait()
            for buffer in self._perhaps_freed():
                for reader in tuple(buffer.readers):
                    over(reader)
        except BaseException:  # interrupted, or refused in a callback: it can be tried again
            self.is_closed = False
            raise
        with self.device.lock:
            self._release()
        self.device.collect()

    def _perhaps_freed(self) -> list[Buffer]:
        """Those of this context, and of closed ones above it that may have waited for it."""
        found, one = list(self.buffers), self.parent
        while one is not None and one.is_closed:
            found += one.buffers
            one = one.parent
        return found

    def derived(self) -> list[Lifetime]:
        """All that come of this one, the youngest first."""
        with self.device.lock:
            found, stack = [], [*self.children]
            while stack:
                one = stack.pop()
                found.append(one)
                stack += one.children
        return found[::-1]

    def abandon(self) -> None:
        """From a destructor: no work can be under way, since that would hold the context."""
        self.is_closed = True
        self.device.abandoned.append(self._release)
        self.device.collect()

    def _release(self) -> None:
        """With the device's lock held."""
        one: Lifetime | None = self
        while one is not None and one.is_closed and not one.children and not one.is_freed:
            one.is_freed = True
            for pool in one.pools:
                with suppress(ClosedError):  # the device is closed, and all its pools with it
                    self.device.pools.free_pool(pool)
            for buffer in one.buffers:
                buffer.arrays.clear()  # views of the memory
            self.device.contexts -= 1
            if one.parent is not None:
                one.parent.children.discard(one)
            one = one.parent
