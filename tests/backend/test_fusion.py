"""A chain run as one kernel gives what its ops give one by one, for any dtypes, shapes and strides."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.backend.calls import LAYOUTS, Shape, junk, lay_out
from tests.backend.chains import (
    COMPUTED,
    FORMULAS,
    Chain,
    assert_chain,
    has_formulas,
    inputs_of,
    one_by_one,
    plan_of,
    random_chain,
    run,
    step,
)

from einloom._base.errors import EinloomError, ProgramError, Unsupported
from einloom._base.options import options
from einloom.backend.cpu import cpu, jit
from einloom.backend.fusion import ElementwiseFusionPlan
from einloom.backend.spec import ArraySpec

SHAPES: tuple[Shape, ...] = (
    *((), (1,), (3,), (0,), (40,), (2, 3), (7, 33), (0, 2), (2, 3, 4), (4, 0, 2)),
    *((2, 1, 3, 2), (2, 3, 1, 2, 2)),
)
LONG: tuple[Shape, ...] = ((5000,), (70, 65), (3, 3000), (3000, 3), (9, 8, 70))


# ---- plans ---------------------------------------------------------------------------------------

ADD = [step("add", 0, 1)]
MALFORMED: list[tuple[ElementwiseFusionPlan, str]] = [
    (plan_of("", (2,), [], 0), "needs inputs and outputs"),
    (plan_of("int8", (2,), []), "needs inputs and outputs"),
    (plan_of("int8 int8", (2,), [step("add", 0, 2)], 2), "step 0 reads a value not yet made"),
    (plan_of("int8 int8", (2,), [step("add", -1, 0)], 2), "step 0 reads a value not yet made"),
    (plan_of("int8", (2, 2), [step("reduce_sum", 0, axes=(0,))], 1), "reduce_sum .* elementwise"),
    (plan_of("int8", (2, 2), [step("transpose", 0, perm=(1, 0))], 1), "transpose .* elementwise"),
    (plan_of("int8", (2,), [step("copy", 0)], 1), r"copy \(step 0\) is not elementwise"),
    (plan_of("int8", (2,), [step("plus", 0, 0)], 1), "unknown op 'plus'"),
    (plan_of("int8 int16", (2,), ADD, 2), "dtypes of .* differ"),
    (plan_of("int8", (2,), [step("add", 0)], 1), "add takes operands"),
    (plan_of("int8", (2,), [step("negate", 0, axis=1)], 1), "negate takes attributes"),
    (plan_of("int8", (2,), [step("cast", 0, dtype="int3")], 1), "int3"),
    (plan_of("int8 int8", (2,), ADD, 3), r"outputs \(3,\) name values that are not there"),
    (plan_of("int8 int8", (2,), ADD, -1), "name values that are not there"),
    (plan_of("int8 int8", (2,), ADD, 2, reduce="add", axes=(0,)), "'add' is no reduction"),
    (plan_of("int8 int8", (2,), ADD, 2, reduce="argmax", axes=(0,)), "'argmax' is no reduction"),
    (plan_of("int8 int8", (2,), ADD, 2, reduce="reduce_sum", axes=(1,)), "reduce_sum"),
    (plan_of("int8 int8", (2,), ADD, 2, reduce="reduce_mean", axes=(0,)), "reduce_mean"),
    (plan_of("int8 int8", (0,), ADD, 2, reduce="reduce_max", axes=(0,)), "reduce_max"),
    (plan_of("complex64", (2,), [step("less", 0, 0)], 1), "less"),
]


@pytest.mark.parametrize(("plan", "message"), MALFORMED, ids=[row[1] for row in MALFORMED])
def test_malformed_plans(plan: ElementwiseFusionPlan, message: str) -> None:
    with pytest.raises(EinloomError, match=message):
        plan.output_specs()
    with pytest.raises(EinloomError, match=message):
        cpu().fuse(plan)


def test_inputs_of_other_shapes() -> None:
    x, y = ArraySpec(np.dtype("f4"), (2, 3)), ArraySpec(np.dtype("f4"), (3,))
    with pytest.raises(
        ProgramError, match=r"float32\[2,3\] and float32\[3\]: broadcast them first"
    ):
        ElementwiseFusionPlan((x, y), tuple(ADD), (2,)).values()


@pytest.mark.parametrize("name", [">f8", "object"])
def test_dtypes_that_no_kernel_takes(name: str) -> None:
    """Are refused as by `bind`, not by the compiler."""
    for reduction in ({}, {"reduce": "reduce_sum", "axes": (0,)}):
        plan = plan_of(name, (3,), [step("sqrt", 0)], 1, **reduction)
        with pytest.raises(Unsupported, match="convert the operands first"):
            cpu().fuse(plan)


# ---- random chains -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_random_chains_in_blocks(seed: int, rng: np.random.Generator) -> None:
    """Small ones, and those with steps that no formula has."""
    for n in range(80):
        chain = random_chain(rng, SHAPES[n % len(SHAPES)])
        arrays = inputs_of(chain.plan, LAYOUTS, rng)
        assert_chain(chain, arrays, run(chain.plan, *arrays, small=math.inf), f"{seed=} {n=}: ")


def test_random_chains_in_blocks_on_threads(rng: np.random.Generator) -> None:
    """Of more elements than a block has."""
    for n in range(12):
        steps = random_chain(rng, (1,)).plan.steps
        chain = random_chain(rng, ((70, 1001), (3, 30011), (20, 30, 70), (1, 70001))[n % 4])
        if has_formulas(chain.plan):  # exp, so that they are run in blocks whatever their size
            continue
        assert steps
        arrays = inputs_of(chain.plan, LAYOUTS, rng)
        with options(threads=1 + n % 2):
            assert_chain(chain, arrays, run(chain.plan, *arrays), f"{n=}: ")


@pytest.mark.parametrize("seed", range(10))
def test_random_chains_compiled(seed: int, rng: np.random.Generator) -> None:
    """One kernel for shapes of every rank, as long as the layout along a row is the same."""
    layouts = [("C", "readonly"), ("C", "readonly"), ("C", "broadcast"), ("sliced",)][seed % 4]
    chain = random_chain(rng, (), COMPUTED, FORMULAS)
    while not has_formulas(chain.plan):
        chain = random_chain(rng, (), COMPUTED, FORMULAS)
    plan = chain.plan
    shapes = (*SHAPES[2:], *LONG) if seed % 4 < 2 else (LONG[seed % len(LONG)],)
    for n, shape in enumerate(shapes):
        inputs = tuple(ArraySpec(spec.dtype, shape) for spec in plan.inputs)
        shaped = Chain(ElementwiseFusionPlan(inputs, plan.steps, plan.outputs), chain.known)
        arrays = inputs_of(shaped.plan, layouts, rng)
        with options(threads=1 + n % 2):
            assert_chain(shaped, arrays, run(shaped.plan, *arrays), f"{seed=}: ")


AXPY = [step("multiply", 0, 1), step("add", 3, 2)]


PLACES = ["C C C, C C", "F F F, F F", "C F C, C C", "C C C, C F", "sliced C reversed, C sliced"]
PLACES += ["reversed reversed reversed, C C", "C broadcast C, C C", "C unaligned C, C C"]


@pytest.mark.parametrize("shape", [*SHAPES, *LONG], ids=str)
def test_any_strides(shape: Shape, rng: np.random.Generator) -> None:
    """Of inputs and outputs, aligned or not; int64, so that results are exact."""
    plan = plan_of("int64 int64 int64", shape, AXPY, 3, 4)
    for n, (of, to) in enumerate(row.split(", ") for row in PLACES):
        if n % 3 and shape not in ((40,), (7, 33), (9, 8, 70)):
            continue
        arrays = [lay_out(rng.integers(-9, 9, shape), name, rng) for name in of.split()]
        places = zip(plan.output_specs(), to.split(), strict=True)
        outs = tuple(junk(spec, name, rng) for spec, name in places)
        for small in (0, math.inf):
            with options(threads=1 + n % 2):
                assert run(plan, *arrays, out=outs, small=small) is outs
            np.testing.assert_array_equal(outs[0], arrays[0] * arrays[1])
            np.testing.assert_array_equal(outs[1], arrays[0] * arrays[1] + arrays[2])


def test_over_an_operand(rng: np.random.Generator) -> None:
    """The output may be an input, element for element."""
    for small in (0, math.inf):
        x, y = rng.integers(-9, 9, (2, 30, 50)), rng.integers(-9, 9, (2, 50, 30))
        want = x[0] * y[0].T + x[1]
        plan = plan_of("int64 int64 int64", (30, 50), AXPY, 4)
        assert run(plan, x[0], y[0].T, x[1], out=x[1], small=small) is not None
        np.testing.assert_array_equal(x[1], want)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_no_numbers(name: str) -> None:
    """NaN wins in max, min and clamp, is in no order, differs from itself; select looks at none."""
    line = [-np.inf, -1, 0, 1, np.inf, np.nan]
    x, y = (np.ascontiguousarray(z).astype(name) for z in np.meshgrid(line, line))
    steps = [
        *(step(op, 0, 1) for op in ("maximum", "minimum")),
        *(step(op, 0, 1) for op in ("equal", "not_equal", "less", "less_equal")),
        *(step(op, 0, 1) for op in ("greater", "greater_equal")),
        step("clamp", 0, 1, 0),
        step("select", 6, 0, 1),
        step("rsqrt", 0),
        step("cast", 0, dtype="int16"),
        step("cast", 0, dtype="bool"),
    ]
    plan = plan_of(f"{name} {name}", x.shape, steps, *range(2, 2 + len(steps)))
    for small in (0, math.inf):
        got = run(plan, x, y, small=small)
        for mine, want in zip(got, one_by_one(plan, [x, y])[0][2:], strict=True):
            np.testing.assert_array_equal(mine, want)
        assert np.isnan(got[0]).sum() == np.isnan(got[1]).sum() == 11
        np.testing.assert_array_equal(got[9], np.where(x < y, x, y))


# ---- what is compiled ----------------------------------------------------------------------------


def test_what_calls_for_a_kernel_of_its_own(rng: np.random.Generator) -> None:
    """Steps, dtypes and the layout along a row; not rank, sizes, strides, or which arrays can be written."""

    def compiled() -> tuple[int, int]:
        kernels = list(jit._GENERATED._items.values())
        return len(kernels), sum(len(kernel.signatures) for kernel in kernels)

    steps = [step("subtract", 0, 1), step("multiply", 2, 2)]

    def square(shape: Shape, *layouts: str) -> None:
        arrays = [lay_out(rng.integers(-9, 9, shape, np.int32), name, rng) for name in layouts]
        got = run(plan_of("int32 int32", shape, steps, 3), *arrays)
        np.testing.assert_array_equal(got, (arrays[0] - arrays[1]) ** 2)

    before = compiled()
    square((30, 40), "C", "C")
    kernels, signatures = compiled()
    assert (kernels, signatures) == (before[0] + 1, before[1] + 1)
    for shape in ((1000,), (3, 300), (2, 3, 4, 50), (9, 1, 17)):
        square(shape, "C", "readonly")
        square((*shape, 20)[1:], "readonly", "C")
    big = rng.integers(-9, 9, (40, 6, 90), np.int32)
    run(plan_of("int32 int32", (20, 2, 40), steps, 3), big[::2, 1:3, :40], big[1::2, 4:, 50:])
    assert compiled() == (kernels, signatures)
    square((40, 40), "C", "F")  # one of them strides along the rows of the other
    assert compiled() == (kernels + 1, signatures + 1)
