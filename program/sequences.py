"""Which products of a program may run in turn, by one call of a kernel.

A sequence is a product and, before it, products that only members of it read, transposes between them
included, all of which the backend takes into one. It runs where its last member stands. Its plan has no
lanes; it is the backend's to take or to decline, and then the members run one by one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Set

from ..backend.protocol import Backend
from .chains import ProductGroup, Tree, is_product
from .ir import Program

LEAST = 3  # products: there is something between them that need not be waited for


def sequences(
    program: Program,
    backend: Backend,
    taken: Set[int],
    least: int = LEAST,
    work: float = 0,
) -> tuple[ProductGroup, ...]:
    """Groups of `least` products or more, in order of execution; no instruction is in two of them, nor in one
    and in `taken`. None where all products have fewer than `work` multiplications."""
    products = {
        at: _multiplications(program, at)
        for at, ins in enumerate(program.instructions)
        if at not in taken and is_product(program, ins)
    }
    if sum(products.values()) < work:  # told before each is priced, which takes some 40 µs
        return ()
    fits = {at for at in products if _fits(program, at, backend)}
    if len(fits) < least:
        return ()
    maker = {slot: at for at, ins in enumerate(program.instructions) for slot in ins.outputs}
    readers = Counter(slot for ins in program.instructions for slot in ins.inputs)
    readers.update(program.outputs)
    groups: list[ProductGroup] = []
    for at in sorted(fits, reverse=True):
        if at not in fits:
            continue
        tree = _Sequence(program, at, fits)
        tree.grow(maker, readers)
        fits -= tree.members
        if len(tree.made) >= least:
            groups.append(tree.group())
    return tuple(reversed(groups))


def _multiplications(program: Program, at: int) -> int:
    ins = program.instructions[at]
    lhs, _ = program.specs(ins.inputs)
    (out,) = program.specs(ins.outputs)
    return out.size * math.prod(lhs.shape[axis] for axis in ins.attrs["contracting"][0])


def _fits(program: Program, at: int, backend: Backend) -> bool:
    ins = program.instructions[at]
    if ins.indices:
        return False
    (out,) = program.placed(ins.outputs)
    lhs, rhs = program.placed(ins.inputs)
    return backend.in_sequence(ins.attrs, lhs, rhs, out)


class _Sequence(Tree):
    """Of what fits, as much as hangs together."""

    most_members = 1 << 20

    def __init__(self, program: Program, last: int, fits: Set[int]) -> None:
        self.suited = fits
        super().__init__(program, last, least_lanes=0)

    def may_take(self, at: int) -> bool:
        return at in self.suited

    def fits(self) -> bool:
        return True

    def lanes(self) -> set[int]:
        return set()
