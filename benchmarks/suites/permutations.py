"""How fast permuted views are copied: published patterns, and random ones of rank 2 to 25.

Every pattern is timed twice: into a fresh array, and into one that is there already. Fresh results are
row-major; a column-major one is the row-major result of reversed axes, which is the same memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from einloom.backend.cpu.backend import cpu

from .. import peers
from ..harness import CaseResult, measure
from ..machine import Contender

FILE = Path(__file__).parents[1] / "permutations.json"
DTYPES = ("uint8", "int16", "float32", "float64", "complex128")  # 1, 2, 4, 8 and 16 bytes
RANKS = range(2, 26)
SEED = 25
SMALL = 1 << 12  # elements of a quick case


@dataclass(frozen=True)
class Pattern:
    """out = src.transpose(perm); `order` lists the axes of src, the one of largest stride first."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    perm: tuple[int, ...]
    order: tuple[int, ...]
    out_order: Literal["C", "F"]


def permutations(quick: bool) -> Iterator[CaseResult]:
    """Copies of permuted arrays: 10 published patterns, and random ones of rank 2 to 25."""
    rng = np.random.default_rng(SEED)
    for pattern in (*published(), *drawn()):
        shape = shrunk(pattern.shape) if quick else pattern.shape
        src = laid_out(random_array(shape, pattern.dtype, rng), pattern.order)
        view = src.transpose(pattern.perm)
        for kind, contenders in (
            ("fresh", _fresh(view.T if pattern.out_order == "F" else view)),
            ("into out", _into(view, pattern.out_order)),
        ):
            yield measure(
                f"{pattern.name}, {kind}",
                contenders,
                tolerance=0,
                moved=2 * src.nbytes,
                facts={
                    "dtype": pattern.dtype,
                    "shape": shape,
                    "perm": pattern.perm,
                    "bytes": 2 * src.nbytes,
                },
                quick=quick,
            )


def _fresh(view: Any) -> dict[str, Contender]:
    # NumPy and torch by the copy behind ascontiguousarray and contiguous, which return what is
    # contiguous already as it is
    contenders: dict[str, Contender] = {
        "numpy": lambda: np.array(view, order="C", copy=True),
        "einloom": lambda: cpu().apply("copy", {}, view),
    }
    torch = peers.torch()
    if torch is not None:
        tensor = torch.from_numpy(view)
        contenders["torch"] = lambda: tensor.clone(memory_format=torch.contiguous_format)
    return contenders


def _into(view: Any, order: Literal["C", "F"]) -> dict[str, Contender]:
    outs = [np.zeros_like(view, order=order) for _ in range(3)]
    for out in outs:
        out.fill(0)  # its pages are there from now on

    def by_numpy() -> Any:
        np.copyto(outs[0], view)
        return outs[0]

    contenders: dict[str, Contender] = {
        "numpy": by_numpy,
        "einloom": lambda: cpu().apply("copy", {}, view, out=outs[1]),
    }
    torch = peers.torch()
    if torch is not None:
        tensor, target = torch.from_numpy(view), torch.from_numpy(outs[2])
        contenders["torch"] = lambda: target.copy_(tensor)
    return contenders


# ---- patterns ---------------------------------------------------------------------------------


def published() -> Iterator[Pattern]:
    """The patterns of the file, which says where they come from."""
    for entry in json.loads(FILE.read_text(encoding="utf-8"))["patterns"]:
        yield Pattern(
            entry["id"],
            {"f64": "float64"}[entry["dtype"]],
            tuple(entry["shape"]),
            tuple(entry["perm"]),
            _axis_order(entry["src_layout"], len(entry["shape"])),
            "F" if entry["dst_layout"]["kind"] == "col_major" else "C",
        )


def _axis_order(layout: dict[str, Any], rank: int) -> tuple[int, ...]:
    """Axes from the largest stride to the smallest; explicit strides must leave no gaps."""
    if layout["kind"] == "col_major":
        return tuple(reversed(range(rank)))
    return tuple(sorted(range(rank), key=lambda axis: -layout["strides"][axis]))


def drawn() -> Iterator[Pattern]:
    """One random pattern of each rank: about 2^22 to 2^24 elements, 2^25 of rank 25."""
    rng = np.random.default_rng(SEED)
    for rank in RANKS:
        dtype = DTYPES[(rank - RANKS.start) % len(DTYPES)]
        perm = tuple(map(int, rng.permutation(rank)))
        while perm == tuple(range(rank)):
            perm = tuple(map(int, rng.permutation(rank)))
        least = 24 if np.dtype(dtype).itemsize <= 2 else 22  # more than a cache holds
        shape = _drawn_shape(rank, least, rng)
        name = f"random rank {rank} of {np.dtype(dtype).itemsize} bytes"
        yield Pattern(name, dtype, shape, perm, tuple(range(rank)), "C")


def _drawn_shape(rank: int, least: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Sizes from 2 on whose logarithms are spread at random; 2^least elements and more."""
    bits = max(rank, rng.uniform(least, 24))
    spread = 1 + (bits - rank) * rng.dirichlet(np.ones(rank))
    sizes = [round(2**x) for x in spread]
    while math.prod(sizes) < 1 << least:  # much is lost by rounding where most axes have size 2
        sizes[rng.integers(rank)] += 1
    return tuple(sizes)


# ---- arrays -----------------------------------------------------------------------------------


def random_array(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> Any:
    """Random numbers in row-major order, 0 to 1 or over the integers' whole range."""
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max, shape, kind, endpoint=True)
    if kind.kind == "c":
        real = np.dtype(f"f{kind.itemsize // 2}")
        return rng.random((*shape[:-1], 2 * shape[-1]), real).view(kind)
    return rng.random(shape, kind)


def laid_out(x: Any, order: tuple[int, ...]) -> Any:
    """x's numbers under x's shape, with axes in memory in this order, the last the innermost."""
    memory = x.reshape([x.shape[axis] for axis in order])
    return memory.transpose(np.argsort(order))


def shrunk(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with its longest axes halved until it is small."""
    sizes = list(shape)
    while math.prod(sizes) > SMALL:
        longest = sizes.index(max(sizes))
        sizes[longest] = (sizes[longest] + 1) // 2
    return tuple(sizes)
