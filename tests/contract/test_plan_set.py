"""Several equations over the same operands: never dearer than apart, the results einsum's."""

from __future__ import annotations

import json
import math
import pickle
import random
import string
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einloom
from einloom import PlanSet
from einloom.contract.cost import size_of, walk
from einloom.contract.sharing import best_parts, left_of, rooted
from einloom.contract.values import Values

Equations = dict[str, tuple[str, ...]]
LETTERS = string.ascii_letters + "".join(chr(0x3B1 + k) for k in range(24))


# Sets that users have ---------------------------------------------------------------------------------


def marginals(factors: list[str], sizes: dict[str, int]) -> tuple[Equations, dict[str, Any]]:
    """p(x) of every variable of a factor graph."""
    names = [f"f{k}" for k in range(len(factors))]
    shapes = {n: tuple(sizes[x] for x in f) for n, f in zip(names, factors, strict=True)}
    inputs = ",".join(factors)
    return {x: (f"{inputs}->{x}", *names) for x in sizes}, shapes


def environments(sites: int, bond: int, mpo: int = 3) -> tuple[Equations, dict[str, Any]]:
    """<psi|H|psi> of a matrix product state, but for one site of psi: the gradient, site by site."""
    terms: dict[str, str] = {}
    sizes: dict[str, int] = {}
    label = iter(LETTERS)
    upper, middle, lower = (
        [next(label) for _ in range(sites - 1)],
        [next(label) for _ in range(sites - 1)],
        [next(label) for _ in range(sites - 1)],
    )
    sizes |= dict.fromkeys([*upper, *lower], bond) | dict.fromkeys(middle, mpo)
    for k in range(sites):
        p, q = next(label), next(label)
        sizes[p] = sizes[q] = 2
        around = slice(max(0, k - 1), k + 1)
        terms[f"A{k}"] = "".join([*upper[around], p])
        terms[f"W{k}"] = "".join([*middle[around], p, q])
        terms[f"B{k}"] = "".join([*lower[around], q])
    equations: Equations = {}
    for k in range(sites):
        rest = {name: term for name, term in terms.items() if name != f"A{k}"}
        equations[f"A{k}"] = (f"{','.join(rest.values())}->{terms[f'A{k}']}", *rest)
    return equations, {name: tuple(sizes[x] for x in term) for name, term in terms.items()}


def coupled_cluster(o: int, v: int) -> tuple[Equations, dict[str, Any]]:
    """Some terms of the equations of CCSD; i to n are occupied, a to f virtual."""
    equations: Equations = {
        "rings": ("mnef,aeim,bfjn->abij", "oovv", "t2", "t2"),
        "hole": ("mnef,efij,abmn->abij", "oovv", "t2", "t2"),
        "hole t1": ("mnef,efij,am,bn->abij", "oovv", "t2", "t1", "t1"),
        "hole t1 t1": ("mnef,ei,fj,abmn->abij", "oovv", "t1", "t1", "t2"),
        "ring t1": ("mnef,aeim,fj,bn->abij", "oovv", "t2", "t1", "t1"),
        "ring t1 below": ("mnef,aeim,fn,bj->abij", "oovv", "t2", "t1", "t1"),
        "lambda o": ("mnef,efin,abmj->abij", "oovv", "t2", "t2"),
        "lambda v": ("mnef,afmn,ebij->abij", "oovv", "t2", "t2"),
        "singles": ("mnef,em,fn->", "oovv", "t1", "t1"),
        "fme": ("mnef,fn,aeim->ai", "oovv", "t1", "t2"),
        "t1 fme": ("mnef,fn,ei,am->ai", "oovv", "t1", "t1", "t1"),
        "dressed": ("mnef,em,fn,abij->abij", "oovv", "t1", "t1", "t2"),
    }
    shapes = {"oovv": (o, o, v, v), "t2": (v, v, o, o), "t1": (v, o)}
    return equations, shapes


GRAPH = marginals(
    ["abc", "bcd", "cde", "ef", "fgh", "ga", "hi", "ij"], dict.fromkeys("abcdefghij", 3)
)
LOOP = marginals(
    [f"{LETTERS[k]}{LETTERS[(k + 1) % 14]}" for k in range(14)], dict.fromkeys(LETTERS[:14], 4)
)
SETS = {
    "marginals of a graph": (*GRAPH, 0.4),
    "marginals of a loop": (*LOOP, 0.45),
    "environments": (*environments(5, 8), 0.55),
    "environments of more sites": (*environments(8, 6), 0.45),
    "coupled cluster": (*coupled_cluster(4, 7), 0.9),
}


def check(equations: Equations, shapes: dict[str, Any], plan: PlanSet) -> None:
    """Results against einsum's; the cost against that of the program."""
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(-2, 3, shape).astype(float) for name, shape in shapes.items()}
    results = einloom.compile_set(plan)(arrays)
    assert list(results) == list(equations)
    for key, (text, *names) in equations.items():
        given = [arrays[name] for name in names]
        path = ["einsum_path", *einloom.plan(text, *given, planner="greedy").path]
        want = np.einsum(text, *given, optimize=path)
        np.testing.assert_allclose(results[key], want, rtol=1e-9)
        assert np.shape(results[key]) == np.shape(want)
    assert plan.cost <= plan.apart
    # a label that one operand alone carries is summed before the product, which is smaller for it
    assert multiplications(plan) <= plan.cost
    if all(len({*names}) == len(names) for names in plan.terms):
        assert plan.cost == recounted(plan)
    else:
        assert multiplications(plan) == plan.cost


def recounted(plan: PlanSet) -> int:
    """Of different steps, told by the operands below each of its two sides and the axes that these keep."""
    steps: dict[Any, int] = {}
    for one, names in zip(plan.plans, plan.terms, strict=True):
        net = one.network
        axes: dict[int, list[tuple[str, int]]] = {}
        for name, term in zip(names, net.terms, strict=True):
            for axis, label in enumerate(term):
                axes.setdefault(label, []).append((name, axis))
        below = [frozenset([name]) for name in names]
        for step, labels in zip(one.ssa_path, walk(net, one.tree), strict=True):
            below.append(frozenset().union(*(below[x] for x in step)))
            kept = frozenset(a for x in labels.result for a in axes[x] if a[0] in below[-1])
            sides = frozenset(below[x] for x in step)
            steps[sides, kept] = size_of(labels.union, net.extents)
    return sum(steps.values())


def multiplications(plan: PlanSet) -> int:
    """Of the products in the program, by their shapes."""
    total = 0
    for ins in plan.program.instructions:
        if ins.op == "dot_general":
            a, b = (plan.program.slots[slot].shape for slot in ins.inputs)
            (batch, _), (contracted, _) = ins.attrs["batch"], ins.attrs["contracting"]
            shared = {*batch, *contracted}
            total += math.prod(a) * math.prod(b) // math.prod(a[k] ** 1 for k in shared)
    return total


@pytest.mark.parametrize("name", SETS)
def test_what_is_saved(name: str) -> None:
    equations, shapes, part = SETS[name]
    plan = einloom.plan_set(equations, shapes, objective="flops")
    check(equations, shapes, plan)
    assert plan.cost < part * plan.apart
    assert plan.n_shared > 0
    alone = [
        einloom.plan(t, *(shapes[n] for n in names), objective="flops")
        for t, *names in equations.values()
    ]
    assert plan.apart == sum(one.cost for one in alone)


# Laws -------------------------------------------------------------------------------------------------

seeds = st.integers(0, 10**6)


def random_set(r: random.Random) -> tuple[Equations, dict[str, Any]]:
    """A few equations over operands of which some occur twice, labels under other names in each."""
    sizes = {x: r.randint(2, 4) for x in "abcdefgh"}
    operands = {
        f"T{k}": "".join(r.sample("abcdefgh", r.randint(1, 3))) for k in range(r.randint(2, 7))
    }
    equations: Equations = {}
    for k in range(r.randint(1, 4)):
        names = r.sample(sorted(operands), r.randint(1, len(operands)))
        names += [r.choice(names)] * r.randint(0, 1)
        rename = dict(zip("abcdefgh", r.sample("abcdefghijklmnop", 8), strict=True))
        terms = ["".join(rename[x] for x in operands[name]) for name in names]
        used = sorted(set("".join(terms)))
        output = "".join(r.sample(used, r.randint(0, min(3, len(used)))))
        equations[f"e{k}"] = (f"{','.join(terms)}->{output}", *names)
    return equations, {n: tuple(sizes[x] for x in term) for n, term in operands.items()}


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_never_dearer_than_apart(seed: int) -> None:
    equations, shapes = random_set(random.Random(seed))
    rng = np.random.default_rng(seed)
    arrays = {name: rng.integers(-2, 3, shape).astype(float) for name, shape in shapes.items()}
    for objective in ("time", "flops", "write"):
        plan = einloom.plan_set(equations, shapes, objective=objective)
        if objective == "flops":
            assert plan.cost <= plan.apart
            assert plan.apart == sum(
                einloom.plan(text, *(shapes[n] for n in names), objective="flops").cost
                for text, *names in equations.values()
            )
        assert plan.cost <= sum(one.cost for one in plan.plans)
        if len(plan.plans) == 1 and len({*plan.terms[0]}) == len(plan.terms[0]):
            assert plan.cost == plan.plans[0].cost
        results = einloom.compile_set(plan)({name: arrays[name] for name in plan.operands})
        for key, (text, *names) in equations.items():
            want = np.einsum(text, *(arrays[name] for name in names))
            np.testing.assert_allclose(results[key], want, rtol=1e-9)


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_the_result_at_any_edge(seed: int) -> None:
    """Of a tree with its result elsewhere no more is left to do than of the tree."""
    r = random.Random(seed)
    n = r.randint(2, 8)
    terms = [(k, (k + 1) % n, n + k % 3) for k in range(n)]
    network = einloom.Network(terms, terms[0][:1], {x: r.randint(2, 5) for t in terms for x in t})
    one = Values(network, [f"T{k}" for k in range(n)], "float64", {}, (1, 0, 0))
    parts = one.parts_of(einloom.plan(network, planner="greedy").tree)
    subsets = r.sample(sorted(parts), len(parts) // 2)
    free = [one.value(s).key for s in subsets if s != one.whole]
    again = rooted(one, parts, free)
    assert left_of(one, best_parts(one, free), free) <= left_of(one, again, free)
    assert left_of(one, again, free) <= left_of(one, parts, free)
    one.tree_of(again)  # which is checked


def test_the_same_equation_twice() -> None:
    """Under other labels, and with operands the other way round; the results are two arrays."""
    shapes = {"A": (3, 4), "B": (4, 5), "C": (5, 6)}
    equations = [("ij,jk,kl->il", "A", "B", "C"), ("zc,yz,ay->ac", "C", "B", "A")]
    plan = einloom.plan_set(equations, shapes)
    assert plan.cost == plan.plans[0].cost
    assert plan.apart == 2 * plan.cost
    arrays = {name: np.ones(shape) for name, shape in shapes.items()}
    one, other = einloom.compile_set(plan)(arrays)
    np.testing.assert_array_equal(one, other)
    assert not np.shares_memory(one, other)


def test_two_results_of_which_one_is_part_of_the_other() -> None:
    plan = einloom.plan_set(
        [("ij,jk->ik", "A", "B"), ("ij,jk,kl->il", "A", "B", "C")],
        {"A": (9, 9), "B": (9, 9), "C": (9, 9)},
        objective="flops",
    )
    assert (plan.cost, plan.apart, plan.n_steps, plan.n_shared) == (2 * 9**3, 3 * 9**3, 2, 1)


def test_views_single_operands_and_no_elements() -> None:
    equations = [
        ("ij->ji", "A"),
        ("ij->", "A"),
        ("ij->ij", "A"),
        ("ij,jk->ik", "A", "E"),
        ("ii->i", "D"),
    ]
    shapes = {"A": (2, 3), "E": (3, 0), "D": (4, 4)}
    arrays = {name: np.arange(float(math.prod(s))).reshape(s) for name, s in shapes.items()}
    results = einloom.compile_set(equations, shapes)(arrays)
    for (text, *names), result in zip(equations, results, strict=True):
        np.testing.assert_array_equal(result, np.einsum(text, *(arrays[n] for n in names)))
        assert not any(np.shares_memory(result, x) for x in arrays.values())


@pytest.mark.parametrize("dtype", ["f4", "c16", "i8", "f2"])
def test_dtypes(dtype: str) -> None:
    equations = {
        "a": ("ij,jk,kl->il", "A", "B", "C"),
        "b": ("ij,jk->k", "A", "B"),
        "c": ("ij,jk->", "A", "R"),
    }
    rng = np.random.default_rng(3)
    arrays = {n: rng.integers(-2, 3, (4, 4)).astype(dtype) for n in "ABC"} | {
        "R": np.eye(4, dtype="f4")
    }
    if dtype == "c16":
        arrays["A"] = arrays["A"] * (1 + 1j)
    results = einloom.compile_set(equations, arrays)(arrays)
    for key, (text, *names) in equations.items():
        want = np.einsum(text, *(arrays[n] for n in names))
        np.testing.assert_array_equal(results[key], want)
        assert results[key].dtype == want.dtype


def test_print_pickle_and_peak() -> None:
    equations, shapes, _ = SETS["marginals of a graph"]
    plan = einloom.plan_set(equations, shapes)
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan
    assert plan.peak_bytes > 0
    text = str(plan)
    assert "10 equations over 8 operands" in text
    assert "saved" in text
    expression = einloom.compile_set(plan)
    arrays = {name: np.ones(shape) for name, shape in shapes.items()}
    copied = pickle.loads(pickle.dumps(expression))
    assert copied(arrays)["a"].tolist() == expression(arrays)["a"].tolist()


def test_the_same_seed_gives_the_same() -> None:
    equations, shapes, _ = SETS["environments"]
    with einloom.options(plan_cache="off"):
        one, other = (einloom.plan_set(equations, shapes, budget=4, seed=3) for _ in range(2))
    assert [p.tree for p in one.plans] == [p.tree for p in other.plans]


A = {"A": (2, 3), "B": (3, 2)}
ONE = [("ij,jk->ik", "A", "B")]


@pytest.mark.parametrize(
    ("equations", "operands", "keywords", "error", "says"),
    [
        ([], A, {}, einloom.CallError, "give for each equation"),
        ("ij,jk->ik", A, {}, einloom.CallError, "give for each equation"),
        ([("ij,jk->ik",)], A, {}, einloom.CallError, "give for each equation"),
        ([("ij,jk->ik", "A", 3)], A, {}, einloom.CallError, "give for each equation"),
        (7, A, {}, einloom.CallError, "give for each equation"),
        ([("ij,jk->ik", "A", "X")], A, {}, einloom.CallError, "operand 'X' is named"),
        ([("ij,jk->iz", "A", "B")], A, {}, einloom.SubscriptError, "z"),
        ([("ij,jk->ik", "A", "A")], A, {}, einloom.ShapeError, "size"),
        ([("(ij,jk)->ik", "A", "B")], A, {}, einloom.OptionError, "leave out parentheses"),
        (ONE, A, {"objective": "peak"}, einloom.OptionError, "give one of"),
        (ONE, A, {"planner": [(0, 1)]}, einloom.OptionError, "planner's name"),
        (ONE, A, {"budget": 0}, einloom.OptionError, "budget"),
    ],
)
def test_bad_input(
    equations: Any, operands: Any, keywords: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        einloom.plan_set(equations, operands, **keywords)


def test_bad_calls() -> None:
    expression = einloom.compile_set(ONE, A)
    a, b = np.ones((2, 3)), np.ones((3, 2))
    for arrays, error, says in (
        ({"A": a}, einloom.CallError, "'B' is missing"),
        ({"A": a, "B": b, "C": a}, einloom.CallError, "there is no 'C'"),
        ({"A": b, "B": b}, einloom.ShapeError, r"A has shape \(3, 2\)"),
        ({"A": a.astype("f4"), "B": b}, einloom.DTypeError, "A has dtype float32"),
    ):
        with pytest.raises(error, match=says):
            expression(arrays)
    with pytest.raises(einloom.CallError, match="give it alone"):
        einloom.compile_set(einloom.plan_set(ONE, A), A)
    with pytest.raises(einloom.CallError, match="give operands"):
        einloom.compile_set(ONE)
    with (
        einloom.options(memory_limit=10),
        pytest.raises(einloom.MemoryLimitError, match="does not fit, even by itself"),
    ):
        einloom.plan_set(ONE, A)


def test_a_result_and_its_transpose_are_apart() -> None:
    """Previously failed: the second result was a view of the first."""
    a, b = np.ones((3, 4)), np.ones((4, 5))
    both = einloom.compile_set([("ab,bc->ac", "A", "B"), ("xy,yz->zx", "A", "B")], {"A": a, "B": b})
    first, second = both(A=a, B=b)
    first[:] = 0
    assert (second == 4).all()


# Files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(SETS))
def test_json_is_exact(name: str) -> None:
    equations, shapes, _ = SETS[name]
    plan = einloom.plan_set(equations, shapes)
    again = PlanSet.from_json(plan.to_json())
    assert again == plan
    assert again.to_json() == plan.to_json()
    assert again.cost == plan.cost
    assert again.peak_bytes == plan.peak_bytes


def test_json_of_arrays_lists_and_odd_names() -> None:
    """Layouts are kept, results without names stay without, and names that JSON lacks become numbers."""
    large = np.zeros((300, 200), order="F")
    equations = [("ij,jk->ik", "A", "B"), ("ij->ji", "A")]
    plan = einloom.plan_set(equations, {"A": large, "B": (200, 2)})
    assert plan.specs[0].layout == (1, 0)
    assert PlanSet.from_json(plan.to_json()) == plan
    for keys, expected in (
        (("x", 3), ("x", 3)),
        (((1, "a"), "b"), ((1, "a"), "b")),
        ((1.5, "b"), (0, 1)),
    ):
        named = einloom.plan_set(
            dict(zip(keys, equations, strict=True)), {"A": large, "B": (200, 2)}
        )
        again = PlanSet.from_json(named.to_json())
        assert (again.keys, again.plans) == (expected, named.plans)
    a, b = np.random.default_rng(0).random((2, 3)), np.ones((3, 2))
    small = einloom.compile_set(PlanSet.from_json(einloom.plan_set(ONE, A).to_json()))
    np.testing.assert_allclose(small(A=a, B=b)[0], a @ b)


CHANGES: dict[str, Any] = {
    "operands": ["A", "A"],
    "dtypes": ["float32", "float64"],
    "shapes": [[3, 2], [2, 3]],
    "layouts": [[0, 0], None],
    "keys": ["one", "two"],
    "terms": [["A", "C"]],
    "plans": [],
    "apart": -1,
    "groups": [[0, 0]],
}


@pytest.mark.parametrize("field", list(CHANGES))
def test_json_that_says_otherwise_is_refused(field: str) -> None:
    document = json.loads(einloom.plan_set(ONE, A).to_json())
    for value in (CHANGES[field], "x", *((None, [1]) if field != "keys" else (7, [[1]]))):
        changed = {**document, field: value}
        with pytest.raises(einloom.FileFormatError):
            PlanSet.from_json(json.dumps(changed))
    del document[field]
    with pytest.raises(einloom.FileFormatError, match="lacks or garbles"):
        PlanSet.from_json(json.dumps(document))


def test_json_of_other_formats_versions_and_plans_is_refused() -> None:
    plan = einloom.plan_set(ONE, A)
    document = json.loads(plan.to_json())
    with pytest.raises(einloom.FileFormatError, match="newer einloom"):
        PlanSet.from_json(json.dumps({**document, "version": 3}))
    with pytest.raises(einloom.FileFormatError, match="format"):
        PlanSet.from_json(plan.plans[0].to_json())
    sliced = {**document["plans"][0], "sliced": [0]}
    with pytest.raises(einloom.FileFormatError, match="what sets do not"):
        PlanSet.from_json(json.dumps({**document, "plans": [sliced]}))
