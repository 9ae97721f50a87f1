"""Groups of instructions, elementwise ones or products, as one instruction each: the program as it is run.

`fuse` leaves `program` as it is where a group is small (compiled kernels serve arrays from
`options(small=)` elements on, so that a small call never waits for a compiler), where its plan is one
computation beside views, and where the backend declines it. A fused instruction stands at the place of
the last member; what only members read is made by no instruction, and needs no memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .._base.options import get_options
from ..backend.fusion import ElementwiseFusionPlan, FusionPlan, ProductFusionPlan
from ..backend.protocol import Backend, Kernel
from ..backend.sequence import MANY
from .branches import Branches
from .chains import ProductGroup, product_groups
from .ir import Instruction, Program
from .segments import FusionGroup, fusion_groups
from .sequences import LEAST, sequences


@dataclass(frozen=True, slots=True)
class Fused(Instruction):
    """A group as one instruction, with the kernel that the backend has for it."""

    plan: FusionPlan
    kernel: Kernel = field(repr=False, compare=False)
    scratch_bytes: int

    def writes_over(self, position: int) -> bool:
        """Any input, if elements stay apart; a broadcast one is no exception: it is a slot of its own, a
        view."""
        return isinstance(self.plan, ElementwiseFusionPlan) and self.plan.reduce is None


def fuse(
    program: Program, backend: Backend, *, products: bool = True, in_turn: bool = True
) -> Program:
    """`program` with every group that is worth it, and that `backend` takes, as one instruction; groups of
    products only if `products`, and sequences of them only if they may be `in_turn`, too.

    >>> from einloom._base.options import options
    >>> from einloom.backend.cpu import cpu
    >>> from einloom.program.builder import Builder
    >>> build = Builder()
    >>> x, y = build.input("f8", (2, 3)), build.input("f8", (2, 3))
    >>> program = build.finish(build("sqrt", build("absolute", build("subtract", x, y))))
    >>> with options(small=0):
    ...     print(fuse(program, cpu()))
    program(%0: float64[2,3], %1: float64[2,3])
      %4 = fused[subtract, absolute, sqrt](%0, %1)  # float64[2,3], 48 B
      return %4
    >>> fuse(program, cpu()) is program
    True
    """
    fused: dict[int, Fused] = {}
    gone: set[int] = set()
    foreign: set[int] = set()
    least = max(1, get_options().small)

    def take(group: ProductGroup | FusionGroup) -> None:
        kernel = backend.fuse(group.plan) if _is_worth_it(program, group) else None
        if kernel is None:
            return
        foreign.update(() if foreign else _foreign(program))
        ops = ", ".join(program.instructions[at].op for at in group.members)
        outside = tuple(k for k, slot in enumerate(group.inputs) if slot in foreign)
        fused[group.members[-1]] = Fused(
            f"fused[{ops}]",
            (),
            group.inputs,
            (group.output,),
            group.plan,
            kernel,
            backend.fused_scratch_bytes(group.plan, outside),
        )
        gone.update(group.members)

    for group in fusion_groups(program, least):
        take(group)
    if products:
        for chain in _chains(program, least):
            take(chain)
        for sequence in _sequences(program, backend, gone) if in_turn else ():
            take(sequence)
    if not fused:
        return program
    instructions = (
        fused.get(at, ins)
        for at, ins in enumerate(program.instructions)
        if at in fused or at not in gone
    )
    return replace(program, instructions=tuple(instructions))


def _chains(program: Program, least: float) -> tuple[ProductGroup, ...]:
    """Groups of products; none where another engine is asked for, or no kernels; all that there are where
    their engine is."""
    asked = get_options().engine
    if asked is None:
        return () if get_options().provider == "plain" else product_groups(program, least)
    return product_groups(program, 0, 1) if asked == "lanes" else ()


def _sequences(program: Program, backend: Backend, taken: set[int]) -> tuple[ProductGroup, ...]:
    """Products that may run in turn; none where another engine is asked for."""
    asked = get_options().engine
    if asked not in (None, "sequence"):
        return ()
    if asked is not None:
        return sequences(program, backend, taken, 1)
    return sequences(program, backend, taken, LEAST, MANY * get_options().small)


def has_chains(program: Program) -> bool:
    """Whether some instruction is a fused group of products."""
    return bool(_product_plans(program))


def has_sequences(program: Program) -> bool:
    """Whether some instruction is products in turn."""
    return not all(plan.lanes for plan in _product_plans(program))


def _product_plans(program: Program) -> list[ProductFusionPlan]:
    fused = [ins.plan for ins in program.instructions if isinstance(ins, Fused)]
    return [plan for plan in fused if isinstance(plan, ProductFusionPlan)]


def _is_worth_it(program: Program, group: FusionGroup | ProductGroup) -> bool:
    """Whether two members or more compute. The output of elementwise kernels is row-major, so no other layout
    may be decided for it. Of products, the backend knows what they cost one by one."""
    if isinstance(group, ProductGroup):
        return True
    computing = sum(not program.instructions[at].is_view for at in group.members)
    return computing > 1 and program.slots[group.output].layout is None


def _foreign(program: Program) -> set[int]:
    """Slots that may show memory which is not the backend's own."""
    found = set(program.inputs)
    for ins in program.instructions:
        if (
            ins.family is not None
            or isinstance(ins, Branches)
            or (ins.may_view and ins.inputs[0] in found)
        ):
            found.update(ins.outputs)
    return found
