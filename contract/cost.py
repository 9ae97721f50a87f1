"""What each step of a tree contracts and costs, in exact integers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from .network import Network
from .tree import ContractionTree

Labels = frozenset[int]


@dataclass(frozen=True, slots=True)
class StepLabels:
    """The labels of one step: of each operand, of the result, and all of them."""

    operands: tuple[Labels, ...]
    result: Labels
    union: Labels


def walk(network: Network, tree: ContractionTree) -> Iterator[StepLabels]:
    """The labels of every step: a label is summed in the step that takes its last tensors.

    O(total number of labels over all steps); nothing is kept of a tensor once it is contracted.
    """
    holders = [0] * len(network.extents)
    for labels in network.carried:
        for label in labels:
            holders[label] += 1
    for label in network.open:
        holders[label] += 1  # the output holds its labels to the end
    tensors: dict[int, Labels] = dict(enumerate(network.carried))
    for index, step in enumerate(tree.ssa_path):
        operands = tuple(tensors.pop(tensor) for tensor in step)
        union = operands[0].union(*operands[1:])
        for labels in operands:
            for label in labels:
                holders[label] -= 1
        result = frozenset(label for label in union if holders[label])
        for label in result:
            holders[label] += 1
        tensors[tree.n + index] = result
        yield StepLabels(operands, result, union)


def size_of(labels: Iterable[int], extents: Sequence[int] | Mapping[int, int]) -> int:
    """Elements of a tensor with these labels."""
    return math.prod([extents[label] for label in labels])


@dataclass(frozen=True, slots=True)
class Cost:
    """Totals over the steps of a tree.

    cost: scalar multiplications, the product of the sizes of all labels in a step.
    flops: opt_einsum's count; cost times the operations for each element of that product.
    largest_intermediate: elements of the largest result of a step, in one slice.
    before: scalar multiplications of steps of constants alone, which the others leave out.
    """

    cost: int
    flops: int
    largest_intermediate: int
    before: int = 0


def step_flops(cost: int, operands: int, sums: bool) -> int:
    """Operations of one step: one multiplication less than operands (at least one), one addition."""
    return cost * (max(1, operands - 1) + sums)


class When(IntEnum):
    """In which of three parts, one after another, a step runs."""

    BEFORE = 0  # of constants alone: before any call
    ONCE = 1  # in every call, the same for all slices
    EACH = 2  # in every slice; without sliced labels there is none of these


def moments(
    network: Network, tree: ContractionTree, sliced: Sequence[int], constants: frozenset[int]
) -> list[When]:
    """When each step runs: one whose operands carry a sliced label, or come from one that does, in every
    slice; any other once, and before any call if they come from constants alone."""
    of_tensor = [
        When.EACH
        if not labels.isdisjoint(sliced)
        else When.BEFORE
        if operand in constants
        else When.ONCE
        for operand, labels in enumerate(network.carried)
    ]
    for step in tree.ssa_path:
        of_tensor.append(max(of_tensor[tensor] for tensor in step))
    return of_tensor[tree.n :]


def total_cost(
    network: Network,
    tree: ContractionTree,
    sliced: Sequence[int] = (),
    constants: frozenset[int] = frozenset(),
) -> Cost:
    """The cost of contracting `network` along `tree`, all slices together.

    A step that is the same in every slice is done once, and not at all by a call if it is one of constants
    alone. Adding up the slices of a label that is summed counts as one operation for each element.
    """
    n_slices = math.prod(network.extents[label] for label in sliced)
    inner = network.slice(sliced) if sliced else network
    runs = {When.BEFORE: 0, When.ONCE: 1, When.EACH: n_slices}
    cost = flops = largest = before = 0
    for moment, step in zip(
        moments(network, tree, sliced, constants), walk(inner, tree), strict=True
    ):
        size = size_of(step.union, inner.extents)
        if moment is When.BEFORE:
            before += size
            continue
        times = runs[moment]
        cost += times * size
        flops += times * step_flops(size, len(step.operands), step.union != step.result)
        largest = max(largest, size_of(step.result, inner.extents))
    if not network.open.issuperset(sliced):
        flops += n_slices * size_of(inner.open, inner.extents)
    return Cost(cost, flops, largest, before)
