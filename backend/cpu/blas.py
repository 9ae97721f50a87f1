"""BLAS on one thread while our own threads are at work, and as it was afterwards.

NumPy and SciPy each bring an OpenBLAS with its own pool; called from several of our threads at once,
each would start as many more. One guard counts who is inside: the first to enter notes the number of
threads of every BLAS library in the process and sets it to 1, the last to leave restores it, also when
an error passes through. The setting belongs to the process, so other Python threads share it meanwhile.
"""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType
from typing import Any

_WITNESSES = ("numpy", "scipy.linalg", "torch", "sklearn")  # modules that load a BLAS library


class OneThread:
    """Reference-counted: `with ONE_BLAS_THREAD:` may be nested and entered by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._libraries: list[Any] = []
        self._seen: tuple[bool, ...] = ()
        self._before: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = [(library, library.num_threads) for library in self._found()]
                try:
                    for library, _ in self._before:
                        _set_threads(library, 1)
                except BaseException:
                    self._restore()
                    raise
            self._inside += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._restore()

    def _restore(self) -> None:
        for library, threads in self._before:
            _set_threads(library, threads)
        self._before = []

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
            self._inside = 0
            self._restore()


def _set_threads(library: Any, threads: int) -> None:
    """From any thread: threadpoolctl 3.8 and later let one thread alone set OpenBLAS, and stay silent
    to others; but the first to enter is often not the last to leave."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


ONE_BLAS_THREAD = OneThread()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ONE_BLAS_THREAD.after_fork)
