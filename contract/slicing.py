"""Which labels to slice, so that a plan stays below a memory limit.

Greedy: as long as the estimated peak is too high, of the labels at the worst moment the one is sliced
that lowers the peak most for the least extra work. The estimate is made of the tree alone. Where it
meets the limit the program of a slice is planned, and its true peak decides; then labels that turned
out to be needless are taken back.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..backend.spec import compute_dtype
from .cost import walk
from .plan import Plan

CANDIDATES = 12  # labels tried in a round, those of the most bytes at the worst moment
NORM = 8.0  # of the bytes over the steps: close to the largest, but it sees all of two equal ones
PRUNED = 32  # labels up to which each is tried for whether the limit is met without it
CHEAP = 0.05  # in natural logarithms: work that grows by less than this costs as much
OVERHEAD = math.log(10_000)  # multiplications that the call of a kernel is worth

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def slice_to(plan: Plan, limit: int) -> Plan:
    """`plan` with more labels sliced until its peak is at most `limit`; or the leanest there is.

    The leanest is the smaller of two: the plan as it is, and everything sliced.
    """
    if plan.peak_bytes <= limit:
        return plan
    if 0 in plan.network.extents:
        return plan
    model = Model(plan)
    for label in plan.sliced:
        model.slice(label)
    leanest = plan.unproven(sliced=model.labels)
    if not model.labels or leanest.peak_bytes > limit:
        return min(plan, leanest, key=lambda one: one.peak_bytes)
    fixed = fixed_bytes(plan)
    room = math.log(max(1, limit - fixed))
    while model.slice_one():
        if len(model.sliced) == len(model.labels):
            break
        if model.log_peak <= room:
            found = plan.unproven(sliced=tuple(sorted(model.sliced)))
            if found.peak_bytes <= limit:
                return _needed(found, limit)
            # the estimate is too low: ask of it what it lacks
            lacking = math.log(max(1, found.peak_bytes - fixed)) - math.log(max(1, limit - fixed))
            room = model.log_peak - max(lacking, 1e-9)
    return _needed(leanest, limit)


def one_more(plan: Plan, tried: int) -> list[Plan]:
    """`plan` with one label more sliced: the `tried` labels that promise most, the best first by the true
    peak that is gained for the work that is added; none that leaves the peak as it is."""
    if 0 in plan.network.extents:
        return []
    model = Model(plan)
    for label in plan.sliced:
        model.slice(label)
    found = [
        plan.unproven(sliced=tuple(sorted((*plan.sliced, label))))
        for label in model.ranked()[:tried]
    ]

    def gain(other: Plan) -> float:
        dearer = math.log(max(1, other.cost)) - math.log(max(1, plan.cost))
        return math.log(plan.peak_bytes / other.peak_bytes) / max(dearer, CHEAP)

    lower = [other for other in found if other.peak_bytes < plan.peak_bytes]
    return sorted(lower, key=gain, reverse=True)


def _needed(plan: Plan, limit: int) -> Plan:
    """Without labels that a later choice made needless, those of most slices first."""
    if len(plan.sliced) > PRUNED:
        return plan
    for label in sorted(plan.sliced, key=lambda x: -plan.network.extents[x]):
        fewer = plan.unproven(sliced=tuple(x for x in plan.sliced if x != label))
        if fewer.peak_bytes <= limit:
            plan = fewer
    return plan


def fixed_bytes(plan: Plan) -> int:
    """Operands and result, which no slicing makes smaller."""
    operands = sum(
        math.prod(shape) * dtype.itemsize
        for shape, dtype in zip(plan.network.shapes, plan.dtypes, strict=True)
    )
    return operands + plan.assembly.spec.nbytes


class Model:
    """The bytes and the work of every step of a tree, and what slicing a label makes of them.

    Tensors are numbered as in the tree; sizes are kept as logarithms, since they may exceed any float.
    """

    def __init__(self, plan: Plan) -> None:
        net, tree = plan.network, plan.tree
        self.n, self.steps = tree.n, len(tree.ssa_path)
        self.logs = [math.log(extent) for extent in net.extents]
        self.parent = np.full(self.n + self.steps, self.steps, np.intp)
        for index, step in enumerate(tree.ssa_path):
            self.parent[list(step)] = index
        self.carriers: dict[int, list[int]] = {}  # label -> tensors
        self.sharers: dict[int, list[int]] = {}  # label -> steps
        walked = list(walk(net, tree))
        tensors = [*net.carried, *(labels.result for labels in walked)]
        wide = compute_dtype(plan.dtype)
        self.log_bytes = np.full(len(tensors), math.log(wide.itemsize))
        for tensor, carried in enumerate(tensors):
            for label in carried:
                if net.extents[label] > 1:
                    self.carriers.setdefault(label, []).append(tensor)
                    self.log_bytes[tensor] += self.logs[label]
        self.log_work = np.zeros(self.steps)
        for index, labels in enumerate(walked):
            for label in labels.union:
                if net.extents[label] > 1:
                    self.sharers.setdefault(label, []).append(index)
                    self.log_work[index] += self.logs[label]
        # operands are the caller's, but for those that are converted or conjugated at the start
        self.made = np.ones(len(tensors), bool)
        for operand, dtype in enumerate(plan.dtypes):
            conjugated = operand in plan.conj and wide.kind == "c"
            self.made[operand] = dtype != wide or conjugated
        self.tensors = tensors
        self.depends = np.zeros(len(tensors), bool)
        self.labels = tuple(sorted(self.carriers))
        self.sliced: list[int] = []
        self.log_slices = 0.0
        self._look()

    def slice_one(self) -> bool:
        """Slice one label more; False when there is none left."""
        ranked = self.ranked()
        if ranked:
            self.slice(ranked[0])
        return bool(ranked)

    def ranked(self) -> list[int]:
        """Labels to slice next, the best first: what lowers the peak most for the least extra work."""
        peak, work = self._norm(self._profile(self.bytes, self.depends)), self._total()
        scores: dict[int, tuple[float, float]] = {}
        for label in self._candidates():
            depends = self._spread(label)
            sizes = self.bytes.copy()
            sizes[self.carriers[label]] *= math.exp(-self.logs[label])
            gain = math.log(peak / self._norm(self._profile(sizes, depends)))
            dearer = self._total(label, depends) - work
            scores[label] = (gain / max(dearer, CHEAP), gain)
        return sorted(scores, key=scores.__getitem__, reverse=True)

    def slice(self, label: int) -> None:
        """Slice this label as well."""
        self.depends = self._spread(label)
        self.log_bytes[self.carriers[label]] -= self.logs[label]
        self.log_work[self.sharers.get(label, [])] -= self.logs[label]
        self.log_slices += self.logs[label]
        self.sliced.append(label)
        self._look()

    def _look(self) -> None:
        """Bytes relative to the largest tensor, and the peak."""
        largest = float(self.log_bytes.max())
        self.bytes = np.exp(self.log_bytes - largest)
        profile = self._profile(self.bytes, self.depends)
        self.worst = int(profile.argmax())
        self.log_peak = math.log(float(profile[self.worst])) + largest

    def _spread(self, label: int) -> Bools:
        """Which tensors differ from slice to slice once `label` is sliced as well."""
        depends = self.depends.copy()
        for tensor in self.carriers[label]:
            while not depends[tensor]:
                depends[tensor] = True
                if self.parent[tensor] == self.steps:
                    break
                tensor = self.n + int(self.parent[tensor])
        return depends

    def _profile(self, sizes: Floats, depends: Bools) -> Floats:
        """Bytes alive in each step, its operands once more for what a kernel packs.

        What is the same in every slice is computed before the rest, and what the rest needs of it is kept.
        """
        steps, parent = self.steps, self.parent
        held = sizes * self.made
        of_slice = np.append(depends[self.n :], True)
        by_slice = of_slice[parent]  # whether the tensor is used in the part that every slice runs
        dying = np.bincount(parent, held * (depends | ~by_slice), steps + 1)[:steps]
        waiting = held[: self.n]
        now = of_slice[:steps]
        once = _alive(held[self.n :] * ~now, dying * ~now, float(waiting @ ~depends[: self.n]))
        kept = float(held @ (~depends & by_slice))
        each = _alive(held[self.n :] * now, dying * now, kept + float(waiting @ depends[: self.n]))
        packed = np.bincount(parent, sizes, steps + 1)[:steps]
        profile: Floats = np.where(now, each, once) + packed
        return profile

    def _norm(self, profile: Floats) -> float:
        top = float(profile.max())
        return top * float(np.sum((profile / top) ** NORM)) ** (1 / NORM)

    def _total(self, label: int | None = None, depends: Bools | None = None) -> float:
        """Logarithm of the work of all slices, with `label` sliced as well."""
        logs, slices = self.log_work, self.log_slices
        if label is not None:
            logs = logs.copy()
            logs[self.sharers.get(label, [])] -= self.logs[label]
            slices += self.logs[label]
        spread = (self.depends if depends is None else depends)[self.n :]
        total: Floats = np.logaddexp(logs, np.float64(OVERHEAD)) + slices * spread.astype(float)
        largest = float(total.max())
        return largest + math.log(float(np.exp(total - largest).sum()))

    def _candidates(self) -> list[int]:
        """Labels of what is alive at the worst moment, by bytes; any others when there are none."""
        steps = np.arange(-self.n, self.steps)  # when each tensor is made
        alive = (steps <= self.worst) & (self.parent >= self.worst)
        alive &= self.made | (self.parent == self.worst)
        kept = ~self.depends & np.append(self.depends[self.n :], True)[self.parent]
        if self.depends[self.n + self.worst]:
            alive |= kept & self.made
        weights: dict[int, float] = {}
        left = set(self.carriers).difference(self.sliced)
        for tensor in np.flatnonzero(alive):
            for label in self.tensors[tensor] & left:
                weights[label] = weights.get(label, 0.0) + float(self.bytes[tensor])
        ranked = sorted(weights or left, key=lambda x: (-weights.get(x, 0.0), x))
        return ranked[:CANDIDATES]


def _alive(born: Floats, dying: Floats, before: float) -> Floats:
    """Running sum: what dies in a step is still alive in it."""
    alive: Floats = before + np.cumsum(born) - np.cumsum(dying) + dying
    return alive
