"""Sets within a memory limit: groups one after another, slices where one equation alone is too large."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest

import einloom
from einloom import PlanSet

# the products share A B
SHARED = {
    "one": ("ij,jk,kl->il", "A", "B", "C"),
    "two": ("ij,jk,kl->il", "A", "B", "D"),
    "three": ("ij,ij->", "A", "A"),
}
SHAPES = {"A": (90, 500), "B": (500, 100), "C": (100, 200), "D": (100, 300)}
# an intermediate of 40 * 40 * 300 elements, unless x is sliced
WIDE = {
    "small": ("ax,bx->ab", "P", "Q"),
    "wide": ("ax,bx,cx,abc->x", "P", "Q", "R", "T"),
}
WIDE_SHAPES = {"P": (40, 300), "Q": (40, 300), "R": (40, 300), "T": (40, 40, 40)}


def operands_of(shapes: dict[str, Any]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


def results_bytes(plan: PlanSet) -> int:
    return sum(one.assembly.spec.nbytes for one in plan.plans)


def check(equations: dict[str, Any], arrays: dict[str, Any], plan: PlanSet, limit: int) -> None:
    assert plan.peak_bytes <= limit
    for again in (plan, PlanSet.from_json(plan.to_json()), pickle.loads(pickle.dumps(plan))):
        assert again == plan
        assert again.peak_bytes == plan.peak_bytes
        expression = einloom.compile_set(again)
        assert expression.peak_bytes == plan.peak_bytes
        for _ in range(2):
            found = expression(arrays)
            assert list(found) == list(equations)
            for key, (text, *names) in equations.items():
                want = np.einsum(text, *(arrays[name] for name in names), optimize=True)
                np.testing.assert_allclose(found[key], want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("equations", "shapes"), [(SHARED, SHAPES), (WIDE, WIDE_SHAPES)])
def test_every_limit_holds_or_is_refused(equations: Any, shapes: Any) -> None:
    free = einloom.plan_set(equations, shapes, objective="flops")
    arrays, met, in_groups = operands_of(shapes), 0, 0
    fixed = sum(x.nbytes for x in arrays.values()) + results_bytes(free)
    for part in (1.0, 0.7, 0.3, 0.05):
        limit = fixed + int(part * (free.peak_bytes - fixed))
        try:
            plan = einloom.plan_set(equations, shapes, objective="flops", memory_limit=limit)
        except einloom.MemoryLimitError:
            continue
        check(equations, arrays, plan, limit)
        met += 1
        in_groups += bool(plan.groups)
    assert met > 1
    assert in_groups > 0


def test_where_sharing_fits_nothing_changes() -> None:
    free = einloom.plan_set(SHARED, SHAPES)
    same = einloom.plan_set(SHARED, SHAPES, memory_limit=free.peak_bytes)
    assert same == free
    assert (same.groups, same.parts) == ((), ((0, 1, 2),))
    assert same.n_shared == free.n_shared > 0


def test_the_option_is_the_default_of_the_argument() -> None:
    limit = einloom.plan_set(WIDE, WIDE_SHAPES).peak_bytes // 2
    with einloom.options(memory_limit=limit):
        by_option = einloom.plan_set(WIDE, WIDE_SHAPES)
    assert by_option == einloom.plan_set(WIDE, WIDE_SHAPES, memory_limit=limit)
    assert any(plan.sliced for plan in by_option.plans)


def test_what_is_sliced_is_a_group_of_its_own() -> None:
    free = einloom.plan_set(WIDE, WIDE_SHAPES, objective="flops")
    plan = einloom.plan_set(WIDE, WIDE_SHAPES, objective="flops", memory_limit=free.peak_bytes // 2)
    assert plan.groups == ((0,), (1,))
    assert "in 2 groups, 1 of them in slices" in str(plan)
    assert len(plan.programs) == 2
    with pytest.raises(einloom.CallError, match="`programs`"):
        _ = plan.program
    assert plan.cost == sum(one.cost for one in plan.plans)
    assert "def " in einloom.compile_set(plan).source


def test_the_measured_peak_stays_below() -> None:
    free = einloom.plan_set(WIDE, WIDE_SHAPES)
    limit = free.peak_bytes // 2
    expression = einloom.compile_set(WIDE, WIDE_SHAPES, memory_limit=limit)
    arrays = operands_of(WIDE_SHAPES)
    expression(arrays)
    einloom.clear_caches()
    tracemalloc.start()
    try:
        expression(arrays)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak + sum(x.nbytes for x in arrays.values()) <= limit + (1 << 20)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(einloom.MemoryLimitError, match="before equation 1 take"):
        einloom.plan_set(
            {"copy": ("ij->ji", "A"), "more": ("ij->ij", "B")},
            {"A": (100, 100), "B": (100, 100)},
            memory_limit="300kB",
        )
    with pytest.raises(einloom.OptionError, match="memory_limit"):
        einloom.plan_set(WIDE, WIDE_SHAPES, memory_limit=-1)


def test_documents_that_say_otherwise_are_refused() -> None:
    limit = einloom.plan_set(WIDE, WIDE_SHAPES).peak_bytes // 2
    document = json.loads(einloom.plan_set(WIDE, WIDE_SHAPES, memory_limit=limit).to_json())
    for field, value in (
        ("groups", [[0, 1]]),
        ("groups", [[1], [0]]),
        ("groups", [[0]]),
        ("groups", [[0], [], [1]]),
        ("groups", []),
        ("memory_limit", -1),
        ("memory_limit", "1GiB"),
    ):
        with pytest.raises(einloom.FileFormatError):
            PlanSet.from_json(json.dumps({**document, field: value}))


@pytest.mark.parametrize("limit", [1, 1000, 32768])
def test_nothing_is_left_for_the_first(limit: int) -> None:
    """Previously failed: an option of 0 bytes, which nobody gave, was refused."""
    a = np.ones((64, 64))
    equations = [("ab,bc->ac", "A", "A"), ("ab,bc->ac", "B", "B"), ("ab->ba", "A")]
    with pytest.raises(einloom.MemoryLimitError, match="nothing is left"):
        einloom.plan_set(equations, {"A": a, "B": a}, memory_limit=limit)
