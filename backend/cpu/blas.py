"""BLAS on one thread while our own threads are at work, and as it was afterwards.

NumPy and SciPy each bring an OpenBLAS with its own pool; called from several of our threads at once,
each would start as many more. One guard counts who is inside: the first to enter notes the number of
threads of every BLAS library in the process and sets it to 1, the last to leave restores it, also when
an error passes through. The setting belongs to the process, so other Python threads share it meanwhile.
Who wants at most some threads, and not one, is inside too; the fewest that anybody wants hold.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

_WITNESSES = ("numpy", "scipy.linalg", "torch", "sklearn")  # modules that load a BLAS library


class OneThread:
    """Reference-counted: `with ONE_BLAS_THREAD:` may be nested and entered by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limits: list[int] = []  # of those inside that want more than one thread
        self._libraries: list[Any] = []
        self._seen: tuple[bool, ...] = ()
        self._before: list[tuple[Any, int]] = []
        self._least = 0  # threads that are set; 0 while nobody is inside

    def __enter__(self) -> None:
        self._enter(1)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave(1)

    @contextmanager
    def at_most(self, threads: int) -> Iterator[None]:
        """A block in which BLAS has so many threads, or fewer where it had fewer."""
        self._enter(threads)
        try:
            yield
        finally:
            self._leave(threads)

    def _enter(self, threads: int) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = [(library, library.num_threads) for library in self._found()]
            self._inside += 1
            if threads > 1:
                self._limits.append(threads)
            try:
                self._set()
            except BaseException:
                self._forget(threads)
                raise

    def _leave(self, threads: int) -> None:
        with self._lock:
            self._forget(threads)

    def _forget(self, threads: int) -> None:
        self._inside -= 1
        if threads > 1:
            self._limits.remove(threads)
        if self._inside:
            self._set()
        else:
            self._restore()

    def _set(self) -> None:
        """The fewest threads that anybody inside wants."""
        least = min(self._limits) if len(self._limits) == self._inside else 1
        if least != self._least:
            for library, before in self._before:
                _set_threads(library, min(before, least))
            self._least = least

    def _restore(self) -> None:
        for library, threads in self._before:
            _set_threads(library, threads)
        self._before, self._least = [], 0

    def _found(self) -> list[Any]:
        """BLAS libraries of this process; looked for again when one more may have been loaded."""
        seen = tuple(name in sys.modules for name in _WITNESSES)
        if seen != self._seen:
            from threadpoolctl import ThreadpoolController

            found = ThreadpoolController().select(user_api="blas").lib_controllers
            self._libraries, self._seen = list(found), seen
        return self._libraries

    def after_fork(self) -> None:
        """The child has one thread, which was not inside: whoever was is gone."""
        self._lock = threading.Lock()
        if self._inside:
            self._inside, self._limits = 0, []
            self._restore()


def _set_threads(library: Any, threads: int) -> None:
    """From any thread: threadpoolctl 3.8 and later let one thread alone set OpenBLAS, and stay silent
    to others; but the first to enter is often not the last to leave."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


ONE_BLAS_THREAD = OneThread()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ONE_BLAS_THREAD.after_fork)
