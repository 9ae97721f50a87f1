"""Planners of opt_einsum, cotengra and NumPy, and explicit paths, behind our signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..._base.errors import PathError
from ..network import Network
from ..tree import ContractionTree
from .problem import Candidate, Planner, Problem


def from_path(path: Iterable[Sequence[int]]) -> Planner:
    """The planner that answers one given path (opt_einsum's and NumPy's linear form)."""
    steps = list(path)

    def given(network: Network, problem: Problem) -> Candidate:
        return Candidate(ContractionTree.from_path(len(network.terms), steps), "path given")

    return given


def one_step(network: Network, problem: Problem) -> Candidate:
    """All tensors in one step, without intermediates."""
    n = len(network.terms)
    return Candidate(ContractionTree(n, (tuple(range(n)),)), "one step")


def from_optimizer(optimizer: Callable[..., Any], element_limit: int | None = None) -> Planner:
    """A path optimizer of opt_einsum's protocol: f(inputs, output, size_dict, memory_limit) -> path.

    element_limit is opt_einsum's and NumPy's memory limit: elements of the largest intermediate.
    """
    name = getattr(optimizer, "__name__", type(optimizer).__name__)

    def planner(network: Network, problem: Problem) -> Candidate:
        inputs = [frozenset(map(_symbol, labels)) for labels in network.carried]
        output = frozenset(map(_symbol, network.open))
        sizes = {_symbol(label): n for label, n in enumerate(network.extents)}
        if len(inputs) == 1:
            return Candidate(ContractionTree(1, ((0,),)), name)  # nothing to choose; many refuse it
        path = optimizer(*_arguments(optimizer, inputs, output, sizes, element_limit))
        if not isinstance(path, (list, tuple)):
            raise PathError(
                f"the optimizer {name} returned {path!r:.60}, expected a list of tuples"
            )
        return Candidate(ContractionTree.from_path(len(network.terms), path), name)

    return planner


def _arguments(optimizer: Callable[..., Any], *four: Any) -> tuple[Any, ...]:
    """opt_einsum passes a memory limit as fourth argument; some optimizers of cotengra take three."""
    try:
        signature = inspect.signature(optimizer)
    except (TypeError, ValueError):
        return four
    try:
        signature.bind(*four)
    except TypeError:
        return four[:3]
    return four


def opt_einsum_planner(name: str, element_limit: int | None = None) -> Planner:
    """A path finder of opt_einsum by its name in opt_einsum.paths."""

    def planner(network: Network, problem: Problem) -> Candidate:
        import opt_einsum

        optimizer = opt_einsum.paths.get_path_fn(name)
        candidate = from_optimizer(optimizer, element_limit)(network, problem)
        return Candidate(candidate.tree, f"opt_einsum {name}")

    return planner


def _symbol(label: int) -> str:
    """opt_einsum's and cotengra's labels are one-character strings; past U+10FFFF none are left."""
    point = 0x61 + label if label < 26 else 0xC0 + label
    point += 0x800 * (point >= 0xD800)  # no surrogates
    if point > 0x10FFFF:
        raise PathError("foreign optimizers take at most about 1.1 million labels")
    return chr(point)
