"""The steps of a plan as its views show them: what each reads, makes, costs, and what is alive meanwhile."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..backend.spec import compute_dtype
from .cost import Labels, When, moments, size_of, step_flops, walk
from .network import Network
from .tree import ContractionTree, Step


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a plan; with labels sliced its labels and `nbytes` are those of one slice.

    Attributes:
        operands: the tensors that it contracts; n operands of the plan are 0 to n - 1, and step k makes
            tensor n + k.
        result: labels of the tensor that it makes, by their numbers in the network, in the order of its axes
            for the last step and by number for the others.
        operand_labels: labels that each operand carries.
        operand_bytes: of each operand.
        scaling: how many labels it runs over.
        times: how often it runs in a call: once, or for each slice, or not at all if of constants alone.
        cost: multiplications of all these times.
        flops: operations of all these times.
        nbytes: of its result.
        moved_bytes: of its operands and its result, all these times.
        alive_bytes: operands of the call, the result where slices go into it, and the intermediates that
            exist while it runs, without what its kernel needs for itself.
    """

    operands: Step
    result: tuple[int, ...]
    operand_labels: tuple[Labels, ...]
    operand_bytes: tuple[int, ...]
    scaling: int
    times: int
    cost: int
    flops: int
    nbytes: int
    moved_bytes: int
    alive_bytes: int


def planned_steps(
    network: Network,
    tree: ContractionTree,
    dtypes: tuple[np.dtype[np.generic], ...],
    dtype: np.dtype[np.generic],
    sliced: tuple[int, ...] = (),
    constants: frozenset[int] = frozenset(),
) -> tuple[PlannedStep, ...]:
    """Every step of a tree. O(total number of labels over all steps)."""
    inner = network.slice(sliced) if sliced else network
    walked = list(walk(inner, tree))
    whens = moments(network, tree, sliced, constants)
    n_slices = math.prod(network.extents[label] for label in sliced)
    runs = {When.BEFORE: 0, When.ONCE: 1, When.EACH: n_slices}
    item = compute_dtype(dtype).itemsize
    sizes = [
        size_of(labels, inner.extents) * own.itemsize
        for labels, own in zip(inner.carried, dtypes, strict=True)
    ]
    sizes += [size_of(labels.result, inner.extents) * item for labels in walked]
    if not sliced:
        sizes[-1] = size_of(network.open, network.extents) * dtype.itemsize
    views = [
        len(x.operands) == 1 and all(inner.extents[label] == 1 for label in x.union - x.result)
        for x in walked
    ]
    alive = _alive_bytes(network, tree, dtypes, dtype, sizes, whens, views, constants, bool(sliced))
    steps: list[PlannedStep] = []
    for index, (operands, labels) in enumerate(zip(tree.ssa_path, walked, strict=True)):
        times = runs[whens[index]]
        size = size_of(labels.union, inner.extents)
        sums = labels.union != labels.result
        is_last = index == len(walked) - 1
        read = tuple(sizes[tensor] for tensor in operands)
        steps.append(
            PlannedStep(
                operands,
                inner.output_axes if is_last else tuple(sorted(labels.result)),
                labels.operands,
                read,
                len(labels.union),
                times,
                times * size,
                times * step_flops(size, len(operands), sums),
                sizes[tree.n + index],
                times * (sizes[tree.n + index] + sum(read)),
                alive[index],
            )
        )
    return tuple(steps)


def tensor_bytes(steps: tuple[PlannedStep, ...]) -> dict[int, int]:
    """The size of every tensor that a step takes, and of the last result."""
    sizes = {
        tensor: size
        for step in steps
        for tensor, size in zip(step.operands, step.operand_bytes, strict=True)
    }
    # every tensor but the last is taken once
    return sizes | {len(sizes): steps[-1].nbytes}


def _alive_bytes(
    network: Network,
    tree: ContractionTree,
    dtypes: Iterable[np.dtype[np.generic]],
    dtype: np.dtype[np.generic],
    sizes: list[int],
    whens: list[When],
    views: list[bool],
    constants: frozenset[int],
    is_sliced: bool,
) -> list[int]:
    """Bytes that exist during each step.

    The steps before any call come first, then those that run once, then those of a slice. What a later part
    needs of an earlier one is held to the end; operands belong to the caller and are held throughout. A view
    has no bytes of its own, and keeps those that it shows.
    """
    n = tree.n
    user = dict.fromkeys(range(n), When.EACH)  # when each operand is taken
    for when, step in zip(whens, tree.ssa_path, strict=True):
        user.update(dict.fromkeys(step, when))
    given = [
        math.prod(shape) * own.itemsize for shape, own in zip(network.shapes, dtypes, strict=True)
    ]
    before = sum(given[operand] for operand in constants)
    call = sum(
        size
        for operand, size in enumerate(given)
        if operand not in constants or user[operand] is not When.BEFORE
    )
    # slices are written into the result, or added up in it
    whole = size_of(network.open, network.extents) * dtype.itemsize if is_sliced else 0
    held = {When.BEFORE: before, When.ONCE: call, When.EACH: call + whole}
    alive = [0] * len(whens)
    owned = [0] * n  # bytes that are free when a tensor was taken
    owned += sizes[n:]
    crossing = 0
    for when in When:
        living = held[when] + crossing
        for index, step in enumerate(tree.ssa_path):
            if whens[index] is not when:
                continue
            inside = [x for x in step if x >= n and whens[x - n] is when]
            if views[index]:
                owned[n + index] = sum(owned[x] for x in inside)
                alive[index] = living
                continue
            living += sizes[n + index]
            alive[index] = living
            living -= sum(owned[x] for x in inside)
        crossing = living - held[when]
    return alive
