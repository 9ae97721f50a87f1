"""Copies between layouts: elements of 1, 2, 4, 8 or 16 bytes, any rank, any strides.

A tile is some axes of the array, or parts of them: those along which the target is dense, and those along
which the source is. It is read in the order of the source, put into shared memory, and written in the order
of the target; where both are dense along the same long axis, it is copied directly.

For two axes that is the transposition of G. Ruetsch and P. Micikevicius, "Optimizing matrix transpose in
CUDA" (NVIDIA, 2009). Tiles of any axes are those of A. Hynninen and D. Lyakh, "cuTT: a high-performance
tensor transpose library" (arXiv:1705.01598), where places within a tile are computed once for all tiles, too.
Divisions by known numbers are multiplications: T. Granlund and P. Montgomery, "Division by invariant integers
using multiplication" (PLDI 1994).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...cpu.strided import Axis, merge_axes
from ...spec import Axes, Shape
from .kernel import THREADS, CudaKernel, kept
from .layout import Layout, index_type
from .text import unit

WORDS = {
    1: "unsigned char",
    2: "unsigned short",
    4: "unsigned",
    8: "unsigned long long",
    16: "Sixteen",
}
EACH = {1: 16, 2: 16, 4: 16, 8: 9, 16: 4}
"""Elements that a thread holds at most, which registers bound. 9 * 256 take 27 * 81, of axes of size 3."""
WIDE_EACH = {**EACH, 1: 8, 2: 8, 4: 8, 8: 8}
"""Where places take two registers."""
HELD = (4, 8, 9, 12, 16)
"""For which texts are made: what a thread may hold costs time, whether it does or not."""
LEAST = 1024  # elements of a tile, where larger ones would leave processors without any
LEAST_MOVERS, MOST_MOVERS = 192, 320  # threads of a block that are at work where tiles are even,
EVEN, EVEN_WIDE = 1152, 896  # and those of a processor, which so many registers allow
TILE_AXES = 12
OUTER = (4, 16, 64)  # axes of tiles that a text has room for
Movers = tuple[int, int]
BANKS = 128  # bytes that shared memory gives at once
DIRECT = 128  # bytes along a common axis from which neither array gains by a tile's detour
PROCESSORS = 132  # of an H100 or H200; on others the last tiles are spread less evenly

ENTRY = """
extern "C" __launch_bounds__($threads, $blocks)
__global__ void $name($word* out, const $word* in, $geometry g) {
    $call(out, in, g);
}
"""


def permutation(
    itemsize: int, shape: Shape, out_strides: Axes, in_strides: Axes, alignment: int = 1
) -> CudaKernel | None:
    """out[i] = in[i] for every index i of `shape`; strides in elements, 0 broadcasts the source.

    The kernel takes the target, then the source. Elements must be aligned to their size; where both first
    elements are aligned to more, `alignment` bytes, neighbours are moved together. None where an element has
    another size.

    >>> permutation(8, (64, 64), (64, 1), (64, 1)).grid
    (4, 1, 1)
    >>> permutation(8, (64, 64), (64, 1), (64, 1), 16).grid
    (2, 1, 1)
    >>> permutation(8, (64, 64), (64, 1), (1, 64)).grid
    (4, 1, 1)
    """
    if itemsize not in WORDS:
        return None
    key = ("permutation", itemsize, shape, out_strides, in_strides, alignment)
    return kept(key, lambda: _made(itemsize, shape, out_strides, in_strides, alignment))


def merged(shape: Shape, out: Axes, source: Axes) -> list[Axis]:
    """Axes from the target's smallest stride to its largest; what both arrays walk as one axis is one.

    >>> merged((2, 3, 4), (12, 4, 1), (1, 8, 2))
    [(12, 1, 2), (2, 12, 1)]
    """
    axes: list[Axis] = [a for a in zip(shape, out, source, strict=True) if a[0] != 1]
    return merge_axes(sorted(axes, key=lambda a: (-abs(a[1]), -abs(a[2]))))[::-1]


def widened(itemsize: int, axes: list[Axis], alignment: int) -> tuple[int, list[Axis]]:
    """Neighbours in both arrays as one element of twice the size, up to 16 bytes.

    >>> widened(4, [(6, 1, 1), (5, 6, 8)], 16)
    (8, [(3, 1, 1), (5, 3, 4)])
    """
    while itemsize < 16 and axes and alignment % (2 * itemsize) == 0:
        (n, *steps), *others = axes
        if n % 2 or steps != [1, 1] or any(a[1] % 2 or a[2] % 2 for a in others):
            break
        first: list[Axis] = [(n // 2, 1, 1)] if n > 2 else []
        axes = first + [(m, to // 2, at // 2) for m, to, at in others]
        itemsize *= 2
    return itemsize, axes


def _is_direct(itemsize: int, axes: list[Axis]) -> bool:
    read = [axis for axis in axes if axis[2]]
    if not read:
        return True
    first = min(read, key=lambda a: abs(a[2]))
    return first == axes[0] and first[0] * itemsize >= DIRECT


def _made(itemsize: int, shape: Shape, out: Axes, source: Axes, alignment: int) -> CudaKernel:
    axes = [] if 0 in shape else merged(shape, out, source)
    itemsize, axes = widened(itemsize, axes, alignment)
    wide = index_type(Layout(tuple(axes), 2)) != "int"
    most = min(
        (WIDE_EACH if wide else EACH)[itemsize] * THREADS,
        max(LEAST, math.prod(a[0] for a in axes) // (2 * PROCESSORS)),
    )
    plan = planned(itemsize, axes, most, _is_direct(itemsize, axes))
    movers = movers_of(plan)
    threads, each, blocks = THREADS, -(-plan.volume // THREADS), 3 if wide else 4
    if movers:
        threads = -(-max(movers) // 32) * 32
        each = -(-plan.volume // min(movers))
        blocks = (EVEN_WIDE if wide else EVEN) // threads
    each = next(n for n in HELD if n >= each and (movers or slots_of(n) >= plan.places))
    if each > 9 and not movers:
        blocks = 3
    tiles = 0 if 0 in shape else plan.tiles
    room = next(n for n in OUTER if n >= len(plan.outer))
    index, word = "long long" if wide else "int", WORDS[itemsize]
    slots = next(slots_of(n) for n in HELD if slots_of(n) >= plan.places)
    call = "permute_even" if movers else "permute" if plan.slots else "copy"
    text, name = unit(
        ("layout", "permutation"),
        call,
        ENTRY,
        word=word,
        threads=threads,
        blocks=blocks,
        geometry=f"EvenTiles<{index}, {room}, {each}>" if movers else f"Tiles<{index}, {room}>",
        call=f"{call}_tiles<{f'{each}, {slots}' if plan.slots else each}, {word}, {index}, {room}>",
    )
    # as many blocks as run at once: what a block computes first, it computes for all of its tiles
    grid = (max(1, min(tiles, blocks * PROCESSORS)), 1, 1)
    geometry = plan.geometry(itemsize, tiles, room, movers)
    if movers:
        geometry = (*geometry, *plan.distances(itemsize, movers, each))
    return CudaKernel(text, name, grid, (threads, 1, 1), ("out", "in"), geometry, wide)


# ---- tiles ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """How an array is cut.

    Attributes:
        axes: of the array.
        parts: length of each axis in a tile, 1 where a tile has one element of it.
        source, target: numbers of a tile's axes in the order of reading and of writing.
        outer: of the tiles: how many along an axis, then its steps in the target, the source, and along
            the first and the second of the axes that are cut unevenly.
        uneven: these axes, at most two.
        slots: step of each of the array's axes in shared memory; none where tiles are copied directly.
    """

    axes: tuple[Axis, ...]
    parts: tuple[int, ...]
    source: tuple[int, ...]
    target: tuple[int, ...]
    outer: tuple[Axis, ...]
    uneven: tuple[int, ...]
    slots: tuple[int, ...]

    @property
    def tiles(self) -> int:
        return math.prod(axis[0] for axis in self.outer)

    @property
    def volume(self) -> int:
        return math.prod(self.parts)

    @property
    def places(self) -> int:
        """Elements of shared memory, gaps included."""
        steps = zip(self.parts, self.slots, strict=True) if self.slots else ()
        return 1 + sum((n - 1) * step for n, step in steps)

    def geometry(
        self, itemsize: int, tiles: int, room: int, movers: Movers | None = None
    ) -> tuple[int, ...]:
        """Numbers of the struct `Tiles`, in its order; its walks are of as many elements as there are movers,
        or of all."""
        read, written = movers or (0, 0)
        walks = (
            *self._walk(self.source, 2, itemsize, read),
            *self._walk(self.target, 1, itemsize << 16, written),
        )
        cut = [
            (
                self.parts[a],
                self.axes[a][0],
                inverse(self.parts[a]),
                inverse(self._before(self.source if self.slots else self.target, a)),
                inverse(self._before(self.target, a)),
            )
            for a in self.uneven
        ]
        assert len(cut) <= 2, "behind them the struct would be shifted"
        cut += [(1, 1, inverse(1), inverse(1), inverse(1))] * (2 - len(cut))
        outer = [*self.outer, *[(1, 0, 0, 0, 0)] * (room - len(self.outer))]
        return (
            tiles,
            math.prod(self.parts),
            len(self.target),
            len(self.outer),
            *walks,
            *(number for column in zip(*cut, strict=True) for number in column),
            *(number for column in zip(*outer, strict=True) for number in column),
        )

    def distances(self, itemsize: int, movers: Movers, each: int) -> tuple[int, ...]:
        """Numbers of the struct `EvenTiles` behind those of `Tiles`."""
        columns: list[int] = []
        axes = []
        for order, array, count in zip((self.source, self.target), (2, 1), movers, strict=True):
            first, rest = self._cut(order, count)
            axes.append(len(first))
            far, slot = [0], [0]
            for a, n, step in rest:  # the faster axis is walked within the slower one
                far = [x + k * step * self.axes[a][array] for k in range(n) for x in far]
                slot = [x + k * step * self.slots[a] * itemsize for k in range(n) for x in slot]
            gap = [0] * (each - len(far))
            columns += [*far, *gap, *slot, *gap]
        return (*movers, *(self.volume // count for count in movers), *axes, *columns)

    def _cut(
        self, order: tuple[int, ...], movers: int
    ) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
        """A walk's first `movers` elements, and what is walked beyond: axes, lengths and first steps."""
        found = cut_at([self.parts[a] for a in order], movers)
        assert found is not None
        whole, part = found
        first = [(a, self.parts[a], 1) for a in order[:whole]]
        rest = [(a, self.parts[a], 1) for a in order[whole:]]
        if part > 1:
            (a, n, _), *rest = rest
            first.append((a, part, 1))
            rest = [(a, n // part, part), *rest]
        return first, rest

    def _walk(
        self, order: tuple[int, ...], array: int, scale: int, movers: int = 0
    ) -> tuple[int, ...]:
        order = order if self.slots else self.target
        sizes = [(a, self.parts[a], 1) for a in order]
        if movers:
            sizes, _ = self._cut(order, movers)
        rows = [
            (
                n,
                inverse(n),
                self.axes[a][array],
                scale * self.slots[a] if self.slots else 0,
            )
            for a, n, _ in sizes
        ]
        rows += [(1, inverse(1), 0, 0)] * (TILE_AXES - len(rows))
        return tuple(number for column in zip(*rows, strict=True) for number in column)

    def _before(self, order: tuple[int, ...], axis: int) -> int:
        return math.prod(self.parts[a] for a in order[: order.index(axis)])


def cut_at(sizes: Sequence[int], count: int) -> tuple[int, int] | None:
    """How many of the sizes, and which divisor of the next one, make `count`, the fastest first.

    >>> cut_at([32, 64], 256), cut_at([3, 3, 5], 9), cut_at([3, 5], 9)
    ((1, 8), (2, 1), None)
    """
    for whole, n in enumerate(sizes):
        if count % n:
            return (whole, count) if n % count == 0 else None
        count //= n
        if count == 1:
            return whole + 1, 1
    return None


def movers_of(plan: Plan) -> Movers | None:
    """Threads that read a tile and threads that write it, if the elements of each lie at distances from its
    first one that are the same for all threads: as many as a block usually has, or about so many.

    >>> movers_of(planned(8, [(64, 1, 64), (64, 64, 1)], 2304, False))
    (256, 256)
    >>> movers_of(planned(8, [(3, 1, 2187), (2187, 3, 1)], 2304, False))
    (243, 243)
    """
    if not plan.slots:
        return None
    counts = [*range(THREADS, LEAST_MOVERS - 1, -1), *range(THREADS + 1, MOST_MOVERS + 1)]
    found = []
    for order in (plan.source, plan.target):
        sizes = [plan.parts[a] for a in order]
        fit = (n for n in counts if n * HELD[-1] >= plan.volume and cut_at(sizes, n))
        found.append(next(fit, 0))
    read, written = found
    return (read, written) if read and written else None


def inverse(n: int) -> int:
    """What `quotient` of source/permutation.cuh divides by n with."""
    return -(-(1 << 30) // n)


def slots_of(each: int) -> int:
    """Elements of shared memory that a tile may take with gaps."""
    return each * THREADS * 9 // 8


def planned(itemsize: int, axes: Sequence[Axis], most: int, direct: bool) -> Plan:
    """Tiles of at most so many elements.

    >>> planned(8, [(64, 1, 64), (64, 64, 1)], 2304, False).parts
    (64, 32)
    >>> planned(8, [(3, 1, 2187), (2187, 3, 1)], 2304, False).parts
    (3, 729)
    """
    by_out = list(range(len(axes)))
    by_in = sorted(by_out, key=lambda a: (not axes[a][2], abs(axes[a][2]), a))
    parts = _parts(axes, by_out, [] if direct else by_in, most)
    source, target = (tuple(a for a in order if parts[a] > 1) for order in (by_in, by_out))
    uneven = tuple(a for a, axis in enumerate(axes) if axis[0] % parts[a])
    outer = [
        (
            -(-n // parts[a]),
            parts[a] * to,
            parts[a] * at,
            *(parts[a] if uneven[k : k + 1] == (a,) else 0 for k in range(2)),
        )
        for a, (n, to, at) in enumerate(axes)
    ]
    slots = () if direct else _slots(itemsize, parts, source, target, most * 9 // 8)
    numbers = tuple(merge_axes(outer[::-1])[::-1])
    return Plan(tuple(axes), tuple(parts), source, target, numbers, uneven, slots)


def _parts(axes: Sequence[Axis], by_out: list[int], by_in: list[int], most: int) -> list[int]:
    """The longest runs in both orders: the shorter is doubled as long as a tile takes it."""
    goals, parts = [1, 1], [1] * len(axes)
    growing = {0, 1} if by_in else {0}
    while growing:
        k = min(growing, key=lambda k: goals[k])
        wanted = list(goals)
        wanted[k] *= 2
        found = [
            max(pair)
            for pair in zip(
                _taken(axes, by_out, wanted[0]), _taken(axes, by_in, wanted[1]), strict=True
            )
        ]
        if math.prod(found) > most or wanted[k] > 2 * most:
            growing.discard(k)
        else:
            goals, parts = wanted, found
    return parts


def _taken(axes: Sequence[Axis], order: list[int], goal: int) -> list[int]:
    """Parts of axes, in this order, of about `goal` elements together; the last is cut evenly if possible."""
    parts, run = [1] * len(axes), 1
    for a in order:
        if run >= 0.8 * goal:
            break
        n, part = axes[a][0], -(-goal // run)
        if n <= max(3, part):
            part = n
        elif n < 16 * part and n % part:  # else what the last tile lacks is little
            part = -(-n // max(1, round(n / part)))
        parts[a] = part
        run *= part
        if part < n:  # one axis is cut in each order: a tile has room for two
            break
    return parts


def _slots(
    itemsize: int, parts: list[int], source: Sequence[int], target: Sequence[int], most: int
) -> tuple[int, ...]:
    """Steps in shared memory: as the source is walked, with a gap that keeps lanes in different banks."""
    volume = math.prod(parts)
    choices: list[list[int]] = []
    for gap in range(18):
        for split in range(1, max(2, len(source))):
            steps, step = [0] * len(parts), 1
            for k, a in enumerate(source):
                step += gap if k == split else 0
                steps[a] = step
                step *= parts[a]
            if 1 + sum((n - 1) * s for n, s in zip(parts, steps, strict=True)) <= most:
                choices.append(steps)
    if len(choices) == 1:
        return tuple(choices[0])
    lanes = max(1, min(32, BANKS // itemsize))
    warps = min(8, max(1, volume // lanes))
    elements = (np.arange(warps) * (volume // lanes // warps * lanes))[:, None] + np.arange(lanes)
    cost = np.zeros(len(choices), int)
    table = np.array(choices)
    for order in (source, target):
        left, digits = (
            np.minimum(elements, volume - 1),
            np.zeros((*elements.shape, len(parts)), int),
        )
        for a in order:
            digits[..., a], left = left % parts[a], left // parts[a]
        words = np.sort((digits @ table.T) * itemsize // max(4, itemsize), axis=1)
        new = np.ones(words.shape, bool)
        new[:, 1:] = words[:, 1:] != words[:, :-1]
        banks = words % (BANKS // max(4, itemsize))
        hits = [(new & (banks == bank)).sum(1) for bank in range(BANKS // max(4, itemsize))]
        cost += np.max(hits, axis=0).sum(0)
    return tuple(choices[int(cost.argmin())])
