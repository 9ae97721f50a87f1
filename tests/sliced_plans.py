"""Plans whose labels are sliced, summed or in the output, operands for them, and ends for their workers."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import einloom
from einloom import Network
from einloom.contract import slices
from einloom.contract.plan import Plan
from tests.networks import grid, random_network

DTYPES = ["f8", "f4", "c16", "c8", "i8", "?", "f2", "g", "O"]
FLOATS = ["f8", "f4", "c16", "f2", "g"]


def integers(plan: Plan, seed: int = 0) -> list[np.ndarray]:
    """Small integers, of which sums are exact in whatever order they are added."""
    r = np.random.default_rng(seed)
    specs = zip(plan.network.shapes, plan.dtypes, strict=True)
    return [np.asarray(r.integers(0, 3, shape)).astype(dtype) for shape, dtype in specs]


def reals(plan: Plan, seed: int = 0) -> list[np.ndarray]:
    """Numbers whose sums are rounded, so that their bits tell the order."""
    r = np.random.default_rng(seed)
    specs = zip(plan.network.shapes, plan.dtypes, strict=True)
    return [np.asarray(r.standard_normal(shape)).astype(dtype) for shape, dtype in specs]


def random_plan(seed: int, dtypes: list[str] | None = None, **keywords: Any) -> Plan:
    """Some labels of it sliced, or all, or none; its labels repeat in inputs and output."""
    r = random.Random(seed)
    network = random_network(r, sizes=(1, 2, 2, 3))
    if network.output and r.random() < 0.2:
        output = [*network.output, r.choice(network.output)]
        network = Network(network.inputs, output, network.sizes, embed_diagonal=True)
    dtype, order = r.choice(dtypes or DTYPES), r.choice("KCFA")
    operands = [np.zeros(shape, dtype) for shape in network.shapes]
    plan = einloom.plan(network, *operands, order=order, embed_diagonal=True, **keywords)
    carried = frozenset().union(*plan.network.carried)
    labels = sorted(label for label in carried if plan.network.extents[label] > 1)
    return replace(plan, sliced=tuple(r.sample(labels, r.randint(0, len(labels)))))


def lattice(**keywords: Any) -> Plan:
    """A plan of 81 slices of a lattice, all summed."""
    return replace(einloom.plan(grid(3, 4, 3), **keywords), sliced=(0, 4, 7, 9))


def same_bits(x: Any, y: Any) -> bool:
    """Of results, mantissa and exponent or not; Python's objects by their values."""
    if isinstance(x, tuple):
        return x[1] == y[1] and same_bits(x[0], y[0])
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    return bool((x == y).all()) if x.dtype.char in "OgG" else x.tobytes() == y.tobytes()


def kill_at(monkeypatch: pytest.MonkeyPatch, calls: set[int], pids: Any) -> None:
    """End some processes at some of the times that a range comes back."""
    take, count = slices._Tasks._take, 0

    def killing(self: Any, *arguments: Any) -> None:
        nonlocal count
        count += 1
        if count in calls:
            for pid in pids():
                os.kill(pid, signal.SIGKILL)
        take(self, *arguments)

    monkeypatch.setattr(slices._Tasks, "_take", killing)
