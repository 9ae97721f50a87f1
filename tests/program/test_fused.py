"""Groups run as one instruction: which, with what memory, and the same results as their members."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.backend.chains import Chain, assert_chain, inputs_of, random_chain
from tests.cases import lay_out
from tests.program.programs import (
    Array,
    as_tuple,
    assert_same,
    by_laws,
    random_arrays,
    random_indices,
    random_program,
)
from tests.program.test_memory import assert_laid_out
from tests.program.test_schedule import measured, not_planned

from einloom._base.options import options
from einloom.backend.cpu import contraction, cpu
from einloom.backend.cpu import fused as kernels
from einloom.backend.cpu.jit import Kernel
from einloom.backend.fusion import ElementwiseFusionPlan
from einloom.backend.spec import ArraySpec
from einloom.program import executable as module
from einloom.program import schedule as scheduling
from einloom.program.builder import Builder
from einloom.program.executable import Executable
from einloom.program.fused import Fused, fuse
from einloom.program.ir import Program
from einloom.program.passes import optimise
from einloom.program.schedule import schedule
from einloom.program.sliced import Assembly, SlicedExecutable

Make = Callable[[Builder], tuple[int, ...]]
SIDE = 40


def dot(b: Builder, x: int, y: int) -> int:
    return b("dot_general", x, y, contracting=((1,), (0,)), batch=((), ()))


def chain(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (SIDE, SIDE)), b.input("f8", (SIDE, SIDE))
    return (b("negate", b("multiply", b("add", x, y), x)),)


def diamond(b: Builder) -> tuple[int, ...]:
    middle = b("negate", b.input("f8", (SIDE, SIDE)))
    return (b("add", b("multiply", middle, middle), b("absolute", middle)),)


def broadcast(b: Builder) -> tuple[int, ...]:
    x, row = b.input("f8", (SIDE, SIDE)), b.input("f8", (SIDE,))
    wide = b("broadcast_in_dim", b("negate", row), shape=(SIDE, SIDE), axes=(1,))
    return (b("maximum", b("multiply", x, wide), wide),)


def trailing_reduction(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (SIDE, SIDE)), b.input("f8", (SIDE, SIDE))
    off = b("subtract", x, y)
    return (b("reduce_max", b("multiply", off, off), axes=(1,), initial=None),)


def between_dots(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (SIDE, SIDE)), b.input("f8", (SIDE, SIDE))
    one = b("broadcast_in_dim", b("constant", value=1, dtype="f8"), shape=(SIDE, SIDE), axes=())
    h = dot(b, x, y)
    return (dot(b, b("divide", h, b("add", one, b("absolute", h))), y),)


def several_results(b: Builder) -> tuple[int, ...]:
    """What is returned ends a group."""
    x = b.input("f8", (SIDE, SIDE))
    middle = b("sqrt", b("absolute", x))
    return middle, b("negate", b("floor", middle)), x


def another_layout(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (SIDE, SIDE))
    turned = b("transpose", b("negate", b("floor", x)), perm=(1, 0))
    return (b("maximum", b("add", turned, x), x),)


def alone(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (SIDE, SIDE))
    return (b("identity", b("negate", x)),)


def declined(b: Builder) -> tuple[int, ...]:
    """A step without a formula, and a reduction behind it."""
    x = b.input("f8", (SIDE, SIDE))
    return (b("reduce_max", b("exp", b("negate", x)), axes=(0,), initial=None),)


def sums_of_products(b: Builder) -> tuple[int, ...]:
    """One kernel for all would hold every product at once."""
    x, y = b.input("f8", (SIDE, SIDE)), b.input("f8", (SIDE, SIDE))
    total = dot(b, x, y)
    for _ in range(3):
        total = b("add", total, dot(b, x, y))
    return (total,)


def made_between(b: Builder) -> tuple[int, ...]:
    """An array that is made in the middle; it is there before the members that read it."""
    x, y = b.input("f8", (SIDE, SIDE)), b.input("f8", (SIDE, SIDE))
    early = b("sqrt", b("absolute", x))
    kept = b("copy", y)
    return (b("add", b("multiply", b("negate", early), kept), x),)


FUSED: list[tuple[Make, list[str]]] = [
    # program, what of it runs
    (chain, ["fused[add, multiply, negate]"]),
    (diamond, ["fused[negate, multiply, absolute, add]"]),
    (broadcast, ["negate", "broadcast_in_dim", "fused[multiply, maximum]"]),
    (trailing_reduction, ["fused[subtract, multiply, reduce_max]"]),
    (
        between_dots,
        ["constant", "broadcast_in_dim", "dot_general", "fused[absolute, add, divide]", "dot_general"],
    ),
    (several_results, ["fused[absolute, sqrt]", "fused[floor, negate]"]),
    (another_layout, ["fused[floor, negate]", "transpose", "fused[add, maximum]"]),
    (alone, ["negate", "identity"]),
    (declined, ["negate", "exp", "reduce_max"]),
    (sums_of_products, [*["dot_general"] * 2, *["add", "dot_general"] * 2, "add"]),
    (made_between, ["fused[absolute, sqrt]", "copy", "fused[negate, multiply, add]"]),
]  # fmt: skip


def built(make: Make) -> Program:
    build = Builder()
    return build.finish(*make(build))


def inputs(program: Program, rng: np.random.Generator) -> list[Array]:
    return [rng.standard_normal(spec.shape) for spec in program.specs(program.inputs)]


@pytest.mark.parametrize(("make", "ops"), FUSED, ids=[row[0].__name__ for row in FUSED])
def test_what_runs(make: Make, ops: list[str], rng: np.random.Generator) -> None:
    """And that it gives what the members give, as generated code, from a table, and into `out`."""
    program = built(make)
    arrays = inputs(program, rng)
    with options(small=1):
        executable = Executable(program, cpu())
        assert [ins.op for ins in executable.schedule.program.instructions] == ops
        assert all(op in executable.source for op in ops)
        assert executable.program is program
        want = as_tuple(Executable(program, cpu(), fuse=False)(*arrays))
        assert_same(executable.interpret(*arrays), want)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "TABLE_FROM", 0)
            table = Executable(program, cpu())
        for one in (executable, table):
            for _ in range(2):
                for got, other in zip(as_tuple(one(*arrays)), want, strict=True):
                    np.testing.assert_allclose(got, other, rtol=1e-13, atol=1e-13)
            if len(want) == 1:
                out = np.full((*want[0].shape, 2), np.nan)[..., 0]
                assert one(*arrays, out=out) is out
                np.testing.assert_allclose(out, want[0], rtol=1e-13, atol=1e-13)


def test_listing_and_source() -> None:
    with options(small=1):
        executable = Executable(built(chain), cpu())
    line = "fused[add, multiply, negate](%0, %1)  # float64[40,40], 12.50 KiB"
    assert f"  %4 = {line}\n" in str(executable.schedule.program)
    assert "x4 = k0(x0, x1, out=out)  # fused[add, multiply, negate] -> " in executable.source
    assert len(executable.steps) == 1


# ---- when ---------------------------------------------------------------------------------------


def test_small_arrays_are_not_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the option alone: nothing is compiled, and the members run as ever."""
    compiled: list[Any] = []
    monkeypatch.setattr(Kernel, "_compiled", lambda self: compiled.append(self))
    program = built(between_dots)
    for small, is_fused in ((SIDE**2, True), (SIDE**2 + 1, False), (math.inf, False), (0, True)):
        with options(small=small):
            assert (fuse(program, cpu()) is not program) == is_fused
    plain = Executable(program, cpu())
    assert plain.schedule.program is program
    assert plain.source == Executable(program, cpu(), fuse=False).source
    plain(*(np.ones((SIDE, SIDE)) for _ in range(2)))
    assert compiled == []


def test_fusion_turned_off() -> None:
    with options(small=0):
        executable = Executable(built(chain), cpu(), fuse=False)
    assert [ins.op for ins in executable.schedule.program.instructions] == [
        "add",
        "multiply",
        "negate",
    ]


def test_a_backend_that_declines() -> None:
    asked: list[ElementwiseFusionPlan] = []

    class Backend(type(cpu())):  # type: ignore[misc]
        def fuse(self, plan: ElementwiseFusionPlan) -> None:
            asked.append(plan)

    program = built(chain)
    with options(small=0):
        executable = Executable(program, Backend())
    assert executable.schedule.program is program
    assert [step.op for step in asked[0].steps] == ["add", "multiply", "negate"]


@pytest.mark.parametrize("dots", [False, True], ids=["one chain", "chains between dots"])
def test_long_programs_are_grouped(dots: bool) -> None:
    """1000 instructions."""
    b = Builder()
    x, y = b.input("f8", (600, 600)), b.input("f8", (600, 600))
    for k in range(1000):
        x = dot(b, x, y) if dots and k % 6 == 5 else b("multiply" if k % 2 else "add", x, y)
    program = b.finish(x)
    executable = Executable(program, cpu())
    assert len(executable.steps) == (333 if dots else 16)


# ---- results ------------------------------------------------------------------------------------


def in_blocks(patch: pytest.MonkeyPatch) -> None:
    """No group is compiled; those with a reduction are declined."""
    patch.setattr(kernels, "body_of", lambda *_: None)
    # of products of integers and truth values, which have no other way to be added up as they are read
    patch.setattr(contraction, "_suits_sums", lambda *_: False)
    patch.setattr(
        contraction, "_ENGINES", SimpleNamespace(items={}, misses=0, hits=0, put=lambda *_: None)
    )


@pytest.mark.parametrize("seeds", [range(k * 250, k * 250 + 250) for k in range(4)], ids=str)
def test_random_programs(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of exact numbers: every bit, in blocks; without fusion as `interpret` gives them."""
    in_blocks(monkeypatch)
    count = 0
    for seed in seeds:
        program = optimise(random_program(seed))
        with options(small=1):
            executable = Executable(program, cpu())
            plain = Executable(program, cpu(), fuse=False)
        if executable.schedule.program is program:
            continue
        count += 1
        arrays, indices = random_arrays(program, seed), random_indices(program, seed)
        try:
            assert_same(executable(*arrays, indices=indices), by_laws(program, arrays, indices))
            assert_same(
                plain(*arrays, indices=indices), executable.interpret(*arrays, indices=indices)
            )
        except AssertionError as error:
            error.add_note(f"random_program({seed}):\n{executable.schedule.program}")
            raise
    assert count >= 15


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_compiled(seed: int) -> None:
    seeds = (s for s in range(100 * seed, 100 * seed + 100))
    with options(small=1):
        for one in seeds:
            program = optimise(random_program(one))
            executable = Executable(program, cpu())
            running = executable.schedule.program
            if running is not program and not any("reduce" in op for op in running.op_counts):
                break
        arrays, indices = random_arrays(program, one), random_indices(program, one)
        assert_same(executable(*arrays, indices=indices), by_laws(program, arrays, indices))


def program_of(chained: Chain) -> Program:
    """The steps of a random chain as instructions; what the chain gives is returned."""
    b = Builder()
    values = [b.input(spec.dtype, spec.shape) for spec in chained.plan.inputs]
    for step in chained.plan.steps:
        values.append(b(step.op, *(values[k] for k in step.operands), **step.attrs))
    return b.finish(*(values[k] for k in chained.plan.outputs))


@pytest.mark.parametrize(
    ("count", "compiled"), [(300, False), (12, True)], ids=["in blocks", "compiled"]
)
def test_random_numbers(
    count: int, compiled: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Integers, comparisons and moves exactly; floating results to 16 units in the last place of the
    magnitudes for each step."""
    if not compiled:
        in_blocks(monkeypatch)
    fused = 0
    while fused < count:
        chained = random_chain(rng, (3, 5))
        program = program_of(chained)
        with options(small=1):
            executable = Executable(program, cpu())
        fused += executable.schedule.program is not program
        if executable.schedule.program is program:
            continue
        arrays = inputs_of(chained.plan, ("C", "F"), rng)
        with options(small=1 if compiled else math.inf):
            assert_chain(chained, arrays, executable(*arrays), f"{executable.schedule.program}\n")
            plain = as_tuple(Executable(program, cpu(), fuse=False)(*arrays))
            stepwise = as_tuple(executable.interpret(*arrays))
            assert [x.tobytes() for x in plain] == [x.tobytes() for x in stepwise]


def test_slices(rng: np.random.Generator) -> None:
    """A group in each of the two parts: what runs once, and for every slice."""
    b = Builder()
    x, y = b.input("f8", (5, 4)), b.input("f8", (4, 3))
    warped = b("negate", b("absolute", b("add", y, y)))
    row = b("slice_at", x, axis=0, at=b.index("i", 5))
    squares = b("multiply", b("negate", row), row)
    axes = {"contracting": ((0,), (0,)), "batch": ((), ())}
    program = b.finish(b("dot_general", squares, warped, **axes))
    assembly = Assembly(ArraySpec(np.dtype("f8"), (5, 3)), (0, None))
    arrays = inputs(program, rng)
    with options(small=1):
        run = SlicedExecutable(program, assembly, cpu())
        assert "fused[add, absolute, negate]" in run.source
        assert "fused[negate, multiply]" in run.source
        want = (-arrays[0] * arrays[0]) @ -abs(2 * arrays[1])
        np.testing.assert_allclose(run(*arrays), want, rtol=1e-13)


# ---- memory -------------------------------------------------------------------------------------


def test_what_members_read_needs_no_memory() -> None:
    with options(small=1):
        plan = schedule(built(between_dots), cpu())
    plain = schedule(built(between_dots), cpu(), fused=False)
    array = 8 * SIDE**2
    # constant, dot and chain, beside plain's absolute and sum; the result comes when they are gone
    assert plan.certain_bytes == 8 + 2 * array
    assert plain.certain_bytes == 8 + 3 * array
    assert set(plan.memory.locations) < set(plain.memory.locations)
    assert len(plan.dies_after) == len(plan.program.instructions) == 5


@pytest.mark.parametrize("seeds", [range(k * 100, k * 100 + 100) for k in range(3)], ids=str)
def test_random_memory_plans(seeds: range) -> None:
    """Nothing that is alive at the same time overlaps, unless a group writes over what it reads."""
    with options(small=1):
        for seed in seeds:
            plan = schedule(optimise(random_program(seed)), cpu())
            assert_laid_out(plan.program, plan.memory)


@pytest.mark.parametrize(
    ("make", "in_place"),
    [
        (lambda b, h, x: b("negate", b("multiply", h, x)), True),
        (lambda b, h, x: b("convert", b("convert", h, dtype="c16"), dtype="c16"), False),
        (lambda b, h, x: b("cast", b("cast", h, dtype="f4"), dtype="f8"), True),
        (
            lambda b, h, x: b("add", b("negate", h), b("transpose", h, perm=(1, 0))),
            False,
        ),
        (
            lambda b, h, x: b("reduce_max", b("negate", h), axes=(), initial=None),
            False,
        ),
        (
            lambda b, h, x: b(
                "add",
                b("negate", x),
                b("broadcast_in_dim", b("squeeze", b("slice", h, starts=(0, 0), stops=(1, SIDE),
                  steps=(1, 1)), axes=(0,)), shape=(SIDE, SIDE), axes=(1,)),
            ),
            False,
        ),
    ],
    ids=["chain", "another dtype", "narrow between", "transposed too", "reduction", "broadcast"],
)  # fmt: skip
def test_writing_over_an_operand(
    make: Callable[..., int], in_place: bool, rng: np.random.Generator
) -> None:
    """Where every read of it is at the element that is written."""
    b = Builder()
    x, y = b.input("f8", (SIDE, SIDE)), b.input("f8", (SIDE, SIDE))
    h = dot(b, x, y)
    made = make(b, h, x)
    z = made
    for _ in range(6):  # enough intermediates for an arena
        z = b("copy", z)
    program = b.finish(b("copy", z))
    with options(small=1):
        executable = Executable(program, cpu())
        places = executable.schedule.memory.locations
        assert executable.schedule.has_arena
        fused = [ins for ins in executable.schedule.program.instructions if isinstance(ins, Fused)]
        assert [ins.outputs for ins in fused] == [(made,)]
        assert (places[made] == places[h]) == in_place
        arrays = inputs(program, rng)
        for _ in range(2):
            got, want = executable(*arrays), executable.interpret(*arrays)
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def long_chain(b: Builder) -> int:
    x, y = b.input("f8", (300, 400)), b.input("f8", (300, 400))
    h = b("copy", x)
    return b("copy", b("maximum", b("negate", b("multiply", b("add", h, y), h)), y))


def without_formulas(b: Builder) -> int:
    x, y = b.input("f8", (300, 400)), b.input("f8", (300, 400))
    h = b("sign", b("round_half_away", b("exp", b("multiply", x, y))))
    return b("cast", b("power", h, b("rsqrt", b("tanh", y))), dtype="f4")


def squares(b: Builder) -> int:
    x, y = b.input("f8", (300, 400)), b.input("f8", (300, 400))
    off = b("subtract", x, y)
    return b("reduce_sum", b("multiply", off, off), axes=(1,))


@pytest.mark.parametrize("layout", ["C", "transposed", "sliced", "unaligned", "uneven"])
@pytest.mark.parametrize("make", [long_chain, without_formulas, squares], ids=lambda m: m.__name__)
def test_peak_is_an_upper_bound(
    make: Callable[[Builder], int], layout: str, rng: np.random.Generator
) -> None:
    """Of what is allocated in a call, for operands anywhere in memory, also between elements."""
    build = Builder()
    program = build.finish(make(build))
    specs = program.specs(program.inputs)
    if layout == "uneven":  # a field of a packed record
        record = np.dtype([("head", "i2"), ("x", "f8")])
        arrays = [np.ones(spec.shape, record)["x"] for spec in specs]
    else:
        arrays = [lay_out(np.ones(spec.shape), layout, rng) for spec in specs]
    with options(small=1, threads=2):
        executable = Executable(program, cpu())
        assert executable.schedule.program is not program
        promised = executable.peak_bytes - sum(spec.nbytes for spec in specs)
        assert measured(executable, arrays) <= promised + not_planned(program)


def test_peak_is_exact_without_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled group over arrays of our own takes no memory but its output."""
    monkeypatch.setattr(scheduling, "ARENA", 0)
    b = Builder()
    x = b("copy", b.input("f8", (300, 400)))
    program = b.finish(b("copy", b("negate", b("multiply", b("add", x, x), x))))
    with options(small=1):
        executable = Executable(program, cpu())
        promised = executable.peak_bytes - 8 * 300 * 400
        assert promised == 2 * 8 * 300 * 400
        got = measured(executable, [np.ones((300, 400))])
    assert promised <= got <= promised + not_planned(program)


# ---- failures and threads -----------------------------------------------------------------------


def in_an_arena() -> Program:
    b = Builder()
    x, y = b.input("f8", (SIDE, SIDE)), b.input("f8", (SIDE, SIDE))
    for _ in range(6):
        x = b("negate", b("maximum", b("subtract", dot(b, x, y), y), y))
    return b.finish(dot(b, x, y))


@pytest.mark.parametrize("table", [False, True], ids=["generated", "table"])
def test_a_fused_kernel_that_fails(
    table: bool, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """The error reaches the caller, and the next call is right, in the arena of the last."""
    broken: list[bool] = []

    class Backend(type(cpu())):  # type: ignore[misc]
        def fuse(self, plan: ElementwiseFusionPlan) -> Any:
            kernel = super().fuse(plan)

            def run(*arrays: Any, **out: Any) -> Any:
                if broken:
                    raise FloatingPointError("a fused kernel")
                return kernel(*arrays, **out)

            return run

    if table:
        monkeypatch.setattr(module, "TABLE_FROM", 0)
    program = in_an_arena()
    arrays = inputs(program, rng)
    with options(small=1):
        executable = Executable(program, Backend())
        want = executable(*arrays)
        for _ in range(3):
            broken.append(True)
            with pytest.raises(FloatingPointError, match="a fused kernel"):
                executable(*arrays)
            broken.clear()
            np.testing.assert_array_equal(executable(*arrays), want)
            assert len(executable._arenas) == (0 if table else 1)


def test_eight_threads(rng: np.random.Generator) -> None:
    program = in_an_arena()
    sets = [inputs(program, rng) for _ in range(8)]
    with options(small=1):
        executable = Executable(program, cpu())
        assert sum(isinstance(ins, Fused) for ins in executable.schedule.program.instructions) == 6
        assert executable.schedule.has_arena
        wants = [executable(*arrays) for arrays in sets]

    def work(k: int) -> None:
        with options(small=1):  # of this thread
            for _ in range(20):
                np.testing.assert_array_equal(executable(*sets[k]), wants[k])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
