"""How fast arrays are reduced over any of their axes, beside NumPy and torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from einloom.backend.catalogue import Attrs, infer
from einloom.backend.cpu.backend import cpu
from einloom.backend.spec import ArraySpec

from .. import peers
from ..harness import CaseResult, measure
from ..machine import Contender

SMALL = 1 << 9  # the part of a shape's longest axis that a quick case leaves out


@dataclass(frozen=True)
class Layout:
    """A shape in memory, how its axes are permuted, and which are reduced then."""

    name: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    perm: tuple[int, ...] = ()


LAYOUTS = (
    Layout("1-D", (1 << 24,), (0,)),
    Layout("2-D first", (4096, 4096), (0,)),
    Layout("2-D last", (4096, 4096), (1,)),
    Layout("3-D middle", (256, 256, 256), (1,)),
    Layout("3-D outer two", (256, 256, 256), (0, 2)),
    Layout("3-D first two", (256, 256, 256), (0, 1)),
    Layout("3-D last two", (256, 256, 256), (1, 2)),
    Layout("transposed 2-D first", (4096, 4096), (0,), (1, 0)),
    Layout("transposed 3-D middle", (256, 256, 256), (1,), (2, 0, 1)),
    Layout("short last", (1_000_000, 10), (1,)),
    Layout("all but the short last", (1_000_000, 10), (0,)),
    Layout("short first", (10, 1_000_000), (0,)),
)
OPS = (
    *(("sum", dtype) for dtype in ("float64", "float32", "int32", "complex64")),
    *(("max", dtype) for dtype in ("float64", "float32", "int32")),
    *(("prod", dtype) for dtype in ("float64", "complex64")),
    *(("mean", dtype) for dtype in ("float64", "float32")),
)
TOLERANCE = {"float64": 1e-9, "float32": 1e-3, "complex64": 1e-2}  # peers add float32 in float32


def reductions(quick: bool) -> Iterator[CaseResult]:
    """Sum, max, prod and mean over subsets of axes, of 10^7 elements and more."""
    rng = np.random.default_rng(3)
    for op, dtype in OPS:
        numbers = random_numbers(1 << 24, op, np.dtype(dtype), rng)
        for layout in LAYOUTS:
            yield _case(layout, op, numbers, quick)


def _case(layout: Layout, op: str, numbers: Any, quick: bool) -> CaseResult:
    shape = tuple(max(2, n // SMALL) for n in layout.shape) if quick else layout.shape
    x = numbers[: int(np.prod(shape))].reshape(shape)
    if layout.perm:
        x = x.transpose(layout.perm)
    return measure(
        f"{op} {layout.name} {x.dtype}",
        dict(_contenders(op, x, layout.axes)),
        rounds=21,
        budget=4.0,
        tolerance=0 if op == "max" else TOLERANCE.get(x.dtype.name, 0),
        moved=x.nbytes,
        facts={"shape": x.shape, "axes": layout.axes, "bytes": x.nbytes},
        quick=quick,
    )


def random_numbers(size: int, op: str, dtype: np.dtype[Any], rng: np.random.Generator) -> Any:
    """Numbers whose reduction can be checked: factors near 1, else 0 to 1, integers of any size."""
    if dtype.kind == "i":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, size, dtype, endpoint=True)
    parts = 2 if dtype.kind == "c" else 1
    x = rng.random(parts * size, np.dtype(f"f{dtype.itemsize // parts}")).view(dtype)
    return (1 + (x - x.dtype.type(0.5)) * x.real.dtype.type(1e-4)) if op == "prod" else x


def _contenders(op: str, x: Any, axes: tuple[int, ...]) -> Iterator[tuple[str, Contender]]:
    yield "numpy", _by_numpy(op, x, axes)
    yield "einloom", _ours(op, x, axes)
    torch = peers.torch()
    if torch is not None:
        yield "torch", _by_torch(torch, op, x, axes)


def _ours(op: str, x: Any, axes: tuple[int, ...]) -> Contender:
    name = f"reduce_{op}"
    attrs: Attrs = {"axes": axes, "initial": None} if op == "max" else {"axes": axes}
    spec = ArraySpec(x.dtype, x.shape)
    kernel = cpu().bind(name, attrs, (spec,), infer(name, attrs, (spec,)))
    return lambda: kernel(x)


def _by_numpy(op: str, x: Any, axes: tuple[int, ...]) -> Contender:
    if op == "max":
        return lambda: x.max(axis=axes)
    method: Callable[..., Any] = getattr(x, op)
    return lambda: method(axis=axes, dtype=x.dtype)


def _by_torch(torch: Any, op: str, x: Any, axes: tuple[int, ...]) -> Contender:
    tensor = torch.from_numpy(x)
    if op == "max":
        return lambda: torch.amax(tensor, dim=axes)
    if op == "prod":  # which takes one axis at a time, or all
        return lambda: _torch_prod(torch, tensor, axes)
    function = getattr(torch, op)
    return lambda: function(tensor, dim=axes, dtype=tensor.dtype)


def _torch_prod(torch: Any, tensor: Any, axes: tuple[int, ...]) -> Any:
    if len(axes) == tensor.ndim:
        return torch.prod(tensor)
    for axis in sorted(axes, reverse=True):
        tensor = torch.prod(tensor, dim=axis)
    return tensor
