"""Which suites there are: each yields results of its cases, of small ones when `quick`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..harness import CaseResult
from .einsum import einsum
from .elementwise import elementwise
from .expressions import expressions
from .fft import fft
from .first_calls import cold
from .gemm_batch import gemm_batch
from .gpu import PARTS as GPU
from .gpu import gpu
from .imports import imports
from .index import index
from .layouts import layouts
from .linalg import PARTS as LINALG
from .linalg import linalg
from .order import order
from .overhead import overhead
from .permutations import permutations
from .plan import plan
from .plan_speed import speed
from .program import program
from .random_numbers import random_numbers
from .reductions import reductions
from .tccg import tccg, tccg_full
from .threads import threads
from .unseen import unseen

SUITES: dict[str, Callable[[bool], Iterator[CaseResult]]] = {
    "overhead": overhead,
    "einsum": einsum,
    "cold": cold,
    "tccg": tccg,
    "expressions": expressions,
    "unseen": unseen,
    "gemm_batch": gemm_batch,
    "permutations": permutations,
    "elementwise": elementwise,
    "reductions": reductions,
    "threads": threads,
    "program": program,
    "layouts": layouts,
    "plan": plan,
    "plan_speed": speed,
    "linalg": linalg,
    "fft": fft,
    "index": index,
    "order": order,
    "random": random_numbers,
    "import": imports,
    "gpu": gpu,
}

FULL: dict[str, Callable[[bool], Iterator[CaseResult]]] = {"tccg": tccg_full}
"""What --full runs in place of the suite of that name: published sizes, which take long."""

PARTS: dict[str, Mapping[str, Callable[[bool], Iterator[CaseResult]]]] = {
    "linalg": LINALG,
    "gpu": GPU,
}
"""Parts of suites that take long, by name."""
