"""layout_simplification: programs written by hand with what becomes of them, and what holds afterwards."""

from __future__ import annotations

from collections import Counter

from tests.program.rewrites.common import Rewrites, made_by

from einloom.program.builder import Builder
from einloom.program.ir import Instruction, Program


def three_transposes(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (2, 3, 4))
    for _ in range(2):
        x = b("transpose", x, perm=(1, 2, 0))
    return x, b("transpose", x, perm=(1, 2, 0))


def transposes_apart(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (2, 3))
    return (b("transpose", b("copy", b("transpose", x, perm=(1, 0))), perm=(1, 0)),)


def identity_of_zero_axes(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", ())
    return (b("transpose", x, perm=()),)


def nothing_changes(b: Builder) -> tuple[int, ...]:
    """Each of these yields its operand."""
    x = b.input("f8", (2, 1, 3))
    x = b("reshape", x, shape=(2, 1, 3))
    x = b("squeeze", x, axes=())
    x = b("expand_dims", x, axes=())
    x = b("broadcast_in_dim", x, shape=(2, 1, 3), axes=(0, 1, 2))
    x = b("slice", x, starts=(0, 0, 0), stops=(2, 1, 3), steps=(1, 5, 1))
    x = b("reverse", x, axes=(1,))
    x = b("identity", x)
    return (b("split", x, axis=2, sizes=(3,)),)


def something_changes(b: Builder) -> tuple[int, ...]:
    """Of equal shapes, and yet not the same."""
    x = b.input("f8", (3, 3))
    one = b("transpose", x, perm=(1, 0))
    two = b("reverse", x, axes=(0,))
    three = b("slice", x, starts=(0, 1), stops=(3, 3), steps=(1, 1))
    return one, two, three, *b.several("split", x, axis=0, sizes=(3, 0))


def there_and_back(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (2, 3))
    flat = b("reshape", x, shape=(6,))
    tall = b("expand_dims", b("reshape", flat, shape=(3, 2)), axes=(0,))
    return (b("reshape", tall, shape=(2, 3)),)


def reshapes(b: Builder) -> tuple[int, ...]:
    """All that stays of a chain is its last shape."""
    x = b.input("f8", (2, 3, 4))
    x = b("expand_dims", b("reshape", x, shape=(6, 4)), axes=(1,))
    return (b("squeeze", b("reshape", x, shape=(1, 8, 3)), axes=(0,)),)


def reshape_read_twice(b: Builder) -> tuple[int, ...]:
    """It may have copied; only what leads back to x needs it no more."""
    x = b.input("f8", (2, 3, 4))
    flat = b("reshape", x, shape=(24,))
    wide = b("reshape", flat, shape=(6, 4))
    return b("copy", flat), wide, b("reshape", flat, shape=(1, 2, 3, 4))


def one_squeeze(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (1, 2, 1, 3))
    return (b("reshape", b("squeeze", x, axes=(0,)), shape=(2, 3)),)


def one_expand_dims(b: Builder) -> tuple[int, ...]:
    """A broadcast that repeats nothing is one, too."""
    x = b.input("f8", (2, 3))
    x = b("expand_dims", x, axes=(1,))
    return (b("broadcast_in_dim", x, shape=(1, 2, 1, 3, 1), axes=(1, 2, 3)),)


def ones_elsewhere(b: Builder) -> tuple[int, ...]:
    """Dropped at one place, inserted at another: two views stay."""
    x = b.input("f8", (1, 2, 3))
    return (b("expand_dims", b("squeeze", x, axes=(0,)), axes=(1,)),)


def reverses(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (2, 1, 3))
    x = b("reverse", x, axes=(1, 0))
    turned = b("reverse", x, axes=(2, 0))
    return turned, b("reverse", turned, axes=(2,))


def slices(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (10, 4))
    x = b("slice", x, starts=(1, 0), stops=(10, 4), steps=(2, 1))
    x = b("slice", x, starts=(1, 2), stops=(5, 4), steps=(3, 1))
    return x, b("slice", x, starts=(2, 0), stops=(2, 1), steps=(1, 1))


def broadcasts(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (3,))
    x = b("broadcast_in_dim", x, shape=(2, 3), axes=(1,))
    x = b("expand_dims", x, axes=(1,))
    return (b("broadcast_in_dim", x, shape=(2, 5, 3, 4), axes=(0, 1, 2)),)


def static_index(b: Builder) -> tuple[int, ...]:
    """Of a slice at a static index nothing is known; what it reads is simplified."""
    x, k = b.input("f8", (5, 3)), b.index("k", 5)
    turned = b("transpose", b("transpose", x, perm=(1, 0)), perm=(1, 0))
    return (b("slice_at", turned, axis=0, at=k),)


REWRITES: Rewrites = [
    # program, listing afterwards
    (
        three_transposes,
        [
            "%1 = transpose(%0) [perm=(1,2,0)]",
            "%2 = transpose(%0) [perm=(2,0,1)]",
            "return %2, %0",
        ],
    ),
    (
        transposes_apart,
        [
            "%1 = transpose(%0) [perm=(1,0)]",
            "%2 = copy(%1)",
            "%3 = transpose(%2) [perm=(1,0)]",
            "return %3",
        ],
    ),
    (identity_of_zero_axes, ["return %0"]),
    (nothing_changes, ["return %0"]),
    (
        something_changes,
        [
            "%1 = transpose(%0) [perm=(1,0)]",
            "%2 = reverse(%0) [axes=(0,)]",
            "%3 = slice(%0) [starts=(0,1), steps=(1,1), stops=(3,3)]",
            "%4, %5 = split(%0) [axis=0, sizes=(3,0)]",
            "return %1, %2, %3, %4, %5",
        ],
    ),
    (
        there_and_back,
        [
            "%1 = reshape(%0) [shape=(6,)]",
            "%2 = reshape(%0) [shape=(3,2)]",
            "%3 = reshape(%0) [shape=(1,3,2)]",
            "return %0",
        ],
    ),
    (
        reshapes,
        [
            "%1 = reshape(%0) [shape=(6,4)]",
            "%2 = reshape(%0) [shape=(6,1,4)]",
            "%3 = reshape(%0) [shape=(1,8,3)]",
            "%4 = reshape(%0) [shape=(8,3)]",
            "return %4",
        ],
    ),
    (
        reshape_read_twice,
        [
            "%1 = reshape(%0) [shape=(24,)]",
            "%2 = reshape(%1) [shape=(6,4)]",
            "%3 = copy(%1)",
            "%4 = expand_dims(%0) [axes=(0,)]",
            "return %3, %2, %4",
        ],
    ),
    (
        one_squeeze,
        ["%1 = squeeze(%0) [axes=(0,)]", "%2 = squeeze(%0) [axes=(0,2)]", "return %2"],
    ),
    (
        one_expand_dims,
        ["%1 = expand_dims(%0) [axes=(1,)]", "%2 = expand_dims(%0) [axes=(0,2,4)]", "return %2"],
    ),
    (
        ones_elsewhere,
        ["%1 = squeeze(%0) [axes=(0,)]", "%2 = expand_dims(%1) [axes=(1,)]", "return %2"],
    ),
    (
        reverses,
        [
            "%1 = reverse(%0) [axes=(0,)]",
            "%2 = reverse(%0) [axes=(2,)]",
            "return %2, %0",
        ],
    ),
    (
        slices,
        [
            "%1 = slice(%0) [starts=(1,0), steps=(2,1), stops=(10,4)]",
            "%2 = slice(%0) [starts=(3,2), steps=(6,1), stops=(10,4)]",
            "%3 = slice(%0) [starts=(0,2), steps=(6,1), stops=(0,3)]",
            "return %2, %3",
        ],
    ),
    (
        broadcasts,
        [
            "%1 = broadcast_in_dim(%0) [axes=(1,), shape=(2,3)]",
            "%2 = expand_dims(%1) [axes=(1,)]",
            "%3 = broadcast_in_dim(%0) [axes=(2,), shape=(2,5,3,4)]",
            "return %3",
        ],
    ),
    (
        static_index,
        [
            "%1 = transpose(%0) [perm=(1,0)]",
            "%3 = slice_at(%0) [at=i0, axis=0]",
            "return %3",
        ],
    ),
]

ALONE = ("transpose", "reverse", "slice", "broadcast_in_dim")
ROW_MAJOR = ("reshape", "squeeze", "expand_dims")


def holds(program: Program) -> None:
    """No view yields its operand or reads its own kind; reshapes stay that several read."""
    made = made_by(program, *ALONE, *ROW_MAJOR)
    uses = Counter(slot for ins in program.instructions for slot in ins.inputs)
    uses.update(program.outputs)
    for ins in made.values():
        if any(program.slots[slot].bounds for slot in (*ins.inputs, *ins.outputs)):
            continue  # sizes that the data decide are left alone
        assert not is_idle(ins, program)
        inner = made.get(ins.inputs[0])
        if inner is None:
            continue
        pair = (ins.op, inner.op)
        assert pair[0] != pair[1] or (pair[0] == "reshape" and uses[inner.outputs[0]] > 1)
        assert pair != ("broadcast_in_dim", "expand_dims")
        if ins.op in ROW_MAJOR and inner.op == "reshape":
            assert uses[inner.outputs[0]] > 1
        if ins.op == "reshape":
            assert inner.op not in ("squeeze", "expand_dims")


def is_idle(ins: Instruction, program: Program) -> bool:
    """Whether a view changes nothing."""
    same = program.specs(ins.inputs) == program.specs(ins.outputs)
    if ins.op == "transpose":
        return bool(ins.attrs["perm"] == tuple(range(len(ins.attrs["perm"]))))
    return same if ins.op != "reverse" else not ins.attrs["axes"]
