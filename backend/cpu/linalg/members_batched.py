"""The functions of `members` by LAPACK in a compiled loop over the batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dtypes import real_of
from ..kernels.linalg.steps import UPPER
from .batched import _info, _new, _packed, _unpacked, stacked
from .routines import Steps

Array = np.ndarray[Any, Any]


def schur(a: Array) -> tuple[Array, Array, list[Array], Array]:
    n, info = a.shape[-1], _info(a)
    t, z = _new(a, n, n), _new(a, n, n)
    steps = Steps(a.dtype)
    work, size, vectors = _packed(steps, a), steps.constant(n), steps.scratch(n * n)
    parts = [_new(a, n) for _ in range(1 if steps.is_complex else 2)]
    unused = steps.scratch(n, np.int32)  # what a sorted form would need
    first = [steps.constant("V"), steps.constant("N"), unused, size, work, size]
    first += [steps.scratch(1, np.int32), *(steps.array(stacked(x, 1)) for x in parts)]
    first += [vectors, size]
    last = [steps.scratch(n, real_of(a.dtype))] if steps.is_complex else []
    _call(steps, "gees", first, {len(first): a.dtype}, [*last, unused, _code(steps, info)])
    _unpacked(steps, work, n, t)
    _unpacked(steps, vectors, n, z)
    steps.run(info.size)
    return t, z, parts, info


def qr_pivoted(a: Array, mode: str) -> tuple[Array | None, Array, Array]:
    m, n = a.shape[-2:]
    k = min(m, n)
    columns = m if mode == "complete" else k
    pivots = np.zeros((*a.shape[:-2], n), np.int32)  # columns that may move
    steps = Steps(a.dtype)
    work = steps.scratch(m * max(n, columns))
    of, strides = steps.take(stacked(a))
    steps.copy(of, strides, work, (1, m), (m, n))
    rows, taus, code = steps.constant(m), steps.scratch(k), steps.scratch(1, np.int32)
    first = [rows, steps.constant(n), work, rows, steps.array(stacked(pivots, 1)), taus]
    last = [steps.scratch(2 * n, real_of(a.dtype))] if steps.is_complex else []
    _call(steps, "geqp3", first, {6: a.dtype}, [*last, code])
    r = _new(a, columns, n)
    _unpacked(steps, work, m, r, UPPER)
    q = None if mode == "r" else _new(a, m, columns)
    if q is not None:
        first = [rows, steps.constant(columns), steps.constant(k), work, rows, taus]
        _call(steps, "ungqr" if steps.is_complex else "orgqr", first, {6: a.dtype}, [code])
        _unpacked(steps, work, m, q)
    steps.run(pivots.size // n)
    return q, r, pivots


def eigh_range(
    a: Array, lower: bool, kind: str, low: float, high: float
) -> tuple[Array, Array, Array, Array]:
    n, info, real = a.shape[-1], _info(a), real_of(a.dtype)
    most = int(high) - int(low) + 1 if kind == "I" else n
    w, v, counts = _new(a, n, dtype=real), _new(a, n, most), _info(a)
    steps = Steps(a.dtype)
    work, size, vectors = _packed(steps, a), steps.constant(n), steps.scratch(n * most)
    first = [steps.constant("V"), steps.constant(kind), steps.constant("L" if lower else "U")]
    first += [size, work, size, steps.constant(float(low)), steps.constant(float(high))]
    first += [steps.constant(int(x) + 1 if kind == "I" else 1) for x in (low, high)]
    first += [steps.constant(0.0), _code(steps, counts), steps.array(stacked(w, 1)), vectors, size]
    first += [steps.scratch(2 * n, np.int32)]
    works = [a.dtype, real, np.int32] if steps.is_complex else [a.dtype, np.int32]
    places = {len(first) + 2 * k: dtype for k, dtype in enumerate(works)}
    _call(steps, "heevr" if steps.is_complex else "syevr", first, places, [_code(steps, info)])
    _unpacked(steps, vectors, n, v)
    steps.run(info.size)
    return w[..., :most], v, counts, info


def _call(
    steps: Steps, name: str, first: list[int], works: dict[int, Any], last: list[int]
) -> None:
    """A call with `works`, each as long as the routine likes, between the other arguments."""
    lengths = steps.best(name, [*first, *[-1] * (2 * len(works)), *last], works)
    spaces: list[int] = []
    for length, dtype in zip(lengths, works.values(), strict=True):
        spaces += [steps.scratch(length, dtype), steps.constant(length)]
    steps.call(name, *first, *spaces, *last)


def _code(steps: Steps, x: Array) -> int:
    return steps.array(stacked(x, 0))
