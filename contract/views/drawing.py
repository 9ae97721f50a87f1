"""A contraction tree in characters: a line for each tensor, with its labels, size and share of the cost."""

from __future__ import annotations

from collections.abc import Iterator

from ..._base.errors import OptionError
from ..._base.numbers import format_bytes, format_count
from ..plan import Plan
from ..steps import tensor_bytes
from .names import Names, counted, percent, shortened
from .outline import Node, Outline, outline

WIDEST = 12  # operands of one step that are shown
FIGURES = 30  # characters of the columns of figures
BAR = 8  # characters of a bar of the whole cost


def drawing(plan: Plan, width: int, depth: int, rows: int) -> str:
    """`Plan.draw`."""
    for name, value, least in (("width", width, 60), ("depth", depth, 1), ("rows", rows, 1)):
        if type(value) is not int or value < least:
            raise OptionError(f"draw({name}={value!r}): give an integer >= {least}")
    shown = outline(plan.tree, plan.steps, rows, depth, min(WIDEST, rows))
    names, sizes, total = Names(plan.network), tensor_bytes(plan.steps), plan.cost
    text_width = width - FIGURES
    lines = [shortened(line, width) for line in _heading(plan, names)]
    lines.append(f"{'':<{text_width}}{'size':>12}{'cost':>7}")
    branches, notes = _branches(shown), _notes(shown)
    for place, node in enumerate(shown.nodes):
        before = branches[place][0]
        lines.append(_line(plan, names, node, sizes[node.tensor], before, text_width))
        for at in notes[place]:
            note = f"{branches[at][1]}└─ … {counted(shown.nodes[at].n_hidden, 'tensor')}"
            lines.append(_row(note, "", shown.nodes[at].hidden_cost or None, total, text_width))
    if shown.n_hidden:
        lines.append(
            f"{format_count(shown.n_hidden)} of {format_count(plan.tree.n + len(plan.steps))} tensors "
            f"are not shown; the rest with larger depth= and rows="
        )
    return "\n".join(line.rstrip() for line in lines)


def _heading(plan: Plan, names: Names) -> Iterator[str]:
    yield f"{counted(plan.tree.n, 'operand')}, {counted(plan.cost, 'multiplication')}"
    if plan.sliced:
        slices = f"{format_count(plan.n_slices)} slices of {names.listed(plan.sliced, 3)}"
        yield f"{slices}; labels and sizes are those of one"


def _line(plan: Plan, names: Names, node: Node, size: int, before: str, width: int) -> str:
    index = node.tensor - plan.tree.n
    if index < 0:
        start, cost = f"{before}operand {node.tensor}: ", None
        labels = [x for x in plan.network.terms[node.tensor] if x not in plan.sliced]
    else:
        start, cost = f"{before}step {index}: ", plan.steps[index].cost
        labels = [*plan.steps[index].result]
    term = names.term(labels, max(12, width - len(start)))
    return _row(start + term, format_bytes(size), cost, plan.cost, width)


def _row(text: str, size: str, cost: int | None, total: int, width: int) -> str:
    figures = f"{size:>12}"
    if cost is not None:
        share = cost / total if total else 0.0
        figures += f"{percent(share):>7}  {_bar(share)}"
    return f"{shortened(text, width):<{width}}{figures}"


def _bar(share: float) -> str:
    whole, eighths = divmod(round(share * BAR * 8), 8)
    return "█" * whole + " ▏▎▍▌▋▊▉"[eighths].strip()


def _notes(shown: Outline) -> list[list[int]]:
    """At each node, the nodes whose last descendant it is and of which something is hidden."""
    end = list(range(len(shown.nodes)))
    notes: list[list[int]] = [[] for _ in shown.nodes]
    for place in reversed(range(len(shown.nodes))):
        if shown.children[place]:
            end[place] = end[shown.children[place][-1]]
        if shown.nodes[place].n_hidden:
            notes[end[place]].append(place)
    return notes


def _branches(shown: Outline) -> list[tuple[str, str]]:
    """What stands before each node, and before what is below it."""
    drawn = [("", "")]
    for place, node in enumerate(shown.nodes[1:], 1):
        siblings = shown.children[node.parent]
        above = shown.nodes[node.parent]
        # what its step's hidden operands stand for comes behind the last sibling
        is_last = place == siblings[-1] and not above.n_hidden
        start = drawn[node.parent][1]
        drawn.append((start + ("└─ " if is_last else "├─ "), start + ("   " if is_last else "│  ")))
    return drawn
