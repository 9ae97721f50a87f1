"""What the steps of a tree weigh by an objective, in exact integers, apart by when they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .cost import When, moments, size_of, walk
from .network import Network
from .planners.problem import Problem
from .tree import ContractionTree

SCALE = 1 << 20  # of the rates of an objective as integers


@dataclass(frozen=True, slots=True)
class Weight:
    """What is done before any call, and what in each.

    largest: elements of the largest result before any call, which may have to be kept.
    """

    before: int
    call: int
    largest: int

    def of_runs(self, n_runs: int | None) -> tuple[int, int]:
        """What so many calls take together; of endlessly many each call counts, then what comes before."""
        if n_runs is None:
            return self.call, self.before
        return self.before + n_runs * self.call, self.before


def rates(problem: Problem) -> tuple[int, int, int]:
    """For a multiplication, an element moved and one written what they count, in units of 1 / SCALE.

    None counts where the largest result does.
    """
    multiplied, moved, written = (round(SCALE * x) for x in problem.terms())
    return multiplied, moved, written


def weigh(
    network: Network,
    tree: ContractionTree,
    problem: Problem,
    sliced: Sequence[int] = (),
    constants: frozenset[int] = frozenset(),
) -> Weight:
    """The weight of all steps by the problem's objective, all slices together.

    sum over steps of rates . (multiplications, elements read and written, elements written); for "size" the
    elements of the largest result. O(total number of labels over all steps).
    """
    multiplied, moved, written = rates(problem)
    inner = network.slice(sliced) if sliced else network
    slices = size_of(frozenset(sliced), network.extents)
    sums, largest = [0, 0], [0, 0]
    for moment, step in zip(
        moments(network, tree, sliced, constants), walk(inner, tree), strict=True
    ):
        at = 0 if moment is When.BEFORE else 1
        made = size_of(step.result, inner.extents)
        weight = multiplied * size_of(step.union, inner.extents) + written * made
        if moved:
            read = sum(size_of(labels, inner.extents) for labels in step.operands)
            weight += moved * (read + made)
        sums[at] += weight * (slices if moment is When.EACH else 1)
        largest[at] = max(largest[at], made)
    if problem.objective == "size":
        return Weight(0, max(largest), largest[0])
    return Weight(sums[0], sums[1], largest[0])
