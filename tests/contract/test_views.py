"""What a plan looks like: as a drawing, as a page, as a figure, and explained."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.networks import FAMILIES, chain, grid

import einloom
from einloom import Network, OptionError, Plan, Unsupported
from einloom.contract.views.names import Names
from einloom.contract.views.outline import outline, places

NASTY = ["<b>&\"'", "a\nb", "\ud800", "\u202e", "", ("x", 1), None, "long" * 20, "$x$", 10**40, "é"]


def nasty() -> Plan:
    """Labels that no page, terminal or file takes as they are."""
    inputs = list(pairwise(NASTY))
    return einloom.plan(Network(inputs, (NASTY[0], "\u202e"), dict.fromkeys(NASTY, 2)))


def caterpillar(n: int) -> Plan:
    """A tree as deep as there are steps."""
    steps = [(0, 1), *((n + k, k + 2) for k in range(n - 2))]
    plan = einloom.plan(chain(n), planner="greedy")
    return replace(plan, tree=replace(plan.tree, ssa_path=tuple(steps)))


def row_by_row(n: int, **keywords: Any) -> Plan:
    """A lattice, one site after another, whoever the planners are."""
    path = [(0, 1), *((0, n * n - 2 - k) for k in range(n * n - 2))]
    return einloom.plan(grid(n, n, 4), planner=path, **keywords)


PLANS: dict[str, Plan] = {
    **{name: einloom.plan(network) for name, network in FAMILIES.items()},
    "sliced": row_by_row(6, memory_limit="128KiB", dtype="float32"),
    "a limit": einloom.plan("ij,jk,kl->il", (8, 8), (8, 100), (100, 8), memory_limit="1GiB"),
    "constants": einloom.plan("ab,bc,cd->ad", (3, 4), (4, 5), (5, 6), constants=[0, 1]),
    "nasty": nasty(),
    "one step of many": einloom.plan(chain(300), planner=False),
    "beyond any machine": einloom.plan(chain(40, 10**40)),
    "beyond any float": einloom.plan(chain(400, 10**9), planner=False),
    "broadcasting": einloom.plan("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 3)),
    "a deep chain": caterpillar(3000),
}
every_plan = pytest.mark.parametrize("name", PLANS)


# Drawing ----------------------------------------------------------------------------------------


@every_plan
def test_every_plan_is_drawn(name: str) -> None:
    plan = PLANS[name]
    text = plan.draw()
    lines = text.splitlines()
    assert text.encode()
    assert all(len(line) <= 100 and line.isprintable() for line in lines)
    tensors = plan.tree.n + len(plan.steps)
    shown = len(re.findall(r"^[│├└─ ]*(?:step|operand) \d+: ", text, re.MULTILINE))
    assert shown <= 41
    assert (shown == tensors) == ("not shown" not in text)
    if shown < tensors:
        assert f"{tensors - shown} of {tensors} tensors are not shown" in text


def test_a_drawing() -> None:
    plan = einloom.plan("ij,jk,kl->il", (8, 8), (8, 100), (100, 8), planner=[(0, 1), (0, 1)])
    assert plan.draw(width=64).splitlines() == [
        "3 operands, 12800 multiplications",
        "                                          size   cost",
        "step 1: il                               512 B  50.0%  ████",
        "├─ operand 2: kl                      6.25 KiB",
        "└─ step 0: ik                         6.25 KiB  50.0%  ████",
        "   ├─ operand 0: ij                      512 B",
        "   └─ operand 1: jk                   6.25 KiB",
    ]


def test_depth_and_rows_cut() -> None:
    plan = PLANS["a larger lattice"]
    assert "step 18" in plan.draw(depth=1)
    assert plan.draw(depth=1).count("…") >= 1
    assert plan.draw(rows=3).count("operand") + plan.draw(rows=3).count("step") <= 5
    assert "not shown" not in plan.draw(depth=100, rows=1000)


@pytest.mark.parametrize(
    "bad",
    [{"width": 10}, {"depth": 0}, {"rows": 0}, {"width": 80.0}, {"depth": None}, {"rows": True}],
)
def test_bad_arguments(bad: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=rf"draw\({next(iter(bad))}="):
        PLANS["a chain"].draw(**bad)


def test_the_tree_is_still_the_attribute() -> None:
    plan = PLANS["a chain"]
    assert plan.tree.ssa_path == plan.ssa_path


def test_names() -> None:
    names = Names(PLANS["nasty"].network)
    text = [names[k] for k in range(len(NASTY))]
    assert all(len(x) <= 16 and x.isprintable() for x in text)
    assert len(set(text)) == len(text)
    assert Names(PLANS["a batch"].network).term([0, 1, 2]) == "xab"
    assert Names(PLANS["a batch"].network).term([0, 1, 2], 2) == "x…"
    assert names.term([7, 7], 12) == "2 labels"
    assert names.term([7, 7], 3) == "…"


@every_plan
def test_outlines(name: str) -> None:
    """Parents come first; what is shown and what is not are all tensors and the whole cost."""
    plan = PLANS[name]
    for most in (1, 10, 100):
        shown = outline(plan.tree, plan.steps, most, 5, 4)
        assert all(node.parent < place for place, node in enumerate(shown.nodes))
        n = plan.tree.n
        assert len(shown.nodes) + sum(node.n_hidden for node in shown.nodes) == n + len(plan.steps)
        own = sum(plan.steps[node.tensor - n].cost for node in shown.nodes if node.tensor >= n)
        assert own + sum(node.hidden_cost for node in shown.nodes) == plan.cost
        across, down = places(shown)
        assert len(set(zip(across, down, strict=True))) == len(shown.nodes), "two on one spot"


# Pages ------------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """Checks that tags close in order, and notes what a page would load."""

    VOID = ("meta", "br", "link", "img")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.foreign += [f"{tag} {key}" for key, _ in attrs if key in ("src", "href", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@every_plan
def test_every_page_is_well_formed(name: str) -> None:
    page = PLANS[name].to_html()
    assert page.encode("utf-8")
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    assert not reader.foreign
    assert "url(" not in page
    assert "nan" not in "".join(re.findall(r'\sd="([^"]*)"', page))
    svgs = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(svgs) == 3
    for svg in svgs:
        ElementTree.fromstring(svg)
    assert len(page) < 2_000_000


def test_labels_are_escaped() -> None:
    page = PLANS["nasty"].to_html()
    assert "<b>" not in page
    assert "&lt;b&gt;&amp;" in page


def test_a_page_shows_what_the_plan_says() -> None:
    plan = PLANS["sliced"]
    page = plan.to_html()
    assert page.count("<tr data-step=") == len(plan.steps)
    assert page.count('<circle class="node') == len(plan.steps)
    for text in ("128.00 KiB", f"{plan.n_slices} of (", "prefers-color-scheme", "memory limit"):
        assert text in page
    deep = PLANS["a deep chain"].to_html()
    assert deep.count("<tr data-step=") == 1000
    assert "The costliest 1000 of 2999 steps." in deep


# Figures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["one tensor", "one scalar", "sizes 0", "a chain", "sliced", "a limit", "nasty", "one step of many",
     "beyond any float", "a deep chain"],
)  # fmt: skip
def test_figures_are_written(name: str, tmp_path: Any) -> None:
    pytest.importorskip("matplotlib")
    figure = PLANS[name].plot()
    figure.savefig(tmp_path / "plan.png", dpi=30)
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    labels = [text.get_text() for axes in figure.axes for text in axes.texts]
    if name == "a chain":
        assert {"0\n01", "1\n12"} <= set(labels)
    lines = [line.get_label() for axes in figure.axes for line in axes.lines]
    assert any("memory limit" in str(line) for line in lines) == (name in ("sliced", "a limit"))


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(Unsupported, match=r"einloom\[plot\]"):
        PLANS["a chain"].plot()


# Explained --------------------------------------------------------------------------------------


@every_plan
def test_every_plan_is_explained(name: str) -> None:
    plan = PLANS[name]
    text = plan.explain()
    assert text.encode()
    assert text.startswith("cost: ")
    assert "\nbytes: " in text
    assert "\nmemory: " in text
    assert ("neither is looked into" in text) == (len(plan.steps) > 1000)
    assert ("\none more slice: " in text) == (len(plan.steps) <= 1000)


def test_the_dominant_step_is_named() -> None:
    plan = einloom.plan("ij,jk,kl->il", (8, 8), (8, 100), (100, 8))
    lines = plan.explain().splitlines()
    assert lines[0] == "cost: 6912 multiplications; 1 of 2 steps makes 92.6%"
    assert lines[1].split()[:2] == ["step", "0:"]
    assert lines[1].endswith("92.6%")


@pytest.mark.parametrize("name", ["a larger lattice", "sliced", "hyperedges", "a limit"])
def test_instructions_are_those_of_the_expression(name: str) -> None:
    plan = PLANS[name]
    table = einloom.compile(plan).explain().splitlines()
    steps = [line for line in table if re.match(r" *\d+  ", line)]
    assert f" of {len(steps)} instruction" in line_of(plan, "time: ")


def line_of(plan: Plan, start: str) -> str:
    return next(line for line in plan.explain().splitlines() if line.startswith(start))


def test_one_more_slice_is_a_real_plan() -> None:
    plan = einloom.plan("ij,jk,kl->il", (8, 8), (8, 100), (100, 8))
    told = line_of(plan, "one more slice: ")
    label = told.removeprefix("one more slice: ")[0]
    sliced = replace(plan, sliced=(plan.network.labels.index(label),))
    assert sliced.peak_bytes < plan.peak_bytes
    assert f"{sliced.n_slices} slices, cost {sliced.cost}" in told
    assert told.endswith(f"peak {sliced.peak_bytes / 1024:.2f} KiB")
    assert "no label lowers" in line_of(PLANS["one scalar"], "one more slice")


def test_twice_the_memory_needs_fewer_slices() -> None:
    plan = PLANS["sliced"]
    told = line_of(plan, "twice the memory: 256.00 KiB")
    slices = int(re.findall(r"(\d+) slices?,", told)[0])
    assert slices < plan.n_slices
    assert "nothing to gain" in line_of(PLANS["a limit"], "twice the memory")
