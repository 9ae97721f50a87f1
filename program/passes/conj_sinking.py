"""conj(conj x) = x, conj(real x) = x, and conj(op x) = op(conj x) where fewer elements are conjugated.

A conj moves from the result of an instruction that nothing else reads to its complex operands. Through
a view it moves if these have no more elements than the result, so that transposes meet and contractions
read them; through a kernel only if fewer elements are conjugated afterwards, which is where operands are
conjugates already. Ops whose zeros have a sign by definition (add, multiply) are left alone:
1 - 1 = +0, and conj changes its sign. Of a sum of many products no sign of zero is promised.

What an output shows stays in memory of its own: there, conj(conj x) is a copy of x, and no conj moves
through a view. Conjugates that nothing reads any more are dropped.

Precondition: a verified program. Postcondition: no conj reads a conj or a real dtype, or a view of no more
elements that nothing else reads, unless an output shows it.
"""

from __future__ import annotations

from dataclasses import replace

from ...backend.dtypes import class_of
from ..ir import Instruction, Program, instruction
from .rewrite import Names, renamed, shown_by_outputs, until_stable, use_counts, with_body

THROUGH = frozenset(
    (
        "reshape", "transpose", "broadcast_in_dim", "slice", "slice_at", "reverse", "squeeze",
        "expand_dims", "extract_diagonal", "identity", "contiguous", "concatenate", "negate", "select",
        "reduce_sum", "dot_general", "matmul", "sum_product",
    )
)  # fmt: skip


def conj_sinking(program: Program) -> Program:
    if "conj" not in program.op_counts:
        return program
    return until_stable(lambda program: _Sinking(program).run(), program)


class _Sinking:
    """One walk from the last instruction to the first; whatever reads a slot is met before its maker."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.slots = list(program.slots)
        self.made = {slot: ins for ins in program.instructions for slot in ins.outputs}
        self.uses = use_counts(program)
        self.shown = shown_by_outputs(program)
        self.names: Names = {}
        self.sunk: Names = {}  # for a slot that only a conj reads, the slot of its conjugate
        self.todo = list(program.instructions)
        self.body: list[Instruction] = []  # last first

    def run(self) -> Program:
        while self.todo:
            ins = self.todo.pop()
            if ins.op == "conj":
                self._conj(ins)
            elif self.sunk.keys() & set(ins.outputs):
                self._conjugated(ins)
            else:
                self.body.append(ins)
        for slot in reversed(self.names):  # made early, renamed late
            self.names[slot] = self.names.get(self.names[slot], self.names[slot])
        body = [renamed(ins, self.names) for ins in reversed(self.body)]
        return with_body(self.program, body, self.names, self.slots)

    def _conj(self, ins: Instruction) -> None:
        (x,), (out,) = ins.inputs, ins.outputs
        maker = self.made.get(x)
        if not self.uses[out]:
            self.uses[x] -= 1
        elif not self._is_complex(x):
            self._is(out, x, x)
        elif maker is not None and maker.op == "conj":
            self._is(out, maker.inputs[0], x)
        elif maker is not None and self.uses[x] == 1 and self._sinks(maker, x, out):
            self.sunk[x] = out
        else:
            self.body.append(ins)

    def _is(self, out: int, x: int, read: int) -> None:
        """`out`, so far the conjugate of `read`, is x."""
        self.uses[read] -= 1
        if out in self.shown:
            op = "copy"
            if self._is_conj(x):
                op, (x,) = "conj", self.made[x].inputs
            self.uses[x] += 1
            self.body.append(instruction(op, (x,), (out,), {}))
        else:
            self.uses[x] += self.uses[out]
            self.names[out] = x

    def _sinks(self, maker: Instruction, x: int, out: int) -> bool:
        """Whether conj moves from `out`, the conjugate of x, to what x is made from."""
        if maker.op not in THROUGH:
            return False
        operands = {slot for slot in maker.inputs if self._is_complex(slot)}
        count = sum(self._size(slot) for slot in operands if not self._is_conj(slot))
        if maker.may_view:
            return out not in self.shown and count <= self._size(x)
        return count < self._size(x)

    def _conjugated(self, ins: Instruction) -> None:
        """`ins` over the conjugates of its operands, which come next."""
        conjugates: dict[int, int] = {}
        for x in ins.inputs:
            if self._is_complex(x):
                if x in conjugates:
                    self.uses[x] -= 1
                else:
                    conjugates[x] = len(self.slots)
                    self.slots.append(replace(self.slots[x], layout=None))
        out = self.sunk.pop(ins.outputs[0])
        inputs = tuple(conjugates.get(x, x) for x in ins.inputs)
        self.body.append(replace(ins, inputs=inputs, outputs=(out,)))
        for x, c in conjugates.items():
            self.uses[c] = inputs.count(c)
            self.todo.append(instruction("conj", (x,), (c,), {}))

    def _is_complex(self, slot: int) -> bool:
        return class_of(self.slots[slot].dtype) in ("complex", "object")

    def _is_conj(self, slot: int) -> bool:
        return slot in self.made and self.made[slot].op == "conj"

    def _size(self, slot: int) -> int:
        return self.slots[slot].spec.size
