"""Where nodes lie: pools of their own, or side by side in few.

"separate" gives each node a pool, at offset 0; "packed" lays what a link adds one after another into pools of
at most so many bytes, constants apart from what is written. Both depend on the order in which nodes are
first used alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .._base.errors import MemoryLimitError, OptionError
from ..backend.devices import Device
from ..backend.pools import BufferLoc
from .memory import Policy
from .nodes import Node

POOL_CAP = 4 << 30
"""Bytes of a pool that several nodes share, so that offsets fit into 32 bits; a larger node has its own."""


class Segments(NamedTuple):
    """For each item its segment and offset, and the bytes of each segment."""

    places: tuple[tuple[int, int], ...]
    sizes: tuple[int, ...]


def plan_segments(items: Sequence[tuple[int, int]], cap: int) -> Segments:
    """Items of (size, alignment) one after another, in segments of at most `cap` bytes.

    >>> plan_segments([(100, 1), (100, 4), (50, 8)], cap=1000)
    Segments(places=((0, 0), (0, 100), (0, 200)), sizes=(250,))
    """
    places: list[tuple[int, int]] = []
    sizes: list[int] = []
    for size, alignment in items:
        if size > cap:
            raise MemoryLimitError(f"{size} bytes do not fit into a pool of {cap}; raise the cap")
        offset = -(-sizes[-1] // alignment) * alignment if sizes else 0
        if not sizes or offset + size > cap:
            offset = 0
            sizes.append(0)
        places.append((len(sizes) - 1, offset))
        sizes[-1] = offset + size
    return Segments(tuple(places), tuple(sizes))


class Placed(NamedTuple):
    """Places of nodes in pools that were just made: those of constants, and all others."""

    locations: dict[Node, BufferLoc]
    pools: list[int]  # of a context
    shared: list[int]  # of constants


def place(device: Device, policy: Policy, nodes: Sequence[Node]) -> Placed:
    """Make pools for nodes, in order of first use, all of them or none."""
    if policy == "separate":
        groups = [[node] for node in nodes]
    else:
        groups = [[x for x in nodes if x.value is None], [x for x in nodes if x.value is not None]]
    plans = [_segments(device, group) for group in groups]
    made = device.new_pools([size for plan in plans for size in plan.sizes])
    locations: dict[Node, BufferLoc] = {}
    pools: list[int] = []
    shared: list[int] = []
    for group, plan in zip(groups, plans, strict=True):
        own, made = made[: len(plan.sizes)], made[len(plan.sizes) :]
        for node, (segment, offset) in zip(group, plan.places, strict=True):
            locations[node] = BufferLoc(own[segment], offset)
        (shared if group and group[0].value is not None else pools).extend(own)
    return Placed(locations, pools, shared)


def _segments(device: Device, nodes: Sequence[Node]) -> Segments:
    items = [(node.spec.nbytes, device.alignment) for node in nodes]
    return plan_segments(items, max([POOL_CAP, *(size for size, _ in items)]))


def check_policy(policy: str) -> None:
    if policy not in ("packed", "separate"):
        raise OptionError(f'Context(policy={policy!r:.60}): give "packed" or "separate"')
