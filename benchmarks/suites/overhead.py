"""What a small call costs: beside the bare np.dot chain, and where no two calls have the same shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import opt_einsum

import einloom
from einloom._base.options import PATIENCE
from einloom.backend.spec import Shape

from .. import peers
from ..harness import CaseResult, measure
from ..machine import Contender

CHANGING: dict[str, Callable[[int], tuple[Shape, ...]]] = {
    "ij,jk->ik": lambda n: ((n, 20), (20, n)),
    "ij,jk,kl->il": lambda n: ((n, 20), (20, 20), (20, n)),
    "bij,bjk->bik": lambda n: ((10, n, 20), (10, 20, n)),
    "bi,bj->bij": lambda n: ((10, n), (10, n)),
}
SIZES = range(5, 105)


def overhead(quick: bool) -> Iterator[CaseResult]:
    """Time of a call beside the bare np.dot chain, for matrices of 8 by 8; and of a hundred calls with other
    shapes every time."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.random((8, 8)) for _ in range(3))
    for equation, arrays, bare in (
        ("ij,jk->ik", (a, b), lambda: np.dot(a, b)),
        ("ij,jk,kl->il", (a, b, c), lambda: np.dot(np.dot(a, b), c)),
    ):
        yield measure(
            equation,
            _contenders(equation, arrays, bare),
            baselines=("bare np.dot", "expression"),
            quick=quick,
        )

    for equation, shapes_of in CHANGING.items():
        calls = [
            [rng.random(shape) for shape in shapes_of(n)] for n in SIZES[:: 20 if quick else 1]
        ]
        yield measure(f"{equation}, {len(calls)} shapes", _changing(equation, calls), quick=quick)


def _changing(equation: str, calls: list[list[Any]]) -> dict[str, Contender]:
    """All calls, one after another, of which the last result is compared."""

    def each(einsum: Callable[..., Any]) -> Any:
        for arrays in calls:
            result = einsum(equation, *arrays)
        return result

    def ours() -> Any:
        einloom.clear_caches()  # no call has been before
        with einloom.options(patience=PATIENCE):  # suites have kernels at once
            return each(einloom.einsum)

    return {
        "einloom": ours,
        "opt_einsum": lambda: each(opt_einsum.contract),
        "np.einsum(optimize)": lambda: each(partial(np.einsum, optimize=True)),
    }


def _contenders(equation: str, arrays: tuple[Any, ...], bare: Contender) -> dict[str, Contender]:
    ours = einloom.compile(equation, *arrays)
    theirs = opt_einsum.contract_expression(equation, *(x.shape for x in arrays))
    contenders: dict[str, Contender] = {
        "bare np.dot": bare,
        "expression": lambda: ours(*arrays),
        "einloom": lambda: einloom.einsum(equation, *arrays),
        "opt_einsum expr.": lambda: theirs(*arrays),
        "opt_einsum": lambda: opt_einsum.contract(equation, *arrays),
        "np.einsum(optimize)": lambda: np.einsum(equation, *arrays, optimize=True),
    }
    torch = peers.torch()
    if torch is not None:
        tensors = [torch.from_numpy(x) for x in arrays]
        contenders["torch.einsum"] = lambda: torch.einsum(equation, *tensors)
    return contenders
