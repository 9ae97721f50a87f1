"""Random programs over ops of every group that has kernels, whose results are exact in every dtype.

Every slot keeps a bound of its numbers, integers in every dtype, and nothing is built that could
exceed what its dtype holds exactly: any correct way to run a program then gives the same bits.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from tests.backend.laws import meaning
from tests.cases import lay_out
from tests.program import elementwise_programs, moving_programs, summing_programs
from tests.program.growing import EXACT, GROW, Growing
from tests.program.indexing_programs import RULES

from einloom._base.options import options
from einloom.backend.contraction import Contraction, Orders
from einloom.backend.matrices import Products
from einloom.program.ir import Program

# importing a family enters its rules
FAMILIES = (moving_programs, elementwise_programs, summing_programs)
GROW |= RULES

layout_assignment: Any = import_module("einloom.program.passes.layout_assignment")

Array = np.ndarray[Any, Any]

SELDOM = (
    "power",
    "atan2",
    "remainder",
    "slice_at",
    "rfft",
    "irfft",
    "ifft",
    "erf",
    "extract_diagonal",
    "round_half_away",
    "threefry2x32",
)  # they need room, or a detour
OFTEN = (
    "transpose",
    "dot_general",
    "dot_general",
    "dot_general",
    "add",
    "conj",
    "reshape",
    "squeeze",
)
REDUCTIONS = frozenset(("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_mean"))


def repeat(g: Growing) -> None:
    """The same call again, for common subexpressions."""
    if g.calls:
        slot, op, operands, attrs = g.random.choice(g.calls)
        g.bounds |= dict.fromkeys(g.build.several(op, *operands, **attrs), g.bounds[slot])


def random_program(seed: int) -> Program:
    """A verified program of a dozen instructions or so, with one to three results."""
    g = Growing(seed)
    own = g.random.choice(tuple(EXACT))
    for _ in range(g.random.randint(1, 4)):
        dtype = own if g.random.random() < 0.7 else g.random.choice(tuple(EXACT))
        shape = [g.random.choice((1, 2, 2, 3, 3)) for _ in range(g.random.randint(0, 3))]
        if shape and g.random.random() < 0.05:
            shape[0] = 0
        slot = g.build.input(dtype, tuple(shape))
        g.bounds[slot] = EXACT["bool"] if dtype == "bool" else 2
    ops = [*GROW, *SELDOM, *OFTEN * 4]
    for _ in range(g.random.randint(0, 20)):
        if g.random.random() < 0.12:
            repeat(g)
        else:
            GROW[g.random.choice(ops)](g)
    outputs = [g.any_slot() for _ in range(g.random.choice((1, 1, 1, 2, 3)))]
    return g.build.finish(*(slot for slot in outputs if slot is not None))


def random_arrays(program: Program, seed: int) -> list[Array]:
    """Small integers in every dtype, in various places in memory."""
    rng = np.random.default_rng(seed)
    arrays = []
    for spec in program.specs(program.inputs):
        x = np.asarray(rng.integers(0 if spec.dtype.kind == "b" else -2, 3, spec.shape))
        if spec.dtype.kind == "c":
            x = x + 1j * rng.integers(-2, 3, spec.shape)
        layout = ("C", "transposed", "sliced", "reversed", "readonly")[seed % 5]
        arrays.append(lay_out(np.asarray(x, spec.dtype), layout, rng))
    return arrays


def random_indices(program: Program, seed: int) -> tuple[int, ...]:
    """A value for every static index."""
    draw = random.Random(seed)
    return tuple(draw.randrange(index.size) for index in program.indices)


def by_laws(
    program: Program, arrays: Sequence[Array], indices: Sequence[int] = ()
) -> tuple[Array, ...]:
    """The results by the definitions of the ops, one after another."""
    values = dict(zip(program.inputs, arrays, strict=True))
    for ins in program.instructions:
        operands = [values[slot] for slot in ins.inputs]
        made = meaning(ins.op, ins.at(indices), operands, program.specs(ins.outputs))
        values |= dict(zip(ins.outputs, made, strict=True))
    return tuple(values[slot] for slot in program.outputs)


def forced(program: Program, wanted: bool = True) -> AbstractContextManager[Any]:
    """Compiled kernels for small arrays too, unless one would be compiled for a program alone."""
    wanted = wanted and not REDUCTIONS & set(program.op_counts)
    return options(small=0 if wanted else 10**9)


def any_layouts(patch: pytest.MonkeyPatch) -> None:
    """Small slots have layouts too, and whichever: not row-major where there is another."""

    def costs(step: Contraction, orders: Orders) -> Products:
        is_row_major = orders[2] is not None and orders[2] == tuple(sorted(orders[2]))
        seconds = crc32(repr(orders).encode()) + (is_row_major << 40)
        return Products(seconds, 0, (False, False, False))

    patch.setattr(layout_assignment, "LEAST", 0)
    patch.setattr(layout_assignment, "RATES", dict.fromkeys("?bBhHiIlLqQefdgFDGO", 1.0))
    patch.setattr(layout_assignment, "plan_products", costs)


def as_tuple(results: Any) -> tuple[Array, ...]:
    return results if isinstance(results, tuple) else (results,)


def assert_same(got: Any, want: Any) -> None:
    """Equal in number, dtypes, shapes and every element."""
    got, want = as_tuple(got), as_tuple(want)
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)
