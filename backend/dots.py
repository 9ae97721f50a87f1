"""What inner products of rows take: out[b] = sum_k x[b, k] * y[b, k], with k last in memory in both."""

from __future__ import annotations

# measured on Zen 4 (two cores), of float32 to complex128
BEGUN = 2.3e-9  # seconds of a thread before a row is read, and to add up its vector of sums
READ = 8e10  # bytes of rows a second that a thread reads from caches
START = 1e-5  # seconds before the first row
WAKING = 5e-5  # seconds before several threads are at it
FEWEST = 32  # rows below which threads might have none
LONG, STREAMED = 512, 8 << 20
"""Numbers of a row from which BLAS is as fast as one thread of ours, unless so many bytes are read that
several read more a second."""


def takes_rows(batch: int, k: int, itemsize: int) -> bool:
    """Whether so many rows of so many numbers, with work enough, take less time here than with BLAS."""
    return batch >= FEWEST and (k <= LONG or 2 * batch * k * itemsize >= STREAMED)


def one_suffices(batch: int, k: int, itemsize: int, threads: int) -> bool:
    """Whether one thread is done with all rows as soon as so many would be."""
    reading = reading_seconds(batch, k, itemsize)
    return reading <= WAKING + reading / threads


def rows_seconds(batch: int, k: int, itemsize: int, threads: int, stream: float) -> float:
    """Seconds, where all threads read `stream` bytes a second from memory."""
    nbytes = 2 * batch * k * itemsize
    reading = reading_seconds(batch, k, itemsize)
    reading = min(reading, WAKING + reading / threads)
    return START + max(reading, nbytes / stream if nbytes >= STREAMED else 0.0)


def reading_seconds(batch: int, k: int, itemsize: int) -> float:
    """Of one thread, from caches."""
    return batch * (BEGUN + 2 * k * itemsize / READ)
