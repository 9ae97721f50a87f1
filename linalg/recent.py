"""Calls like an earlier one, of one small matrix or a few: straight to the routine that did it.

What a front asks of its arguments, and which way the work goes, follows from the shapes, the dtypes, the
keywords and the options in force. Of calls with plain arrays the answer is kept: a function that returns the
final result, or None where a matrix failed. Then the front starts anew, and says what is to be said.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from .._base.caches import Quick
from .._base.options import Options, get_options
from ..backend.cpu.linalg import plain
from ..backend.cpu.linalg.plain import GOOD
from ..backend.cpu.linalg.ways import module, way
from .failures import any_failed
from .operands import NATIVE
from .results import EighResult, EigResult, QRResult, SVDResult

Array = np.ndarray[Any, Any]
Run = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])

_RECENT: Quick[tuple[Options, Run | None]] = Quick("recent matrices", 1024)
"""By function, shapes, dtypes and keywords: the options, and what to run under them, None for the front."""


def remembering(make: Callable[..., Run | None], *names: str) -> Callable[[F], F]:
    """A front whose calls with plain arrays, and no keywords but `names`, are run by what `make` makes."""
    items = _RECENT.items

    def decorate(front: F) -> F:
        name = front.__name__

        @wraps(front)
        def remembering(*operands: Any, **keywords: Any) -> Any:
            key: Any = None
            if len(operands) == 1:
                (a,) = operands
                if type(a) is np.ndarray:
                    key = name, a.shape, a.dtype
            elif len(operands) == 2:
                a, b = operands
                if type(a) is np.ndarray and type(b) is np.ndarray:
                    key = name, a.shape, a.dtype, b.shape, b.dtype
            if keywords and key is not None:
                key = (*key, *keywords.items()) if names and _are_flags(keywords, names) else None
            if key is None:
                return front(*operands, **keywords)
            recent = items.get(key)
            if recent is not None and recent[0] is get_options():
                run = recent[1]
                if run is None:
                    return front(*operands, **keywords)
                result = run(*operands)
                if result is not None:
                    _RECENT.hits += 1
                    return result
                return front(*operands, **keywords)
            _RECENT.misses += 1
            result = front(*operands, **keywords)
            _RECENT.put(key, (get_options(), make(*operands, **keywords)))
            return result

        return cast(F, remembering)

    return decorate


def _are_flags(keywords: dict[str, Any], names: tuple[str, ...]) -> bool:
    for word, value in keywords.items():
        if word not in names or not (value is True or value is False):
            return False
    return True


def _single(op: str, *arrays: Array) -> Any:
    """The routine of one small matrix, None where another way is taken."""
    dtype = arrays[0].dtype
    if any(x.ndim != 2 or x.dtype != dtype for x in arrays):
        return None
    if dtype not in NATIVE or way(op, *arrays) != "single":
        return None
    return getattr(module(op, *arrays), op)


def _good(info: Any) -> bool:
    return info is GOOD or not any_failed(info)


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
    run = _single("solve", a, b)
    if run is None:
        return _solve_few(a, b)

    def of_matrix(a: Array, b: Array) -> Any:
        x, info = run(a, b)
        return x if _good(info) else None

    return of_matrix


def _solve_few(a: Array, b: Array) -> Run | None:
    """Of a batch that is left to NumPy."""
    alike = a.dtype in NATIVE and a.dtype == b.dtype and a.shape[:1] == b.shape[:1]
    if not alike or a.ndim != 3 or b.ndim != 3 or way("solve", a, b) != "plain" or not b.size:
        return None
    return plain.few_solver(a.dtype.char)


def matrix(op: str) -> Callable[[Array], Run | None]:
    """For functions whose result is one array, and may fail."""

    def make(a: Array) -> Run | None:
        run = _single(op, a)
        if run is None:
            return None

        def quick(a: Array) -> Any:
            x, info = run(a)
            return x if _good(info) else None

        return quick

    return make


def det(a: Array) -> Run | None:
    """A number, whatever the matrix."""
    run = _single("det", a)
    if run is None or a.dtype.char in "fF":
        return None
    return lambda a: run(a)[()]  # of tiny matrices the routine gives an array without axes


def lu_factor(a: Array) -> Run | None:
    """(lu, piv), of singular matrices too."""
    run = _single("lu", a)
    return None if run is None else lambda a: run(a)[:2]


def qr(a: Array) -> Run | None:
    """QRResult of the mode "reduced"."""
    run = _single("qr", a)
    return None if run is None else lambda a: QRResult(*run(a, "reduced"))


def eigh(a: Array) -> Run | None:
    """EighResult by the lower triangle."""
    run = _single("eigh", a)
    if run is None:
        return None

    def quick(a: Array) -> Any:
        w, v, info = run(a)
        return EighResult(w, v) if _good(info) else None

    return quick


def svd(a: Array, full_matrices: bool = True) -> Run | None:
    """SVDResult."""
    run = _single("svd", a)
    if run is None:
        return None

    def quick(a: Array) -> Any:
        u, s, vh, info = run(a, full_matrices)
        return SVDResult(u, s, vh) if _good(info) else None

    return quick


def eig(a: Array) -> Run | None:
    """EigResult; a matrix that is not finite is one that failed."""
    run = _single("eig", a)
    if run is None:
        return None

    def quick(a: Array) -> Any:
        w, _, v, info = run(a)
        return EigResult(w, v) if _good(info) else None

    return quick
