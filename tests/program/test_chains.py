"""Chains of products as one kernel each: which products, with what memory, and the same results."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tests.cases import lay_out
from tests.program.test_schedule import measured, not_planned

import einloom
from einloom._base.options import SMALL, options
from einloom.backend.cpu import cpu
from einloom.program import schedule as scheduling
from einloom.program.builder import Builder
from einloom.program.chains import CALL, MANY, MOST_MEMBERS, product_groups
from einloom.program.executable import Executable
from einloom.program.fused import fuse, has_chains
from einloom.program.ir import Program
from einloom.program.schedule import HIGHER, schedule

LANES = 900
EINSUMS: list[tuple[str, Any]] = [  # with many lanes, and few
    ("bij,bjk,bkl->bil", ((LANES, 3, 3),) * 3),
    ("mj,zjk,kn->zmn", ((4, 4), (LANES, 4, 4), (4, 4))),
    ("mj,jkz,kn->mnz", ((4, 4), (4, 4, LANES), (4, 4))),
    ("ai,bj,ck,zijk->zabc", (*((3, 3),) * 3, (LANES, 3, 3, 3))),
    ("zi,zj,ijk->zk", ((LANES, 5), (LANES, 5), (5, 5, 5))),
    ("xyij,yxjk,yk->ixy", ((30, 20, 2, 3), (20, 30, 3, 2), (20, 2))),
    ("zi,zi,zi->z", ((LANES, 3),) * 3),
    ("ij,jk,kl->il", ((3, 4), (4, 5), (5, 2))),
]


def dot(
    b: Builder, x: int, y: int, contracting: Any = ((2,), (1,)), batch: Any = ((0,), (0,))
) -> int:
    return b("dot_general", x, y, contracting=contracting, batch=batch)


def matrices(b: Builder, count: int, n: int = 3, dtype: str = "f8") -> list[int]:
    return [b.input(dtype, (LANES, n, n)) for _ in range(count)]


@pytest.mark.parametrize(
    ("shapes", "attrs", "dtype", "work"),
    [
        (((LANES, 3, 3), (LANES, 3, 3)), {}, "f8", CALL),
        (((LANES, 5, 5), (LANES, 5, 5)), {}, "f8", 125),  # more than a call
        (((LANES, 3, 3), (LANES, 3, 3)), {}, "i8", 27),  # no calls
        (((LANES, 3, 3), (LANES, 3)), {"contracting": ((2,), (1,))}, "f8", CALL),
        (((LANES, 3), (LANES, 3)), {"contracting": ((1,), (1,))}, "f8", 3),  # sums
        (((LANES, 3), (LANES, 4)), {"contracting": ((), ())}, "f8", 12),  # nothing is summed
        (
            ((LANES, 3), (3, 4)),
            {"contracting": ((1,), (0,)), "batch": ((), ())},
            "f8",
            12,
        ),  # one call
    ],
)
def test_calls_count_as_multiplications(shapes: Any, attrs: Any, dtype: str, work: int) -> None:
    """A call of BLAS for each lane, of as many as it takes the time of."""
    build = Builder()
    x, y = (build.input(dtype, shape) for shape in shapes)
    program = build.finish(dot(build, x, y, **attrs))
    least = work * LANES / MANY
    assert product_groups(program, least)
    assert not product_groups(program, least + 1)


Make = Callable[[Builder], tuple[int, ...]]


def chain(b: Builder) -> tuple[int, ...]:
    x, y, z = matrices(b, 3)
    return (dot(b, dot(b, x, y), z),)


def tree(b: Builder) -> tuple[int, ...]:
    x, y, z, w = matrices(b, 4)
    return (dot(b, dot(b, x, y), dot(b, z, w)),)


def turned_between(b: Builder) -> tuple[int, ...]:
    """Of a transpose nothing is made: its product is read with the axes in another order."""
    x, y, z = matrices(b, 3)
    return (dot(b, z, b("transpose", dot(b, x, y), perm=(0, 2, 1))),)


def turned_behind(b: Builder) -> tuple[int, ...]:
    x, y, z = matrices(b, 3)
    return (b("transpose", dot(b, dot(b, x, y), z), perm=(1, 2, 0)),)


def read_twice(b: Builder) -> tuple[int, ...]:
    """What is read outside as well, or twice, is made."""
    x, y, z = matrices(b, 3)
    xy = dot(b, x, y)
    return (dot(b, xy, dot(b, xy, z)),)


def returned(b: Builder) -> tuple[int, ...]:
    x, y, z = matrices(b, 3)
    xy = dot(b, x, y)
    return xy, dot(b, xy, z)


def one_input_twice(b: Builder) -> tuple[int, ...]:
    (x,) = matrices(b, 1)
    return (dot(b, dot(b, x, x), x),)


def conjugated(b: Builder) -> tuple[int, ...]:
    x, y, z = matrices(b, 3, dtype="c16")
    axes: Any = {"contracting": ((2,), (1,)), "batch": ((0,), (0,))}
    xy = b("dot_general", x, y, conj=(True, True), **axes)
    return (b("dot_general", xy, z, conj=(True, False), **axes),)


def elementwise_between(b: Builder) -> tuple[int, ...]:
    x, y, z = matrices(b, 3)
    return (dot(b, b("negate", dot(b, x, y)), z),)


def no_lanes(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (40, 50)), b.input("f8", (50, 60))
    return (b("dot_general", x, y, contracting=((1,), (0,)), batch=((), ())),)


def large_lanes(b: Builder) -> tuple[int, ...]:
    x, y, z = matrices(b, 3, n=40)
    return (dot(b, dot(b, x, y), z),)


def summed_lanes(b: Builder) -> tuple[int, ...]:
    """Lanes that the last product sums over are none of it, so it runs alone."""
    x, y, z = matrices(b, 3)
    over = b("dot_general", dot(b, x, y), z, contracting=((0, 2), (0, 1)), batch=((), ()))
    return (over,)


def integers(b: Builder) -> tuple[int, ...]:
    """A group whose plan the CPU declines."""
    x, y, z = matrices(b, 3, dtype="i8")
    return (dot(b, dot(b, x, y), z),)


def mixed(b: Builder) -> tuple[int, ...]:
    """A real and a complex operand end a group."""
    x, y = matrices(b, 2)
    z, w = matrices(b, 2, dtype="c16")
    return (dot(b, dot(b, dot(b, x, y), z), w),)


PRODUCT = "dot_general"
TWO, THREE = (f"fused[{', '.join([PRODUCT] * k)}]" for k in (2, 3))
FUSED: list[tuple[Make, list[str]]] = [
    (chain, [TWO]),
    (tree, [THREE]),
    (turned_between, [f"fused[{PRODUCT}, transpose, {PRODUCT}]"]),
    (turned_behind, [TWO, "transpose"]),
    (read_twice, [f"fused[{PRODUCT}]", TWO]),
    (returned, [f"fused[{PRODUCT}]"] * 2),
    (one_input_twice, [TWO]),
    (conjugated, [TWO]),
    (elementwise_between, [f"fused[{PRODUCT}]", "negate", f"fused[{PRODUCT}]"]),
    (no_lanes, [PRODUCT]),
    (large_lanes, [PRODUCT] * 2),
    (summed_lanes, [f"fused[{PRODUCT}]", PRODUCT]),
    (integers, [PRODUCT] * 2),
    (mixed, [f"fused[{PRODUCT}]", PRODUCT, f"fused[{PRODUCT}]"]),
]


def built(make: Make) -> Program:
    build = Builder()
    return build.finish(*make(build))


def inputs(program: Program, rng: np.random.Generator) -> list[Any]:
    """Small integers: sums of products are exact."""
    return [
        np.asarray(
            rng.integers(-2, 3, x.shape)
            + (1j * rng.integers(-2, 3, x.shape) if x.dtype.kind == "c" else 0)
        ).astype(x.dtype)
        for x in program.specs(program.inputs)
    ]


@pytest.mark.parametrize(("make", "ops"), FUSED, ids=[row[0].__name__ for row in FUSED])
def test_what_runs(make: Make, ops: list[str], rng: np.random.Generator) -> None:
    """And that it gives what the members give, also into `out`."""
    program = built(make)
    arrays = inputs(program, rng)
    with options(engine="lanes"):
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


def test_listing() -> None:
    with options(engine="lanes"):
        assert str(fuse(built(turned_between), cpu())) == (
            "program(%0: float64[900,3,3], %1: float64[900,3,3], %2: float64[900,3,3])\n"
            "  %5 = fused[dot_general, transpose, dot_general](%0, %1, %2)  "
            "# float64[900,3,3], 63.28 KiB\n"
            "  return %5"
        )


def test_other_engines_make_no_groups() -> None:
    program = built(chain)
    with options(small=SMALL):
        assert not has_chains(fuse(program, cpu()))  # too small for a compiler
    build = Builder()
    x = build.input("f8", (100 * LANES, 3, 3))
    program = build.finish(dot(build, dot(build, x, x), x))
    with options(small=0):
        assert has_chains(fuse(program, cpu()))
        for engine in ("loops", "gemm", "sum product"):
            with options(engine=engine):
                assert fuse(program, cpu()) is program
    with options(engine="lanes", small=np.inf):
        assert has_chains(fuse(program, cpu()))
        assert not has_chains(fuse(program, cpu(), products=False))


def test_lanes_are_what_all_share() -> None:
    (group,) = product_groups(built(tree))
    assert group.members == (0, 1, 2)
    assert group.inputs == (0, 1, 2, 3)
    assert group.plan.lanes == (0,)
    assert group.plan.multiplications() == (27, 27, 27)
    build = Builder()
    x, y = build.input("f8", (200, 3)), build.input("f8", (3, 300))
    outer = build("dot_general", x, y, contracting=((1,), (0,)), batch=((), ()))
    (group,) = product_groups(build.finish(outer))  # rows or columns; the other operand is constant
    assert len(group.plan.lanes) == 1
    assert sum(map(group.plan.is_constant, range(2))) == 1


def test_long_chains_are_cut() -> None:
    build = Builder()
    x = y = build.input("f8", (LANES, 2, 2))
    for _ in range(2 * MOST_MEMBERS + 5):
        y = dot(build, y, x)
    groups = product_groups(build.finish(y))
    assert [len(group.members) for group in groups] == [5, MOST_MEMBERS, MOST_MEMBERS]


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("make", [chain, tree, turned_behind, conjugated])
def test_peak_is_a_bound(make: Make, threads: int, rng: np.random.Generator) -> None:
    program = built(make)
    with options(engine="lanes", threads=threads):
        executable = Executable(program, cpu())
        arrays = inputs(program, rng)
        given = sum(x.nbytes for x in arrays)
        assert measured(executable, arrays) <= executable.peak_bytes - given + not_planned(program)


def test_no_more_memory_for_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large operands that would wait for the last member of a group are consumed one by one instead."""
    build = Builder()
    lanes = 20000
    total = build.input("f8", (lanes, 2))
    for _ in range(4):  # each adds a large array that is dead at once, unless a group reads it
        seed = build.input("f8", (lanes, 2))
        wide = build("broadcast_in_dim", seed, shape=(lanes, 2, 30), axes=(0, 1))
        large = build("negate", wide)
        small = dot(build, total, large, ((1,), (1,)))
        total = dot(build, small, large, ((1,), (2,)))
    program = build.finish(total)
    with options(small=0):
        assert has_chains(fuse(program, cpu()))
        plain = schedule(fuse(program, cpu(), products=False), cpu(), fused=False)
        monkeypatch.setattr(scheduling, "MORE", 0)
        found = schedule(program, cpu())
        assert found.peak_bytes <= HIGHER * plain.peak_bytes
        assert not has_chains(found.program)


def test_intermediates_are_never_in_memory() -> None:
    program = built(chain)
    with options(engine="lanes"):
        fused = schedule(program, cpu())
        assert fused.certain_bytes < schedule(program, cpu(), fused=False).certain_bytes


# ---- einsum --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("equation", "shapes"), EINSUMS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "i8"])
def test_einsum(equation: str, shapes: Any, dtype: str, rng: np.random.Generator) -> None:
    check_einsum("lanes", equation, shapes, dtype, rng)


def check_einsum(
    engine: str, equation: str, shapes: Any, dtype: str, rng: np.random.Generator
) -> None:
    """In any layout, into any `out`, with alpha and beta, with constants, and conjugated."""
    arrays = [rng.integers(-2, 3, shape).astype(dtype) for shape in shapes]
    if dtype[0] == "c":
        arrays = [(x + 1j * rng.integers(-2, 3, x.shape)).astype(dtype) for x in arrays]
    want = np.einsum(equation, *(x.astype("c16" if dtype[0] == "c" else "f8") for x in arrays))
    with options(engine=engine):
        for layout in ("C", "F", "transposed", "sliced", "reversed", "unaligned", "swapped"):
            laid = [lay_out(x, layout, rng) for x in arrays]
            for x in laid:
                x.flags.writeable = False
            np.testing.assert_array_equal(einloom.einsum(equation, *laid), want)
            out = lay_out(np.ones(want.shape, dtype), layout, rng)
            if layout != "swapped":
                einloom.einsum(equation, *laid, out=out, alpha=2, beta=3)
                np.testing.assert_array_equal(out, 2 * want + 3)
                assert einloom.einsum(equation, *laid, out=out) is out
                np.testing.assert_array_equal(out, want)
        for order in ("C", "F"):
            np.testing.assert_array_equal(einloom.einsum(equation, *arrays, order=order), want)
        expression = einloom.compile(equation, *arrays, constants=[0])
        np.testing.assert_array_equal(expression(*arrays[1:]), want)
        if dtype[0] in "fc":
            mantissa, exponent = einloom.einsum(equation, *arrays, strip_exponent=True)
            np.testing.assert_allclose(mantissa * 10.0**exponent, want, rtol=1e-4, atol=1e-4)
        conjugates = [x.conj() for x in arrays]
        np.testing.assert_array_equal(einloom.einsum(equation, *conjugates), want.conj())


def test_mixed_operands(rng: np.random.Generator) -> None:
    x, y = (rng.integers(-2, 3, (LANES, 3, 3)).astype(kind) for kind in ("f8", "f4"))
    z = (x + 1j * y).astype("c16")
    want = np.einsum("bij,bjk,bkl->bil", x, y, z)
    with options(engine="lanes"):
        np.testing.assert_array_equal(einloom.einsum("bij,bjk,bkl->bil", x, y, z), want)


def test_nothing_to_do() -> None:
    with options(engine="lanes"):
        for shape in ((0, 3, 3), (LANES, 0, 0)):
            x = np.ones(shape)
            assert einloom.einsum("bij,bjk,bkl->bil", x, x, x).shape == shape


def test_in_slices(rng: np.random.Generator) -> None:
    """Static indices are of views; the products of a slice are grouped like others."""
    equation, shapes = "xbij,xbjk,bkl->bil", ((4, LANES, 3, 3), (4, LANES, 3, 3), (LANES, 3, 3))
    arrays = [rng.integers(-2, 3, shape).astype("f8") for shape in shapes]
    whole = einloom.plan(equation, *shapes)
    with options(engine="lanes"):
        plan = einloom.plan(equation, *shapes, memory_limit=whole.peak_bytes * 95 // 100)
        expression = einloom.compile(plan)
        np.testing.assert_array_equal(expression(*arrays), np.einsum(equation, *arrays))
        if plan.sliced:
            assert any(map(has_chains, expression._executable.running))
        assert "lanes" in expression.explain(*arrays)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_threads_agree(dtype: str, rng: np.random.Generator) -> None:
    equation, shapes = EINSUMS[0]
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]

    def contract(threads: int) -> bytes:
        with options(engine="lanes", threads=threads):
            return bytes(einloom.einsum(equation, *arrays).tobytes())

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(contract, (1, 2) * 8))
    assert found == {contract(1)}


def test_explain_shows_what_runs(rng: np.random.Generator) -> None:
    equation, shapes = EINSUMS[0]
    arrays = [rng.standard_normal(shape) for shape in shapes]
    with options(engine="lanes"):
        expression = einloom.compile(equation, *shapes)
        for text in (expression.explain(), expression.explain(*arrays)):
            row = text.splitlines()[1].split()
            assert row[:4] == ["0", "fused[2", "ops]", "lanes"]
            assert "float64[900,3,3]" in row
            assert len(text.splitlines()) == 4
    assert len(expression.program.instructions) == 2
