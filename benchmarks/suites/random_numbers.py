"""How fast arrays are filled with random numbers, beside NumPy's Generator, torch and JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from einloom import random

from .. import peers
from ..harness import CaseResult, measure
from ..machine import Contender

SIZE = 10_000_000
HIGH = 1000  # of integers


@dataclass(frozen=True)
class Drawn:
    """What is drawn, of which dtype, and its mean and deviation in parts of itself."""

    name: str
    dtype: str
    mean: float
    deviation: float


DRAWS = (
    Drawn("uniform", "float32", 0.5, 1 / 12**0.5),
    Drawn("uniform", "float64", 0.5, 1 / 12**0.5),
    Drawn("normal", "float32", 0.0, 1.0),
    Drawn("normal", "float64", 0.0, 1.0),
    Drawn("integers", "int32", (HIGH - 1) / 2, HIGH / 12**0.5),
    Drawn("integers", "int64", (HIGH - 1) / 2, HIGH / 12**0.5),
    Drawn("permutation", "int64", (SIZE - 1) / 2, SIZE / 12**0.5),
)


def random_numbers(quick: bool) -> Iterator[CaseResult]:
    """10^7 uniform and normal numbers, integers below 1000, and orders; peers draw others."""
    for drawn in DRAWS:
        n = SIZE // 1000 if quick else SIZE
        contenders = dict(_contenders(drawn, n))
        _check(drawn, contenders["einloom"]())
        yield measure(
            f"{drawn.name} {drawn.dtype}",
            contenders,
            rounds=15,
            budget=10.0,
            unchecked=tuple(who for who in contenders if who != "einloom"),
            moved=n * np.dtype(drawn.dtype).itemsize,
            facts={"size": n},
            quick=quick,
        )


def _check(drawn: Drawn, x: Any) -> None:
    """Mean and deviation are those of the distribution, within five times their own deviations."""
    wide = x.astype(np.float64)
    if drawn.name == "permutation":
        assert (np.bincount(x, minlength=x.size) == 1).all()
        return
    slack = 5 / np.sqrt(x.size)
    assert abs(wide.mean() - drawn.mean) < slack * drawn.deviation
    assert abs(wide.std() / drawn.deviation - 1) < slack


def _contenders(drawn: Drawn, n: int) -> Iterator[tuple[str, Contender]]:
    """einloom first: nobody else gives the same numbers."""
    out = np.empty(n, drawn.dtype)
    yield "einloom", _ours(drawn, n, out)
    yield "numpy", _by_numpy(drawn, n, out)
    torch = peers.torch()
    if torch is not None:
        yield "torch", _by_torch(torch, drawn, n)
    jax = peers.jax()
    if jax is not None:
        yield "jax", _by_jax(jax, drawn, n)


def _ours(drawn: Drawn, n: int, out: Any) -> Contender:
    key = random.key(1)
    if drawn.name == "integers":
        return lambda: random.integers(key, HIGH, out=out)
    if drawn.name == "permutation":
        return lambda: random.permutation(key, n, out=out)
    draw = getattr(random, drawn.name)
    return lambda: draw(key, out=out)


def _by_numpy(drawn: Drawn, n: int, out: Any) -> Contender:
    rng = np.random.default_rng(1)
    calls: dict[str, Callable[[], Any]] = {
        "uniform": lambda: rng.random(dtype=drawn.dtype, out=out),
        "normal": lambda: rng.standard_normal(dtype=drawn.dtype, out=out),
        "integers": lambda: rng.integers(HIGH, size=n, dtype=drawn.dtype),
        "permutation": lambda: rng.permutation(n),
    }
    return calls[drawn.name]


def _by_torch(torch: Any, drawn: Drawn, n: int) -> Contender:
    out = torch.empty(n, dtype=getattr(torch, drawn.dtype))
    calls: dict[str, Callable[[], Any]] = {
        "uniform": lambda: out.uniform_(),
        "normal": lambda: out.normal_(),
        "integers": lambda: out.random_(HIGH),
        "permutation": lambda: torch.randperm(n, out=out),
    }
    return calls[drawn.name]


def _by_jax(jax: Any, drawn: Drawn, n: int) -> Contender:
    """Threefry too, jitted; compiled by the first call, which is not timed."""
    draws: dict[str, Callable[[Any], Any]] = {
        "uniform": lambda key: jax.random.uniform(key, (n,), drawn.dtype),
        "normal": lambda key: jax.random.normal(key, (n,), drawn.dtype),
        "integers": lambda key: jax.random.randint(key, (n,), 0, HIGH, drawn.dtype),
        "permutation": lambda key: jax.random.permutation(key, n),
    }
    draw, key = jax.jit(draws[drawn.name]), jax.random.key(1)
    return lambda: draw(key).block_until_ready()
