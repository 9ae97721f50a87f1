"""Plans as the values that other libraries print, search further, and run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from ..._base.errors import Unsupported
from ..plan import Plan

Terms = list[tuple[str, ...]]


def to_opt_einsum(plan: Plan) -> Any:
    """`Plan.to_opt_einsum`."""
    import opt_einsum

    terms, output, sizes = _terms(plan, "to_opt_einsum")
    equation = f"{','.join(map(''.join, terms))}->{''.join(output)}"
    shapes = [tuple(sizes[label] for label in term) for term in terms]
    path = [*plan.path]
    return opt_einsum.contract_path(equation, *shapes, shapes=True, optimize=path)[1]


def to_cotengra(plan: Plan) -> Any:
    """`Plan.to_cotengra`."""
    terms, output, sizes = _terms(plan, "to_cotengra")
    try:
        import cotengra
    except ImportError:
        raise Unsupported(
            "to_cotengra: cotengra is not installed; pip install cotengra, or take plan.path"
        ) from None
    tree = cotengra.ContractionTree.from_path(
        terms, output, sizes, ssa_path=plan.ssa_path, optimize="greedy"
    )
    names, _ = _symbols(plan)
    for label in plan.sliced:
        tree.remove_ind_(names[label])
    return tree


def _terms(plan: Plan, call: str) -> tuple[Terms, tuple[str, ...], dict[str, int]]:
    """Labels of the operands and of the result, and sizes, as both libraries read them.

    Neither broadcasts in a tree: an axis of size 1 that does gets a label of its own, which is summed.
    """
    net = plan.network
    if len(set(net.output_axes)) < len(net.output_axes):
        raise Unsupported(
            f"{call}: the result repeats a label, which {call.removeprefix('to_')} does not know; plan "
            f"without embed_diagonal"
        )
    names, free = _symbols(plan)
    sizes = dict(zip(names, net.extents, strict=True))
    terms: Terms = []
    for term, shape in zip(net.terms, net.shapes, strict=True):
        row = []
        for label, n in zip(term, shape, strict=True):
            name = names[label]
            if n != net.extents[label]:
                name = next(free)
                sizes[name] = n
            row.append(name)
        terms.append(tuple(row))
    output = tuple(names[label] for label in net.output_axes)
    return terms, output, {name: sizes[name] for term in terms for name in term}


def _symbols(plan: Plan) -> tuple[list[str], Iterator[str]]:
    """A letter for each label, the user's own if all are; and those that are free then."""
    from opt_einsum import get_symbol

    labels = plan.network.labels
    own = [x for x in labels if isinstance(x, str) and len(x) == 1 and x.isalpha()]
    taken = own if len(own) == len(labels) else [get_symbol(k) for k in range(len(labels))]
    known = set(taken)
    return taken, (symbol for symbol in map(get_symbol, count()) if symbol not in known)
