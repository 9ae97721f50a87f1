"""How long planning takes, from 5 to 100,000 tensors, and what the plans cost.

Up to 10 tensors whole calls of `einloom.plan`, in a process that has planned before, without the plan cache;
beyond, one greedy run of each contender. A contender that would take longer than LIMIT for ten
times the tensors, if that were ten times the work, is asked for no larger network of the family.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import einloom
from einloom import Network
from einloom.contract.cost import total_cost
from einloom.contract.planners.core.run import Graph, core_of, load
from einloom.contract.planners.portfolio import steps_of
from einloom.contract.tree import ContractionTree

from .. import peers
from ..harness import OURS, CaseResult
from ..machine import version_of
from .plan import BEST_KNOWN, VERSIONS, hypergraph, lattice, networks, random_tree, regular, symbols

LIMIT = 5.0  # seconds
SMALL, LARGE = (5, 8, 10), (100, 1000, 10_000, 100_000)
DRAWN = 15  # small networks of each size
REPEATS = 3  # where a run takes less than a second
SWEEPS = 2000  # of annealing
DENSE = 1000  # tensors of random graphs and circuits: of more the results have thousands of labels

Run = Callable[[Network], Any]


def speed(quick: bool) -> Iterator[CaseResult]:
    """Seconds of planning, and log10 of the multiplications of what is found."""
    if not quick:
        load()  # kernels are compiled once for all
    for name, make in FAMILIES.items():
        slow: set[str] = set()
        for n in (5, 40) if quick else (*SMALL, *LARGE):
            if n > DENSE and name in ("random regular", "circuit", "hypergraph"):
                continue
            yield case(name, n, [make(n, seed) for seed in range(seeds_of(n))], slow)
    if not quick:
        yield annealing()


def annealing() -> CaseResult:
    """What a proposal of annealing costs, on an amplitude of Sycamore's 20 cycles."""
    network = next(one for name, one in networks(False) if name in BEST_KNOWN)
    core = core_of(Graph.of(network.carried, network.open, network.extents), compiled=True)
    terms, spent = core.terms((1.0, 0.0, 0.0)), []
    for seed in range(REPEATS):
        tree = core.tree(core.partition(seed=seed))
        start = time.perf_counter()
        tree.anneal(terms, 1.0, 0.05, SWEEPS, core.state(seed), lambda: False)
        spent.append(time.perf_counter() - start)
    seconds = statistics.median(spent)
    proposals = SWEEPS * (len(network.terms) - 1)
    return CaseResult(
        "annealing sycamore m=20",
        {OURS: seconds},
        facts={
            "proposals": proposals,
            "microseconds_per_proposal": round(1e6 * seconds / proposals, 4),
        },
    )


def seeds_of(n: int) -> int:
    return DRAWN if n <= max(SMALL) else 1


def case(name: str, n: int, networks: list[Network], slow: set[str]) -> CaseResult:
    result = CaseResult(f"{name} {n}")
    costs: dict[str, float] = {}
    for who, run in contenders(n).items():
        if who in slow:
            continue
        try:
            with einloom.options(plan_cache="off"):  # some of the small networks are the same
                seconds, costs[who] = measured(run, networks)
        except Exception as error:  # a peer that cannot plan a network loses it, no more
            if who == OURS:
                raise
            result.failed[who] = f"{type(error).__name__}: {error}"[:80]
            continue
        result.seconds[who] = seconds
        if 10 * seconds > LIMIT:
            slow.add(who)
    result.facts = {
        "tensors": [len(network.terms) for network in networks[:1]],
        "log10_cost": costs,
        "versions": {package: version_of(package) for package in VERSIONS},
    }
    return result


def measured(run: Run, networks: list[Network]) -> tuple[float, float]:
    """The median of seconds and the mean of log10 of costs; the least of a few calls for a single network."""
    spent, costs = [], []
    for network in networks:
        for _ in range(REPEATS if len(networks) == 1 else 1):
            start = time.perf_counter()
            tree = run(network)
            spent.append(time.perf_counter() - start)
            if spent[-1] > 1.0:
                break
        costs.append(math.log10(max(1, total_cost(network, tree).cost)))
    seconds = min(spent) if len(networks) == 1 else statistics.median(spent)
    return seconds, round(statistics.mean(costs), 4)


# ---- contenders -------------------------------------------------------------------------------


def contenders(n: int) -> dict[str, Run]:
    if n <= max(SMALL):
        return {
            OURS: lambda network: einloom.plan(network).tree,
            "opt_einsum auto": _opt_einsum("auto"),
        }
    found: dict[str, Run] = {OURS: _greedy, "opt_einsum greedy": _opt_einsum("greedy")}
    if peers.cotengrust() is not None:
        found["cotengrust greedy"] = _cotengrust
    return found


def _greedy(network: Network) -> ContractionTree:
    """Arrays of the graph and one run of the core, compiled unless `quick`."""
    core = core_of(Graph.of(network.carried, network.open, network.extents))
    return ContractionTree(len(network.terms), steps_of(core.greedy()))


def _opt_einsum(name: str) -> Run:
    def search(network: Network) -> ContractionTree:
        import opt_einsum

        inputs, output, sizes = symbols(network)
        path = getattr(opt_einsum.paths, name)(inputs, output, sizes)
        return ContractionTree.from_path(len(inputs), path)

    return search


def _cotengrust(network: Network) -> ContractionTree:
    letter = [chr(x + 192 if x < 0xD000 else x + 192 + 0x1000) for x in range(len(network.extents))]
    inputs = [[letter[x] for x in sorted(term)] for term in network.carried]
    sizes = dict(zip(letter, network.extents, strict=True))
    path = peers.cotengrust().optimize_greedy(
        inputs, [letter[x] for x in network.output_axes], sizes, use_ssa=True
    )
    return ContractionTree(len(inputs), tuple(map(tuple, path)))


# ---- networks ---------------------------------------------------------------------------------


def chain(n: int, seed: int) -> Network:
    """A product of matrices."""
    r = random.Random(seed)
    return Network(
        [(k, k + 1) for k in range(n)], (0, n), {k: r.randint(2, 100) for k in range(n + 1)}
    )


def ladder(n: int, seed: int) -> Network:
    """The inner product of two matrix product states."""
    sites = n // 2
    bonds = [(f"a{k}", f"b{k}") for k in range(sites - 1)]
    terms = [
        [
            x
            for pair in (bonds[k - 1 : k] if k else []) + bonds[k : k + 1]
            for x in pair[row : row + 1]
        ]
        + [f"p{k}"]
        for row in (0, 1)
        for k in range(sites)
    ]
    r = random.Random(seed)
    sizes = {x: r.choice((16, 32)) for pair in bonds for x in pair}
    return Network(terms, (), sizes | {f"p{k}": 2 for k in range(sites)})


def grid(n: int, seed: int) -> Network:
    """A lattice of two dimensions, of n tensors at most."""
    side = max(1, math.isqrt(n))
    side -= seed % max(1, side - 1)  # not a line
    return lattice(side, n // side)


def cube(n: int, seed: int) -> Network:
    """A lattice of three dimensions, of n tensors at most."""
    side = max(1, round(n ** (1 / 3)))
    return lattice(side, side, n // side**2)


def circuit(n: int, seed: int) -> Network:
    """An amplitude of a random circuit: gates between neighbours in layers, about n of them and of qubits."""
    r = random.Random(seed)
    qubits = max(2, math.isqrt(n))
    line = list(range(qubits))  # the label that each qubit ends in
    terms: list[list[int]] = [[k] for k in line]
    label = qubits
    while len(terms) + qubits < n:
        k = r.randrange(qubits - 1)
        terms.append([line[k], line[k + 1], label, label + 1])
        line[k], line[k + 1] = label, label + 1
        label += 2
    return Network(terms + [[k] for k in line], (), dict.fromkeys(range(label), 2))


FAMILIES: dict[str, Callable[[int, int], Network]] = {
    "chain": chain,
    "tree": lambda n, seed: random_tree(n, seed),
    "mps inner product": ladder,
    "lattice 2-D": grid,
    "lattice 3-D": cube,
    "random regular": lambda n, seed: regular(n + n % 2, 3, seed),
    "hypergraph": lambda n, seed: hypergraph(n, max(4, 3 * n // 4), seed),
    "circuit": circuit,
}
