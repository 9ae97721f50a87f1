"""No kernel reads or writes beside its arrays: indices are checked, and what surrounds arrays is watched.

numba checks indices where NUMBA_BOUNDSCHECK says so, in a process of its own. Instructions that move
whole vectors know no indices: for these, arrays lie in larger ones full of a number that nothing has.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einloom
from einloom._base.options import options
from einloom.backend.cpu import cpu
from einloom.backend.cpu.jit import kernel
from einloom.backend.cpu.move import move
from einloom.backend.fusion import ElementwiseFusionPlan, FusionStep, reduction_attrs
from einloom.backend.spec import ArraySpec

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
WATCHED = 77  # stands beside arrays
MARGIN = 70  # elements, more than any vector has
PLACES = ("dense", "strided", "reversed", "permuted")


class Embedded:
    """An array inside a larger one, of which nothing else may be read or written."""

    def __init__(self, values: Array, place: str, rng: np.random.Generator) -> None:
        index: tuple[slice, ...]
        if place == "dense":
            self.room = np.full(values.size + 2 * MARGIN, WATCHED).astype(values.dtype)
            index = (slice(MARGIN, MARGIN + values.size),)
            self.x = self.room[index].reshape(values.shape)
        else:
            step = {"strided": 2, "reversed": -1, "permuted": 1}[place]
            order = rng.permutation(values.ndim) if place == "permuted" else range(values.ndim)
            shape = [abs(step) * values.shape[axis] + 8 for axis in order]
            self.room = np.full(shape, WATCHED).astype(values.dtype)
            index = tuple(slice(4, 4 + abs(step) * values.shape[axis], abs(step)) for axis in order)
            view = self.room[(*index, ...)].transpose(np.argsort(order))
            self.x = view[(*[slice(None, None, step // abs(step))] * values.ndim, ...)]
        self.x[...] = values
        self.mine = np.zeros(self.room.shape, bool)
        self.mine[index] = True

    def check(self, want: Array) -> None:
        np.testing.assert_allclose(self.x, want, rtol=1e-12)
        assert (self.room[~self.mine] == np.array(WATCHED).astype(self.x.dtype)).all()


def numbers(shape: Shape, name: str, rng: np.random.Generator) -> Array:
    return np.asarray(rng.integers(-9, 9, shape)).astype(name)


# ---- what runs in the other process --------------------------------------------------------------

MOVED: tuple[tuple[Shape, tuple[int, ...]], ...] = (
    *(((67, 131), (1, 0)), ((3, 1009), (1, 0)), ((1, 500), (1, 0)), ((130, 16), (1, 0))),
    *(((2, 3, 509), (2, 0, 1)), ((64, 3, 130), (2, 1, 0)), ((512, 512), (1, 0))),
    *(((40, 50, 6), (1, 0, 2)), ((7, 11, 13, 17), (3, 1, 2, 0)), ((33, 70), (0, 1))),
)


def check_moves(rng: np.random.Generator) -> None:
    for name in ("int8", "int16", "float32", "float64", "complex128"):
        for n, (shape, perm) in enumerate(MOVED):
            for to, of in ((n, 0), (0, n + 1), (n + 2, n)):
                values = numbers(shape, name, rng)
                src = Embedded(values, PLACES[of % 4], rng)
                zeros = np.zeros([shape[axis] for axis in perm], name)
                dst = Embedded(zeros, PLACES[to % 4], rng)
                move(dst.x, src.x.transpose(perm))
                dst.check(values.transpose(perm))
                src.check(values)


def check_loops(rng: np.random.Generator) -> None:
    attrs = {"batch": ((0,), (0,)), "contracting": ((2,), (1,))}
    for name in ("int64", "float64"):
        for turn, (b, m, k, n) in enumerate(((90, 3, 5, 4), (7, 2, 3, 70), (1009, 2, 1, 3))):
            for place in PLACES:
                x, y = numbers((b, m, k), name, rng), numbers((b, k, n), name, rng)
                lhs, rhs = Embedded(x, place, rng), Embedded(y, PLACES[turn], rng)
                out = Embedded(np.zeros((b, m, n), name), place, rng)
                cpu().apply("dot_general", attrs, lhs.x, rhs.x, out=out.x)
                out.check(x @ y)


REDUCED: tuple[Shape, ...] = ((9001,), (40, 50), (3, 5000), (5000, 3), (6, 7, 300), (33, 2, 65, 3))


def check_reductions(rng: np.random.Generator) -> None:
    for name, op in (("float64", "reduce_sum"), ("int16", "reduce_max")):
        for n, shape in enumerate(REDUCED):
            ranks = range(len(shape))
            subsets = chain.from_iterable(combinations(ranks, r) for r in range(1, len(shape) + 1))
            for k, axes in enumerate(subsets):
                values = numbers(shape, name, rng)
                want = (np.sum if op == "reduce_sum" else np.max)(values, axis=axes)
                x = Embedded(values, PLACES[(n + k) % 4], rng)
                out = Embedded(np.asarray(want) * 0, PLACES[k % 4], rng)
                cpu().apply(op, reduction_attrs(op, axes), x.x, out=out.x)
                out.check(want)
                x.check(values)


def check_chains(rng: np.random.Generator) -> None:
    steps = (FusionStep("multiply", (0, 1)), FusionStep("add", (2, 0)))
    for n, shape in enumerate(((5000,), (70, 65), (3, 3000), (3000, 3), (9, 8, 70))):
        spec = ArraySpec(np.dtype("float64"), shape)
        whole = ElementwiseFusionPlan((spec, spec), steps, (3, 2))
        total = ElementwiseFusionPlan((spec, spec), steps, (3,), "reduce_sum", (len(shape) - 1,))
        for place in PLACES[: 4 if n in (1, 4) else 1]:
            a, b = numbers(shape, "float64", rng), numbers(shape, "float64", rng)
            x, y = Embedded(a, place, rng), Embedded(b, "dense", rng)
            for plan, wants in ((whole, (a * b + a, a * b)), (total, ((a * b + a).sum(-1),))):
                run = cpu().fuse(plan)
                assert run is not None
                outs = [Embedded(np.asarray(want) * 0, place, rng) for want in wants]
                run(x.x, y.x, out=tuple(out.x for out in outs))
                for out, want in zip(outs, wants, strict=True):
                    out.check(want)


def check_indexing(rng: np.random.Generator) -> None:
    """Indices of all kinds, and lines of several tiles."""
    along = {"axis": 0, "mode": "add", "unique_indices": False}
    for shape in ((5000,), (700, 9), (9, 700)):
        values = numbers(shape, "float64", rng)
        rows = rng.integers(-shape[0], shape[0], shape)
        for k, place in enumerate(PLACES):
            x, i = Embedded(values, place, rng), Embedded(rows, PLACES[k - 1], rng)
            out = Embedded(values * 0, PLACES[k - 2], rng)
            cpu().apply("take_along_axis", {"axis": 0}, x.x, i.x, out=out.x)
            out.check(np.take_along_axis(values, rows, 0))
            want = values.copy()
            where = np.indices(shape, sparse=True)
            np.add.at(want, (rows, *where[1:]), values)
            cpu().apply("scatter_along_axis", along, values, i.x, x.x, out=out.x)
            out.check(want)
            cpu().apply("associative_scan", {"axis": 0, "kind": "sum"}, x.x, out=out.x)
            out.check(np.cumsum(values, 0))
            order = Embedded(rows * 0, place, rng)
            cpu().apply("argsort", {"axis": 0, "descending": False}, x.x, out=order.x)
            order.check(np.argsort(values, 0, kind="stable"))
            x.check(values)


def check_windows(rng: np.random.Generator) -> None:
    attrs = {"kernel": (3, 2), "strides": (1, 2), "dilation": (2, 1), "low": (1, 1), "high": (0, 2)}
    values = numbers((3, 40, 30), "float64", rng)
    columns = cpu().apply("unfold", attrs, values)
    want = cpu().apply("fold", {"sizes": (40, 30), **attrs}, columns)
    for k, place in enumerate(PLACES):
        x, given = Embedded(values, place, rng), Embedded(columns, PLACES[k - 1], rng)
        out = Embedded(columns * 0, PLACES[k - 2], rng)
        cpu().apply("unfold", attrs, x.x, out=out.x)
        out.check(columns)
        back = Embedded(values * 0, place, rng)
        cpu().apply("fold", {"sizes": (40, 30), **attrs}, given.x, out=back.x)
        back.check(want)


CHECKS = {"moves": check_moves, "loops": check_loops, "reductions": check_reductions,
          "chains": check_chains, "indexing": check_indexing, "windows": check_windows}  # fmt: skip


def beyond(out: Any) -> None:
    out[np.uint64(out.size)] = 1


def check(what: str) -> None:
    with pytest.raises(IndexError):  # else nothing is checked here
        kernel(beyond)(np.zeros(3))
    for threads in (1, 2):
        with options(small=0, threads=threads):
            CHECKS[what](np.random.default_rng(threads))


@pytest.mark.slow
@pytest.mark.parametrize("what", CHECKS)
def test_nothing_beside(what: str, tmp_path: Path) -> None:
    roots = (Path(einloom.__file__).parents[1], Path(__file__).parents[2])
    variables = {
        **os.environ,
        "NUMBA_BOUNDSCHECK": "1",
        "EINLOOM_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(map(str, roots)),
    }
    text = f"from tests.backend.test_bounds import check; check({what!r})"
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
