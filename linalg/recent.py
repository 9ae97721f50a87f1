"""Calls like an earlier one, of one small matrix or a few: straight to the routine that did it.

What a front asks of its arguments, and which way the work goes, follows from the shapes, the dtypes, the
keywords and the options in force. Of calls with plain arrays the answer is kept: a function that returns the
final result, or None where a matrix failed. Then the front starts anew, and says what is to be said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import partial, wraps
from typing import Any, TypeVar, cast

import numpy as np

from .._base.caches import Quick
from .._base.options import Options, get_options
from ..backend.cpu.linalg import few, prepared
from ..backend.cpu.linalg.ways import way
from .operands import NATIVE
from .ops import PINV_RCOND, pseudoinverse
from .results import EighResult, EigResult, LstsqResult, QRResult, SVDResult

Array = np.ndarray[Any, Any]
Run = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])

_RECENT: Quick[tuple[Options | None, Run | None]] = Quick("recent matrices", 1024)
"""By function, shapes, dtypes and keywords: the options, and what to run under them, None for the front."""


def of_matrix(make: Callable[..., Run | None], *flags: str) -> Callable[[F], F]:
    """A front of one operand: calls with a plain array, and no keywords but `flags`, are run by what
    `make` makes."""
    get, array = _RECENT.items.get, np.ndarray

    def decorate(front: F) -> F:
        name = front.__name__

        @wraps(front)
        def remembering(a: Any = _NOTHING, /, *others: Any, **keywords: Any) -> Any:
            if others or type(a) is not array:
                return front(**keywords) if a is _NOTHING else front(a, *others, **keywords)
            key: Any = name, a.shape, a.dtype
            if keywords:
                key = *key, *keywords.items()
            try:
                options, run = get(key, _UNKNOWN)
            except TypeError:  # a keyword that cannot be looked up
                return front(a, **keywords)
            if options is get_options():
                if run is not None and (result := run(a)) is not None:
                    _RECENT.hits += 1
                    return result
                return front(a, **keywords)
            result = front(a, **keywords)
            if _are_flags(keywords, flags):
                _keep(key, make(a, **keywords))
            return result

        return cast(F, remembering)

    return decorate


def of_pair(make: Callable[[Array, Array], Run | None]) -> Callable[[F], F]:
    """A front of two operands: calls with plain arrays, and no keywords."""
    get, array = _RECENT.items.get, np.ndarray

    def decorate(front: F) -> F:
        name = front.__name__

        @wraps(front)
        def remembering(*operands: Any, **keywords: Any) -> Any:
            if keywords or len(operands) != 2:
                return front(*operands, **keywords)
            a, b = operands
            if type(a) is not array or type(b) is not array:
                return front(a, b)
            key = name, a.shape, a.dtype, b.shape, b.dtype
            options, run = get(key, _UNKNOWN)
            if options is get_options():
                if run is not None and (result := run(a, b)) is not None:
                    _RECENT.hits += 1
                    return result
                return front(a, b)
            result = front(a, b)
            _keep(key, make(a, b))
            return result

        return cast(F, remembering)

    return decorate


_NOTHING: Any = object()
_UNKNOWN: tuple[Options | None, Run | None] = (None, None)


def _keep(key: Hashable, run: Run | None) -> None:
    _RECENT.misses += 1
    _RECENT.put(key, (get_options(), run))


def _are_flags(keywords: dict[str, Any], names: tuple[str, ...]) -> bool:
    for word, value in keywords.items():
        if word not in names or not (value is True or value is False):
            return False
    return True


def solve(a: Array, b: Array) -> Run | None:
    """x of a x = b."""
    if b.ndim == 1 and a.ndim == 2:
        column = solve(a, b[:, None])
        if column is None:
            return None

        def of_vector(a: Array, b: Array) -> Any:
            x = column(a, b[:, None])
            return None if x is None else x[:, 0]

        return of_vector
    if _is_single("solve", a, b):
        return _unless_failed(prepared.solve(a.dtype.char))
    return _of_few("solve", few.solve, a, b)


def inv(a: Array) -> Run | None:
    """The inverse."""
    if _is_single("inv", a):
        return _unless_failed(prepared.inv(len(a), a.dtype.char))
    return _of_few("inv", few.inv, a)


def det(a: Array) -> Run | None:
    """A number, whatever the matrix."""
    if _is_single("det", a):
        return prepared.det(len(a), a.dtype.char)
    return _of_few("det", partial(few.det, a.shape[-1]), a)


def cholesky(a: Array) -> Run | None:
    """The lower factor."""
    if _is_single("cholesky", a):
        return _unless_failed(prepared.cholesky(a.dtype.char, True))
    return _of_few("cholesky", few.cholesky, a)


def lu_factor(a: Array) -> Run | None:
    """(lu, piv), of singular matrices too."""
    if _is_single("lu", a):
        run = prepared.lu(a.dtype.char)
        return lambda a: run(a)[:2]
    return _of_few("lu", partial(few.lu, *a.shape[-2:]), a)


def qr(a: Array) -> Run | None:
    """QRResult of the mode "reduced"."""
    if _is_single("qr", a):
        return _named(QRResult, prepared.qr(*a.shape, a.dtype.char))
    return _named(QRResult, _of_few("qr", few.qr, a))


def eigh(a: Array) -> Run | None:
    """EighResult by the lower triangle."""
    if not _is_single("eigh", a):
        return _named(EighResult, _of_few("eigh", few.eigh, a))
    run = prepared.eigh(a.dtype.char, True, True)

    def quick(a: Array) -> Any:
        w, v, info = run(a)
        return None if info else _new(EighResult, (w, v))

    return quick


def svd(a: Array, full_matrices: bool = True) -> Run | None:
    """SVDResult."""
    if not _is_single("svd", a):
        return _named(SVDResult, _of_few("svd", lambda char: few.svd(char, full_matrices), a))
    run = prepared.svd(*a.shape, a.dtype.char, full_matrices, True)

    def quick(a: Array) -> Any:
        u, s, vh, info = run(a)
        return None if info else _new(SVDResult, (u, s, vh))

    return quick


def eig(a: Array) -> Run | None:
    """EigResult; a matrix that is not finite is one that failed."""
    if not _is_single("eig", a):
        return _named(EigResult, _of_few("eig", few.eig, a))
    char = a.dtype.char
    if char in "dD" and (double := prepared.double_eig(len(a), char)) is not None:
        return _named(EigResult, double)
    run = prepared.eig(len(a), char, True)

    def quick(a: Array) -> Any:
        w, _, v, info = run(a)
        return None if info else _new(EigResult, (w, v))

    return quick


def pinv(a: Array) -> Run | None:
    """The pseudoinverse, by the default bound."""
    run = svd(a, False)
    if run is None:
        return None

    def quick(a: Array) -> Any:
        found = run(a)
        if found is None:
            return None
        u, s, vh = found
        return pseudoinverse(u, s, vh, PINV_RCOND)

    return quick


def lstsq(a: Array, b: Array) -> Run | None:
    """LstsqResult of a batch, by the default bound."""
    return _named(LstsqResult, _of_few("lstsq", partial(few.lstsq, *a.shape[-2:]), a, b))


# ---- helpers -------------------------------------------------------------------------------------


def _are_alike(*arrays: Array) -> bool:
    """Matrices of one dtype that LAPACK has, as many of each, none without elements."""
    batch, dtype = arrays[0].shape[:-2], arrays[0].dtype
    for x in arrays:
        if x.ndim < 2 or x.shape[:-2] != batch or x.dtype != dtype or not x.size:
            return False
    return dtype in NATIVE


def _is_single(op: str, *arrays: Array) -> bool:
    return arrays[0].ndim == 2 and _are_alike(*arrays) and way(op, *arrays) == "single"


def _of_few(op: str, make: Callable[[str], Run | None], *arrays: Array) -> Run | None:
    """What `make` makes for a dtype, for a batch that is left to NumPy."""
    a = arrays[0]
    if a.ndim < 3 or not _are_alike(*arrays) or math.prod(a.shape[:-2]) > few.MOST:
        return None
    if way(op, *arrays) != "plain":
        return None
    run = make(a.dtype.char)
    return run if run is None or a.ndim == 3 else few.stacked(run)


def _unless_failed(run: Run) -> Run:
    def quick(*arrays: Array) -> Any:
        x, info = run(*arrays)
        return None if info else x

    return quick


_new: Any = tuple.__new__  # of a named tuple, in half of its own time


def _named(kind: type, run: Run | None) -> Run | None:
    if run is None:
        return None

    def quick(*arrays: Array) -> Any:
        found = run(*arrays)
        return None if found is None else _new(kind, found)

    return quick
