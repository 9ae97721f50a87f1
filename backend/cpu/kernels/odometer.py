"""Where a tile lies in several strided arrays at once: decoded for the first, then counted on."""

from __future__ import annotations

from typing import Any

from ..jit import part


@part
def turn_to(tile: int, position: Any, places: Any, outer: Any) -> None:
    """Set the index of a tile, and add its offset in every array to `places`.

    `outer` is [1 + arrays, axes]: sizes of the axes over tiles, then their strides in each array.
    """
    rest = tile
    for axis in range(outer.shape[1] - 1, -1, -1):
        position[axis] = rest % outer[0, axis]
        rest //= outer[0, axis]
        for k in range(places.size):
            places[k] += position[axis] * outer[1 + k, axis]


@part
def turn_on(position: Any, places: Any, outer: Any) -> None:
    """Go to the next tile."""
    for axis in range(outer.shape[1] - 1, -1, -1):
        position[axis] += 1
        for k in range(places.size):
            places[k] += outer[1 + k, axis]
        if position[axis] < outer[0, axis]:
            return
        for k in range(places.size):
            places[k] -= position[axis] * outer[1 + k, axis]
        position[axis] = 0
