"""`plan` and `compile`: decide once, run many times."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from logging import DEBUG
from typing import Any

import numpy as np

from .._base.errors import (
    CallError,
    ConversionError,
    DTypeError,
    MemoryLimitError,
    OptionError,
    PathError,
    ShapeError,
)
from .._base.log import log
from .._base.numbers import format_bytes, format_count, format_seconds
from .._base.options import get_options
from ..backend import get
from ..backend.choice import shown
from ..backend.door import as_ndarray
from ..backend.protocol import Backend
from ..backend.spec import ArraySpec, Axes
from .arguments import (
    FLOAT64,
    DType,
    are_shapes,
    as_dtype,
    conj_positions,
    constant_positions,
    exponent_flag,
    memory_limit_bytes,
    memory_order,
    result_dtype,
    spec_of,
    split_call,
)
from .expression import Expression
from .groups import plan_groups
from .lower import is_view
from .network import Network
from .notation import Equation, Group, resolve
from .plan import Plan
from .plan_cache import met_once, name_of, remembering
from .planners import (
    Candidate,
    Objective,
    Planner,
    Problem,
    as_planner,
    named,
    random_greedy,
    sliced,
)
from .planners.core.run import PLAIN
from .reuse import reusing, searches, weight_of
from .slicing import fixed_bytes, slice_to
from .start import as_it_is, from_start

OBJECTIVES = ("time", "flops", "size", "write", "peak")
# what is searched for, with so many seeds each, where another figure decides
TRIED: tuple[Objective, ...] = ("size", "write", "time")
SEEDS = 2
# results of the largest size that are alive at once, as a first guess; what part of a limit is near it
ALIVE, NEAR = 3.0, 0.6
MOST_AXES = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32


def plan(
    equation_or_network: Any,
    *shapes_or_arrays: Any,
    dtype: Any = None,
    objective: str | Callable[[Plan], float] = "time",
    planner: Any = "auto",
    memory_limit: int | float | str | None = None,
    budget: int | float | None = None,
    seed: int = 0,
    constants: Iterable[int] = (),
    order: str = "K",
    conj: Iterable[int] = (),
    embed_diagonal: bool = False,
    strip_exponent: bool = False,
    n_runs: int | None = None,
    start: Any = None,
) -> Plan:
    """Find in which order to contract: out[o] = sum over the other labels of the product of operands.

    Args:
        equation_or_network: subscripts as for `einsum`, or a `Network`. The interleaved form,
            `plan(a, ["i", "j"], b, ["j", "k"])`, is read as well.
        shapes_or_arrays: for each operand an array, or its shape as a tuple of integers. The order of a
            large array's axes in memory is planned for.
        dtype: of shapes and of the result; default float64 for shapes, promotion for arrays.
        objective: "time" (multiplications, and elements read and written at what they cost), "flops"
            (fewest multiplications), "size" (smallest largest intermediate), "write" (fewest elements
            written), "peak" (fewest bytes at once, as it will run); or a function of a Plan that returns what
            is to be small. Of "peak" and a function, the best of several plans that were searched for other
            objectives is taken.
        planner: "auto", "greedy", "random-greedy", "elimination", "optimal", "dp", "kahypar" (where it is
            installed); True, False (one step); a linear path; an optimizer of opt_einsum or cotengra; a
            function marked by `planners.planner`.
        memory_limit: bytes, a string such as "4GiB", or a fraction (< 1) of what is available, that
            the predicted peak must not exceed. Where it would, steps run one after another, and labels are
            sliced if that is not enough.
        budget: runs of the searching planners, an integer; or seconds, a float: then the plan depends on
            the machine. More find no worse plan. Default: as many runs as the predicted cost is worth.
        seed: the same seed gives the same plan.
        constants: positions of operands that keep their values; they are recorded in the plan.
        order: memory order of the result, as in numpy.einsum.
        conj: positions of operands to conjugate.
        embed_diagonal: allow repeated output labels.
        strip_exponent: as in `einsum`: what is compiled from the plan returns mantissa and exponent.
        n_runs: how often the plan will be called. What n calls take together is made small, steps among
            constants once; and so many calls are worth so much more planning. None: any number, so that what
            is done once does not count.
        start: a tree to begin with, which is refined as long as the budget allows: a Plan, of this network
            or one that differs a little; or a path of this network. What comes out is never worse.

    Returns:
        Plan: frozen; `print` shows a table, `path` is opt_einsum's.

    Raises:
        SubscriptError, ShapeError, DTypeError, PathError, OptionError: bad input, named.
        MemoryLimitError: no slicing stays below the limit; the smallest peak found is named.

    Complexity: "optimal" 3^n subsets, "greedy" O(n log n) for n operands of bounded rank.

    >>> p = plan("ij,jk,kl->il", (8, 8), (8, 100), (100, 8))
    >>> p.path, p.cost, p.flops
    (((1, 2), (0, 1)), 6912, 13824)
    """
    return _planned(
        "plan",
        equation_or_network,
        shapes_or_arrays,
        dtype,
        constants,
        objective=objective,
        planner=planner,
        memory_limit=memory_limit,
        budget=budget,
        seed=seed,
        order=order,
        conj=conj,
        embed_diagonal=embed_diagonal,
        strip_exponent=strip_exponent,
        n_runs=n_runs,
        start=start,
    )


def compile(
    equation_or_plan: Any,
    *shapes_or_arrays: Any,
    dtype: Any = None,
    constants: Mapping[int, Any] | Iterable[int] | None = None,
    device: str = "cpu",
    **planning: Any,
) -> Expression:
    """Plan and compile once; the Expression that comes back contracts arrays many times.

    Args:
        equation_or_plan: subscripts, a `Network`, or a `Plan` (then no shapes are given).
        shapes_or_arrays: for each operand an array or its shape, a tuple. Arrays are looked at for
            shape, dtype and order in memory only, unless they are constants.
        dtype: as in `plan`.
        constants: operands kept inside the expression: {position: array}, or positions whose arrays
            stand among `shapes_or_arrays`. They are left out of later calls.
        device: "cpu", "gpu", or a GPU by its number, "gpu:1": the arrays of calls lie there; constants are
            uploaded here.
        planning: further arguments of `plan`, strip_exponent=True among them.

    Returns:
        Expression: `expr(*arrays, out=None, alpha=1, beta=0)`.

    >>> import numpy as np
    >>> expr = compile("ij,jk->ik", (2, 3), (3, 2))
    >>> expr(np.ones((2, 3)), np.ones((3, 2)))
    array([[3., 3.],
           [3., 3.]])
    """
    if not (isinstance(device, str) and re.fullmatch(r"(cpu|gpu)(:[0-9]+)?", device)):
        raise OptionError(f'compile(device={device!r}): give "cpu", "gpu" or a card of it, "gpu:1"')
    backend = get(device)
    if isinstance(equation_or_plan, Plan):
        if shapes_or_arrays or planning or dtype is not None:
            raise CallError("compile: a Plan already fixes shapes, dtypes and path; give it alone")
        values = _constants(constants, [()] * len(equation_or_plan.dtypes))
        # the plan that the expression shows is of what it holds
        found = replace(equation_or_plan, constants=frozenset(values))
    else:
        unknown = [name for name in planning if name not in PLANNING]
        if unknown:
            meant = MEANT.get(unknown[0])
            raise CallError(
                f"compile({unknown[0]}=...): no such argument; "
                + (f"give {meant}=; " if meant else "")
                + f"beside dtype, constants and device there are {', '.join(PLANNING)}"
            )
        given: Sequence[Any] = shapes_or_arrays
        if isinstance(equation_or_plan, Network):
            given = shapes_or_arrays or equation_or_plan.shapes
        elif not isinstance(equation_or_plan, str):
            given = split_call((equation_or_plan, *shapes_or_arrays), "compile")[0]
        values = _constants(constants, given)
        found = _planned(
            "compile", equation_or_plan, shapes_or_arrays, dtype, tuple(values), **planning
        )
    values = dict(zip(values, shown("compile", values.values()), strict=True))
    here = {k: backend.to_host(x) if _lies_on(backend, x) else x for k, x in values.items()}
    return Expression(found, _checked(here, found), backend)


def _planned(
    call: str,
    source: Any,
    given: Sequence[Any],
    dtype: Any,
    constants: Iterable[int],
    *,
    objective: str | Callable[[Plan], float] = "time",
    planner: Any = "auto",
    memory_limit: int | float | str | None = None,
    budget: int | float | None = None,
    seed: int = 0,
    order: str = "K",
    conj: Iterable[int] = (),
    embed_diagonal: bool = False,
    strip_exponent: bool = False,
    n_runs: int | None = None,
    start: Any = None,
) -> Plan:
    """`plan`, for the front that the user called."""
    network, groups, dtypes, layouts = _network(source, given, dtype, embed_diagonal, call)
    n = len(dtypes)
    return search(
        network,
        groups,
        dtypes=dtypes,
        dtype=result_dtype(
            dtypes, dtype, None, "same_kind", is_view(network) and not strip_exponent, call
        ),
        choice=planner,
        objective=objective,
        memory_limit=memory_limit_bytes(memory_limit, call),
        budget=budget,
        seed=seed,
        conj=conj_positions(conj, n, call),
        order=memory_order(order, call),
        constants=constant_positions(constants, n, call),
        layouts=layouts,
        strip_exponent=strip_exponent,
        n_runs=n_runs,
        start=start,
        call=call,
        argument="planner",
    )


PLANNING = tuple(_planned.__kwdefaults__ or ())
MEANT = {"optimize": "planner", "minimize": "objective"}
"""What arguments of einsum and of other libraries are called here."""


def search(
    network: Network,
    groups: tuple[Group, ...],
    *,
    dtypes: tuple[DType, ...],
    dtype: DType,
    choice: Any,
    objective: str | Callable[[Plan], float] = "time",
    memory_limit: int | None = None,
    budget: int | float | None = None,
    seed: int = 0,
    conj: frozenset[int] = frozenset(),
    order: str = "K",
    constants: frozenset[int] = frozenset(),
    layouts: tuple[Axes | None, ...] = (),
    strip_exponent: bool = False,
    n_runs: int | None = None,
    start: Any = None,
    waits: bool = True,
    call: str = "einsum",
    argument: str = "optimize",
) -> Plan:
    """The plan by the planner chosen, within the memory limit; arguments are checked but these.

    waits: whether the search may wait for a compiler where the contraction is not worth it by itself.
    """
    if objective not in OBJECTIVES and not callable(objective):
        raise OptionError(
            f"{call}(objective={objective!r}): give one of {', '.join(OBJECTIVES)}, or a function of a plan"
        )
    if budget is not None and not (type(budget) in (int, float) and 0 < budget < math.inf):
        raise OptionError(
            f"{call}(budget={budget!r}): give runs, a positive integer, or seconds, a positive float"
        )
    if n_runs is not None:
        _check_runs(n_runs, objective, call)
    if type(seed) is not int:
        raise OptionError(f"{call}(seed={seed!r}): give an integer")
    if len(network.output_axes) > MOST_AXES:
        raise ShapeError(
            f"{call}: the result has {len(network.output_axes)} axes, a NumPy array at most {MOST_AXES}; "
            f"sum over some, or give some operands apart"
        )
    strip_exponent = exponent_flag(strip_exponent, dtype, call)
    planner = remembering(as_planner(choice, call, argument), choice)
    if start is not None:
        if groups or choice not in ("auto", None):
            raise OptionError(
                f"{call}(start=...): the tree is refined by the default planner, without parentheses; leave "
                f"out {argument if not groups else 'the parentheses'}"
            )
        planner = from_start(start, network, call)
    if groups and isinstance(choice, (list, tuple)) and choice and not _is_named(choice):
        raise OptionError(
            f"{call}({argument}=...): both the parentheses and a path fix the order; give only one"
        )
    decides = (lambda plan: plan.peak_bytes) if objective == "peak" else objective
    name = getattr(objective, "__name__", "function") if callable(objective) else objective
    problem = Problem(
        "time" if callable(decides) else objective,  # type: ignore[arg-type]
        memory_limit,
        dtype.itemsize,
        budget if isinstance(budget, int) else None if budget else get_options().budget,
        seed,
        budget if isinstance(budget, float) else None,
        float(min(n_runs or 1, 1 << 100)),
        waits or len(network.terms) <= PLAIN,
    )
    # a named planner searches anew where steps of constants run less often than others
    reuses = not groups and name_of(choice) is not None and (n_runs or choice in ("auto", None))
    if problem.seconds is not None:
        # searches there will be: for each group, with and without constants apart, twice within a limit
        more = searches(network, constants, n_runs) if reuses else 0
        parts = (1 + len(groups) + more) * (3 if memory_limit else 1)
        problem = replace(problem, seconds=problem.seconds / parts)

    def planned(by: Planner, how: Problem) -> Plan:
        try:
            found = plan_groups(network, groups, by, how) if groups else by(network, how)
        except PathError as error:
            raise PathError(f"{call}({argument}=...): {error}") from None
        return _plan_of(found)

    def _plan_of(found: Candidate) -> Plan:
        proof = None if callable(decides) or 0 in network.extents else found.proof
        return Plan(
            network, found.tree, dtypes, dtype, name, named(found.planner, proof), seed, proof,
            conj, order, constants, found.sliced, layouts if any(layouts) else (), strip_exponent,
            memory_limit, n_runs,
        )  # fmt: skip

    begin = time.perf_counter()
    if callable(decides):
        trials = [
            replace(problem, objective=one, seed=seed + k, seconds=_share(problem.seconds))
            for k in range(SEEDS)
            for one in TRIED
        ]
        tried = [planned(planner, trial) for trial in trials]
        if start is not None:
            tried.append(planned(as_it_is(start, network, call), problem))
        result = min(tried, key=decides)
    else:
        result = planned(planner, problem)
    if reuses and not callable(decides):
        result = reusing(result, planner, problem, _plan_of)
    elif reuses and n_runs and callable(decides):
        result = min(result, reusing(result, planner, problem, _plan_of), key=decides)
    if log.isEnabledFor(DEBUG):
        spent = format_seconds(time.perf_counter() - begin)
        log.debug("%s: %d operands planned by %s in %s", call, len(dtypes), result.planner, spent)
    if memory_limit is None:
        return result
    limit, is_auto = memory_limit, choice in ("auto", None)
    return met_once(
        result,
        (problem, is_auto, groups),
        lambda: _within(result, limit, planned, problem, is_auto, groups, call),
    )


def _check_runs(n_runs: Any, objective: Any, call: str) -> None:
    if type(n_runs) is not int or n_runs < 1:
        raise OptionError(
            f"{call}(n_runs={n_runs!r:.60}): give the number of calls, a positive integer, or None"
        )
    if objective in ("size", "peak"):
        raise OptionError(
            f"{call}(n_runs=..., objective={objective!r}): memory does not depend on the number of calls; "
            f'give "time", "flops", "write" or a function of a plan, or leave n_runs out'
        )


def _share(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / (SEEDS * len(TRIED))


def _within(
    first: Plan,
    limit: int,
    planned: Any,
    problem: Problem,
    is_auto: bool,
    groups: tuple[Group, ...],
    call: str,
) -> Plan:
    """`first`, or the cheapest of these that meets the limit: leaner plans, plans with sliced labels."""
    if first.peak_bytes <= limit:
        return first
    jointly = is_auto and not groups and not first.planner.startswith("interrupted")
    found = _jointly(first, limit, planned, problem) if jointly else []
    if all(plan.peak_bytes > limit for plan in found):
        found += _leaner(first, limit, planned, problem, is_auto)
    meeting, flops = [plan for plan in found if plan.peak_bytes <= limit], Problem("flops")
    if meeting:
        return min(meeting, key=lambda plan: weight_of(plan, flops))
    best = min(found, key=lambda plan: plan.peak_bytes)
    slices = f", in {format_count(best.n_slices)} slices" if best.sliced else ""
    raise MemoryLimitError(
        f"{call}: the memory limit is {format_bytes(limit)} ({limit} bytes), the smallest predicted peak "
        f"found is {format_bytes(best.peak_bytes)} ({best.peak_bytes} bytes), operands and result included"
        f"{slices}. "
        f"Raise memory_limit to that, or use a smaller dtype"
    )


def _leaner(first: Plan, limit: int, planned: Any, problem: Problem, is_auto: bool) -> list[Plan]:
    """The tree at hand and the leanest of a few, with labels sliced."""
    trials = [first]
    if is_auto:
        for seed in range(problem.seed, problem.seed + 3):
            trial = Problem("size", limit, problem.itemsize, problem.budget or 32, seed)
            trials.append(planned(remembering(random_greedy, "random-greedy"), trial))
            if trials[-1].peak_bytes <= limit:
                break
    leanest = min(trials, key=lambda plan: plan.peak_bytes)
    return [slice_to(plan, limit) for plan in dict.fromkeys((first, leanest))]


def _jointly(first: Plan, limit: int, planned: Any, problem: Problem) -> list[Plan]:
    """Plans whose tree and sliced labels were searched together, below the limit if they can be.

    How many results are alive at once is known only of a whole plan: a second search corrects the first.
    """
    fixed, found = fixed_bytes(first), list[Plan]()
    room = (limit - fixed) / ALIVE
    while room >= problem.itemsize and len(found) < 2:
        plan = planned(sliced, replace(problem, memory_limit=int(room)))
        found.append(slice_to(plan, limit))
        taken = max(1, plan.peak_bytes - fixed) / (limit - fixed)
        if NEAR <= taken <= 1.0:
            break
        room /= taken
    return found


def _network(
    source: Any, given: Sequence[Any], dtype: Any, embed_diagonal: bool, call: str
) -> tuple[Network, tuple[Group, ...], tuple[DType, ...], tuple[Axes | None, ...]]:
    """Network, groups, dtypes and layouts of the arguments of `plan`."""
    wanted = as_dtype(dtype, call)
    if isinstance(source, Network):
        if not given:
            kind = FLOAT64 if wanted is None else wanted.newbyteorder("=")
            n = len(source.shapes)
            return source, (), (kind,) * n, (None,) * n
        operands = list(given)
        if len(operands) != len(source.shapes):
            raise ShapeError(
                f"{call}: the network has {len(source.shapes)} tensors, got {len(operands)}"
            )
        specs = [spec_of(x, wanted, call, k) for k, x in enumerate(operands)]
        for k, (spec, shape) in enumerate(zip(specs, source.shapes, strict=True)):
            if spec.shape != shape:
                raise ShapeError(
                    f"{call}: tensor {k} has shape {spec.shape}, the network says {shape}"
                )
        return source, (), *_dtypes_and_layouts(specs)
    operands, notation = split_call((source, *given), call)
    equation: Equation
    if are_shapes(operands):
        n, kind = len(operands), FLOAT64 if wanted is None else wanted.newbyteorder("=")
        equation = resolve(notation, list(map(len, operands)), call, embed_diagonal)
        return Network.of(equation, operands, call), equation.groups, (kind,) * n, (None,) * n
    specs = [spec_of(x, wanted, call, k) for k, x in enumerate(operands)]
    equation = resolve(notation, [len(spec.shape) for spec in specs], call, embed_diagonal)
    network = Network.of(equation, [spec.shape for spec in specs], call)
    return network, equation.groups, *_dtypes_and_layouts(specs)


def _dtypes_and_layouts(
    specs: Sequence[ArraySpec],
) -> tuple[tuple[DType, ...], tuple[Axes | None, ...]]:
    return tuple(x.dtype.newbyteorder("=") for x in specs), tuple(x.layout for x in specs)


def _constants(constants: Any, given: Sequence[Any]) -> dict[int, Any]:
    """{position: array} of either way to name constants."""
    if constants is None:
        return {}
    n = len(given)
    if isinstance(constants, Mapping):
        if len(constant_positions(constants, n, "compile")) != len(constants):
            raise CallError(f"compile: constants={list(constants)} name an operand twice")
        return {position % n: value for position, value in constants.items()}
    values: dict[int, Any] = {}
    for position in sorted(constant_positions(constants, n, "compile")):
        if isinstance(given[position], tuple):
            raise CallError(
                f"compile: operand {position} is a constant, but a shape was given; pass its array"
            )
        values[position] = given[position]
    return values


def _lies_on(backend: Backend, x: Any) -> bool:
    """Whether a constant is on the backend's device; it is kept on the host too, to be pickled."""
    if backend.name == "cpu":
        return False
    try:
        return backend.placement(x) == backend.device
    except ConversionError:  # a list, say, which is converted on the host
        return False


def _checked(constants: dict[int, Any], found: Plan) -> dict[int, Any]:
    arrays: dict[int, Any] = {}
    for position, value in constants.items():
        array = as_ndarray(value, "compile", position)
        if array.shape != found.network.shapes[position]:
            raise ShapeError(
                f"compile: constant {position} has shape {array.shape}, the equation says "
                f"{found.network.shapes[position]}"
            )
        if not np.can_cast(array.dtype, found.dtypes[position], "same_kind"):
            raise DTypeError(
                f"compile: constant {position} has dtype {array.dtype}, compiled for "
                f"{found.dtypes[position]}; convert it (x.astype), or compile for its dtype"
            )
        arrays[position] = array.astype(found.dtypes[position], copy=True)
        arrays[position].flags.writeable = False
    return arrays


def _is_named(choice: Any) -> bool:
    """NumPy's (name, elements), which is no path."""
    return isinstance(choice[0], str) and choice[0] != "einsum_path"


__all__ = ["compile", "plan", "search"]
