"""Sorted arrays, and the indices that sort them: along one axis, NaN last in both directions.

Lines along the axis are copied side by side, unless they lie so, and shared out among threads. A falling
order is the rising order of what is turned around: negated numbers, or all bits of integers flipped. So
equal elements keep their order both ways where the sort is stable.

Indices that sort a line are found by sorting integers: the highest bits of a key that grows with the number,
then the place in the line. Where keys have more bits than there is room for, few of them are alike in
their highest bits; these are put in order afterwards, or, if they are many, by a sort of the keys themselves.
NumPy sorts plain integers with vector instructions, but not indices in a stable way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._base.options import get_options
from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec, Axes, compute_dtype
from .buffers import empty
from .kernels.order import FLOAT, SIGNED, UNSIGNED, pack_rows, unpack_rows
from .move import move
from .threads import parallel_for

KEYED = frozenset("?bBhHiIlLqQfdFD")  # dtype characters whose numbers have keys
BLOCK = 1 << 16  # elements that are turned around or sorted at once


def bind_sort(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    axis, falling = attrs["axis"], attrs["descending"]
    last = _with_last(len(output.shape), axis)

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        target, lines = out.transpose(last), x.transpose(last)
        rows = target if _are_rows(target) else empty(target.shape, output.dtype)
        if x.size == x.shape[axis]:  # one line: the thread that sorts it has it in its own caches
            np.copyto(rows, lines)
        else:
            move(rows, lines)
        if rows.size:
            _over_rows(lambda part: _sort_rows(part, falling), rows)
        return out if rows is target else (move(target, rows), out)[1]

    return run


def bind_argsort(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    axis, falling = attrs["axis"], attrs["descending"]
    last = _with_last(len(output.shape), axis)
    wide = compute_dtype(inputs[0].dtype)

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        lines, target = x.transpose(last), out.transpose(last)
        if lines.size < max(1, get_options().small):
            np.copyto(target, _order(lines.astype(wide, copy=False), falling))
            return out
        rows = _as_rows(lines, wide)
        order = target if _are_rows(target) else empty(target.shape, output.dtype)
        by = _order_by_keys if rows.dtype.char in KEYED else _order_plainly
        _over_rows(lambda part, of: by(part, of, falling), order, rows)
        return out if order is target else (move(target, order), out)[1]

    return run


def sort_scratch_bytes(op: str, x: ArraySpec, axis: int, threads: int) -> int:
    """Rows to sort; of the rows that are sorted at once, what is turned around, keys and places."""
    wide = max(8, x.dtype.itemsize)
    at_once = min(x.size, threads * max(BLOCK, x.shape[axis]))
    return (3 if op == "argsort" else 1) * wide * x.size + 6 * wide * at_once


def _with_last(ndim: int, axis: int) -> Axes:
    return (*(d for d in range(ndim) if d != axis), axis)


def _are_rows(x: Any) -> bool:
    """Whether NumPy can sort x along its last axis where it is."""
    return bool(x.flags.c_contiguous and x.flags.aligned)


def _as_rows(x: Any, dtype: np.dtype[Any]) -> Any:
    if x.dtype != dtype:
        return x.astype(dtype, order="C")
    return x if _are_rows(x) else move(empty(x.shape, dtype), x)


def _over_rows(run: Callable[..., None], *arrays: Any) -> None:
    """Call run on some rows of contiguous arrays, on all threads."""
    if arrays[0].ndim == 1 and arrays[0].size < get_options().small:
        with np.errstate(all="ignore"):
            run(*arrays)
        return
    n = arrays[0].shape[-1]
    rows = [x.reshape(-1, n) for x in arrays]
    count, step = len(rows[0]), max(1, BLOCK // n)

    def piece(start: int, stop: int) -> None:
        with np.errstate(all="ignore"):
            for at in range(start, stop, step):
                run(*(x[at : min(at + step, stop)] for x in rows))

    is_small = arrays[0].size < max(1, get_options().small)
    parallel_for(piece, count, 1 if is_small else None)


def _sort_rows(x: Any, falling: bool) -> None:
    single = compute_dtype(x.dtype)
    if x.dtype != single:  # NumPy misplaces infinite float16, and compares bfloat16 one by one
        wide = x.astype(single)
        _sort_rows(wide, falling)
        x[...] = wide
        return
    if falling and x.dtype.kind == "O":
        x[...] = np.sort(x, axis=-1)[..., ::-1]
        return
    if falling:
        turning(x.dtype)(x, out=x)
    x.sort(axis=-1)
    if falling:
        turning(x.dtype)(x, out=x)


def _order_by_keys(order: Any, rows: Any, falling: bool) -> None:
    if rows.dtype.kind != "c":
        _order_real(order, rows, rows, falling)
        return
    # by real parts, and where these are equal by imaginary ones
    real, imag = np.ascontiguousarray(rows.real), np.ascontiguousarray(rows.imag)
    _order_real(order, imag, real, falling)
    real, imag = (np.take_along_axis(part, order, -1) for part in (real, imag))
    last = np.empty_like(order)
    _order_real(last, real, imag, falling)
    order[...] = np.take_along_axis(order, last, -1)


def _order_real(order: Any, rows: Any, others: Any, falling: bool) -> None:
    """Of rows of real numbers; those of which `others` is NaN count as NaN."""
    size = max(4, rows.itemsize)
    kind = FLOAT if rows.dtype.kind == "f" else SIGNED if rows.dtype.kind == "i" else UNSIGNED
    keyed = np.dtype(f"u{size}")
    bits, nans = (_bits(x, size) for x in (rows, others))
    highest, infinity = (
        keyed.type(1 << (8 * size - 1)),
        np.array(np.inf, f"f{size}").view(keyed)[()],
    )
    places = np.uint64(max(1, (rows.shape[-1] - 1).bit_length()))
    keys, packed = empty(rows.shape, keyed), empty(rows.shape, np.dtype(np.uint64))
    shifts, done = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    pack_rows(bits, nans, kind, highest, infinity, falling, places, keys, packed, shifts)
    packed.sort(axis=-1)
    unpack_rows(packed, keys, places, shifts, order, done)
    for row in np.flatnonzero(done == 0):
        order[row] = np.argsort(keys[row], kind="stable")


def _bits(x: Any, size: int) -> Any:
    """The bits of numbers, each in so many bytes."""
    if x.itemsize < size:
        x = x.astype(f"{'i' if x.dtype.kind == 'i' else 'u'}{size}")
    return x.view(f"u{size}")


def _order_plainly(order: Any, rows: Any, falling: bool) -> None:
    np.copyto(order, _order(rows, falling))


def _order(x: Any, falling: bool) -> Any:
    """Along the last axis, stable; elements with a NaN are equal."""
    if x.dtype.kind == "c":
        return _complex_order(x, falling)
    if not falling:
        return np.argsort(x, axis=-1, kind="stable")
    if x.dtype.kind == "O":  # no operation turns objects around: find the last ones first
        order = np.argsort(x[..., ::-1], axis=-1, kind="stable")
        return x.shape[-1] - 1 - order[..., ::-1]
    return np.argsort(turning(x.dtype)(x), axis=-1, kind="stable")


def _complex_order(x: Any, falling: bool) -> Any:
    """By real parts, then by imaginary ones."""
    unknown, zero = np.isnan(x), np.zeros((), x.real.dtype)
    parts = (np.where(unknown, zero, -part if falling else part) for part in (x.imag, x.real))
    return np.lexsort((*parts, unknown), axis=-1)


def turning(dtype: np.dtype[Any]) -> Callable[..., Any]:
    """What turns the order of numbers of this dtype around, and back."""
    return np.invert if dtype.kind in "biu" else np.negative
