"""Matrices between memory and lanes.

A panel is as many matrices as a vector has lanes. In scratch, element (i, j) of all of them is one vector,
or two for complex numbers; see values.py. Lanes beyond the last matrix are the first of their panel once
more: its results are written again.
"""

from __future__ import annotations

from typing import Any

from ...jit import part

gather_part: Any = None
gather_square: Any = None
peek: Any = None
poke: Any = None
prefetch_lanes: Any = None
prefetch_lanes_to_write: Any = None
scatter_part: Any = None
scatter_square: Any = None
stream_square: Any = None


@part
def place(offset: Any, first: int, width: int, outer: Any) -> int:
    """Where each matrix of a panel begins in every array: offset[array * width + lane].

    `outer` [1 + arrays, axes] has the sizes of the axes of the batch, and their strides in each array.
    Returns how many matrices the panel has.
    """
    arrays, axes = outer.shape[0] - 1, outer.shape[1]
    total = 1
    for axis in range(axes):
        total *= outer[0, axis]
    count = min(width, total - first)
    if axes == 1 and count == width:
        for v in range(arrays):
            for lane in range(width):
                offset[v * width + lane] = (first + lane) * outer[1 + v, 0]
        return count
    for lane in range(width):
        rest = first + (lane if lane < count else 0)
        for v in range(arrays):
            offset[v * width + lane] = 0
        for axis in range(axes - 1, -1, -1):
            at = rest % outer[0, axis] if axis > 0 else rest
            rest = rest // outer[0, axis] if axis > 0 else 0
            for v in range(arrays):
                offset[v * width + lane] += at * outer[1 + v, axis]
    return count


@part
def load(flat: Any, ports: Any, v: int, places: Any, offset: Any, width: int) -> None:
    """Read array v; `ports` [arrays, 5] has the address of each, where its squares begin, how many.

    Squares take a part of each of many matrices, an order that the machine does not foresee. Those of a later
    panel, as many elements further on as the next column says, are fetched meanwhile; 0 for none. The last
    column is 1 if all are whole cache lines that are written past the caches.
    """
    address, at, ahead = ports[v, 0], ports[v, 1], ports[v, 3]
    for _ in range(ports[v, 2]):
        base, used = places[at], places[at + 1]
        if ahead != 0:
            prefetch_lanes(flat, address, base + ahead, offset, v * width)
        if used == width:
            gather_square(flat, places, at + 2, 0, address, base, offset, v * width)
        elif used > 1:
            gather_part(flat, places, at + 2, 0, address, base, offset, v * width, used)
        else:
            to = places[at + 2]
            for lane in range(width):
                flat[to + lane] = peek(address, base + offset[v * width + lane], flat)
        at += 2 + width


@part
def save(flat: Any, ports: Any, v: int, places: Any, offset: Any, width: int) -> None:
    """Write array v."""
    address, at, ahead, streams = ports[v, 0], ports[v, 1], ports[v, 3], ports[v, 4]
    for _ in range(ports[v, 2]):
        base, used = places[at], places[at + 1]
        if streams != 0:
            stream_square(flat, places, at + 2, 0, address, base, offset, v * width)
            at += 2 + width
            continue
        if ahead != 0:
            prefetch_lanes_to_write(flat, address, base + ahead, offset, v * width)
        if used == width:
            scatter_square(flat, places, at + 2, 0, address, base, offset, v * width)
        elif used > 1:
            scatter_part(flat, places, at + 2, 0, address, base, offset, v * width, used)
        else:
            to = places[at + 2]
            for lane in range(width):
                poke(address, base + offset[v * width + lane], flat[to + lane])
        at += 2 + width
