"""Trees are found once: for all names, for all orders, for all processes; and only for the same problem."""

from __future__ import annotations

import json
import logging
import math
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.networks import chain, grid, random_network, regular, relabelled, ring, sized

import einloom
from einloom import Network, Plan
from einloom.contract import plan_cache
from einloom.contract.canonical import canonical
from einloom.contract.cost import total_cost
from einloom.contract.planners import PLANNERS, Candidate, Problem, planner, portfolio
from einloom.contract.planners.portfolio import soon

Log = pytest.LogCaptureFixture
SOURCE = str(Path(einloom.__file__).parents[1])
asked_of: list[int] = []  # tensors of each network that the default planner was asked about


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    einloom.clear_caches()
    asked_of.clear()
    with einloom.options(plan_cache="memory"):
        yield
    einloom.clear_caches()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default planner tells what it is asked."""
    auto = PLANNERS["auto"]

    @planner
    def telling(network: Network, problem: Problem) -> Candidate:
        asked_of.append(len(network.terms))
        return auto(network, problem)

    monkeypatch.setitem(PLANNERS, "auto", telling)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Where plans are kept by a process that keeps them on disk."""
    with einloom.options(plan_cache="disk", cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache" / "plans"


def hits(name: str) -> int:
    return einloom.cache_info()[name].hits


# In memory ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("n", [3, 5, 8, 20, 200])
def test_other_names_are_the_same_problem(n: int) -> None:
    network = chain(n, 3)
    names = {label: f"label {label}" for label in range(n + 1)}
    other = Network(
        [[names[x] for x in term] for term in network.inputs],
        [names[x] for x in network.output],
        {names[x]: size for x, size in network.sizes.items()},
    )
    plan = einloom.plan(network)
    assert einloom.plan(other).tree == plan.tree
    assert asked_of == [n]
    assert hits("trees") == 1


@pytest.mark.usefixtures("counted")
def test_other_names_in_strings() -> None:
    a = np.ones((3, 3))
    einloom.einsum("ij,jk,kl->il", a, a, a)
    einloom.einsum("ab,bc,cd->ad", a, a, a)
    einloom.einsum(a, [7, "x"], a, ["x", ()], a, [(), 3], [7, 3])
    einloom.compile("ZY,YX,XW->ZW", a, a, a)
    einloom.plan("ZY,YX,XW->WZ", (3, 3), (3, 3), (3, 3), dtype="float32")
    assert asked_of == [3, 3], "the item size of float32 is part of the problem"


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize(
    "network",
    [ring(11), chain(12), grid(4, 5), regular(3, 30, 1)],
    ids=["ring", "chain", "grid", "regular"],
)
def test_another_order_is_the_same_problem(network: Network) -> None:
    r = random.Random(5)
    plan = einloom.plan(network)
    for _ in range(5):
        found = einloom.plan(relabelled(r, network))
        assert (found.cost, found.largest_intermediate) == (plan.cost, plan.largest_intermediate)
        assert found.planner == plan.planner
    assert len(asked_of) == 1
    assert hits("trees by form") == 5


def light(r: random.Random, n: int) -> Network:
    """A row of tensors with a few bonds between those that are near, in any order."""
    edges = [(k, k + 1) for k in range(n - 1)] + [
        (k, k + 2) for k in range(n - 2) if r.random() < 0.3
    ]
    terms: list[list[int]] = [[] for _ in range(n)]
    for label, ends in enumerate(edges):
        for end in ends:
            terms[end].append(label)
    r.shuffle(terms)
    return Network(terms, (), {label: r.choice([1, 2, 3, 4]) for label in range(len(edges))})


def test_what_is_planned_soon_is_planned_as_ever() -> None:
    """Where the form is not worth its time a planner sees the network as given, and finds what it would."""
    r, found = random.Random(3), 0
    for k in range(40):
        network = light(r, r.randint(51, 150)) if k % 4 else regular(4, 60, k)
        problem = Problem(waits=False)
        if (candidate := soon(network, problem)) is not None:
            assert candidate == PLANNERS["auto"](network, problem)
            found += 1
    assert 20 <= found < 40


def test_an_interrupt_ends_what_is_planned_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Previously failed: where the next part was not light all was searched once more."""
    one, other = light(random.Random(4), 60), regular(4, 60, 1, size=4)
    terms = [*one.terms, *(tuple(x + 1000 for x in term) for term in other.terms)]
    sizes = dict(enumerate(one.extents)) | {1000 + k: n for k, n in enumerate(other.extents)}
    network, problem = Network(terms, (), sizes), Problem(waits=False)
    assert soon(network, problem) is None
    calls: list[int] = []

    def interrupted(self: Any) -> None:
        calls.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(portfolio._Portfolio, "_search", interrupted)
    found = soon(network, problem)
    assert found is not None
    assert not found.complete
    assert len(calls) == 1


def test_einsum_of_a_light_network_asks_for_no_form() -> None:
    network = light(random.Random(4), 80)
    arrays = [np.ones(shape) for shape in network.shapes]
    call = [x for pair in zip(arrays, network.terms, strict=True) for x in pair]
    einloom.einsum(*call)
    info = einloom.cache_info()
    assert (info["trees by form"].currsize, info["trees"].currsize > 0) == (0, True)
    einloom.plan(network)
    assert einloom.cache_info()["trees by form"].currsize > 0


def test_plans_do_not_depend_on_what_was_asked_before() -> None:
    """A plan is the same in a fresh process, after the same network in another order, and without a cache."""
    r = random.Random(7)
    for _ in range(40):
        network = random_network(r, r.randint(3, 14))
        with einloom.options(plan_cache="off"):
            alone = einloom.plan(network)
        einloom.clear_caches()
        einloom.plan(relabelled(r, network))
        assert einloom.plan(network) == alone
        assert einloom.plan(network) == alone


def test_results_are_right() -> None:
    """Every operand stands where the translated tree says."""
    r = random.Random(11)
    rng = np.random.default_rng(11)
    for _ in range(25):
        network = random_network(r, r.randint(11, 13), sizes=(1, 2))
        for one in (network, relabelled(r, network), relabelled(r, network)):
            arrays = [rng.integers(-3, 4, shape) for shape in one.shapes]
            operands = [x for pair in zip(arrays, one.terms, strict=True) for x in pair]
            got = einloom.compile(one, *arrays)(*arrays)
            expected = np.einsum(*operands, list(one.output_axes), optimize="greedy")
            np.testing.assert_array_equal(got, expected)


BASE = {"dtype": "float64", "objective": "flops", "budget": 4, "seed": 1, "planner": "auto"}


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "float32"},
        {"objective": "size"},
        {"budget": 5},
        {"seed": 2},
        {"planner": "greedy"},
        {"planner": "random-greedy"},
        {"memory_limit": "1GiB"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_argument_of_a_search_counts(change: dict[str, Any]) -> None:
    network = grid(3, 4)
    base: dict[str, Any] = BASE
    einloom.plan(network, **base)
    einloom.plan(network, **{**base, **change})
    assert hits("trees") == hits("trees by form") == 0
    einloom.plan(network, **base)
    assert hits("trees") == 1


def test_what_does_not_steer_a_search_does_not_count() -> None:
    network = chain(11)
    einloom.plan(network)
    einloom.plan(network, conj=[1], order="F", constants=[0], strip_exponent=True)
    einloom.plan(network, dtype="int64")
    assert hits("trees") == 2


def test_changed_networks_are_searched() -> None:
    sizes = sized("abcdefghij", 2, 3, 4, 5, 6, 7, 8, 9, 2, 3)
    terms = ["ab", "bc", "cd", "de", "ef", "fg", "gh", "hi", "ij"]
    for inputs, output, extents in (
        (terms, "aj", sizes),
        (terms, "a", sizes),
        (terms, "aj", {**sizes, "e": 5}),
        ([*terms[:-1], "ia"], "ah", sizes),
        ([*terms, "j"], "aj", sizes),
    ):
        used = set("".join(inputs))
        einloom.plan(Network(inputs, output, {k: v for k, v in extents.items() if k in used}))
    assert hits("trees") == hits("trees by form") == 0


def test_paths_optimizers_and_functions_are_asked_each_time() -> None:
    network = chain(11)
    asked: list[str] = []

    def optimizer(inputs: Any, output: Any, sizes: Any, limit: Any = None) -> list[tuple[int, int]]:
        asked.append("optimizer")
        return [(0, 1)] * (len(inputs) - 1)

    @planner
    def mine(network: Network, problem: Problem) -> Candidate:
        asked.append("planner")
        return PLANNERS["greedy"](network, problem)

    for choice in (optimizer, mine, [(0, 1)] * 10, False, ("greedy", 100)):
        for _ in range(2):
            einloom.plan(network, planner=choice)
    assert asked == ["optimizer"] * 2 + ["planner"] * 2
    info = einloom.cache_info()
    assert info["trees"].currsize == info["trees by form"].currsize == 0


@pytest.mark.usefixtures("counted")
def test_parentheses_are_networks_of_their_own() -> None:
    shapes = [(2, 2)] * 6
    one = einloom.plan("(ab,bc,cd),de,ef,fg->ag", *shapes)
    assert asked_of == [3, 4]
    other = einloom.plan("(uv,vw,wx),xy,yz,zt->ut", *shapes)
    assert asked_of == [3, 4]
    assert one.tree == other.tree


def test_errors_are_not_kept() -> None:
    for _ in range(2):
        with pytest.raises(einloom.OptionError, match="17"):
            einloom.plan(chain(17), planner="optimal")


def test_off_keeps_nothing() -> None:
    with einloom.options(plan_cache="off"):
        einloom.plan(chain(11))
    assert einloom.cache_info()["trees"].currsize == 0
    assert einloom.cache_info()["trees by form"].currsize == 0


def test_sliced_labels_are_translated() -> None:
    @dataclass(frozen=True)
    class Sliced(Candidate):
        sliced: tuple[int, ...] = ()

    network = relabelled(random.Random(3), grid(3, 3))
    numbered = canonical(network)
    tree = PLANNERS["greedy"](numbered.form.network(), Problem()).tree
    found = plan_cache.translated(Sliced(tree, "test", None, (0, 5)), numbered)
    assert found.sliced == tuple(sorted((numbered.labels[0], numbered.labels[5])))  # type: ignore[attr-defined]
    assert total_cost(network, found.tree) == total_cost(numbered.form.network(), tree)


# Within a memory limit ----------------------------------------------------------------------------


def limited(letters: str = "abcdef", **changes: Any) -> Plan:
    """A ring of five matrices, whose peak is larger than the limit before labels are sliced."""
    a, b, c, d, e, f = letters
    return einloom.plan(
        f"{a}{b},{b}{c},{c}{d},{d}{e},{e}{f}->{a}{f}",
        *[(60, 60)] * 5,
        **{"memory_limit": 190_000, **changes},
    )


def test_slices_are_looked_for_once() -> None:
    plan = limited()
    assert plan.sliced
    again = limited("uvwxyz")
    assert hits("plans within a limit") == 1
    assert (again.tree, again.sliced, again.planner) == (plan.tree, plan.sliced, plan.planner)
    assert again.network.labels == tuple("uvwxyz")
    assert again.peak_bytes == plan.peak_bytes <= 190_000
    with einloom.options(plan_cache="off"):
        assert limited() == plan


def test_what_a_peak_depends_on_counts() -> None:
    # compiled kernels that strip exponents need 8 MiB, which no slicing makes less
    with einloom.options(small=math.inf):
        every_change_is_another_plan()


def every_change_is_another_plan() -> None:
    limited()
    for change in (
        {"memory_limit": 200_000},
        {"dtype": "complex128", "memory_limit": 380_000},
        {"order": "F"},
        {"conj": [0]},
        {"constants": [1]},
        {"strip_exponent": True, "memory_limit": 10**6},
        {"objective": "size"},
    ):
        limited(**change)
    with einloom.options(threads=1):
        limited()
    assert hits("plans within a limit") == 0


def test_a_limit_that_cannot_be_met_is_said_each_time() -> None:
    for _ in range(2):
        with pytest.raises(einloom.MemoryLimitError, match="smallest predicted peak"):
            limited(memory_limit=1000)


# On disk ------------------------------------------------------------------------------------------


def forget() -> None:
    """As a new process: what it knows is on disk."""
    einloom.clear_caches()


@pytest.mark.usefixtures("counted")
def test_a_later_process_finds_it(disk: Path) -> None:
    network = grid(4, 4)
    plan = einloom.plan(network)
    forget()
    assert einloom.plan(network) == plan
    forget()
    assert einloom.plan(relabelled(random.Random(1), network)).cost == plan.cost
    assert asked_of == [16]
    assert len(list(disk.iterdir())) == 1
    assert hits("trees on disk (bytes)") == 1
    assert os.stat(disk).st_mode & 0o077 == 0


def test_small_problems_are_not_written(disk: Path) -> None:
    einloom.plan(chain(5))
    assert not disk.exists()


def document(disk: Path) -> tuple[Path, dict[str, Any]]:
    (file,) = disk.glob("*.json")
    return file, json.loads(file.read_text())


def other_tree(data: dict[str, Any]) -> None:
    """A chain from the other end: a tree, but not one of that cost."""
    n = data["tensors"]
    data["ssa_path"] = [[0, n - 1], *([n + k, k + 1] for k in range(n - 2))]


GARBLES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another format": lambda d: d.update(format="einloom.plan"),
    "an older version": lambda d: d.update(version=0),
    "a newer version": lambda d: d.update(version=99),
    "another einloom": lambda d: d.update(einloom="0.0.1"),
    "another planner": lambda d: d.update(planner="greedy"),
    "another seed": lambda d: d["problem"].update(seed=5),
    "another objective": lambda d: d["problem"].update(objective="size"),
    "one more argument": lambda d: d["problem"].update(more=1),
    "another size": lambda d: d["labels"][0].__setitem__(1, 7),
    "another holder": lambda d: d["labels"][0].__setitem__(0, [0]),
    "a label more": lambda d: d["labels"].append([[0], 2, False]),
    "more tensors": lambda d: d.update(tensors=d["tensors"] + 1),
    "no steps": lambda d: d.update(ssa_path=[]),
    "no such key": lambda d: d.pop("ssa_path"),
    "a step less": lambda d: d["ssa_path"].pop(),
    "a tensor twice": lambda d: d["ssa_path"].__setitem__(0, [0, 0]),
    "an unknown tensor": lambda d: d["ssa_path"].__setitem__(0, [0, 999]),
    "a negative tensor": lambda d: d["ssa_path"].__setitem__(0, [0, -1]),
    "no integer": lambda d: d["ssa_path"].__setitem__(0, [0, 1.0]),
    "a truth value": lambda d: d["ssa_path"].__setitem__(0, [False, True]),
    "steps as text": lambda d: d.update(ssa_path="steps"),
    "steps as a number": lambda d: d.update(ssa_path=3),
    "another tree": other_tree,
    "another cost": lambda d: d.update(cost=d["cost"] - 1),
    "no proof": lambda d: d.update(proof="it is certain"),
    "nobody": lambda d: d.update(found_by=None),
    "an unknown label": lambda d: d.update(sliced=[99]),
    "a label twice": lambda d: d.update(sliced=[0, 0]),
}

TEXTS: dict[str, bytes] = {
    "empty": b"",
    "cut": b'{"format": "einloom.tree", "vers',
    "a list": b"[1, 2]",
    "null": b"null",
    "binary": bytes(range(256)),
    "pickle": b"cos\nsystem\n(S'false'\ntR.",
    "brackets without end": b"[" * 100_000,
    "long integer": b'{"format": ' + b"1" * 10_000 + b"}",
}


def is_searched_anew(file: Path, log: Log, network: Network, plan: Plan) -> None:
    """With a warning that names the file, which is then right again."""
    forget()
    asked_of.clear()
    with log.at_level(logging.WARNING, "einloom"):
        assert einloom.plan(network) == plan
    assert asked_of == [len(network.terms)]
    assert file.name in log.text
    assert "searched anew" in log.text
    forget()
    assert einloom.plan(network) == plan
    assert asked_of == [len(network.terms)]


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("name", GARBLES)
def test_what_is_garbled_is_not_trusted(disk: Path, name: str, caplog: Log) -> None:
    network = Network([(k, k + 1) for k in range(11)], (0, 11), {k: 2 + k for k in range(12)})
    plan = einloom.plan(network)
    file, data = document(disk)
    GARBLES[name](data)
    file.write_text(json.dumps(data))
    is_searched_anew(file, caplog, network, plan)


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("name", TEXTS)
def test_what_is_no_document_is_not_trusted(disk: Path, name: str, caplog: Log) -> None:
    network = chain(11, 3)
    plan = einloom.plan(network)
    file, _ = document(disk)
    file.write_bytes(TEXTS[name])
    is_searched_anew(file, caplog, network, plan)


@pytest.mark.usefixtures("counted")
def test_what_is_too_large_is_not_read(
    disk: Path, caplog: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = einloom.plan(chain(11))
    file, _ = document(disk)
    monkeypatch.setattr(plan_cache, "MOST_BYTES_EACH", 20)
    forget()
    with caplog.at_level(logging.WARNING, "einloom"):
        assert einloom.plan(chain(11)) == plan
    assert "too large" in caplog.text
    einloom.plan(chain(10))
    assert list(disk.iterdir()) == [file], "nor written"


def test_the_folder_is_bounded(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that were used longest ago go first."""
    monkeypatch.setattr(plan_cache, "ROUNDS", 1)
    einloom.plan(chain(11))
    (first,) = disk.iterdir()
    monkeypatch.setattr(plan_cache, "MOST_BYTES", 8 * first.stat().st_size)
    os.utime(first, (1, 1))
    for n in range(11, 22):
        einloom.plan(chain(n))
        assert sum(file.stat().st_size for file in disk.iterdir()) <= plan_cache.MOST_BYTES
    assert not first.exists()
    info = einloom.cache_info()["trees on disk (bytes)"]
    assert 0 < info.currsize <= plan_cache.MOST_BYTES


def test_a_folder_that_cannot_be_used(tmp_path: Path, caplog: Log) -> None:
    (tmp_path / "file").write_text("no folder")
    plan = einloom.plan(chain(11))
    forget()
    with (
        caplog.at_level(logging.WARNING, "einloom"),
        einloom.options(plan_cache="disk", cache_dir=str(tmp_path / "file")),
    ):
        assert einloom.plan(chain(11)) == plan
    assert "not kept on disk" in caplog.text


def test_what_memory_knows_is_written_too(tmp_path: Path) -> None:
    """To every folder that is named, by whoever is the first to name it."""
    plan = einloom.plan(grid(3, 4))
    for name in ("one", "two"):
        folder = tmp_path / name
        with einloom.options(plan_cache="disk", cache_dir=str(folder)):
            assert einloom.plan(grid(3, 4)) == plan
        assert len(list((folder / "plans").iterdir())) == 1


def test_a_problem_that_cannot_be_written() -> None:
    form = canonical(chain(11)).form
    assert plan_cache._question("auto", Problem(), form) is not None
    unknown: Any = object()
    assert plan_cache._question("auto", replace(Problem(), budget=unknown), form) is None
    huge = Network([(k, k + 1) for k in range(11)], (), dict.fromkeys(range(12), 10**5000))
    assert einloom.plan(huge, planner="greedy").cost > 10**10000


def test_threads(disk: Path) -> None:
    """Eight of them ask for the same networks, on disk and in memory, while one clears the caches."""
    networks = [regular(3, n, n) for n in range(8, 20, 2)]
    expected = [einloom.plan(network).tree for network in networks]
    barrier = threading.Barrier(8)

    def work(k: int) -> bool:
        barrier.wait()
        for _ in range(10):
            for network, tree in zip(networks, expected, strict=True):
                with einloom.options(plan_cache="disk", cache_dir=str(disk.parent)):
                    if einloom.plan(network).tree != tree:
                        return False
            if k == 0:
                forget()
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert not list(disk.glob("*.tmp"))


PROCESS = """
import sys, logging
logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
from einloom import Network, clear_caches, plan
for turn in range(20):
    for n in range(11, 17):
        network = Network([(k, k + 1) for k in range(n)], (0, n), {k: 2 + k for k in range(n + 1)})
        print(plan(network).ssa_path)
    clear_caches()
"""


def test_processes(tmp_path: Path) -> None:
    """Four write and read the same files at once; each prints the same, and none complains."""
    environment = {
        **os.environ,
        "PYTHONPATH": SOURCE,
        "EINLOOM_PLAN_CACHE": "disk",
        "EINLOOM_CACHE_DIR": str(tmp_path),
    }
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    ends = [process.communicate() for process in running]
    assert {errors for _, errors in ends} == {""}
    assert len({text for text, _ in ends}) == 1
    assert len(list((tmp_path / "plans").iterdir())) == 6
