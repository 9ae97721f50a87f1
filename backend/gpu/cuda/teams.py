"""How many lanes share a matrix: see source/teams.cuh."""

from __future__ import annotations

WARP = 32


def power_of_two(n: int) -> int:
    """The power of two that is n or next above.

    >>> power_of_two(1), power_of_two(5), power_of_two(8)
    (1, 8, 8)
    """
    return 1 << (n - 1).bit_length()
