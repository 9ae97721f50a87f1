"""What plans cost that are found in the same time: einloom and its peers.

Networks: those that cotengra's benchmarks publish (benchmarks/networks), the einsum suite, and generated
families, of 30 tensors or more. Costs are recomputed from the paths: log10 of the multiplications.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import einloom
from einloom import Network
from einloom.contract.cost import total_cost
from einloom.contract.problem_file import read_problem
from einloom.contract.tree import ContractionTree

from .. import peers
from ..harness import OURS, CaseResult
from ..machine import version_of
from .einsum import INSTANCES

NETWORKS = Path(__file__).parents[1] / "networks"
BUDGETS = {0.1: 3, 1.0: 3, 10.0: 3}  # seconds: seeds
HQ = 100  # tensors up to which cotengra's auto-hq, which takes minutes for larger ones, is asked
LEAST = 30  # tensors
BEST_KNOWN = {  # log10 of multiplications, published: cotengra's ex_benchmarking notebook
    "sycamore_n53_m20_s0_e0_pABCDCDAB": 18.039,
}
# of all slices, with results of at most 2**30 elements: F. Pan, P. Zhang, arXiv:2103.03074
EASY = {  # where every contender finds the same, or of which there is a larger one
    "mps_mpo_L100_chi64_D5", "rtree_100_a", "str_mps_varying_inner_product_200", "lattice 10 x 10",
    "lm_batch_likelihood_sentence_3_12d", "lm_batch_likelihood_sentence_4_4d", "tree 200",
    "random regular 100", "tensornetwork_permutation_light_415",
}  # fmt: skip
SLICED = {"sycamore_n53_m20_s0_e0_pABCDCDAB": (30, 60.0, math.log10(4.51e18))}
VERSIONS = ("opt_einsum", "cotengra", "cotengrust", "kahypar")
Search = Callable[[Network, float, int], Any]


def plan(quick: bool) -> Iterator[CaseResult]:
    """The cost of plans found in 0.1, 1 and 10 seconds, two threads each, as log10 of multiplications."""
    for name, network in networks(quick):
        result = CaseResult(name)
        costs: dict[str, Any] = {}
        for budget, seeds in {0.1: 1}.items() if quick else BUDGETS.items():
            for who, search in contenders(quick).items():
                if budget > 1.0 and search is _opt_einsum:
                    continue  # it gains nothing by then
                if budget < 10.0 and search is _cotengra_annealing:
                    continue  # less is no annealing
                found = [measured(network, search, budget, seed) for seed in range(seeds)]
                costs[f"{who} {budget:g} s"] = outcome(found)
        for who, search in untimed(quick).items():
            if who == "cotengra auto-hq" and len(network.terms) > HQ:
                continue
            costs[who] = outcome([measured(network, search, 0.0, 0)])
        if name in BEST_KNOWN:
            costs["best known"] = BEST_KNOWN[name]
        if name in SLICED:
            costs["sliced"] = in_slices(network, *SLICED[name])
        result.facts = {
            "tensors": len(network.terms),
            "log10_cost": costs,
            "versions": {package: version_of(package) for package in VERSIONS},
        }
        yield result


def in_slices(network: Network, width: int, budget: float, published: float) -> dict[str, float]:
    """Of the search for trees and sliced labels together, for results of at most 2**width elements."""
    from einloom.contract.planners import Problem, sliced

    start = time.perf_counter()
    found = sliced(network, Problem("flops", 8 << width, 8, seconds=budget))
    cost = total_cost(network, found.tree, found.sliced)
    return {
        "cost": round(math.log10(cost.cost), 4),
        "log2_largest": round(math.log2(cost.largest_intermediate), 2),
        "labels": len(found.sliced),
        "seconds": round(time.perf_counter() - start, 1),
        "best published": round(published, 4),
    }


def outcome(found: list[Any]) -> Any:
    """Of the seeds the median cost, the least, the largest intermediate with it, and the median seconds."""
    reasons = [one for one in found if isinstance(one, str)]
    if reasons:
        return reasons[0]
    best = min(found)
    return {
        "median": round(statistics.median(cost for cost, _, _ in found), 4),
        "least": round(best[0], 4),
        "log2_largest": round(best[1], 2),
        "seconds": round(statistics.median(seconds for _, _, seconds in found), 3),
    }


def measured(network: Network, search: Search, budget: float, seed: int) -> Any:
    start = time.perf_counter()
    try:
        tree = search(network, budget, seed)
    except Exception as error:  # a peer that cannot plan a network loses it, no more
        if search is _ours:
            raise
        return f"{type(error).__name__}: {error}"[:80]
    seconds = time.perf_counter() - start
    cost = total_cost(network, tree)
    return math.log10(max(1, cost.cost)), math.log2(max(1, cost.largest_intermediate)), seconds


# ---- contenders -------------------------------------------------------------------------------


def contenders(quick: bool) -> dict[str, Search]:
    found: dict[str, Search] = {OURS: _ours, "opt_einsum random-greedy": _opt_einsum}
    if peers.cotengra() is not None and not quick:
        found["cotengra hyper"] = _cotengra
        found["cotengra annealing"] = _cotengra_annealing
    return found


def untimed(quick: bool) -> dict[str, Search]:
    """Those that take the time they want."""
    found: dict[str, Search] = {
        f"{OURS} default": _default,
        "opt_einsum auto": _named("opt_einsum"),
    }
    if peers.cotengra() is not None and not quick:
        found["cotengra auto"] = _named("auto")
        found["cotengra auto-hq"] = _named("auto-hq")
    return found


def _default(network: Network, budget: float, seed: int) -> ContractionTree:
    from einloom.contract.planners import PLANNERS, Problem

    return PLANNERS["auto"](network, Problem("flops", seed=seed)).tree


def _named(name: str) -> Search:
    def search(network: Network, budget: float, seed: int) -> ContractionTree:
        inputs, output, sizes = symbols(network)
        if name == "opt_einsum":
            import opt_einsum

            return ContractionTree.from_path(
                len(inputs), opt_einsum.paths.auto(inputs, output, sizes)
            )
        import cotengra

        optimizer = cotengra.AutoOptimizer() if name == "auto" else cotengra.AutoHQOptimizer()
        lists = [sorted(term) for term in inputs]
        return ContractionTree.from_path(len(inputs), optimizer(lists, sorted(output), sizes))

    return search


def _ours(network: Network, budget: float, seed: int) -> ContractionTree:
    from einloom.contract.planners import PLANNERS, Problem

    return PLANNERS["auto"](network, Problem("flops", seed=seed, seconds=budget)).tree


def _opt_einsum(network: Network, budget: float, seed: int) -> ContractionTree:
    import opt_einsum

    random.seed(seed)
    search = opt_einsum.RandomGreedy(max_repeats=10**6, max_time=budget)
    inputs, output, sizes = symbols(network)
    return ContractionTree.from_path(len(inputs), search(inputs, output, sizes))


def _cotengra(network: Network, budget: float, seed: int) -> ContractionTree:
    """Greedy search and KaHyPar, the subtrees of each tree solved exactly."""
    found = _hyper(network, budget, seed, reconf_opts={})
    return ContractionTree.from_path(len(network.terms), found.get_path())


def _cotengra_annealing(network: Network, budget: float, seed: int) -> ContractionTree:
    """The best of such trees found in a third of the time, annealed in the rest; then its subtrees.

    cotengra's annealing is Python, and the trials of a search with its defaults, 2500 sweeps each, take
    minutes for some of these networks: here it has as many sweeps as fit, by the time of the first.
    """
    end = time.perf_counter() + budget
    found = _hyper(network, budget / 3, seed)
    begin = time.perf_counter()
    found = found.simulated_anneal(tstart=0.05, tsteps=1, numiter=1, minimize="flops", seed=seed)
    now = time.perf_counter()
    sweeps = int((end - now) / (now - begin))
    if sweeps > 1:
        best = found.simulated_anneal(tsteps=sweeps, numiter=1, minimize="flops", seed=seed)
        found = min(found, best, key=lambda tree: tree.contraction_cost())
    found = found.subtree_reconfigure(minimize="flops", seed=seed)
    return ContractionTree.from_path(len(network.terms), found.get_path())


def _hyper(network: Network, budget: float, seed: int, **options: Any) -> Any:
    """A tree of cotengra's search."""
    import cotengra

    random.seed(seed)
    inputs, output, sizes = symbols(network)
    optimizer = cotengra.HyperOptimizer(
        methods=["greedy", "kahypar"],
        minimize="flops",
        max_time=budget,
        max_repeats=10**6,
        parallel=2,
        **options,
    )
    return optimizer.search([sorted(term) for term in inputs], sorted(output), sizes)


def symbols(network: Network) -> tuple[list[frozenset[str]], frozenset[str], dict[str, int]]:
    from opt_einsum import get_symbol

    inputs = [frozenset(map(get_symbol, term)) for term in network.carried]
    sizes = {get_symbol(label): n for label, n in enumerate(network.extents)}
    return inputs, frozenset(map(get_symbol, network.open)), sizes


# ---- networks ---------------------------------------------------------------------------------


def networks(quick: bool) -> Iterator[tuple[str, Network]]:
    if quick:
        yield "random regular 20", regular(20, 3)
        return
    yield from ((name, one) for name, one in _all() if name not in EASY)


def _all() -> Iterator[tuple[str, Network]]:
    for file in sorted(NETWORKS.glob("*.json")):
        document = json.loads(file.read_text(encoding="utf-8"))
        yield (
            file.stem,
            Network(document["inputs"], document["output"], document["size_dict"]),
        )
    for file in sorted(INSTANCES.glob("*.json")):
        if not file.stem.startswith("bin_"):
            problem = read_problem(file)
            network = einloom.plan(problem.equation, *problem.shapes, planner="greedy").network
            if len(network.terms) >= LEAST:
                yield file.stem, network
    yield "random regular 100", regular(100, 3)
    yield "random regular 500", regular(500, 3)
    yield "lattice 10 x 10", lattice(10, 10)
    yield "lattice 20 x 20", lattice(20, 20)
    yield "lattice 5 x 5 x 5", lattice(5, 5, 5)
    yield "random hypergraph 60", hypergraph(60, 45)
    yield "factor graph 200", hypergraph(200, 60)
    yield "chain 200", chain(200)
    yield "tree 200", random_tree(200)


def regular(n: int, degree: int, seed: int | None = None) -> Network:
    """A random regular graph, labels of size 2 (pairings until there is no loop)."""
    r = random.Random(n if seed is None else seed)
    while True:
        ends = [node for node in range(n) for _ in range(degree)]
        r.shuffle(ends)
        pairs = list(zip(ends[::2], ends[1::2], strict=True))
        if all(a != b for a, b in pairs):
            return _of_pairs(n, pairs, lambda k: 2)


def lattice(*lengths: int) -> Network:
    """A lattice of any dimension with open boundaries, labels of size 2."""
    strides = [math.prod(lengths[k + 1 :]) for k in range(len(lengths))]
    pairs = [
        (node, node + stride)
        for node in range(math.prod(lengths))
        for length, stride in zip(lengths, strides, strict=True)
        if node // stride % length + 1 < length
    ]
    return _of_pairs(math.prod(lengths), pairs, lambda k: 2)


def hypergraph(n: int, labels: int, seed: int | None = None) -> Network:
    """n tensors of two to four of `labels` labels of size 2 or 3."""
    r = random.Random(n if seed is None else seed)
    terms = [r.sample(range(labels), r.randint(2, 4)) for _ in range(n)]
    used = {label for term in terms for label in term}
    return Network(terms, [], {label: r.choice((2, 3)) for label in sorted(used)})


def chain(n: int) -> Network:
    r = random.Random(n)
    sizes = {k: r.randint(2, 100) for k in range(n + 1)}
    return Network([(k, k + 1) for k in range(n)], (0, n), sizes)


def random_tree(n: int, seed: int | None = None) -> Network:
    r = random.Random(n if seed is None else seed)
    return _of_pairs(
        n, [(r.randrange(node), node) for node in range(1, n)], lambda k: r.randint(2, 9)
    )


def _of_pairs(n: int, pairs: list[tuple[int, int]], size: Callable[[int], int]) -> Network:
    terms: list[list[int]] = [[] for _ in range(n)]
    for label, (a, b) in enumerate(pairs):
        terms[a].append(label)
        terms[b].append(label)
    return Network(terms, [], {label: size(label) for label in range(len(pairs))})
