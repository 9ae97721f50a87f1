"""common_subexpressions: programs written by hand with what becomes of them, and what holds afterwards."""

from __future__ import annotations

from typing import Any

from tests.program.rewrites.common import Rewrites

from einloom.program.builder import Builder
from einloom.program.ir import Program


def duplicates(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (2, 2)), b.input("f8", (2, 2))
    one, two = b("add", x, y), b("add", x, y)
    return b("multiply", one, two), two


def chains_of_duplicates(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (2,))
    one, two = b("conj", b("copy", x)), b("conj", b("copy", x))
    return (b("add", one, two),)


def not_duplicates(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (2, 2)), b.input("f8", (2, 2))
    b("add", y, x)
    b("reduce_sum", x, axes=(0,))
    b("reduce_sum", x, axes=(1,))
    b("multiply", x, y)
    return (b("add", x, y),)


def equal_constants_that_differ(b: Builder) -> tuple[int, ...]:
    values: list[Any] = [0.0, -0.0, 0, False, 0.0]
    return tuple(b("constant", value=value, dtype="object") for value in values)


REWRITES: Rewrites = [
    # program, listing afterwards
    (
        duplicates,
        ["%2 = add(%0, %1)", "%4 = multiply(%2, %2)", "return %4, %2"],
    ),
    (
        chains_of_duplicates,
        ["%1 = copy(%0)", "%2 = conj(%1)", "%5 = add(%2, %2)", "return %5"],
    ),
    (
        not_duplicates,
        [
            "%2 = add(%1, %0)",
            "%3 = reduce_sum(%0) [axes=(0,)]",
            "%4 = reduce_sum(%0) [axes=(1,)]",
            "%5 = multiply(%0, %1)",
            "%6 = add(%0, %1)",
            "return %6",
        ],
    ),
    (
        equal_constants_that_differ,
        [
            "%0 = constant() [dtype='object', value=0.0]",
            "%1 = constant() [dtype='object', value=-0.0]",
            "%2 = constant() [dtype='object', value=0]",
            "%3 = constant() [dtype='object', value=False]",
            "return %0, %1, %2, %3, %0",
        ],
    ),
]


def holds(program: Program) -> None:
    keys = [
        (ins.op, repr(ins.attributes), ins.inputs)
        for ins in program.instructions
        if ins.family is None
    ]
    assert len(set(keys)) == len(keys)
