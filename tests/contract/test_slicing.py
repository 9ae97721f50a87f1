"""Plans whose labels are sliced give what whole ones give, within their memory limit."""

from __future__ import annotations

import math
import random
import re
import threading
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.networks import chain, grid, random_network, random_networks

import einloom
from einloom import MemoryLimitError, Network
from einloom._base.options import options
from einloom.backend.cpu import cpu
from einloom.contract.plan import Plan
from einloom.contract.slicing import Model, slice_to
from einloom.program.executable import Executable
from einloom.program.parts import split
from einloom.program.schedule import schedule
from einloom.program.serial import program_from_json, program_to_json
from einloom.program.sliced import SlicedExecutable
from einloom.program.verify import verify

DTYPES = ["f8", "f4", "c16", "c8", "i8", "i2", "u1", "?", "f2", "g", "G", "O"]
SLACK = 512 << 10  # Python's own objects, and the buffers of NumPy's loops


def array(r: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Small integers, of which sums are exact in whatever order they are added."""
    x = np.asarray(r.integers(-2, 3, shape))
    if np.dtype(dtype).kind == "c":
        return np.asarray(x + 1j * r.integers(-2, 3, shape), dtype)
    return np.asarray(abs(x) if np.dtype(dtype).kind in "ub" else x, dtype)


def arrays(plan: Plan, seed: int = 0) -> list[np.ndarray]:
    r = np.random.default_rng(seed)
    specs = zip(plan.network.shapes, plan.dtypes, strict=True)
    return [array(r, shape, dtype) for shape, dtype in specs]


def sliceable(network: Network) -> list[int]:
    carried = frozenset().union(*network.carried)
    return sorted(label for label in carried if network.extents[label] > 1)


def random_plan(seed: int) -> Plan:
    """A random network, path, dtypes, conj and order; its labels repeat in inputs and output."""
    r = random.Random(seed)
    network = random_network(r, sizes=(1, 2, 2, 3))
    if network.output and r.random() < 0.2:
        output = [*network.output, r.choice(network.output)]
        network = Network(network.inputs, output, network.sizes, embed_diagonal=True)
    dtypes = [r.choice(DTYPES)]
    if r.random() < 0.3:
        dtypes.append("f4" if dtypes[0] in ("f8", "c16", "i2") else dtypes[0])
    operands = [
        np.zeros(shape, r.choice(dtypes)) if r.random() < 0.9 else np.zeros(shape, dtypes[0])
        for shape in network.shapes
    ]
    return einloom.plan(
        network,
        *operands,
        planner=r.choice(["auto", "greedy", False]),
        conj=[k for k in range(len(operands)) if r.random() < 0.3],
        order=r.choice("KCFA"),
        embed_diagonal=True,
    )


def sliced(plan: Plan, seed: int) -> Plan:
    """Some labels of it sliced, or all, or none."""
    r = random.Random(seed)
    labels = sliceable(plan.network)
    return replace(plan, sliced=tuple(r.sample(labels, r.randint(0, len(labels)))))


# Results ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [range(k * 50, k * 50 + 50) for k in range(8)], ids=str)
def test_slices_add_up_to_the_whole(seeds: range) -> None:
    for seed in seeds:
        whole = random_plan(seed)
        cut = sliced(whole, seed)
        try:
            operands = arrays(whole, seed)
            want, got = einloom.compile(whole)(*operands), einloom.compile(cut)(*operands)
            assert np.shape(got) == np.shape(want)
            assert np.asarray(got).dtype == np.asarray(want).dtype
            assert type(got) is type(want)
            np.testing.assert_array_equal(got, want)
            if cut.sliced and np.ndim(got) and whole.order in "CF":
                assert got.flags[f"{whole.order}_CONTIGUOUS"]
        except Exception as error:
            error.add_note(f"random_plan({seed}):\n{cut}")
            raise


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(50 * k, 50 * k + 50), marks=[pytest.mark.slow] * (k > 0), id=str(50 * k))
        for k in range(4)
    ],
)
def test_out_alpha_and_beta(seeds: range) -> None:
    """Of any layout and of a wider dtype, overlapping operands or not."""
    for seed in seeds:
        whole = random_plan(seed)
        cut, r = sliced(whole, seed), np.random.default_rng(seed)
        operands = arrays(whole, seed)
        shape = tuple(whole.network.extents[label] for label in whole.network.output_axes)
        wider = {"f": "c16", "i": "i8"}.get(whole.dtype.kind, whole.dtype)
        outs = [array(r, shape, whole.dtype), array(r, shape[::-1], whole.dtype).T]
        if np.can_cast(whole.dtype, wider, "safe"):
            outs.append(array(r, shape, wider))
        outs += [x for x in operands if x.shape == shape and x.dtype == whole.dtype][:1]
        for out in outs:
            for alpha, beta in ((1, 0), (2, 0), (1, 1), (2, 3), (0, 1)):
                if whole.dtype.kind == "b" and max(alpha, beta) > 1:
                    continue
                given = [x.copy() if x is not out else x for x in operands]
                before = out.copy()
                want = einloom.compile(whole)(*given, out=out, alpha=alpha, beta=beta).copy()
                out[...] = before
                got = einloom.compile(cut)(*given, out=out, alpha=alpha, beta=beta)
                assert got is out
                np.testing.assert_array_equal(got, want, err_msg=f"{seed} {alpha} {beta}")
                out[...] = before


def test_alpha_without_out() -> None:
    plan = einloom.plan("ij,jk->ik", (3, 4), (4, 5))
    a, b = arrays(plan)
    for labels in ((0,), (1,), (0, 1, 2)):
        got = einloom.compile(replace(plan, sliced=labels))(a, b, alpha=3)
        np.testing.assert_array_equal(got, 3 * (a @ b))


def test_constants() -> None:
    plan = replace(einloom.plan("ij,jk,kl->il", (3, 4), (4, 5), (5, 6)), sliced=(1, 3))
    a, b, c = arrays(plan)
    got = einloom.compile(plan, constants={1: b})(a, c)
    np.testing.assert_array_equal(got, a @ b @ c)


def test_axes_that_broadcast() -> None:
    plan = einloom.plan("ij,jk,ik->ik", (3, 1), (4, 5), (1, 5))
    whole, operands = einloom.compile(plan), arrays(plan)
    for labels in ((0,), (1,), (2,), (0, 1, 2)):
        got = einloom.compile(replace(plan, sliced=labels))(*operands)
        np.testing.assert_array_equal(got, whole(*operands))


def test_long_sums_of_half_precision_are_added_wide() -> None:
    """4096 ones: a sum in float16 would stay at 2048."""
    plan = replace(einloom.plan("i,i->", (4096,), (4096,), dtype="f2"), sliced=(0,))
    ones = np.ones(4096, "f2")
    assert einloom.compile(plan)(ones, ones) == 4096


def test_the_bits_are_the_same_in_every_run() -> None:
    plan = replace(einloom.plan(grid(3, 3, 4)), sliced=(0, 5))
    r = np.random.default_rng(0)
    operands = [r.standard_normal(shape) for shape in plan.network.shapes]
    expr = einloom.compile(plan)
    assert len({expr(*operands).tobytes() for _ in range(5)}) == 1


def test_two_threads_at_once() -> None:
    plan = replace(einloom.plan(grid(3, 4, 3)), sliced=(0, 4, 7))
    expr, results = einloom.compile(plan), {}
    given = [arrays(plan, seed) for seed in range(4)]
    want = [einloom.compile(replace(plan, sliced=()))(*operands) for operands in given]

    def work(k: int) -> None:
        results[k] = [expr(*given[k]) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        assert results[k] == [want[k]] * 5


# Limits -----------------------------------------------------------------------------------------


def reachable(plan: Plan) -> int:
    return slice_to(plan, 1).peak_bytes


@pytest.mark.parametrize("seed", range(5))
def test_any_limit_that_can_be_met_is_met(seed: int) -> None:
    for network in random_networks(seed, 20):
        plan = einloom.plan(network)
        smallest = reachable(plan)
        assert smallest <= plan.peak_bytes
        for limit in {smallest, (smallest + plan.peak_bytes) // 2, plan.peak_bytes}:
            found = slice_to(plan, limit)
            assert found.peak_bytes <= limit
            assert found.n_slices == math.prod(network.extents[x] for x in found.sliced)
            if limit == plan.peak_bytes:
                assert found == plan
            if found.n_slices <= 200:
                operands = arrays(plan)
                got = einloom.compile(found)(*operands)
                np.testing.assert_array_equal(got, einloom.compile(plan)(*operands))


@pytest.mark.parametrize("share", [2, 20, 100])
def test_lattices(share: int) -> None:
    """Few labels are enough; work does not explode."""
    plan = einloom.plan(grid(10, 10, 3), planner="greedy")
    limit = plan.peak_bytes // share
    found = slice_to(plan, limit)
    assert found.peak_bytes <= limit
    assert len(found.sliced) <= 10
    assert found.cost <= 10 * plan.cost
    for label in found.sliced:  # each is needed
        fewer = replace(found, sliced=tuple(x for x in found.sliced if x != label))
        assert fewer.peak_bytes > limit


def test_slicing_hundreds_of_tensors_is_little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lattice of 256 tensors is looked at some hundred times, each in a few NumPy calls."""
    looks = 0
    profile = Model._profile

    def counted(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        return profile(*arguments)

    monkeypatch.setattr(Model, "_profile", counted)
    plan = einloom.plan(grid(16, 16), planner="greedy")
    found = slice_to(plan, plan.peak_bytes // 20)
    assert found.peak_bytes <= plan.peak_bytes // 20
    assert looks < 300, looks


def measured(expression: Any, operands: list[np.ndarray], **keywords: Any) -> tuple[int, Any]:
    """Most bytes allocated at once during a call, and its result."""
    expression(*operands, **keywords)  # numba compiles now
    cpu().reclaim()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        result = expression(*operands, **keywords)
        return tracemalloc.get_traced_memory()[1] - before, result
    finally:
        tracemalloc.stop()


def test_a_network_twenty_times_too_large() -> None:
    """The unsliced peak is 20 times the limit; the measured one stays below it."""
    network = grid(9, 9, 3)
    whole = einloom.plan(network, planner="greedy")
    limit = whole.peak_bytes // 20
    plan = einloom.plan(network, planner="greedy", memory_limit=limit)
    assert plan.n_slices > 1
    assert plan.peak_bytes <= limit
    r = np.random.default_rng(0)
    operands = [r.standard_normal(shape) / 2 for shape in network.shapes]
    peak, result = measured(einloom.compile(plan), operands)
    inputs = sum(x.nbytes for x in operands)
    assert peak + inputs <= limit + SLACK
    np.testing.assert_allclose(result, einloom.compile(whole)(*operands), rtol=1e-9)


@pytest.mark.parametrize(
    "dtype", ["f8", "c16", *(pytest.param(x, marks=pytest.mark.slow) for x in ("f4", "f2", "i4"))]
)
@pytest.mark.parametrize(
    ("equation", "sizes", "labels"),
    [
        ("ij,jk->ik", (60, 600, 600), "i"),
        ("ij,jk->ik", (600, 600, 600), "j"),
        ("ij,jk,kl->il", (20, 600, 30, 600), "ik"),
        ("i,j->ij", (1500, 1500), "j"),
        ("aij,ajk->ika", (8, 30, 300, 300), "ai"),
        ("ij,jk,kl,lm->jm", (500, 50, 300, 400, 500), "j"),
        ("ij,jk,kl,lm->im", (500, 400, 300, 200, 50), "m"),
    ],
)
def test_the_measured_peak_stays_below(
    equation: str, sizes: tuple[int, ...], labels: str, dtype: str
) -> None:
    letters = sorted(set(equation) - set(",->"))
    size = dict(zip(letters, sizes, strict=True))
    terms = equation.partition("->")[0].split(",")
    plan = einloom.plan(equation, *(tuple(size[x] for x in t) for t in terms), dtype=dtype)
    plan = replace(plan, sliced=tuple(plan.network.labels.index(x) for x in labels))
    operands = [np.zeros(shape, dtype) for shape in plan.network.shapes]
    expression = einloom.compile(plan)
    peak, _ = measured(expression, operands)
    assert peak + sum(x.nbytes for x in operands) <= expression.peak_bytes + SLACK


@pytest.mark.parametrize("call", ["plan", "compile", "einsum", "einsum_path"])
def test_every_front_slices(call: str) -> None:
    operands = [np.ones((40, 2)), np.ones((2, 40)), np.ones((40, 40))]
    equation = "ia,aj,ij->"
    path = [(0, 1), (0, 1)]
    option = {"planner": path} if call in ("plan", "compile") else {"optimize": path}
    with options(small=1 << 18):  # as shipped: the scratch of forced kernels is not sliced
        limit = einloom.plan(equation, *operands, planner=path).peak_bytes // 2
        got = getattr(einloom, call)(equation, *operands, memory_limit=limit, **option)
    if call == "einsum_path":
        assert "Sliced labels" in got[1]
    elif call == "einsum":
        assert got == 3200
    else:
        assert getattr(got, "plan", got).n_slices > 1
        with options(small=1 << 18):
            assert got.peak_bytes <= limit


def test_what_no_slicing_reaches_is_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operands = [np.ones((3, 4)), np.ones((4, 5)), np.ones((5, 3))]
    with monkeypatch.context() as patch:
        patch.setattr(Executable, "__init__", lambda *_: pytest.fail("something was compiled"))
        with pytest.raises(MemoryLimitError, match="smallest predicted peak found") as caught:
            einloom.einsum("ij,jk,kl->il", *operands, memory_limit=100)
    (smallest,) = re.findall(r"found is .* \((\d+) bytes\)", str(caught.value))
    got = einloom.einsum("ij,jk,kl->il", *operands, memory_limit=int(smallest))
    np.testing.assert_array_equal(got, np.full((3, 3), 20.0))
    with pytest.raises(MemoryLimitError):
        einloom.einsum("ij,jk,kl->il", *operands, memory_limit=int(smallest) - 1)


def test_sizes_0_are_not_sliced() -> None:
    plan = einloom.plan("ij,jk->ik", (500, 0), (0, 500))
    assert slice_to(plan, 1) == plan


def test_no_limit_slices_nothing() -> None:
    assert einloom.plan(grid(5, 5, 4)).sliced == ()
    assert einloom.plan(grid(5, 5, 4), memory_limit="1TiB").sliced == ()


# What runs once ---------------------------------------------------------------------------------


def test_invariant_parts_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """a @ b is the same for every l: one product, and one for each slice."""
    plan = einloom.plan("ij,jk,kl->il", (8, 9), (9, 8), (8, 7), planner=[(0, 1), (0, 1)])
    plan = replace(plan, sliced=(3,))
    expr, calls = einloom.compile(plan), []
    executable = expr._executable
    assert isinstance(executable, SlicedExecutable)
    assert executable.once is not None
    for name, one in (("once", executable.once), ("each", executable.each)):
        run = one.run
        monkeypatch.setattr(
            one, "run", lambda *x, run=run, name=name, **out: calls.append(name) or run(*x, **out)
        )
    a, b, c = arrays(plan)
    np.testing.assert_array_equal(expr(a, b, c), a @ b @ c)
    assert calls == ["once"] + ["each"] * 7
    assert executable.once.program.op_counts == {"dot_general": 1}
    assert executable.each.program.op_counts["dot_general"] == 1
    assert plan.cost == 8 * 9 * 8 + 7 * (8 * 8)


def test_conjugates_run_once() -> None:
    """Of an operand that all slices read; of one that is sliced, a flag of the product."""
    for conj, once, each in (((0,), 1, None), ((1,), 0, (False, True)), ((0, 1), 1, (False, True))):
        a, b = np.ones((3, 4)) * (1 + 2j), np.ones((4, 5)) * 3j
        plan = replace(einloom.plan("ij,jk->ik", a, b, dtype="c16", conj=conj), sliced=(2,))
        executable = einloom.compile(plan)._executable
        assert isinstance(executable, SlicedExecutable)
        found = 0 if executable.once is None else executable.once.program.op_counts["conj"]
        assert found == once
        (product,) = (
            ins for ins in executable.each.program.instructions if ins.op == "dot_general"
        )
        assert product.attrs.get("conj") == each
        want = (a.conj() if 0 in conj else a) @ (b.conj() if 1 in conj else b)
        np.testing.assert_array_equal(executable(a, b), want)


@pytest.mark.parametrize("seeds", [range(k * 50, k * 50 + 50) for k in range(2)], ids=str)
def test_split_keeps_every_instruction(seeds: range) -> None:
    for seed in seeds:
        program = sliced(random_plan(seed), seed).program
        once, each = split(program)
        assert once.op_counts + each.op_counts == program.op_counts
        assert not any(ins.indices for ins in once.instructions)
        assert each.outputs == program.outputs
        for part in (once, each):
            verify(part)
            schedule(part, cpu())
        assert program_from_json(program_to_json(program)) == program


def test_the_cost_counts_all_slices() -> None:
    """By hand: sums of slices are additions, one for each element of a contribution."""
    plan = einloom.plan("ij,jk->ik", (3, 4), (4, 5))
    assert (plan.cost, plan.flops) == (60, 120)
    by_j = replace(plan, sliced=(1,))
    assert (by_j.cost, by_j.flops, by_j.n_slices) == (60, 60 + 4 * 15, 4)
    by_i = replace(plan, sliced=(0,))
    assert (by_i.cost, by_i.flops, by_i.largest_intermediate) == (60, 120, 5)


# Plans ------------------------------------------------------------------------------------------


def test_a_sliced_plan_prints() -> None:
    network = Network(["ab", "bc"], "ac", {"a": 3, "b": 4, "c": 5})
    text = str(replace(einloom.plan(network), sliced=(1, 0)))
    assert "Sliced labels:  b, a (12 slices)" in text
    assert "Cost of slicing:  1 times the multiplications" in text
    named = Network([["left", ("x", 1)]], [], {"left": 3, ("x", 1): 4})
    assert "Sliced labels:  'left', ('x', 1) (12 slices)" in str(
        replace(einloom.plan(named), sliced=(0, 1))
    )


def test_a_sliced_plan_is_stored() -> None:
    plan = slice_to(einloom.plan(grid(4, 4, 6)), 150_000)
    assert plan.sliced
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert (again.n_slices, again.peak_bytes, again.cost) == (
        plan.n_slices,
        plan.peak_bytes,
        plan.cost,
    )
    operands = arrays(plan)
    assert einloom.compile(again)(*operands) == einloom.compile(plan)(*operands)


@pytest.mark.parametrize("junk", [[0, 0], [9], [-1], ["i"], None, [1.0]])
def test_labels_that_cannot_be_sliced_are_refused(junk: Any) -> None:
    import json

    document = json.loads(einloom.plan("ij,jk->ik", (3, 4), (4, 5)).to_json())
    with pytest.raises(einloom.FileFormatError, match=r"sliced|integers|iterable"):
        Plan.from_json(json.dumps(document | {"sliced": junk}))


@pytest.mark.parametrize(
    ("sliced", "told"),
    [
        ((0, 0), "0 is given twice"),
        ((9,), "9 is no label of any tensor"),
        ((-1,), "-1 is no label"),
        (("i",), "give a tuple of labels"),
        ((1.0,), "give a tuple of labels"),
        (None, "give a tuple of labels"),
        ((1,), "label 'j', of size 0"),  # a program of such slices failed with a ProgramError
    ],
)
def test_plans_with_such_labels_are_refused(sliced: Any, told: str) -> None:
    plan = einloom.plan("ij,jk->ik", (3, 0), (0, 5))
    with pytest.raises(einloom.OptionError, match=told):
        replace(plan, sliced=sliced)


@pytest.mark.parametrize("sliced", [[1], np.array([1]), (np.int64(1),), {1}])
def test_sliced_labels_are_a_tuple_of_numbers(sliced: Any) -> None:
    plan = replace(einloom.plan("ij,jk->ik", (3, 1), (1, 5)), sliced=sliced)
    assert plan.sliced == (1,)
    assert {plan} == {Plan.from_json(plan.to_json())}
    operands = arrays(plan)
    np.testing.assert_allclose(einloom.compile(plan)(*operands), operands[0] @ operands[1])


def test_what_runs_is_shown() -> None:
    plan = replace(einloom.plan(chain(3, 4), planner=[(1, 2), (0, 1)]), sliced=(0,))
    expr = einloom.compile(plan)
    assert "# once" in expr.source
    assert "# for each of 4 slices" in expr.source
    assert "i0: 0 < 4" in str(expr.program)
    assert "the first of 4 slices" in expr.explain()
    assert "the first of 4 slices" in expr.explain(*arrays(plan))


def test_long_runs_show_progress(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(einloom.plan("ij,jk->ik", (3, 4), (4, 5)), sliced=(0, 1))
    expr, operands = einloom.compile(plan), arrays(plan)
    expr(*operands)
    assert capsys.readouterr().err == ""  # short, and no terminal
    clock = iter(range(10**6))
    monkeypatch.setattr("einloom._base.progress.time.perf_counter", lambda: float(next(clock)))
    with einloom.options(progress=True):
        expr(*operands)
    shown = capsys.readouterr().err
    assert "slices [" in shown
    assert "100%" in shown
