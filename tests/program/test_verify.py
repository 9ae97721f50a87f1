"""Every kind of ill-formed program is refused, naming the place and the rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from einloom._base.errors import ProgramError
from einloom.backend.dims import dim
from einloom.backend.spec import ArraySpec
from einloom.program.ir import At, Program, Slot, StaticIndex, instruction
from einloom.program.verify import RULES, verify

EXISTS = "every slot named exists"
SIZES = "sizes are integers >= 0"
AXES = "bounds and layouts name axes of their slots"
INDICES = "static indices exist and have a size"
ONCE = "a slot is written once"
BEFORE = "a slot is written before it is read"
DECIDED = "sizes that the data decide are declared as bounds"
INFERRED = "dtypes and shapes are those the catalogue infers"


def spec(*shape: Any, dtype: str = "float64", **more: Any) -> Slot:
    return Slot(ArraySpec(np.dtype(dtype), shape), **more)


def ins(op: str, inputs: tuple[Any, ...], outputs: tuple[Any, ...], **attrs: Any) -> Any:
    return instruction(op, inputs, outputs, attrs)


V = spec(2)
INNER: dict[str, Any] = {"batch": ((), ()), "contracting": ((0,), (0,))}
COPY = ins("copy", (0,), (1,))
N = spec(dtype="int64")
CUT, CUT_V = ins("dynamic_truncate", (0, 1), (2,), axis=0), spec(2, bounds=(0,))
TURN = ins("transpose", (0,), (1,), perm=(1, 0))

ILL_FORMED: list[tuple[str, Program, str, tuple[str, ...]]] = [
    # what, program, rule, fragments of the message
    ("no such input", Program((V,), (), (3,), ()), EXISTS, ("inputs", "%3", "there are 1")),
    ("no such output", Program((V,), (), (0,), (1,)), EXISTS, ("outputs", "%1")),
    ("negative slot", Program((V,), (), (0,), (-1,)), EXISTS, ("outputs", "%-1")),
    (
        "reads no such slot",
        Program((V, V), (ins("copy", (7,), (1,)),), (0,), (1,)),
        EXISTS,
        ("instruction 0 (copy)", "%7", "there are 2"),
    ),
    (
        "writes no such slot",
        Program((V, V), (COPY, ins("copy", (1,), (2,))), (0,), (1,)),
        EXISTS,
        ("instruction 1 (copy)", "%2"),
    ),
    ("slot is no integer", Program((V,), (), ("0",), ()), EXISTS, ("inputs", "%0")),  # type: ignore[arg-type]
    ("slot is a bool", Program((V,), (), (False,), ()), EXISTS, ("inputs",)),
    ("slot is a list", Program((V,), (), ([0],), ()), EXISTS, ("inputs",)),  # type: ignore[arg-type]
    ("negative size", Program((spec(-2),), (), (0,), (0,)), SIZES, ("slot %0", "(-2,)")),
    ("real size", Program((V, spec(2.0)), (), (0,), (0,)), SIZES, ("slot %1", "(2.0,)")),
    ("size of numpy", Program((spec(np.int64(2)),), (), (0,), (0,)), SIZES, ("slot %0",)),
    ("size known later", Program((spec(dim("n")),), (), (0,), (0,)), SIZES, ("slot %0", "(n,)")),
    (
        "index of a size known later",
        Program((V,), (), (0,), (0,), (StaticIndex("k", dim("n")),)),  # type: ignore[arg-type]
        SIZES,
        ("static index i0 (k)", "size n"),
    ),
    (
        "attribute known later",
        Program((V, spec()), (ins("slice_at", (0,), (1,), axis=0, at=dim("n")),), (0,), (1,)),
        SIZES,
        ("instruction 0 (slice_at)", "size n in at"),
    ),
    ("bound of no axis", Program((spec(2, bounds=(1,)),), (), (0,), (0,)), AXES, ("%0", "(1,)")),
    (
        "layout of rank 2",
        Program((spec(2, layout=(1, 0)),), (), (0,), (0,)),
        AXES,
        ("%0", "(1, 0)"),
    ),
    ("layout not whole", Program((spec(2, 2, layout=(1, 1)),), (), (0,), (0,)), AXES, ("(1, 1)",)),
    (
        "index without values",
        Program((V,), (), (0,), (0,), (StaticIndex("k", 0),)),
        INDICES,
        ("static index i0 (k)", "size 0"),
    ),
    (
        "no such index",
        Program((V, spec()), (ins("slice_at", (0,), (1,), axis=0, at=At(0)),), (0,), (1,)),
        INDICES,
        ("instruction 0 (slice_at)", "i0", "there are 0"),
    ),
    (
        "index of another op",
        Program(
            (V, V), (ins("reverse", (0,), (1,), axes=At(0)),), (0,), (1,), (StaticIndex("k", 1),)
        ),
        INDICES,
        ("instruction 0 (reverse)", "slice_at"),
    ),
    (
        "index beyond the axis",
        Program(
            (V, spec()),
            (ins("slice_at", (0,), (1,), axis=0, at=At(0)),),
            (0,),
            (1,),
            (StaticIndex("k", 3),),
        ),
        INFERRED,
        ("instruction 0 (slice_at)", "at=2"),
    ),
    ("input twice", Program((V,), (), (0, 0), (0,)), ONCE, ("inputs (0, 0)", "twice")),
    (
        "writes an input",
        Program((V, V), (ins("copy", (1,), (0,)),), (0, 1), (0,)),
        ONCE,
        ("instruction 0 (copy)", "slot %0 again"),
    ),
    (
        "written by two",
        Program((V, V), (COPY, COPY), (0,), (1,)),
        ONCE,
        ("instruction 1 (copy)", "slot %1 again"),
    ),
    (
        "written twice by one",
        Program((V, V), (ins("copy", (0,), (1, 1)),), (0,), (1,)),
        ONCE,
        ("instruction 0 (copy)", "slot %1 again"),
    ),
    (
        "reads what is written later",
        Program((V, V, V), (ins("copy", (2,), (1,)), ins("copy", (0,), (2,))), (0,), (1,)),
        BEFORE,
        ("instruction 0 (copy)", "slot %2"),
    ),
    (
        "reads what it writes",
        Program((V, V), (ins("copy", (1,), (1,)),), (0,), (1,)),
        BEFORE,
        ("instruction 0 (copy)", "slot %1"),
    ),
    ("output not written", Program((V, V), (), (0,), (1,)), BEFORE, ("output slot %1",)),
    (
        "unknown op",
        Program((V, V), (ins("nowhere", (0,), (1,)),), (0,), (1,)),
        INFERRED,
        ("instruction 0 (nowhere)", "unknown op 'nowhere'"),
    ),
    (
        "bad attribute",
        Program((V, V), (ins("transpose", (0,), (1,), perm=(1,)),), (0,), (1,)),
        INFERRED,
        ("instruction 0 (transpose)", "perm=(1,)"),
    ),
    (
        "attribute of the wrong type",
        Program((V, V), (ins("transpose", (0,), (1,), perm=None),), (0,), (1,)),
        INFERRED,
        ("instruction 0 (transpose)", "must be a tuple"),
    ),
    (
        "unknown dtype",
        Program((V, V), (ins("convert", (0,), (1,), dtype="real"),), (0,), (1,)),
        INFERRED,
        ("instruction 0 (convert)", "'real'"),
    ),
    (
        "wrong shape",
        Program((spec(2, 3), spec(2, 3)), (TURN,), (0,), (1,)),
        INFERRED,
        ("instruction 0 (transpose)", "float64[3,2]", "its slots say float64[2,3]"),
    ),
    (
        "wrong dtype",
        Program((V, spec(2, dtype="float32")), (COPY,), (0,), (1,)),
        INFERRED,
        ("instruction 0 (copy)", "float64[2]", "float32[2]"),
    ),
    (
        "too many outputs",
        Program((V, V, V), (ins("copy", (0,), (1, 2)),), (0,), (1,)),
        INFERRED,
        ("instruction 0 (copy)", "float64[2], float64[2]"),
    ),
    (
        "no output",
        Program((V,), (ins("copy", (0,), ()),), (0,), (0,)),
        INFERRED,
        ("instruction 0 (copy)",),
    ),
    (
        "wrong number of operands",
        Program((V, V), (ins("add", (0,), (1,)),), (0,), (1,)),
        INFERRED,
        ("instruction 0 (add)", "takes operands (x, y), got 1"),
    ),
    (
        "flag that is no bool",
        Program((V, spec()), (ins("dot_general", (0, 0), (1,), **INNER, conj=(0, 1)),), (0,), (1,)),
        INFERRED,
        ("instruction 0 (dot_general)", "conj=(0, 1) must be two bools", "operands %0, %0"),
    ),
    (
        "flag for one operand",
        Program((V, spec()), (ins("dot_general", (0, 0), (1,), **INNER, conj=[True]),), (0,), (1,)),
        INFERRED,
        ("instruction 0 (dot_general)", "conj=(True,) must be two bools"),
    ),
    (
        "accumulator of another shape",
        Program((V, V), (ins("dot_general_add", (0, 0, 0), (1,), **INNER),), (0,), (1,)),
        INFERRED,
        ("instruction 0 (dot_general_add)", "shape (), acc (2,)", "operands %0, %0, %0"),
    ),
    (
        "accumulator of another dtype",
        Program(
            (V, spec(dtype="float32"), spec()),
            (ins("dot_general_add", (0, 0, 1), (2,), **INNER),),
            (0, 1),
            (2,),
        ),
        INFERRED,
        (
            "instruction 0 (dot_general_add)",
            "float64[2] and float32[] differ",
            "operands %0, %0, %1",
        ),
    ),
    (
        "factor that the dtype does not have",
        Program(
            (V, spec(), spec()),
            (ins("dot_general_add", (0, 0, 1), (2,), **INNER, alpha=1j),),
            (0, 1),
            (2,),
        ),
        INFERRED,
        ("instruction 0 (dot_general_add)", "alpha=1j is no float64"),
    ),
    (
        "unknown family",
        Program((V, V), (ins("extension:nowhere.op.v1", (0,), (1,)),), (0,), (1,)),
        INFERRED,
        ("instruction 0 (extension:nowhere.op.v1)", "import the package"),
    ),
    (
        "undeclared bound",
        Program((V, N, V), (CUT,), (0, 1), (2,)),
        DECIDED,
        ("instruction 0 (dynamic_truncate)", "axes (0,) of slot %2"),
    ),
    (
        "undeclared bound of a view",
        Program((V, N, CUT_V, V), (CUT, ins("reverse", (2,), (3,), axes=())), (0, 1), (3,)),
        DECIDED,
        ("instruction 1 (reverse)", "axes (0,) of slot %3"),
    ),
    (
        "computes with a bound",
        Program((V, N, CUT_V, CUT_V), (CUT, ins("negate", (2,), (3,))), (0, 1), (3,)),
        DECIDED,
        ("instruction 1 (negate)", "pad_to_match"),
    ),
    (
        "one among many",
        Program(
            (V, *[V] * 50),
            (*(ins("copy", (k,), (k + 1,)) for k in range(49)), ins("conj", (50,), (50,))),
            (0,),
            (49,),
        ),
        BEFORE,
        ("instruction 49 (conj)", "slot %50"),
    ),
]


@pytest.mark.parametrize(
    ("program", "rule", "fragments"),
    [row[1:] for row in ILL_FORMED],
    ids=[row[0] for row in ILL_FORMED],
)
def test_refused(program: Program, rule: str, fragments: tuple[str, ...]) -> None:
    with pytest.raises(ProgramError, match="ill-formed program") as caught:
        verify(program)
    message = str(caught.value)
    assert message.endswith(f"(rule: {rule})")
    for fragment in fragments:
        assert fragment in message


def test_every_rule_is_broken_once() -> None:
    assert {rule.name for rule in RULES} == {row[2] for row in ILL_FORMED}


WELL_FORMED = [
    Program((), (), (), ()),
    Program((V,), (), (0,), (0, 0)),
    Program((V, V), (), (1, 0), ()),
    Program((V, V, V), (COPY, ins("copy", (0,), (2,))), (0,), (1,)),
    Program((spec(0), spec(0)), (COPY,), (0,), (1,)),
]


@pytest.mark.parametrize("program", WELL_FORMED)
def test_accepted(program: Program) -> None:
    assert verify(program) is program


def test_not_quadratic() -> None:
    """Twenty thousand instructions are checked one after another, without recursion."""
    count = 20_000
    body = tuple(ins("copy", (k,), (k + 1,)) for k in range(count))
    program = Program((V,) * (count + 1), body, (0,), (count,))
    assert verify(program) is program
