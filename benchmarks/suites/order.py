"""How fast arrays are sorted and scanned, and random words made from counters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..harness import CaseResult
from .single_ops import OpCase

SHAPES: tuple[tuple[int, ...], ...] = ((10**7,), (1000, 10_000), (100_000, 100))
QUICK: tuple[tuple[int, ...], ...] = ((300,), (10, 30), (100, 3))


def order(quick: bool) -> Iterator[CaseResult]:
    """sort, argsort, scans and threefry2x32 of 10^7 elements."""
    rng = np.random.default_rng(12)
    shapes = QUICK if quick else SHAPES
    for cases in (scans(shapes, rng), words(shapes[0][0], rng), sorts(shapes, rng)):
        for case in cases:
            yield case.measured(quick)


def sorts(shapes: tuple[tuple[int, ...], ...], rng: np.random.Generator) -> Iterator[OpCase]:
    one = max(1, shapes[0][0] // 10)  # a million: single lines take others seconds
    for shape, dtype in (
        *((shape, "float64") for shape in shapes),
        *(((one,), dtype) for dtype in ("float32", "int64")),
    ):
        drawn = (rng.standard_normal(shape) * 1e6).astype(dtype)
        axis = len(shape) - 1
        attrs = {"axis": axis, "descending": False}
        yield OpCase(
            f"argsort {dtype} {shape}",
            "argsort",
            attrs,
            (drawn,),
            lambda x: np.argsort(x, axis=-1, kind="stable"),
            lambda torch: lambda x: torch.argsort(x, dim=-1, stable=True),
            lambda jax: lambda x: jax.numpy.argsort(x, axis=-1),
        )
        yield OpCase(
            f"sort {dtype} {shape}",
            "sort",
            attrs,
            (drawn,),
            lambda x: np.sort(x, axis=-1),
            lambda torch: lambda x: torch.sort(x, dim=-1).values,
            lambda jax: lambda x: jax.numpy.sort(x, axis=-1),
        )


def scans(shapes: tuple[tuple[int, ...], ...], rng: np.random.Generator) -> Iterator[OpCase]:
    for shape in shapes:
        drawn = rng.uniform(0.9, 1.1, shape)
        factors = np.exp(1e-4 * rng.standard_normal(shape))  # running products stay near 1
        for axis in range(len(shape)):
            for kind in ("sum", "prod", "max") if len(shape) == 1 else ("sum", "max"):
                yield _scan(factors if kind == "prod" else drawn, axis, kind)
    yield _scan(rng.random(shapes[0], np.float32), 0, "sum")
    yield _scan(rng.integers(0, 99, shapes[0]), 0, "sum")


def _scan(x: Any, axis: int, kind: str) -> OpCase:
    ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum}[kind]

    def by_torch(torch: Any) -> Any:
        if kind == "max":
            return lambda x: torch.cummax(x, axis).values
        function = {"sum": torch.cumsum, "prod": torch.cumprod}[kind]
        return lambda x: function(x, axis)

    def by_jax(jax: Any) -> Any:
        function = {"sum": jax.lax.cumsum, "prod": jax.lax.cumprod, "max": jax.lax.cummax}[kind]
        return lambda x: function(x, axis)

    return OpCase(
        f"scan {kind} {x.dtype} {x.shape}, axis {axis}",
        "associative_scan",
        {"axis": axis, "kind": kind},
        (x,),
        lambda x: ufunc.accumulate(x, axis=axis, dtype=x.dtype),
        by_torch,
        by_jax,
        tolerance=0 if kind == "max" or x.dtype.kind == "i" else 1e-3 if x.itemsize == 4 else 1e-9,
    )


def words(n: int, rng: np.random.Generator) -> Iterator[OpCase]:
    """Beside the same rounds by NumPy; JAX has the words of a pair in two halves of an array."""
    from einloom.backend.cpu.threefry import enciphered

    counter = np.arange(2 * n, dtype=np.uint32).reshape(n, 2)
    key = np.broadcast_to(rng.integers(0, 2**32, 2, np.uint32), (n, 2))

    def by_jax(jax: Any) -> Any:
        from jax.extend.random import threefry_2x32

        return lambda key, counter: threefry_2x32(key[0], counter.reshape(-1))

    yield OpCase(
        "threefry2x32, one key",
        "threefry2x32",
        {},
        (key, counter),
        lambda key, counter: np.stack(
            enciphered(*(key[0, k] for k in (0, 1)), *(counter[:, k] for k in (0, 1))), -1
        ),
        jax=by_jax,
        unchecked=("jax",),
    )
