"""Calls with arrays that lie on a device: recorded once as a program, and run where the arrays lie.

What a function does with traced values is what it does here, so nothing is said twice: what cannot be
traced cannot run on a device. Programs are kept by function, dtypes, shapes and settings. A call like an
earlier one, of nothing but arrays of the device and plain settings, goes straight to what ran that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, wraps
from operator import itemgetter
from typing import Any, TypeVar, cast

import numpy as np

from .._base.caches import Cache, Quick
from .._base.errors import LinAlgError
from .._base.options import Options, get_options
from ..backend.choice import FINDERS, placed
from ..backend.lent import returned
from ..backend.protocol import Backend
from ..backend.spec import ArraySpec
from ..program.executable import Executable
from ..program.passes import optimise
from ..program.trace import Session, Traced
from .op import OPS

F = TypeVar("F", bound=Callable[..., Any])
Run = Callable[..., Any]
_PLAIN = frozenset((type(None), bool, int, float, complex, str))
_HOST = _PLAIN | {np.ndarray, Traced}

_RECENT: Quick[tuple[Options | None, Run]] = Quick("recent matrices on devices", 1024)
"""By function, devices, dtypes, shapes and settings: the options, and what to run under them."""


def on_devices(front: F) -> F:
    """A function that takes arrays of a device as well; they come in its arguments, or in tuples there."""
    get = _RECENT.items.get

    @wraps(front)
    def call(*args: Any, **keywords: Any) -> Any:
        given = (*args, *keywords.values()) if keywords else args
        for x in given:
            if type(x) not in _HOST and _may_be_elsewhere(x):
                key, arrays = _told(front, args, keywords)
                options, run = get(key, _UNKNOWN)
                if options is get_options():
                    _RECENT.hits += 1
                    return run(*arrays)
                operands = tuple(_operands(given))
                backend, there = placed(front.__name__, operands)
                if backend is not None:
                    run = _program(front, backend, operands, there, args, keywords)
                    found = run(*there)
                    if key is not None:
                        _RECENT.misses += 1
                        _RECENT.put(key, (get_options(), run))
                    return returned(backend, found, operands)
                break
        return front(*args, **keywords)

    return cast(F, call)


def _unknown(*arrays: Any) -> Any:
    raise AssertionError("there are options, always")


_UNKNOWN: tuple[Options | None, Run] = (None, _unknown)


def _told(
    front: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Any, list[Any]]:
    """What a call is looked up by, and its arrays; None where an argument is neither plain nor an array of
    a backend. Types go along with settings: 1, 1.0 and True are equal."""
    key: list[Any] = [front]
    arrays: list[Any] = []
    for x in args:
        kind: Any = type(x)
        find = FINDERS.get(kind)
        if find is not None:
            arrays.append(x)
            key += (find(x), x.dtype, x.shape)
        elif kind in _PLAIN:
            key += (kind, x)
        else:
            return None, arrays
    for name, value in keywords.items():
        kind = type(value)
        if kind not in _PLAIN:
            return None, arrays
        key += (name, kind, value)
    return tuple(key), arrays


def _program(
    front: Callable[..., Any],
    backend: Backend,
    given: tuple[Any, ...],
    there: tuple[Any, ...],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
) -> Run:
    """What runs the call, with arrays of the backend in the place of those that were given."""
    if any(x is not own for x, own in zip(there, given, strict=True)):
        rest = iter(there)  # in the order of `_operands`

        def own(x: Any) -> Any:
            return next(rest) if _is_operand(x) else x

        args = tuple(_mapped(own, x) for x in args)
        keywords = {name: _mapped(own, x) for name, x in keywords.items()}
    return _kept(front, backend, args, keywords)


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


_RECORDED: Cache[Run] = Cache("linear algebra on devices", 256)


class _Output(int):
    """The number of an output of a program."""


def _kept(
    front: Callable[..., Any], backend: Backend, args: tuple[Any, ...], keywords: dict[str, Any]
) -> Run:
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
        return _recorded(front, backend, args, keywords)
    return found or _RECORDED.put(key, _recorded(front, backend, args, keywords))


def _recorded(
    front: Callable[..., Any], backend: Backend, args: tuple[Any, ...], keywords: dict[str, Any]
) -> Run:
    """The front's program, and what makes its result of the outputs."""
    session, outputs = Session({}), []

    def traced(x: Any) -> Any:
        return session.input(ArraySpec(x.dtype, x.shape)) if _is_operand(x) else x

    def numbered(x: Any) -> Any:
        if not isinstance(x, Traced):
            return x
        outputs.append(session.slot(x, "a result"))
        return _Output(len(outputs) - 1)

    given, named = _mapped(traced, args), {k: _mapped(traced, v) for k, v in keywords.items()}
    finish = _finishing(_mapped(numbered, front(*given, **named)))
    executable = Executable(optimise(session.build.finish(*outputs)), backend)
    direct = _direct(executable) or executable

    def run(*operands: Any) -> Any:
        try:
            found = direct(*operands)
        except LinAlgError as error:
            raise _named(error, front.__name__) from None
        return finish(found if isinstance(found, tuple) else (found,))

    return run


def _named(error: LinAlgError, name: str) -> LinAlgError:
    """The error of an op in the words of the function that was called."""
    op, colon, said = str(error).partition(": ")
    if not colon or not op.isidentifier():
        return error
    return type(error)(f"{name}: {said}", error.info, error.failed)


def _direct(executable: Executable) -> Callable[..., tuple[Any, ...]] | None:
    """The runtime itself of an op of ours, where the program is nothing but one. It takes the backend, which
    is known, and its outputs are what the op's rule says."""
    program, backend = executable.program, executable.backend
    if len(program.instructions) != 1 or backend.name != "gpu":
        return None
    (ins,) = program.instructions
    op = None if ins.family is None else OPS.get(ins.family)
    if op is None or (ins.inputs, ins.outputs) != (program.inputs, program.outputs):
        return None
    from .ops_on_device import run_there  # what runs on the host needs none of it

    return partial(run_there, op, backend, ins.attrs)


def _finishing(result: Any) -> Callable[[tuple[Any, ...]], Any]:
    """What puts outputs in the places of their numbers."""
    if type(result) is _Output:
        return itemgetter(int(result))
    are_outputs = isinstance(result, tuple) and all(type(x) is _Output for x in result)
    if are_outputs and result == tuple(range(len(result))):
        return partial(tuple.__new__, type(result)) if hasattr(result, "_fields") else tuple
    return lambda outputs: _mapped(lambda x: outputs[x] if type(x) is _Output else x, result)


def _mapped(change: Callable[[Any], Any], x: Any) -> Any:
    """The same nest of tuples, plain and named, with other leaves."""
    if not isinstance(x, tuple):
        return change(x)
    parts = (_mapped(change, one) for one in x)
    return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
