"""A Plan says what will be done and what it costs; print, JSON and pickle keep all of it."""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
from dataclasses import FrozenInstanceError, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cases import CORPUS
from tests.networks import FAMILIES, chain

import einloom
from einloom import FileFormatError, Network, Plan
from einloom.contract.tree import ContractionTree
from einloom.program.serial import program_from_json, program_to_json

GOLDEN = Path(__file__).parent / "golden"


def small_plan(**keywords: Any) -> Plan:
    shapes = ((64, 32), (32, 64), (64, 16))
    return einloom.plan("ij,jk,kl->il", *shapes, planner=[(0, 1), (0, 1)], **keywords)


def golden_plan() -> Plan:
    """A plan with something in every field, which tests/contract/golden/plan_v5.json holds."""
    network = Network(
        [["i", ("bond", 1), -3], [("bond", 1), "β"], ["β", "β", -3]],
        ["β", "i", "β"],
        {"i": 2, ("bond", 1): 3, -3: 10**20, "β": 4},
        embed_diagonal=True,
    )
    return Plan(
        network=network,
        tree=ContractionTree(3, ((2,), (0, 1), (3, 4))),
        dtypes=tuple(map(np.dtype, ("float32", "complex64", "longdouble"))),
        dtype=np.dtype("clongdouble"),
        objective="size",
        planner="greedy",
        seed=2**70,
        proof="none",
        conj=frozenset({1}),
        order="F",
        constants=frozenset({0, 2}),
        sliced=(3, 0),
        layouts=((2, 0, 1), None, (1, 0, 2)),
        strip_exponent=True,
        memory_limit=10**30,
        n_runs=1000,
    )


PLANS: dict[str, Plan] = {
    **{name: einloom.plan(network) for name, network in FAMILIES.items()},
    "golden": golden_plan(),
    "broadcasting": einloom.plan("ij,jk->ik", (2, 1), (3, 4)),
    "an ellipsis": einloom.plan("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    "one step": einloom.plan("i,i,i->i", (3,), (3,), (3,), planner=False),
    "parentheses": einloom.plan("(ij,kl),jk->il", (2, 3), (4, 2), (3, 4)),
    "a diagonal": einloom.plan("i->iii", (3,), embed_diagonal=True),
    "keywords": einloom.plan(
        "ij,jk->ik",
        (2, 3),
        (3, 4),
        dtype="c8",
        objective="size",
        seed=7,
        conj=[-1],
        order="f",
        constants=[0],
    ),
}
every_plan = pytest.mark.parametrize("name", PLANS)


# Fields -----------------------------------------------------------------------------------------


def test_by_hand() -> None:
    """(64x32 @ 32x64) @ 64x16 in float64."""
    plan = small_plan()
    assert plan.path == ((0, 1), (0, 1))
    assert plan.ssa_path == ((0, 1), (2, 3))
    assert plan.cost == 64 * 32 * 64 + 64 * 64 * 16 == 196608
    assert plan.flops == 2 * 196608
    assert plan.largest_intermediate == 64 * 64
    assert plan.n_slices == 1
    assert plan.dtypes == (np.dtype("float64"),) * 3
    assert plan.dtype == np.dtype("float64")
    assert (plan.objective, plan.planner, plan.seed, plan.proof) == ("time", "path given", 0, None)
    assert (plan.conj, plan.order, plan.constants) == (frozenset(), "K", frozenset())
    assert plan.sliced == ()
    operands = 8 * (64 * 32 + 32 * 64 + 64 * 16)
    alive = operands + 8 * (64 * 64 + 64 * 16)  # in the second step
    packed = 8 * (64 * 64 + 64 * 16)  # its operands once more, should BLAS not read them in place
    assert plan.peak_bytes == alive + packed
    assert plan.program.op_counts["dot_general"] == 2


def test_a_better_path_is_found() -> None:
    assert einloom.plan("ij,jk,kl->il", (64, 32), (32, 64), (64, 16)).cost == 2 * 64 * 32 * 16


def test_keywords_are_kept() -> None:
    plan = PLANS["keywords"]
    assert plan.dtypes == (np.dtype("c8"),) * 2
    assert plan.dtype == np.dtype("c8")
    assert (plan.objective, plan.seed, plan.conj) == ("size", 7, frozenset({1}))
    assert (plan.order, plan.constants) == ("F", frozenset({0}))


def test_dtypes() -> None:
    """Shapes have float64 or `dtype`; arrays their own, and the result what these promote to."""
    f4, i2 = np.ones((2, 3), "f4"), np.ones((3, 4), "i2")
    assert einloom.plan("ij,jk", f4, i2).dtypes == (np.dtype("f4"), np.dtype("i2"))
    assert einloom.plan("ij,jk", f4, i2).dtype == np.dtype("f4")
    assert einloom.plan("ij,jk", f4, i2, dtype="c16").dtype == np.dtype("c16")
    assert einloom.plan("ij,jk", f4, (3, 4)).dtype == np.dtype("f8")
    assert einloom.plan("ij,jk", f4, (3, 4), dtype="f4").dtypes == (np.dtype("f4"),) * 2
    assert einloom.plan("ij,jk", f4.astype(">f4"), i2).dtypes[0] == np.dtype("f4")
    net = Network(["ij", "jk"], "ik", {"i": 2, "j": 3, "k": 4})
    assert einloom.plan(net, dtype="c8").dtype == np.dtype("c8")


def test_the_interleaved_form() -> None:
    a, b = np.ones((2, 3)), np.ones((3, 4))
    assert einloom.plan(a, ["i", "j"], b, ["j", "k"], ["i", "k"]) == einloom.plan("ij,jk->ik", a, b)
    assert einloom.plan(a.shape, [0, 1], b.shape, [1, 2]).path == ((0, 1),)


@every_plan
def test_peak_is_at_least_what_must_be_held(name: str) -> None:
    plan = PLANS[name]
    output = math.prod(plan.network.extents[label] for label in plan.network.output_axes)
    held = sum(
        math.prod(shape) * dtype.itemsize
        for shape, dtype in zip(plan.network.shapes, plan.dtypes, strict=True)
    )
    view = name in ("one tensor, a view", "one scalar")
    assert plan.peak_bytes >= held + (0 if view else output * plan.dtype.itemsize)


@pytest.mark.parametrize("field", [field.name for field in fields(Plan)])
def test_frozen(field: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(small_plan(), field, None)


def test_value() -> None:
    assert small_plan() == small_plan()
    assert hash(small_plan()) == hash(small_plan())
    assert len({*PLANS.values(), *PLANS.values()}) == len(PLANS)
    assert small_plan() != small_plan(dtype="f4")
    assert small_plan() != small_plan(seed=1)


# Print ------------------------------------------------------------------------------------------

TABLE = """\
  Complete contraction:  ij,jk,kl->il
         Naive scaling:  4
     Optimized scaling:  3
      Naive FLOP count:  6.291e+6
  Optimized FLOP count:  3.932e+5
   Theoretical speedup:  16
  Largest intermediate:  4096 elements
 Predicted peak memory:  120.00 KiB
               Planner:  path given
----------------------------------------------------------------------------------------------------
scaling  engine                                current       bytes  remaining
----------------------------------------------------------------------------------------------------
      3  gemm                                ij,jk->ik   32.00 KiB  kl,ik->il
      3  gemm                                kl,ik->il    8.00 KiB  il->il"""


def test_print() -> None:
    assert str(small_plan()) == TABLE
    assert (
        repr(small_plan()) == "<Plan of 3 operands by path given: cost 1.966e+5, peak 120.00 KiB>"
    )


def rows(text: str) -> list[str]:
    return text.splitlines()[text.splitlines().index("-" * 100) + 3 :]


@every_plan
def test_every_plan_prints(name: str) -> None:
    plan = PLANS[name]
    assert len(rows(str(plan))) == len(plan.path)
    assert repr(plan).startswith(f"<Plan of {plan.tree.n} operands")


def test_a_long_path_is_cut_in_the_middle() -> None:
    whole, cut = str(einloom.plan(chain(61))), str(einloom.plan(chain(101)))
    assert len(rows(whole)) == 60
    assert "more" not in whole
    assert len(rows(cut)) == 61
    assert rows(cut)[30].strip() == "... 40 more steps"
    assert all(len(line) <= 110 for line in cut.splitlines())


def test_rows_name_the_users_labels() -> None:
    text = str(einloom.plan("αβ,βé->αé", (2, 3), (3, 4)))
    assert "αβ,βé->αé" in text
    named = Network(
        [["left", "x"], ["x", ("y", 1)]], ["left", ("y", 1)], {"left": 2, "x": 3, ("y", 1): 4}
    )
    first = rows(str(einloom.plan(named)))[0]
    assert re.search(r" (\w)x,x(\w)->\1\2 ", first), first  # free letters for the others


def test_engines() -> None:
    """What will run each step is the program's own choice."""
    with einloom.options(small=math.inf):
        cases = {
            "ij,jk->ik": "gemm",
            "bij,bjk->bik": "batched gemm",
            "i,j->ij": "multiply",
            "ij->j": "sum",
            "ij->ji": "view",
        }
        for text, engine in cases.items():
            shapes = [(3,) * len(term) for term in text.partition("->")[0].split(",")]
            assert rows(str(einloom.plan(text, *shapes)))[0].split()[1:][: len(engine.split())] == (
                engine.split()
            )
        integers = einloom.plan("ij,jk->ik", (3, 3), (3, 3), dtype="i8")
        assert rows(str(integers))[0].split()[1] == "matmul"
        assert rows(str(einloom.plan("i,i->", (0,), (0,))))[0].split()[1] == "zeros"
        assert rows(str(PLANS["one step"]))[0].split()[1] == "sum_product"


def test_print_shows_the_proof_and_the_trials() -> None:
    shapes = ((2, 3), (3, 4), (4, 5))
    assert "Planner:  optimal\n" in str(einloom.plan("ij,jk,kl", *shapes, planner="optimal"))
    assert "Planner:  random-greedy, 3 runs\n" in str(
        einloom.plan(chain(9, 40), planner="random-greedy", budget=3)
    )


# JSON and pickle --------------------------------------------------------------------------------


@every_plan
def test_json_round_trip(name: str) -> None:
    plan = PLANS[name]
    document = json.loads(plan.to_json())
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert hash(again) == hash(plan)
    assert again.to_json() == plan.to_json()
    assert str(again) == str(plan)
    assert document["labels_replaced"] is False
    assert document["einloom"] == einloom.__version__


@every_plan
def test_pickle(name: str) -> None:
    plan = PLANS[name]
    for again in (pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan), copy.copy(plan)):
        assert again == plan
        assert again.peak_bytes == plan.peak_bytes


@pytest.mark.parametrize("case", CORPUS["labels"], ids=lambda case: ascii(case.equation)[:60])
def test_the_corpus_of_labels(case: Any) -> None:
    plan = einloom.plan(*case.arguments())
    again = Plan.from_json(plan.to_json())
    replaced = json.loads(plan.to_json())["labels_replaced"]
    storable = all(
        isinstance(item, (str, int))
        for label in plan.network.labels
        for item in (label if isinstance(label, tuple) else (label,))
    )
    assert replaced == (not storable)
    assert (again == plan) == storable
    assert again.network.terms == plan.network.terms
    assert (again.path, again.cost, again.peak_bytes) == (plan.path, plan.cost, plan.peak_bytes)


@pytest.mark.parametrize(
    "label",
    [1.5, None, b"b", frozenset({1}), Fraction(1, 2), ("a", 1.5), (None,), True, ((1, b""),)],
)
def test_labels_that_json_cannot_hold_are_replaced(label: Any) -> None:
    network = Network([["x", label]], [label], {"x": 2, label: 3})
    plan = einloom.plan(network)
    document = json.loads(plan.to_json())
    assert document["labels_replaced"] is True
    assert document["labels"] == [0, 1]
    again = Plan.from_json(plan.to_json())
    assert again.network == Network([[0, 1]], [1], {0: 2, 1: 3})
    assert replace(again, network=plan.network) == plan
    array = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(einloom.compile(again)(array), array.sum(0))


@pytest.mark.parametrize(
    "label", ["", "long name", -7, 10**40, (), (1, ("a", (2,))), "\ud800", "é"]
)
def test_labels_that_json_can_hold_are_kept(label: Any) -> None:
    plan = einloom.plan(Network([["x", label]], [label], {"x": 2, label: 3}))
    assert Plan.from_json(plan.to_json()) == plan


def test_the_golden_file_is_read() -> None:
    """What this version writes; a change of the format needs a new version and file."""
    text = (GOLDEN / "plan_v5.json").read_text(encoding="utf-8")
    assert Plan.from_json(text) == golden_plan()
    ours, theirs = json.loads(golden_plan().to_json()), json.loads(text)
    theirs["einloom"] = ours["einloom"]  # whoever wrote it
    assert ours == theirs


def test_older_golden_files_are_read() -> None:
    """Version 1 had no sliced labels, 2 neither layouts nor exponents kept apart, 3 no memory limit,
    4 no number of runs."""
    fourth = replace(golden_plan(), n_runs=None)
    third = replace(fourth, memory_limit=None)
    second = replace(third, layouts=(), strip_exponent=False)
    plans = {4: fourth, 3: third, 2: second, 1: replace(second, sliced=())}
    for version, plan in plans.items():
        name = f"plan_v{version}.json"
        text = (GOLDEN / name).read_text(encoding="utf-8")
        assert Plan.from_json(text) == plan


def test_unknown_keys_are_left_alone() -> None:
    document = json.loads(small_plan().to_json()) | {"comment": "by hand"}
    assert Plan.from_json(json.dumps(document)) == small_plan()


@pytest.mark.parametrize("version", [6, 7, 10**6])
def test_a_newer_version_is_refused(version: int) -> None:
    document = json.loads(small_plan().to_json()) | {"version": version}
    with pytest.raises(FileFormatError, match=rf"version {version}.*newer.*upgrade"):
        Plan.from_json(json.dumps(document))


@pytest.mark.parametrize("version", [0, -1, "1", None, 1.0, True, [1]])
def test_a_version_that_is_none_is_refused(version: Any) -> None:
    document = json.loads(small_plan().to_json()) | {"version": version}
    with pytest.raises(FileFormatError, match="no version"):
        Plan.from_json(json.dumps(document))


@pytest.mark.parametrize(
    "text",
    [
        "", "nonsense", "{", "[]", "null", "3", '"plan"', "{}", '{"format": "einloom.program"}',
        '{"format": "einloom.plan"}', '{"format": "einloom.plan", "version": 1}', "[" * 100_000,
        "NaN", "\x00",
    ],
    ids=lambda text: repr(text[:40]),
)  # fmt: skip
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(FileFormatError):
        Plan.from_json(text)


KEYS = [key for key in json.loads(small_plan().to_json()) if key not in ("format", "version")]
JUNK: list[Any] = [
    None, True, -1, 0, 7, 10**30, 1.5, "x", "", [], {}, [None], [[]], [-1], [9], ["x"], [1.0],
    [True], [[-1]], [[9]], [[0, 0], [2, 3]], [["a"]], [{}], [[0, 1], [1, 2], [2, 9]], {"tuple": 3},
    [{"tuple": [0]}, 1, 2, 3], ["i", "i", "k", "l"], ["float64"], ["U3", "f8", "f8"],
    ["object", "M8[s]", "f8"], "W", "M8[s]",
]  # fmt: skip


def read(text: str) -> Plan | None:
    """The plan of a document, or None if it is refused in the right words."""
    try:
        return Plan.from_json(text)
    except FileFormatError as error:
        if not str(error).startswith("einloom.plan: "):
            raise
        return None


@pytest.mark.parametrize("key", KEYS)
def test_garbled_keys(key: str) -> None:
    """A document lacking a key is refused; with junk it is refused, or a plan that runs."""
    document = json.loads(small_plan().to_json())
    if key not in ("einloom", "labels_replaced"):
        del document[key]
        with pytest.raises(FileFormatError, match=key):
            Plan.from_json(json.dumps(document))
    for junk in JUNK:
        text = json.dumps(document | {key: junk})
        plan = read(text)
        if plan is None:
            continue
        assert Plan.from_json(plan.to_json()) == plan
        assert str(plan)
        hash(plan)
        if plan != small_plan():  # another label, seed or dtype, say
            arrays = [
                np.ones(shape, dtype)
                for shape, dtype in zip(plan.network.shapes, plan.dtypes, strict=True)
            ]
            einloom.compile(plan)(*arrays)


@every_plan
def test_programs_round_trip(name: str) -> None:
    """The program of every plan, before and after the passes."""
    plan = PLANS[name]
    for program in (plan.lowered, plan.program):
        assert program_from_json(program_to_json(program)) == program
        assert pickle.loads(pickle.dumps(program)) == program


def test_a_stored_plan_runs() -> None:
    r = np.random.default_rng(0)
    arrays = [r.standard_normal(shape) for shape in small_plan().network.shapes]
    again = einloom.compile(Plan.from_json(small_plan().to_json()))
    np.testing.assert_array_equal(again(*arrays), einloom.compile(small_plan())(*arrays))


def test_the_peak_counts_the_copy_into_any_order() -> None:
    """Of what is not made in it; which one "A" means is known at the call."""
    shapes = ((2000, 16), (16, 2000, 1))
    peaks = {x: einloom.plan("ij,jkx->kix", *shapes, order=x).peak_bytes for x in "KCFA"}
    assert peaks["A"] == peaks["K"] + 2000 * 2000 * 8
    assert peaks["F"] in (peaks["K"], peaks["A"])


def test_what_nobody_will_run_is_explained() -> None:
    labels = [chr(0x4E00 + k) for k in range(60)]
    network = Network([labels[:30], labels[30:]], [], dict.fromkeys(labels, 10**12))
    assert "dot_general" in einloom.compile(einloom.plan(network)).explain()
