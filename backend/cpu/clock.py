"""A clock of what is done when a call returns."""

from __future__ import annotations

import time


class HostClock:
    """Times between `start` and `stop`, one after another.

    >>> clock = HostClock()
    >>> clock.start()
    >>> clock.stop()
    >>> len(clock.seconds())
    1
    """

    def __init__(self) -> None:
        self._found: list[float] = []
        self._since = 0.0

    def start(self) -> None:
        self._since = time.perf_counter()

    def stop(self) -> None:
        self._found.append(time.perf_counter() - self._since)

    def seconds(self) -> list[float]:
        return self._found
