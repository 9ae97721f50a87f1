"""Networks of many small steps in line: the same numbers as by a program, and the same bits in every call."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import pytest
from tests.networks import chain, graph, grid, random_networks, ring, star

import einloom
from einloom import Network, options
from einloom.contract import in_line as module
from einloom.contract.in_line import FROM, InLine, in_line
from einloom.contract.in_line_steps import product, towards

pytestmark = pytest.mark.usefixtures("usual_options")
einsum = einloom.einsum
FRONT = sys.modules["einloom.contract.einsum"]


def draw(rng: np.random.Generator, shapes: Any, dtype: str) -> list[Any]:
    made = []
    for shape in shapes:
        x = rng.standard_normal(shape) / max(1, np.prod(shape)) ** 0.25
        if np.dtype(dtype).kind == "c":
            x = x + 1j * rng.standard_normal(shape) / max(1, np.prod(shape)) ** 0.25
        made.append(x.astype(dtype))
    return made


def interleaved(network: Network, arrays: list[Any]) -> list[Any]:
    pairs = [x for pair in zip(arrays, network.inputs, strict=True) for x in pair]
    return [*pairs, network.output]


def check(network: Network, dtype: str, rng: np.random.Generator) -> InLine | None:
    """What runs it, whose results are those of an expression, and do not change."""
    arrays = draw(rng, network.shapes, dtype)
    call = interleaved(network, arrays)
    runs = in_line(einloom.plan(*call))
    results = [einsum(*call) for _ in range(3)]
    expected = einloom.compile(*call)(*arrays)
    digits = 1e-3 if np.dtype(dtype).char in "fF" else 1e-9
    largest = max(1e-30, float(np.abs(expected).max()))
    np.testing.assert_allclose(results[0], expected, rtol=digits, atol=digits * largest)
    assert (results[0].dtype, results[0].shape) == (expected.dtype, expected.shape)
    assert type(results[0]) is type(expected)
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
    assert results[0].strides == results[1].strides == results[2].strides
    return runs


NETWORKS = {
    "chain": chain(12, 5),
    "chain of 60": chain(60, 3),
    "ring": ring(12),
    "star": star(10),
    "grid": grid(3, 4, 3),
    **{f"random {k}": net for k, net in enumerate(random_networks(9, 12, tensors=11))},
}


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8"])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, dtype: str, rng: np.random.Generator) -> None:
    check(NETWORKS[name], dtype, rng)


def mps(n: int, bond: int, rng: np.random.Generator, open_ends: bool = True) -> Network:
    """<a|b> of two matrix product states."""
    inputs: list[tuple[str, ...]] = []
    sizes: dict[str, int] = {}
    for side in "ab":
        for k in range(n):
            inputs.append((f"s{k}", f"{side}{k}", f"{side}{k + 1}"))
            sizes |= {f"s{k}": int(rng.integers(2, 30)), f"{side}{k}": bond, f"{side}{k + 1}": bond}
        sizes |= {f"{side}0": 1, f"{side}{n}": 1} if not open_ends else {}
    output = ("a0", "b0", f"a{n}", f"b{n}") if open_ends else ()
    return Network(inputs, output, sizes)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("open_ends", [False, True])
@pytest.mark.parametrize(("n", "bond"), [(6, 4), (20, 7), (30, 9)])
def test_matrix_product_states(
    n: int, bond: int, open_ends: bool, dtype: str, rng: np.random.Generator
) -> None:
    """With bonds of size 1 at the ends, or open ones; and little is copied."""
    runs = check(mps(n, bond, rng, open_ends), dtype, rng)
    assert runs is not None
    copies = sum(bool(one.copied) for step in runs.steps for one in (step.lhs, step.rhs))
    assert copies <= len(runs.steps)


@pytest.mark.parametrize("seed", range(80))
def test_random_networks(seed: int, rng: np.random.Generator) -> None:
    """Labels of any number of tensors, sizes of 1 among them, axes that broadcast, outputs of any order."""
    r = random.Random(seed)
    n = r.randint(FROM, 16)
    labels = [f"l{k}" for k in range(r.randint(n // 2, 2 * n))]
    sizes = {x: r.choice([1, 2, 2, 3, 4]) for x in labels}
    inputs = [tuple(r.sample(labels, r.randint(0, min(4, len(labels))))) for _ in range(n)]
    used = sorted({x for term in inputs for x in term})
    output = tuple(r.sample(used, min(len(used), r.randint(0, 3))))
    arrays = draw(
        rng, [tuple(sizes[x] if r.random() < 0.9 else 1 for x in t) for t in inputs], "f8"
    )
    call = [x for pair in zip(arrays, inputs, strict=True) for x in pair]
    results = [einsum(*call, output) for _ in range(2)]
    expected = einloom.compile(*call, output)(*arrays)
    np.testing.assert_allclose(results[0], expected, rtol=1e-9, atol=1e-12)
    assert results[0].shape == expected.shape
    assert results[0].tobytes() == results[1].tobytes()


def test_most_networks_of_products_run_in_line(rng: np.random.Generator) -> None:
    found = [
        in_line(einloom.plan(*interleaved(net, draw(rng, net.shapes, "f8"))))
        for net in NETWORKS.values()
    ]
    assert sum(x is not None for x in found) > 5  # others sum labels of one tensor


def test_operands_of_any_order_in_memory(rng: np.random.Generator) -> None:
    network = mps(8, 5, rng)
    arrays = draw(rng, network.shapes, "f8")
    expected = einsum(*interleaved(network, arrays))
    for change in (
        np.asfortranarray,
        lambda x: np.repeat(x, 2, -1)[..., ::2],
        lambda x: x[::-1][::-1],
    ):
        found = einsum(*interleaved(network, [change(x) for x in arrays]))
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_out_alpha_beta_and_order(rng: np.random.Generator) -> None:
    network = mps(8, 5, rng)
    call = interleaved(network, draw(rng, network.shapes, "f8"))
    expected = einsum(*call)
    out = np.ones(expected.shape)
    assert einsum(*call, out=out) is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_allclose(einsum(*call, alpha=2), 2 * expected)
    np.testing.assert_allclose(einsum(*call, out=out, alpha=2, beta=3), 5 * expected)
    for order in "CF":
        found = einsum(*call, order=order)
        np.testing.assert_array_equal(found, expected)
        assert found.flags[f"{order}_CONTIGUOUS"]
    whole = np.zeros(2 * expected.size)
    einsum(*call, out=whole[::2].reshape(expected.shape))
    np.testing.assert_array_equal(whole[::2].reshape(expected.shape), expected)


def test_infinities_are_silent() -> None:
    network = chain(12, 5)
    arrays = [np.full(shape, 1e200) for shape in network.shapes]
    with np.errstate(all="raise"):
        assert np.isinf(einsum(*interleaved(network, arrays))).all()


def test_several_threads_and_results_of_their_own(rng: np.random.Generator) -> None:
    from concurrent.futures import ThreadPoolExecutor

    network = mps(10, 6, rng)
    call = interleaved(network, draw(rng, network.shapes, "f8"))
    expected = einsum(*call)
    with ThreadPoolExecutor(8) as pool:
        results = [x.result() for x in [pool.submit(einsum, *call) for _ in range(40)]]
    assert all(x.tobytes() == expected.tobytes() for x in results)
    assert not any(np.may_share_memory(expected, x) for x in results)


def plan_of(network: Network, **keywords: Any) -> einloom.Plan:
    call = [x for pair in zip(network.shapes, network.inputs, strict=True) for x in pair]
    return einloom.plan(*call, network.output, **keywords)


def test_what_is_not_for_it() -> None:
    network = chain(FROM, 5)
    assert in_line(plan_of(network)) is not None
    assert in_line(plan_of(chain(FROM - 1, 5))) is None
    for keywords in (
        {"dtype": "i8"}, {"dtype": "f2"}, {"constants": [0, 1]}, {"strip_exponent": True},
        {"memory_limit": "1GiB"}, {"planner": [tuple(range(FROM))]},
    ):  # fmt: skip
        assert in_line(plan_of(network, **keywords)) is None, keywords
    for settings in ({"provider": "plain"}, {"engine": "loops"}, {"small": 0}, {"patience": 0}):
        with options(**settings):  # type: ignore[arg-type]
            assert in_line(plan_of(network)) is None, settings
    assert in_line(plan_of(chain(FROM, 1500))) is None  # takes long
    loops = Network([("b", f"x{k}", f"x{k + 1}") for k in range(10)], ("b",), {
        "b": 5000, **{f"x{k}": 3 for k in range(11)},
    })  # fmt: skip
    assert in_line(plan_of(loops)) is None  # kernels across the batch take a tenth of the time


def test_memory_comes_back() -> None:
    room = module._Room(np.dtype("f8"))
    x = room.lent((30, 40))
    room.give_back(x.reshape(40, 30).T)
    y = room.lent((1000,))
    assert np.may_share_memory(x, y)
    assert not np.may_share_memory(y, room.lent((1000,)))
    room.give_back(y)
    assert not np.may_share_memory(y, room.lent((10,)))  # which would hold too much


def test_a_product_for_each_place_before_the_sums() -> None:
    """Sums in the middle of an operand are no reason to copy it, if there is enough to multiply."""
    kept = frozenset((0, 2, 3))
    for pair in (((0, 1, 2), (1, 3)), ((3, 1), (0, 1, 2))):
        for wanted in ((0, 3, 2), (0, 2, 3)):
            step, made = product((0, 1), *pair, kept, (50, 20, 20, 20), None, wanted)
            assert step.lhs.copied == step.rhs.copied == 0
            assert step.amounts == (50, 20, 20, 20)
            assert made == wanted
    step, _ = product((0, 1), (0, 1, 2), (1, 3), kept, (50, 3, 3, 3), None, ())
    assert step.lhs.copied + step.rhs.copied == 450


def labels_of_steps(path: Any, terms: Any) -> list[frozenset[int]]:
    """All labels of each step, where every label is of two tensors."""
    sets = [*map(frozenset, terms)]
    steps = []
    for i, j in path:
        steps.append(sets[i] | sets[j])
        sets.append(sets[i] ^ sets[j])
    assert not sets[-1]
    return steps


def test_the_other_direction_has_the_same_products() -> None:
    """Every step joins the labels of three edges of the tree, and but for the last these are the same."""
    turned = 0
    for seed in range(60):
        r = random.Random(seed)
        n = r.randint(9, 30)
        edges = [(r.randint(max(0, k - 3), k - 1), k) for k in range(1, n)]
        pairs = [r.sample(range(n), 2) for _ in range(r.randint(1, n))]
        network = graph(n, [*edges, *((a, b) for a, b in pairs)])
        held = [tuple(r.sample(term, len(term))) for term in network.terms]
        # a row of steps, each of which takes one more tensor
        a, *others = r.sample(range(n), n)
        path = [(a, others[0]), *((n + k, x) for k, x in enumerate(others[1:]))]
        sets = [*map(frozenset, held)]
        for i, j in path:
            sets.append(sets[i] ^ sets[j])
        other = towards(path, held, sets[n:], network.extents)
        if other is None:
            continue
        turned += 1
        assert sorted(x for pair in other for x in pair) == [*range(2 * n - 2)]
        one, two = [sorted(map(sorted, labels_of_steps(p, held)[:-1])) for p in (path, other)]
        assert one == two
    assert turned > 30


def test_states_are_contracted_in_the_direction_that_copies_nothing(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = mps(40, 16, rng, open_ends=False)
    runs = check(network, "f8", rng)
    assert runs is not None
    assert sum(bool(step.lhs.copied or step.rhs.copied) for step in runs.steps) <= 4
    path = einloom.plan(network).path
    call = interleaved(network, draw(rng, network.shapes, "f8"))
    given = in_line(plan_of(network, planner=path), is_free=False)
    assert given is not None
    pairs = [{*step.operands} for step in given.steps]
    assert pairs == [{*pair} for pair in given.plan.ssa_path]  # the order is the caller's
    asked: list[bool] = []
    monkeypatch.setattr(
        FRONT, "in_line", lambda plan, is_free: (asked.append(is_free), in_line(plan, is_free))[1]
    )
    einloom.clear_caches()
    expected = einsum(*call)
    for choice in (path, lambda *_: path, ("greedy", 10**9), "greedy", True):
        np.testing.assert_allclose(einsum(*call, optimize=choice), expected, rtol=1e-9)
    assert asked == [True, False, False, False, True, True]
