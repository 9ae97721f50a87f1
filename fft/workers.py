"""scipy.fft's names for the number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .._base.options import num_threads, options
from .arguments import threads_of


@contextmanager
def set_workers(workers: int) -> Iterator[None]:
    """`einloom.options(threads=workers)`; -1 is as many as there are CPUs. As `scipy.fft.set_workers`.

    >>> with set_workers(1):
    ...     get_workers()
    1
    """
    with options(threads=threads_of(workers, "set_workers")):
        yield


def get_workers() -> int:
    """How many threads work where `workers` is not given. As `scipy.fft.get_workers`."""
    return num_threads()
