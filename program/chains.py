"""Which products of a program may run as one kernel: chains that do the same for every index of a batch.

A group is a product and, before it, products that only members of the group read, transposes between them
included. All of its values have some labels in common, the lanes; what is left of them is small. It runs
where its last member stands. Its plan is the backend's to take or to decline, and then the members run one
by one.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass

from ..backend.cost_model import RATES
from ..backend.fusion import Labels, ProductFusionPlan, ProductStep
from ..backend.rules import NO_CONJ, known_dims
from .ir import Instruction, Program

MOST_ELEMENTS = (
    1024  # of all values of a lane together: more is work enough for products of their own
)
MOST_MULTIPLICATIONS = 4096  # of one step of a lane
MANY = 4  # times the least of one group: multiplications of all that are worth a compiler
# multiplications of lanes in the time of a call of BLAS for a few (`CALL` of backend/prediction.py)
CALL = 64
LEAST_LANES = 64
MOST_MEMBERS = 32


@dataclass(frozen=True, slots=True)
class ProductGroup:
    """Instructions that one kernel may run: `output = kernel(*inputs)`.

    Attributes:
        members: their places in the program, increasing.
        inputs: slots that the kernel reads, in the order of the plan's inputs; one may be there twice.
        output: the one slot that it makes.
        plan: what it computes.
    """

    members: tuple[int, ...]
    inputs: tuple[int, ...]
    output: int
    plan: ProductFusionPlan


def product_groups(
    program: Program, least: float = 0, least_lanes: int = LEAST_LANES
) -> tuple[ProductGroup, ...]:
    """Groups with `least` multiplications or more, and many more in all, in order of execution; no
    instruction is in two of them.

    >>> from einloom.program.builder import Builder
    >>> build = Builder()
    >>> x, y = build.input("f8", (900, 3)), build.input("f8", (3, 3))
    >>> xy = build("dot_general", x, y, contracting=((1,), (0,)), batch=((), ()))
    >>> xyx = build("dot_general", xy, x, contracting=((1,), (1,)), batch=((0,), (0,)))
    >>> (group,) = product_groups(build.finish(xyx))
    >>> group.members, group.inputs, group.plan.lanes, group.plan.multiplications()
    ((0, 1), (0, 0, 1), (0,), (9, 3))
    """
    products = [
        at
        for at, ins in enumerate(program.instructions)
        if is_product(program, ins) and _may_fit(program, ins, least_lanes)
    ]
    if not products:
        return ()
    maker = {slot: at for at, ins in enumerate(program.instructions) for slot in ins.outputs}
    readers = Counter(slot for ins in program.instructions for slot in ins.inputs)
    readers.update(program.outputs)
    groups: list[ProductGroup] = []
    taken: set[int] = set()
    for at in reversed(products):
        if at in taken:
            continue
        tree = Tree(program, at, least_lanes)
        if not tree.fits():
            continue
        tree.grow(maker, readers)
        group = tree.group()
        if _work(group.plan) >= least:
            taken.update(group.members)
            groups.append(group)
    if sum(_work(group.plan) for group in groups) < MANY * least:
        return ()
    return tuple(reversed(groups))


def is_product(program: Program, ins: Instruction) -> bool:
    """A product of one dtype, with no sizes that are bounds."""
    if ins.op != "dot_general":
        return False
    slots = [program.slots[slot] for slot in ins.inputs + ins.outputs]
    return not any(x.bounds for x in slots) and len({x.dtype for x in slots}) == 1


def _may_fit(program: Program, ins: Instruction, least_lanes: int) -> bool:
    """Whether a group may end here, told quickly: both operands are small for each index of the batch, or one
    is small in all and the other one has lanes enough."""
    lhs, rhs = program.specs(ins.inputs)
    lanes = math.prod(lhs.shape[axis] for axis in ins.attrs["batch"][0])
    if lanes >= least_lanes and lhs.size + rhs.size <= MOST_ELEMENTS * lanes:
        return True
    few, many = sorted((lhs.size, rhs.size))
    depth = math.prod(lhs.shape[axis] for axis in ins.attrs["contracting"][0])
    return few <= MOST_ELEMENTS and many >= depth * least_lanes


def _work(plan: ProductFusionPlan) -> int:
    """Multiplications, or as many as take the time of a call where one by one each lane has one of BLAS."""
    lanes, labels, sizes = set(plan.lanes), plan.labels(), plan.sizes
    least = CALL if plan.result.dtype.char in RATES else 0
    work = 0
    for step, count in zip(plan.steps, plan.multiplications(), strict=True):
        left, right = (set(labels[value]) for value in step.operands)
        made = math.prod(sizes[x] for x in step.labels if x not in lanes)
        has_calls = 1 < made < count and lanes & left and lanes & right
        work += max(count, least) if has_calls else count
    return work * math.prod(sizes[x] for x in plan.lanes)


class Tree:
    """A group that takes in one product after another, from the last one on. Nodes are arrays: a slot, and a
    label for each of its axes."""

    most_members = MOST_MEMBERS

    def __init__(self, program: Program, last: int, least_lanes: int) -> None:
        self.program, self.least_lanes = program, least_lanes
        self.sizes: list[int] = []  # of labels
        self.slots: list[int] = []  # of nodes
        self.labels: list[Labels] = []
        self.elements: list[int] = []
        self.made: dict[
            int, tuple[int, int, int]
        ] = {}  # the product that makes a node, and its operands
        self.members: set[int] = set()
        (output,) = program.instructions[last].outputs
        self._node(output, tuple(map(self._label, program.slots[output].shape)))
        self._make(0, last)

    def grow(self, maker: dict[int, int], readers: Counter[int]) -> None:
        """Take in every producer that leaves lanes enough and values small enough, the latest first."""
        heap: list[tuple[int, int]] = []

        def reach(node: int) -> None:
            slot = self.slots[node]
            if slot in maker and readers[slot] == 1:
                heapq.heappush(heap, (-maker[slot], node))

        for node in self.operands():
            reach(node)
        while heap and len(self.members) < self.most_members:
            at, node = heapq.heappop(heap)
            ins = self.program.instructions[-at]
            if ins.op == "transpose":  # axis k of the transposed is axis perm[k] of what it shows
                axes = zip(ins.attrs["perm"], self.labels[node], strict=True)
                self.labels[node] = tuple(label for _, label in sorted(axes))
                (self.slots[node],) = ins.inputs
                self.members.add(-at)
                reach(node)
            elif self.may_take(-at):
                left, right = self._make(node, -at)
                if self.fits():
                    reach(left)
                    reach(right)
                else:
                    self._unmake(node)

    def may_take(self, at: int) -> bool:
        """Whether the instruction may be a member."""
        return is_product(self.program, self.program.instructions[at])

    def operands(self) -> list[int]:
        """Nodes that no member makes."""
        return [node for node in range(len(self.slots)) if node not in self.made]

    def fits(self) -> bool:
        """Whether there are lanes enough, and what is done in one of them is little."""
        lanes = self.lanes()
        count = self._size(lanes)
        if not lanes or count < self.least_lanes:
            return False
        total = 0
        for labels, n in zip(self.labels, self.elements, strict=True):
            total += n // count if lanes.issubset(labels) else self._size(set(labels) - lanes)
        if total > MOST_ELEMENTS:
            return False
        return all(
            self._size({*self.labels[left], *self.labels[right]} - lanes) <= MOST_MULTIPLICATIONS
            for _, left, right in self.made.values()
            if self.elements[left] * self.elements[right] > MOST_MULTIPLICATIONS
        )

    def lanes(self) -> set[int]:
        """Labels that every step keeps and every operand has, but for operands that have so few of those of
        larger ones that these would leave no lanes."""
        kept = set.intersection(*(set(self.labels[node]) for node in self.made))
        for node in sorted(self.operands(), key=self.elements.__getitem__, reverse=True):
            if kept.issubset(self.labels[node]):
                continue
            common = kept.intersection(self.labels[node])
            if common and self._size(common) >= self.least_lanes:
                kept = common
        return kept

    def group(self) -> ProductGroup:
        """Labels are numbered as they come up; values are in order of execution."""
        made = sorted(self.made, key=self.made.__getitem__)
        operands = sorted(self.operands(), key=self.slots.__getitem__)
        number = {node: value for value, node in enumerate((*operands, *made))}
        lanes = self.lanes()
        walked = [x for x in self._in_memory(0) if x in lanes]
        names: dict[int, int] = {}
        for labels in (walked, *self.labels):
            for label in labels:
                names.setdefault(label, len(names))

        def renamed(labels: Labels) -> Labels:
            return tuple(names[label] for label in labels)

        steps = []
        for node in made:
            at, left, right = self.made[node]
            conj = self.program.instructions[at].attrs.get("conj", NO_CONJ)
            pair = number[left], number[right]
            steps.append(ProductStep(pair, renamed(self._in_memory(node)), conj))
        slots = tuple(self.slots[node] for node in operands)
        plan = ProductFusionPlan(
            self.program.placed(slots),
            tuple(renamed(self.labels[node]) for node in operands),
            tuple(steps),
            renamed(self.labels[0]),
            renamed(tuple(walked)),
            self.program.slots[self.slots[0]].placed,
        )
        return ProductGroup(tuple(sorted(self.members)), slots, self.slots[0], plan)

    def _in_memory(self, node: int) -> Labels:
        """Labels of a node's axes, the slowest first."""
        labels, layout = self.labels[node], self.program.slots[self.slots[node]].layout
        return labels if layout is None else tuple(labels[axis] for axis in layout)

    def _label(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def _node(self, slot: int, labels: Labels) -> int:
        self.slots.append(slot)
        self.labels.append(labels)
        self.elements.append(self._size(set(labels)))
        return len(self.slots) - 1

    def _make(self, node: int, at: int) -> tuple[int, int]:
        """Make the product `at`, whose result the node is, a member; returns the nodes of its operands."""
        ins = self.program.instructions[at]
        lhs, rhs = self.program.specs(ins.inputs)
        dims = known_dims(ins.attrs, lhs.shape, rhs.shape)
        left, right = [0] * len(lhs.shape), [0] * len(rhs.shape)
        kept = iter(self.labels[node])
        for i, j in zip(dims.lhs_batch, dims.rhs_batch, strict=True):
            left[i] = right[j] = next(kept)
        for i in dims.lhs_free:
            left[i] = next(kept)
        for j in dims.rhs_free:
            right[j] = next(kept)
        for i, j in zip(dims.lhs_contracting, dims.rhs_contracting, strict=True):
            left[i] = right[j] = self._label(lhs.shape[i])
        nodes = self._node(ins.inputs[0], tuple(left)), self._node(ins.inputs[1], tuple(right))
        self.made[node] = (at, *nodes)
        self.members.add(at)
        return nodes

    def _unmake(self, node: int) -> None:
        """Undo the last `_make`."""
        at, *_ = self.made.pop(node)
        self.members.remove(at)
        del self.slots[-2:], self.labels[-2:], self.elements[-2:]

    def _size(self, labels: set[int]) -> int:
        return math.prod(self.sizes[x] for x in labels)
