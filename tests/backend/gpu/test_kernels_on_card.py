"""Fused chains and copies on a GPU, beside the ops of the CPU. Skipped where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.chains import FORMULAS, Chain, assert_chain, inputs_of, random_chain

from einloom import backend
from einloom.backend.fusion import ElementwiseFusionPlan
from einloom.backend.gpu import missing
from einloom.backend.gpu.move import contiguous
from einloom.backend.spec import ArraySpec

WHY = missing()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(WHY is not None, reason=f"{WHY}")]


@pytest.mark.parametrize("seed", range(40))
def test_random_chains(seed: int, rng: np.random.Generator) -> None:
    gpu = backend.get("gpu")
    chain = random_chain(rng, (), ops=FORMULAS)
    while gpu.fuse(chain.plan) is None:
        chain = random_chain(rng, (), ops=FORMULAS)
    for shape in ((5,), (3, 40), (2, 3, 7), (0, 3), (1000, 300)):
        inputs = tuple(ArraySpec(spec.dtype, shape) for spec in chain.plan.inputs)
        plan = ElementwiseFusionPlan(inputs, chain.plan.steps, chain.plan.outputs)
        arrays = inputs_of(plan, ("C",), rng)
        kernel: Any = gpu.fuse(plan)
        found = kernel(*map(gpu.to_device, arrays))
        several = found if isinstance(found, tuple) else (found,)
        got = tuple(gpu.to_host(x) for x in several)
        assert_chain(Chain(plan, chain.known), arrays, got, f"{seed=}: ")


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8", "c16"])
def test_permutations(dtype: str, rng: np.random.Generator) -> None:
    gpu: Any = backend.get("gpu")
    for shape, order in (
        ((70, 80), (1, 0)),
        ((33, 7, 40), (2, 1, 0)),
        ((2,) * 14, (13, *range(13))),
    ):
        x = rng.integers(0, 100, shape).astype(dtype)
        found = contiguous(gpu.xp, gpu.to_device(x).transpose(order))
        np.testing.assert_array_equal(gpu.to_host(found), x.transpose(order))
