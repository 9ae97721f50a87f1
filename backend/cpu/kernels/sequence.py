"""Products of matrices in turn, each by all threads that are there, none of which has the interpreter's lock.

Threads claim tiles of a step, and begin the next step when all of them are done. Nobody waits for a thread
that has claimed none: one alone does it all, and others may come at any time.
"""

from __future__ import annotations

from typing import Any

from ..jit import kernel, part
from .strips import multiply_tiles

APART = 8  # numbers of a cache line, so that no two of those that threads count up are in one

PATIENT = 200  # looks of some nanoseconds before a thread takes tiles of others, which are thought to be late
EAGER = 400  # and before others may have the core

# put here before a kernel is compiled; see vectors.py and registers.py
add_element: Any = None
copy_element: Any = None
count_up: Any = None
fresh: Any = None
relax: Any = None


@kernel
def multiply_in_turn(
    mine: int,  # number of the thread, of so many
    threads: int,
    steps: Any,  # [count, 15]: tiles; numbers of out, left and right among the values; where the tables of
    # batch, rows, columns and contracted begin and how many axes they have; where the sizes begin; 0. Or, for
    # sums of shares, 1; numbers of the result and of the shares; how many, how many elements each; 1 before
    # the last. At last, where its tiles begin among all of them
    values: Any,  # addresses
    tables: Any,  # those that `multiply_tiles` takes, one after another
    claimed: Any,  # zeros: for each tile how many threads have wanted it
    done: Any,  # [count * APART], zeros: tiles of each step that are done
    strip: Any,  # scratch of the thread, as for `multiply_tiles`
    places: Any,
) -> None:
    """Every step after the one before. A thread begins with the tiles of its own number: what it has made in
    the step before is near it, and tiles of the next step often read no more than that. It takes those of
    others when nobody has begun them for a while, and from then on at once."""
    patience = PATIENT
    for s in range(steps.shape[0]):
        tiles, begin = steps[s, 0], steps[s, 14]
        finished = done[s * APART :]
        for tile in range(mine, tiles, threads):
            if count_up(claimed[begin + tile :]) == 0:
                compute(tile, steps, s, values, tables, strip, places)
                count_up(finished)
        looks, is_open = 0, True
        while fresh(finished) < tiles:
            looks += 1
            if is_open and looks > patience:
                patience, is_open = PATIENT, False
                for tile in range(tiles):  # of threads that are not there, or late
                    wanted = claimed[begin + tile :]
                    if fresh(wanted) == 0 and count_up(wanted) == 0:
                        compute(tile, steps, s, values, tables, strip, places)
                        count_up(finished)
                        patience = 0
            if looks > EAGER:
                relax()


@part
def compute(
    tile: int, steps: Any, s: int, values: Any, tables: Any, strip: Any, places: Any
) -> None:
    """A tile of step s."""
    out, left = values[steps[s, 1]], values[steps[s, 2]]
    if steps[s, 13]:
        add_shares(strip, out, left, steps[s, 3], steps[s, 4])
        return
    b, r, c, k = steps[s, 4], steps[s, 6], steps[s, 8], steps[s, 10]
    n_b, n_r, n_c, n_k = steps[s, 5], steps[s, 7], steps[s, 9], steps[s, 11]
    multiply_tiles(
        tile,
        tile + 1,
        out,
        left,
        values[steps[s, 3]],
        tables[b : b + 4 * n_b].reshape((4, n_b)),
        tables[r : r + 3 * n_r].reshape((3, n_r)),
        tables[c : c + 3 * n_c].reshape((3, n_c)),
        tables[k : k + 3 * n_k].reshape((3, n_k)),
        tables[steps[s, 12] :],
        strip,
        places,
    )


@part
def add_shares(like: Any, to: int, sums: int, shares: int, count: int) -> None:
    """to[i] = sums[0, i] + sums[1, i] + ..., of so many elements that lie one after another."""
    size = like.itemsize
    for i in range(count):
        copy_element(like, to + i * size, sums + i * size)
        for s in range(1, shares):
            add_element(like, to + i * size, sums + (s * count + i) * size)
