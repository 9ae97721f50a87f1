"""A Network is the hypergraph its arguments say: frozen, comparable, hashable, picklable."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from tests.networks import FAMILIES

import einloom
from einloom import CallError, Network, ShapeError, SubscriptError
from einloom.contract.notation import parse, resolve

SIZES = {"a": 2, "b": 3, "c": 4}


def matmul() -> Network:
    return Network(["ab", "bc"], "ac", SIZES)


def network_of(text: str, *shapes: tuple[int, ...]) -> Network:
    """The network of an equation, axes of size 1 broadcast."""
    return Network.of(resolve(parse(text), [len(shape) for shape in shapes]), shapes, "plan")


# What it holds ----------------------------------------------------------------------------------


def test_fields() -> None:
    net = matmul()
    assert net.terms == ((0, 1), (1, 2))
    assert net.shapes == ((2, 3), (3, 4))
    assert net.output_axes == (0, 2)
    assert net.extents == (2, 3, 4)
    assert net.labels == ("a", "b", "c")
    assert net.inputs == (("a", "b"), ("b", "c"))
    assert net.output == ("a", "c")
    assert net.sizes == SIZES
    assert net.open == {0, 2}
    assert net.carried == ({0, 1}, {1, 2})
    assert repr(net) == "Network(2 tensors, 3 labels, output of 2 axes)"


@pytest.mark.parametrize(
    "inputs",
    [
        lambda: ["ab", "bc"],
        lambda: [("a", "b"), ["b", "c"]],
        lambda: (iter("ab"), iter("bc")),
        lambda: (term for term in ("ab", "bc")),
    ],
)
@pytest.mark.parametrize("sizes", [SIZES, MappingProxyType(SIZES), SIZES | {"unused": 9}])
def test_any_iterables(inputs: Any, sizes: Any) -> None:
    assert Network(inputs(), iter("ac"), sizes) == matmul()


def test_any_hashable_labels() -> None:
    labels = [0, "0", (0, 1), None, 1.5, b"b", frozenset({2}), Fraction(1, 3), int, 10**30]
    net = Network([labels], reversed(labels), {label: k + 1 for k, label in enumerate(labels)})
    assert net.output == tuple(reversed(labels))
    assert net.shapes == (tuple(range(1, 11)),)


def test_numpy_integers_are_sizes() -> None:
    net = Network(["ab"], "b", {"a": np.int8(2), "b": np.uint64(3)})
    assert net == Network(["ab"], "b", {"a": 2, "b": 3})
    assert all(type(n) is int for n in net.extents)


def test_scalars_and_diagonals() -> None:
    net = Network(["", "aab"], "", SIZES)
    assert net.terms == ((), (0, 0, 1))
    assert net.shapes == ((), (2, 2, 3))
    assert net.carried == (frozenset(), {0, 1})


def test_repeated_output_labels() -> None:
    net = Network(["ab"], "aba", SIZES, embed_diagonal=True)
    assert net.output_axes == (0, 1, 0)
    assert net.open == {0, 1}


@pytest.mark.parametrize(
    ("text", "shapes", "extents", "carried"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)], (2, 3, 4), ({0, 1}, {1, 2})),
        ("ij,jk->ik", [(2, 1), (3, 4)], (2, 3, 4), ({0}, {1, 2})),
        ("ij,jk->ik", [(2, 3), (1, 4)], (2, 3, 4), ({0, 1}, {2})),
        ("ij,jk->ik", [(2, 1), (1, 4)], (2, 1, 4), ({0, 1}, {1, 2})),
        ("i,i->i", [(1,), (0,)], (0,), (set(), {0})),
        ("ii,i->i", [(1, 1), (5,)], (5,), (set(), {0})),
        ("...i,...->...", [(2, 1, 3), (4,)], (2, 4, 3), ({0, 2}, {1})),
    ],
)
def test_a_broadcast_axis_carries_no_label(
    text: str, shapes: list[Any], extents: tuple[int, ...], carried: tuple[set[int], ...]
) -> None:
    net = network_of(text, *shapes)
    assert net.extents == extents
    assert net.carried == carried
    assert list(net.shapes) == shapes


def test_broadcasting_costs_what_is_multiplied() -> None:
    """An axis of size 1 adds nothing to the cost of a step that only its operand takes part in."""
    path = ((0, 1), (0, 1))
    plan = einloom.plan("ab,bc,cd->ad", (2, 1), (3, 4), (4, 5), planner=path)
    # "a,bc->abc" would be 2*3*4, but b is nobody else's: the sum over it costs 2*3*4, c*d the rest
    assert plan.cost == 2 * 3 * 4 + 2 * 4 * 5
    assert einloom.plan("i,i->i", (1,), (7,)).cost == 7


# Value ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_copies_are_equal(name: str) -> None:
    net = FAMILIES[name]
    again = Network(net.inputs, net.output, net.sizes)
    for other in (again, pickle.loads(pickle.dumps(net)), copy.copy(net), copy.deepcopy(net)):
        assert other == net
        assert hash(other) == hash(net)
        assert other.carried == net.carried
    assert {net, again} == {net}


def test_a_broadcasting_network_pickles() -> None:
    net = network_of("ij,jk->ik", (2, 1), (3, 4))
    assert pickle.loads(pickle.dumps(net)) == net
    assert pickle.loads(pickle.dumps(net)).carried == net.carried


@pytest.mark.parametrize(
    "other",
    [
        Network(["ab", "bc"], "ca", SIZES),
        Network(["ab", "bc"], "ac", SIZES | {"b": 1}),
        Network(["ab", "cb"], "ac", SIZES),
        Network(["ab", "bd"], "ad", {"a": 2, "b": 3, "d": 4}),
        Network(["bc", "ab"], "ac", SIZES),
        network_of("ab,bc->ac", (2, 1), (3, 4)),
        "ab,bc->ac",
    ],
)
def test_others_differ(other: Any) -> None:
    assert matmul() != other


@pytest.mark.parametrize("name", ["terms", "extents", "labels", "output", "carried", "new"])
def test_frozen(name: str) -> None:
    net = matmul()
    with pytest.raises(AttributeError):
        setattr(net, name, ())
    with pytest.raises(AttributeError):
        delattr(net, name)
    assert net == matmul()


def test_the_arguments_are_not_kept() -> None:
    inputs, output, sizes = [["a", "b"], ["b", "c"]], ["a", "c"], dict(SIZES)
    net = Network(inputs, output, sizes)
    inputs[0].append("c")
    output.clear()
    sizes["a"] = 9
    net.sizes["a"] = 10
    assert net == matmul()


# Errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (([], "", {}), SubscriptError, "at least one tensor"),
        ((["ab"], "c", SIZES), SubscriptError, "'c'"),
        ((["ab"], "aa", SIZES), SubscriptError, "embed_diagonal=True"),
        ((["ab"], "a", {"a": 2}), ShapeError, "'b' has no size"),
        ((["ab"], "a", {"a": 2, "b": -1}), ShapeError, "size -1"),
        ((["ab"], "a", {"a": 2, "b": 2.0}), ShapeError, "size 2.0"),
        ((["ab"], "a", {"a": 2, "b": True}), ShapeError, "size True"),
        ((["ab"], "a", {"a": 2, "b": None}), ShapeError, "size None"),
        ((["ab"], "a", {"a": 2, "b": "3"}), ShapeError, "size '3'"),
        ((["ab"], "a", None), CallError, "NoneType"),
        (([[0, 1]], [0], [2, 3]), CallError, "list"),
        ((None, "", {}), CallError, "hashable"),
        (([3], "", {}), CallError, "hashable"),
        (([[["a"]]], "", {}), CallError, "hashable"),
        ((["ab"], [["a"]], SIZES), CallError, "hashable"),
    ],
)
def test_errors(arguments: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=r"^Network: ") as caught:
        Network(*arguments)
    assert isinstance(caught.value, einloom.EinloomError)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ([(2, 3), (3, 5)], "tensor 1 has shape (3, 5), the network says (3, 4)"),
        ([(2, 3)], "2 tensors, got 1"),
        ([(2, 3), (1, 4)], "(1, 4)"),
        ([(2, 3), (3, 4), (4, 2)], "2 tensors, got 3"),
    ],
)
def test_shapes_that_are_not_the_networks(shapes: list[Any], says: str) -> None:
    with pytest.raises(ShapeError, match=r"^plan: ") as caught:
        einloom.plan(matmul(), *shapes)
    assert says in str(caught.value)


def test_a_network_runs() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(einloom.compile(matmul())(a, b), a @ b)
    ints = einloom.compile(matmul(), a.astype(int), b.astype("i4"))
    assert ints(a.astype(int), b.astype("i4")).dtype == int
    diagonal = Network(["a"], "aa", {"a": 3}, embed_diagonal=True)
    np.testing.assert_array_equal(einloom.compile(diagonal)(np.arange(3.0)), np.diag([0, 1, 2.0]))
