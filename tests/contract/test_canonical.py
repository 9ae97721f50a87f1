"""Forms of networks: equal for isomorphic ones, different for all others, each a true relabelling."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from tests.networks import (
    FAMILIES,
    chain,
    graph,
    grid,
    random_network,
    regular,
    relabelled,
    ring,
    star,
)

from einloom import Network
from einloom.contract.canonical import Canonical, Form, canonical, in_order


def torus(n: int) -> Network:
    """A square lattice whose boundaries are joined."""
    cells = list(itertools.product(range(n), repeat=2))
    number = {cell: k for k, cell in enumerate(cells)}
    right = [(number[i, j], number[i, (j + 1) % n]) for i, j in cells]
    return graph(n * n, [*right, *((number[i, j], number[(i + 1) % n, j]) for i, j in cells)])


def cliques(rows: int) -> list[tuple[int, int]]:
    """The rook's graph: cells of a board that share a row or a column."""
    cells = list(itertools.product(range(rows), repeat=2))
    return [
        (a, b)
        for (a, x), (b, y) in itertools.combinations(enumerate(cells), 2)
        if x[0] == y[0] or x[1] == y[1]
    ]


def circulant(n: int, *steps: int) -> list[tuple[int, int]]:
    return sorted({tuple(sorted((k, (k + s) % n))) for k in range(n) for s in steps})  # type: ignore[misc]


def shrikhande() -> list[tuple[int, int]]:
    """As regular as the rook's graph of 16 cells, and another."""
    cells = list(itertools.product(range(4), repeat=2))
    near = {(0, 1), (0, 3), (1, 0), (3, 0), (1, 1), (3, 3)}
    return [
        (a, b)
        for (a, x), (b, y) in itertools.combinations(enumerate(cells), 2)
        if ((x[0] - y[0]) % 4, (x[1] - y[1]) % 4) in near
    ]


PETERSEN = [(k, (k + 1) % 5) for k in range(5)]
PETERSEN += [(k, k + 5) for k in range(5)] + [(k + 5, (k + 2) % 5 + 5) for k in range(5)]

ALIKE: dict[str, tuple[Network, Network]] = {  # what counting neighbours does not tell apart
    "two triangles, a hexagon": (
        graph(6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]),
        ring(6),
    ),
    "two squares, an octagon": (
        graph(8, [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4)]),
        ring(8),
    ),
    "a prism, three houses and wells": (
        graph(6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3), (1, 4), (2, 5)]),
        graph(6, [(a, b) for a in range(3) for b in range(3, 6)]),
    ),
    "two circulants": (graph(10, circulant(10, 1, 2)), graph(10, circulant(10, 1, 3))),
    "strongly regular graphs": (graph(16, cliques(4)), graph(16, shrikhande())),
    "two pentagons, a decagon": (graph(10, circulant(10, 2)), ring(10)),
}

SYMMETRIC: dict[str, Network] = {
    "Petersen": graph(10, PETERSEN),
    "rook": graph(16, cliques(4)),
    "Shrikhande": graph(16, shrikhande()),
    "ring": ring(40),
    "torus": torus(4),
    "complete": graph(7, list(itertools.combinations(range(7), 2))),
    "lattice": grid(7, 7),
    "star": star(50),
    "scalars": Network([""] * 50, "", {}),
    "three rings": graph(9, [(3 * k + a, 3 * k + (a + 1) % 3) for k in range(3) for a in range(3)]),
}


def is_relabelling(numbered: Canonical) -> bool:
    """Whether form, tensors and labels say of the network what it says itself."""
    network, form = numbered.network, numbered.form
    held: list[set[int]] = [set() for _ in range(form.tensors)]
    for number, label in zip(numbered.labels, form.labels, strict=True):
        for position in label.holders:
            held[position].add(number)
        if label.size != network.extents[number] or label.open != (number in network.open):
            return False
    seen = {label for labels in network.carried for label in labels} | network.open
    return (
        sorted(numbered.tensors) == list(range(len(network.terms)))
        and sorted(numbered.labels) == sorted(seen)
        and [set(network.carried[tensor]) for tensor in numbered.tensors] == held
        and list(form.labels) == sorted(form.labels)
    )


def is_isomorphic(one: Network, other: Network) -> bool:
    """By all orders of the tensors: under one of them, both have the same labels."""

    def kinds(network: Network, order: tuple[int, ...]) -> Counter[object]:
        places = {tensor: place for place, tensor in enumerate(order)}
        return Counter(
            (
                frozenset(places[t] for t, held in enumerate(network.carried) if label in held),
                size,
                label in network.open,
            )
            for label, size in enumerate(network.extents)
        )

    n = len(one.terms)
    if n != len(other.terms):
        return False
    fixed = kinds(one, tuple(range(n)))
    return any(kinds(other, order) == fixed for order in itertools.permutations(range(n)))


@pytest.mark.parametrize("name", [*FAMILIES, *SYMMETRIC])
def test_every_order_has_one_form(name: str) -> None:
    network = {**FAMILIES, **SYMMETRIC}[name]
    r = random.Random(name)
    first = canonical(network)
    assert first.exact
    assert is_relabelling(first)
    for _ in range(5):
        other = canonical(relabelled(r, network))
        assert is_relabelling(other)
        assert other.form == first.form
        assert hash(other.form) == hash(first.form)


@pytest.mark.parametrize("name", ALIKE)
def test_what_only_looks_alike(name: str) -> None:
    one, other = ALIKE[name]
    r = random.Random(name)
    assert canonical(one).form == canonical(relabelled(r, one)).form
    assert canonical(other).form == canonical(relabelled(r, other)).form
    assert canonical(one).form != canonical(other).form


def test_thousands_of_random_networks() -> None:
    """Under other names and in another order: one form, which says the network exactly."""
    r = random.Random(41)
    for _ in range(2000):
        network = random_network(r, r.randint(1, 14), sizes=(0, 1, 2, 3))
        one, other = canonical(network), canonical(relabelled(r, network))
        assert one.exact
        assert one.form == other.form
        assert is_relabelling(one)
        assert is_relabelling(other)


def changed(r: random.Random, network: Network) -> Network:
    """One size, one axis, one open label or one tensor is another."""
    inputs, output = [list(term) for term in network.terms], list(network.output_axes)
    sizes = list(network.extents)
    kind = r.randrange(4)
    if kind == 0 and sizes:
        label = r.randrange(len(sizes))
        sizes[label] = r.choice([1, 2, 3])
    elif kind == 1 and sizes:
        label = r.randrange(len(sizes))
        output.remove(label) if label in output else output.append(label)
    elif kind == 2 and any(inputs):
        term = r.choice([term for term in inputs if term])
        term[r.randrange(len(term))] = r.randrange(len(sizes))
    else:
        inputs.append(r.sample(range(len(sizes)), min(len(sizes), 1)))
    used = {label for term in inputs for label in term}
    return Network(inputs, [x for x in output if x in used], dict(enumerate(sizes)))


def test_thousands_of_slightly_changed_networks() -> None:
    """Forms agree where an isomorphism exists, and nowhere else; all orders are tried."""
    r = random.Random(43)
    same = 0
    for _ in range(2000):
        network = random_network(r, r.randint(1, 5), sizes=(2, 2, 3))
        other = relabelled(r, changed(r, network))
        expected = is_isomorphic(network, other)
        same += expected
        assert (canonical(network).form == canonical(other).form) == expected
    assert 50 < same < 1950


def test_random_regular_graphs() -> None:
    """No number of neighbours tells their tensors apart; changed by one exchange of ends they differ."""
    r = random.Random(47)
    forms = set()
    for n in (8, 12, 16, 24, 40):
        for seed in range(10):
            network = regular(3, n, seed)
            one, other = canonical(network), canonical(relabelled(r, network))
            assert is_relabelling(one)
            assert one.form == other.form
            forms.add(one.form)
    assert len(forms) >= 45


# What a form is of --------------------------------------------------------------------------------


def form_of(*arguments: object) -> Form:
    return canonical(Network(*arguments)).form  # type: ignore[arg-type]


def test_axes_and_diagonals_do_not_matter_sizes_and_open_labels_do() -> None:
    sizes = {"a": 2, "b": 3, "c": 4}
    form = form_of(["ab", "bc"], "ac", sizes)
    assert form == form_of(["ba", "bc"], "ca", sizes)
    assert form == form_of(["aab", "bcb"], "ac", sizes)
    assert form != form_of(["ab", "bc"], "abc", sizes)
    assert form != form_of(["ab", "bc"], "a", sizes)
    assert form != form_of(["ab", "bc"], "ac", {"a": 2, "b": 3, "c": 5})
    assert form != form_of(["ab", "bc", ""], "ac", sizes)


def test_an_axis_that_broadcasts_carries_nothing() -> None:
    from einloom.contract.notation import parse, resolve

    equation = resolve(parse("ij,jk->ik", "test"), [2, 2], "test")
    broad = Network.of(equation, [(2, 1), (3, 4)], "test")
    assert canonical(broad).form == form_of(["i", "jk"], "ik", {"i": 2, "j": 3, "k": 4})
    assert is_relabelling(canonical(broad))


def test_sizes_are_exact_integers() -> None:
    one, other = (form_of(["ab", "b"], "a", {"a": 10**30 + k, "b": 2}) for k in (0, 1))
    assert one != other


def test_the_network_of_a_form() -> None:
    for network in FAMILIES.values():
        form = canonical(network).form
        again = form.network()
        assert in_order(again).form == form
        assert canonical(again).form == form
        assert again.labels == tuple(range(len(form.labels)))


# Bounds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("work", [0, 100, 1000])
@pytest.mark.parametrize("name", SYMMETRIC)
def test_beyond_the_bound_a_form_is_still_a_relabelling(name: str, work: int) -> None:
    numbered = canonical(relabelled(random.Random(name), SYMMETRIC[name]), work)
    assert is_relabelling(numbered)
    if numbered.exact:
        assert numbered.form == canonical(SYMMETRIC[name]).form


def test_ties_beyond_the_bound_are_said() -> None:
    assert not canonical(torus(6), work=0).exact
    assert canonical(star(1000), work=0).exact, "tensors with equal labels are no ties"
    assert canonical(Network([""] * 9, "", {}), work=0).exact


def test_large_networks() -> None:
    """No step of them is quadratic: that would not end."""
    r = random.Random(53)
    for network in (chain(10_000), star(10_000), regular(3, 4000, 1)):
        one, other = canonical(network), canonical(relabelled(r, network))
        assert one.form == other.form
        assert is_relabelling(one)
