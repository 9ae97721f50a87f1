"""Numbers of 64 bits dealt out to buckets by their uppermost bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel


@kernel
def count_buckets(start: int, stop: int, x: Any, shift: int, counts: Any) -> None:
    """counts[k]: how many of x[start:stop] have k above `shift` bits."""
    down = np.uint64(shift)
    for i in range(start, stop):
        counts[np.int64(x[i] >> down)] += 1


@kernel
def deal_buckets(
    start: int, stop: int, x: Any, shift: int, mask: Any, ends: Any, dealt: Any
) -> None:
    """Each of x[start:stop] goes to dealt[ends[k]], and ends[k] to the next place: without its bits above
    `shift`, and with its index in place of those of the mask."""
    down, up = np.uint64(shift), np.uint64(64 - shift)
    kept = ~np.uint64(mask[0])
    for i in range(start, stop):
        k = np.int64(x[i] >> down)
        dealt[ends[k]] = ((x[i] << up) & kept) | np.uint64(i)
        ends[k] += 1
