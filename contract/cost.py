"""What each step of a tree contracts and costs, in exact integers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


def size_of(labels: Labels, extents: tuple[int, ...]) -> int:
    """Elements of a tensor with these labels."""
    return math.prod(extents[label] for label in labels)


@dataclass(frozen=True, slots=True)
class Cost:
    """Totals over the steps of a tree.

    cost: scalar multiplications, the product of the sizes of all labels in a step.
    flops: opt_einsum's count; cost times the operations for each element of that product.
    largest_intermediate: elements of the largest result of a step, in one slice.
    """

    cost: int
    flops: int
    largest_intermediate: int


def step_flops(cost: int, operands: int, sums: bool) -> int:
    """Operations of one step: one multiplication less than operands (at least one), one addition."""
    return cost * (max(1, operands - 1) + sums)


def total_cost(
    network: Network,
    tree: ContractionTree,
    sliced: Sequence[int] = (),
    constants: frozenset[int] = frozenset(),
) -> Cost:
    """The cost of contracting `network` along `tree`, all slices together.

    A step whose operands carry no sliced label, nor come from one that does, is done once, and not at all
    by a call if they come from constants alone. Adding up the slices of a label that is summed counts as
    one operation for each element.
    """
    n_slices = math.prod(network.extents[label] for label in sliced)
    inner = network.slice(sliced) if sliced else network
    depends = [not labels.isdisjoint(sliced) for labels in network.carried]
    known = [operand in constants for operand in range(tree.n)]
    cost = flops = largest = 0
    for path_step, step in zip(tree.ssa_path, walk(inner, tree), strict=True):
        depends.append(any(depends[tensor] for tensor in path_step))
        known.append(all(known[tensor] for tensor in path_step))
        if known[-1] and not depends[-1]:
            continue
        times = n_slices if depends[-1] else 1
        size = size_of(step.union, inner.extents)
        cost += times * size
        flops += times * step_flops(size, len(step.operands), step.union != step.result)
        largest = max(largest, size_of(step.result, inner.extents))
    if not network.open.issuperset(sliced):
        flops += n_slices * size_of(inner.open, inner.extents)
    return Cost(cost, flops, largest)
