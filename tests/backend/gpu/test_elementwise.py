"""Fused elementwise kernels beside the CPU backend: every op, every dtype, any strides."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, strides_of, untouched
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc
from tests.tolerance import eps

from einloom._base.errors import EinloomError
from einloom.backend.catalogue import CATALOGUE, infer
from einloom.backend.cpu import cpu
from einloom.backend.fusion import ElementwiseFusionPlan, FusionStep
from einloom.backend.gpu.cuda.elementwise import elementwise
from einloom.backend.gpu.cuda.kernel import KERNELS, CudaKernel
from einloom.backend.gpu.cuda.layout import row_major
from einloom.backend.gpu.cuda.types import TYPES, computes
from einloom.backend.spec import ArraySpec, dtype_from_name

Array = np.ndarray[Any, Any]
OPS = [row.name for row in CATALOGUE.values() if row.group == "elementwise"]
ROUNDED = {"exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2"}
ROUNDED |= {"sinh", "cosh", "tanh", "erf", "power", "rsqrt", "absolute", "multiply", "divide"}
ROUNDED |= {"reciprocal"}
"""Ops whose results may be off by a few spacings: of functions, and of complex numbers."""
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    np.inf,
    -np.inf,
    np.nan,
    3.25,
    -7.0,
    100.0,
]


def values(dtype: np.dtype[Any], rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers with those among them at which kernels go wrong."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        edges = [info.min, info.max, 0, 1, 2, 3, info.max // 2, info.min + 1]
        edges += [-1, -2] if info.min else []
        return rng.choice(np.array(edges, dtype), shape)
    if dtype.kind == "c":
        parts = rng.integers(-8, 9, (2, *shape)) / 4
        return (parts[0] + 1j * parts[1]).astype(dtype)
    return rng.choice(np.array(SPECIAL), shape).astype(dtype)


@cache
def plan_of(name: str) -> tuple[ElementwiseFusionPlan, tuple[FusionStep, ...]]:
    """Every op that takes a dtype, on the same operands: predicate, x, y, z."""
    shape = (6, 5, 7)
    data = ArraySpec(dtype_from_name(name), shape)
    inputs = (ArraySpec(np.dtype(bool), shape), data, data, data)
    steps = []
    for op in OPS:
        count = len(CATALOGUE[op].operands)
        operands = (0, 1, 2) if op == "select" else tuple(range(1, 1 + count))
        try:
            infer(op, {}, tuple(inputs[k] for k in operands))
        except EinloomError:
            continue
        if computes(op, [inputs[k].dtype for k in operands]):
            steps.append(FusionStep(op, operands))
    for target in TYPES:
        steps.append(FusionStep("cast", (1,), (("dtype", target),)))
    outputs = tuple(range(4, 4 + len(steps)))
    return ElementwiseFusionPlan(inputs, tuple(steps), outputs), tuple(steps)


def operands_of(plan: ElementwiseFusionPlan, rng: np.random.Generator) -> list[Array]:
    """A broadcast one, one across the others, one that runs backwards."""
    shape = plan.shape
    which, x, y, z = (spec.dtype for spec in plan.inputs)
    return [
        np.broadcast_to(values(which, rng, shape[1:]), shape),
        values(x, rng, shape[::-1]).T,
        values(y, rng, shape)[::-1, :, ::-1],
        np.broadcast_to(values(z, rng, (6, 1, 7)), shape),
    ]


def kernel_of(name: str) -> tuple[CudaKernel, list[Array]]:
    plan, _ = plan_of(name)
    arrays = operands_of(plan, np.random.default_rng(5))
    strides = [row_major(plan.shape)] * len(plan.outputs) + [strides_of(x) for x in arrays]
    kernel = elementwise(plan, *strides)
    assert kernel is not None
    return kernel, arrays


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    kernels = [kernel_of(name)[0] for name in TYPES]
    return Emulator([*kernels, WIDE], tmp_path_factory.mktemp("kernels"))


def close(op: str, got: Array, wanted: Array) -> None:
    if got.dtype.kind in "biu" or op not in ROUNDED:
        wide = np.float32 if got.dtype == ml_dtypes.bfloat16 else got.dtype
        np.testing.assert_array_equal(got.astype(wide), wanted.astype(wide), op)
        return
    spacing = 8 * eps(got.dtype)
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(got.astype(wide), wanted.astype(wide), spacing, spacing, err_msg=op)


@needs_compiler
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_every_op(name: str, emulate: Emulator) -> None:
    plan, steps = plan_of(name)
    kernel, arrays = kernel_of(name)
    made = [guarded(plan.shape, spec.dtype) for spec in plan.output_specs()]
    emulate(kernel, *(x for x, _ in made), *arrays)
    for (got, memory), step in zip(made, steps, strict=True):
        wanted = cpu().apply(step.op, step.attrs, *(arrays[k] for k in step.operands))
        close(f"{step.op}", got, wanted)
        assert untouched(memory), step


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture: str) -> None:
    compile_all([*(kernel_of(name)[0] for name in TYPES), WIDE], architecture)


X = ArraySpec(np.dtype("f4"), (3, 4))
NEGATED = ElementwiseFusionPlan((X,), (FusionStep("negate", (0,)),), (1,))
MADE = elementwise(NEGATED, (4, 1), (1 << 40, 1))
assert MADE is not None
WIDE = MADE


def test_wide_indices() -> None:
    """Where an offset has more than 30 bits."""
    assert WIDE.wide
    assert "long long" in WIDE.source
    assert WIDE.parameters().dtype == np.int64


def test_one_source_serves_all_shapes() -> None:
    """Of one rank: what differs is the geometry."""
    other = ArraySpec(np.dtype("f4"), (30, 40))
    plan = ElementwiseFusionPlan((other,), NEGATED.steps, (1,))
    first, second = elementwise(NEGATED, (4, 1), (9, 1)), elementwise(plan, (40, 1), (99, 1))
    assert first is not None
    assert second is not None
    assert first.source == second.source
    assert first.geometry != second.geometry


def test_kept() -> None:
    KERNELS.clear()
    first = elementwise(NEGATED, (4, 1), (9, 1))
    assert elementwise(NEGATED, (4, 1), (9, 1)) is first
    assert KERNELS.info().currsize == 1


@pytest.mark.parametrize(("op", "name"), [("sin", "complex128"), ("add", "longdouble")])
def test_declined(op: str, name: str) -> None:
    spec = ArraySpec(np.dtype(name), (3,))
    operands = (0,) * len(CATALOGUE[op].operands)
    plan = ElementwiseFusionPlan((spec,), (FusionStep(op, operands),), (1,))
    assert elementwise(plan, (1,), (1,)) is None
