"""`fuse` of the GPU's backend: its kernels on the CPU, beside the ops run one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import COMPILING, STAND_INS
from tests.backend.chains import FORMULAS, Chain, assert_chain, inputs_of, random_chain
from tests.backend.gpu.emulator import needs_compiler
from tests.backend.stand_in import DeviceArray

import einloom
from einloom.backend.choice import register_arrays, unregister_arrays
from einloom.backend.cpu import cpu
from einloom.backend.fusion import ElementwiseFusionPlan, FusionStep, reduction_attrs
from einloom.backend.gpu.fused import scratch_bytes
from einloom.backend.spec import ArraySpec

F8 = np.dtype("f8")
NEGATE = (FusionStep("negate", (0,)),)
LAYOUTS = ("C", "F", "sliced", "reversed", "broadcast")


@pytest.fixture
def device() -> Iterator[None]:
    register_arrays(DeviceArray, lambda x: COMPILING)
    yield
    unregister_arrays(DeviceArray)


def run(plan: ElementwiseFusionPlan, *arrays: np.ndarray, out: Any = None) -> Any:
    kernel = COMPILING.fuse(plan)
    assert kernel is not None
    found = kernel(*(x.view(DeviceArray) for x in arrays), out=out)
    return (
        tuple(x.view(np.ndarray) for x in found)
        if isinstance(found, tuple)
        else found.view(np.ndarray)
    )


@needs_compiler
@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(k, marks=pytest.mark.slow) for k in range(3, 40))]
)
def test_random_chains(seed: int, rng: np.random.Generator) -> None:
    """Any strides; shapes of every rank share one kernel."""
    chain = random_chain(rng, (), ops=FORMULAS)
    while COMPILING.fuse(chain.plan) is None:  # a step has no formula
        chain = random_chain(rng, (), ops=FORMULAS)
    for shape in ((5,), (3, 40), (2, 3, 7), (0, 3)):
        inputs = tuple(ArraySpec(spec.dtype, shape) for spec in chain.plan.inputs)
        shaped = Chain(
            ElementwiseFusionPlan(inputs, chain.plan.steps, chain.plan.outputs), chain.known
        )
        arrays = inputs_of(shaped.plan, LAYOUTS, rng)
        assert_chain(shaped, arrays, run(shaped.plan, *arrays), f"{seed=}: ")


@needs_compiler
@pytest.mark.parametrize("op", ["reduce_sum", "reduce_max"])
def test_reductions(op: str, rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, (6, 5, 11)).astype(F8)
    for axes in ((0,), (2,), (0, 1, 2), (1, 2)):
        plan = ElementwiseFusionPlan((ArraySpec(F8, x.shape),), NEGATE, (1,), op, axes)
        want = cpu().apply(op, reduction_attrs(op, axes), -x)
        np.testing.assert_array_equal(run(plan, x), want)
        (spec,) = plan.output_specs()
        out = np.full(spec.shape, 7.0)
        assert np.shares_memory(run(plan, x, out=out.view(DeviceArray)), out)
        np.testing.assert_array_equal(out, want)


@needs_compiler
def test_long_reductions_have_scratch(rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, (3, 1 << 17)).astype(F8)
    plan = ElementwiseFusionPlan((ArraySpec(F8, x.shape),), NEGATE, (1,), "reduce_sum", (1,))
    np.testing.assert_array_equal(run(plan, x), -x.sum(axis=1))
    assert COMPILING.fused_scratch_bytes(plan) == scratch_bytes(plan) >= 3 * 2 * 8


@needs_compiler
def test_between_elements(rng: np.random.Generator) -> None:
    """Strides that are no whole elements: the field of a record."""
    records = np.zeros((4, 6), [("flag", "i1"), ("x", "f8")])
    records["x"] = rng.standard_normal((4, 6))
    plan = ElementwiseFusionPlan((ArraySpec(F8, (4, 6)),), NEGATE, (1,))
    np.testing.assert_array_equal(run(plan, records["x"]), -records["x"])
    out = np.zeros((4, 6), [("flag", "i1"), ("x", "f8")])
    run(plan, records["x"], out=out["x"].view(DeviceArray))
    np.testing.assert_array_equal(out["x"], -records["x"])
    assert not out["flag"].any()


@needs_compiler
def test_functions(device: None, rng: np.random.Generator) -> None:
    """What users call: chains become kernels, and results are those of the host."""
    x = rng.standard_normal((64, 65))
    for call in (einloom.softmax, einloom.logsumexp):
        want = call(x, axis=1)
        found = call(x.view(DeviceArray), axis=1)
        assert type(found) is DeviceArray
        np.testing.assert_allclose(found.view(np.ndarray), want, rtol=1e-13)


def test_declined() -> None:
    """Without a compiler of CUDA; for dtypes that have no formula."""
    plan = ElementwiseFusionPlan((ArraySpec(F8, (3,)),), NEGATE, (1,))
    assert STAND_INS["gpu"].fuse(plan) is None
    wide = ElementwiseFusionPlan((ArraySpec(np.dtype("longdouble"), (3,)),), NEGATE, (1,))
    assert COMPILING.fuse(wide) is None
