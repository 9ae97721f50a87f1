"""Calls with arrays that lie on a device: recorded once as a program, and run where the arrays lie.

What a function does with traced values is what it does here, so nothing is said twice: what cannot be
traced cannot run on a device. Programs are kept by function, dtypes, shapes and settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from .._base.caches import Cache
from .._base.options import get_options
from ..backend.choice import placed
from ..backend.lent import returned
from ..backend.protocol import Backend
from ..backend.spec import ArraySpec
from ..program.executable import Executable
from ..program.passes import optimise
from ..program.trace import Session, Traced

F = TypeVar("F", bound=Callable[..., Any])
_HOST = frozenset((np.ndarray, Traced, type(None), bool, int, float, complex, str))


def on_devices(front: F) -> F:
    """A function that takes arrays of a device as well; they come in its arguments, or in tuples there."""

    @wraps(front)
    def call(*args: Any, **keywords: Any) -> Any:
        given = (*args, *keywords.values()) if keywords else args
        for x in given:
            if type(x) not in _HOST and _may_be_elsewhere(x):
                operands = tuple(_operands(given))
                backend, there = placed(front.__name__, operands)
                if backend is not None:
                    found = _there(front, backend, operands, there, args, keywords)
                    return returned(backend, found, operands)
                break
        return front(*args, **keywords)

    return cast(F, call)


def _there(
    front: Callable[..., Any],
    backend: Backend,
    given: tuple[Any, ...],
    there: tuple[Any, ...],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
) -> Any:
    """The call with arrays of the backend in the place of those that were given."""
    if any(x is not own for x, own in zip(there, given, strict=True)):
        rest = iter(there)  # in the order of `_operands`

        def own(x: Any) -> Any:
            return next(rest) if _is_operand(x) else x

        args = tuple(_mapped(own, x) for x in args)
        keywords = {name: _mapped(own, x) for name, x in keywords.items()}
    return _run(front, backend, there, args, keywords)


def _may_be_elsewhere(x: Any) -> bool:
    if type(x) is tuple:
        return any(type(one) not in _HOST for one in x)
    return hasattr(x, "shape")


def _operands(given: Any) -> Iterator[Any]:
    for x in given:
        if isinstance(x, tuple):
            yield from _operands(x)
        elif _is_operand(x):
            yield x


def _is_operand(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


class _Recorded(NamedTuple):
    """A program, and the result with numbers of its outputs in the place of arrays."""

    run: Executable
    result: Any


_RECORDED: Cache[_Recorded] = Cache("linear algebra on devices", 256)


class _Output(int):
    """The number of an output of a program."""


def _run(
    front: Callable[..., Any],
    backend: Backend,
    operands: tuple[Any, ...],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
) -> Any:
    def described(x: Any) -> Any:
        return (x.dtype, x.shape) if _is_operand(x) else (type(x), x)

    settings = (
        _mapped(described, args),
        tuple((k, _mapped(described, v)) for k, v in keywords.items()),
    )
    key = (front.__module__, front.__qualname__, backend, settings, get_options())
    try:
        found = _RECORDED.get(key)
    except TypeError:  # a setting that cannot be looked up
        return _finished(_recorded(front, backend, args, keywords), operands)
    if found is None:
        found = _RECORDED.put(key, _recorded(front, backend, args, keywords))
    return _finished(found, operands)


def _recorded(
    front: Callable[..., Any], backend: Backend, args: tuple[Any, ...], keywords: dict[str, Any]
) -> _Recorded:
    session, outputs = Session({}), []

    def traced(x: Any) -> Any:
        return session.input(ArraySpec(x.dtype, x.shape)) if _is_operand(x) else x

    def numbered(x: Any) -> Any:
        if not isinstance(x, Traced):
            return x
        outputs.append(session.slot(x, "a result"))
        return _Output(len(outputs) - 1)

    given, named = _mapped(traced, args), {k: _mapped(traced, v) for k, v in keywords.items()}
    result = _mapped(numbered, front(*given, **named))
    return _Recorded(Executable(optimise(session.build.finish(*outputs)), backend), result)


def _finished(recorded: _Recorded, operands: tuple[Any, ...]) -> Any:
    found = recorded.run(*operands)
    outputs = found if isinstance(found, tuple) else (found,)
    return _mapped(lambda x: outputs[x] if type(x) is _Output else x, recorded.result)


def _mapped(change: Callable[[Any], Any], x: Any) -> Any:
    """The same nest of tuples, plain and named, with other leaves."""
    if not isinstance(x, tuple):
        return change(x)
    parts = (_mapped(change, one) for one in x)
    return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
