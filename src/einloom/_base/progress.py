"""A progress line on stderr for long work; nothing for short work or when it is switched off."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from .numbers import format_seconds
from .options import get_options


class Progress:
    """Counts steps of known total; draws at most ten times a second, first after `patience` seconds.

    Use it as a context manager and call `advance` after each step.
    """

    def __init__(self, label: str, total: int, patience: float = 0.5) -> None:
        self.label, self.total, self.done = label, max(1, total), 0
        self._start = time.perf_counter()
        self._next = self._start + patience
        wanted = get_options().progress
        self._on = bool(sys.stderr and sys.stderr.isatty()) if wanted == "auto" else bool(wanted)
        self._drawn = False

    def advance(self, steps: int = 1) -> None:
        self.done += steps
        if self._on and time.perf_counter() >= self._next:
            self._draw()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._drawn:
            self._draw()
            sys.stderr.write("\n")
            sys.stderr.flush()

    def _draw(self) -> None:
        now = time.perf_counter()
        share = min(1.0, self.done / self.total)
        bar = "#" * round(24 * share)
        spent = format_seconds(now - self._start)
        sys.stderr.write(f"\r{self.label} [{bar:<24}] {share:4.0%} {spent:>8}")
        sys.stderr.flush()
        self._next, self._drawn = now + 0.1, True
