"""Networks of a few tensors: the best of all trees, with nothing simplified or cut in parts before."""

from __future__ import annotations

import math

from ..network import Network
from ..tree import ContractionTree
from .core.run import LARGEST, exact_path
from .problem import Candidate, Problem

EXACT = 10  # tensors up to which the best of all trees is found
SQUARED = 8  # and where the largest result counts, of which sets are not told apart as soon


def few_of(problem: Problem) -> int:
    """Tensors up to which the best of all trees is found."""
    return SQUARED if problem.objective == "size" else EXACT


def best_of_few(network: Network, problem: Problem) -> Candidate | None:
    """The tree of least cost; None for many tensors, sizes beyond floats, and the objective "size"."""
    n, extents = len(network.terms), network.extents
    if n > EXACT or problem.objective == "size":
        return None
    if n == 1:
        return Candidate(ContractionTree(1, ((0,),)), "auto", "optimal")
    if n == 2:
        return Candidate(ContractionTree(2, ((0, 1),)), "optimal", "optimal")
    holders = [0] * len(extents)
    for tensor, carried in enumerate(network.carried):
        for label in carried:
            holders[label] |= 1 << tensor
    for label in network.output_axes:
        holders[label] |= 1 << n
    if min(extents, default=2) < 2:
        kept = [label for label, extent in enumerate(extents) if extent > 1]
        holders, extents = [holders[x] for x in kept], tuple([extents[x] for x in kept])
    if math.prod(extents) > LARGEST:
        return None
    multiplied, moved, written = problem.terms()
    flat = exact_path(n, holders, extents, multiplied, 2.0 * moved + written)
    return Candidate(
        ContractionTree(n, tuple(zip(flat[::2], flat[1::2], strict=True))), "optimal", "optimal"
    )
