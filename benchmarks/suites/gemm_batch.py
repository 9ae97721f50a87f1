"""Products of matrices of different sizes, as the blocks of symmetric tensors are: against loops of peers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import einloom
from einloom._base.options import num_threads

from .. import peers
from ..harness import CaseResult, measure
from ..machine import Contender

Pairs = list[tuple[Any, Any]]
CASES = {  # least and largest size, how many products, and how many of them have one target
    "2000 of 4 to 64": (4, 64, 2000, 1),
    "2000 of 4 to 64, added up by 8": (4, 64, 2000, 8),
    "150 of 8 to 512": (8, 512, 150, 1),
    "150 of 8 to 512, added up by 3": (8, 512, 150, 3),
    "6 of 256 to 1024": (256, 1024, 6, 1),
}
FEWER = 50  # times, when quick


def gemm_batch(quick: bool) -> Iterator[CaseResult]:
    """Many small, mixed and few large products of matrices whose sizes are drawn evenly by logarithm."""
    for name, (low, high, count, sharing) in CASES.items():
        if quick:
            high, count = min(high, 64), max(6, count // FEWER)
        pairs = drawn(min(low, high), high, count, sharing)
        with ThreadPoolExecutor(num_threads()) as pool:
            yield measure(name, _contenders(pairs, sharing, pool), tolerance=1e-9, quick=quick)


def drawn(low: int, high: int, count: int, sharing: int) -> Pairs:
    """So many pairs; the products of `sharing` in a row have one shape."""
    rng = np.random.default_rng(0)
    logs = rng.uniform(np.log(low), np.log(high), (count, 3))
    sizes = np.exp(logs).round().astype(int)
    for at in range(count):
        sizes[at, 0], sizes[at, 2] = sizes[at - at % sharing, [0, 2]]
    return [(rng.standard_normal((m, k)), rng.standard_normal((k, n))) for m, k, n in sizes]


def _contenders(pairs: Pairs, sharing: int, pool: ThreadPoolExecutor) -> dict[str, Contender]:
    """Loops over the pairs, or over those that have one target."""
    tensors: Pairs = []
    torch = peers.torch()
    if torch is not None:
        tensors = [(torch.from_numpy(a), torch.from_numpy(b)) for a, b in pairs]
    if sharing == 1:
        contenders: dict[str, Contender] = {
            "numpy": lambda: _Results([a @ b for a, b in pairs]),
            "einloom": lambda: _Results(einloom.gemm_batch(pairs)),
            "futures": lambda: _Results(list(pool.map(lambda pair: np.dot(*pair), pairs))),
        }
        if torch is not None:
            contenders["torch"] = lambda: _Results([a @ b for a, b in tensors])
        return contenders
    groups = range(0, len(pairs), sharing)
    blocks = [np.empty((pairs[at][0].shape[0], pairs[at][1].shape[1])) for at in groups]
    out = [blocks[at // sharing] for at in range(len(pairs))]

    def loop(some: Pairs) -> Any:
        return [sum(a @ b for a, b in some[at : at + sharing]) for at in groups]

    contenders = {
        "numpy": lambda: _Results(loop(pairs)),
        "einloom": lambda: _Results(einloom.gemm_batch(pairs, out=out)[::sharing]),
        "futures": lambda: _Results(
            list(
                pool.map(lambda at: sum(np.dot(*pair) for pair in pairs[at : at + sharing]), groups)
            )
        ),
    }
    if torch is not None:
        contenders["torch"] = lambda: _Results(loop(tensors))
    return contenders


class _Results:
    """Arrays that become one when they are compared, and not when they are timed."""

    def __init__(self, arrays: Any) -> None:
        self.arrays = arrays

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.concatenate([np.asarray(x).ravel() for x in self.arrays])
