"""Transforms along axes: who works on what, and where the memory comes from.

A library transforms (`fft_native`); here it is decided how it is called. Small work is one call. Else the
axes are taken together where one member of the batch fits into a core's cache, and one by one where not, or
where our own kernels do all of them. Every thread gets a share of the members or lines. Lines of many lengths
go to `fft_lanes`, which transforms as many at once as a vector has lanes. Results lie in lent memory.

    whole      one call of the library for everything
    batch      shares of the batch, all axes at once, in chunks that fit into the cache
    lines      shares of the lines along one axis
    lanes      the same by our own kernel, a line in every lane of a vector
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from ..._base.caches import Cache
from ..._base.options import num_threads
from ..cost_model import FAR
from ..spec import Axes, Shape
from . import fft_lanes
from .buffers import LARGE, empty
from .fft_native import native
from .threads import parallel_for

Kind = Literal["c2c", "r2c", "c2r", "dct", "dst"]
How = Literal["whole", "batch", "lines", "lanes"]

TINY = 1 << 13  # elements below which nobody asks what a transform costs
SHARED = (
    1 << 17
)  # elements times log2 of the length from which threads pay: some 100 µs of one core
CHUNK = 1 << 19  # bytes of the members that the library transforms at a time
ROUND = 1 << 21  # and of those that go through several steps, each of which Python begins
FARTHEST = (
    1 << 25
)  # bytes of the last cache: up to that a step reads what the one before has written
MEMBER = 1 << 20  # bytes of a member of a batch that a core keeps to itself


class Transform(NamedTuple):
    """What is computed; `norm` 0, 1, 2 divides by 1, sqrt(N), N, for N the product of the lengths.

    Attributes:
        kind: complex to complex, real to half spectrum and back, cosine, sine.
        forward: the sign of the exponent; of no meaning for dct and dst.
        norm: what is divided by.
        n: the length of the last axis of c2r.
        type: 1 to 4, of dct and dst.
        orthogonalize: of dct and dst; None: where norm is 1.
    """

    kind: Kind
    forward: bool = True
    norm: int = 0
    n: int = 0
    type: int = 2
    orthogonalize: bool | None = None

    def result(self, shape: Shape, dtype: np.dtype[Any], axes: Axes) -> tuple[Shape, np.dtype[Any]]:
        """Shape and dtype of what comes out of an array of these."""
        last = axes[-1]
        if self.kind == "r2c":
            shape = (*shape[:last], shape[last] // 2 + 1, *shape[last + 1 :])
            return shape, np.dtype(COMPLEX_OF[dtype.char])
        if self.kind == "c2r":
            return (*shape[:last], self.n, *shape[last + 1 :]), np.dtype(REAL_OF[dtype.char])
        return shape, np.dtype(COMPLEX_OF.get(dtype.char, dtype) if self.kind == "c2c" else dtype)

    def call(self, a: Any, axes: Axes, out: Any, threads: int = 1) -> Any:
        """By the library."""
        lib = native()
        if self.kind == "c2c":
            return lib.c2c(a, axes, self.forward, self.norm, out, threads)
        if self.kind == "r2c":
            return lib.r2c(a, axes, self.forward, self.norm, out, threads)
        if self.kind == "c2r":
            return lib.c2r(a, axes, self.n, self.forward, self.norm, out, threads)
        one = lib.dct if self.kind == "dct" else lib.dst
        return one(a, self.type, axes, self.norm, out, threads, self.orthogonalize)


COMPLEX_OF = {"f": "F", "d": "D", "g": "G"}
REAL_OF = {"F": "f", "D": "d", "G": "g"}


class Step(NamedTuple):
    """One pass over the array: which axes, by which means, cut along which axis."""

    how: How
    axes: Axes
    along: int = -1
    rows: int = 0  # of `along` that are transformed at a time; 0: a thread's share at once
    inside: tuple[Step, ...] = ()  # the steps of these rows, where they are more than one call


def transform(
    what: Transform, x: Any, axes: Axes, out: Any = None, threads: int | None = None
) -> Any:
    """`what` along distinct non-negative axes of an aligned array of native float or complex numbers.

    `out` has the result's shape and dtype; it may be x itself where those are the same.
    """
    if x.size < TINY:
        return what.call(x, axes, out)
    threads = threads or num_threads()
    found = planned(what, x, axes, threads)
    if out is None:
        if found[0].how == "whole" and len(found) == 1 and x.nbytes < LARGE:
            return what.call(x, axes, None, 1 if found[0].rows == 1 else threads)
        out = empty(*what.result(x.shape, x.dtype, axes))
    if len(found) == 1:
        _run(what, found[0], x, out, threads)
        return out
    return _one_by_one(what, found, x, out, threads)


def _one_by_one(
    what: Transform, found: tuple[Step, ...], x: Any, out: Any, threads: int, is_far: bool = False
) -> Any:
    """Real numbers become complex along the last axis before all others, or real again after them.

    is_far: these are rows of arrays beyond the caches, which the first step reads.
    """
    rest = what if what.kind in ("dct", "dst") else what._replace(kind="c2c")
    if what.kind != "c2r":
        _run(what, found[0], x, out, threads, is_last=False, is_far=is_far)
        for k, step in enumerate(found[1:], 2):
            _run(rest, step, out, out, threads, is_last=k == len(found))
        return out
    at, between = x, empty(x.shape, x.dtype)
    for step in found[:-1]:
        _run(rest, step, at, between, threads, is_last=False, is_far=is_far and at is x)
        at = between
    _run(what, found[-1], at, out, threads)
    return out


def _run(
    what: Transform,
    step: Step,
    x: Any,
    out: Any,
    threads: int,
    is_last: bool = True,
    is_far: bool = False,
) -> None:
    if step.how == "whole":
        what.call(x, step.axes, out, 1 if step.rows == 1 else threads)
        return
    if step.how == "lanes":
        fft_lanes.run(what.forward, what.norm, x, out, step.axes[0], threads, is_last, is_far)
        return
    ahead = (slice(None),) * step.along
    n = x.shape[step.along]
    rows = step.rows or n
    is_far = min(x.nbytes, out.nbytes) > FAR

    def piece(start: int, stop: int) -> None:
        for begin in range(start, stop, rows):
            index = (*ahead, slice(begin, min(begin + rows, stop)))
            if step.inside:
                _one_by_one(what, step.inside, x[index], out[index], 1, is_far)
            else:
                what.call(x[index], step.axes, out[index])

    parallel_for(piece, n, threads)


# ---- deciding ---------------------------------------------------------------------------------

_STEPS: Cache[tuple[Step, ...]] = Cache("fft steps", 512)


def planned(what: Transform, x: Any, axes: Axes, threads: int) -> tuple[Step, ...]:
    """The steps for this array; they depend on shape, dtype, strides and options alone."""
    if work(what, x.shape, axes) < SHARED:
        return (Step("whole", axes, rows=1),)
    size = x.size // x.shape[axes[-1]] * what.n if what.kind == "c2r" else x.size
    fastest, compiled = fft_lanes.fastest_axis(x), fft_lanes.is_allowed(size)
    key = (what.kind, what.n, x.shape, x.dtype.char, axes, threads, fastest, compiled)
    found = _STEPS.get(key)
    if found is None:
        case = Case(what, x.shape, x.dtype, axes, threads, fastest, compiled)
        found = _STEPS.put(key, steps(case))
    return found


def work(what: Transform, shape: Shape, axes: Axes) -> float:
    """Elements times log2 of the lengths: what a transform costs, but for a factor."""
    lengths = [shape[axis] for axis in axes]
    if what.kind == "c2r":
        lengths[-1] = what.n
    return math.prod(shape) * math.log2(max(2, math.prod(lengths)))


class Case(NamedTuple):
    """What the steps depend on."""

    what: Transform
    shape: Shape
    dtype: np.dtype[Any]
    axes: Axes
    threads: int
    fastest: int  # the last axis, if its elements are neighbours in memory; else -1
    compiled: bool  # whether kernels of ours may be used

    def later(self, dtype: np.dtype[Any]) -> Case:
        """Of the steps behind the first: they read what that one has written, row by row."""
        return self._replace(fastest=len(self.shape) - 1, dtype=dtype)


def steps(case: Case) -> tuple[Step, ...]:
    """In the order in which they run."""
    what, shape, dtype, axes, threads, *_ = case
    if len(axes) == 1:
        return (_step(case, what.kind, shape, axes[0]),)
    batch = [axis for axis in range(len(shape) - 1) if axis not in axes]
    along = max(batch, key=lambda axis: shape[axis], default=-1)
    slab = dtype.itemsize * math.prod(shape) // max(1, shape[along])
    each = _by_axis(case._replace(threads=1))
    ours = [step.how == "lanes" for step in each]
    # two passes over everything by our own kernels take no longer than two over each member
    apart = all(ours) and (len(each) < 3 or slab * shape[along] <= FARTHEST)
    if batch and slab <= MEMBER and shape[along] >= threads and not apart:
        rows = max(1, (ROUND if any(ours) else CHUNK) // slab)
        return (Step("batch", axes, along, rows, each if any(ours) else ()),)
    return each if threads == 1 else _by_axis(case)


def _by_axis(case: Case) -> tuple[Step, ...]:
    """One axis after another, the halved one where the numbers are real."""
    what, shape, dtype, axes, *_ = case
    if what.kind == "c2c" and dtype.kind == "f":
        return (Step("whole", axes),)  # the library does half the work, by symmetry
    if what.kind == "c2r":
        *others, last = axes
        found = (
            *(
                _step(case.later(dtype) if k else case, "c2c", shape, axis)
                for k, axis in enumerate(others)
            ),
            _step(case.later(dtype), "c2r", shape, last),
        )
        return (Step("whole", axes),) if all(step.how == "whole" for step in found) else found
    after, into = what.result(shape, dtype, axes)
    rest: Kind = "c2c" if what.kind == "r2c" else what.kind
    first = _step(case, what.kind, shape, axes[-1])
    found = (first, *(_step(case.later(into), rest, after, axis) for axis in axes[-2::-1]))
    return (Step("whole", axes),) if all(step.how == "whole" for step in found) else found


def _step(case: Case, kind: Kind, shape: Shape, axis: int) -> Step:
    """The step along one axis of an array of this shape."""
    length = case.what.n if kind == "c2r" else shape[axis]
    if case.compiled and fft_lanes.takes(kind, shape, case.dtype, axis, case.fastest, length):
        return Step("lanes", (axis,))
    others = [other for other in range(len(shape)) if other != axis]
    along = max(others, key=lambda other: shape[other], default=-1)
    if along < 0 or shape[along] < 2 or case.threads == 1:
        return Step("whole", (axis,))
    return Step("lines", (axis,), along)
