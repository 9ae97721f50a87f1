"""A chain and the reduction after it, as one kernel: the values are never written down."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from tests.backend.calls import OUT_LAYOUTS, Array, Shape, dot, junk, lay_out
from tests.backend.chains import (
    COMPUTED,
    has_formulas,
    one_by_one,
    plan_of,
    random_chain,
    run,
    step,
)
from tests.tolerance import assert_close, eps

from einloom._base.options import options
from einloom.backend.cpu import cpu, reduction
from einloom.backend.fusion import ElementwiseFusionPlan, reduction_attrs


def subsets(rank: int) -> Iterator[tuple[int, ...]]:
    """All axes that a reduction may take."""
    return chain.from_iterable(combinations(range(rank), n) for n in range(rank + 1))


def reduced(op: str, axes: tuple[int, ...], values: Array, sizes: Array) -> tuple[Array, Array]:
    """A reduction of a value by NumPy's own loops, and of its magnitude in the same way."""
    with options(small=math.inf):
        want = cpu().apply(op, reduction_attrs(op, axes), values)
        of = "reduce_max" if op in ("reduce_max", "reduce_min") else op
        size = cpu().apply(of, reduction_attrs(of, axes), sizes)
    return np.asarray(want), np.asarray(size)


def check_reduction(
    plan: ElementwiseFusionPlan, *arrays: Array, out: Any = None, threads: int = 1
) -> None:
    assert plan.reduce is not None
    with options(threads=threads):
        got = run(plan, *arrays, out=out)
    assert out is None or got is out
    values, sizes = one_by_one(plan, arrays)
    got = got if isinstance(got, tuple) else (got,)
    count = math.prod(plan.shape[axis] for axis in plan.axes)
    for mine, k, spec in zip(got, plan.outputs, plan.output_specs(), strict=True):
        assert (mine.dtype, mine.shape) == (spec.dtype, spec.shape)
        want, size = reduced(plan.reduce, plan.axes, values[k], sizes[k])
        if mine.dtype.kind in "biu" or 0 in plan.shape:
            np.testing.assert_array_equal(mine, want)
        else:
            assert_close(mine, want, size, 4 * eps(mine.dtype) * (4 + math.sqrt(count)))


REDUCED: tuple[Shape, ...] = ((), (5,), (6000,), (7, 900), (900, 7), (4, 5, 300), (300, 5, 4))
REDUCED += ((3, 0), (0, 3), (2, 3, 2, 5))


@pytest.mark.parametrize("shape", REDUCED, ids=str)
def test_sums_of_products(shape: Shape, rng: np.random.Generator) -> None:
    """Over all subsets of axes, of inputs in every layout, on one thread and on two."""
    for n, axes in enumerate(subsets(len(shape))):
        plan = plan_of("float64 float64", shape, [step("multiply", 0, 1)], 2,
                       reduce="reduce_sum", axes=axes)  # fmt: skip
        mixed = [("C", "F")] if shape == (300, 5, 4) else []
        for layouts in (("C", "C"), ("F", "F"), *mixed):
            arrays = [lay_out(rng.standard_normal(shape), name, rng) for name in layouts]
            out = junk(plan.output_specs()[0], OUT_LAYOUTS[n % len(OUT_LAYOUTS)], rng)
            check_reduction(plan, *arrays, threads=1 + n % 2)
            check_reduction(plan, *arrays, out=out, threads=2 - n % 2)


SEVERAL = [("reduce_sum", 0), ("reduce_max", 1)]
SEVERAL += [
    pytest.param(op, axis, marks=pytest.mark.slow)  # each compiles kernels of its own
    for op, axis in (("reduce_mean", 0), ("reduce_prod", 1), ("reduce_max", 0), ("reduce_min", 1))
]


@pytest.mark.parametrize(("op", "axis"), SEVERAL)
def test_several_outputs(op: str, axis: int, rng: np.random.Generator) -> None:
    """Each in the dtype that its value has: a wide accumulator, rounded once."""
    steps = [step("multiply", 0, 1), step("convert", 0, dtype="float64")]
    for shape in ((30, 40), (3, 500), (500, 30), (0, 4), (4, 0)):
        if shape[axis] == 0 and op in ("reduce_max", "reduce_min"):
            continue
        plan = plan_of("float32 float32", shape, steps, 3, 2, reduce=op, axes=(axis,))
        arrays = [(1 + rng.random(shape) / 100).astype(np.float32) for _ in range(2)]
        check_reduction(plan, *arrays, threads=2)
        outs = tuple(junk(spec, "sliced", rng) for spec in plan.output_specs())
        check_reduction(plan, *arrays, out=outs)


def test_declined_only_without_formulas(rng: np.random.Generator) -> None:
    """A reduction after a step that no compiled kernel has; a chain of such steps is run in blocks."""
    declined = 0
    for _ in range(200):
        plan = random_chain(rng, (3, 4)).plan
        assert cpu().fuse(plan) is not None
        outputs = tuple(k for k in plan.outputs if plan.values()[k].dtype.name in COMPUTED)
        if not outputs:
            continue
        plan = ElementwiseFusionPlan(plan.inputs, plan.steps, outputs, "reduce_sum", (0,))
        kernel = cpu().fuse(plan)  # nothing is compiled until it is called
        computed = all(spec.dtype.name in COMPUTED for spec in plan.values())
        assert (kernel is None) == (not has_formulas(plan) or not computed)
        declined += kernel is None
    assert 20 < declined < 180


@pytest.mark.parametrize(
    ("dtype", "operands", "kept", "n", "is_run"),
    [
        ("float64", 1, 40, 11, False),
        ("float64", 1, 40, 12, True),
        ("complex128", 1, 40, 5, False),
        ("complex128", 1, 40, 6, True),
        ("float64", 2, 40, 15, False),
        ("float64", 2, 40, 16, True),
        # few sums side by side are no better than a short run
        ("float64", 2, 3, 12, True),
        ("float64", 2, 3, 11, False),
        ("complex128", 2, 40, 6, False),
    ],
)
def test_short_runs(
    dtype: str,
    operands: int,
    kept: int,
    n: int,
    is_run: bool,
    monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator,
) -> None:
    """Which axis vectors run along: the reduced one, which lies last, or its neighbour."""
    taken = []
    for name in ("run_source", "reduction_source"):
        original = getattr(reduction, name)

        def noted(*arguments: Any, name: str = name, original: Any = original) -> Any:
            taken.append(name)
            return original(*arguments)

        monkeypatch.setattr(reduction, name, noted)
    x = rng.standard_normal((9, kept, n)).astype(dtype)
    with options(small=0, threads=1):
        if operands == 1:
            found = cpu().apply("reduce_sum", reduction_attrs("reduce_sum", (2,)), x)
            want = x.sum(2)
        else:
            y = rng.standard_normal((9, n)).astype(dtype)
            call = dot(x.shape, y.shape, contracting=((0, 2), (0, 1)))
            with options(engine="sums"):
                found, want = cpu().apply(call.op, call.attrs, x, y), np.einsum("aef,af->e", x, y)
    np.testing.assert_allclose(found, want, rtol=1e-12)
    assert {*taken} == {"run_source" if is_run else "reduction_source"}
