"""A plan as text: opt_einsum's path table with bytes and engine added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from .._base.numbers import format_bytes as size
from .._base.numbers import format_count as count
from ..backend.cpu import cpu
from .cost import Labels, StepLabels, size_of, step_flops, walk
from .network import Network

if TYPE_CHECKING:
    from .plan import Plan

ROWS = 60  # steps shown; the middle of a longer path is left out
WIDTH = 32  # characters of an equation before it is cut


def table(plan: Plan) -> str:
    """The header and one row a step."""
    net = plan.network
    symbols = _symbols(net)
    naive = size_of(frozenset().union(*net.carried), net.extents)
    summed = any(labels - net.open for labels in net.carried)
    naive_flops = step_flops(naive, len(net.terms), summed)
    scaling = max((len(step.union) for step in walk(net, plan.tree)), default=0)
    speedup = count(naive_flops // plan.flops) if plan.flops and naive_flops else "1"
    rows = [
        ("Complete contraction", _cut(_equation(net, symbols), 60)),
        ("Naive scaling", str(len({label for labels in net.carried for label in labels}))),
        ("Optimized scaling", str(scaling)),
        ("Naive FLOP count", count(naive_flops)),
        ("Optimized FLOP count", count(plan.flops)),
        ("Theoretical speedup", speedup),
        ("Largest intermediate", f"{count(plan.largest_intermediate)} elements"),
        ("Predicted peak memory", size(plan.peak_bytes)),
        (
            "Planner",
            plan.planner + (f" ({plan.proof})" if plan.proof not in (None, plan.planner) else ""),
        ),
    ]
    lines = [f"{name:>22}:  {value}" for name, value in rows]
    rule = "-" * 100
    head = f"{'scaling':>7}  {'engine':<13}{'current':>{WIDTH}}  {'bytes':>10}  remaining"
    return "\n".join([*lines, rule, head, rule, *_steps(plan, symbols)])


def _steps(plan: Plan, symbols: list[str]) -> Iterator[str]:
    net, tree = plan.network, plan.tree
    engines = _engines(plan)
    total = len(tree.ssa_path)
    skipped = range(ROWS // 2, total - ROWS // 2) if total > ROWS else range(0)
    alive: dict[int, Labels] = dict(enumerate(net.carried))
    for index, (step, labels) in enumerate(zip(tree.ssa_path, walk(net, tree), strict=True)):
        for tensor in step:
            del alive[tensor]
        alive[tree.n + index] = labels.result
        if index in skipped:
            if index == skipped[0]:
                yield f"{'':>7}  ... {len(skipped)} more steps"
            continue
        last = index == total - 1
        result = net.output_axes if last else sorted(labels.result)
        current = ",".join(_term(sorted(x), symbols) for x in labels.operands)
        current += f"->{_term(result, symbols)}"
        itemsize = plan.dtype.itemsize
        written = size_of(labels.result, net.extents) * itemsize
        terms = (_term(sorted(x), symbols) for x in islice(alive.values(), WIDTH))
        rest = f"{','.join(terms)}->{_term(net.output_axes, symbols)}"
        yield (
            f"{len(labels.union):>7}  {engines[index]:<13}{_cut(current, WIDTH):>{WIDTH}}"
            f"  {size(written):>10}  {_cut(rest, WIDTH)}"
        )


def _engines(plan: Plan) -> list[str]:
    """The engine of each step's product; a step without one is a view, a sum or a copy."""
    backend = cpu()
    program = plan.lowered
    products = iter(
        backend.engine(ins.op, ins.attrs, program.specs(ins.inputs))
        for ins in program.instructions
        if ins.op in ("dot_general", "sum_product")
    )
    alone = "sum" if program.op_counts["reduce_sum"] else "view"
    return [next(products, "zeros") if len(step) > 1 else alone for step in plan.tree.ssa_path]


def equation_text(step: StepLabels, network: Network) -> str:
    """One step as an equation."""
    symbols = _symbols(network)
    terms = ",".join(_term(sorted(labels), symbols) for labels in step.operands)
    return f"{terms}->{_term(sorted(step.result), symbols)}"


def _equation(net: Network, symbols: list[str]) -> str:
    terms = ",".join(_term(term, symbols) for term in net.terms[:64])
    return f"{terms}->{_term(net.output_axes, symbols)}"


def _term(labels: Iterable[int], symbols: list[str]) -> str:
    return "".join(symbols[label] for label in labels)


def _symbols(net: Network) -> list[str]:
    """One character for each label: the user's own where it is one, else one that is still free."""
    own = {label for label in net.labels if isinstance(label, str) and len(label) == 1}
    free = (symbol for symbol in _alphabet() if symbol not in own)
    return [str(label) if label in own else next(free) for label in net.labels]


def _alphabet() -> Iterator[str]:
    yield from "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    point = 0xC0
    while True:
        symbol = chr(point if point < 0xD800 else 0xE000 + (point - 0xD800) % 0x2000)
        point += 1
        if symbol.isprintable():
            yield symbol


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
