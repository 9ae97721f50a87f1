"""`plan_sizes`: one tree for ranges of sizes."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, TypeAlias

from .._base.errors import CallError, OptionError
from .._base.options import options
from .api import _planned
from .network import Network
from .notation import label_name
from .plan import Plan
from .plan_cache import name_of
from .planners import Problem
from .robust import Costs, robust_tree
from .tree import ContractionTree
from .weigh import rates

OBJECTIVES = ("time", "flops", "write", "size")
POINTS = 5  # of a range that are looked at
MOST = 32  # sizes that are looked at
ROWS = 40  # of them that `print` shows
NOTED = 1.005  # times the best from which another tree is said to be better

Domain: TypeAlias = "tuple[int, int] | list[int]"
Sizes: TypeAlias = dict[Any, int]


@dataclass(frozen=True)
class SizedPlan:
    """One tree for ranges of sizes. `print` tells where another tree is better, and how much.

    Attributes:
        tree: the contraction tree.
        domains: for each variable the range (least, largest), or a list of values.
        points: the sizes that were looked at.
        ratios: at each of these, how many times the cost of the best tree found there this one has.
        others: at each of these a plan with that tree; it may be the same.
        objective: what was made small.
        criterion: "worst" or "mean", of the logarithms of the ratios.
    """

    tree: ContractionTree
    domains: dict[Any, Domain]
    points: tuple[Sizes, ...]
    ratios: tuple[float, ...]
    others: tuple[Plan, ...]
    objective: str
    criterion: str
    proof: str | None
    _request: _Request = field(repr=False)

    @property
    def worst(self) -> float:
        """The largest ratio."""
        return max(self.ratios)

    @property
    def mean(self) -> float:
        """The geometric mean of the ratios."""
        return math.exp(sum(map(math.log, self.ratios)) / len(self.ratios))

    def for_sizes(self, sizes: Mapping[Any, int] | None = None, /, **named: int) -> Plan:
        """The plan with this tree for these sizes, one for each variable, each in its range.

        Returns:
            Plan: `compile` takes it.
        """
        given = {**(sizes or {}), **named}
        if given.keys() != self.domains.keys():
            known = ", ".join(map(_shown, self.domains))
            raise CallError(f"for_sizes({given!r:.80}): give a size for each of {known}")
        for name, size in given.items():
            domain = self.domains[name]
            if type(size) is not int or not _holds(domain, size):
                raise OptionError(
                    f"for_sizes: {_shown(name)} = {size!r:.40}; this plan is for {_words(domain)}"
                )
        plan = self._request.plan(given, self.tree.path)
        return replace(plan, tree=self.tree, planner="one tree for all sizes")

    def __str__(self) -> str:
        domains = ", ".join(f"{_shown(x)} {_words(d)}" for x, d in self.domains.items())
        rows = [k for k, ratio in enumerate(self.ratios) if ratio >= NOTED]
        lines = [
            f"one tree for {domains}",
            f"{len(self.points) - len(rows)} of {len(self.points)} sizes looked at have no better tree; at "
            f"worst it takes {self.worst:.3g} times as much, on average {self.mean:.3g}",
        ]
        for k in rows[:ROWS]:
            at = ", ".join(f"{_shown(x)} = {n}" for x, n in self.points[k].items())
            path = str(self.others[k].path)
            lines.append(f"  {at}: {self.ratios[k]:.3g} times what {path:.60} takes")
        if len(rows) > ROWS:
            lines.append(f"  ... and {len(rows) - ROWS} more")
        return "\n".join(lines)


@dataclass(frozen=True)
class _Request:
    """The arguments of a plan whose sizes have names."""

    source: Any
    shapes: tuple[Any, ...]
    keywords: dict[str, Any]

    def plan(self, sizes: Mapping[Any, int], planner: Any) -> Plan:
        """The plan for these sizes."""
        shapes = [
            tuple(sizes[n.name] if isinstance(n, _Variable) else n for n in shape)
            if isinstance(shape, tuple)
            else shape
            for shape in self.shapes
        ]
        source, keywords = self.source, dict(self.keywords)
        if isinstance(source, Network):
            source = Network(
                source.inputs,
                source.output,
                {
                    label: n
                    for term, shape in zip(source.inputs, shapes, strict=True)
                    for label, n in zip(term, shape, strict=True)
                },
                embed_diagonal=True,
            )
            shapes = []
        dtype, constants = keywords.pop("dtype"), keywords.pop("constants")
        return _planned("plan_sizes", source, shapes, dtype, constants, planner=planner, **keywords)


@dataclass(frozen=True)
class _Variable:
    name: Any


def plan_sizes(
    equation_or_network: Any,
    *shapes: Any,
    sizes: Mapping[Any, Any],
    criterion: str = "worst",
    dtype: Any = None,
    objective: str = "time",
    planner: Any = "auto",
    budget: int | float | None = None,
    seed: int = 0,
    constants: Sequence[int] = (),
    order: str = "K",
    conj: Sequence[int] = (),
) -> SizedPlan:
    """Find one order in which to contract, for sizes that vary.

    Let C(T, x) be the cost of tree T for sizes x, and C(x) that of the best tree found for x. The tree
    that is taken makes the largest of log C(T, x) - log C(x) small, or their mean, over the sizes looked at.

    Args:
        equation_or_network: subscripts as for `einsum`, or a `Network`.
        shapes: of each operand, a tuple of integers and names; the same name is the same size. Of a Network
            they may be left out: then names are those of its labels.
        sizes: {name: (least, largest)} or {name: [values]}. Of a range five sizes are looked at, evenly in
            their logarithms; of several names all combinations, up to 32, else some of them.
        criterion: "worst" or "mean".
        dtype, planner, budget, seed, constants, order, conj: as in `plan`; the search of each size.
        objective: "time", "flops", "write" or "size".

    Returns:
        SizedPlan: `for_sizes(name=size)` is the plan; `print` tells where another tree would be better.

    Raises:
        SubscriptError, ShapeError, DTypeError, OptionError, CallError: bad input, named.

    Complexity: a search for each size looked at. Of up to five tensors all trees are compared, of more those
    found, and the best of these are changed by exchanges, so many that 400,000 steps are weighed.

    >>> shapes = (8, "n"), ("n", 2), (2, 64)
    >>> plan = plan_sizes("ij,jk,kl->il", *shapes, sizes={"n": (1, 1024)}, objective="flops")
    >>> print(plan)
    one tree for n from 1 to 1024
    4 of 5 sizes looked at have no better tree; at worst it takes 1.63 times as much, on average 1.1
      n = 1: 1.63 times what ((1, 2), (0, 1)) takes
    >>> plan.for_sizes(n=100).cost
    2624
    """
    if objective not in OBJECTIVES:
        raise OptionError(
            f"plan_sizes(objective={objective!r}): give one of {', '.join(OBJECTIVES)}"
        )
    if criterion not in ("worst", "mean"):
        raise OptionError(f'plan_sizes(criterion={criterion!r}): give "worst" or "mean"')
    if name_of(planner) is None:
        raise OptionError(
            f"plan_sizes(planner={planner!r:.60}): a search is made for several sizes; give a planner's name"
        )
    domains = {name: _domain(name, given) for name, given in sizes.items()}
    if not domains:
        raise OptionError('plan_sizes(sizes={}): give a range for a name, as in {"n": (2, 512)}')
    request = _Request(
        equation_or_network,
        _named(equation_or_network, shapes, domains),
        {
            "dtype": dtype, "objective": objective, "budget": budget, "seed": seed,
            "constants": constants, "order": order, "conj": conj,
        },
    )  # fmt: skip
    points = _points(domains, seed)
    with options(memory_limit=None):  # which is for a plan's own sizes
        found = [request.plan(point, planner) for point in points]
    if found[0].planner.startswith("parentheses"):
        raise OptionError("plan_sizes: the order is chosen for all sizes; leave out parentheses")
    problem = Problem(objective, itemsize=found[0].dtype.itemsize)  # type: ignore[arg-type]
    costs = Costs([plan.network for plan in found], rates(problem), found[0].constants)
    tree, best, is_proven = robust_tree(
        [plan.tree for plan in found], costs, criterion == "mean", seed
    )
    ratios = tuple(math.exp(costs.log_ratio(tree, k, best[k])) for k in range(len(points)))
    others = tuple(
        plan if plan.tree == other else plan.unproven(tree=other)
        for plan, other in zip(found, best, strict=True)
    )
    proof = "optimal" if is_proven else None
    return SizedPlan(tree, domains, points, ratios, others, objective, criterion, proof, request)


def _named(source: Any, shapes: Sequence[Any], domains: Mapping[Any, Domain]) -> tuple[Any, ...]:
    """Shapes whose variable sizes are marked; each variable must occur."""
    if isinstance(source, Network) and not shapes:
        shapes = [
            tuple(label if label in domains else source.sizes[label] for label in term)
            for term in source.inputs
        ]
        is_label = True
    else:
        is_label = False
    seen: set[Any] = set()
    marked: list[Any] = []
    for position, shape in enumerate(shapes):
        row: list[Any] = []
        for n in shape if isinstance(shape, tuple) else ():
            if (isinstance(n, str) or is_label) and n in domains:
                seen.add(n)
                row.append(_Variable(n))
            elif isinstance(n, str):
                raise OptionError(
                    f"plan_sizes: operand {position} has the size {n!r}; give its range in sizes="
                )
            else:
                row.append(n)
        marked.append(tuple(row) if isinstance(shape, tuple) else shape)
    for name in domains:
        if name not in seen:
            raise OptionError(
                f"plan_sizes(sizes=...): no operand has a size of the name {_shown(name)}"
            )
    if isinstance(source, Network) and len(marked) != len(source.terms):
        raise CallError(
            f"plan_sizes: the network has {len(source.terms)} tensors, got {len(marked)} shapes"
        )
    return tuple(marked)


def _domain(name: Any, given: Any) -> Domain:
    if isinstance(given, (tuple, list)) and given and all(type(n) is int and n > 0 for n in given):
        if isinstance(given, list):
            return sorted(set(given))
        if len(given) == 2 and given[0] <= given[1]:
            return given
    raise OptionError(
        f"plan_sizes(sizes=...): {_shown(name)} is {given!r:.60}; give (least, largest) or a list of "
        f"values, positive integers"
    )


def _shown(name: Any) -> str:
    return name if isinstance(name, str) else label_name(name)


def _holds(domain: Domain, size: int) -> bool:
    return size in domain if isinstance(domain, list) else domain[0] <= size <= domain[1]


def _words(domain: Domain) -> str:
    if isinstance(domain, list):
        return f"of {', '.join(map(str, domain))}"
    return f"from {domain[0]} to {domain[1]}"


def _points(domains: Mapping[Any, Domain], seed: int) -> tuple[Sizes, ...]:
    """All combinations of a few values of each, or the ends, the middle, and some that are drawn."""
    values = {name: list(_values(domain)) for name, domain in domains.items()}
    if math.prod(map(len, values.values())) <= MOST:
        rows = list(product(*values.values()))
    else:
        rows = [tuple(row[at] for row in values.values()) for at in (0, -1)] + [
            tuple(row[len(row) // 2] for row in values.values())
        ]
        draw = random.Random(seed)
        while len(rows) < MOST:
            rows.append(tuple(draw.choice(row) for row in values.values()))
        rows = list(dict.fromkeys(rows))
    return tuple(dict(zip(values, row, strict=True)) for row in rows)


def _values(domain: Domain) -> Iterator[int]:
    if isinstance(domain, list):
        yield from domain
        return
    least, largest = domain
    if largest - least < POINTS:
        yield from range(least, largest + 1)
        return
    yield from dict.fromkeys(
        round(least * (largest / least) ** (k / (POINTS - 1))) for k in range(POINTS)
    )


__all__ = ["SizedPlan", "plan_sizes"]
