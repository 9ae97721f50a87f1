"""Where intermediates lie: BufferLoc(pool_id, offset) for every slot that a kernel of ours writes.

A node is memory that one kernel writes: a slot, and with it all views of it; an elementwise op writes
over an operand that dies there, a product over what it is added to, which makes one node of two. Inputs
belong to the caller and results to the user: they, what a program returns a view of, and what an
extension makes lie in no pool. Pool 0 is kept for transfers; pools of nodes start at 1. Locations are
plain integers that depend on the program alone.

Policies: "separate" gives every node a pool of its own; "packed" lays all nodes into pool 1 and gives the
room of one that is dead to another: each at the lowest offset that is free while it lives, as a rule
the largest first (Y. Pisarchyk, J. Lee, arXiv:2001.03288); where that needs more than is alive at once,
other orders are tried.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Literal, NamedTuple

from .._base.numbers import format_bytes
from ..backend.pools import ALIGNMENT, BufferLoc
from .ir import Instruction, Program

Policy = Literal["packed", "separate"]
SORTED_BELOW = 500  # nodes; more are laid out in the order of the program, which takes less time


@dataclass(frozen=True)
class MemoryPlan:
    """Locations of slots, and how large the pools are.

    Attributes:
        policy: how nodes were laid out.
        locations: of every slot in a pool; what lies in place of a dead operand has its location.
        lifetimes: of the same slots: the first and the last instruction at which the memory is needed.
        pools: bytes of every pool, by its number.
        live_bytes: the most bytes of nodes alive at once: no layout needs less.
    """

    policy: Policy
    locations: Mapping[int, BufferLoc]
    lifetimes: Mapping[int, tuple[int, int]]
    pools: Mapping[int, int]
    live_bytes: int

    @property
    def nbytes(self) -> int:
        return sum(self.pools.values())

    def text(self, program: Program) -> str:
        """The plan as text, a line for each slot, in the order of the program."""
        count = f"{len(self.pools)} pool{'' if len(self.pools) == 1 else 's'}"
        lines = [
            f"memory: {self.policy}, {count}, {format_bytes(self.nbytes)} in all, "
            f"at most {format_bytes(self.live_bytes)} alive"
        ]
        for slot, (pool, offset) in self.locations.items():
            first, last = self.lifetimes[slot]
            spec = program.slots[slot]
            lines.append(f"  %{slot}: {spec}  pool {pool} + {offset}, steps {first} to {last}")
        return "\n".join(lines)


class _Node(NamedTuple):
    """Memory of so many bytes that is needed from one instruction to another, and its slots."""

    first: int
    last: int
    nbytes: int
    slots: tuple[int, ...]


def plan_memory(
    program: Program, dies_after: Sequence[Sequence[int]], policy: Policy = "packed"
) -> MemoryPlan:
    """Locations of the nodes of `program`; `dies_after` has the slots whose memory an instruction is
    the last to need."""
    nodes = _nodes(program, dies_after)
    sizes = [-(-node.nbytes // ALIGNMENT) * ALIGNMENT for node in nodes]
    most_alive = _most_alive(nodes, sizes)
    pools: dict[int, int] = {}
    if policy == "separate":
        places = [BufferLoc(pool, 0) for pool in range(1, len(nodes) + 1)]
        pools = dict(enumerate(sizes, 1))
    else:
        offsets = _packed(nodes, sizes, most_alive)
        places = [BufferLoc(1, offset) for offset in offsets]
        if nodes:
            pools[1] = max(offset + size for offset, size in zip(offsets, sizes, strict=True))
    found = sorted(
        (slot, place, (node.first, node.last))
        for node, place in zip(nodes, places, strict=True)
        for slot in node.slots
    )
    return MemoryPlan(
        policy,
        MappingProxyType({slot: place for slot, place, _ in found}),
        MappingProxyType({slot: life for slot, _, life in found}),
        MappingProxyType(pools),
        most_alive,
    )


def _nodes(program: Program, dies_after: Sequence[Sequence[int]]) -> list[_Node]:
    """In the order of the program; a slot that dies where it may be written over gives its memory."""
    dies = {slot: index for index, slots in enumerate(dies_after) for slot in slots}
    root = list(range(len(program.slots)))  # the slot whose memory a slot shows
    node_of: dict[int, int] = {}
    found: list[_Node] = []
    for index, ins in enumerate(program.instructions):
        if ins.may_view:
            for out in ins.outputs:
                root[out] = root[ins.inputs[0]]
            continue
        if ins.family is not None or ins.op == "constant" or len(ins.outputs) != 1:
            continue
        (out,) = ins.outputs
        slot = program.slots[out]
        if out not in dies or slot.dtype.hasobject or slot.bounds:
            continue  # returned, or a view of it; references; of a shape that the data decide
        host = _host(program, ins, index, dies, root, node_of)
        if host is None:
            node_of[out] = len(found)
            found.append(_Node(index, dies[out], program.slots[out].nbytes, (out,)))
        else:
            node = found[host]
            node_of[out] = host
            found[host] = _Node(node.first, dies[out], node.nbytes, (*node.slots, out))
    return found


def _host(
    program: Program,
    ins: Instruction,
    index: int,
    dies: dict[int, int],
    root: list[int],
    node_of: dict[int, int],
) -> int | None:
    """The node of an operand that dies here and may be written over: it is read element by element at
    the place that is written then, and nothing else here lies in its memory."""
    made = program.slots[ins.outputs[0]]
    may = [ins.writes_over(position) for position in range(len(ins.inputs))]
    for x in (x for x, is_one in zip(ins.inputs, may, strict=True) if is_one):
        pairs = zip(ins.inputs, may, strict=True)
        others = [root[y] for y, is_one in pairs if y != x or not is_one]
        if x in node_of and dies[x] == index and program.slots[x] == made and x not in others:
            return node_of[x]
    return None


def _packed(nodes: list[_Node], sizes: list[int], enough: int) -> list[int]:
    """An offset for every node, such that those alive at the same time do not overlap: the best of a
    few orders in which they may be laid down, or the first with which `enough` bytes do."""
    if len(nodes) >= SORTED_BELOW:
        return _in_order(nodes, sizes)

    def lifetime(k: int) -> int:
        return nodes[k].last - nodes[k].first + 1

    best: list[int] = []
    least = -1
    for key in (
        lambda k: (-sizes[k], nodes[k].first),
        lambda k: (-sizes[k] * lifetime(k), nodes[k].first),
        lambda k: (-lifetime(k), -sizes[k], nodes[k].first),
        lambda k: (nodes[k].first, -sizes[k]),
    ):
        offsets = _laid_down(nodes, sizes, sorted(range(len(nodes)), key=key))
        height = max((at + size for at, size in zip(offsets, sizes, strict=True)), default=0)
        if least < 0 or height < least:
            best, least = offsets, height
        if least <= enough:
            break
    return best


def _laid_down(nodes: list[_Node], sizes: list[int], order: Sequence[int]) -> list[int]:
    """Each at the lowest offset that is free while it lives."""
    offsets = [0] * len(nodes)
    placed: list[tuple[int, int]] = []  # (offset, node), by offset
    for k in order:
        first, last, at = nodes[k].first, nodes[k].last, 0
        for offset, other in placed:
            if nodes[other].first <= last and first <= nodes[other].last:
                if offset - at >= sizes[k]:
                    break
                at = max(at, offset + sizes[other])
        offsets[k] = at
        insort(placed, (at, k))
    return offsets


def _in_order(nodes: list[_Node], sizes: list[int]) -> list[int]:
    """In the order of the program, each in the smallest room that is free then, else behind all."""
    offsets, top = [0] * len(nodes), 0
    dying: list[tuple[int, int]] = []  # (last, node), a heap
    rooms: list[tuple[int, int]] = []  # (size, offset) of what is free, by size
    starts: dict[int, int] = {}  # offset -> size of the same
    ends: dict[int, int] = {}  # where a room ends -> its offset

    def close(offset: int) -> int:
        size = starts.pop(offset)
        del ends[offset + size]
        del rooms[bisect_left(rooms, (size, offset))]
        return size

    def open_(offset: int, size: int) -> None:
        starts[offset], ends[offset + size] = size, offset
        insort(rooms, (size, offset))

    for k, node in enumerate(nodes):
        while dying and dying[0][0] < node.first:
            dead = heappop(dying)[1]
            offset, size = offsets[dead], sizes[dead]
            if size == 0:
                continue
            if offset in ends:  # neighbours that are free become one room
                before = ends[offset]
                size += close(before)
                offset = before
            if offset + size in starts:
                size += close(offset + size)
            open_(offset, size)
        heappush(dying, (node.last, k))
        found = bisect_left(rooms, (sizes[k], -1))
        if sizes[k] == 0 or found == len(rooms):
            offsets[k] = ends[top] if top in ends and sizes[k] else top
            if top in ends and sizes[k]:
                close(offsets[k])
            top = max(top, offsets[k] + sizes[k])
        else:
            size, offsets[k] = rooms[found]
            close(offsets[k])
            if size > sizes[k]:
                open_(offsets[k] + sizes[k], size - sizes[k])
    return offsets


def _most_alive(nodes: list[_Node], sizes: list[int]) -> int:
    changes: dict[int, int] = {}
    for node, size in zip(nodes, sizes, strict=True):
        changes[node.first] = changes.get(node.first, 0) + size
        changes[node.last + 1] = changes.get(node.last + 1, 0) - size
    alive = most = 0
    for index in sorted(changes):
        alive += changes[index]
        most = max(most, alive)
    return most
