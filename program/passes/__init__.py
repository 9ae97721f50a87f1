"""The pass pipeline: each pass is `Program -> Program`, keeps results, and stands in its own file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..ir import Program
from .common_subexpressions import common_subexpressions
from .conj_folding import conj_folding
from .conj_sinking import conj_sinking
from .dead_code import dead_code
from .dot_decomposition import dot_decomposition
from .dot_dimension_sorting import dot_dimension_sorting
from .fft_folding import fft_folding
from .layout_assignment import layout_assignment
from .layout_simplification import layout_simplification
from .singleton_reduction import singleton_reduction
from .transpose_folding import transpose_folding


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewrite of whole programs and what it promises."""

    name: str
    law: str
    postcondition: str
    run: Callable[[Program], Program]


PIPELINE: tuple[Pass, ...] = (
    Pass(
        "singleton_reduction",
        "a reduction over axes of size 1 is a squeeze; dot_general sums over none of them",
        "no axis of size 1 is contracted; none is a batch or all that is reduced, unless it is shown",
        singleton_reduction,
    ),
    Pass(
        "conj_sinking",
        "conj(conj x) = x, conj(real x) = x; conj(op x) = op(conj x) if fewer are conjugated",
        "no conj reads a conj, a real dtype, or, unless it is shown, a view that only it reads",
        conj_sinking,
    ),
    Pass(
        "conj_folding",
        "dot(conj x, y) = dot(x, y; conj=(True, False)) if nothing else reads the conj",
        "no dot_general reads a complex conj, or views of it, that nothing else reads",
        conj_folding,
    ),
    Pass(
        "layout_simplification",
        "a view of a view is one view: transposes, reshapes, slices, reverses, broadcasts",
        "no view yields its operand; none reads its own kind, but for reshapes that several read",
        layout_simplification,
    ),
    Pass(
        "transpose_folding",
        "dot(transpose_p(x), y; axes) = dot(x, y; p[axes]) if free axes keep their order",
        "no dot_general reads a transpose that could be folded",
        transpose_folding,
    ),
    Pass(
        "dot_dimension_sorting",
        "dot(x, y; pairs of contracted axes) = dot(x, y; the same pairs in another order)",
        "the contracted axes of each dot_general increase, on the side where they are neighbours",
        dot_dimension_sorting,
    ),
    Pass(
        "fft_folding",
        "ifft(fft x) = N x along the same axes; c fft(x) = fft(c x) = fft(x; scale=c)",
        "no transform reads its inverse, nor a product with a number that nothing else reads",
        fft_folding,
    ),
    Pass(
        "common_subexpressions",
        "op[a](x) computed twice is computed once",
        "no two instructions have equal op, attributes and inputs",
        common_subexpressions,
    ),
    Pass(
        "dead_code",
        "an instruction none of whose results is used is dropped; slots are renumbered",
        "every slot is an input, an output, or read by an instruction",
        dead_code,
    ),
    Pass(
        "layout_assignment",
        "an array is the same in whatever order its axes lie in memory",
        "a slot has a layout only if a dot_general makes it, and one other reads or an output shows it",
        layout_assignment,
    ),
)
"""In order; the precondition of every pass is a verified program, and it returns one.

Axes of size 1 go first, since views come of them; conjugates leave the views that later passes merge and
fold, and become flags of the products that alone read them. What all of these made alike is then computed
once, and what nobody reads is dropped. What is left is given its order in memory. What an output is, or is
a view of, is shown.
"""

CANONICAL_PRODUCTS: tuple[Pass, ...] = (
    Pass(
        "dot_decomposition",
        "dot(x, y) = reshape(dot([batch, M, K], [batch, K, N]))",
        "every dot_general is one canonical product of batches of matrices",
        dot_decomposition,
    ),
)
"""On demand, for a backend without other products of matrices; `PIPELINE` then tidies up."""


def optimise(program: Program, order: str = "K") -> Program:
    """`program` after every pass of the pipeline, its results in row-major ("C") or column-major ("F") order
    if that is asked for."""
    *_, (_, after) = stages(program, order)
    return after


def stages(program: Program, order: str = "K") -> Iterator[tuple[str, Program]]:
    """The program as lowered and after each pass, by name."""
    yield "lowered", program
    for one in PIPELINE[:-1]:
        program = one.run(program)
        yield one.name, program
    yield PIPELINE[-1].name, layout_assignment(program, order)
