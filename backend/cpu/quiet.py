"""NumPy's loops over numbers without its warnings, which would come from nowhere.

`np.errstate` takes 1 µs to enter and to leave, a third of a product of a few small matrices. What it changes
is a context variable, so a context of our own in which warnings are off does the same in half of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVar

import numpy as np

_HAS_CONTEXT = (
    np.lib.NumpyVersion(np.__version__) >= "2.0.0"
)  # before, it is a variable of a thread
T = TypeVar("T")


def _quiet() -> Context:
    """A context without warnings. It is entered for ever: `np.seterr` in it would do the same, in four times
    as long."""
    context = Context()
    context.run(np.errstate(all="ignore").__enter__)
    return context


# only one call at a time can be inside each; the first call of all need not make its own
_IDLE = [_quiet()] if _HAS_CONTEXT else []


def fill(ufunc: Any, left: Any, right: Any, out: Any) -> None:
    """ufunc(left, right, out=out), of numbers or of objects. What `quietly` does is repeated here: to call it
    takes as long as to change contexts, and both a third of a product of a few numbers."""
    if out.dtype.hasobject or not _HAS_CONTEXT:
        with np.errstate(all="ignore"):
            ufunc(left, right, out)
        return
    try:
        context = _IDLE.pop()
    except IndexError:
        context = _quiet()
    try:
        context.run(ufunc, left, right, out)
    finally:
        _IDLE.append(context)


def quietly(function: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
    """function(*arguments, **keywords), which calls nobody's Python code: other context variables have their
    defaults inside, and objects, whose arithmetic may ask for them, are for `np.errstate`.

    >>> print(quietly(np.multiply, 1e200, 1e200))
    inf
    """
    if not _HAS_CONTEXT:
        with np.errstate(all="ignore"):
            return function(*arguments, **keywords)
    try:
        context = (
            _IDLE.pop()
        )  # no other thread finds it meanwhile, nor a destructor that runs inside
    except IndexError:
        context = _quiet()
    try:
        return context.run(function, *arguments, **keywords)
    finally:
        _IDLE.append(context)
