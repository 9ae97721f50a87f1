"""A plan as one HTML page that needs nothing else: facts, tree, memory and cost over the steps, a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape

from ..._base.numbers import format_bytes, format_count, log10
from ...backend.spec import dtype_name
from .. import show
from ..plan import Plan
from ..steps import PlannedStep, tensor_bytes
from .names import CUT, Names, counted, percent, shortened
from .outline import Node, Outline, outline, places
from .series import Range, memory, work

NODES = 1500  # of the tree that are drawn
NAMED = 40  # leaves up to which they have their labels below them
ROWS = 1000  # of the table: of more steps the costliest
COLUMNS = 800  # of a chart: of more steps the largest of each few
SHADES = 6  # of the cost of a step
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1000, 200, 80, 60, 8, 28  # of a chart

STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1d2127; --faint: #68707c; --line: #d6dae0;
  --memory: #2a6fb0; --cost: #c2571a; --limit: #b3202c; --mark: #fff3c4;
  --c0: #fbe3b5; --c1: #fdbf72; --c2: #fb9a4b; --c3: #ee6537; --c4: #cf2f2a; --c5: #8c0d25; }
@media (prefers-color-scheme: dark) { :root { --back: #16181c; --text: #e4e7eb; --faint: #9aa3af;
  --line: #3a404a; --memory: #6fb1ee; --cost: #f0915a; --limit: #ff7b7b; --mark: #4a4220;
  --c0: #54400f; --c1: #7d5310; --c2: #a8611a; --c3: #d4702b; --c4: #f3904c; --c5: #ffd0a0; } }
body { background: var(--back); color: var(--text); font: 15px/1.45 system-ui, sans-serif;
  max-width: 1080px; margin: 2em auto; padding: 0 1em; }
h1 { font: 600 1.3em ui-monospace, monospace; overflow-wrap: anywhere; }
h2 { font-size: 1.1em; margin: 1.8em 0 .4em; }
p { color: var(--faint); margin: .3em 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1em 1.2em; }
dt { color: var(--faint); } dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
svg text { fill: var(--text); font: 11px system-ui, sans-serif; }
svg .axis { stroke: var(--line); fill: none; }
.edge { stroke: var(--faint); stroke-opacity: .55; }
.leaf { fill: var(--faint); } .node { stroke: var(--faint); stroke-width: .6; }
.alive { fill: var(--memory); fill-opacity: .18; stroke: var(--memory); }
.made { fill: none; stroke: var(--faint); } .peak { stroke: var(--memory); stroke-dasharray: 2 4; }
.limit { stroke: var(--limit); stroke-dasharray: 7 4; } .work { fill: var(--cost); }
.share { fill: none; stroke: var(--text); stroke-width: 1.2; } .touch { fill: transparent; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: right; color: var(--faint); font-weight: 500; position: sticky; top: 0;
  background: var(--back); }
td { text-align: right; border-top: 1px solid var(--line); padding: .1em .5em; white-space: nowrap; }
td.labels, th.labels { text-align: left; white-space: normal; font-family: ui-monospace, monospace; }
tr.on td { background: var(--mark); } .touch.on { fill: var(--text); fill-opacity: .12; }
.node.on { stroke: var(--text); stroke-width: 3; }
""" + "".join(f".c{k} {{ fill: var(--c{k}); }} " for k in range(SHADES))

SCRIPT = """
document.addEventListener("mouseover", event => {
  const step = event.target.closest("[data-step]");
  document.querySelectorAll(".on").forEach(one => one.classList.remove("on"));
  if (step) document.querySelectorAll(`[data-step="${step.dataset.step}"]`)
    .forEach(one => one.classList.add("on"));
});
"""


def page(plan: Plan) -> str:
    """`Plan.to_html`."""
    names = Names(plan.network)
    title = escape(_equation(plan, names))
    sections = [
        f"<h1>{title}</h1>",
        _facts(plan, names),
        "<h2>Tree</h2>",
        *_tree(plan, names),
        "<h2>Memory over the steps</h2>",
        *_memory(plan),
        "<h2>Cost over the steps</h2>",
        *_cost(plan),
        "<h2>Steps</h2>",
        *_table(plan, names),
    ]
    body = "\n".join(sections)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n"
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _equation(plan: Plan, names: Names) -> str:
    terms = plan.network.terms
    text = ", ".join(names.term(term, 40) for term in terms[:12])
    more = f", … {len(terms) - 12} more" if len(terms) > 12 else ""
    return f"{text}{more} → {names.term(plan.network.output_axes, 60)}"


def _facts(plan: Plan, names: Names) -> str:
    dtypes = sorted({dtype_name(dtype) for dtype in plan.dtypes})
    proof = f" ({plan.proof})" if plan.proof not in (None, plan.planner) else ""
    limit = plan.memory_limit
    rows = [
        ("operands", f"{plan.tree.n} of {', '.join(dtypes)}"),
        ("result", f"{dtype_name(plan.dtype)}, {len(plan.network.output_axes)} axes"),
        ("multiplications", format_count(plan.cost)),
        ("flops", format_count(plan.flops)),
        ("largest intermediate", counted(plan.largest_intermediate, "element")),
        ("predicted peak", format_bytes(plan.peak_bytes)),
        ("memory limit", "" if limit is None else format_bytes(limit)),
        (
            "slices",
            f"{format_count(plan.n_slices)} of {names.listed(plan.sliced)}" * bool(plan.sliced),
        ),
        ("planner", f"{plan.planner}{proof}, for {plan.objective}, seed {plan.seed}"),
    ]
    lines = (f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in rows if text)
    return "<dl>\n" + "\n".join(lines) + "\n</dl>"


# The tree ---------------------------------------------------------------------------------------


def _tree(plan: Plan, names: Names) -> Iterator[str]:
    shown = outline(plan.tree, plan.steps, NODES)
    across, down = places(shown)
    columns, deepest = max(across) + 1, max(down)
    few = sum(not inside for inside in shown.children) <= NAMED
    wide = max(24.0, min(90.0, WIDTH / columns)) if few else max(3.0, min(24.0, WIDTH / columns))
    high = max(8.0, min(60.0, 560 / (deepest + 1)))
    x = [20 + wide * (at + 0.5) for at in across]
    y = [24 + high * at for at in down]
    size = (round(wide * columns + 40), round(high * deepest + 64))
    yield (
        "<p>A result stands above what it is made of; the thicker a line, the larger the tensor; the "
        "stronger the colour, the costlier the step.</p>"
    )
    if shown.n_hidden:
        yield f"<p>Only the costliest branches: {counted(shown.n_hidden, 'tensor')} are not drawn.</p>"
    yield f'<div class="scroll">{_svg(*size)}'
    yield from _edges(plan, shown, x, y)
    costs = [log10(max(1, step.cost)) for step in plan.steps]
    low, top = min(costs), max(costs)
    for node, cx, cy in zip(shown.nodes, x, y, strict=True):
        index = node.tensor - plan.tree.n
        if index < 0:
            side = 7 if few else 3
            yield (
                f'<rect class="leaf" x="{cx - side / 2:.1f}" y="{cy - side / 2:.1f}" width="{side}" '
                f'height="{side}">{_tip(plan, names, node)}</rect>'
            )
        else:
            shade = round((SHADES - 1) * (costs[index] - low) / (top - low)) if top > low else 2
            yield (
                f'<circle class="node c{shade}" data-step="{index}" cx="{cx:.1f}" cy="{cy:.1f}" '
                f'r="{6 if few else 3.5}">{_tip(plan, names, node)}</circle>'
            )
        if few:
            text = names.term(_labels(plan, node.tensor), max(4, int(wide / 6.5)))
            lower = cy + (17 if index < 0 else -9)
            if text == CUT:  # the pointer tells
                text = str(node.tensor) if index < 0 else ""
            if text:
                yield f'<text x="{cx:.1f}" y="{lower:.1f}" text-anchor="middle">{escape(text)}</text>'
    yield "</svg></div>"


def _edges(plan: Plan, shown: Outline, x: list[float], y: list[float]) -> Iterator[str]:
    sizes = tensor_bytes(plan.steps)
    logs = [max(0.0, log10(sizes[node.tensor])) for node in shown.nodes]
    top = max(1.0, *logs)
    for place, node in enumerate(shown.nodes[1:], 1):
        above = node.parent
        yield (
            f'<line class="edge" x1="{x[place]:.1f}" y1="{y[place]:.1f}" x2="{x[above]:.1f}" '
            f'y2="{y[above]:.1f}" stroke-width="{0.6 + 3 * logs[place] / top:.2f}"/>'
        )


def _tip(plan: Plan, names: Names, node: Node) -> str:
    """What is told of a tensor below the pointer."""
    index = node.tensor - plan.tree.n
    labels = names.term(_labels(plan, node.tensor), 80)
    if index < 0:
        shape = "×".join(map(str, plan.network.shapes[node.tensor])) or "scalar"
        text = f"operand {node.tensor}: {labels}, {shape}"
    else:
        text = f"{labels}\n{_step_tip(plan, index)}"
    if node.n_hidden:
        text += f"\n{counted(node.n_hidden, 'tensor')} below not drawn"
    return f"<title>{escape(text)}</title>"


def _step_tip(plan: Plan, index: int) -> str:
    step = plan.steps[index]
    share = percent(step.cost / plan.cost) if plan.cost else "0%"
    return (
        f"step {index}: {counted(step.cost, 'multiplication')}, {share}; result "
        f"{format_bytes(step.nbytes)}, alive {format_bytes(step.alive_bytes)}"
    )


def _labels(plan: Plan, tensor: int) -> Iterable[int]:
    if tensor < plan.tree.n:
        return [label for label in plan.network.terms[tensor] if label not in plan.sliced]
    return plan.steps[tensor - plan.tree.n].result


# Charts -----------------------------------------------------------------------------------------


def _memory(plan: Plan) -> Iterator[str]:
    drawn = memory(plan)
    yield (
        f"<p>Filled: the tensors that exist during each step, in {drawn.unit}. Grey: the result of the step. "
        f"Dotted: the predicted peak of the program as it runs, {format_bytes(plan.peak_bytes)}, with what "
        f"kernels need for themselves."
    )
    if plan.memory_limit is not None:
        far = " (far above)" if drawn.limit is None else ""
        yield f"Dashed: the memory limit, {format_bytes(plan.memory_limit)}{far}."
    yield "</p>"
    height = _heights(drawn.range)
    yield f'<div class="scroll">{_svg(WIDTH, HEIGHT)}'
    yield from _grid(drawn.range, height, len(plan.steps), lambda value: f"{value:.4g}")
    yield _curve("alive", _columns(drawn.alive), height, closed=True)
    yield _curve("made", _columns(drawn.results), height)
    for kind, level in (("peak", drawn.peak), ("limit", drawn.limit)):
        if level is not None:
            at = height(level)
            yield f'<path class="{kind}" fill="none" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>'
    yield from _touched(plan)
    yield "</svg></div>"


def _cost(plan: Plan) -> Iterator[str]:
    drawn = work(plan)
    yield "<p>Filled: multiplications of each step. Line: the share of all that is done by then.</p>"
    height, share = _heights(drawn.range), _heights(Range(0.0, 1.05, False))
    yield f'<div class="scroll">{_svg(WIDTH, HEIGHT)}'
    yield from _grid(drawn.range, height, len(plan.steps), lambda value: f"{value:.4g}")
    yield _curve("work", _columns(drawn.costs), height, closed=True)
    yield _curve("share", _columns(drawn.shares), share)
    for level in (0.0, 0.5, 1.0):
        yield f'<text x="{WIDTH - RIGHT + 6}" y="{share(level) + 4:.1f}">{level:.0%}</text>'
    yield from _touched(plan)
    yield "</svg></div>"


def _columns(values: Sequence[float]) -> list[float]:
    """One for each step; of many steps the largest of each few, so that no peak is lost."""
    every = -(-len(values) // COLUMNS)
    return [max(values[k : k + every]) for k in range(0, len(values), every)]


def _curve(
    kind: str, values: Sequence[float], height: Callable[[float], float], closed: bool = False
) -> str:
    """A line of steps, or the area below it."""
    wide = (WIDTH - LEFT - RIGHT) / len(values)
    moves = " ".join(
        f"V{height(value):.1f}H{LEFT + wide * (k + 1):.1f}" for k, value in enumerate(values)
    )
    if closed:
        return f'<path class="{kind}" d="M{LEFT} {HEIGHT - BOTTOM} {moves} V{HEIGHT - BOTTOM}Z"/>'
    return f'<path class="{kind}" d="M{LEFT} {height(values[0]):.1f} {moves}"/>'


def _touched(plan: Plan) -> Iterator[str]:
    """Under each step of a chart what the pointer finds; under many, the costliest of each few."""
    every = -(-len(plan.steps) // COLUMNS)
    wide = (WIDTH - LEFT - RIGHT) / -(-len(plan.steps) // every)
    for column, first in enumerate(range(0, len(plan.steps), every)):
        group = range(first, min(first + every, len(plan.steps)))
        index = max(group, key=lambda k: plan.steps[k].cost)
        yield (
            f'<rect class="touch" data-step="{index}" x="{LEFT + wide * column:.1f}" y="{TOP}" '
            f'width="{wide:.2f}" height="{HEIGHT - TOP - BOTTOM}">'
            f"<title>{escape(_step_tip(plan, index))}</title></rect>"
        )


def _heights(axis: Range) -> Callable[[float], float]:
    """Where a value stands."""
    floor, room = HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP

    def height(value: float) -> float:
        if axis.is_log:
            low, high = math.log(axis.low), math.log(axis.high)
            part = (math.log(value) - low) / (high - low) if value > 0 else 0.0
        else:
            part = (value - axis.low) / (axis.high - axis.low)
        return floor - room * min(1.0, max(0.0, part))

    return height


def _grid(
    axis: Range, height: Callable[[float], float], steps: int, text: Callable[[float], str]
) -> Iterator[str]:
    floor = HEIGHT - BOTTOM
    for value in _ticks(axis):
        at = height(value)
        yield f'<path class="axis" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>'
        yield f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{text(value)}</text>'
    wide = (WIDTH - LEFT - RIGHT) / steps
    every = max(1, round(_nice(steps / 8)))
    for step in range(0, steps, every):
        at = LEFT + wide * (step + 0.5)
        yield f'<text x="{at:.1f}" y="{floor + 18}" text-anchor="middle">{step}</text>'


def _ticks(axis: Range) -> list[float]:
    """Round values within an axis: powers of ten, or multiples of 1, 2 or 5 times one."""
    if axis.is_log:
        first, last = math.ceil(math.log10(axis.low)), math.floor(math.log10(axis.high))
        every = max(1, -(-(last - first) // 5))
        return [10.0**k for k in range(first, last + 1, every)]
    step = _nice(axis.high / 5)
    return [step * k for k in range(int(axis.high / step) + 1)]


def _nice(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return next(k * power for k in (1, 2, 5, 10) if k * power >= value * 0.999)


def _svg(width: int, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}">'
    )


# The table --------------------------------------------------------------------------------------


def _table(plan: Plan, names: Names) -> Iterator[str]:
    steps = plan.steps
    order: Iterable[int] = range(len(steps))
    if len(steps) > ROWS:
        order = sorted(sorted(order, key=lambda k: (-steps[k].cost, k))[:ROWS])
        yield f"<p>The costliest {ROWS} of {format_count(len(steps))} steps.</p>"
    head = ("step", "engine", "times", "scaling", "multiplications", "share", "result", "alive")
    cells = "".join(f"<th>{name}</th>" for name in head)
    yield f'<div class="scroll"><table><thead><tr>{cells}<th class="labels">labels</th></tr></thead><tbody>'
    engines = show.engines(plan.lowered, plan.tree)
    for index in order:
        yield _row(plan, names, index, steps[index], engines[index])
    yield "</tbody></table></div>"


def _row(plan: Plan, names: Names, index: int, step: PlannedStep, engine: str) -> str:
    operands = ", ".join(names.term(sorted(labels), 30) for labels in step.operand_labels[:6])
    more = f", … {len(step.operands) - 6} more" if len(step.operands) > 6 else ""
    share = percent(step.cost / plan.cost) if plan.cost else "0%"
    figures = (
        str(index),
        engine,
        format_count(step.times),
        str(step.scaling),
        format_count(step.cost),
        share,
        format_bytes(step.nbytes),
        format_bytes(step.alive_bytes),
    )
    cells = "".join(f"<td>{escape(text)}</td>" for text in figures)
    labels = shortened(f"{operands}{more} → {names.term(step.result, 30)}", 200)
    return f'<tr data-step="{index}">{cells}<td class="labels">{escape(labels)}</td></tr>'
