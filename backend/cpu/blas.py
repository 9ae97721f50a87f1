"""BLAS on one thread while our own threads are at work, and as it was afterwards.

NumPy and SciPy each bring an OpenBLAS with its own pool; called from several of our threads at once,
each would start as many more. One guard counts who is inside: the first to enter notes the number of
threads of every BLAS library in the process (of NumPy's own, where no module that brings another one is
loaded) and sets it to 1, the last to leave restores it, also when an error passes through. The setting
belongs to the process, so other Python threads share it meanwhile. Who wants at most some threads, and not
one, is inside too; the fewest that anybody wants hold.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from ..processor import of_blas

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
            own = None if any(seen[1:]) else _NumpyBlas.found()
            self._libraries, self._seen = _all_libraries() if own is None else [own], seen
        return self._libraries

    def after_fork(self) -> None:
        """The child has one thread, which was not inside: whoever was is gone."""
        self._lock = threading.Lock()
        if self._inside:
            self._inside, self._limits = 0, []
            self._restore()


class _NumpyBlas:
    """NumPy's OpenBLAS, where it is the only BLAS that our threads call: to look for others takes three
    milliseconds, as long as a first call of some small products."""

    def __init__(self, ask: Any, tell: Any) -> None:
        self._ask, self._tell = ask, tell

    @classmethod
    def found(cls) -> _NumpyBlas | None:
        ask, tell = of_blas("get_num_threads"), of_blas("set_num_threads")
        if ask is None or tell is None:
            return None
        ask.argtypes, tell.argtypes, tell.restype = [], [ctypes.c_int], None
        return cls(ask, tell)

    @property
    def num_threads(self) -> int:
        return int(self._ask())

    def set_num_threads(self, threads: int) -> None:
        self._tell(threads)


def _all_libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set_threads(library: Any, threads: int) -> None:
    """From any thread: threadpoolctl 3.8 and later let one thread alone set OpenBLAS, and stay silent
    to others; but the first to enter is often not the last to leave."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


ONE_BLAS_THREAD = OneThread()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ONE_BLAS_THREAD.after_fork)
