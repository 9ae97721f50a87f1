"""When arrays are dropped, and the promised peak against what is really allocated."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.cases import lay_out
from tests.each import each
from tests.program.programs import random_program

from einloom._base.options import options
from einloom.backend.cpu import buffers, cpu
from einloom.program.builder import Builder
from einloom.program.executable import Executable
from einloom.program.extension import register_family, register_runtime, unregister_family
from einloom.program.ir import Program
from einloom.program.passes import optimise
from einloom.program.schedule import schedule

OBJECTS = 32 << 10  # bytes of Python objects during a call; the arrays here are far larger


def seen_in(program: Program) -> dict[int, set[int]]:
    """The slots in whose memory each slot may lie: its own, where it is not certainly a view."""
    seen = {slot: {slot} for slot in range(len(program.slots))}
    for ins in program.instructions:
        if ins.may_view:
            for slot in ins.outputs:
                seen[slot] = seen[ins.inputs[0]] | (set() if ins.is_view else {slot})
    return seen


def needed_until(program: Program, slot: int) -> int:
    """Index of the last instruction that reads or makes the slot or a slot in its memory."""
    family = [o for o, roots in seen_in(program).items() if o == slot or slot in roots]
    if any(other in program.outputs for other in family):
        return len(program.instructions)
    uses = [
        index
        for index, ins in enumerate(program.instructions)
        if set(family).intersection(ins.inputs + ins.outputs)
    ]
    return max(uses, default=-1)


def assert_drops(program: Program) -> None:
    """Every slot is dropped once, after its last use and that of its views, and no later."""
    plan = schedule(program, cpu())
    assert len(plan.dies_after) == len(program.instructions)
    dropped = {slot: index for index, dies in enumerate(plan.dies_after) for slot in dies}
    assert len(dropped) == sum(map(len, plan.dies_after))
    for slot in range(len(program.slots)):
        last = needed_until(program, slot)
        if 0 <= last < len(program.instructions):
            assert dropped[slot] == last, f"%{slot}"
        else:
            assert slot not in dropped, f"%{slot}"


def peak_by_definition(program: Program) -> int:
    """The largest sum of inputs, what is alive, and scratch, over all instructions."""
    ends = {slot: needed_until(program, slot) for slot in range(len(program.slots))}
    peak = inputs = sum(spec.nbytes for spec in program.specs(program.inputs))
    made: dict[int, int] = {}
    for index, ins in enumerate(program.instructions):
        if not ins.is_view:
            made.update((slot, index) for slot in ins.outputs)
        alive = sum(
            program.slots[slot].nbytes
            for slot, start in made.items()
            if start <= index <= ends[slot]
        )
        scratch = 0
        if ins.family is None:
            attrs = ins.at([0] * len(program.indices))
            given = program.inputs  # which may lie anyhow
            operands = tuple(
                (program.specs if slot in given else program.placed)((slot,))[0]
                for slot in ins.inputs
            )
            results = program.placed(ins.outputs)
            scratch = cpu().scratch_bytes(ins.op, attrs, operands, results)
        peak = max(peak, inputs + alive + scratch)
    return peak


@pytest.mark.parametrize("seeds", [range(k * 80, k * 80 + 80) for k in range(5)], ids=str)
def test_random_programs(seeds: range) -> None:
    for seed in seeds:
        for program in (random_program(seed), optimise(random_program(seed))):
            try:
                assert_drops(program)
                plan = schedule(program, cpu(), arena=0)
                assert plan.peak_bytes == peak_by_definition(program)
                assert -1 <= plan.peak_instruction < len(program.instructions)
            except AssertionError as error:
                error.add_note(f"random_program({seed}):\n{program}")
                raise


def test_view_of_a_view_keeps_the_memory() -> None:
    build = Builder()
    x = build.input("f8", (3, 3))
    made = build("copy", x)
    view = build("extract_diagonal", build("transpose", made, perm=(1, 0)), axes=(0, 1))
    for _ in range(3):
        x = build("conj", x)
    program = build.finish(build("copy", view), x)
    assert_drops(program)
    plan = schedule(program, cpu())
    assert plan.dies_after[0] == ()
    assert set(plan.dies_after[-1]) == {made, view}


def test_inputs_alone() -> None:
    build = Builder()
    x = build.input("f8", (100,))
    plan = schedule(build.finish(x), cpu())
    assert (plan.peak_bytes, plan.peak_instruction, plan.dies_after) == (800, -1, ())
    plan = schedule(build.finish(build("transpose", x, perm=(0,))), cpu())
    assert (plan.peak_bytes, plan.peak_instruction, plan.dies_after) == (800, -1, ((),))


def test_exact_however_large() -> None:
    build = Builder()
    x = build.input("int8", (10**200,))
    product = build("dot_general", x, x, batch=((), ()), contracting=((), ()))
    plan = schedule(build.finish(product), cpu())
    assert plan.peak_bytes >= 10**400 + 10**200
    assert type(plan.peak_bytes) is int


def test_results_of_extensions_count() -> None:
    name = "test.pair.v1"
    register_family(name, lambda attrs, inputs: (inputs[0], inputs[0]))
    register_runtime(name, "cpu", lambda attrs, x: (x.copy(), x.copy()))
    try:
        build = Builder()
        x = build.input("f8", (10,))
        one, other = build.extension(name, x)
        program = build.finish(build("copy", one))
        assert_drops(program)
        assert schedule(program, cpu()).peak_bytes == 3 * 80 == peak_by_definition(program)
        assert schedule(program, cpu()).dies_after == ((x, other), (one,))
    finally:
        unregister_family(name)


# ---- the promise, kept -------------------------------------------------------------------------


def measured(executable: Callable[..., Any], arrays: list[Any]) -> int:
    """Most bytes allocated at once during a call, beyond what there was before."""
    executable(*arrays)  # kernels are compiled and tables built
    kept, buffers.LENT = buffers.LENT, 1 << 62  # lent memory is not traced
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        executable(*arrays)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
        buffers.LENT = kept


def not_planned(program: Program) -> int:
    """Bytes of constant size: Python objects, and a buffer of NumPy's for each operand of a ufunc."""
    return OBJECTS + 3 * np.getbufsize() * max(spec.dtype.itemsize for spec in program.slots)


def dot(build: Builder, x: int, y: int, contracting: Any, batch: Any = ((), ())) -> int:
    return build("dot_general", x, y, contracting=contracting, batch=batch)


Make = Callable[[Builder, Any], int]


def elementwise_chain(b: Builder, dtype: Any) -> int:
    x, y = b.input(dtype, (300, 400)), b.input(dtype, (300, 400))
    x = b("add", b("multiply", x, y), b("conj", y))
    return b("add", b("copy", x), x)


def kept_for_later(b: Builder, dtype: Any) -> int:
    x = b.input(dtype, (300, 400))
    kept = [b("copy", x) for _ in range(4)]
    for one in kept:
        x = b("add", x, one)
    return x


def matrix_chain(b: Builder, dtype: Any) -> int:
    x, y, z = (b.input(dtype, shape) for shape in ((200, 300), (300, 250), (250, 150)))
    return dot(b, dot(b, x, y, ((1,), (0,))), z, ((1,), (0,)))


def packed_matrices(b: Builder, dtype: Any) -> int:
    """Axes that BLAS cannot read in place."""
    x, y = b.input(dtype, (20, 30, 40, 5)), b.input(dtype, (40, 8, 20))
    return dot(b, x, y, ((2, 0), (0, 2)))


def batched_matrices(b: Builder, dtype: Any) -> int:
    x, y = b.input(dtype, (30, 20, 40)), b.input(dtype, (25, 30, 20))
    return dot(b, x, y, ((0,), (1,)), ((1,), (2,)))


def tiny_matrices(b: Builder, dtype: Any) -> int:
    x, y = b.input(dtype, (3, 20000, 3)), b.input(dtype, (3, 3, 20000))
    return dot(b, x, y, ((2,), (0,)), ((1,), (2,)))


def outer_product(b: Builder, dtype: Any) -> int:
    return dot(b, b.input(dtype, (20, 30)), b.input(dtype, (40, 10)), ((), ()))


def conjugated_products(b: Builder, dtype: Any) -> int:
    """The larger operand is flagged, the smaller one, the one of more elements than all else, both."""
    x, y = (b.input(dtype, shape) for shape in ((300, 20), (20, 300)))
    x, y = (b("convert", slot, dtype="complex128") for slot in (x, y))
    axes = {"contracting": ((1,), (0,)), "batch": ((), ())}
    inner = b("dot_general", y, x, **axes, conj=(True, False))
    outer = b("dot_general", x, y, **axes, conj=(False, True))
    narrow = b("dot_general", outer, x, **axes, conj=(True, False))
    return b("dot_general", narrow, inner, **axes, conj=(True, True))


def added_products(b: Builder, dtype: Any) -> int:
    x, y, acc = (b.input(dtype, shape) for shape in ((300, 20), (20, 300), (300, 300)))
    axes = {"contracting": ((1,), (0,)), "batch": ((), ())}
    acc = b("dot_general_add", x, y, acc, **axes, alpha=3, beta=2)
    x, y, acc = (b("cast", slot, dtype="float16") for slot in (x, y, acc))
    return b("dot_general_add", x, y, acc, **axes)


def vectors(b: Builder, dtype: Any) -> int:
    x, y = b.input(dtype, (200_000,)), b.input(dtype, (200_000,))
    return dot(b, x, y, ((0,), (0,)))


def matrix_times_vector(b: Builder, dtype: Any) -> int:
    return dot(b, b.input(dtype, (10, 50_000)), b.input(dtype, (50_000,)), ((1,), (0,)))


def three_at_once(b: Builder, dtype: Any) -> int:
    operands = [b.input(dtype, shape) for shape in ((60, 70), (70, 50), (50, 60))]
    return b("sum_product", *operands, terms=((0, 1), (1, 2), (2, 0)), output=(0,))


def hyperedge_at_once(b: Builder, dtype: Any) -> int:
    operands = [b.input(dtype, (40, n)) for n in (60, 50, 30)]
    return b("sum_product", *operands, terms=((0, 1), (0, 2), (0, 3)), output=(1, 2))


def sums(b: Builder, dtype: Any) -> int:
    x = b("reduce_sum", b.input(dtype, (50, 40, 60)), axes=(1,))
    return b("reduce_sum", x, axes=(0, 1))


def diagonals(b: Builder, dtype: Any) -> int:
    x = b("extract_diagonal", b.input(dtype, (300, 300)), axes=(0, 1))
    return b("reduce_sum", b("embed_diagonal", x, axis=0, copies=1), axes=(0,))


def reshaped(b: Builder, dtype: Any) -> int:
    """Copied or not; a view of the copy outlives it."""
    x = b("transpose", b.input(dtype, (300, 40, 10)), perm=(1, 0, 2))
    flat = b("reshape", b("contiguous", x), shape=(40, 3000))
    turned = b("transpose", b("reshape", flat, shape=(3000, 40)), perm=(1, 0))
    y = b("reshape", b("copy", b("copy", turned)), shape=(120_000,))
    return b("add", y, b("reshape", turned, shape=(120_000,)))


def in_several_steps(b: Builder, dtype: Any) -> int:
    """Elementwise ops with temporaries, of arrays below and above the size that is cut."""
    x, y = b.input(dtype, (300, 700)), b.input(dtype, (300, 700))
    x = b("power", b("divide", x, y), b("reciprocal", y))
    x = b("convert", b("cast", b("sign", x), dtype="int32"), dtype="float64")
    return b("cast", b("round_half_away", b("rsqrt", x)), dtype="uint8")


def conversions(b: Builder, dtype: Any) -> int:
    x = b("convert", b.input(dtype, (300, 400)), dtype="complex128")
    return b("convert", b("conj", x), dtype="clongdouble")


PROGRAMS: list[Make] = [
    elementwise_chain,
    kept_for_later,
    matrix_chain,
    packed_matrices,
    batched_matrices,
    tiny_matrices,
    outer_product,
    conjugated_products,
    added_products,
    vectors,
    matrix_times_vector,
    three_at_once,
    hyperedge_at_once,
    sums,
    diagonals,
    conversions,
    reshaped,
    in_several_steps,
]


@pytest.mark.parametrize("small", [0, math.inf], ids=["kernels", "no kernels"])
@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
@each("layout", ["C", "transposed", "reversed", "sliced", "unaligned"])
def test_peak_is_an_upper_bound(
    make: Make, dtype: str, small: float, layout: str, rng: np.random.Generator
) -> None:
    """Of what is allocated in a call, for operands anywhere in memory."""
    build = Builder()
    program = build.finish(make(build, np.dtype(dtype)))
    inputs = program.specs(program.inputs)
    arrays = [lay_out(np.ones(spec.shape, spec.dtype), layout, rng) for spec in inputs]
    with options(small=small, threads=2):
        executable = Executable(program, cpu())
        promised = executable.peak_bytes - sum(spec.nbytes for spec in inputs)
        assert measured(executable, arrays) <= promised + not_planned(program)


@pytest.mark.parametrize(
    "make", [elementwise_chain, kept_for_later], ids=lambda make: make.__name__
)
def test_peak_is_exact_without_scratch(make: Make) -> None:
    """Arrays are dropped as planned: no more, and no less, than promised is alive."""
    build = Builder()
    program = build.finish(make(build, np.dtype("f8")))
    executable = Executable(program, cpu())
    inputs = program.specs(program.inputs)
    promised = executable.peak_bytes - sum(spec.nbytes for spec in inputs)
    got = measured(executable, [np.ones(spec.shape) for spec in inputs])
    assert promised <= got <= promised + not_planned(program)
