"""One op of the catalogue beside the same of NumPy, torch and JAX."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from einloom.backend.catalogue import Attrs, infer
from einloom.backend.cpu.backend import cpu
from einloom.backend.spec import ArraySpec

from .. import peers
from ..harness import CaseResult, measure
from ..machine import Contender

Function = Callable[..., Any]


@dataclass(frozen=True)
class OpCase:
    """A call of an op, and what others call with the same arrays; None where they have no such thing."""

    name: str
    op: str
    attrs: Attrs
    arrays: tuple[Any, ...]
    numpy: Function
    torch: Callable[[Any], Function] | None = None  # of the module
    jax: Callable[[Any], Function] | None = None
    tolerance: float = 0.0
    unchecked: tuple[str, ...] = ()

    def measured(self, quick: bool) -> CaseResult:
        moved = sum(map(distinct_bytes, self.arrays)) + self._output().nbytes
        return measure(
            self.name,
            self._contenders(),
            rounds=5,
            budget=1.5,
            tolerance=self.tolerance,
            unchecked=self.unchecked,
            moved=moved,
            facts={"op": self.op, "shapes": [x.shape for x in self.arrays], "bytes": moved},
            quick=quick,
        )

    def _contenders(self) -> dict[str, Contender]:
        found: dict[str, Contender] = {
            "numpy": lambda: self.numpy(*self.arrays),
            "einloom": self._ours(),
        }
        torch, jax = peers.torch(), peers.jax()
        if self.torch is not None and torch is not None:
            tensors = [torch.from_numpy(x) for x in self.arrays]
            by_torch = self.torch(torch)
            found["torch"] = lambda: by_torch(*tensors)
        if self.jax is not None and jax is not None:
            given = [jax.numpy.asarray(x) for x in self.arrays]
            by_jax = jax.jit(self.jax(jax))
            found["jax"] = lambda: by_jax(*given).block_until_ready()
        return found

    def _ours(self) -> Contender:
        kernel = cpu().bind(self.op, self.attrs, self._inputs(), (self._output(),))
        return lambda: kernel(*self.arrays)

    def _inputs(self) -> tuple[ArraySpec, ...]:
        return tuple(ArraySpec(x.dtype, x.shape) for x in self.arrays)

    def _output(self) -> ArraySpec:
        return infer(self.op, self.attrs, self._inputs())[0]


def distinct_bytes(x: Any) -> int:
    """Bytes of an array in which axes that repeat one element count once."""
    sizes = (1 if stride == 0 else n for n, stride in zip(x.shape, x.strides, strict=True))
    return int(x.itemsize * math.prod(sizes))


def updated(x: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of x after a change in place."""
    y = np.array(x)
    change(y)
    return y
