"""What a small call costs beside the bare np.dot chain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import opt_einsum

import einloom

from .. import peers
from ..harness import CaseResult, measure
from ..machine import Contender


def overhead(quick: bool) -> Iterator[CaseResult]:
    """Time of a call beside the bare np.dot chain, for matrices of 8 by 8."""
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
