"""`plan_set` and `compile_set`: several equations over the same operands, what they share computed once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from .._base.errors import CallError, DTypeError, OptionError, ShapeError
from .._base.numbers import format_bytes, format_count
from .._base.options import options
from ..backend.cpu import cpu
from ..backend.door import as_ndarray
from ..backend.spec import ArraySpec, compute_dtype, dtype_name
from ..program.executable import Executable, unshared
from ..program.ir import Program
from ..program.sliced import SlicedExecutable
from .api import _planned
from .arguments import as_dtype, memory_limit_bytes, spec_of
from .delivery import native
from .plan import Plan
from .plan_cache import name_of
from .plan_set_file import set_from_json, set_to_json
from .planners import Problem
from .set_groups import Group, grouped, names_of, peak_of, program_of, results_bytes, room_of
from .sharing import shared, steps_of
from .values import Values
from .weigh import rates

OBJECTIVES = ("time", "flops", "write")
ROWS = 40  # equations that `print` shows


@dataclass(frozen=True)
class PlanSet:
    """How several equations over the same operands will be contracted: `print` shows it, `to_json` keeps it.

    Attributes:
        plans: of each equation; what several of them compute they compute by the same steps.
        operands: names of the operands.
        specs: dtype and shape of each.
        terms: for each equation the names of its operands.
        keys: names of the results, or None where they have none.
        apart: multiplications of the best plans of each equation by itself.
        groups: within a memory limit, the equations that run together, one group after another; empty where
            all do. What is sliced is a group of its own.
        memory_limit: bytes that the peak is to stay below, or None. Sets that differ in it alone are equal.
    """

    plans: tuple[Plan, ...]
    operands: tuple[str, ...]
    specs: tuple[ArraySpec, ...]
    terms: tuple[tuple[str, ...], ...]
    keys: tuple[Hashable, ...] | None
    apart: int
    groups: tuple[Group, ...] = ()
    memory_limit: int | None = field(default=None, compare=False)

    @property
    def parts(self) -> tuple[Group, ...]:
        """The equations that run together, one group after another."""
        return self.groups or (tuple(range(len(self.plans))),)

    @cached_property
    def _steps(self) -> list[list[int]]:
        """The multiplications of each different step of a group, once for each equation that takes it; of
        an equation that is not shared, all of its steps as one."""
        found: list[list[int]] = []
        for group in self.parts:
            joint = [k for k in group if _is_joint(self.plans[k])]
            made = _values([self.plans[k] for k in joint], [self.terms[k] for k in joint])
            found += steps_of(made, [self.plans[k].tree for k in joint]).values()
            found += [[self.plans[k].cost] for k in group if not _is_joint(self.plans[k])]
        return found

    @property
    def cost(self) -> int:
        """Scalar multiplications of all steps; one that several equations take counts once."""
        return sum(step[0] for step in self._steps)

    @property
    def n_steps(self) -> int:
        """Different steps."""
        return len(self._steps)

    @property
    def n_shared(self) -> int:
        """Different steps that more than one equation takes."""
        return sum(len(step) > 1 for step in self._steps)

    @cached_property
    def programs(self) -> tuple[Program, ...]:
        """Of each group one program with a result for each equation, after all passes; of one that is
        sliced, that of a slice."""
        return tuple(program_of(self, self.plans, group) for group in self.parts)

    @property
    def program(self) -> Program:
        """The program of all equations, where they run together."""
        if len(self.programs) > 1:
            raise CallError(
                f"PlanSet.program: within the memory limit the equations run in {len(self.parts)} groups; "
                f"`programs` has one for each"
            )
        return self.programs[0]

    @cached_property
    def peak_bytes(self) -> int:
        """Operands, intermediates, scratch and all results at the worst moment of a call, in bytes."""
        worst = done = 0
        for group in self.parts:
            worst = max(worst, peak_of(self, self.plans, group, done))
            done += results_bytes(self.plans, group)
        return worst

    def to_json(self) -> str:
        """One JSON document; names of results other than strings, integers and tuples of these become
        integers."""
        return set_to_json(self)

    @classmethod
    def from_json(cls, text: str) -> PlanSet:
        """The set of a JSON document, checked as if it were made anew."""
        return set_from_json(text)

    def __str__(self) -> str:
        saved = 1 - self.cost / self.apart if self.apart else 0.0
        lines = [
            f"{len(self.plans)} equations over {len(self.operands)} operands",
            f"{format_count(self.cost)} multiplications, {format_count(self.apart)} apart "
            f"({saved:.1%} saved)",
            f"{self.n_steps} steps, of which several equations take {self.n_shared}",
            f"peak {format_bytes(self.peak_bytes)}{self._groups_in_words()}",
        ]
        for k, (plan, names) in enumerate(zip(self.plans, self.terms, strict=True)):
            if k == ROWS:
                lines.append(f"  ... {len(self.plans) - ROWS} more")
                break
            result = k if self.keys is None else self.keys[k]
            lines.append(
                f"  {result}: {' '.join(names):.60}, {format_count(plan.cost)} multiplications"
            )
        return "\n".join(lines)

    def _groups_in_words(self) -> str:
        if not self.groups:
            return ""
        n_sliced = sum(bool(plan.sliced) for plan in self.plans)
        return f", in {len(self.groups)} groups, {n_sliced} of them in slices"

    def __repr__(self) -> str:
        return f"<PlanSet of {len(self.plans)} equations: cost {format_count(self.cost)}>"


class ExpressionSet:
    """Contracts the operands of a PlanSet: `expr(A=a, B=b)` or `expr({"A": a, "B": b})`.

    What comes back is a tuple with a result for each equation, or a dict if the equations had names.
    Safe from several threads.
    """

    def __init__(self, plan: PlanSet) -> None:
        self.plan = plan
        self._executables: list[Executable | SlicedExecutable] = []
        done = 0
        for group, program in zip(plan.parts, plan.programs, strict=True):
            first = plan.plans[group[0]]
            self._executables.append(
                SlicedExecutable(program, first.assembly, cpu())
                if first.sliced
                else Executable(program, cpu(), limit=room_of(plan, group, done))
            )
            done += results_bytes(plan.plans, group)

    @property
    def program(self) -> Program:
        """The program of all equations after all passes, where they run together."""
        return self.plan.program

    @property
    def source(self) -> str:
        """The generated Python functions, one for each group."""
        return "\n\n".join(executable.source for executable in self._executables)

    @property
    def peak_bytes(self) -> int:
        """Predicted peak of operands, intermediates, scratch and results."""
        return self.plan.peak_bytes

    def __call__(self, arrays: Mapping[str, Any] | None = None, /, **named: Any) -> Any:
        given = {**(arrays or {}), **named}
        names = self.plan.operands
        if given.keys() != set(names):
            missing = [name for name in names if name not in given]
            unknown = [name for name in given if name not in names]
            what = f"{missing[0]!r} is missing" if missing else f"there is no {unknown[0]!r}"
            raise CallError(f"expression: {what}; the operands are {', '.join(names)}")
        operands = [
            native(as_ndarray(given[name], "expression", k)) for k, name in enumerate(names)
        ]
        for name, x, spec in zip(names, operands, self.plan.specs, strict=True):
            if x.shape != spec.shape:
                raise ShapeError(
                    f"expression: {name} has shape {x.shape}, compiled for {spec.shape}; compile again for "
                    f"other shapes"
                )
            if x.dtype != spec.dtype:
                raise DTypeError(
                    f"expression: {name} has dtype {x.dtype}, compiled for {dtype_name(spec.dtype)}; convert "
                    f"it (x.astype), or compile again for other dtypes"
                )
        made = unshared(self._run(dict(zip(names, operands, strict=True))))
        results = tuple(x[()] if x.ndim == 0 else x for x in made)
        return (
            results if self.plan.keys is None else dict(zip(self.plan.keys, results, strict=True))
        )

    def _run(self, operands: Mapping[str, Any]) -> list[Any]:
        """The result of each equation, group by group; only one group keeps memory between calls."""
        plan, results = self.plan, list[Any]()
        for group, executable in zip(plan.parts, self._executables, strict=True):
            if isinstance(executable, SlicedExecutable):
                (k,) = group
                results.append(executable(*(operands[name] for name in plan.terms[k])))
            else:
                made = executable.run(*(operands[name] for name in names_of(plan, group)))
                results += made if len(group) > 1 else (made,)
            if len(plan.parts) > 1:
                executable.release()
        return results

    def __reduce__(self) -> tuple[Any, ...]:
        return ExpressionSet, (self.plan,)

    def __repr__(self) -> str:
        return f"<ExpressionSet of {len(self.plan.plans)} equations over {len(self.plan.operands)} operands>"


def plan_set(
    equations: Iterable[Sequence[Any]] | Mapping[Any, Sequence[Any]],
    operands: Mapping[str, Any],
    *,
    dtype: Any = None,
    objective: str = "time",
    planner: Any = "auto",
    memory_limit: int | float | str | None = None,
    budget: int | float | None = None,
    seed: int = 0,
) -> PlanSet:
    """Find in which order to contract several equations over the same operands.

    The sum over the different steps of all trees is made small: a step that several trees have in common is
    done once. It is never more than the sum of the plans of each equation by itself.

    Args:
        equations: for each the subscripts, as for `einsum`, and the names of its operands:
            `("ij,jk->ik", "A", "B")`. Labels mean something in their own equation only. A dict names the
            results.
        operands: {name: array or shape}. Arrays are looked at for shape, dtype and order in memory.
        dtype: of shapes and of the results, as in `plan`.
        objective: "time", "flops" or "write".
        planner: the name of a planner, for each equation by itself.
        memory_limit: bytes that the predicted peak must not exceed, as in `plan`: operands, all results and
            what is in between. Where it would, neighbouring equations run in groups, one after another, that
            share nothing; what does not fit by itself is sliced.
        budget: of each of these searches, as in `plan`.
        seed: the same seed gives the same plans.

    Returns:
        PlanSet: frozen; `compile_set` takes it.

    Raises:
        SubscriptError, ShapeError, DTypeError, OptionError: bad input, named.
        CallError: an operand that is missing, or no equation.
        MemoryLimitError: an equation does not fit beside the operands and the results before it, in slices.

    Complexity: of up to eight tensors all trees are looked at, 3^n for each equation; of more, trees of other
    equations, n^2 for each.

    >>> both = plan_set([("ij,jk,kl->il", "A", "B", "C"), ("ij,jk,kl->il", "A", "B", "D")],
    ...                 {"A": (9, 50), "B": (50, 10), "C": (10, 20), "D": (10, 30)}, objective="flops")
    >>> both.cost, both.apart
    (9000, 13500)
    """
    expressions, keys = _listed(equations)
    if objective not in OBJECTIVES:
        raise OptionError(
            f"plan_set(objective={objective!r}): what steps add up is shared; give one of "
            f"{', '.join(OBJECTIVES)}"
        )
    if name_of(planner) is None:
        raise OptionError(
            f"plan_set(planner={planner!r:.60}): the trees are chosen together; give a planner's name"
        )
    names = tuple(dict.fromkeys(name for _, *given in expressions for name in given))
    for name in names:
        if name not in operands:
            raise CallError(f"plan_set: operand {name!r} is named by an equation and not given")
    limit = memory_limit_bytes(memory_limit, "plan_set")

    def alone(k: int, room: int | None) -> Plan:
        text, *given = expressions[k]
        with options(memory_limit=None):  # that is of all together
            return _planned(
                "plan_set", text, [operands[name] for name in given], dtype, (),
                objective=objective, planner=planner, memory_limit=room, budget=budget, seed=seed,
            )  # fmt: skip

    apart = [alone(k, None) for k in range(len(expressions))]
    if any(plan.planner.startswith("parentheses") for plan in apart):
        raise OptionError("plan_set: the order is chosen for all equations; leave out parentheses")
    terms = tuple(tuple(given) for _, *given in expressions)
    wanted = as_dtype(dtype, "plan_set")
    specs = [spec_of(operands[name], wanted, "plan_set", k) for k, name in enumerate(names)]
    specs = [replace(spec, dtype=spec.dtype.newbyteorder("=")) for spec in specs]
    found = PlanSet(
        _joint(apart, terms),
        names,
        tuple(specs),
        terms,
        keys,
        sum(plan.cost for plan in apart),
        memory_limit=limit,
    )
    if limit is None or found.peak_bytes <= limit:
        return found
    plans, groups = grouped(found, alone)
    return replace(found, plans=plans, groups=groups)


def compile_set(
    equations: PlanSet | Iterable[Sequence[Any]] | Mapping[Any, Sequence[Any]],
    operands: Mapping[str, Any] | None = None,
    **planning: Any,
) -> ExpressionSet:
    """Plan and compile several equations over the same operands, to be called many times.

    Args:
        equations: as in `plan_set`, or a PlanSet (then nothing else is given).
        operands: as in `plan_set`; arrays are not kept.
        planning: further arguments of `plan_set`.

    Returns:
        ExpressionSet: `expr(A=a, B=b)`, or `expr({"A": a, "B": b})`, a tuple or dict of results.

    >>> import numpy as np
    >>> expr = compile_set([("ij,jk->ik", "A", "B"), ("ij,jk->", "A", "B")], {"A": (2, 3), "B": (3, 2)})
    >>> product, total = expr(A=np.ones((2, 3)), B=np.ones((3, 2)))
    >>> product.tolist(), float(total)
    ([[3.0, 3.0], [3.0, 3.0]], 12.0)
    """
    if isinstance(equations, PlanSet):
        if operands is not None or planning:
            raise CallError("compile_set: a PlanSet already fixes shapes and trees; give it alone")
        return ExpressionSet(equations)
    if operands is None:
        raise CallError("compile_set: give operands, {name: array or shape}, with the equations")
    return ExpressionSet(plan_set(equations, operands, **planning))


def _listed(equations: Any) -> tuple[list[tuple[Any, ...]], tuple[Hashable, ...] | None]:
    keys = tuple(equations) if isinstance(equations, Mapping) else None
    try:
        listed = [tuple(one) for one in (equations if keys is None else equations.values())]
    except TypeError:
        listed = []
    fits = all(len(one) > 1 and all(isinstance(x, str) for x in one) for one in listed)
    if not listed or not fits or isinstance(equations, str):
        raise CallError(
            f'plan_set: give for each equation subscripts and names, ("ij,jk->ik", "A", "B"); got '
            f"{equations!r:.80}"
        )
    return listed, keys


def _is_joint(plan: Plan) -> bool:
    """Whether steps of the plan may be shared: it has some, something to multiply, and no slices."""
    return len(plan.network.terms) > 1 and 0 not in plan.network.extents and not plan.sliced


def _values(plans: Sequence[Plan], terms: Sequence[Sequence[str]]) -> list[Values]:
    keys: dict[Any, int] = {}
    return [
        Values(
            plan.network, names, dtype_name(compute_dtype(plan.dtype)), keys,
            rates(Problem(plan.objective, itemsize=plan.dtype.itemsize)),  # type: ignore[arg-type]
        )
        for plan, names in zip(plans, terms, strict=True)
    ]  # fmt: skip


def _joint(apart: Sequence[Plan], terms: Sequence[tuple[str, ...]]) -> tuple[Plan, ...]:
    """The plans with trees that were chosen together."""
    plans = list(apart)
    joint = [k for k, plan in enumerate(plans) if _is_joint(plan)]
    if not joint:
        return tuple(plans)
    chosen = [plans[k] for k in joint]
    trees = shared(_values(chosen, [terms[k] for k in joint]), [plan.tree for plan in chosen])
    for k, tree in zip(joint, trees, strict=True):
        plans[k] = replace(plans[k], tree=tree, planner="shared", proof=None)
    return tuple(plans)


__all__ = ["ExpressionSet", "PlanSet", "compile_set", "plan_set"]
