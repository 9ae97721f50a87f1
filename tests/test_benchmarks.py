"""The benchmarks: every suite runs in small, with results checked, and the figures are what they say.

Nothing here is timed. Peers that are not installed are left out, as they are by the suites.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from benchmarks import harness, picture, report
from benchmarks.cold import timed_imports
from benchmarks.harness import CaseResult, measure
from benchmarks.machine import Roof, machine, present_roofline, rates, threaded_copy
from benchmarks.memory import SLACK, peak_bytes, torch_peak_bytes, xla_bytes
from benchmarks.roofline import Rates, Work, roofline, works
from benchmarks.suites import SUITES, first_calls
from benchmarks.suites.elementwise import CHAINS, OPS, Chain, expression, fusion_plan
from benchmarks.suites.expressions import SIZES, Sized, contenders
from benchmarks.suites.expressions import published as published_expressions
from benchmarks.suites.permutations import (
    DTYPES,
    FILE,
    drawn,
    laid_out,
    published,
    random_array,
    shrunk,
)
from benchmarks.suites.single_ops import distinct_bytes
from benchmarks.suites.unseen import COUNTS, TOLERANCE
from benchmarks.suites.unseen import contenders as random_contenders
from benchmarks.suites.unseen import drawn as random_contractions

import einloom

ROOT = Path(__file__).parents[1]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )


def kept() -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in report.RESULTS.iterdir()}


# ---- every suite ------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_suite_runs_in_small_and_keeps_nothing() -> None:
    before = kept()
    done = run("--quick")
    assert done.returncode == 0, done.stderr
    for name in SUITES:
        assert f"== {name}: " in done.stdout
    assert kept() == before


def test_unknown_suite_is_named() -> None:
    done = run("einsums", "--quick")
    assert done.returncode == 2
    assert "'einsums'" in done.stderr
    assert "permutations" in done.stderr


# ---- the harness ------------------------------------------------------------------------------


def test_results_are_checked_before_timing() -> None:
    with pytest.raises(AssertionError, match="peer disagrees with einloom"):
        measure("x", {"einloom": lambda: np.ones(3), "peer": lambda: np.arange(3.0)}, quick=True)
    with pytest.raises(AssertionError, match="peer disagrees"):  # where broadcasting would hide it
        measure("x", {"einloom": lambda: np.ones(3), "peer": lambda: np.ones((1, 3))}, quick=True)
    close = {"einloom": lambda: np.ones(3), "peer": lambda: np.ones(3) + 1e-15}
    assert measure("x", close, quick=True).seconds
    with pytest.raises(AssertionError, match="peer disagrees"):
        measure("x", close, tolerance=0, quick=True)


def test_a_peer_that_fails_says_why_and_we_may_not() -> None:
    def fail() -> None:
        raise ValueError("rank")

    result = measure("x", {"einloom": lambda: 1.0, "peer": fail}, quick=True)
    assert result.failed == {"peer": "ValueError: rank"}
    assert set(result.seconds) == {"einloom"}
    with pytest.raises(ValueError, match="rank"):
        measure("x", {"numpy": lambda: 1.0, "einloom": fail}, quick=True)


def test_a_peer_may_be_left_out_or_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep() -> float:
        time.sleep(60)
        return 1.0

    monkeypatch.setattr(harness, "PATIENCE", 0.05)
    contenders = {"einloom": lambda: 1.0, "slow": sleep}
    result = measure("x", contenders, left_out={"peer": "52 labels"}, quick=True)
    assert result.failed == {"peer": "52 labels", "slow": "TimeoutError: stopped after 0.05 s"}
    assert set(result.seconds) == {"einloom"}


def test_every_contender_is_timed_and_the_copy_beside_them() -> None:
    result = measure("x", {"einloom": lambda: 1.0, "peer": lambda: 1.0}, rounds=3, moved=1000)
    assert all(seconds > 0 for seconds in result.seconds.values())
    assert result.copy_seconds is not None
    assert result.copy_seconds > 0


def test_the_roofline_is_asked_in_each_round() -> None:
    """What was measured beside it counts: the machine may be half as fast in another round."""
    roofs = [Roof(1.0, 3e9, 1e9), Roof(2.0, 2e9, 1e9), Roof(4.0, 1e9, 1e9)]
    left = iter(roofs)
    result = measure("x", {"einloom": lambda: 1.0}, rounds=3, roofline=lambda: next(left))
    assert result.roofline == 2.0
    assert result.rates == {"gemm_gflops": 2.0, "copy_gbytes": 1.0}
    assert result.rounds == 3
    harness._reduce(result, {"einloom": [1.0, 4.0, 4.0], "peer": [2.0, 2.0, 4.0]}, [], roofs)
    assert result.over_roofline() == 1.0  # of 1, 2 and 1; of the medians it were 2
    assert result.over_roofline("peer") == 1.0  # of 2, 1 and 1
    assert result.ratio() == 1.0  # of 2, 0.5 and 1


def test_a_roofline_of_nothing() -> None:
    result = measure("x", {"einloom": lambda: 1.0}, rounds=3, roofline=lambda: Roof(0.0, 1.0, 1.0))
    assert result.over_roofline() is None


def test_the_roofline_of_a_plan() -> None:
    now = present_roofline(einloom.plan("ij,jk->ik", (2, 3), (3, 4)), quick=True)
    assert now is not None
    assert min(now()) > 0
    assert present_roofline(einloom.plan("ij,jk->ik", (2, 3), (3, 4), dtype="int64")) is None


@pytest.mark.parametrize(
    ("seconds", "calls"), [(1e-6, 9), (0.01, 9), (0.021, 3), (0.04, 1), (2.0, 1)]
)
def test_the_calls_of_a_turn(seconds: float, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An odd number of them, as many as there is time for."""
    timed: list[float] = []

    def once(call: Callable[[], None]) -> float:
        timed.append(seconds + 1e-6 * len(timed))
        return timed[-1]

    monkeypatch.setattr(harness, "once", once)
    assert harness._turn(lambda: None, 1.0, quick=False) == np.median(timed)
    assert len(timed) == calls


def test_more_rounds_where_we_are_behind() -> None:
    """As many whether or not einloom is ahead on the way."""
    behind = {"einloom": lambda: time.sleep(0.002) or 1.0, "peer": lambda: 1.0}
    assert measure("x", behind, rounds=3).rounds == 3 * harness.LONGER
    assert measure("x", {"einloom": lambda: 1.0}, rounds=3).rounds == 3


@pytest.mark.parametrize("moved", [0, 1, 2, 7, 4096])
def test_the_copy_moves_as_many_bytes(moved: int) -> None:
    copied = threaded_copy(moved)()
    assert copied.nbytes == max(1, moved // 2)
    assert np.all(copied == 1)


def test_repeated_elements_move_once() -> None:
    row = np.zeros((1, 3), np.float32)
    assert distinct_bytes(np.broadcast_to(row, (5, 3))) == 12
    assert distinct_bytes(np.zeros((5, 3), np.float32)[::2]) == 36


def test_machine_knows_its_rates() -> None:
    facts = machine(quick=True)
    for rate in (*facts["gemm_gflops"].values(), facts["copy_gbytes"]):
        assert rate > 0
    assert facts["gemm_gflops"]["complex128"] == rates(True).gemm["complex128"] / 1e9
    assert facts["threaded_copy_gbytes"] == rates(True).copy / 1e9
    assert facts["versions"]["numpy"] == np.__version__


# ---- the roofline -----------------------------------------------------------------------------


def test_work_of_each_step() -> None:
    """Counted by hand: sizes i 2, j 3, k 5, l 7; first jk,kl->jl, then ij,jl->il."""
    chain = einloom.plan("ij,jk,kl->il", (2, 3), (3, 5), (5, 7), planner=[(1, 2), (0, 1)])
    assert list(works(chain)) == [
        Work(2 * 3 * 5 * 7, 8 * (3 * 5 + 5 * 7 + 3 * 7)),
        Work(2 * 2 * 3 * 7, 8 * (2 * 3 + 3 * 7 + 2 * 7)),
    ]
    (product,) = works(einloom.plan("ij,jk->ik", (2, 3), (3, 5), dtype="complex64"))
    assert product == Work(8 * 2 * 3 * 5, 8 * (2 * 3 + 3 * 5 + 2 * 5))
    (summed_before,) = works(einloom.plan("ij,jk->j", (2, 3), (3, 5)))
    assert summed_before == Work(2 * 3, 8 * (2 * 3 + 3 * 5 + 3))


def test_work_of_slices() -> None:
    """j is sliced: the step that has it is done 3 times, on smaller arrays; the other once."""
    plan = einloom.plan(
        "ij,jk,kl,lm->im", (2, 3), (3, 5), (5, 7), (7, 11), planner=[(2, 3), (1, 2), (0, 1)]
    )
    sliced = replace(plan, sliced=(plan.network.labels.index("j"),))
    assert list(works(sliced)) == [
        Work(2 * 5 * 7 * 11, 8 * (5 * 7 + 7 * 11 + 5 * 11)),
        Work(2 * 5 * 11, 8 * (5 + 5 * 11 + 11), times=3),
        Work(2 * 2 * 11, 8 * (2 + 11 + 2 * 11), times=3),
    ]


def test_roofline_is_bound_by_flops_or_bytes_in_each_step() -> None:
    chain = einloom.plan("ij,jk,kl->il", (2, 3), (3, 5), (5, 7), planner=[(1, 2), (0, 1)])
    first, second = works(chain)
    arithmetic = roofline(chain, Rates({"float64": 10.0}, 1e9))
    assert arithmetic == pytest.approx((first.flops + second.flops) / 10)
    assert roofline(chain, Rates({"float64": 1e9}, 10.0)) == pytest.approx(
        (first.nbytes + second.nbytes) / 10
    )
    level = first.flops / first.nbytes  # beside it the second step has more bytes than flops
    assert level > second.flops / second.nbytes
    assert roofline(chain, Rates({"float64": level}, 1.0)) == pytest.approx(
        first.nbytes + second.nbytes
    )
    assert roofline(chain, Rates({"float32": 1.0}, 1.0)) is None


# ---- first calls ------------------------------------------------------------------------------


def test_first_calls_say_why_they_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    file, reference = tmp_path / "product.json", tmp_path / "reference.npy"
    file.write_text(json.dumps({"format_string": "ij,jk->ik", "shapes": [[2, 3], [3, 4]]}))
    np.save(reference, np.zeros((2, 4)))
    outcome = first_calls.call("einloom", file, reference)
    assert outcome == "einloom disagrees with the reference"
    monkeypatch.setattr(first_calls, "LIMIT", 0.01)
    assert first_calls.call("einloom", file, reference) == "stopped after 0.01 s"


def test_first_calls_are_made_in_rotated_order_and_failures_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []

    def call(who: str, *_: object) -> tuple[float, float] | str:
        calls.append(who)
        return "too large" if who == "b" else (float(len(calls)), 0.5)

    monkeypatch.setattr(first_calls, "call", call)
    result = CaseResult("x")
    first_calls.time_rounds(result, Path(), Path(), ("einloom", "a", "b"), 2)
    assert calls == ["einloom", "a", "b", "a", "einloom"]
    assert result.seconds == {"einloom": 3.0, "a": 3.0}  # of 1 and 5, and of 2 and 4
    assert result.failed == {"b": "too large"}
    assert result.paired == {"a": pytest.approx((2 / 1 + 4 / 5) / 2)}
    assert result.facts == {"import_seconds": {"einloom": 0.5, "a": 0.5}}


def test_imports_are_timed_once() -> None:
    with timed_imports() as spent:
        import json.tool as again
        import json.tool as tool
    assert again is tool
    assert len(spent) == 2
    assert all(seconds >= 0 for seconds in spent)


# ---- memory -----------------------------------------------------------------------------------


def test_peak_holds_operands_intermediate_and_result() -> None:
    x = np.ones((1000, 1000))
    peak = peak_bytes(lambda: np.add(np.add(x, 1), 1), [x])
    assert 3 * x.nbytes <= peak <= 3 * x.nbytes + SLACK


def test_peak_holds_what_is_lent() -> None:
    """Two products of 2 MB, of which the first is an intermediate."""
    a = np.ones((500, 500))
    expression = einloom.compile("ij,jk,kl->il", a, a, a)
    expression(a, a, a)
    peak = peak_bytes(lambda: expression(a, a, a), [a, a, a])
    assert 5 * a.nbytes <= peak <= min(5 * a.nbytes, expression.peak_bytes) + SLACK
    assert peak_bytes(lambda: expression(a, a, a), [a, a, a], held=True) >= 5 * a.nbytes


def test_peaks_of_torch_and_xla() -> None:
    """Where they are installed: operand, intermediate and result."""
    torch = pytest.importorskip("torch")
    x = torch.ones(1 << 20, dtype=torch.float64)
    peak = torch_peak_bytes(lambda: (x + 1).exp(), [x])
    assert 3 * 8 << 20 <= peak <= (3 * 8 << 20) + SLACK
    jax = pytest.importorskip("jax")
    y = jax.numpy.ones((1 << 10, 1 << 10), "float32")
    compiled = jax.jit(lambda a: (a @ a) @ a).lower(y).compile()
    assert xla_bytes(compiled) == 3 * 4 << 20


# ---- the report -------------------------------------------------------------------------------

CASES = [
    CaseResult(
        "even",
        {"numpy": 4.0, "torch": 2.0, "einloom": 2.0},
        moved=10**9,
        copy_seconds=1.0,
        predicted_peak=10**8,
        peaks={"einloom": 4 * 10**8, "numpy": 10**8, "torch": 2 * 10**8},
    ),
    CaseResult(
        "hard", {"numpy": 16.0, "einloom": 2.0}, moved=10**9, copy_seconds=1.0, roofline=0.5
    ),
    CaseResult("behind", {"numpy": 1.0, "einloom": 2.0}, roofline=2.0),
    CaseResult("floor", {"floor": 1.0, "einloom": 2.0}, baselines=("floor",)),
    CaseResult("trial", facts={"einloom": "survives"}),
]


def test_figures_of_a_case() -> None:
    even, *_, floor, trial = CASES
    assert (even.best_peer(), even.ratio(), even.gbytes()) == (2.0, 1.0, 0.5)
    assert even.copy_fraction(even.seconds["numpy"]) == 0.25
    assert floor.ratio() is floor.gbytes() is floor.copy_fraction(2.0) is None
    assert trial.ratio() is None


def test_summary() -> None:
    totals = report.summary(CASES)
    assert totals["best_peer_over_ours"] == pytest.approx((1 * 8 * 0.5) ** (1 / 3))
    assert totals["best_peer_over_ours_capped"] == pytest.approx((1 * 5 * 0.5) ** (1 / 3))
    assert totals["copy_fraction"] == pytest.approx(0.5)
    assert (totals["hard_cases"], totals["best_peer_over_ours_hard"]) == (1, pytest.approx(8.0))
    assert totals["behind"] == {"behind": 0.5}
    assert totals["peers"]["torch"] == {"cases": 1, "over_ours": 1.0, "behind": {}}
    assert totals["peers"]["numpy"]["behind"] == {"behind": 0.5}
    assert totals["time_over_roofline"] == pytest.approx((4 * 1) ** (1 / 2))
    assert totals["below_roofline"] == {"behind numpy": 0.5}
    assert totals["peak_above_predicted"] == totals["peak_above_peers"] == {"even": 4.0}
    assert totals["peak_over_least_of_peers"] == pytest.approx(4.0)
    assert totals["peak_over_best_peer"] == pytest.approx(2.0)  # torch takes less time than numpy
    assert totals["peak_above_best_peer"] == {"even": 2.0}


def test_report_is_kept_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path / "benchmarks" / "results")
    report.RESULTS.parent.mkdir()
    report.report("some", CASES, {"cpus": 2}, keep=True)
    printed = capsys.readouterr().out
    assert "below 0.95: behind (0.50)" in printed
    assert "trial" in printed
    document = json.loads((report.RESULTS / "some.json").read_text(encoding="utf-8"))
    assert document["machine"] == {"cpus": 2}
    assert [case["ratio"] for case in document["results"]] == [1.0, 8.0, 0.5, None, None]


def test_figures_of_another_python_lie_beside_those_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path / "benchmarks" / "results")
    report.RESULTS.parent.mkdir()
    for python in ("3.11.7", "3.12.1", "3.11.9"):
        report.report("some", CASES, {"python": python}, keep=True)
    names = {"some.json": "3.11.9", "some-3.12.json": "3.12.1"}
    assert {file.name for file in report.RESULTS.iterdir()} == set(names)
    for name, python in names.items():
        file = report.RESULTS / name
        document = json.loads(file.read_text(encoding="utf-8"))
        assert document["machine"]["python"] == python
    assert len(report.kept("some", {"python": "3.12.1"})) == len(CASES)
    for case in document["results"]:  # kept before there was such a field
        del case["rounds"], case["paired_roofline"]
    file.write_text(json.dumps(document), encoding="utf-8")
    assert len(report.kept("some", {"python": "3.12.1"})) == len(CASES)


def test_picture_has_a_row_for_each_problem() -> None:
    """It is well-formed, and marks stand in the order of the times; who was not timed has none."""
    document = {
        "machine": {"threads": 2, "processor": "A & B", "date": "2000-01-01"},
        "summary": {"time_over_roofline": 1.5},
        "results": [
            {
                "name": "one<",
                "roofline": 1.0,
                "paired_roofline": {"einloom": 1.25},
                "seconds": {"einloom": 1.5, "jax": 3.0},
            },
            {"name": "view", "roofline": None, "seconds": {"einloom": 1.0}},
        ],
    }
    root = ElementTree.fromstring(picture.picture(document))
    space = {"svg": "http://www.w3.org/2000/svg"}
    texts = [text.text or "" for text in root.findall("svg:text", space)]
    assert "one<" in texts
    assert "view" not in texts
    assert any("A & B" in text and "1.50" in text for text in texts)
    marks = {group[0].text: float(group[1].attrib["cx"]) for group in root.findall("svg:g", space)}
    assert list(marks) == ["jax: 3.00", "einloom: 1.25"]
    assert marks["einloom: 1.25"] < marks["jax: 3.00"]


# ---- the cases --------------------------------------------------------------------------------


def test_published_patterns_lie_as_the_file_says() -> None:
    content = json.loads(FILE.read_text(encoding="utf-8"))
    assert "tenferro-benchmark" in content["source"]
    entries = content["patterns"]
    for entry, pattern in zip(entries, published(), strict=True):
        shape, layout = entry["shape"], entry["src_layout"]
        memory = np.empty([shape[axis] for axis in pattern.order], np.float64)
        src = memory.transpose(np.argsort(pattern.order))
        assert src.shape == pattern.shape
        assert pattern.out_order == "F"
        if layout["kind"] == "col_major":
            assert src.flags.f_contiguous
        else:
            assert [stride // 8 for stride in src.strides] == layout["strides"]


@pytest.mark.parametrize("size", SIZES)
def test_expressions_are_complete_and_bounded(size: str) -> None:
    cases = list(published_expressions(size))
    assert {case.number for case in cases} == set(range(1, 37))
    for case in cases:
        assert len(case.source.split(":")) >= 2
        plan = einloom.plan(case.equation, *case.shapes, dtype=case.dtype)
        assert plan.peak_bytes < 1.5 * 2**30, case.name


@pytest.mark.parametrize("case", list(published_expressions("small")), ids=lambda case: case.name)
def test_small_expressions_agree(case: Sized) -> None:
    arrays = case.arrays()
    assert [x.shape for x in arrays] == list(case.shapes)
    assert any(x.flags.c_contiguous for x in arrays) != case.slices
    reference = np.einsum(case.equation, *arrays, optimize=True)
    scale = np.max(np.abs(reference), initial=1e-300)
    for who, call in contenders(case, arrays):
        np.testing.assert_allclose(
            np.asarray(call()) - case.accumulates,
            reference,
            rtol=1e-9,
            atol=1e-9 * scale,
            err_msg=who,
        )


@pytest.mark.parametrize("kind", COUNTS)
def test_random_contractions_agree_and_are_the_same_every_time(kind: str) -> None:
    cases = list(islice(random_contractions(kind), 6))
    assert cases == list(islice(random_contractions(kind), 6))
    for case in cases:
        arrays = case.arrays()
        reference = np.einsum(case.equation, *arrays, optimize=True)
        scale = np.max(np.abs(reference), initial=1e-300)
        for who, call in random_contenders(case, arrays):
            error = np.max(np.abs(np.asarray(call()) - reference), initial=0.0) / scale
            assert error < TOLERANCE[case.dtype], who


def test_laid_out_keeps_the_shape(rng: np.random.Generator) -> None:
    x = laid_out(rng.random((2, 3, 4)), (2, 0, 1))
    assert x.shape == (2, 3, 4)
    assert sorted(range(3), key=lambda axis: -x.strides[axis]) == [2, 0, 1]


def test_drawn_patterns_are_of_every_rank_and_size() -> None:
    patterns = list(drawn())
    assert patterns == list(drawn())
    assert [len(pattern.shape) for pattern in patterns] == list(range(2, 26))
    assert {pattern.dtype for pattern in patterns} == set(DTYPES)
    assert patterns[-1].shape == (2,) * 25
    for pattern in patterns:
        assert 2**22 <= np.prod(pattern.shape) <= 1.4 * 2 ** max(24, len(pattern.shape))
        assert sorted(pattern.perm) == list(pattern.order)
        assert list(pattern.perm) != sorted(pattern.perm)


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_arrays(dtype: str, rng: np.random.Generator) -> None:
    x = random_array((30, 20), dtype, rng)
    assert (x.shape, x.dtype.name) == ((30, 20), dtype)
    assert len(np.unique(x)) > 200


def test_shrunk_shapes_are_small() -> None:
    assert shrunk((2,) * 25) == (1,) * 13 + (2,) * 12
    assert shrunk((5, 7)) == (5, 7)


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.name)
def test_chains_are_legal_plans(chain: Chain) -> None:
    plan = fusion_plan(chain, (4, 3), np.dtype(np.float32))
    (spec,) = plan.output_specs()
    assert spec.shape == ((4,) if plan.reduce else (4, 3))
    assert {step.op for step in plan.steps} <= set(OPS)
    assert all(f"x{k}" in expression(chain) for k in range(len(chain.inputs)))


tccg: Any = import_module("benchmarks.suites.tccg")  # the package has a function of that name

# ---- TCCG ---------------------------------------------------------------------------------------


def test_the_48_contractions_are_there() -> None:
    cases = list(tccg.cases("f8", math.inf))
    sets = Counter(case.family for case in cases)
    assert sets == {"intensli": 8, "ao2mo": 3, "ccsd": 19, "ccsd_t": 18}
    assert max(case.operations for case in cases) == 2 * 72**6
    for case in cases:
        m, n, k = case.matrices
        assert 2 * m * n * k == case.operations


@pytest.mark.parametrize("dtype", tccg.DTYPES)
def test_scaled_contractions_stay_below_the_bound_and_near_it(dtype: str) -> None:
    whole = {case.name: case for case in tccg.cases(dtype, math.inf)}
    for case in tccg.cases(dtype, tccg.MOST):
        assert case.operations <= tccg.MOST
        if whole[case.name].operations > tccg.MOST:
            assert case.operations > 0.6 * tccg.MOST
            assert all(n % tccg.STEP == 0 for n in case.sizes.values())
        else:
            assert case.sizes == whole[case.name].sizes


def test_every_contraction_of_tccg() -> None:
    """In every order of the result, with row-major and with column-major operands."""
    rng = np.random.default_rng(0)
    for case in tccg.cases("f8", tccg.TINY):
        *shapes, _ = case.shapes
        arrays = [rng.integers(-4, 5, shape).astype("f8") for shape in shapes]
        want = np.einsum(case.equation, *arrays, optimize=True)
        for order in "CFK":
            got = einloom.einsum(case.equation, *arrays, order=order)
            np.testing.assert_array_equal(got, want)
            got = einloom.einsum(case.equation, *map(np.asfortranarray, arrays), order=order)
            np.testing.assert_array_equal(got, want)
