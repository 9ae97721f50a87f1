"""Chains of products across lanes: any labels, strides and numbers of lanes, against einsum step by step."""

from __future__ import annotations

import math
import sys
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.cases import lay_out

import einloom
from einloom._base.errors import ProgramError
from einloom._base.options import SMALL, options
from einloom.backend.cpu import cpu
from einloom.backend.cpu.kernels.lanes import contract_lanes
from einloom.backend.cpu.lanes import ALONE, ALONE_COMPLEX, bind_lanes, lanes_bytes, pays, suits
from einloom.backend.fusion import ProductFusionPlan, ProductStep
from einloom.backend.prediction import predict_lanes
from einloom.backend.spec import ArraySpec
from einloom.program.chains import CALL, MANY
from einloom.program.fused import has_chains

DTYPES = ("f4", "f8", "c8", "c16")
LAYOUTS = ("C", "F", "transposed", "sliced", "reversed", "unaligned", "broadcast")
INNER = (3, 4, 5, 6, 7)  # labels; those before are lanes


def random_plan(rng: np.random.Generator, dtype: str, lanes: int = 700) -> ProductFusionPlan:
    """Any tree of up to four operands; labels that one operand alone has, or that are summed early, too."""
    all_lanes = tuple(range(rng.integers(1, 4)))
    sizes = dict.fromkeys(all_lanes, 1)
    for x in all_lanes:
        sizes[x] = int(rng.integers(1, max(2, lanes // math.prod(sizes.values()) + 1)))
    sizes |= {x: int(rng.integers(1, 6)) for x in INNER}
    count = int(rng.integers(2, 5))

    def some(labels: Any, most: int) -> tuple[int, ...]:
        chosen = rng.permutation(labels)[: rng.integers(0, most + 1)]
        return tuple(int(x) for x in chosen)

    terms = []
    for k in range(count):
        own = all_lanes if k == 0 or rng.random() < 0.5 else some(all_lanes, len(all_lanes))
        terms.append(tuple(int(x) for x in rng.permutation([*own, *some(INNER, 3)]).astype(int)))
    labels: list[tuple[int, ...]] = [*terms]
    left = [*range(count)]
    steps = []
    while len(left) > 1:
        whole = [v for v in left if set(all_lanes) <= set(labels[v])]
        one = whole[rng.integers(len(whole))]
        other = [v for v in left if v != one][rng.integers(len(left) - 1)]
        inner = sorted({*labels[one], *labels[other]} - set(all_lanes))
        kept = (*all_lanes, *(x for x in inner if rng.random() < 0.5))
        conj = (bool(rng.random() < 0.3), bool(rng.random() < 0.3))
        operands = (one, other) if rng.random() < 0.5 else (other, one)
        labels.append(tuple(int(x) for x in rng.permutation(kept)))
        steps.append(ProductStep(operands, labels[-1], conj))
        left = [v for v in left if v not in operands] + [len(labels) - 1]
    output = tuple(int(x) for x in rng.permutation(labels[-1]))
    shape = tuple(sizes[x] for x in output)
    layout = tuple(int(x) for x in rng.permutation(len(shape))) if rng.random() < 0.5 else None
    kind = np.dtype(dtype)
    return ProductFusionPlan(
        tuple(ArraySpec(kind, tuple(sizes[x] for x in term)) for term in terms),
        tuple(terms),
        tuple(steps),
        output,
        all_lanes,
        ArraySpec(kind, shape, layout),
    )


def values(plan: ProductFusionPlan, rng: np.random.Generator) -> list[Any]:
    """Numbers of which sums of products are exact in float32."""

    def numbers(shape: tuple[int, ...]) -> Any:
        return rng.integers(-1, 2, shape).astype("f8")

    return [
        np.asarray(
            numbers(x.shape) + (1j * numbers(x.shape) if x.dtype.kind == "c" else 0), x.dtype
        )
        for x in plan.inputs
    ]


def by_steps(plan: ProductFusionPlan, arrays: list[Any]) -> Any:
    """The result in double precision, one einsum a step."""
    found = [x.astype("c16" if x.dtype.kind == "c" else "f8") for x in arrays]
    labels = plan.labels()
    for number, step in enumerate(plan.steps):
        terms = []
        for value, is_conj in zip(step.operands, step.conj, strict=True):
            terms += [found[value].conj() if is_conj else found[value], [*labels[value]]]
        found.append(np.einsum(*terms, [*labels[len(arrays) + number]]))
    order = [labels[-1].index(x) for x in plan.output]
    return found[-1].transpose(order)


def forced(plan: ProductFusionPlan) -> Any:
    with options(engine="lanes"):
        kernel = bind_lanes(plan)
    assert kernel is not None
    return kernel


def plans(seed: int, count: int, lanes: int = 700) -> Iterator[ProductFusionPlan]:
    rng = np.random.default_rng(seed)
    for k in range(count):
        plan = random_plan(rng, DTYPES[k % 4], lanes)
        if suits(plan):
            yield plan


@pytest.mark.parametrize("seed", range(8))
def test_random_plans(seed: int, rng: np.random.Generator) -> None:
    for plan in plans(seed, 60):
        kernel = forced(plan)
        for _ in range(2):
            arrays = [
                lay_out(x, LAYOUTS[rng.integers(len(LAYOUTS))], rng) for x in values(plan, rng)
            ]
            for x in arrays:
                x.flags.writeable = False
            want = by_steps(plan, arrays)
            got = kernel(*arrays)
            np.testing.assert_array_equal(got, want, err_msg=str(plan))
            assert got.dtype == plan.result.dtype
            if plan.result.layout is not None:
                assert got.transpose(plan.result.layout).flags.c_contiguous
            layout = LAYOUTS[rng.integers(len(LAYOUTS) - 1)]
            out = lay_out(np.full(want.shape, 7, plan.result.dtype), layout, rng)
            assert kernel(*arrays, out=out) is out
            np.testing.assert_array_equal(out, want, err_msg=f"{layout} {plan}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_random_plans(seed: int, rng: np.random.Generator) -> None:
    for plan in plans(seed, 500, 3000):
        arrays = values(plan, rng)
        np.testing.assert_array_equal(forced(plan)(*arrays), by_steps(plan, arrays), str(plan))


def product(
    lanes: int, n: int, dtype: str = "f8", *, last: bool = False, steps: int = 1
) -> ProductFusionPlan:
    """Matrices of n by n, one for each lane, multiplied one after another; lanes first, or last."""
    kind = np.dtype(dtype)

    def matrix(row: int, column: int) -> tuple[int, ...]:
        return (row, column, 0) if last else (0, row, column)

    spec = ArraySpec(kind, (n, n, lanes) if last else (lanes, n, n))
    terms = tuple(matrix(k + 1, k + 2) for k in range(steps + 1))
    made = [ProductStep((0, 1), matrix(1, 3))]
    made += [ProductStep((steps + k, k + 1), matrix(1, k + 3)) for k in range(1, steps)]
    output = matrix(1, steps + 2)
    return ProductFusionPlan((spec,) * (steps + 1), terms, tuple(made), output, (0,), spec)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_number_of_lanes(dtype: str, last: bool, rng: np.random.Generator) -> None:
    """Blocks of any width, whole ones and a last one that is not; nothing is written beyond the result."""
    for lanes in (1, 2, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 500, 1023, 1024, 1500, 4099):
        plan = product(lanes, 2 + lanes % 3, dtype, last=last)
        arrays = values(plan, rng)
        room = np.full((plan.result.size + 64,), 7, plan.result.dtype)
        out = room[32:-32].reshape(plan.result.shape)
        forced(plan)(*arrays, out=out)
        np.testing.assert_array_equal(out, by_steps(plan, arrays))
        assert (room[:32] == 7).all()
        assert (room[-32:] == 7).all()


def test_every_number_of_elements(rng: np.random.Generator) -> None:
    """Whole squares, overlapping ones, parts and single elements."""
    for n in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33):
        for dtype in DTYPES:
            spec = ArraySpec(np.dtype(dtype), (70, n))
            step = ProductStep((0, 1), (0, 1))
            plan = ProductFusionPlan((spec, spec), ((0, 1), (0, 1)), (step,), (0, 1), (0,), spec)
            arrays = values(plan, rng)
            for layout in ("C", "F", "sliced", "reversed"):
                laid = [lay_out(x, layout, rng) for x in arrays]
                out = lay_out(np.zeros_like(arrays[0]), layout, rng)
                np.testing.assert_array_equal(forced(plan)(*laid, out=out), by_steps(plan, arrays))


def test_not_a_number_stays_in_its_lane(rng: np.random.Generator) -> None:
    for dtype in DTYPES:
        plan = product(333, 3, dtype, steps=2)
        for bad in (np.nan, np.inf):
            arrays = [x + 2 for x in values(plan, rng)]
            arrays[1][[5, 200, 332]] = bad
            got = forced(plan)(*arrays)
            finite = np.isfinite(got).all(axis=(1, 2))
            assert (~finite).nonzero()[0].tolist() == [5, 200, 332]
            if dtype[0] == "f":
                with np.errstate(all="ignore"):
                    np.testing.assert_array_equal(got, by_steps(plan, arrays))


def test_an_array_is_read_twice(rng: np.random.Generator) -> None:
    plan = product(100, 3)
    (x, _) = values(plan, rng)
    np.testing.assert_array_equal(forced(plan)(x, x), x @ x)


def test_same_bits_for_any_number_of_threads(rng: np.random.Generator) -> None:
    for last in (False, True):
        plan = product(2500, 5, last=last, steps=2)
        arrays = [rng.standard_normal(x.shape) for x in plan.inputs]
        results = set()
        for threads in (1, 2, 3, 8):
            with options(threads=threads):
                results.add(forced(plan)(*arrays).tobytes())
        assert len(results) == 1


def test_one_kernel_in_eight_threads(rng: np.random.Generator) -> None:
    """Tables for the strides of one thread are never used on the operands of another."""
    plan = product(150, 3, steps=2)
    kernel = forced(plan)
    sets = [[lay_out(x, layout, rng) for x in values(plan, rng)] for layout in LAYOUTS]
    wants = [by_steps(plan, arrays) for arrays in sets]

    def work(n: int) -> None:
        for _ in range(100):
            np.testing.assert_array_equal(kernel(*sets[n]), wants[n])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(len(sets))))
    finally:
        sys.setswitchinterval(interval)


def test_what_does_not_suit() -> None:
    plan = product(100, 3)
    assert suits(plan)
    whole = ArraySpec(np.dtype("i8"), (100, 3, 3))
    assert not suits(replace(plan, inputs=(whole, whole), result=whole))
    narrow = ArraySpec(np.dtype("f4"), (100, 3, 3))
    assert not suits(replace(plan, inputs=(narrow, plan.inputs[1])))
    assert not suits(product(100, 3, ">f8" if sys.byteorder == "little" else "<f8"))
    assert not suits(product(0, 3))
    assert not suits(product(100, 0))
    assert not suits(product(100, 50))  # a strip of it is more than the cache has room for
    with options(engine="lanes"):
        assert bind_lanes(product(100, 50)) is None
    with options(engine="loops"):
        assert bind_lanes(product(100000, 2, steps=3)) is None


def test_what_pays() -> None:
    """Short steps that others do slowly; not large ones, nor single ones that others do as fast."""
    for dtype in DTYPES:
        assert pays(product(100000, 2, dtype, steps=2))
        assert pays(product(100000, 3, dtype, steps=3))
        assert not pays(product(10000, 16, dtype))
        assert not pays(product(10000, 16, dtype, steps=2))
    near, far = 5000, 1000000  # what caches hold, and more, where the model is too hopeful
    with pytest.MonkeyPatch.context() as patch:
        own = einloom.backend.cpu.lanes
        patch.setattr(own, "_one_by_one", lambda plan: [1.3 * predict_lanes(plan).seconds])
        assert pays(product(near, 3, steps=2))
        assert not pays(product(far, 3, steps=2))
    assert not pays(product(100000, 8))
    assert pays(product(100000, 3))
    with pytest.MonkeyPatch.context() as patch:
        for dtype, margin in (("f8", ALONE), ("c16", ALONE_COMPLEX)):
            for factor, is_chosen in ((0.99, False), (1.01, True)):
                patch.setattr(
                    own,
                    "_one_by_one",
                    lambda plan, f=factor * margin: [f * predict_lanes(plan).seconds],
                )
                assert pays(product(near, 3, dtype)) is is_chosen
    assert not pays(product(100000, 4, last=True))
    assert predict_lanes(product(100000, 4)).multiplications == 100000 * 64


def test_small_calls_never_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a compiled kernel ran")

    monkeypatch.setattr(einloom.backend.cpu.lanes, "contract_lanes", refuse)
    lanes = MANY * SMALL // (2 * CALL) - 1  # two calls of BLAS each
    shapes = [(lanes, 2, 2)] * 3
    x = np.ones(shapes[0])
    more = [(lanes + 1, 2, 2)] * 3
    with options(small=SMALL, engine=None):
        expression = einloom.compile("bij,bjk,bkl->bil", *shapes)
        np.testing.assert_array_equal(expression(x, x, x), np.full(shapes[0], 4.0))
        larger = einloom.compile("bij,bjk,bkl->bil", *more)
    assert has_chains(larger._executable.running[0])


def test_memory_is_bounded(rng: np.random.Generator) -> None:
    """Scratch and tables, on the first call and on later ones, with tables made anew."""
    for plan in [*plans(77, 40), product(5000, 5, steps=3), product(3000, 9, "c16", last=True)]:
        kernel = forced(plan)
        arrays = values(plan, rng)
        for threads in (1, 2):
            with options(threads=threads):
                kernel(*arrays)
                turned = [lay_out(x, "F", rng) for x in arrays]
                out = np.empty(plan.result.shape, plan.result.dtype)
                tracemalloc.start()
                try:
                    before = tracemalloc.get_traced_memory()[0]
                    tracemalloc.reset_peak()
                    kernel(*turned, out=out)
                    peak = tracemalloc.get_traced_memory()[1] - before
                finally:
                    tracemalloc.stop()
            assert peak <= lanes_bytes(plan, threads) + (16 << 10), plan  # Python's own objects


def test_real_kernels_serve_complex_numbers(rng: np.random.Generator) -> None:
    for dtype in DTYPES:
        plan = product(100, 2, dtype)
        forced(plan)(*values(plan, rng))
    assert len(contract_lanes.signatures) <= 2  # none of those that were found on disk


def test_an_instance_with_threads_of_its_own(rng: np.random.Generator) -> None:
    plan = product(3000, 3)
    arrays = values(plan, rng)
    with options(engine="lanes"):
        kernel = cpu(threads=1).fuse(plan)
    assert kernel is not None
    np.testing.assert_array_equal(kernel(*arrays), by_steps(plan, arrays))


@pytest.mark.parametrize(
    ("result", "steps", "message"),
    [
        ((50, 2, 2), (ProductStep((0, 1), (0, 1, 3)),), "label 0 has sizes 1000 and 50"),
        ((1000, 2, 2), (), "does not make the labels"),
        ((1000, 2, 2), (ProductStep((0, 2), (0, 1, 3)),), "not yet made"),
        ((1000, 2, 2), (ProductStep((0, 1), (1, 3)),), "lanes are"),
        ((1000, 2), (ProductStep((0, 1), (0, 1, 3)),), "are not those of the axes"),
        ((1000, 2, 2), (ProductStep((0, 1), (0, 1, 4)),), "has labels"),
    ],
)
def test_malformed_plans(result: Any, steps: Any, message: str) -> None:
    x = ArraySpec(np.dtype("f8"), (1000, 2, 2))
    plan = ProductFusionPlan(
        (x, x), ((0, 1, 2), (0, 2, 3)), steps, (0, 1, 3), (0,), ArraySpec(x.dtype, result)
    )
    with pytest.raises(ProgramError, match=message):
        cpu().fuse(plan)
