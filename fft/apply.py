"""One transform of an array, from what the caller wrote to the backend's call."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from .._base.errors import ShapeError
from .._base.options import num_threads
from ..backend.choice import placed
from ..backend.cpu.fft import TINY, Kind, Transform, transform
from ..backend.door import is_torch, to_torch
from ..backend.lent import returned
from ..functions.values import evaluated
from ..program.trace import Session, Traced
from . import engine, traced
from .arguments import (
    checked_out,
    fitted,
    length,
    norm_code,
    numbers,
    position,
    positions,
    real,
    threads_of,
)
from .plans import check_plan

ndarray = np.ndarray


def along_one(
    call: str,
    kind: Kind,
    forward: bool,
    x: Any,
    n: Any,
    axis: Any,
    norm: Any,
    overwrite_x: bool,
    workers: Any,
    plan: Any,
    out: Any,
    type_: int = 2,
    orthogonalize: Any = None,
) -> Any:
    """A transform along one axis."""
    backend = engine.current()
    if backend is not None or type(x) is not ndarray:
        elsewhere = _elsewhere(backend, call, x, n, axis, norm, overwrite_x, workers, plan, out, type_,
                               orthogonalize)  # fmt: skip
        if elsewhere is not None:
            return elsewhere[0]
    a, mine = numbers(x, call)
    k = axis if type(axis) is int and 0 <= axis < a.ndim else position(axis, a.ndim, call)
    size = a.shape[k]
    last = 0
    if kind == "c2r":
        last = 2 * (size - 1) if n is None else n
        if n is not None or last < 1:
            last = length(last, call)
        n = last // 2 + 1
        if a.dtype.kind != "c":
            a = a + 0j
    elif kind == "r2c":
        real(a, call)
    if n is None:
        if size < 1:
            length(size, call)
    elif type(n) is not int or n != size or n < 1:
        a, copied = fitted(a, (k,), (length(n, call),))
        mine = mine or copied
    code = 0 if norm is None else norm_code(norm, True, call)
    if kind == "dct" and type_ == 1 and a.shape[k] < 2:
        _no_step(call)
    what = Transform(kind, forward, code if forward else 2 - code, last, type_, orthogonalize)
    if plan is not None:
        check_plan(plan, what, a, (k,), call)
    threads = num_threads() if workers is None else threads_of(workers, call)
    return _run(call, what, x, a, (k,), mine or overwrite_x, threads, out)


def along_many(
    call: str,
    kind: Kind,
    forward: bool,
    x: Any,
    s: Any,
    axes: Any,
    norm: Any,
    overwrite_x: bool,
    workers: Any,
    plan: Any,
    out: Any,
    type_: int = 2,
    orthogonalize: Any = None,
) -> Any:
    """A transform along several axes."""
    backend = engine.current()
    if backend is not None or type(x) is not ndarray:
        elsewhere = _elsewhere(backend, call, x, s, axes, norm, overwrite_x, workers, plan, out, type_,
                               orthogonalize)  # fmt: skip
        if elsewhere is not None:
            return elsewhere[0]
    a, mine = numbers(x, call)
    which, lengths = positions(s, axes, a.shape, call)
    threads = threads_of(workers, call)
    code = norm_code(norm, forward, call)
    last = 0
    if kind == "r2c":
        real(a, call)
    if not which:
        return _along_none(call, kind, x, a, out)
    if kind == "c2r":
        last = lengths[-1] if s is not None else 2 * (lengths[-1] - 1)
        length(last, call)
        lengths = (*lengths[:-1], last // 2 + 1)
        if a.dtype.kind != "c":
            a = a + 0j
    if any(n < 1 for n in lengths):
        raise ShapeError(
            f"{call}: invalid number of data points ({list(lengths)}) specified; a transform has at "
            f"least one along each axis"
        )
    if kind == "dct" and type_ == 1 and min(lengths) < 2:
        _no_step(call)
    a, copied = fitted(a, which, lengths)
    what = Transform(kind, forward, code, last, type_, orthogonalize)
    if plan is not None:
        check_plan(plan, what, a, which, call)
    return _run(call, what, x, a, which, mine or copied or overwrite_x, threads, out)


def _no_step(call: str) -> NoReturn:
    raise ShapeError(
        f"{call}(type=1): a cosine transform of type 1 has at least two points, both ends"
    )


def _along_none(call: str, kind: Kind, x: Any, a: Any, out: Any) -> Any:
    """Along no axis a transform is the identity, as in SciPy; a half spectrum has no meaning then."""
    if kind in ("r2c", "c2r"):
        raise ShapeError(f"{call}(axes=()): at least 1 axis must be transformed")
    if out is None:
        return x
    np.copyto(checked_out(out, a.shape, a.dtype, a, call), a)
    return out


def _run(
    call: str, what: Transform, x: Any, a: Any, axes: Any, is_free: bool, threads: int, out: Any
) -> Any:
    if out is not None:
        out = checked_out(out, *what.result(a.shape, a.dtype, axes), a, call)
        if what.kind in ("r2c", "c2r") and np.may_share_memory(out, a):
            a = a.copy()  # of shape (n, 1), say, and n odd: the same place, but another meaning
    elif is_free and _serves(what, a):
        out = a
    if what.kind in ("dct", "dst") and a.dtype.kind == "c":
        out = np.empty_like(a) if out is None else out
        transform(what, a.real, axes, out.real, threads)
        transform(what, a.imag, axes, out.imag, threads)
    elif a.size < TINY:
        out = what.call(a, axes, out)
    else:
        out = transform(what, a, axes, out, threads)
    return to_torch(out) if type(x) is not ndarray and is_torch(x) else out


def _serves(what: Transform, a: Any) -> bool:
    """Whether the result may be written over the operand."""
    kinds = "c" if what.kind == "c2c" else "fc" if what.kind in ("dct", "dst") else ""
    return a.dtype.kind in kinds and a.flags.writeable and 0 not in a.strides


def _elsewhere(
    backend: Any,
    call: str,
    x: Any,
    n: Any,
    axis: Any,
    norm: Any,
    overwrite_x: bool,
    workers: Any,
    plan: Any,
    out: Any,
    type_: int,
    orthogonalize: Any,
) -> tuple[Any] | None:
    """The result of a traced value, or of another engine, where these are asked; else None."""
    if isinstance(x, Traced):
        traced.check_plain(call, overwrite_x, out, plan)
        return (traced.transformed(call, x, n, axis, norm, type_, orthogonalize),)
    if backend is None:
        there, operands = placed(call, (x,))
        if there is None:
            return None
        traced.check_plain(call, overwrite_x, out, plan)
        settings = (call, _hashable(n), _hashable(axis), norm, type_, orthogonalize)
        return (returned(there, evaluated(_on_device, operands, *settings), (x,)),)
    real_kind = call.lstrip("i")[:3] in ("dct", "dst")
    many = call.endswith(("n", "2"))
    keywords = {"s" if many else "n": n, "axes" if many else "axis": axis, "norm": norm}
    keywords |= {"overwrite_x": overwrite_x, "workers": workers}
    keywords |= {"type": type_, "orthogonalize": orthogonalize} if real_kind else {"plan": plan}
    result = engine.call(backend, call, numbers(x, call)[0], keywords)
    if out is None:
        return (result,)
    np.copyto(checked_out(out, result.shape, result.dtype, x, call), result)
    return (out,)


def _hashable(sizes: Any) -> Any:
    return tuple(sizes) if isinstance(sizes, list) else sizes


def _on_device(
    session: Session, x: Traced, call: str, n: Any, axis: Any, norm: Any, type_: int, ortho: Any
) -> Traced:
    """What is recorded of an array that lies on a device."""
    return traced.transformed(call, x, n, axis, norm, type_, ortho)
