"""Parentheses: each group is a network of its own, contracted before what stands around it."""

from __future__ import annotations

from .cost import Labels
from .network import Network
from .notation import Group
from .planners import Candidate, Planner, Problem
from .tree import ContractionTree, Step


def plan_groups(
    network: Network, groups: tuple[Group, ...], planner: Planner, problem: Problem
) -> Candidate:
    """Plan every group by `planner`, innermost first, and join the trees."""
    n = len(network.terms)
    if n == 1:
        return planner(network, problem)
    labels: dict[int, Labels] = dict(enumerate(network.carried))  # by member: operand or ~group
    names = {operand: operand for operand in range(n)}  # member -> tensor of the joint tree
    holders = [0] * len(network.extents)
    for one in (*network.carried, network.open):
        for label in one:
            holders[label] += 1
    steps: list[Step] = []
    parts: list[Candidate] = []
    for k, members in enumerate([*groups, _outermost(n, groups)]):
        for member in members:
            for label in labels[member]:
                holders[label] -= 1
        kept = frozenset(label for m in members for label in labels[m] if holders[label])
        if len(members) == 1:
            kept = labels[members[0]]  # what only it carries is summed where it is contracted
            names[~k] = names[members[0]]
        else:
            parts.append(planner(_subnetwork(network, [labels[m] for m in members], kept), problem))
            names[~k] = _graft(steps, parts[-1].tree, n, [names[m] for m in members])
        for label in kept:
            holders[label] += 1
        labels[~k] = kept
    kinds = ", ".join(dict.fromkeys(part.planner for part in parts))
    return Candidate(ContractionTree(n, tuple(steps)), f"parentheses, {kinds}")


def joined(network: Network, operands: frozenset[int]) -> tuple[Group, ...]:
    """These operands in groups of two or more that labels connect, if others are left."""
    if not 1 < len(operands) < len(network.terms):
        return ()
    groups: list[tuple[set[int], Labels]] = []
    for operand in sorted(operands):
        members, labels = {operand}, network.carried[operand]
        apart = []
        for others, theirs in groups:
            if labels.isdisjoint(theirs):
                apart.append((others, theirs))
            else:
                members, labels = members | others, labels | theirs
        groups = [*apart, (members, labels)]
    return tuple(tuple(sorted(members)) for members, _ in groups if len(members) > 1)


def _outermost(n: int, groups: tuple[Group, ...]) -> Group:
    inside = {member for group in groups for member in group}
    return tuple(m for m in (*range(n), *(~k for k in range(len(groups)))) if m not in inside)


def _subnetwork(network: Network, tensors: list[Labels], kept: Labels) -> Network:
    labels = network.labels
    return Network(
        [[labels[label] for label in sorted(tensor)] for tensor in tensors],
        [labels[label] for label in sorted(kept)],
        {labels[label]: network.extents[label] for tensor in tensors for label in tensor},
    )


def _graft(steps: list[Step], tree: ContractionTree, n: int, names: list[int]) -> int:
    """Append the steps of `tree`, whose inputs are the joint tree's tensors `names`."""
    names = list(names)
    for step in tree.ssa_path:
        names.append(n + len(steps))
        steps.append(tuple(names[tensor] for tensor in step))
    return names[-1]
