"""Views of views become one view, and views that change nothing are dropped.

reshape, squeeze and expand_dims keep the elements in row-major order: a chain of them is what its first
operand and its last shape say, which is the operand itself, one squeeze, one expand_dims or one reshape.
transpose, reverse, slice and broadcast_in_dim each compose with their own kind; a broadcast_in_dim that
repeats nothing is an expand_dims, and takes up one that it reads.

A reshape may copy, so it is not repeated: one that several instructions read is merged into none of
them, unless the others are then no reshapes.

Precondition: a verified program. Postcondition: no layout instruction yields its operand; none of the
four reads its own kind, no broadcast_in_dim an expand_dims; no reshape reads a squeeze, an expand_dims,
or a reshape that nothing else reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ...backend.catalogue import Attrs
from ...backend.spec import Axes, Shape
from ..ir import Instruction, Program, instruction
from .rewrite import Names, is_bounded, renamed, until_stable, use_counts, with_body

ROW_MAJOR = frozenset(("reshape", "squeeze", "expand_dims"))
VIEWS = frozenset(("transpose", "reverse", "slice", "broadcast_in_dim", "identity", "split"))


def layout_simplification(program: Program) -> Program:
    if not program.op_counts.keys() & (ROW_MAJOR | VIEWS):
        return program
    return until_stable(_simplified, program)


def _simplified(program: Program) -> Program:
    names: Names = {}
    made: dict[int, Instruction] = {}
    chains = _Chains(program)
    body: list[Instruction] = []
    for old in program.instructions:
        ins = renamed(old, names)
        if ins.op in ROW_MAJOR | VIEWS and not is_bounded(program, ins):
            ins = _composed(ins, made, program)
            if ins.op in ROW_MAJOR:
                ins = chains.shortest(ins)
            if _changes_nothing(ins, program):
                names[ins.outputs[0]] = ins.inputs[0]
                continue
            made[ins.outputs[0]] = ins
        body.append(ins)
    return with_body(program, body, names)


def _changes_nothing(ins: Instruction, program: Program) -> bool:
    """Whether `ins` yields its operand; of reverse and transpose the shapes do not tell."""
    if len(ins.outputs) > 1 or program.slots[ins.inputs[0]] != program.slots[ins.outputs[0]]:
        return False
    if ins.op == "transpose":
        perm = ins.attrs["perm"]
        return bool(perm == tuple(range(len(perm))))
    return ins.op != "reverse" or not ins.attrs["axes"]


# ---- reshape, squeeze, expand_dims ---------------------------------------------------------------


class _Chains:
    """Which slots hold the elements of which others, in the same order."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.uses: Counter[int] = use_counts(program)
        self.first: Names = {}  # the first operand of the chain that makes a slot
        self.near: Names = {}  # the first that leads there without a reshape that others read
        self.own: set[int] = set()  # made by a reshape that only one instruction reads

    def shortest(self, ins: Instruction) -> Instruction:
        """`ins` reading an earlier operand of its chain, if one op leads from there."""
        (y,), (out,) = ins.inputs, ins.outputs
        first, near = self.first.get(y, y), self.near.get(y, y)
        found = self._view(first, out) or self._view(near, out)
        if found is None and (ins.op == "reshape" or y in self.own):
            shape = self.program.slots[out].shape
            found = instruction("reshape", (near,), (out,), {"shape": shape})
        found = found or ins
        (x,) = found.inputs
        self.first[out] = first
        if found.op != "reshape":
            self.near[out] = self.near.get(x, x)
        elif self.uses[out] == 1:
            self.near[out] = x
            self.own.add(out)
        return found

    def _view(self, x: int, out: int) -> Instruction | None:
        """The squeeze or expand_dims that makes `out` of x, if there is one."""
        before, after = (self.program.slots[slot].shape for slot in (x, out))
        for op, axes in (
            ("squeeze", ones_between(before, after)),
            ("expand_dims", ones_between(after, before)),
        ):
            if axes is not None:
                return instruction(op, (x,), (out,), {"axes": axes})
        return None


def ones_between(long: Shape, short: Shape) -> Axes | None:
    """Axes of size 1 of `long` without which it is `short`; None if there are none such.

    >>> ones_between((1, 2, 1, 3), (2, 3)), ones_between((2, 3), (2, 3)), ones_between((2,), (3,))
    ((0, 2), (), None)
    """
    axes, at = [], 0
    for axis, n in enumerate(long):
        if at < len(short) and short[at] == n:
            at += 1
        elif n == 1:
            axes.append(axis)
        else:
            return None
    return tuple(axes) if at == len(short) else None


# ---- transpose, reverse, slice, broadcast_in_dim -------------------------------------------------


def _composed(ins: Instruction, made: dict[int, Instruction], program: Program) -> Instruction:
    """`ins` in its plainest form, reading no view of its own kind."""
    while True:
        ins = _plain(ins, program)
        inner = made.get(ins.inputs[0])
        rule = None if inner is None else COMPOSE.get((ins.op, inner.op))
        if inner is None or rule is None:
            return ins
        attrs = rule(ins.attrs, inner.attrs, program.slots[ins.outputs[0]].shape)
        ins = instruction(ins.op, inner.inputs, ins.outputs, attrs)


def _plain(ins: Instruction, program: Program) -> Instruction:
    x, out = program.slots[ins.inputs[0]].shape, program.slots[ins.outputs[0]].shape
    if ins.op == "reverse":  # of one element or none: nothing turns
        axes = tuple(sorted(axis for axis in ins.attrs["axes"] if x[axis] > 1))
        return instruction("reverse", ins.inputs, ins.outputs, {"axes": axes})
    if ins.op == "broadcast_in_dim":
        new = tuple(axis for axis in range(len(out)) if axis not in ins.attrs["axes"])
        if x == tuple(out[axis] for axis in ins.attrs["axes"]) and all(out[a] == 1 for a in new):
            return instruction("expand_dims", ins.inputs, ins.outputs, {"axes": new})
    return ins


def _transposes(outer: Attrs, inner: Attrs, shape: Shape) -> Attrs:
    return {"perm": tuple(inner["perm"][axis] for axis in outer["perm"])}


def _reverses(outer: Attrs, inner: Attrs, shape: Shape) -> Attrs:
    return {"axes": tuple(sorted(set(outer["axes"]) ^ set(inner["axes"])))}


def _slices(outer: Attrs, inner: Attrs, shape: Shape) -> Attrs:
    """x[a:b:s][c:d:t] = x[a + c*s : last + 1 : s*t]; of no elements, x[0:0]."""
    starts, stops, steps = [], [], []
    rows = zip(outer["starts"], outer["steps"], inner["starts"], inner["steps"], shape, strict=True)
    for c, t, a, s, n in rows:
        start = a + c * s if n else 0
        starts.append(start)
        stops.append(start + (n - 1) * s * t + 1 if n else 0)
        steps.append(s * t)
    return {"starts": tuple(starts), "stops": tuple(stops), "steps": tuple(steps)}


def _broadcasts(outer: Attrs, inner: Attrs, shape: Shape) -> Attrs:
    return {"shape": shape, "axes": tuple(outer["axes"][axis] for axis in inner["axes"])}


def _broadcast_of_expanded(outer: Attrs, inner: Attrs, shape: Shape) -> Attrs:
    kept = (axis for k, axis in enumerate(outer["axes"]) if k not in inner["axes"])
    return {"shape": shape, "axes": tuple(kept)}


COMPOSE: dict[tuple[str, str], Callable[[Attrs, Attrs, Shape], Attrs]] = {
    ("transpose", "transpose"): _transposes,
    ("reverse", "reverse"): _reverses,
    ("slice", "slice"): _slices,
    ("broadcast_in_dim", "broadcast_in_dim"): _broadcasts,
    ("broadcast_in_dim", "expand_dims"): _broadcast_of_expanded,
}
"""Attributes of outer(inner(x)) as one op of outer's name, which yields `shape`."""
