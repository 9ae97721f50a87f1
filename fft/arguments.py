"""What the caller wrote: arrays, lengths, axes, norms, workers and `out`, checked and in one form."""

from __future__ import annotations

import os
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from .._base.errors import (
    CallError,
    ConversionError,
    DTypeError,
    OptionError,
    ShapeError,
)
from .._base.options import num_threads
from ..backend.cpu.buffers import empty
from ..backend.door import as_ndarray
from ..backend.spec import Axes, Shape, dtype_name

NORMS: dict[str | None, int] = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
READY = frozenset("fdgFDG")
WIDENED = {"float16": np.float32, "bfloat16": np.float32}


def numbers(x: Any, call: str) -> tuple[np.ndarray[Any, Any], bool]:
    """x as an aligned array of native float or complex numbers, and whether that is a copy of ours."""
    if type(x) is not np.ndarray:
        was = x
        x = as_ndarray(x, call, 0)
        mine = not hasattr(was, "__array_interface__") and not hasattr(was, "__dlpack__")
    else:
        mine = False
    if x.dtype.char in READY and x.dtype.isnative:
        return (x, mine) if x.flags.aligned else (x.copy(), True)
    return x.astype(_float_of(x, call)), True


def _float_of(x: np.ndarray[Any, Any], call: str) -> Any:
    """The dtype in which an array of another one is computed."""
    kind, name = x.dtype.kind, x.dtype.name
    if kind in "fc":
        return WIDENED.get(name, x.dtype.newbyteorder("="))
    if kind in "biu":
        return np.float64
    if name in WIDENED:
        return WIDENED[name]
    if kind == "O":
        try:
            found = np.result_type(np.float64, *{type(value) for value in x.flat})
        except TypeError:
            found = x.dtype
        if found.kind in "fc":
            return found
    raise DTypeError(
        f"{call}: x of dtype {dtype_name(x.dtype)} is no array of numbers; convert it first, "
        f"x.astype(float)"
    )


def real(x: np.ndarray[Any, Any], call: str) -> np.ndarray[Any, Any]:
    if x.dtype.kind == "c":
        raise DTypeError(
            f"{call}: x must be a real sequence, its dtype is {x.dtype}; pass x.real, or use fft"
        )
    return x


# ---- axes and lengths -------------------------------------------------------------------------


def position(axis: Any, ndim: int, call: str) -> int:
    """One axis, counted from the front."""
    try:
        k = index(axis)
    except TypeError:
        raise CallError(f"{call}(axis={axis!r:.40}): give an integer") from None
    if not -ndim <= k < ndim:
        raise ShapeError(f"{call}(axis={axis}): x has {ndim} axes; give {-ndim} to {ndim - 1}")
    return k + ndim if k < 0 else k


def positions(s: Any, axes: Any, shape: Shape, call: str) -> tuple[Axes, tuple[Any, ...]]:
    """The axes to transform, counted from the front and distinct, and the length asked for along each.

    Without `axes` they are the last len(s), or all; -1 in `s` is the length that x has.
    """
    ndim = len(shape)
    lengths = None if s is None else integers(s, "s", call)
    if axes is None:
        count = ndim if lengths is None else len(lengths)
        if count > ndim:
            raise ShapeError(
                f"{call}(s={s!r:.60}): s is a shape that requires more axes than are present; "
                f"x has {ndim}"
            )
        given: Axes = tuple(range(ndim - count, ndim))
    else:
        given = integers(axes, "axes", call)
        if any(not -ndim <= axis < ndim for axis in given):
            raise ShapeError(
                f"{call}(axes={axes!r:.60}): axes exceeds dimensionality of input; x has {ndim} axes"
            )
        given = tuple(axis + ndim if axis < 0 else axis for axis in given)
        if len(set(given)) != len(given):
            raise ShapeError(f"{call}(axes={axes!r:.60}): all axes must be unique")
    if lengths is None:
        return given, tuple(shape[axis] for axis in given)
    if len(lengths) != len(given):
        raise ShapeError(
            f"{call}: when given, axes and shape arguments have to be of the same length, "
            f"got s={s!r:.40} and axes={axes!r:.40}"
        )
    pairs = zip(lengths, given, strict=True)
    return given, tuple(shape[axis] if n == -1 else n for n, axis in pairs)


def integers(values: Any, name: str, call: str) -> tuple[int, ...]:
    try:
        several = (values,) if np.ndim(values) == 0 else tuple(values)
        return tuple(index(value) for value in several)
    except (TypeError, ValueError):  # ValueError: NumPy's, of nested sequences
        raise OptionError(
            f"{call}({name}={values!r:.60}): {name} must be a scalar or iterable of integers"
        ) from None


def length(n: Any, call: str) -> int:
    """A length >= 1."""
    try:
        n = index(n)
    except TypeError:
        raise CallError(f"{call}(n={n!r:.40}): give an integer >= 1") from None
    if n < 1:
        raise ShapeError(
            f"{call}: invalid number of data points ({n}) specified; a transform has at least one"
        )
    return n


def fitted(
    x: np.ndarray[Any, Any], axes: Sequence[int], lengths: Sequence[int]
) -> tuple[np.ndarray[Any, Any], bool]:
    """x cut or padded with zeros to these lengths, and whether that is a copy."""
    shape = list(x.shape)
    if all(shape[axis] == n for axis, n in zip(axes, lengths, strict=True)):
        return x, False
    inside = [slice(None)] * x.ndim
    for axis, n in zip(axes, lengths, strict=True):
        inside[axis] = slice(0, min(n, shape[axis]))
        shape[axis] = n
    kept = x[tuple(inside)]
    if kept.shape == tuple(shape):
        return kept, False
    padded = empty(tuple(shape), x.dtype)
    for axis, n in zip(axes, lengths, strict=True):  # each zero is written once
        if n > kept.shape[axis]:
            edge = [*inside]
            edge[axis] = slice(kept.shape[axis], None)
            padded[tuple(edge)] = 0
            inside[axis] = slice(None)
    padded[tuple(slice(0, m) for m in kept.shape)] = kept
    return padded, True


# ---- options ----------------------------------------------------------------------------------


def norm_code(norm: Any, forward: bool, call: str) -> int:
    """0, 1, 2 for division by 1, sqrt(N), N in this direction."""
    try:
        code = NORMS[norm]
    except (KeyError, TypeError):
        raise OptionError(
            f"{call}(norm={norm!r:.40}): Invalid norm value; it should be "
            f'"backward", "ortho" or "forward"'
        ) from None
    return code if forward else 2 - code


def threads_of(workers: Any, call: str) -> int:
    """How many threads: those of the options where nothing is asked; -1 is as many as there are CPUs."""
    if workers is None:
        return num_threads()
    try:
        workers = index(workers)
    except TypeError:
        raise CallError(f"{call}(workers={workers!r:.40}): give an integer") from None
    cpus = os.cpu_count() or 1
    if workers == 0:
        raise OptionError(f"{call}(workers=0): workers must not be zero; -1 means all {cpus} CPUs")
    if workers < -cpus:
        raise OptionError(
            f"{call}: workers value out of range; got {workers}, must not be less than {-cpus}"
        )
    return workers + 1 + cpus if workers < 0 else workers


def checked_out(
    out: Any, shape: Shape, dtype: np.dtype[Any], x: np.ndarray[Any, Any], call: str
) -> Any:
    """`out` fits the result, can be written, and overlaps x only where it is x."""
    if type(out) is not np.ndarray:
        raise ConversionError(
            f"{call}(out=...): out is a {type(out).__name__}; pass a numpy.ndarray"
        )
    if out.shape != shape:
        raise ShapeError(f"{call}(out=...): out has shape {out.shape}, the result {shape}")
    if out.dtype != dtype or not out.dtype.isnative:
        raise DTypeError(f"{call}(out=...): out has dtype {out.dtype.str}, the result {dtype.str}")
    if not out.flags.writeable or not out.flags.aligned:
        raise CallError(f"{call}(out=...): out cannot be written in place; pass an array that can")
    if is_same(out, x):
        return out
    if np.may_share_memory(out, x):
        raise CallError(f"{call}(out=...): out overlaps x; pass x itself, or other memory")
    return out


def is_same(x: Any, y: Any) -> bool:
    """Whether two arrays are the same elements in the same order."""
    return bool(
        x.shape == y.shape
        and x.strides == y.strides
        and x.dtype == y.dtype
        and x.__array_interface__["data"][0] == y.__array_interface__["data"][0]
    )
