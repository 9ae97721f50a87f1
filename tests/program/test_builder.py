"""The builder: every call infers its slot, and what is ill-formed cannot be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.backend.calls import CALLS, Call, some_dtype
from tests.each import each

from einloom._base.errors import ExtensionError, ProgramError
from einloom.backend.spec import ArraySpec
from einloom.program.builder import Builder
from einloom.program.ir import Slot
from einloom.program.verify import verify

F8 = np.dtype("float64")


@each("call", CALLS)
def test_any_op(call: Call) -> None:
    build = Builder()
    dtype = some_dtype(call.op)
    operands = [build.input(x.dtype, x.shape) for x in call.specs(dtype)]
    results = build.several(call.op, *operands, **call.attrs)
    program = verify(build.finish(*results))
    assert program.specs(results) == call.outputs(dtype)
    (ins,) = program.instructions
    assert (ins.op, ins.attrs, ins.inputs) == (call.op, call.attrs, tuple(operands))
    assert (ins.outputs, program.outputs, program.inputs) == (results, results, tuple(operands))


def test_several_results_have_a_method_of_their_own() -> None:
    build = Builder()
    x = build.input("f8", (5,))
    with pytest.raises(ProgramError, match=r"split has 2 outputs; build.several"):
        build("split", x, axis=0, sizes=(2, 3))
    assert build("split", x, axis=0, sizes=(5,)) == build.finish().instructions[-1].outputs[0]


def test_slots_are_numbered_in_order() -> None:
    build = Builder()
    assert [build.input("f8", (2,)), build.input("i8", ())] == [0, 1]
    assert build("copy", 0) == 2
    assert build.input("f4", (3, 4)) == 3
    program = build.finish(3, 2, 2)
    assert program.inputs == (0, 1, 3)
    assert program.outputs == (3, 2, 2)
    assert [str(spec) for spec in program.slots] == [
        "float64[2]",
        "int64[]",
        "float64[2]",
        "float32[3,4]",
    ]


def test_finish_is_a_value() -> None:
    """What is built later does not change a finished program."""
    build = Builder()
    x = build.input("f8", (2,))
    before = build.finish(x)
    build("copy", x)
    assert before.instructions == ()
    assert len(build.finish(x).instructions) == 1


def test_lists_and_numpy_numbers_are_frozen() -> None:
    build = Builder()
    x = build.input("f8", [2, 3])
    y = build("transpose", x, perm=[1, 0])
    build("transpose", y, perm=np.array([1, 0]).tolist())
    build("constant", value=np.float64(2.5), dtype="float64")
    build("constant", value=np.int8(3), dtype="float64")
    program = build.finish(y)
    assert hash(program.instructions)
    assert [ins.attributes for ins in program.instructions] == [
        (("perm", (1, 0)),),
        (("perm", (1, 0)),),
        (("dtype", "float64"), ("value", 2.5)),
        (("dtype", "float64"), ("value", 3)),
    ]
    assert type(program.instructions[2].attrs["value"]) is float


def test_shortcuts_add_nothing_for_nothing() -> None:
    build = Builder()
    x = build.input("f8", (2, 3))
    assert build.transpose(x, (0, 1)) == x
    assert build.convert(x, F8) == x
    assert build.finish(x).instructions == ()
    assert build.spec(build.transpose(x, (1, 0))).shape == (3, 2)
    for name, op in (("c16", "convert"), ("c8", "cast"), ("i8", "cast"), ("g", "convert")):
        assert build.spec(build.convert(x, np.dtype(name))).dtype == np.dtype(name)
        assert build.finish(x).instructions[-1].op == op


FRESH: list[tuple[str, Callable[[Builder, int], int], bool]] = [
    ("input", lambda b, x: x, False),
    ("view", lambda b, x: b("transpose", x, perm=(1, 0)), False),
    ("view of view", lambda b, x: b("squeeze", b("expand_dims", x, axes=(0,)), axes=(0,)), False),
    ("copy", lambda b, x: b("copy", x), True),
    ("a view perhaps", lambda b, x: b("reshape", x, shape=(6,)), False),
    ("piece", lambda b, x: b.several("split", x, axis=0, sizes=(1, 1))[1], False),
    (
        "piece of a copy",
        lambda b, x: b.several("split", b("copy", x), axis=0, sizes=(1, 1))[1],
        True,
    ),
    ("view of a sum", lambda b, x: b("expand_dims", b("add", x, x), axes=(0,)), True),
    ("constant", lambda b, x: b("constant", value=1, dtype="int8"), True),
]


@pytest.mark.parametrize(("what", "make", "fresh"), FRESH, ids=[row[0] for row in FRESH])
def test_is_fresh(what: str, make: Callable[[Builder, int], int], fresh: bool) -> None:
    build = Builder()
    assert build.is_fresh(make(build, build.input("f8", (2, 3)))) == fresh


@pytest.mark.parametrize(
    ("op", "attrs"),
    [("transpose", {"perm": (0, 0)}), ("nowhere", {}), ("transpose", {}), ("copy", {"axes": ()})],
)
def test_refused(op: str, attrs: dict[str, Any]) -> None:
    """And the program is as it was."""
    build = Builder()
    x = build.input("f8", (2, 3))
    with pytest.raises(ProgramError, match=op):
        build(op, x, **attrs)
    assert build.finish(x).instructions == ()
    assert build.finish(x).slots == (Slot(ArraySpec(F8, (2, 3))),)


def test_unknown_extension() -> None:
    build = Builder()
    with pytest.raises(ExtensionError, match=r"import the package"):
        build.extension("nowhere.op.v1", build.input("f8", (2,)))
