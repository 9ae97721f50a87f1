"""Products in turn, by one call of a kernel: which products, with what memory, and the same results."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.cases import lay_out
from tests.program.test_chains import (
    EINSUMS,
    PRODUCT,
    THREE,
    TWO,
    Make,
    built,
    chain,
    check_einsum,
    conjugated,
    dot,
    elementwise_between,
    inputs,
    integers,
    mixed,
    no_lanes,
    one_input_twice,
    read_twice,
    returned,
    summed_lanes,
    tree,
    turned_behind,
    turned_between,
)
from tests.program.test_schedule import measured, not_planned

import einloom
from einloom._base.options import options
from einloom.backend.cost_model import MODELS, NARROW, CostModel
from einloom.backend.cpu import cpu, sequence
from einloom.backend.cpu import threads as pool
from einloom.backend.cpu.workspaces import WORKSPACES
from einloom.backend.fusion import ProductFusionPlan
from einloom.backend.sequence import LONGEST, pays, steps_of
from einloom.backend.strips import IN_TURN
from einloom.program.builder import Builder
from einloom.program.executable import Executable
from einloom.program.fused import Fused, fuse, has_chains, has_sequences
from einloom.program.ir import Program
from einloom.program.schedule import schedule
from einloom.program.sequences import sequences

ONE = f"fused[{PRODUCT}]"
FUSED: list[tuple[Make, list[str]]] = [
    (chain, [TWO]),
    (tree, [THREE]),
    (turned_between, [f"fused[{PRODUCT}, transpose, {PRODUCT}]"]),
    (turned_behind, [TWO, "transpose"]),
    (read_twice, [ONE, TWO]),
    (returned, [ONE] * 2),
    (one_input_twice, [TWO]),
    (conjugated, [PRODUCT] * 2),
    (elementwise_between, [ONE, "negate", ONE]),
    (no_lanes, [ONE]),
    (summed_lanes, [TWO]),
    (integers, [PRODUCT] * 2),
    (mixed, [ONE, PRODUCT, ONE]),
]
SLOW = [pytest.param(x, marks=pytest.mark.slow) for x in ("f4", "c8")]  # kernels of their own
MATRICES: Any = ((1,), (0,)), ((), ())
SUMS = 20000  # contracted elements: shares of them are added up apart


def mps(b: Builder, sites: int = 12, bond: int = 19, physical: int = 100) -> int:
    """The inner product of two matrix product states, but for its ends."""
    found = b.input("f8", (bond, bond))
    for _ in range(sites):
        one, other = (b.input("f8", (physical, bond, bond)) for _ in range(2))
        half = dot(b, one, found, ((2,), (0,)), ((), ()))  # p i k
        found = dot(b, half, other, ((0, 1), (0, 1)), ((), ()))
    return found


def long_sums(b: Builder) -> tuple[int, ...]:
    """The last product is added up in shares."""
    x, y, z = b.input("f8", (6, 7)), b.input("f8", (7, SUMS)), b.input("f8", (SUMS, 5))
    xy = dot(b, x, y, ((1,), (0,)), ((), ()))
    return (dot(b, xy, z, ((1,), (0,)), ((), ())),)


def shares_inside(b: Builder) -> tuple[int, ...]:
    w = b.input("f8", (5, 4))
    (found,) = long_sums(b)
    return (dot(b, found, w, ((1,), (0,)), ((), ())),)


@pytest.fixture(autouse=True)
def model() -> Iterator[None]:
    """That of processors with AVX-512, wherever this runs."""
    MODELS.use(CostModel())
    yield
    MODELS.use(None)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(
    ("make", "ops"),
    [*FUSED, (long_sums, [TWO]), (shares_inside, [THREE])],
    ids=[*(row[0].__name__ for row in FUSED), "long sums", "shares inside"],
)
def test_what_runs(make: Make, ops: list[str], threads: int, rng: np.random.Generator) -> None:
    """And that it gives what the members give, also into an `out` with gaps."""
    program = built(make)
    arrays = inputs(program, rng)
    with options(engine="sequence", threads=threads):
        executable = Executable(program, cpu())
        assert [ins.op for ins in executable.schedule.program.instructions] == ops
        got = executable(*arrays)
        want = executable.interpret(*arrays)
        for one, other in zip(np.atleast_1d(got), np.atleast_1d(want), strict=True):
            np.testing.assert_array_equal(one, other)
        if len(program.outputs) == 1:
            out = np.full((*want.shape, 2), 7, want.dtype)[..., 0]
            assert executable(*arrays, out=out) is out
            np.testing.assert_array_equal(out, want)
            whole = np.full(want.shape, 7, want.dtype)
            np.testing.assert_array_equal(executable(*arrays, out=whole), want)


def plan_of(program: Program) -> ProductFusionPlan:
    (group,) = sequences(program, cpu(), set())
    return group.plan


def test_a_chain_of_some_size_is_one_call() -> None:
    """As it is found by itself, and where nothing forbids it."""
    program = built(lambda b: (mps(b),))
    with options(threads=2):
        plan = plan_of(program)
        assert not plan.lanes
        assert len(plan.steps) == 24
        assert pays(plan)
        fused = fuse(program, cpu())
        assert has_chains(fused)
        assert has_sequences(fused)
        assert len(fused.instructions) == 1
        for without in ("products", "in_turn"):
            assert not has_chains(fuse(program, cpu(), **{without: False}))
        for forbidden in ({"provider": "plain"}, {"engine": "gemm"}, {"engine": "strips"}):
            with options(**forbidden):
                assert fuse(program, cpu()) is program
        with options(small=math.inf):
            assert fuse(program, cpu()) is program


def test_what_is_no_sequence() -> None:
    """Little work, few products, and large ones, which have threads of their own; and none at all where
    strips are slow."""
    MODELS.use(NARROW)
    assert sequences(built(lambda b: (mps(b),)), cpu(), set()) == ()
    MODELS.use(CostModel())
    assert not pays(plan_of(built(lambda b: (mps(b, 12, 3, 10),))))
    assert sequences(built(lambda b: (mps(b, 1),)), cpu(), set()) == ()
    side = round(LONGEST ** (1 / 3)) + 1
    build = Builder()
    x = y = build.input("f8", (side, side))
    for _ in range(5):
        y = dot(build, y, x, ((1,), (0,)), ((), ()))
    assert sequences(build.finish(y), cpu(), set()) == ()
    program = built(lambda b: (mps(b),))
    assert sequences(program, cpu(), {*range(len(program.instructions))}) == ()


def test_large_products_end_sequences() -> None:
    """What comes before is one, and what comes behind."""
    build = Builder()
    found = mps(build)
    large = build.input("f8", (19, 19, 30000))
    found = dot(build, found, large, ((0, 1), (0, 1)), ((), ()))  # 30000
    wide = build.input("f8", (30000, 300))
    found = dot(build, found, wide, ((0,), (0,)), ((), ()))  # 300
    groups = sequences(build.finish(found), cpu(), set())
    assert [len(group.members) for group in groups] == [24]


def test_steps_have_the_axes_that_they_make() -> None:
    with options(engine="sequence"):
        (group,) = sequences(built(turned_between), cpu(), set(), 1)
    steps, axes = steps_of(group.plan)
    assert [step.operands for step in steps] == [(0, 1), (2, 3)]
    assert [step.out.shape for step in steps] == [(900, 3, 3)] * 2
    assert axes == (0, 1, 2)
    first, second = (step.dims for step in steps)
    assert (first.lhs_contracting, first.rhs_contracting) == ((2,), (1,))
    assert (second.lhs_contracting, second.rhs_contracting) == ((2,), (2,))


# ---- memory and threads --------------------------------------------------------------------------


def large_tree(b: Builder) -> tuple[int, ...]:
    x, y, z, w = (b.input("f8", (360, 360)) for _ in range(4))
    axes: Any = ((1,), (0,)), ((), ())
    return (dot(b, dot(b, x, y, *axes), dot(b, z, w, *axes), *axes),)


def many_matrices(b: Builder) -> tuple[int, ...]:
    """Made within the program, so that none is another's memory."""
    y = x = b("negate", b.input("f8", (60000, 2, 2)))
    for _ in range(4):
        y = dot(b, y, x)
    return (y,)


def many_steps(b: Builder) -> tuple[int, ...]:
    y = x = b.input("f8", (4, 4))
    for _ in range(200):
        y = dot(b, y, x, ((1,), (0,)), ((), ()))
    return (y,)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "make",
    [chain, tree, turned_behind, long_sums, shares_inside, large_tree, many_matrices, many_steps],
)
def test_peak_is_a_bound(make: Make, threads: int, rng: np.random.Generator) -> None:
    program = built(make)
    arrays = inputs(program, rng)
    given = sum(x.nbytes for x in arrays)
    for layout in ("C", "unaligned"):
        laid = [lay_out(x, layout, rng) for x in arrays]
        with options(engine="sequence", threads=threads):
            executable = Executable(program, cpu())
            executable(*laid)

            def call(*operands: Any, run: Executable = executable) -> Any:
                WORKSPACES.clear()
                return run(*operands)

            assert measured(call, laid) <= executable.peak_bytes - given + not_planned(program)


def test_others_are_grouped_where_a_sequence_would_hold_too_much() -> None:
    """Previously failed: chains across lanes went with it."""
    build = Builder()
    x, y = (build.input("f8", (200000, 3, 3)) for _ in range(2))
    lanes = dot(build, dot(build, x, y), x)
    found = build.input("f8", (150, 150))
    for _ in range(600):  # each has an operand that is dead at once, unless a sequence reads it
        other = build("exp", build.input("f8", (150, 150)))
        found = dot(build, found, other, ((1,), (0,)), ((), ()))
    program = build.finish(lanes, found)
    with options(threads=2):
        assert lanes_of(fuse(program, cpu())) == {True, False}
        assert lanes_of(schedule(program, cpu(), fork=False).program) == {True}


def lanes_of(program: Program) -> set[bool]:
    """Whether fused products have lanes."""
    return {bool(ins.plan.lanes) for ins in program.instructions if has_plan(ins)}


def has_plan(ins: Any) -> bool:
    return isinstance(ins, Fused) and isinstance(ins.plan, ProductFusionPlan)


def test_none_beside_subtrees(rng: np.random.Generator) -> None:
    """Where these run side by side, and what is shown of them. Previously failed: what ran was not shown."""

    def joined(b: Builder) -> tuple[int, ...]:
        return (dot(b, mps(b), mps(b), ((0,), (0,)), ((), ())),)

    program = built(joined)
    arrays = [rng.standard_normal(x.shape) / 19 for x in program.specs(program.inputs)]
    with options(threads=2):
        executable = Executable(program, cpu())
        assert len(executable.parts) == 2
        assert not any(has_chains(part.schedule.program) for part in executable.parts)
        assert not any(map(has_chains, executable.running))
        np.testing.assert_array_equal(executable(*arrays), executable.profile(*arrays))


def test_results_make_room_for_others() -> None:
    """A long chain needs no more than two results at once."""
    scratch = []
    for sites in (4, 40):
        (ins,) = fuse(built(lambda b, n=sites: (mps(b, n),)), cpu()).instructions
        assert isinstance(ins, Fused)
        scratch.append(ins.scratch_bytes / sites)
    assert scratch[1] < scratch[0] / 2


@pytest.mark.parametrize("dtype", [SLOW[0], "f8", "c16"])
def test_threads_agree(dtype: str, rng: np.random.Generator) -> None:
    """One, two and seven, and eight Python threads at once; tables of other strides in turn."""
    equation = "ab,cbd,cae,edf->f"
    shapes = ((19, 23), (150, 23, 17), (150, 19, 29), (29, 17, 40))
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    if dtype == "c16":
        arrays = [x + 1j * rng.standard_normal(x.shape) for x in arrays]
    others = [np.asfortranarray(x) for x in arrays]
    found = []
    with options(engine="sequence"):
        expression = einloom.compile(equation, *arrays)

    def contract(threads: int) -> bytes:
        with options(threads=threads):
            results = [expression(*given).tobytes() for given in (arrays, others, arrays)]
        assert results[0] == results[2]
        return results[0]

    with ThreadPoolExecutor(8) as executor:
        found = [*executor.map(contract, (1, 2, 7) * 8)]
    assert len(set(found)) == 1
    want = np.einsum(equation, *arrays, optimize=True)
    got = np.frombuffer(found[0], dtype)
    np.testing.assert_allclose(got, want, rtol=1e-3 if dtype == "f4" else 1e-10)


def test_who_comes_late_or_never_is_not_waited_for(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller alone, and threads that come when all is done."""
    program = built(lambda b: (mps(b, 3),))
    arrays = inputs(program, rng)
    with options(engine="sequence", threads=4):
        executable = Executable(program, cpu())
        want = executable.interpret(*arrays)
        monkeypatch.setattr(pool._Pool, "call", lambda self, job, workers: None)  # nobody is asked
        np.testing.assert_array_equal(executable(*arrays), want)


def test_who_comes_too_late_writes_nothing(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that begin when the caller has long used its memory for something else."""
    program = built(lambda b: (mps(b, 3),))
    arrays = inputs(program, rng)
    asked: list[Any] = []

    with options(engine="sequence", threads=3):
        executable = Executable(program, cpu())
        want = executable(*arrays)
        monkeypatch.setattr(sequence, "invite", lambda run, threads: (asked.append(run), run(0)))
        got = [executable(*(k * x for x in arrays)) for k in (1, -1)]
        kept = [x.copy() for x in got]
        for run in asked:
            run(1)
            run(2)
        np.testing.assert_array_equal(got[0], want)
        for one, other in zip(got, kept, strict=True):
            np.testing.assert_array_equal(one, other)


def test_errors_of_other_threads_are_no_matter(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory that is short, say; the caller's own are raised."""
    program = built(lambda b: (mps(b, 3),))
    arrays = inputs(program, rng)
    caller = threading.get_ident()
    take = WORKSPACES.take

    def fails(nbytes: int, everywhere: bool = False) -> Any:
        if everywhere or threading.get_ident() != caller:
            raise MemoryError
        return take(nbytes)

    with options(engine="sequence", threads=3):
        executable = Executable(program, cpu())
        want = executable(*arrays)
        monkeypatch.setattr(WORKSPACES, "take", fails)
        for _ in range(20):
            np.testing.assert_array_equal(executable(*arrays), want)
        monkeypatch.setattr(WORKSPACES, "take", partial(fails, everywhere=True))
        with pytest.raises(MemoryError):
            executable(*arrays)


def test_operands_that_are_broadcast(rng: np.random.Generator) -> None:
    program = built(chain)
    x = rng.integers(-2, 3, (3, 3)).astype("f8")
    arrays = [np.broadcast_to(x, spec.shape) for spec in program.specs(program.inputs)]
    with options(engine="sequence", threads=2):
        found = Executable(program, cpu())(*arrays)
    np.testing.assert_array_equal(found, np.broadcast_to(x @ x @ x, found.shape))


def test_complex_numbers_between_lines() -> None:
    """At an address of 8 modulo 16 they are aligned. Previously failed: tables were made in every call."""
    program = built(lambda b: (dot(b, *(b.input("c16", (40, 40)) for _ in range(2)), *MATRICES),))
    whole = np.ones(2 * 1600 + 1, np.float64)
    x = whole[1:].view("c16").reshape(40, 40) if whole.ctypes.data % 16 == 0 else whole[:-1]
    x = x.view("c16").reshape(40, 40)
    with options(engine="sequence"):
        executable = Executable(program, cpu())
        made = sequence._tables
        count = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sequence, "_tables", lambda *given: count.append(1) or made(*given))
            for _ in range(3):
                np.testing.assert_array_equal(executable(x, x), x @ x)
    assert len(count) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_in_a_forked_child(rng: np.random.Generator) -> None:
    program = built(lambda b: (mps(b, 3),))
    arrays = inputs(program, rng)
    with options(engine="sequence", threads=2):
        executable = Executable(program, cpu())
        want = executable(*arrays)
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(executable(*arrays), want) else 1)
        assert os.waitpid(child, 0)[1] == 0


# ---- einsum --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("equation", "shapes"), EINSUMS)
@pytest.mark.parametrize("dtype", [*SLOW, "f8", "c16", "i8"])
def test_einsum(equation: str, shapes: Any, dtype: str, rng: np.random.Generator) -> None:
    check_einsum("sequence", equation, shapes, dtype, rng)


def test_nothing_to_do() -> None:
    with options(engine="sequence"):
        for shape in ((0, 3, 3), (9, 0, 0)):
            x = np.ones(shape)
            assert einloom.einsum("bij,bjk,bkl->bil", x, x, x).shape == shape


def test_special_values(rng: np.random.Generator) -> None:
    """NaN and infinities are where the steps one by one have them."""
    shapes = ((40, 50), (50, 60), (60, 70))
    arrays = [rng.standard_normal(shape) for shape in shapes]
    arrays[0][3, 4], arrays[2][5, 6] = np.nan, np.inf
    want = np.linalg.multi_dot(arrays)
    with options(engine="sequence"):
        got = einloom.einsum("ij,jk,kl->il", *arrays)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want)


def test_in_slices(rng: np.random.Generator) -> None:
    """The products of a slice are in turn like others; those of a view at an index stay by themselves."""
    equation, shapes = "xbij,xbjk,bkl->bil", ((4, 900, 3, 3), (4, 900, 3, 3), (900, 3, 3))
    arrays = [rng.integers(-2, 3, shape).astype("f8") for shape in shapes]
    whole = einloom.plan(equation, *shapes)
    with options(engine="sequence"):
        plan = einloom.plan(equation, *shapes, memory_limit=whole.peak_bytes * 95 // 100)
        expression = einloom.compile(plan)
        np.testing.assert_array_equal(expression(*arrays), np.einsum(equation, *arrays))


def test_explain_shows_what_runs(rng: np.random.Generator) -> None:
    equation, shapes = EINSUMS[0]
    arrays = [rng.standard_normal(shape) for shape in shapes]
    with options(engine="sequence"):
        expression = einloom.compile(equation, *shapes)
        for text in (expression.explain(), expression.explain(*arrays)):
            row = text.splitlines()[1].split()
            assert row[:4] == ["0", "fused[2", "ops]", "sequence"]


def test_shares_are_of_some_size() -> None:
    """So that none is a few numbers, and there are some for several threads."""
    plan = plan_of(built(lambda b: (mps(b),)))
    steps, _ = steps_of(plan)
    work = steps[1].dims.m * steps[1].dims.n * steps[1].dims.k
    assert work > 4 * IN_TURN
