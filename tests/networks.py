"""Which networks the tests plan: families under names, random ones from a seed, random paths.

No axis broadcasts here, so that other libraries mean the same by the sizes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from einloom import Network

Path = tuple[tuple[int, ...], ...]


def ring(n: int, size: int = 2) -> Network:
    """A closed matrix product: a trace."""
    return Network([(k, (k + 1) % n) for k in range(n)], (), dict.fromkeys(range(n), size))


def chain(n: int, size: int = 2) -> Network:
    """An open matrix product."""
    return Network([(k, k + 1) for k in range(n)], (0, n), dict.fromkeys(range(n + 1), size))


def star(n: int, size: int = 2) -> Network:
    """One hyperedge on n tensors, each with a label of its own, of which the first stays open."""
    inputs = [("hub", k) for k in range(n)]
    return Network(inputs, (0,), {label: size for term in inputs for label in term})


def grid(rows: int, columns: int, size: int = 2) -> Network:
    """A square lattice with open boundaries."""
    inputs = [
        [
            *[(r, c, "right")] * (c + 1 < columns),
            *[(r, c, "down")] * (r + 1 < rows),
            *[(r, c - 1, "right")] * (c > 0),
            *[(r - 1, c, "down")] * (r > 0),
        ]
        for r in range(rows)
        for c in range(columns)
    ]
    return Network(inputs, (), {label: size for term in inputs for label in term})


def sized(labels: str, *sizes: int) -> dict[str, int]:
    return dict(zip(labels, sizes, strict=True))


FAMILIES: dict[str, Network] = {
    "one tensor": Network(["ab"], "b", {"a": 2, "b": 3}),
    "one tensor, a view": Network(["ab"], "ba", {"a": 2, "b": 3}),
    "one tensor, its trace": Network(["aab"], "b", {"a": 2, "b": 3}),
    "one scalar": Network([""], "", {}),
    "two scalars": Network(["", ""], "", {}),
    "five scalars": Network([""] * 5, "", {}),
    "a scalar among tensors": Network(["ab", "", "bc"], "ac", {"a": 2, "b": 3, "c": 2}),
    "two tensors": Network(["ab", "bc"], "ac", {"a": 2, "b": 3, "c": 4}),
    "an outer product": Network(["a", "b", "c"], "cab", {"a": 2, "b": 3, "c": 4}),
    "disconnected": Network(
        ["ab", "cd", "bc", "ef", "g", ""], "agd", sized("abcdefg", 2, 3, 2, 2, 3, 2, 2)
    ),
    "two rings": Network(["ab", "ba", "cd", "de", "ec"], "", dict.fromkeys("abcde", 3)),
    "sizes 0": Network(["ab", "bc", "cd"], "ad", {"a": 2, "b": 0, "c": 3, "d": 2}),
    "sizes 1": Network(["ab", "bc", "cd"], "ad", dict.fromkeys("abcd", 1)),
    "a chain": chain(5, 3),
    "a ring": ring(6),
    "a star": star(6),
    "a batch": Network(["xab", "xbc", "xcd"], "xad", {"x": 3, "a": 2, "b": 3, "c": 2, "d": 4}),
    "hyperedges": Network(
        ["abx", "bcx", "cdx", "dax", "xy"], "y", sized("abcdxy", 2, 3, 2, 3, 2, 2)
    ),
    "a complete graph": Network(["abc", "ade", "bdf", "cef"], "", dict.fromkeys("abcdef", 2)),
    "a lattice": grid(3, 3),
    "a larger lattice": grid(4, 5),
}


def random_network(
    r: random.Random, tensors: int | None = None, sizes: tuple[int, ...] = (1, 2, 3, 4)
) -> Network:
    """A few tensors with hyperedges, traces, scalars and disconnected parts."""
    count = tensors or r.randint(1, 8)
    labels = "abcdefghijklmnop"[: r.randint(1, 2 * count)]
    inputs = [
        "".join(r.choice(labels) for _ in range(r.choices([0, 1, 2, 3, 4], [1, 3, 6, 4, 2])[0]))
        for _ in range(count)
    ]
    used = sorted(set("".join(inputs)))
    output = r.sample(used, r.randint(0, min(4, len(used))))
    return Network(inputs, output, {label: r.choice(sizes) for label in used})


def random_networks(
    seed: int, n: int, tensors: int | None = None, sizes: tuple[int, ...] = (1, 2, 3, 4)
) -> Iterator[Network]:
    """n random networks, the same for the same seed."""
    r = random.Random(seed)
    for _ in range(n):
        yield random_network(r, tensors, sizes)


def regular(degree: int, n: int, seed: int, size: int = 2) -> Network:
    """A random graph whose tensors have `degree` labels each, loops and double edges among them."""
    ends = [tensor for tensor in range(n) for _ in range(degree)]
    random.Random(seed).shuffle(ends)
    return graph(n, list(zip(ends[::2], ends[1::2], strict=True)), size)


def graph(n: int, edges: Iterable[tuple[int, int]], size: int = 2) -> Network:
    """A tensor for each vertex and a label for each edge."""
    inputs: list[list[int]] = [[] for _ in range(n)]
    for label, ends in enumerate(edges):
        for vertex in ends:
            inputs[vertex].append(label)
    return Network(inputs, (), {label: size for term in inputs for label in term})


def relabelled(r: random.Random, network: Network) -> Network:
    """The same network, its tensors, axes and labels in another order and under other names."""
    terms = [r.sample(term, len(term)) for term in network.terms]
    r.shuffle(terms)
    names = r.sample(range(10 * len(network.extents)), len(network.extents))
    output = r.sample(network.output_axes, len(network.output_axes))
    return Network(
        [[names[label] for label in term] for term in terms],
        [names[label] for label in output],
        dict(zip(names, network.extents, strict=True)),
    )


def random_ssa_path(r: random.Random, n: int, arities: tuple[int, ...] = (2,)) -> Path:
    """A path over n tensors in SSA form, its steps of the given arities as far as they fit."""
    alive, steps = list(range(n)), []
    while not steps or len(alive) > 1:
        fitting = [k for k in arities if k <= len(alive)] or [len(alive)]
        step = tuple(r.sample(alive, r.choice(fitting)))
        alive = [tensor for tensor in alive if tensor not in step] + [n + len(steps)]
        steps.append(step)
    return tuple(steps)


def equation_of(network: Network) -> str:
    """The network as a string; its labels must be characters."""
    terms = ",".join("".join(map(str, term)) for term in network.inputs)
    return f"{terms}->{''.join(map(str, network.output))}"
