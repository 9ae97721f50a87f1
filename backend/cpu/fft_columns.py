"""Lines that lie side by side in memory, transformed by lanes of vectors that run along their neighbours."""

from __future__ import annotations

from typing import Any

from ..spec import Shape


def is_allowed(x: Any) -> bool:
    return False


def fastest_axis(x: Any) -> int:
    """The axis whose elements are neighbours in memory; -1 if there is none."""
    for axis in range(x.ndim - 1, -1, -1):
        if x.strides[axis] == x.itemsize and x.shape[axis] > 1:
            return axis
    return -1


def takes(kind: str, shape: Shape, dtype: Any, axis: int, fastest: int, n: int) -> bool:
    return False


def run(
    kind: str, forward: bool, norm: int, x: Any, out: Any, axis: int, n: int, threads: int
) -> None:
    raise NotImplementedError
