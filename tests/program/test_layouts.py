"""Layouts of intermediates: what is chosen, that it changes no result, and that less is copied."""

from __future__ import annotations

import json
import math
import random
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.suites.layouts import canonical_bytes, copied_bytes, row_major
from tests.program.programs import any_layouts, layout_assignment
from tests.program.rewrites.common import dot
from tests.program.rewrites.layout_assignment import chain

import einloom
from einloom import options
from einloom.backend.catalogue import dot_dims, infer
from einloom.backend.contraction import Contraction, contraction_of, orders_of
from einloom.backend.cpu import cpu, matrices, sharing
from einloom.backend.matrices import plan_matrices
from einloom.backend.products import plan_products
from einloom.backend.spec import ArraySpec
from einloom.contract.problem_file import read_problem
from einloom.program.builder import Builder
from einloom.program.executable import Executable
from einloom.program.ir import Program
from einloom.program.passes import optimise
from einloom.program.passes.layout_assignment import result_order

INSTANCES = Path(__file__).parents[2] / "benchmarks" / "instances"


def laid_out(x: Any, layout: tuple[int, ...]) -> Any:
    """The same array with its axes in this order in memory."""
    inverse = sorted(range(x.ndim), key=layout.__getitem__)
    return x.transpose(layout).copy().transpose(inverse)


def test_chain() -> None:
    """[20, 50, 20, 50] with axes 0 and 2 contracted next: as it is they are no axis of a matrix. Now they
    are, below loops over both 50; the small result is turned for that."""
    build = Builder()
    before = build.finish(*chain(build))
    after = optimise(before)
    assert [slot.layout for slot in after.slots] == [None, None, None, (3, 1, 0, 2), None]
    assert "complex128[20,50,20,50]{3,1,0,2}" in str(after)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, spec.shape) + 0j for spec in after.specs(after.inputs)]
    with copied_bytes() as counted:
        got = Executable(after, cpu())(*arrays)
    assert counted == [got.nbytes]
    want = np.einsum("iab,bjc,ijd->acd", *arrays, optimize=True)
    np.testing.assert_array_equal(got, want)


def random_step(draw: random.Random) -> tuple[dict[str, Any], ArraySpec, ArraySpec]:
    """A dot_general of up to three axes in each role, in any order."""
    counts = [draw.randint(0, 2) for _ in range(4)]
    sizes = [
        [draw.choice((2, 3, 5) if draw.random() < 0.9 else (1,)) for _ in range(count)]
        for count in counts
    ]
    tags = [[(role, k) for k in range(count)] for role, count in enumerate(counts)]
    left, right = tags[0] + tags[1] + tags[3], tags[0] + tags[2] + tags[3]
    draw.shuffle(left)
    draw.shuffle(right)
    attrs = {
        name: (tuple(left.index(x) for x in tags[role]), tuple(right.index(x) for x in tags[role]))
        for name, role in (("batch", 0), ("contracting", 3))
    }
    dtype = np.dtype(draw.choice(("f4", "f8", "c8", "c16")))
    shapes = [tuple(sizes[role][k] for role, k in side) for side in (left, right)]
    return attrs, ArraySpec(dtype, shapes[0]), ArraySpec(dtype, shapes[1])


def with_layout(spec: ArraySpec, draw: random.Random) -> ArraySpec:
    layout = tuple(draw.sample(range(len(spec.shape)), len(spec.shape)))
    return ArraySpec(spec.dtype, spec.shape, layout)


@pytest.mark.parametrize("group", range(8))
def test_any_layout_of_operands_and_result(group: int) -> None:
    """A kernel makes what it should in the order it should, copies what its plan says, and takes arrays
    that lie otherwise."""
    rng = np.random.default_rng(group)
    for seed in range(group * 100, group * 100 + 100):
        draw = random.Random(seed)
        attrs, *plain = random_step(draw)
        lhs, rhs = (with_layout(spec, draw) for spec in plain)
        (result,) = infer("dot_general", attrs, tuple(plain))
        output = with_layout(result, draw)
        dims = dot_dims(attrs, lhs.shape, rhs.shape)
        step, left, right = contraction_of(dims, lhs, rhs)
        orders = orders_of(step, left, right, (lhs, rhs, output))
        plan = plan_matrices(step, orders)
        arrays = [
            laid_out(rng.integers(-3, 4, spec.shape).astype(spec.dtype), spec.layout or ())
            for spec in (lhs, rhs)
        ]
        want = cpu().apply("dot_general", attrs, *(x.copy("C") for x in arrays))
        kernel = matrices.bind_matrices(dims, (lhs, rhs), output)
        with copied_bytes() as counted:
            got = kernel(*arrays)
        np.testing.assert_array_equal(got, want)
        assert got.transpose(output.layout).flags.c_contiguous
        if step.contracted and 1 not in step.sizes.values():  # else strides say nothing
            assert sum(counted) == plan.copied_bytes, (seed, plan)
        out = np.full(result.shape, 7, result.dtype)[..., ::-1] if result.shape else None
        other = [laid_out(x, tuple(reversed(range(x.ndim)))) for x in arrays]
        np.testing.assert_array_equal(kernel(*other, out=out), want)


def test_everything_fits_somehow() -> None:
    """Whatever the orders, there is a plan; free orders cost nothing more than any that is given."""
    for seed in range(300):
        draw = random.Random(seed)
        attrs, lhs, rhs = random_step(draw)
        step, left, right = contraction_of(dot_dims(attrs, lhs.shape, rhs.shape), lhs, rhs)
        out = tuple(range(len(step.batch + step.rows + step.columns)))
        given = tuple(tuple(draw.sample(x, len(x))) for x in (left, right, out))
        plan = plan_matrices(step, given)  # type: ignore[arg-type]
        assert plan.calls * math.prod(
            step.size(x) for x in (plan.rows, plan.columns, plan.contracted)
        ) == step.size(step.sizes)
        free = plan_matrices(step, (None, None, None))
        assert free.copied_bytes == 0
        assert free.seconds <= plan.seconds * (1 + 1e-9)


def test_orders_of_a_small_product() -> None:
    """[rows, contracted] of every order: two of three arrays can disagree without a copy."""
    step = Contraction({0: 64, 1: 64, 2: 64}, (), (0,), (1,), (2,))
    for lhs in permutations((0, 2)):
        for rhs in permutations((2, 1)):
            for out in permutations((0, 1)):
                assert plan_matrices(step, (lhs, rhs, out)).copied_bytes == 0


@pytest.mark.parametrize("seeds", [range(k * 25, k * 25 + 25) for k in range(4)], ids=str)
def test_random_networks_in_any_layout(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """By every engine of small products, in an arena and without."""
    any_layouts(monkeypatch)
    decided = 0
    for seed in seeds:
        draw = random.Random(seed)
        n = draw.randint(4, 7)
        labels = "abcdefghijkl"
        extents = {label: draw.choice((1, 2, 3, 4)) for label in labels}
        terms = ["".join(draw.sample(labels, draw.randint(1, 4))) for _ in range(n)]
        output = "".join(draw.sample(sorted({*"".join(terms)}), 2))
        dtype = draw.choice(("f8", "f4", "c16", "i8", "f2"))
        rng = np.random.default_rng(seed)
        arrays = [rng.integers(-1, 2, [extents[x] for x in term]).astype(dtype) for term in terms]
        equation = f"{','.join(terms)}->{output}"
        want = np.einsum(equation, *(x.astype("c16") for x in arrays), optimize=True)
        if abs(want).max() > 500:
            continue
        program = einloom.plan(equation, *arrays).program
        decided += any(slot.layout for slot in program.slots)
        executable = Executable(program, cpu())
        for _ in range(2):
            np.testing.assert_array_equal(executable(*arrays), want, err_msg=equation)
        np.testing.assert_array_equal(executable.interpret(*arrays), want, err_msg=equation)
    assert decided > 5


@pytest.mark.parametrize("name", ["str_nw_mera_open_26", "lm_batch_likelihood_sentence_4_4d"])
def test_published_networks_copy_less(name: str) -> None:
    """Predicted, for two networks: below 0.3 of what products of [batch, rows, contracted] and [batch,
    contracted, columns] have to copy."""
    problem = read_problem(INSTANCES / f"{name}.json")
    program = einloom.plan(
        problem.equation, *problem.shapes, planner=problem.paths["opt_flops"]
    ).program
    plain = row_major(program)
    assert predicted(program) < 0.3 * canonical_bytes(plain)
    assert Executable(program, cpu()).peak_bytes <= Executable(plain, cpu()).peak_bytes


def predicted(program: Program) -> int:
    total = 0
    for ins in program.instructions:
        if ins.op == "dot_general":
            lhs, rhs = program.placed(ins.inputs)
            dims = dot_dims(ins.attrs, lhs.shape, rhs.shape)
            step, left, right = contraction_of(dims, lhs, rhs)
            (out,) = program.placed(ins.outputs)
            orders = orders_of(step, left, right, (lhs, rhs, out))
            total += plan_products(step, orders).copied_bytes
    return total


def test_a_product_of_a_slot_with_itself() -> None:
    """Read twice by one instruction: it keeps its order."""
    build = Builder()
    x = build.input("f8", (300, 4, 300))
    square = dot(build, x, x, ((0, 1), (0, 1)))
    program = optimise(build.finish(dot(build, square, square, ((0,), (0,)))))
    assert all(slot.layout is None for slot in program.slots)


@pytest.mark.parametrize("sizes", [(300, 0, 300, 7), (300, 5, 300, 0), (0, 5, 300, 7)])
def test_empty_axes(sizes: tuple[int, ...]) -> None:
    """Previously failed: what nobody multiplies takes no time, which nothing may be divided by."""
    m, k, n, last = sizes
    build = Builder()
    x, y, z = (build.input("f8", shape) for shape in ((m, k), (k, n), (m, last)))
    inner = dot(build, x, y, ((1,), (0,)))
    program = optimise(build.finish(dot(build, inner, z, ((0,), (0,)))))
    arrays = [np.ones(spec.shape) for spec in program.specs(program.inputs)]
    want = (arrays[0] @ arrays[1]).T @ arrays[2]
    np.testing.assert_array_equal(Executable(program, cpu())(*arrays), want)


@pytest.mark.parametrize("dtype", ["int64", "int8", "longdouble", "object", "float16"])
def test_without_blas_slots_stay_row_major(dtype: str) -> None:
    """Previously failed: loops over integers were up to ten times slower in orders chosen for BLAS."""
    build = Builder()
    x, y = build.input(dtype, (60, 100, 50)), build.input(dtype, (50, 60, 100))
    z = build.input(dtype, (60, 60, 40))
    xy = dot(build, x, y, ((2,), (0,)))
    program = optimise(build.finish(dot(build, xy, z, ((0, 2), (0, 1)))))
    assert all(slot.layout is None for slot in program.slots)


def test_a_vector_of_two_axes_stays_as_it_is() -> None:
    """Previously failed: both axes of a matrix times a vector were taken for rows and columns, and turned, so
    that BLAS was called for each element of one axis."""
    plan = einloom.plan("kcld,ic,ld->ki", (32, 120, 32, 120), (32, 120), (32, 120))
    assert plan.program is not None
    assert all(slot.layout is None for slot in plan.program.slots)


def test_loops_that_are_shared_out() -> None:
    """Those of the operand with the larger matrices; else the longest, else the first ones."""
    shared = partial(sharing._shared_axes, work=1 << 24)
    assert shared((4, 1, 3, 8, 16), (1, 5, 3, 16, 64), (4, 5, 3)) == (1, 2)
    assert shared((4, 1, 3, 64, 16), (1, 5, 3, 16, 8), (4, 5, 3)) == (0, 2)
    assert shared((2000, 4, 4), (2000, 4, 4), (2000,)) == (0,)
    assert shared((4000, 1, 3, 8, 16), (4000, 5, 3, 16, 64), (4000, 5, 3)) == (0,)
    assert shared((4, 5, 1, 8, 16), (1, 1, 3, 16, 64), (4, 5, 3)) == (0, 1)
    # previously failed: Python took eight times as long for each product as the product
    many = (7, 121, 45, 8), (7, 121, 8, 36), (7, 121), 847 * 12960
    assert sharing._shared_axes(*many) == (1,)
    with options(threads=128):  # more than the longest has places
        assert sharing._shared_axes(*many) == (0, 1)


def test_parts_cover_all_loops_once() -> None:
    for loops, axes in (((4, 5, 3), (1, 2)), ((20, 3), (0,)), ((2, 2, 2, 2), (0, 1, 2))):
        counts = np.zeros((*loops, 1, 1), int)
        total = math.prod(loops[axis] for axis in axes)
        for start, stop in ((0, total // 3), (total // 3, total)):
            for part in sharing._parts(loops, axes, start, stop):
                counts[part] += 1
        assert (counts == 1).all()


# ---- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_result_is_written_in_the_order_asked_for(order: str) -> None:
    """The transpose at the end is a view of a product that lies so: no copy, no bytes for one."""
    a = np.random.default_rng(0).integers(-4, 5, (40, 30, 50)).astype("f8")
    b = np.random.default_rng(1).integers(-4, 5, (50, 20)).astype("f8")
    expression = einloom.compile("ijk,kl->jli", a, b, order=order)
    assert [ins.op for ins in expression.program.instructions] == ["dot_general", "transpose"]
    (output,) = expression.program.outputs
    lies = result_order(expression.program, output)
    assert lies == ((0, 1, 2) if order == "C" else (2, 1, 0))
    got = expression(a, b)
    assert got.flags.c_contiguous if order == "C" else got.flags.f_contiguous
    assert got.base is not None
    np.testing.assert_array_equal(got, np.einsum("ijk,kl->jli", a, b))


def test_orders_of_results_at_random() -> None:
    """Any contraction in C, F, A and K order, with `out` in any order: the same numbers."""
    draw = random.Random(0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        labels = "abcde"[: draw.randint(2, 5)]
        x, y, out = (draw.sample(labels, draw.randint(1, len(labels))) for _ in range(3))
        out = [label for label in out if label in x + y]
        sizes = {label: draw.choice((2, 3, 4)) for label in labels}
        a, b = (rng.integers(-4, 5, [sizes[t] for t in term]).astype("f8") for term in (x, y))
        equation = f"{''.join(x)},{''.join(y)}->{''.join(out)}"
        want = np.einsum(equation, a, b)
        for order in "CFAK":
            got = np.asarray(einloom.einsum(equation, a, b, order=order))
            np.testing.assert_array_equal(got, want)
            assert order != "C" or got.flags.c_contiguous
            assert order != "F" or got.flags.f_contiguous
        for order in "CF":
            into = np.full(want.shape, np.nan, order=order)
            if into.ndim:
                assert einloom.einsum(equation, a, b, out=into) is into
                np.testing.assert_array_equal(into, want)


def test_a_result_that_nobody_asked_to_be_in_order_lies_as_is_cheapest() -> None:
    """Row-major if that costs little more; a result that is no transpose stays row-major."""
    build = Builder()
    x, y = build.input("f8", (300, 24, 300)), build.input("f8", (24, 20))
    product = dot(build, x, y, ((1,), (0,)))
    after = optimise(build.finish(build.transpose(product, (2, 0, 1))))
    assert result_order(after, after.outputs[0]) is not None
    build = Builder()
    x, y = build.input("f8", (300, 24, 300)), build.input("f8", (24, 20))
    after = optimise(build.finish(dot(build, x, y, ((1,), (0,)))))
    assert result_order(after, after.outputs[0]) == (0, 1, 2)


# ---- operands ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("equation", "shapes", "runs_along"),
    [
        ("tjk,to->tokj", ((64, 16, 16), (64, 64)), "tojk"),  # as the larger one lies
        ("to,tjk->tokj", ((64, 64), (64, 16, 16)), "tojk"),
        ("tkj,to->tokj", ((64, 16, 16), (64, 64)), "tokj"),  # which is row-major
        ("ij,ji->ij", ((300, 300), (300, 300)), "ij"),  # one of both lies across in any order
        ("a,b->ba", ((300,), (300,)), "ba"),
        ("bca,ad->dbac", ((388, 4, 37), (37, 16)), "dbca"),  # the smaller one is repeated
        ("a,bca->acb", ((246,), (99, 65, 246)), "bca"),  # nothing lies in another order
        ("ba,dc->acbd", ((11, 2), (7, 89)), "badc"),  # a small result, which NumPy writes
        (
            "ab,cab->abc",
            ((50, 16), (1000, 50, 16)),
            "cab",
        ),  # previously failed: as axes are numbered
        ("ab,c->acb", ((11, 34), (2307,)), "acb"),  # lines of 34 are long enough
    ],
)
def test_outer_products_run_along_the_larger_operand(
    equation: str, shapes: Any, runs_along: str
) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    expression = einloom.compile(equation, *arrays)
    got = expression(*arrays)
    np.testing.assert_allclose(got, np.einsum(equation, *arrays), rtol=1e-15)
    labels = equation[-got.ndim :]
    assert "".join(labels[k] for k in np.argsort(got.strides)[::-1]) == runs_along


def test_outer_products_look_at_how_operands_lie() -> None:
    """Stored as t, k, j the large operand is read as row-major results of tokj are written."""
    rng = np.random.default_rng(0)
    stored, other = rng.standard_normal((64, 32, 64)), rng.standard_normal((64, 8))
    for x, runs_along in ((stored.transpose(0, 2, 1), "tokj"), (stored, "tojk")):
        got = einloom.compile("tjk,to->tokj", x, other)(x, other)
        np.testing.assert_allclose(got, np.einsum("tjk,to->tokj", x, other), rtol=1e-15)
        assert "".join("tokj"[k] for k in np.argsort(got.strides)[::-1]) == runs_along


@pytest.fixture
def every_layout_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of any size are looked at, and intermediates of any size are given layouts."""
    for module in ("backend.spec", "contract.einsum", "contract.quick_call"):
        monkeypatch.setattr(f"einloom.{module}.LARGE", 0)
    monkeypatch.setattr(layout_assignment, "LEAST", 0)
    einloom.clear_caches()


@pytest.mark.usefixtures("every_layout_counts")
def test_operands_in_any_order() -> None:
    """The plan is for their order; called again with others, expressions give the same."""
    draw = random.Random(1)
    rng = np.random.default_rng(1)
    for _ in range(300):
        count = draw.randint(1, 4)
        labels = "abcdef"[: draw.randint(2, 6)]
        sizes = {label: draw.choice((1, 2, 3, 4)) for label in labels}
        terms = [draw.sample(labels, draw.randint(1, min(4, len(labels)))) for _ in range(count)]
        out = [x for x in draw.sample(labels, len(labels)) if any(x in t for t in terms)]
        out = out[: draw.randint(0, len(out))]
        arrays = [rng.integers(-3, 4, [sizes[x] for x in t]).astype("f8") for t in terms]
        equation = ",".join(map("".join, terms)) + "->" + "".join(out)
        want = np.einsum(equation, *arrays)
        given = [laid_out(x, tuple(draw.sample(range(x.ndim), x.ndim))) for x in arrays]
        order = draw.choice("CFAK")
        expression = einloom.compile(equation, *given, order=order)
        for _ in range(2):  # the second call is by the generated function
            np.testing.assert_array_equal(expression(*given), want)
            np.testing.assert_array_equal(expression(*arrays), want)
            np.testing.assert_array_equal(einloom.einsum(equation, *given, order=order), want)
            np.testing.assert_array_equal(einloom.einsum(equation, *arrays), want)
        plan = einloom.plan(equation, *given, order=order)
        again = einloom.Plan.from_json(plan.to_json())
        assert again == plan
        assert again.peak_bytes == plan.peak_bytes


def test_the_plan_is_for_the_order_of_large_operands() -> None:
    """Column-major operands are as good as row-major ones: nothing is copied."""
    rng = np.random.default_rng(2)
    a = np.asfortranarray(rng.standard_normal((60, 30, 40, 8)))
    b = np.asfortranarray(rng.standard_normal((40, 30, 70)))
    plan = einloom.plan("ijka,kjl->ila", a, b)
    assert plan.layouts == ((3, 2, 1, 0), (2, 1, 0))
    assert einloom.plan("ijka,kjl->ila", a.shape, b.shape).layouts == ()
    small = np.asfortranarray(rng.standard_normal((3, 4)))
    assert einloom.plan("ij,jk->ik", small, small.T).layouts == ()
    x = rng.standard_normal((200, 300))
    with copied_bytes() as counted:
        got = einloom.einsum("ijka,il->jkal", a, np.asfortranarray(x[:60]), order="F")
    assert counted == []
    np.testing.assert_allclose(got, np.einsum("ijka,il->jkal", a, x[:60], optimize=True))


def test_a_layout_that_is_none_is_refused() -> None:
    text = einloom.plan("ij,jk->ik", np.zeros((300, 300), order="F"), (300, 300)).to_json()
    assert '"layouts": [[1, 0], null]' in text
    for broken in ("[[1, 1], null]", "[[1, 0]]", "[[0, 1, 2], null]", '[["a", 0], null]'):
        with pytest.raises(einloom.FileFormatError, match=r"layouts|integers"):
            einloom.Plan.from_json(text.replace("[[1, 0], null]", broken))


def test_a_stored_plan_of_version_2_has_none() -> None:
    plan = einloom.plan("ij,jk->ik", (300, 300), (300, 300))
    data = json.loads(plan.to_json())
    del data["layouts"]
    assert einloom.Plan.from_json(json.dumps(data | {"version": 2})) == plan
