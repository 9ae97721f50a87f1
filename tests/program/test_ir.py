"""The listing of a program, and its values: frozen, hashable, comparable."""

from __future__ import annotations

import pickle

import pytest

from einloom.program.builder import Builder
from einloom.program.ir import Instruction, Program, freeze, instruction

LISTING = """\
program(%0: float32[2,3], %1: float32[2,3])
  %2 = transpose(%1) [perm=(1,0)]  # float32[3,2], view
  %3 = dot_general(%0, %2) [batch=((),()), contracting=((1,),(0,))]  # float32[2,2], 16 B
  %4 = constant() [dtype='float32', value=0.5]  # float32[], 4 B
  %5 = broadcast_in_dim(%4) [axes=(), shape=(2,2)]  # float32[2,2], view
  %6 = multiply(%3, %5)  # float32[2,2], 16 B
  %7 = convert(%6) [dtype='complex128']  # complex128[2,2], 64 B
  return %7, %3"""


def listed() -> Program:
    build = Builder()
    a, b = build.input("float32", (2, 3)), build.input("float32", (2, 3))
    turned = build("transpose", b, perm=(1, 0))
    product = build("dot_general", a, turned, contracting=((1,), (0,)), batch=((), ()))
    half = build("constant", value=0.5, dtype="float32")
    halves = build("broadcast_in_dim", half, shape=(2, 2), axes=())
    wide = build("convert", build("multiply", product, halves), dtype="complex128")
    return build.finish(wide, product)


def test_listing() -> None:
    assert str(listed()) == LISTING


def test_empty_program() -> None:
    assert str(Builder().finish()) == "program()\n  return "


def test_op_counts() -> None:
    counts = listed().op_counts
    assert counts["dot_general"] == 1
    assert counts["nothing"] == 0
    assert sum(counts.values()) == 6


def test_values() -> None:
    program = listed()
    assert program == listed()
    assert hash(program) == hash(listed())
    assert pickle.loads(pickle.dumps(program)) == program
    with pytest.raises(AttributeError):
        program.inputs = ()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        program.instructions[0].op = "copy"  # type: ignore[misc]


def test_instruction() -> None:
    ins = instruction("convert", (0,), (1,), {"dtype": "int8"})
    assert ins == Instruction("convert", (("dtype", "int8"),), (0,), (1,))
    assert (ins.family, ins.is_view, ins.attrs) == (None, False, {"dtype": "int8"})
    ins = instruction("extension:linalg.svd.v1", (0,), (1, 2), {"b": [1, [2]], "a": 1})
    assert ins.attributes == (("a", 1), ("b", (1, (2,))))
    assert (ins.family, ins.is_view) == ("linalg.svd.v1", False)
    assert str(ins) == "%1, %2 = extension:linalg.svd.v1(%0) [a=1, b=(1,(2,))]"
    assert instruction("transpose", (0,), (1,), {"perm": ()}).is_view


def test_freeze() -> None:
    assert freeze([1, [2, (3,)], "a"]) == (1, (2, (3,)), "a")
    assert freeze("text") == "text"
