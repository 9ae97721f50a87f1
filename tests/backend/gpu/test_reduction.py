"""Kernels of reductions beside the CPU backend, behind a chain of steps and by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, strides_of, untouched
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc
from tests.tolerance import eps

from einloom._base.errors import EinloomError
from einloom.backend.cpu import cpu
from einloom.backend.fusion import ElementwiseFusionPlan, FusionStep, reduction_attrs
from einloom.backend.gpu.cuda.layout import row_major
from einloom.backend.gpu.cuda.reduction import Launches, reduction
from einloom.backend.spec import ArraySpec, dtype_from_name

Array = np.ndarray[Any, Any]
OPS = ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_mean")
DTYPES = (
    "bool",
    "int8",
    "uint32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
)
PLACES = (  # shape, axes that are reduced, axes in the order in which they lie in memory
    ((4, 3, 100), (2,), (0, 1, 2)),
    ((50, 3, 40), (0,), (0, 1, 2)),
    ((3, 5, 7), (0, 1, 2), (2, 0, 1)),
    ((5, 4), (), (0, 1)),
    ((2, 70000), (1,), (0, 1)),
    ((1100, 33), (0,), (0, 1)),
)


def cases() -> list[tuple[ElementwiseFusionPlan, Array]]:
    rng = np.random.default_rng(3)
    found = []
    for number, name in enumerate(DTYPES):
        for at, op in enumerate(OPS):
            for place in (number + at) % 3, 3 + (number + at) % 3:
                shape, axes, order = PLACES[place]
                spec = ArraySpec(dtype_from_name(name), shape)
                step = FusionStep("identity" if name == "bool" else "negate", (0,))
                plan = ElementwiseFusionPlan((spec,), (step,), (1,), op, axes)
                try:
                    plan.output_specs()
                except EinloomError:
                    continue
                x = np.empty([shape[a] for a in order], spec.dtype).transpose(np.argsort(order))
                x[...] = (
                    rng.integers(0, 2, shape) if op == "reduce_prod" else rng.integers(1, 5, shape)
                )
                found.append((plan, x))
    return found


CASES = cases()


def launches_of(plan: ElementwiseFusionPlan, x: Array) -> Launches:
    (output,) = plan.output_specs()
    launches = reduction(plan, row_major(output.shape), strides_of(x))
    assert launches is not None
    return launches


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    kernels = [kernel for case in CASES for kernel in launches_of(*case).kernels]
    return Emulator(kernels, tmp_path_factory.mktemp("kernels"))


@needs_compiler
def test_reductions(emulate: Emulator) -> None:
    for plan, x in CASES:
        (output,) = plan.output_specs()
        out, memory = guarded(output.shape, output.dtype)
        launches = launches_of(plan, x)
        arrays = [out, x, *(np.empty(n, dtype_from_name(name)) for name, n in launches.scratch)]
        for kernel, operands in zip(launches.kernels, launches.operands, strict=True):
            emulate(kernel, *(arrays[k] for k in operands))
        negated = cpu().apply(plan.steps[0].op, {}, x)
        assert plan.reduce is not None
        wanted = cpu().apply(plan.reduce, reduction_attrs(plan.reduce, plan.axes), negated)
        case = f"{plan.reduce} of {plan.inputs[0]} over {plan.axes}"
        if output.dtype.kind in "biu" or plan.reduce in ("reduce_max", "reduce_min"):
            assert (out == wanted).all(), case
        else:
            wide = np.complex128 if output.dtype.kind == "c" else np.float64
            got, bound = out.astype(wide), 2 * eps(output.dtype)
            np.testing.assert_allclose(got, wanted.astype(wide), bound, err_msg=case)
        assert untouched(memory), case


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture: str) -> None:
    compile_all((kernel for case in CASES for kernel in launches_of(*case).kernels), architecture)


def test_chunks_have_a_second_launch() -> None:
    long = [launches_of(*case) for case in CASES if 70000 in case[0].shape]
    assert long
    assert all(len(launches.kernels) == 2 for launches in long)


def test_no_maximum_of_nothing() -> None:
    spec = ArraySpec(np.dtype("f4"), (3, 0))
    plan = ElementwiseFusionPlan((spec,), (), (0,), "reduce_max", (1,))
    assert reduction(plan, (1,), (0, 1)) is None
