"""Random chains of elementwise ops, and what they give when their ops run one by one.

A chain may round otherwise than its ops do, since a*b + c may be one operation. So every value is known
to be exact, and is then compared so, or comes with a magnitude: its relative error is a few units of
that. Only exact values reach the ops that jump: comparisons, roundings, casts to integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.backend.calls import Array, DType, Shape, lay_out
from tests.tolerance import eps

from einloom._base.errors import EinloomError
from einloom._base.options import options
from einloom.backend.catalogue import CATALOGUE, infer
from einloom.backend.cpu import cpu
from einloom.backend.cpu.formulas import formula
from einloom.backend.dtypes import class_of
from einloom.backend.fusion import ElementwiseFusionPlan, FusionStep
from einloom.backend.spec import ArraySpec, dtype_from_name

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
HALVES = ("float16", "bfloat16")
COMPUTED = tuple(name for name in DTYPES if name not in HALVES)
"""Dtypes that compiled kernels compute with."""

FORMULAS = (
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "clamp", "negate"),
    *(
        "select",
        "select",
        "select",
        "absolute",
        "conj",
        "identity",
        "real",
        "imag",
        "sqrt",
        "reciprocal",
        "floor",
        "round",
    ),
    *("bitwise_xor", "bitwise_not", "equal", "less", "greater_equal", "cast", "convert"),
)
OTHERS = (*("remainder", "power", "sign", "exp", "sin", "log1p", "tanh", "atan2", "trunc"),)
KEPT = ("negate", "absolute", "conj", "identity", "real", "imag", "maximum", "minimum", "clamp")
LARGEST = 2.0**40  # no product of two such overflows float32


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a value: at most `bound` and a multiple of 2**-`places`, or inexact."""

    dtype: DType
    bound: float
    places: int
    exact: bool
    eps: float = 0.0


def _exact(dtype: DType, bound: float, places: int, *operands: Known) -> Known:
    """Exact if its operands are and its digits fit."""
    if class_of(dtype) in ("int", "uint", "bool"):
        return Known(dtype, 2.0 ** (8 * dtype.itemsize), 0, True)
    fits = bound * 2**places <= 1 / eps(dtype) and all(x.exact for x in operands)
    return Known(dtype, bound, places, fits, max([eps(dtype), *(x.eps for x in operands)]))


def _known(op: str, dtype: DType, operands: Sequence[Known]) -> Known | None:
    """What is known of the result of `op`, or None where a chain must not have it."""
    bound, places = max(x.bound for x in operands), max(x.places for x in operands)
    if op in ("add", "subtract"):
        bound *= 2
    elif op == "multiply":
        bound, places = math.prod(x.bound for x in operands), sum(x.places for x in operands)
    elif op in ("cast", "convert"):
        if class_of(dtype) in ("int", "uint", "bool") and not operands[0].exact:
            return None
    elif op == "select":
        operands = operands[1:]
        bound, places = max(x.bound for x in operands), max(x.places for x in operands)
    elif op not in KEPT:
        if not all(x.exact for x in operands):
            return None
        if op not in ("floor", "round", "trunc", "remainder"):
            places = 10**6  # quotients and functions are rounded
    if class_of(dtype) not in ("int", "uint", "bool"):
        most = 2.0**15 if dtype.name == "float16" else LARGEST
        if bound > most and op not in ("divide", "reciprocal", "exp", "power"):
            return None
    places = min(places, 60) if places < 10**6 else places
    inexact = places == 10**6
    known = _exact(dtype, bound, 0 if inexact else places, *operands)
    if inexact and known.eps:
        return Known(dtype, min(bound, LARGEST), 0, False, known.eps)
    return known


@dataclass(frozen=True, slots=True)
class Chain:
    """A plan, and what is known of each of its values."""

    plan: ElementwiseFusionPlan
    known: tuple[Known, ...]


def random_chain(
    rng: np.random.Generator,
    shape: Shape,
    dtypes: Sequence[str] = DTYPES,
    ops: Sequence[str] = FORMULAS + OTHERS,
) -> Chain:
    """1 to 8 steps over 1 to 3 inputs, with 1 to 3 outputs."""
    names = rng.choice(dtypes, rng.integers(1, 3))
    inputs = [dtype_from_name(str(rng.choice(names))) for _ in range(rng.integers(1, 4))]
    known = [_exact(dtype, 4.0, 1) for dtype in inputs]
    steps: list[FusionStep] = []
    for _ in range(1000):
        if len(steps) == max(1, len(inputs) * 3 - 1):
            break
        op = str(rng.choice(ops))
        attrs = {"dtype": str(rng.choice(dtypes))} if op in ("cast", "convert") else {}
        operands = rng.integers(0, len(known), len(CATALOGUE[op].operands))
        used = [known[k] for k in operands]
        try:
            (made,) = infer(op, attrs, tuple(ArraySpec(x.dtype, shape) for x in used))
        except EinloomError:  # of other dtypes
            continue
        new = _known(op, made.dtype, used)
        if new is not None:
            known.append(new)
            steps.append(FusionStep(op, tuple(map(int, operands)), tuple(attrs.items())))
    last = len(known) - 1
    outputs = (last, *map(int, rng.integers(0, last + 1, rng.integers(0, 3))))
    specs = tuple(ArraySpec(dtype, shape) for dtype in inputs)
    return Chain(ElementwiseFusionPlan(specs, tuple(steps), outputs), tuple(known))


def inputs_of(
    plan: ElementwiseFusionPlan, layouts: Sequence[str], rng: np.random.Generator
) -> list[Array]:
    """Operands: all of an integer's bits, halves up to 4 and, now and then, what is no number."""
    return [
        lay_out(_numbers(rng, spec), str(rng.choice(layouts)) if spec.shape else "C", rng)
        for spec in plan.inputs
    ]


def _numbers(rng: np.random.Generator, spec: ArraySpec) -> Array:
    kind = class_of(spec.dtype)
    if kind == "bool":
        return np.asarray(rng.random(spec.shape) < 0.5)
    if kind in ("int", "uint"):
        info = np.iinfo(spec.dtype)
        return np.asarray(rng.integers(info.min, info.max, spec.shape, spec.dtype, endpoint=True))
    halves = rng.integers(-8, 8, (2, *spec.shape)) / 2
    if kind == "complex":
        return np.asarray((halves[0] + 1j * halves[1]).astype(spec.dtype))
    special = rng.choice([np.nan, np.inf, -np.inf], spec.shape)
    return np.where(rng.random(spec.shape) < 0.02, special, halves[0]).astype(spec.dtype)


# ---- plans by hand ------------------------------------------------------------------------------


def step(op: str, *operands: int, **attributes: Any) -> FusionStep:
    return FusionStep(op, operands, tuple(attributes.items()))


def plan_of(
    names: str, shape: Shape, steps: list[FusionStep], *outputs: int, **reduction: Any
) -> ElementwiseFusionPlan:
    """A plan over inputs of these dtypes."""
    inputs = tuple(ArraySpec(dtype_from_name(name), shape) for name in names.split())
    return ElementwiseFusionPlan(inputs, tuple(steps), outputs, **reduction)


def run(plan: ElementwiseFusionPlan, *arrays: Array, out: Any = None, small: float = 0) -> Any:
    """By a compiled kernel, or in blocks where `small` is large."""
    with options(small=small):
        kernel = cpu().fuse(plan)
        assert kernel is not None
        return kernel(*arrays, out=out)


def has_formulas(plan: ElementwiseFusionPlan) -> bool:
    """Whether every step can be compiled."""
    values = plan.values()
    return all(
        formula(s.op, s.attrs, ["x"] * len(s.operands), [values[k].dtype for k in s.operands])
        for s in plan.steps
    )


# ---- what a chain gives -------------------------------------------------------------------------


def one_by_one(
    plan: ElementwiseFusionPlan, arrays: Sequence[Array]
) -> tuple[list[Array], list[Array]]:
    """Every value, by a kernel for each op on contiguous arrays; and magnitudes."""
    values = [np.array(x, order="C") for x in arrays]
    sizes = [np.abs(_wide(x)) for x in values]
    with options(small=math.inf), np.errstate(all="ignore"):
        for step in plan.steps:
            used = [values[k] for k in step.operands]
            specs = tuple(ArraySpec(x.dtype, x.shape) for x in used)
            made = infer(step.op, step.attrs, specs)
            values.append(np.array(cpu().bind(step.op, step.attrs, specs, made)(*used)))
            sizes.append(_size(step.op, [sizes[k] for k in step.operands], values[-1]))
    return values, sizes


def _wide(x: Array) -> Array:
    if x.dtype.kind == "c":
        return x.astype(np.complex128)
    return x.astype(np.float64)


def _size(op: str, sizes: list[Array], value: Array) -> Array:
    if op in ("add", "subtract"):
        return np.asarray(sizes[0] + sizes[1])
    if op == "multiply":
        return np.asarray(sizes[0] * sizes[1])
    if op in (*KEPT, "select", "cast", "convert"):
        return np.asarray(np.max(sizes[-2:] if op == "select" else sizes, axis=0))
    return np.asarray(np.abs(_wide(value)))


def assert_chain(chain: Chain, arrays: Sequence[Array], got: Any, call: str = "") -> None:
    """Assert that `got` is what the chain gives on these arrays."""
    outputs = chain.plan.outputs
    got = got if isinstance(got, tuple) else (got,)
    assert len(got) == len(outputs)
    values, sizes = one_by_one(chain.plan, arrays)
    for out, k, spec in zip(got, outputs, chain.plan.output_specs(), strict=True):
        assert (out.dtype, out.shape) == (spec.dtype, spec.shape)
        want, known = values[k], chain.known[k]
        with np.errstate(all="ignore"):
            off = np.abs(_wide(out) - _wide(want))
            room = 0.0 if known.exact else 16 * len(chain.plan.steps) * known.eps * sizes[k]
            same = (_wide(out) == _wide(want)) | (np.isnan(_wide(out)) & np.isnan(_wide(want)))
            good = same | (off <= room)
        if not known.eps:  # integers, every bit
            good = np.asarray(out == want)
        assert good.all(), f"{call}{chain.plan}\n{out[~good][:5]}, not {want[~good][:5]}"
