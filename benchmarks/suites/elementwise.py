"""How fast chains of elementwise ops run: fused by einloom, one by one or compiled by peers.

A chain is data: its steps are those of a fusion plan, and every contender runs these. Peers get rows,
columns and scalars as they are and broadcast them themselves; einloom gets broadcast views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from einloom.backend.catalogue import infer
from einloom.backend.cpu.backend import cpu
from einloom.backend.fusion import ElementwiseFusionPlan, FusionStep, reduction_attrs
from einloom.backend.spec import ArraySpec

from .. import peers
from ..harness import CaseResult, measure
from ..machine import Contender

SHAPE = (4000, 2500)
SMALL = (40, 25)
TOLERANCE = {"float64": 1e-11, "float32": 1e-4}


@dataclass(frozen=True)
class Chain:
    """Steps over inputs that lie as `_drawn` says; a step names values by their numbers."""

    name: str
    inputs: tuple[str, ...]
    steps: tuple[tuple[str | int, ...], ...]  # an op and the numbers of its operands
    reduce: str | None = None
    axes: tuple[int, ...] = ()


CHAINS = (
    Chain(
        "sqrt(a*a + b*b)*c - d",
        ("full", "full", "full", "full"),
        (
            ("multiply", 0, 0),
            ("multiply", 1, 1),
            ("add", 4, 5),
            ("sqrt", 6),
            ("multiply", 7, 2),
            ("subtract", 8, 3),
        ),
    ),
    Chain(
        "maximum(abs(clamp(where(a < b, c, a), low, high)), b)",
        ("full", "full", "full", "low", "high"),
        (
            ("less", 0, 1),
            ("select", 5, 2, 0),
            ("clamp", 6, 3, 4),
            ("absolute", 7),
            ("maximum", 8, 1),
        ),
    ),
    Chain(
        "tanh(exp(-a*a)*b) + c",
        ("full", "full", "full"),
        (
            ("multiply", 0, 0),
            ("negate", 3),
            ("exp", 4),
            ("multiply", 5, 1),
            ("tanh", 6),
            ("add", 7, 2),
        ),
    ),
    Chain(
        "sqrt(abs((a - row)*column) + row)",
        ("full", "row", "column"),
        (
            ("subtract", 0, 1),
            ("multiply", 3, 2),
            ("absolute", 4),
            ("add", 5, 1),
            ("sqrt", 6),
        ),
    ),
    Chain(
        "sum((a - b)*(a - b)*c + a, last axis)",
        ("full", "full", "full"),
        (
            ("subtract", 0, 1),
            ("multiply", 3, 3),
            ("multiply", 4, 2),
            ("add", 5, 0),
        ),
        "reduce_sum",
        (1,),
    ),
)


def elementwise(quick: bool) -> Iterator[CaseResult]:
    """Chains of four to six elementwise ops on 10^7 elements, one with a trailing sum."""
    rng = np.random.default_rng(5)
    shape = SMALL if quick else SHAPE
    for dtype, tolerance in TOLERANCE.items():
        for chain in CHAINS:
            arrays = [_drawn(lie, shape, dtype, rng) for lie in chain.inputs]
            plan = fusion_plan(chain, shape, np.dtype(dtype))
            moved = sum(x.nbytes for x in arrays) + sum(x.nbytes for x in plan.output_specs())
            fused, ours = _ours(plan, arrays)
            yield measure(
                f"{chain.name} {dtype}",
                {"numpy": _by_numpy(chain, arrays), "einloom": ours, **_peers(chain, arrays)},
                tolerance=tolerance,
                moved=moved,
                facts={"dtype": dtype, "shape": shape, "bytes": moved, "fused": fused},
                quick=quick,
            )


def _drawn(lie: str, shape: tuple[int, int], dtype: str, rng: np.random.Generator) -> Any:
    """Numbers from 0.25 to 1.25; of the two scalars, low is the smaller one."""
    rows, columns = shape
    sizes = {"full": shape, "row": (1, columns), "column": (rows, 1), "low": (1, 1), "high": (1, 1)}
    least, most = {"low": (0.25, 0.5), "high": (0.75, 1.25)}.get(lie, (0.25, 1.25))
    kind = np.dtype(dtype).type
    return rng.random(sizes[lie], kind) * kind(most - least) + kind(least)


def fusion_plan(
    chain: Chain, shape: tuple[int, int], dtype: np.dtype[Any]
) -> ElementwiseFusionPlan:
    """The chain as the plan that a backend takes."""
    steps = tuple(FusionStep(str(op), tuple(map(int, values))) for op, *values in chain.steps)
    inputs = (ArraySpec(dtype, shape),) * len(chain.inputs)
    return ElementwiseFusionPlan(
        inputs, steps, (len(inputs) + len(steps) - 1,), chain.reduce, chain.axes
    )


# ---- contenders -------------------------------------------------------------------------------


def _ours(plan: ElementwiseFusionPlan, arrays: list[Any]) -> tuple[bool, Contender]:
    """Whether one kernel runs the plan, and the call."""
    views = [np.broadcast_to(x, plan.shape) for x in arrays]
    kernel = cpu().fuse(plan)
    if kernel is None:
        return False, _bound_one_by_one(plan, views)

    def call() -> Any:
        made = kernel(*views)
        return made[0] if isinstance(made, tuple) else made

    return True, call


def _bound_one_by_one(plan: ElementwiseFusionPlan, views: list[Any]) -> Contender:
    specs = plan.values()
    kernels = []
    for made, step in enumerate(plan.steps, len(views)):
        operands = tuple(specs[value] for value in step.operands)
        kernels.append((cpu().bind(step.op, step.attrs, operands, (specs[made],)), step.operands))
    last = _bound_reduction(plan, specs[plan.outputs[0]])

    def call() -> Any:
        values = list(views)
        for kernel, operands in kernels:
            values.append(kernel(*(values[value] for value in operands)))
        return last(values[-1])

    return call


def _bound_reduction(plan: ElementwiseFusionPlan, spec: ArraySpec) -> Callable[[Any], Any]:
    if plan.reduce is None:
        return lambda x: x
    attrs = reduction_attrs(plan.reduce, plan.axes)
    return cpu().bind(plan.reduce, attrs, (spec,), infer(plan.reduce, attrs, (spec,)))


def _by_numpy(chain: Chain, arrays: list[Any]) -> Contender:
    functions = {op: function for op, (function, _, _) in OPS.items()}
    return _one_by_one(chain, arrays, functions, lambda x, axes: np.sum(x, axis=axes))


def _peers(chain: Chain, arrays: list[Any]) -> dict[str, Contender]:
    contenders: dict[str, Contender] = {}
    numexpr, torch = peers.numexpr(), peers.torch()
    if numexpr is not None:
        contenders["numexpr"] = _by_numexpr(numexpr, chain, arrays)
    if torch is not None:
        tensors = [torch.from_numpy(x) for x in arrays]
        functions = {op: getattr(torch, name) for op, (_, name, _) in OPS.items()}
        contenders["torch"] = _one_by_one(
            chain, tensors, functions, lambda x, axes: torch.sum(x, dim=axes)
        )
    return contenders


def _one_by_one(
    chain: Chain,
    arrays: list[Any],
    functions: dict[str, Callable[..., Any]],
    total: Callable[[Any, tuple[int, ...]], Any],
) -> Contender:
    steps = [(functions[str(op)], tuple(map(int, values))) for op, *values in chain.steps]

    def call() -> Any:
        values = list(arrays)
        for function, operands in steps:
            values.append(function(*(values[value] for value in operands)))
        return values[-1] if chain.reduce is None else total(values[-1], chain.axes)

    return call


def _by_numexpr(numexpr: Any, chain: Chain, arrays: list[Any]) -> Contender:
    """The whole chain as one expression; the trailing sum is NumPy's, numexpr's has one thread."""
    names = {f"x{k}": x for k, x in enumerate(arrays)}
    text = expression(chain)

    def call() -> Any:
        made = numexpr.evaluate(text, names, {})
        return made if chain.reduce is None else np.sum(made, axis=chain.axes)

    return call


def expression(chain: Chain) -> str:
    """The chain's last value in the inputs x0, x1, ..., as numexpr writes it."""
    values = [f"x{k}" for k in range(len(chain.inputs))]
    for op, *operands in chain.steps:
        pattern = OPS[str(op)][2]
        values.append(pattern.format(*(values[int(value)] for value in operands)))
    return values[-1]


def _numpy_clamp(x: Any, low: Any, high: Any) -> Any:
    return np.minimum(np.maximum(x, low), high)


OPS: dict[str, tuple[Callable[..., Any], str, str]] = {  # of NumPy, torch and numexpr
    "add": (np.add, "add", "({} + {})"),
    "subtract": (np.subtract, "sub", "({} - {})"),
    "multiply": (np.multiply, "mul", "({} * {})"),
    "negate": (np.negative, "neg", "(-{})"),
    "absolute": (np.abs, "abs", "abs({})"),
    "sqrt": (np.sqrt, "sqrt", "sqrt({})"),
    "exp": (np.exp, "exp", "exp({})"),
    "tanh": (np.tanh, "tanh", "tanh({})"),
    "less": (np.less, "less", "({} < {})"),
    "select": (np.where, "where", "where({}, {}, {})"),
    "clamp": (_numpy_clamp, "clamp", "where({0} < {1}, {1}, where({0} > {2}, {2}, {0}))"),
    "maximum": (np.maximum, "maximum", "where({0} > {1}, {0}, {1})"),
}
