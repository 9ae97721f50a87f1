"""A plan as text: opt_einsum's path table with bytes and engine added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from .._base.numbers import format_bytes as size
from .._base.numbers import format_count as count
from ..backend.cpu import cpu
from ..program.ir import Program
from .cost import Cost, size_of, step_flops
from .network import Network
from .steps import PlannedStep
from .tree import ContractionTree

ROWS = 60  # steps shown; the middle of a longer path is left out
WIDTH = 32  # characters of an equation before it is cut


def table(
    network: Network,
    tree: ContractionTree,
    lowered: Program,
    steps: Sequence[PlannedStep],
    *,
    totals: Cost,
    peak_bytes: int,
    planner: str,
    notes: Sequence[tuple[str, str]] = (),
    sliced: Sequence[int] = (),
) -> str:
    """The header and one row a step; with labels sliced, the steps of one slice."""
    symbols = _symbols(network)
    naive = size_of(frozenset().union(*network.carried), network.extents)
    summed = any(labels - network.open for labels in network.carried)
    naive_flops = step_flops(naive, len(network.terms), summed)
    inner = network.slice(sliced) if sliced else network
    speedup = count(naive_flops // totals.flops) if totals.flops and naive_flops else "1"
    rows = [
        ("Complete contraction", _cut(_equation(network, symbols), 60)),
        ("Naive scaling", str(len({label for labels in network.carried for label in labels}))),
        ("Optimized scaling", str(max(step.scaling for step in steps))),
        ("Naive FLOP count", count(naive_flops)),
        ("Optimized FLOP count", count(totals.flops)),
        ("Theoretical speedup", speedup),
        ("Largest intermediate", f"{count(totals.largest_intermediate)} elements"),
        ("Predicted peak memory", size(peak_bytes)),
        ("Planner", planner),
        *notes,
    ]
    lines = [f"{name:>22}:  {value}" for name, value in rows]
    rule = "-" * 100
    head = f"{'scaling':>7}  {'engine':<13}{'current':>{WIDTH}}  {'bytes':>10}  remaining"
    body = _rows(inner, tree, steps, engines(lowered, tree), symbols)
    return "\n".join([*lines, rule, head, rule, *body])


def _rows(
    net: Network,
    tree: ContractionTree,
    steps: Sequence[PlannedStep],
    names: list[str],
    symbols: list[str],
) -> Iterator[str]:
    total = len(steps)
    skipped = range(ROWS // 2, total - ROWS // 2) if total > ROWS else range(0)
    alive: dict[int, Iterable[int]] = dict(enumerate(net.carried))
    for index, step in enumerate(steps):
        for tensor in step.operands:
            del alive[tensor]
        alive[tree.n + index] = step.result
        if index in skipped:
            if index == skipped[0]:
                yield f"{'':>7}  ... {len(skipped)} more steps"
            continue
        current = ",".join(_term(sorted(x), symbols) for x in step.operand_labels)
        current += f"->{_term(step.result, symbols)}"
        terms = (_term(sorted(x), symbols) for x in islice(alive.values(), WIDTH))
        rest = f"{','.join(terms)}->{_term(net.output_axes, symbols)}"
        yield (
            f"{step.scaling:>7}  {names[index]:<13}{_cut(current, WIDTH):>{WIDTH}}"
            f"  {size(step.nbytes):>10}  {_cut(rest, WIDTH)}"
        )


def engines(lowered: Program, tree: ContractionTree) -> list[str]:
    """The engine of each step's product; a step without one is a view, a sum or a copy."""
    backend = cpu()
    products = iter(
        backend.engine(ins.op, ins.attrs, lowered.specs(ins.inputs))
        for ins in lowered.instructions
        if ins.op in ("dot_general", "sum_product")
    )
    alone = "sum" if lowered.op_counts["reduce_sum"] else "view"
    return [next(products, "zeros") if len(step) > 1 else alone for step in tree.ssa_path]


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
