"""A batch in more ranges than threads: who is done takes the next one.

How long a matrix takes may depend on its numbers, and a thread may share its core with another process. What
is done for a matrix depends on no other, so results are the same whoever takes it.
"""

from __future__ import annotations

from collections.abc import Callable

from ...._base.options import num_threads
from ..threads import MOST_THREADS, Run, parallel_for

RANGES = 8  # for each thread


def in_turns(begin: Callable[[], Run], n: int, least: int = 1) -> None:
    """Call what `begin` makes, once for each thread, on ranges that cover range(n), at least so long."""
    threads = min(num_threads(), MOST_THREADS, -(-n // least))
    if threads <= 1:
        begin()(0, n)
        return
    step = max(least, -(-n // (RANGES * threads)))
    starts = iter(range(0, n, step))  # one step of it is one step of the interpreter

    def turns(_first: int, _last: int) -> None:
        run = begin()
        for start in starts:
            run(start, min(start + step, n))

    parallel_for(turns, threads, threads)
