"""A plan: the network, the tree found for it, and what that will cost; frozen, printable, storable."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base.errors import FileFormatError, OptionError
from .._base.numbers import format_bytes, format_count
from ..backend.cpu import cpu
from ..backend.spec import ArraySpec, Axes, Shape, dtype_from_name, dtype_name
from ..program.ir import Program
from ..program.parts import split_constants
from ..program.passes import optimise
from ..program.passes.layout_assignment import result_order
from ..program.schedule import Schedule, schedule
from ..program.serial import read_document
from ..program.sliced import Assembly, scaled_bytes, sliced_bytes
from . import show
from .arguments import has_exponent, is_number
from .bounds import Bound, lower_bound
from .cost import Cost, total_cost
from .lower import is_view, lower
from .network import Network
from .planners.problem import named
from .steps import PlannedStep, planned_steps
from .tree import ContractionTree, Path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = "einloom.plan"
VERSION = 5
"""1 had no sliced labels, 2 neither layouts nor exponents kept apart, 3 no memory limit, 4 no n_runs."""


@dataclass(frozen=True)
class Plan:
    """How a network will be contracted. `print` shows the steps; `to_json` and pickle are exact.

    Attributes:
        network: tensors, labels and sizes.
        tree: the contraction tree.
        dtypes: of the operands.
        dtype: of the result.
        objective: what was searched for.
        planner: by whom.
        seed: of the search.
        proof: "optimal" when no tree of pairwise steps is better by the objective, else None; of slices
            nothing is proven.
        conj: operands that are conjugated.
        order: memory order of the result, as NumPy's `order=`.
        constants: operands that keep their values from call to call.
        sliced: labels, by their numbers in the network, at whose values the contraction is cut into
            slices, which run one after the other; different ones, of one element or more.
        layouts: for each operand the order of its axes in memory, the slowest first, or None for
            row-major; empty if all are. Operands that lie otherwise work too, by copies.
        strip_exponent: whether the result is a mantissa and an exponent of ten.
        memory_limit: bytes that the peak is to stay below, or None: of several ways to run the steps, the
            fastest that does is taken, on any number of threads. Plans that differ in it alone are equal.
        n_runs: for how many calls it was searched; None for any number.
    """

    network: Network
    tree: ContractionTree
    dtypes: tuple[np.dtype[np.generic], ...]
    dtype: np.dtype[np.generic]
    objective: str = "time"
    planner: str = "path given"
    seed: int = 0
    proof: str | None = None
    conj: frozenset[int] = frozenset()
    order: str = "K"
    constants: frozenset[int] = frozenset()
    sliced: tuple[int, ...] = ()
    layouts: tuple[Axes | None, ...] = ()
    strip_exponent: bool = False
    memory_limit: int | None = field(default=None, compare=False)
    n_runs: int | None = None

    def __post_init__(self) -> None:
        if type(self.sliced) is not tuple or self.sliced:
            object.__setattr__(self, "sliced", _checked(self.sliced, self.network))

    def unproven(self, **changes: Any) -> Plan:
        """This plan with changes after which it is not known whether any is better."""
        return replace(self, proof=None, planner=named(self.planner, None), **changes)

    @property
    def path(self) -> Path:
        """opt_einsum's linear path, positions in the list of tensors that are left."""
        return self.tree.path

    @property
    def ssa_path(self) -> Path:
        """The path with a new number for every result; step k makes tensor n + k."""
        return self.tree.ssa_path

    @cached_property
    def totals(self) -> Cost:
        return total_cost(self.network, self.tree, self.sliced, self.constants)

    @cached_property
    def steps(self) -> tuple[PlannedStep, ...]:
        """The steps with what each reads, makes and costs, and the bytes that are alive meanwhile.

        `print`, `explain`, `draw`, `plot` and `to_html` show them."""
        return planned_steps(
            self.network, self.tree, self.dtypes, self.dtype, self.sliced, self.constants
        )

    @property
    def cost(self) -> int:
        """Scalar multiplications, over the steps the product of the sizes of all labels in the step.

        All slices count; steps that are the same in every slice are done, and count, once, and steps
        among constants, which are done before any call, not at all.
        """
        return self.totals.cost

    @property
    def constant_cost(self) -> int:
        """Scalar multiplications of the steps among constants, which are done once.

        n calls take constant_cost + n * cost together.

        >>> import einloom
        >>> for n_runs in (1, 100):
        ...     plan = einloom.plan(
        ...         "ij,jk,k->i", (10, 10), (10, 10), (10,), constants=[0, 1], n_runs=n_runs
        ...     )
        ...     print(n_runs, plan.constant_cost, plan.cost)
        1 0 200
        100 1000 100
        """
        return self.totals.before

    @property
    def flops(self) -> int:
        """opt_einsum's count, 2 * cost for a step that sums a label, else cost; and adding up slices."""
        return self.totals.flops

    @property
    def largest_intermediate(self) -> int:
        """Elements of the largest result of a step, in one slice."""
        return self.totals.largest_intermediate

    @cached_property
    def lower_bound(self) -> Bound:
        """Multiplications that every tree of pairwise contractions makes at least, and its largest step.

        Both are the least values for up to 12 operands. Of large networks it takes seconds, on first use.
        The cost may be below it where it leaves out steps among constants, or where steps have one operand
        or more than two.

        >>> import einloom
        >>> plan = einloom.plan("ij,jk,kl->il", (8, 8), (8, 100), (100, 8), planner=[(0, 1), (0, 1)])
        >>> plan.cost, plan.lower_bound
        (12800, Bound(cost=6912, largest=6400))
        """
        return lower_bound(self.network)

    @property
    def n_slices(self) -> int:
        """The number of slices, the product of the sizes of the sliced labels."""
        return math.prod(self.network.extents[label] for label in self.sliced)

    @cached_property
    def program(self) -> Program:
        """The program of this plan, or of one slice of it, after all passes."""
        # slices are written into parts of the result, which is row-major where nobody asked
        order = "C" if self.sliced and self.order != "F" else self.order
        return optimise(self.lowered, order)

    @property
    def lowered(self) -> Program:
        """The program as lowered, before any pass."""
        return lower(
            self.network,
            self.tree,
            self.dtypes,
            self.dtype,
            self.conj,
            self.sliced,
            self.layouts,
            self.strip_exponent,
        )

    @property
    def assembly(self) -> Assembly:
        """How the result is put together from slices."""
        net = self.network
        shape = tuple(net.extents[label] for label in net.output_axes)
        number = {label: k for k, label in enumerate(self.sliced)}
        return Assembly(
            ArraySpec(self.dtype, shape), tuple(number.get(label) for label in net.output_axes)
        )

    @cached_property
    def peak_bytes(self) -> int:
        """Operands, intermediates, scratch and result at the worst moment of a call, in bytes; or of what is
        computed of the constants before any call."""
        program, once = self.program, 0
        if self.constants:
            before, program = split_constants(program, self.constants)
            once = schedule(before, cpu(), fork=False).peak_bytes
        if self.sliced:
            count = scaled_bytes if self.strip_exponent else sliced_bytes
            return max(once, count(program, self.assembly, cpu()).peak_bytes)
        return max(once, self._scheduled(program).peak_bytes + self.copied_bytes)

    @property
    def scheduled(self) -> Schedule:
        """How the program runs, with labels sliced that of one slice."""
        return self._scheduled(self.program)

    def _scheduled(self, program: Program) -> Schedule:
        return schedule(program, cpu(), limit=self.room, fork=not self.sliced)

    @property
    def room(self) -> int | None:
        """What the memory limit leaves for the program; None without one."""
        if self.memory_limit is None:
            return None
        return self.memory_limit - self.copied_bytes

    @property
    def copied_bytes(self) -> int:
        """The size of a copy of the result into the order asked for, where it is not made in it."""
        output = self.program.outputs[0]
        axes = tuple(range(len(self.program.slots[output].shape)))
        wanted = {"C": axes, "F": axes[::-1]}.get(self.order)
        is_made = wanted is not None and result_order(self.program, output) == wanted
        return 0 if self.order == "K" or is_made else self.program.slots[output].nbytes

    def explain(self) -> str:
        """What dominates this plan, and what more slices or more memory would change.

        Of the multiplications, of the bytes that steps read and write, and of the time that the cost model
        predicts, the few steps, or instructions as they run, that make most of it, with their shares. How
        many multiplications any tree makes at least, and how far this plan is from that at most. Then on
        the same tree: one label more sliced, the one that lowers the peak most for the least work; and the
        labels sliced anew for twice the memory limit, or twice the peak if none is set. It searches for no
        tree, and leaves out what would take long: time and slicing of more than 1000 steps.

        Returns:
            str: to be printed.

        >>> import einloom
        >>> plan = einloom.plan("ij,jk,kl->il", (8, 8), (8, 100), (100, 8))
        >>> print("\\n".join(plan.explain().splitlines()[:2]))
        cost: 6912 multiplications; 1 of 2 steps makes 92.6%
          step 0: jk × kl → jl                                            6400   92.6%
        """
        from .views.advice import advice  # which reads plans

        return advice(self)

    def draw(self, width: int = 100, depth: int = 12, rows: int = 40) -> str:
        """The contraction tree in characters, the result above what it is made of.

        A line for each tensor: its labels, its size, and its step's share of the cost. Of a large tree the
        costliest branches are shown. (`tree` is the tree itself.)

        Args:
            width: characters of a line.
            depth: steps below the result that are shown at most.
            rows: tensors that are shown at most, unless the last step alone has more operands.

        Returns:
            str: to be printed.

        Raises:
            OptionError: an argument is no integer, or too small.

        >>> import einloom
        >>> plan = einloom.plan("ij,jk,kl->il", (8, 8), (8, 100), (100, 8))
        >>> print(plan.draw(width=64))
        3 operands, 6912 multiplications
                                                  size   cost
        step 1: il                               512 B   7.4%  ▋
        ├─ operand 0: ij                         512 B
        └─ step 0: jl                            512 B  92.6%  ███████▍
           ├─ operand 1: jk                   6.25 KiB
           └─ operand 2: kl                   6.25 KiB
        """
        from .views.drawing import drawing  # which reads plans

        return drawing(self, width, depth, rows)

    def plot(self) -> Figure:
        """The contraction tree, and memory and cost over the steps, as a figure of matplotlib.

        In the tree a result stands above what it is made of, the thicker the line the larger the tensor; its
        colour tells the cost of its step. The line of memory is the sum of the tensors that exist during a
        step; the peak is that of the program as it runs, with what kernels need for themselves.

        Returns:
            matplotlib.figure.Figure: of no window; `savefig` writes it.

        Raises:
            Unsupported: matplotlib is not installed.
        """
        from .views.figure import figure  # which reads plans

        return figure(self)

    def to_html(self) -> str:
        """One HTML page that needs no other file and no network: facts, the tree, memory and cost over the
        steps, and a table of the steps, in light or dark colours as the reader's system has them.

        Returns:
            str: the page, to be written to a file in UTF-8.

        >>> import einloom
        >>> page = einloom.plan("ij,jk,kl->il", (8, 8), (8, 100), (100, 8)).to_html()
        >>> page.startswith("<!DOCTYPE html>"), page.count("<svg")
        (True, 3)
        """
        from .views.page import page  # which reads plans

        return page(self)

    def to_opt_einsum(self) -> Any:
        """opt_einsum's report on this path, made by opt_einsum itself: costs as it counts them, unsliced.

        Returns:
            opt_einsum.contract.PathInfo: its `path` is that of the plan, and `print` shows its table. Labels
            that are no single characters become opt_einsum's symbols.

        Raises:
            Unsupported: the result repeats a label.

        >>> import einloom
        >>> info = einloom.plan("ij,jk,kl->il", (8, 8), (8, 100), (100, 8)).to_opt_einsum()
        >>> info.eq, info.path, int(info.opt_cost)
        ('ij,jk,kl->il', [(1, 2), (0, 1)], 13824)
        """
        from .views.exports import to_opt_einsum  # which reads plans

        return to_opt_einsum(self)

    def to_cotengra(self) -> Any:
        """The same tree as one of cotengra, with the same labels sliced.

        cotengra's trees are binary: where a step has more than two operands, cotengra orders them greedily.
        Conjugates, constants and layouts are no part of a tree.

        Returns:
            cotengra.ContractionTree: its labels are the user's if all are single characters, otherwise
            symbols in the order of `network.labels`.

        Raises:
            Unsupported: cotengra is not installed, or the result repeats a label.
        """
        from .views.exports import to_cotengra  # which reads plans

        return to_cotengra(self)

    def to_json(self) -> str:
        """One JSON document; labels other than strings, integers and tuples of these become integers."""
        net = self.network
        labels = [_label_to_json(label) for label in net.labels]
        renamed = any(label is None for label in labels)
        return json.dumps(
            {
                "format": FORMAT,
                "version": VERSION,
                "einloom": _version(),
                "labels": list(range(len(labels))) if renamed else labels,
                "labels_replaced": renamed,
                "terms": net.terms,
                "shapes": net.shapes,
                "output": net.output_axes,
                "extents": net.extents,
                "ssa_path": self.tree.ssa_path,
                "dtypes": [dtype_name(dtype) for dtype in self.dtypes],
                "dtype": dtype_name(self.dtype),
                "objective": self.objective,
                "planner": self.planner,
                "seed": self.seed,
                "proof": self.proof,
                "conj": sorted(self.conj),
                "order": self.order,
                "constants": sorted(self.constants),
                "sliced": self.sliced,
                "layouts": self.layouts,
                "strip_exponent": self.strip_exponent,
                "memory_limit": self.memory_limit,
                "n_runs": self.n_runs,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan of a JSON document, checked as if it were made anew."""
        data = read_document(text, FORMAT, VERSION)
        try:
            return _from_document(data)
        except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
            raise FileFormatError(f"{FORMAT}: the document lacks or garbles {error}") from None

    def __str__(self) -> str:
        proof = f" ({self.proof})" if self.proof not in (None, self.planner) else ""
        notes = [
            ("Conjugated operands", ", ".join(map(str, sorted(self.conj)))),
            ("Constants", ", ".join(map(str, sorted(self.constants)))),
            ("Before the first call", self._before_in_words()),
            ("Result", "mantissa, exponent of ten" if self.strip_exponent else ""),
            *self._slices_in_words(),
        ]
        return show.table(
            self.network,
            self.tree,
            self.lowered,
            self.steps,
            totals=self.totals,
            peak_bytes=self.peak_bytes,
            planner=self.planner + proof,
            notes=[(name, text) for name, text in notes if text],
            sliced=self.sliced,
        )

    def _before_in_words(self) -> str:
        if not self.constant_cost:
            return ""
        runs = "" if self.n_runs is None else f", of {format_count(self.n_runs)} calls"
        return f"{format_count(self.constant_cost)} multiplications{runs}"

    def _slices_in_words(self) -> list[tuple[str, str]]:
        if not self.sliced:
            return []
        names = ", ".join(map(self.network.name, self.sliced))
        whole = max(1, total_cost(self.network, self.tree).cost)
        extra = self.cost // whole
        times = format_count(extra) if extra > 1000 else f"{self.cost / whole:.3g}"
        return [
            ("Sliced labels", f"{names} ({format_count(self.n_slices)} slices)"),
            ("Cost of slicing", f"{times} times the multiplications"),
        ]

    def __repr__(self) -> str:
        return (
            f"<Plan of {len(self.network.terms)} operands by {self.planner}: "
            f"cost {format_count(self.cost)}, peak {format_bytes(self.peak_bytes)}>"
        )


def _from_document(data: dict[str, Any]) -> Plan:
    labels = [_label_from_json(label) for label in data["labels"]]
    terms, extents, output = _axes(data["terms"]), _ints(data["extents"]), _ints(data["output"])
    shapes = _axes(data["shapes"])
    if min((label for term in (*terms, output) for label in term), default=0) < 0:
        raise ValueError("a negative label")
    plain = Network(
        [[labels[label] for label in term] for term in terms],
        [labels[label] for label in output],
        dict(zip(labels, extents, strict=True)),
        embed_diagonal=True,
    )
    for term, shape in zip(terms, shapes, strict=True):
        for label, n in zip(term, shape, strict=True):
            if n not in (1, extents[label]):
                raise ValueError(f"an axis of size {n} for label {labels[label]!r}")
    network = Network.__new__(Network)
    network._set(terms, shapes, output, extents, tuple(labels))
    if plain.labels != network.labels or len(data["dtypes"]) != len(terms):
        raise ValueError("labels out of order")
    dtypes = tuple(dtype_from_name(name) for name in data["dtypes"])
    dtype = dtype_from_name(data["dtype"])
    _check_values(data, len(terms))
    if not all(map(is_number, (*dtypes, dtype))) and not (is_view(network) and dtypes == (dtype,)):
        raise ValueError(f"dtypes that cannot be multiplied: {data['dtypes']} -> {data['dtype']}")
    return Plan(
        network=network,
        tree=ContractionTree(len(terms), _axes(data["ssa_path"])),
        dtypes=dtypes,
        dtype=dtype,
        objective=data["objective"],
        planner=data["planner"],
        seed=data["seed"],
        proof=data["proof"],
        conj=frozenset(_ints(data["conj"])),
        order=data["order"],
        constants=frozenset(_ints(data["constants"])),
        sliced=_ints(data["sliced"]) if data["version"] > 1 else (),
        layouts=_layouts(data, shapes),
        strip_exponent=_strips(data, dtype),
        memory_limit=_limit(data),
        n_runs=_runs(data),
    )


def _layouts(data: dict[str, Any], shapes: tuple[Shape, ...]) -> tuple[Axes | None, ...]:
    given = data["layouts"] if data["version"] > 2 else ()
    layouts = tuple(None if axes is None else _ints(axes) for axes in given)
    if layouts and len(layouts) != len(shapes):
        raise ValueError(f"layouts, got {given!r:.40}")
    for axes, shape in zip(layouts, shapes, strict=False):
        if axes is not None and sorted(axes) != list(range(len(shape))):
            raise ValueError(f"layouts, got {given!r:.40}")
    return layouts


def _strips(data: dict[str, Any], dtype: np.dtype[np.generic]) -> bool:
    strips = data["strip_exponent"] if data["version"] > 2 else False
    if type(strips) is not bool or (strips and not has_exponent(dtype)):
        raise ValueError(f"strip_exponent, got {strips!r:.40} for {dtype}")
    return strips


def _limit(data: dict[str, Any]) -> int | None:
    limit = data["memory_limit"] if data["version"] > 3 else None
    if limit is not None and (type(limit) is not int or limit < 0):
        raise ValueError(f"memory_limit, got {limit!r:.40}")
    return limit


def _runs(data: dict[str, Any]) -> int | None:
    runs = data["n_runs"] if data["version"] > 4 else None
    if runs is not None and (type(runs) is not int or runs < 1):
        raise ValueError(f"n_runs, got {runs!r:.40}")
    return runs


def _checked(sliced: Any, network: Network) -> tuple[int, ...]:
    """Different labels, each of some tensor and with elements."""
    carried = frozenset().union(*network.carried)
    try:
        labels = tuple(map(index, sliced))
    except TypeError:
        raise OptionError(
            f"Plan(sliced={sliced!r:.80}): give a tuple of labels, which are numbers"
        ) from None
    for at, label in enumerate(labels):
        if label not in carried:
            wrong = f"no label of any tensor; these are {sorted(carried)!r:.80}"
        elif label in labels[:at]:
            wrong = "given twice"
        elif network.extents[label] == 0:
            wrong = f"label {network.name(label)!r}, of size 0, which has no slices"
        else:
            continue
        raise OptionError(f"Plan(sliced={sliced!r:.80}): {label} is {wrong}")
    return labels


def _check_values(data: dict[str, Any], n: int) -> None:
    for key, kind in (("objective", str), ("planner", str), ("seed", int), ("proof", str)):
        if type(data[key]) is not kind and not (key == "proof" and data[key] is None):
            raise TypeError(f"{key}, got {data[key]!r:.40}")
    if data["order"] not in ("C", "F", "A", "K"):
        raise ValueError(f"order, got {data['order']!r:.40}")
    for key in ("conj", "constants"):
        if not all(0 <= position < n for position in _ints(data[key])):
            raise ValueError(f"{key}, got {data[key]!r:.40}")


def _axes(value: Sequence[Sequence[Any]]) -> tuple[tuple[int, ...], ...]:
    return tuple(_ints(row) for row in value)


def _ints(row: Sequence[Any]) -> tuple[int, ...]:
    if any(type(item) is not int for item in row):
        raise TypeError(f"integers, got {row!r:.40}")
    return tuple(row)


def _label_to_json(label: Any) -> Any:
    """Strings and integers as they are, tuples as {"tuple": [...]}, anything else None."""
    if type(label) in (str, int):
        return label
    if type(label) is tuple:
        items = [_label_to_json(item) for item in label]
        return None if None in items else {"tuple": items}
    return None


def _label_from_json(label: Any) -> Any:
    if isinstance(label, dict):
        return tuple(_label_from_json(item) for item in label["tuple"])
    return label


def _version() -> str:
    from .. import __version__

    return __version__
