"""Ranges of slices: all of them, once, in order, and none across the border of a part."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from einloom.program.ranges import cut

numbers = st.integers(1, 40)


@given(n_parts=numbers, each_part=numbers, size=st.integers(1, 2000))
def test_cut(n_parts: int, each_part: int, size: int) -> None:
    ranges = list(cut(n_parts, each_part, size))
    assert ranges[0][0] == 0
    assert ranges[-1][1] == n_parts * each_part
    assert all(before[1] == after[0] for before, after in pairwise(ranges))
    for start, stop in ranges:
        assert 0 < stop - start <= size
        in_one_part = start // each_part == (stop - 1) // each_part
        assert in_one_part or start % each_part == stop % each_part == 0
    assert len(ranges) <= n_parts * -(-each_part // size)


def test_cut_is_lazy() -> None:
    assert next(cut(10**30, 10**30, 10**6)) == (0, 10**6)
