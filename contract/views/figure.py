"""A plan as figures, by matplotlib: the tree, and the memory and the cost of its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._base.errors import Unsupported
from ..._base.numbers import format_bytes, format_count, log10
from ..plan import Plan
from ..steps import tensor_bytes
from .names import CUT, Names, counted, percent
from .outline import Outline, outline, places
from .series import bounded, memory, work

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 4000  # tensors of a tree that are drawn
NAMED = 32  # leaves up to which every tensor has its labels beside it
MARKED = 5  # of a larger tree the costliest steps have their numbers,
LEAST = 0.02  # from this share of the cost on
BESIDE = (1.06, 1.02)  # where a legend stands
TREE, MEMORY, COST, LIMIT = "#8a8f98", "#2a6fb0", "#c2571a", "#b3202c"


def figure(plan: Plan) -> Figure:
    """`Plan.plot`."""
    try:
        from matplotlib.figure import Figure  # no pyplot: neither a window nor global state
    except ImportError:
        raise Unsupported(
            'plot: matplotlib is not installed; pip install "einloom[plot]", or take plan.draw() or '
            "plan.to_html(), which need nothing"
        ) from None

    made = Figure(figsize=(11, 8.5), layout="constrained")
    rows = made.add_gridspec(3, 1, height_ratios=(5, 2, 2))
    top, middle = made.add_subplot(rows[0]), made.add_subplot(rows[1])
    bottom = made.add_subplot(rows[2], sharex=middle)
    made.suptitle(_title(plan), fontsize=11)
    _draw_tree(plan, top)
    _draw_memory(plan, middle)
    _draw_cost(plan, bottom)
    return made


def _title(plan: Plan) -> str:
    parts = [counted(plan.tree.n, "operand"), counted(plan.cost, "multiplication")]
    text = ", ".join([*parts, f"peak {format_bytes(plan.peak_bytes)}"])
    if plan.sliced:
        names = Names(plan.network).listed(plan.sliced, 5)
        text += (
            f"\n{format_count(plan.n_slices)} slices of {names}; labels and sizes are those of one"
        )
    return _plain(text)


def _draw_tree(plan: Plan, axes: Axes) -> None:
    from matplotlib.collections import LineCollection

    shown = outline(plan.tree, plan.steps, MOST)
    across, down = places(shown)
    sizes = tensor_bytes(plan.steps)
    logs = [log10(sizes[node.tensor]) for node in shown.nodes]
    top = max(1.0, *logs)
    lines, widths = [], []
    for place, node in enumerate(shown.nodes[1:], 1):
        above = node.parent
        lines.append([(across[place], down[place]), (across[above], down[above])])
        widths.append(0.5 + 3.0 * max(0.0, logs[place]) / top)
    few = sum(not inside for inside in shown.children) <= NAMED
    axes.add_collection(LineCollection(lines, linewidths=widths, colors=TREE, alpha=0.6, zorder=1))
    _draw_nodes(plan, axes, shown, across, down, few)
    axes.set_ylim(max(down) + 0.9, -0.7)
    room = max(0.8, (0.3 * max(down) - max(across)) / 2)  # a path is no wide zigzag
    axes.set_xlim(-room, max(across) + room)
    axes.set_axis_off()
    if few:
        _name_all(plan, axes, shown, across, down)
    else:
        _mark_costliest(plan, axes, shown, across, down)
    if shown.n_hidden:
        axes.set_title(
            f"the costliest branches; {format_count(shown.n_hidden)} tensors are not shown",
            fontsize=9,
        )


def _draw_nodes(
    plan: Plan, axes: Axes, shown: Outline, across: list[float], down: list[int], few: bool
) -> None:
    """Operands as squares, results as circles of the colour of their cost."""
    from matplotlib.colors import LogNorm

    n = plan.tree.n
    leaves = [k for k, node in enumerate(shown.nodes) if node.tensor < n]
    results = [k for k, node in enumerate(shown.nodes) if node.tensor >= n]
    axes.scatter(
        [across[k] for k in leaves],
        [down[k] for k in leaves],
        s=30 if few else 6,
        c=TREE,
        marker="s",
        linewidths=0,
        zorder=2,
    )
    costs = [plan.steps[shown.nodes[k].tensor - n].cost for k in results]
    colours = [bounded(max(1, cost)) for cost in costs]
    high = max(colours)
    marks = axes.scatter(
        [across[k] for k in results],
        [down[k] for k in results],
        s=90 if few else 14,
        c=colours,
        cmap="YlOrRd",
        norm=LogNorm(min(min(colours), high / 10) / 3, high),  # the cheapest are no white
        edgecolors="#444444",
        linewidths=0.6 if few else 0.2,
        zorder=3,
    )
    axes.figure.colorbar(marks, ax=axes, label="multiplications of a step", pad=0.01, shrink=0.8)


def _name_all(plan: Plan, axes: Axes, shown: Outline, across: list[float], down: list[int]) -> None:
    names, n = Names(plan.network), plan.tree.n
    left, right = axes.get_xlim()
    width = max(4, min(24, int(85 / (right - left))))
    for node, x, y in zip(shown.nodes, across, down, strict=True):
        if node.tensor < n:
            labels = [x for x in plan.network.terms[node.tensor] if x not in plan.sliced]
            text = f"{node.tensor}\n{names.term(labels, width)}".removesuffix(f"\n{CUT}")
            _annotate(axes, text, (x, y), (0, -6), "center", "top")
        else:
            text = names.term(plan.steps[node.tensor - n].result, width)
            if text != CUT:
                _annotate(axes, text, (x, y), (0, 6), "center", "bottom")


def _mark_costliest(
    plan: Plan, axes: Axes, shown: Outline, across: list[float], down: list[int]
) -> None:
    """The numbers of the costliest steps, where they stand apart."""
    n = plan.tree.n
    steps = [(plan.steps[x.tensor - n].cost, k) for k, x in enumerate(shown.nodes) if x.tensor >= n]
    left, right = axes.get_xlim()
    marked: list[int] = []
    for cost, k in sorted(steps, key=lambda one: (-one[0], one[1]))[: 4 * MARKED]:
        near = any(
            abs(across[k] - across[x]) < 0.15 * (right - left)
            and abs(down[k] - down[x]) < 0.05 * max(down)
            for x in marked
        )
        if near or not plan.cost or cost / plan.cost < LEAST or len(marked) == MARKED:
            continue
        marked.append(k)
        text = f"step {shown.nodes[k].tensor - n}, {percent(cost / plan.cost)}"
        _annotate(axes, text, (across[k], down[k]), (7, 0), "left", "center")


def _annotate(
    axes: Axes, text: str, where: tuple[float, float], away: tuple[int, int], ha: str, va: str
) -> None:
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.5, foreground="white")]  # lines end beside the letters
    axes.annotate(
        _plain(text),
        where,
        away,
        textcoords="offset points",
        horizontalalignment=ha,
        verticalalignment=va,
        fontsize=8,
        path_effects=halo,
        zorder=4,
    )


def _draw_memory(plan: Plan, axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    drawn = memory(plan)
    edges = [k - 0.5 for k in range(len(plan.steps) + 1)]
    axes.stairs(drawn.alive, edges, color=MEMORY, alpha=0.15, fill=True, linewidth=0)
    axes.stairs(
        drawn.alive, edges, color=MEMORY, linewidth=1.4, baseline=None, label="tensors alive"
    )
    axes.stairs(
        drawn.results, edges, color=TREE, linewidth=1.0, baseline=None, label="result of the step"
    )
    peak = f"predicted peak, {format_bytes(plan.peak_bytes)}"
    axes.axhline(drawn.peak, color=MEMORY, linestyle=":", linewidth=1.4, label=peak)
    if plan.memory_limit is not None:
        limit = f"memory limit, {format_bytes(plan.memory_limit)}"
        if drawn.limit is None:  # far above
            axes.plot([], [], " ", label=limit)
        else:
            axes.axhline(drawn.limit, color=LIMIT, linestyle="--", linewidth=1.4, label=limit)
    if drawn.range.is_log:
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axes.set_ylim(drawn.range.low, drawn.range.high)
    axes.set_xlim(-0.5, len(plan.steps) - 0.5)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    axes.set_ylabel(drawn.unit)
    axes.tick_params(labelbottom=False)
    axes.legend(loc="upper left", bbox_to_anchor=BESIDE, fontsize=8, frameon=False)
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)


def _draw_cost(plan: Plan, axes: Axes) -> None:
    drawn = work(plan)
    edges = [k - 0.5 for k in range(len(plan.steps) + 1)]
    bars = axes.stairs(drawn.costs, edges, color=COST, fill=True, label="of the step")
    if drawn.range.is_log:
        axes.set_yscale("log", base=10)
    axes.set_ylim(drawn.range.low, drawn.range.high)
    axes.set_ylabel("multiplications")
    axes.set_xlabel("step")
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    right = axes.twinx()
    shares = [100 * share for share in drawn.shares]
    line = right.stairs(
        shares, edges, color="black", linewidth=1.0, baseline=None, label="so far, of all"
    )
    right.set_ylim(0, 105)
    right.yaxis.set_major_formatter(lambda value, _: f"{value:.0f}%")
    axes.legend(
        handles=[bars, line], loc="upper left", bbox_to_anchor=BESIDE, fontsize=8, frameon=False
    )


def _plain(text: str) -> str:
    """Without the signs that matplotlib reads as mathematics."""
    return text.replace("$", r"\$")
