"""The steps of a network in line: which operand is read as which matrix, and what is copied before.

A step is a product of matrices. Where labels that it sums are neighbours in both operands, BLAS reads these
where they lie; elsewhere an operand is copied. What a step makes has its labels in one of a few orders, of
which the step that reads it may like one better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from operator import ne
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..backend.spec import Axes, Shape
from .cost import Labels, size_of
from .roles import Lie, lies, roles

EACH = 1 << 11  # multiplications of each of many small products instead of a copy
Pair = tuple[int, int]


class Room(Protocol):
    """Lends memory for copies and intermediates."""

    dtype: np.dtype[Any]

    def lent(self, shape: Shape) -> Any: ...

    def give_back(self, x: Any) -> None: ...


class Matrices(NamedTuple):
    """How an array is looked at: axes permuted, neighbours joined to [loops..., rows, columns], and these
    turned."""

    perm: Axes | None
    shape: Shape
    is_turned: bool
    copied: int  # elements

    def of(self, x: Any, room: Room) -> Any:
        if self.perm is not None:  # numpy.matmul reads slowly what BLAS cannot read
            across = x.transpose(self.perm)
            x = room.lent(across.shape)
            np.copyto(x, across)
        x = x.reshape(self.shape)
        return x.swapaxes(-1, -2) if self.is_turned else x


class Step(NamedTuple):
    """made[loops, rows, columns] = sum over k of lhs[loops, rows, k] * rhs[loops, k, columns]."""

    operands: Pair
    lhs: Matrices
    rhs: Matrices
    made: Shape  # as matrices: there may be no loops
    shape: Shape  # of the result, with all its axes
    k: int

    @property
    def amounts(self) -> tuple[int, int, int, int]:
        """loops, rows, columns and k."""
        *loops, rows, columns = self.made
        return math.prod(loops), rows, columns, self.k

    def run(self, lhs: Any, rhs: Any, room: Room, is_last: bool) -> Any:
        left, right = self.lhs.of(lhs, room), self.rhs.of(rhs, room)
        out = np.empty(self.made, room.dtype) if is_last else room.lent(self.made)
        if self.k == 1:
            np.multiply(left, right, out=out)
        elif len(self.made) == 2:
            np.dot(left, right, out=out)  # it packs what BLAS cannot read
        else:
            np.matmul(left, right, out=out)
        if self.lhs.perm is not None:
            room.give_back(left)
        if self.rhs.perm is not None:
            room.give_back(right)
        return out.reshape(self.shape)


def steps_of(
    path: Sequence[Pair],
    held: Sequence[Axes],
    wanted: Axes,
    extents: Sequence[int],
    is_free: bool = True,
) -> tuple[list[Step], Axes] | None:
    """The steps of a tree of pairs over tensors with these labels, and the labels of the last result, which
    are those wanted in some order. None if some label of one tensor alone is summed.

    is_free: whether a network without open labels may be contracted `towards` another edge of the tree.
    """
    holders = [0] * len(extents)
    for term in (*held, wanted):
        for label in term:
            holders[label] += 1
    if 1 in holders:
        return None
    results = _results(path, held, holders)
    if is_free and not wanted and (other := towards(path, held, results, extents)) is not None:
        path = other
        results = _results(path, held, holders)
    n, labels = len(held), [*held]
    later: list[Labels | None] = [None] * (n + len(path))  # what the step that reads an array keeps
    for (i, j), result in zip(path, results, strict=True):
        later[i] = later[j] = result
    steps: list[Step] = []
    for pair, result in zip(path, results, strict=True):
        i, j = pair
        step, made = product(
            pair, labels[i], labels[j], result, extents, later[len(labels)], wanted
        )
        steps.append(step)
        labels.append(made)
    return steps, labels[-1]


def _results(path: Sequence[Pair], held: Sequence[Axes], holders: Sequence[int]) -> list[Labels]:
    """The labels of what each step makes, where so many tensors, the result among them, hold each label."""
    left, has_many = [*holders], max(holders, default=0) > 2
    sets = [*map(frozenset, held)]
    for i, j in path:
        a, b = sets[i], sets[j]
        made = a ^ b
        if has_many:
            stay = [x for x in a & b if left[x] > 2]
            for label in stay:
                left[label] -= 1
            made = made.union(stay)
        sets.append(made)
    return sets[len(held) :]


def towards(
    path: Sequence[Pair], held: Sequence[Axes], results: Sequence[Labels], extents: Sequence[int]
) -> list[Pair] | None:
    """Steps of the same costs in the other direction, where that copies fewer operands; else None.

    A tree that leads to a number may lead to any of its edges: each step joins three tensors, of which any
    two make what is multiplied with the third. Along a row of steps that each take one more operand, the
    labels that are summed in one direction are those that are kept in the other; an operand is copied where
    those that are summed are no neighbours.
    """
    n, best = len(held), 0
    chosen: tuple[int, list[int], int] | None = None
    for side, other in (path[-1], path[-1][::-1]):
        gain, row, at = 0, list[int](), side
        while at >= n:
            i, j = path[at - n]
            if (i < n) == (j < n):
                break
            leaf, inner = (i, j) if i < n else (j, i)
            result = results[at - n]
            stays = [x in result for x in held[leaf]]
            if sum(map(ne, stays, stays[1:])) > 1:
                size = size_of(held[leaf], extents)
                # of three runs or more those that are summed are apart, or those that are kept, or both
                gain += size * (_runs(stays, False) > 1) - size * (_runs(stays, True) > 1)
            row.append(leaf)
            at = inner
            if gain > best:
                best, chosen = gain, (other, [*row], inner)
    return None if chosen is None else _turned(path, n, *chosen)


def _turned(path: Sequence[Pair], n: int, begin: int, row: list[int], end: int) -> list[Pair]:
    """The steps that are not in the row, and then those of the row from `begin` on, up to `end`."""
    leaves = {*row}
    names = {k: k for k in range(n)}
    made: list[Pair] = []
    for number, (i, j) in enumerate(path[:-1], n):
        if i in leaves or j in leaves:
            continue
        names[number] = n + len(made)
        made.append((names[i], names[j]))
    at = names[begin]
    for leaf in row:
        made.append((leaf, at))
        at = n + len(made) - 1
    made.append((names[end], at))
    return made


def _runs(flags: list[bool], kind: bool) -> int:
    """How many runs of this kind there are."""
    return (flags[0] is kind) + sum(b is kind and a is not kind for a, b in pairwise(flags))


def product(
    pair: Pair,
    a: Axes,
    b: Axes,
    result: Labels,
    extents: Sequence[int],
    later: Labels | None,
    wanted: Axes,
) -> tuple[Step, Axes]:
    """The product of operands with these labels, in that of their two orders which whoever comes later reads
    at once, and the labels of what it makes."""
    loops, rows, columns, summed = roles(a, b, result)
    many, m, n, k = [size_of(group, extents) for group in (loops, rows, columns, summed)]
    batch = (many,) if loops else ()
    first, second = lies(a, loops, rows, summed), lies(b, loops, columns, summed)
    labels, swapped = loops + rows + columns, loops + columns + rows
    cut = None
    if not loops and (first is None) is not (second is None):
        # sums in the middle of an operand, beside a matrix: one product for each place before them
        if second is None:
            cut = _cut(b, summed, m * k, extents)
            if cut is not None:
                labels = cut[0] + rows + cut[1]
        else:
            cut = _cut(a, summed, n * k, extents)
            if cut is not None:
                swapped = cut[0] + columns + cut[1]
    is_swapped = not _is_fit(labels, later, wanted) and _is_fit(swapped, later, wanted)
    if is_swapped:
        pair, a, b, first, second = pair[::-1], b, a, second, first
        rows, columns, m, n, labels = columns, rows, n, m, swapped
    if cut is None:
        lhs = _matrices(a, first, "own first", loops + rows + summed, (*batch, m, k))
        rhs = _matrices(b, second, "summed first", loops + summed + columns, (*batch, k, n))
    else:
        many, size = size_of(cut[0], extents), size_of(cut[1], extents)
        batch = (many,)
        if second is None:
            n = size
            lhs = _matrices(a, first, "own first", rows + summed, (m, k))
            rhs = Matrices(None, (many, k, n), False, 0)
        else:
            m = size
            lhs = Matrices(None, (many, k, m), True, 0)
            rhs = _matrices(b, second, "summed first", summed + columns, (k, n))
    shape = tuple([extents[x] for x in labels])
    return Step(pair, lhs, rhs, (*batch, m, n), shape, k), labels


def _matrices(axes: Axes, lies: Lie | None, straight: Lie, order: Axes, shape: Shape) -> Matrices:
    """An operand as matrices of this shape: as it lies if that is `straight`, turned if it lies the other
    way, copied to this order of its labels otherwise."""
    if lies == straight:
        return Matrices(None, shape, False, 0)
    if lies is not None:
        return Matrices(None, (*shape[:-2], shape[-1], shape[-2]), True, 0)
    return Matrices(tuple([axes.index(x) for x in order]), shape, False, math.prod(shape))


def _cut(axes: Axes, summed: Axes, other: int, extents: Sequence[int]) -> tuple[Axes, Axes] | None:
    """The labels before and after the summed ones, if these are neighbours in the middle, and each of the
    products is worth a call of BLAS."""
    at = axes.index(summed[0]) if summed else 0
    before, after = axes[:at], axes[at + len(summed) :]
    if not before or not after or axes[at : at + len(summed)] != summed:
        return None
    each = other * size_of(after, extents)
    return (before, after) if each >= EACH else None


def _is_fit(labels: Axes, later: Labels | None, wanted: Axes) -> bool:
    """Whether labels that the next step sums are neighbours, and those that it keeps are; or the result has
    the order wanted."""
    if later is None:
        return labels == wanted
    stays = [x in later for x in labels]
    return sum(map(ne, stays, stays[1:])) < 2
